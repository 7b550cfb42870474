"""jitgraph: a tracing JIT compiler with a static-graph IR for NumPy-style tensor programs.

Names load their modules when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

__version__ = "0.1.0"

# the constants of the Array API
e: Final = 2.718281828459045
pi: Final = 3.141592653589793
inf: Final = float("inf")
nan: Final = float("nan")
newaxis: Final = None

_SUBMODULES: Final = frozenset(
    [
        "autograd",
        "codegen",
        "compiler",
        "config",
        "data",
        "dtypes",
        "eager",
        "errors",
        "frontend",
        "functions",
        "indexing",
        "ir",
        "lifting",
        "location",
        "nn",
        "ops",
        "optim",
        "passes",
        "random",
        "special",
        "runtime",
        "tensor",
        "tree",
    ]
)

_NAMES: Final[dict[str, str]] = {  # name -> module, or module:attribute where it is called otherwise there
    "Tensor": "jitgraph.tensor",
    "Generator": "jitgraph.random",
    "trace": "jitgraph.frontend",
    "script": "jitgraph.frontend.script",
    "explain": "jitgraph.frontend",
    "TensorSpec": "jitgraph.frontend",
    "cond": "jitgraph.frontend",
    "while_loop": "jitgraph.frontend",
    "scan": "jitgraph.frontend",
    "save": "jitgraph.saved",
    "load": "jitgraph.saved",
    "no_grad": "jitgraph.autograd",
    "enable_grad": "jitgraph.autograd",
    "set_grad_enabled": "jitgraph.autograd",
    "detect_anomaly": "jitgraph.autograd",
    "grad": "jitgraph.autograd.transforms",
    "value_and_grad": "jitgraph.autograd.transforms",
    "vjp": "jitgraph.autograd.transforms",
    "jvp": "jitgraph.autograd.transforms",
    "jacobian": "jitgraph.autograd.transforms",
    "hessian": "jitgraph.autograd.transforms",
    "bool": "jitgraph.dtypes:bool_",
    **dict.fromkeys(
        ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"), "jitgraph.dtypes"
    ),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), "jitgraph.dtypes"),
    **dict.fromkeys(
        (
            "AnomalyError",
            "ArgumentError",
            "CompileError",
            "DTypeError",
            "DeviceError",
            "GraphError",
            "JitgraphError",
            "LoadError",
            "ScriptError",
            "ShapeError",
            "TraceError",
            "UnsupportedOp",
        ),
        "jitgraph.errors",
    ),
}


_HABITS: Final[dict[str, str]] = {  # names of others, and what to write here
    "array": "jg.asarray",
    "as_tensor": "jg.asarray",
    "cat": "jg.concat",
    "from_numpy": "jg.asarray",
    "manual_seed": "jg.random.seed",
    "mm": "x @ y",
    "bmm": "x @ y",
    "permute": "jg.permute_dims",
    "rand": "jg.random.uniform(shape)",
    "randint": "jg.random.randint",
    "randn": "jg.random.normal(shape)",
    "randperm": "jg.random.permutation",
}

_PLANNED: Final[dict[str, str]] = {  # names of the public API that later versions bring, and what serves until then
    "amp": "cast with x.astype(jg.bfloat16)",
    "cache": "compiled functions are kept for the life of the process; f.cache_clear() forgets them",
    "checkpoint": "memory of a traced step is saved by its own rematerialisation",
    "custom_op": "write the function over jg's own",
    "custom_vjp": "write the function over jg's own",
    "einsum": "jg.tensordot, jg.matmul, jg.permute_dims",
    "elementwise": "write the function over jg's own; it is fused",
    "fft": "np.fft outside of traces",
    "linalg": "np.linalg outside of traces",
    "onnx": "jg.save for files of our own",
    "vmap": "write the function for tensors with a leading axis",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        if name == "ir":
            importlib.import_module("jitgraph.ops")  # hands the op table down, so that jg.ir.parse knows every op
        return importlib.import_module(f"jitgraph.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    functions = importlib.import_module("jitgraph.functions").FUNCTIONS  # attaches the methods of Tensor, too
    if name in _NAMES:
        module, _, attribute = _NAMES[name].partition(":")
        found = getattr(importlib.import_module(module), attribute or name)
    elif name in functions:
        found = functions[name]
    else:
        hint = f"\n  hint: write {_HABITS[name]}" if name in _HABITS else ""
        if name in _PLANNED:
            hint = f": it is planned for a later version\n  hint: until then, {_PLANNED[name]}"
        raise AttributeError(f"module 'jitgraph' has no attribute {name!r}{hint}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    functions = importlib.import_module("jitgraph.functions").FUNCTIONS
    return sorted({*globals(), *_SUBMODULES, *_NAMES, *functions})
