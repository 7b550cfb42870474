"""NumPy's own functions called with tensors: those that are array functions here give tensors, eagerly and in traces.

The others get the arrays behind the tensors, outside of traces, or say what to write. How NumPy's parameters become
ours stands in ``functions/numpy_functions.py`` and ``functions/numpy_functions.py``, loaded at the first such call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.runtime import imports

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
_DESCRIPTIONS: Final[dict[Any, Callable[..., Any]]] = {  # they need no value, and give no tensor
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
}


def array_ufunc(self: ValueHandle, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """``array * tensor``, ``np.sin(tensor)`` and their like, which are the tensor's to compute."""
    name = ufunc.__name__
    if method == "__call__" and not options and name in _OPERATORS:
        left, right = inputs
        on_left, on_right = _OPERATORS[name]
        return getattr(left, on_left)(right) if isinstance(left, ValueHandle) else getattr(right, on_right)(left)
    return imports.module("jitgraph.tensor.functions.numpy_functions").call(ufunc, method, inputs, options)


def array_function(self: ValueHandle, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy with tensors among its arguments: a tensor where it is an array function here.

    Else what NumPy makes of the arrays behind the tensors; TraceError in a trace, where there are none.
    """
    if function in _DESCRIPTIONS:
        return _DESCRIPTIONS[function](*args, **kwargs)
    form = imports.module("jitgraph.tensor.functions.numpy_functions").FORMS.get(function)
    if form is not None:
        return form(*args, **kwargs)
    if context.current().trace is not None:
        from jitgraph.migration_hints import replacement  # here, as only errors need it

        name = function.__name__
        shown = f"{function.__module__}.{name}".replace("numpy", "np", 1)
        has_own = hasattr(imports.provided("the package"), name)
        ours = replacement("jg", name) or (f"jg.{name}" if has_own else "it with jg's functions")
        raise TraceError(
            f"{shown} needs the values of its tensors, which are known only when the graph runs",
            hint=f"write {ours}, or call {shown} outside of the traced function",
        )
    return function(*_arrays(args), **_arrays(kwargs))


def _arrays(value: Any) -> Any:
    if isinstance(value, ValueHandle):
        return np.asarray(value)
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return type(value)(map(_arrays, value)) if type(value) in (list, tuple) else value
