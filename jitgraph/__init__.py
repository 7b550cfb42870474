"""jitgraph: a tracing JIT compiler with a static-graph IR for NumPy-style tensor programs.

Names load their modules when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.public_names import *  # noqa: F403  (what ``__getattr__`` finds, for type checkers)

__version__ = "0.1.0"

# the constants of the Array API
e: Final = 2.718281828459045
pi: Final = 3.141592653589793
inf: Final = float("inf")
nan: Final = float("nan")
newaxis: Final = None

__array_api_version__: Final = "2024.12"

_SUBMODULES: Final = frozenset(
    [
        "amp",
        "autograd",
        "cache",
        "checkpoints",
        "codegen",
        "compiler",
        "config",
        "cuda",
        "data",
        "debug",
        "dtypes",
        "eager",
        "errors",
        "fft",
        "foreign",
        "linalg",
        "tracing",
        "ir",
        "location",
        "nn",
        "ops",
        "optim",
        "passes",
        "profiler",
        "random",
        "special",
        "runtime",
        "tensor",
        "tree",
    ]
)

_PUBLIC_SUBMODULES: Final = (
    *(
        "amp",
        "autograd",
        "cache",
        "cuda",
        "data",
        "debug",
        "errors",
        "fft",
        "ir",
        "linalg",
        "nn",
        "optim",
        "profiler",
        "random",
        "runtime",
        "special",
    ),
    "tree",
)
_CONSTANTS: Final = ("e", "inf", "nan", "newaxis", "pi")

_NAMES: Final[dict[str, str]] = {  # name -> module, or module:attribute where it is called otherwise there
    "Tensor": "jitgraph.tensor",
    **dict.fromkeys(("can_cast", "finfo", "iinfo", "isdtype", "result_type"), "jitgraph.tensor.dtype_queries"),
    "Generator": "jitgraph.random",
    "rand": "jitgraph.random.forms",
    "rand_like": "jitgraph.random.forms",
    "randint": "jitgraph.random.forms",
    "randint_like": "jitgraph.random.forms",
    "randn": "jitgraph.random.forms",
    "randn_like": "jitgraph.random.forms",
    "randperm": "jitgraph.random.forms",
    "bernoulli": "jitgraph.random",
    "multinomial": "jitgraph.random",
    "poisson": "jitgraph.random",
    "trace": "jitgraph.tracing",
    "script": "jitgraph.tracing.script",
    "explain": "jitgraph.tracing.explain",
    "TensorSpec": "jitgraph.tracing",
    "cond": "jitgraph.tracing",
    "while_loop": "jitgraph.tracing",
    "scan": "jitgraph.tracing",
    "save": "jitgraph.saved",
    "load": "jitgraph.saved",
    "save_checkpoint": "jitgraph.checkpoints",
    "load_checkpoint": "jitgraph.checkpoints",
    "custom_op": "jitgraph.tensor.custom",
    "einsum": "jitgraph.tensor.einsum",
    **dict.fromkeys(
        (
            "addbmm",
            "addmm",
            "addmv",
            "addr",
            "baddbmm",
            "bmm",
            "chain_matmul",
            "dot",
            "inner",
            "kron",
            "mm",
            "mv",
            "vdot",
        ),
        "jitgraph.tensor.products",
    ),
    **dict.fromkeys(
        (*("poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots"),),
        "jitgraph.linalg.polynomials",
    ),
    **dict.fromkeys(("istft", "stft"), "jitgraph.spectra"),
    **dict.fromkeys(("apply_along_axis", "vectorize"), "jitgraph.transforms.vectorizing"),
    "binomial": "jitgraph.random",
    "no_grad": "jitgraph.autograd",
    "enable_grad": "jitgraph.autograd",
    "set_grad_enabled": "jitgraph.autograd",
    "detect_anomaly": "jitgraph.autograd",
    "grad": "jitgraph.autograd.transforms",
    "value_and_grad": "jitgraph.autograd.transforms",
    "vjp": "jitgraph.autograd.transforms",
    "jvp": "jitgraph.autograd.transforms",
    "jacobian": "jitgraph.transforms.jacobians",
    "hessian": "jitgraph.transforms.jacobians",
    "checkpoint": "jitgraph.transforms.checkpointing",
    "custom_jvp": "jitgraph.transforms.custom",
    "custom_vjp": "jitgraph.transforms.custom",
    "functional_call": "jitgraph.autograd.functional",
    "jacfwd": "jitgraph.transforms.jacobians",
    "jacrev": "jitgraph.transforms.jacobians",
    "linearize": "jitgraph.transforms.jacobians",
    "vmap": "jitgraph.transforms.vmap",
    "bool": "jitgraph.dtypes:bool_",
    **dict.fromkeys(
        ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"), "jitgraph.dtypes"
    ),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64", "complex64", "complex128"), "jitgraph.dtypes"),
    **dict.fromkeys(
        (
            "AnomalyError",
            "ArgumentError",
            "CompileError",
            "CudaError",
            "DTypeError",
            "DeviceError",
            "GraphError",
            "HostAccessError",
            "IndexingError",
            "InternalError",
            "JitgraphError",
            "LinAlgError",
            "LoadError",
            "NumberError",
            "OutOfMemoryError",
            "PrecisionWarning",
            "ScriptError",
            "ShapeError",
            "SharingError",
            "TraceError",
            "UndecidedError",
            "UnsupportedOp",
        ),
        "jitgraph.errors",
    ),
}


def _resolve(name: str) -> Any:
    if name in _SUBMODULES:
        if name == "ir":
            imports.module("jitgraph.ops")  # hands the op table down, so that jg.ir.parse knows every op
        return imports.module(f"jitgraph.{name}")
    if name == "__all__":
        return _public()
    if name.startswith("__"):
        raise AttributeError(name)
    functions = imports.module("jitgraph.tensor").FUNCTIONS
    if name in _NAMES:
        module, _, attribute = _NAMES[name].partition(":")
        value = getattr(imports.module(module), attribute or name)
    elif name in functions:
        value = functions[name]
    else:
        migration_hints = imports.module("jitgraph.migration_hints")
        hint = migration_hints.advice(name, migration_hints.MODULE, migration_hints.PLANNED, owner="jg")
        if not hint and name.endswith("_") and (name[:-1] in functions or name[:-1] in _NAMES):
            hint = f"\n  hint: write x[...] = jg.{name[:-1]}(x, ...)"
        raise AttributeError(f"module 'jitgraph' has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __array_namespace_info__() -> Any:  # noqa: N807 - the name is the standard's
    """The inspection of the Array API: capabilities, devices and dtypes."""
    return imports.module("jitgraph.tensor.namespace_info").NamespaceInfo()


def _public() -> list[str]:
    """The names that docs/api.md lists; what else can be reached may change at any time."""
    functions = imports.module("jitgraph.tensor").FUNCTIONS
    return sorted({*_CONSTANTS, *_PUBLIC_SUBMODULES, *_NAMES, *functions})


__dir__ = imports.listing(__name__)


if not TYPE_CHECKING:  # type checkers shall miss what is not there
    __getattr__ = _resolve

imports.after_import("einops._backends", "jitgraph.foreign_einops", "register")
