"""Translation of functions and values of PyTorch to those of a module that has its names."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import torch

# Where PyTorch's public callables are looked up, the shortest path first.
NAMESPACES = (
    "",
    "Tensor",
    "nn.functional",
    "linalg",
    "special",
    "fft",
    "masked",
    "signal.windows",
    "sparse",
    "nn",
    "nn.init",
    "nn.utils",
    "optim",
    "autograd",
)
# Dtypes of PyTorch that jitgraph has.
DTYPES = {
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
}


class Missing(Exception):
    """A name that the module lacks."""


class Untranslatable(Exception):
    """A sample that needs what jitgraph has not (sparse tensors, another dtype): it is not counted."""


def dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


@functools.cache
def _paths() -> dict[int, str]:
    """The path below ``torch`` of each public callable, by identity."""
    paths: dict[int, str] = {}
    for namespace in NAMESPACES:
        owner = functools.reduce(getattr, namespace.split("."), torch) if namespace else torch
        for name in dir(owner):
            if name.startswith("_") and not name.startswith("__"):
                continue
            try:
                value = getattr(owner, name)
            except Exception:  # a lazy name that needs another package
                continue
            if callable(value) or isinstance(value, types.ModuleType):
                paths.setdefault(id(value), f"{namespace}.{name}" if namespace else name)
    return paths


class Translator:
    """What stands for PyTorch's functions, dtypes and tensors in ``module``: ``jitgraph.torch``, or torch itself."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.functions: dict[int, Any] = {}

    def attribute(self, path: str) -> Any:
        value = self.module
        for part in path.split("."):
            try:
                value = getattr(value, part)
            except (AttributeError, ImportError) as error:
                text = str(error).splitlines()[0] if str(error) else path
                raise Missing(f"torch.{path}: {text}") from None
        return value

    @property
    def compile(self) -> Any:
        if self.module is torch:
            return lambda f: f
        import jitgraph as jg

        return getattr(self.module, "compile", jg.trace)

    @property
    def grad(self) -> Any:
        import jitgraph as jg

        return getattr(getattr(self.module, "autograd", jg.autograd), "grad", jg.autograd.grad)

    # Functions

    def function(self, f: Any, path: str | None = None) -> Any:
        """The counterpart of a callable of PyTorch, or of one of its tests' wrappers, whose names are replaced."""
        if self.module is torch:
            return f
        if path is not None and _same(path, f):
            return self.attribute(path)
        known = _paths().get(id(f))
        if known is not None:
            return self.attribute(known)
        if isinstance(f, functools.partial):
            return functools.partial(self.function(f.func), *f.args, **f.keywords)
        if isinstance(f, types.FunctionType) and "torch.testing" in f.__module__ and not hasattr(f, "__wrapped__"):
            return self._rebuilt(f)
        if isinstance(f, torch.nn.PairwiseDistance):
            return self.attribute("nn.PairwiseDistance")(f.norm, f.eps, f.keepdim)
        if isinstance(f, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
            return self._of_aten(f)
        name = getattr(f, "__name__", "")
        if getattr(torch.Tensor, name, None) is f:
            return self.attribute(f"Tensor.{name}")
        if getattr(f, "__module__", "") in ("_operator", "math", "builtins"):
            return f
        module = getattr(f, "__module__", None) or ""
        raise Missing(f"{module}.{name}" if module else str(f))

    def _of_aten(self, f: Any) -> Any:
        """An operator of ATen, whose results are jitgraph's tensors."""
        from jitgraph.torch.aten_ops import lookup

        name, _, overload = str(f).removeprefix("aten.").partition(".")
        operator = lookup(f"aten::{name}", overload)
        if operator is None:
            raise Missing(f"aten::{name} is not there")
        return operator

    def _rebuilt(self, f: types.FunctionType) -> Any:
        """The function with other globals: ``torch`` is the module, functions that it calls are translated."""
        if id(f) in self.functions:
            return self.functions[id(f)]
        names = dict(f.__globals__)
        new = types.FunctionType(
            f.__code__, names, f.__name__, f.__defaults__, None if f.__closure__ is None else f.__closure__
        )
        new.__kwdefaults__ = f.__kwdefaults__
        self.functions[id(f)] = new  # before its own names, as it may call itself
        for name in _names_of(f.__code__):
            if name in names:
                names[name] = self._global(names[name])
        if f.__closure__:
            cells = tuple(types.CellType(self._global(cell.cell_contents)) for cell in f.__closure__)
            rebuilt = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, cells)
            rebuilt.__kwdefaults__ = f.__kwdefaults__
            self.functions[id(f)] = new = rebuilt
        return new

    def _global(self, value: Any) -> Any:
        if value is torch:
            return self.module
        if (
            isinstance(value, types.ModuleType)
            and value.__name__.startswith("torch.")
            and "testing" not in value.__name__
        ):
            return self.attribute(value.__name__.removeprefix("torch."))
        if (
            isinstance(value, types.FunctionType)
            and "torch.testing" in value.__module__
            and not hasattr(value, "__wrapped__")
        ):
            return self._rebuilt(value)
        if id(value) in _paths() and callable(value) and not isinstance(value, type):
            try:
                return self.function(value)
            except Missing as error:
                return _Raises(str(error))
        if isinstance(value, torch.dtype):
            return self.dtype(value)
        return value

    # Values

    def dtype(self, dtype: torch.dtype) -> Any:
        if self.module is torch:
            return dtype
        if dtype not in DTYPES:
            raise Untranslatable(f"dtype {dtype}")
        return self.attribute(dtype_name(dtype))

    def tensor(self, t: torch.Tensor, requires_grad: bool | None = None) -> Any:
        """A tensor of the module with the values, the dtype and the flag of this one."""
        flag = t.requires_grad if requires_grad is None else requires_grad
        if t.layout != torch.strided or t.is_quantized or t.dtype not in DTYPES or t.device.type != "cpu":
            raise Untranslatable(f"a tensor of {t.layout}, {t.dtype}")
        if t.ndim > 64:
            raise Untranslatable("a tensor of more axes than NumPy's have")
        plain = t.detach().resolve_conj().resolve_neg()
        if self.module is torch:
            return plain.clone().requires_grad_(flag)
        if t.dtype == torch.bfloat16:
            new = self.module.tensor(plain.float().clone().numpy()).to(self.module.bfloat16)
        else:
            new = self.module.tensor(plain.clone().numpy())  # a tensor whose memory NumPy shares cannot be resized
        return new.requires_grad_(True) if flag else new

    def strided(self, t: torch.Tensor) -> Any:
        """A tensor as ``tensor`` makes, that is every other element of a buffer: a view."""
        if t.ndim == 0:
            return self.tensor(torch.stack([t.detach(), t.detach()]), False)[1]
        return self.tensor(torch.repeat_interleave(t.detach(), 2, -1), False)[..., ::2]

    def expanded(self, t: torch.Tensor) -> Any:
        """A tensor as ``tensor`` makes, that is expanded along the axes that are in PyTorch."""
        repeated = [size > 1 and stride == 0 for size, stride in zip(t.shape, t.stride(), strict=True)]
        if not any(repeated) or t.requires_grad:
            return self.tensor(t)
        return self.tensor(t[tuple(slice(0, 1) if r else slice(None) for r in repeated)]).expand(*t.shape)

    def value(
        self, value: Any, strided: bool = False, expanded: bool = False, memo: dict[int, Any] | None = None
    ) -> Any:
        """An argument of a sample for the module: tensors, dtypes and sizes anywhere in it are replaced."""
        memo = {} if memo is None else memo
        again = functools.partial(self.value, strided=strided, expanded=expanded, memo=memo)
        if isinstance(value, torch.Tensor):
            if id(value) not in memo:
                whole = value.layout == torch.strided and value.dtype in DTYPES
                make = self.strided if strided and whole else self.expanded if expanded and whole else self.tensor
                memo[id(value)] = make(value)
            return memo[id(value)]
        if isinstance(value, torch.dtype):
            return self.dtype(value)
        if isinstance(value, list | tuple):
            if isinstance(value, torch.Size):
                return self.attribute("Size")(value)
            items = [again(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: again(item) for key, item in value.items()}
        if self.module is torch:
            return value
        if isinstance(value, slice):
            return slice(*(again(item) for item in (value.start, value.stop, value.step)))
        if isinstance(value, torch.layout) and value != torch.strided:
            raise Untranslatable(f"layout {value}")
        if isinstance(value, torch.layout | torch.memory_format):
            return self.attribute(dtype_name(value))
        if isinstance(value, torch.device):
            return self.attribute("device")(str(value))
        if isinstance(value, torch.Generator):
            return self.attribute("Generator")()
        if callable(value) and not isinstance(value, type):
            return self.function(value)
        return value


class _Raises:
    """A function that the module lacks, in a wrapper that may not call it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        raise Missing(self.text)


def _same(path: str, f: Any) -> bool:
    value: Any = torch
    for part in path.split("."):
        value = getattr(value, part, None)
    return value is f


def _names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return names


def array_of(value: Any) -> np.ndarray:
    """The elements of a tensor of either library, bfloat16 as float32."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        if value._is_zerotensor():
            value = value.clone()
        return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()
    import jitgraph as jg

    array = np.asarray(jg.Tensor.detach(value) if isinstance(value, jg.Tensor) else value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
