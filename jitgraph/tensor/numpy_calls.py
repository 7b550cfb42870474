"""What NumPy's own functions do with tensors: operators give tensors, the others get arrays or say what to write."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.migration_hints import MODULE

_OPERATORS: Final = {  # ufunc -> the tensor's method where it stands on the left, and where it stands on the right
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "left_shift": ("__lshift__", "__rlshift__"),
    "right_shift": ("__rshift__", "__rrshift__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
}
_OUR_NAMES: Final = {
    "absolute": "abs",
    "fabs": "abs",
    "invert": "bitwise_invert",
    "rint": "round",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
}
_DESCRIPTIONS: Final[dict[Any, Callable[..., Any]]] = {  # they need no value, so they work in traces
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
}


def array_ufunc(self: ValueHandle, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """``array * tensor`` and its like, which are the tensor's to compute; for other ufuncs what to write."""
    name = ufunc.__name__
    if method == "__call__" and not options and name in _OPERATORS:
        left, right = inputs
        on_left, on_right = _OPERATORS[name]
        return getattr(left, on_left)(right) if isinstance(left, ValueHandle) else getattr(right, on_right)(left)
    if "out" in options:
        raise JitgraphError(f"np.{name} of a Tensor into an array\n  hint: np.asarray(x) is an array, without a copy")
    ours = _OUR_NAMES.get(name, name)
    tail = "" if method == "__call__" else f".{method}"
    form = f"jg.{ours}(x), or " if hasattr(type(self), ours) and not tail else ""
    raise JitgraphError(f"np.{name}{tail} of a Tensor\n  hint: {form}np.{name}{tail}(np.asarray(x)) for an array")


def array_function(self: ValueHandle, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's function on the arrays behind the tensors: ``np.sum(tensor)`` is an array, outside of traces."""
    if function in _DESCRIPTIONS:
        return _DESCRIPTIONS[function](*args, **kwargs)
    if context.current().trace is not None:
        name = function.__name__
        ours = MODULE.get(name) or (
            f"jg.{name}" if hasattr(sys.modules["jitgraph"], name) else "it with jg's functions"
        )
        raise TraceError(
            f"np.{name} needs the values of its tensors, which are known only when the graph runs",
            hint=f"write {ours}, or call np.{name} outside of the traced function",
        )
    return function(*_arrays(args), **_arrays(kwargs))


def _arrays(value: Any) -> Any:
    if isinstance(value, ValueHandle):
        return np.asarray(value)
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return type(value)(map(_arrays, value)) if type(value) in (list, tuple) else value
