"""NumPy's ufuncs of tensors: ``np.sin(x)``, ``np.add(x, y, out=z)``, ``np.maximum.reduce(x)`` and their like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.runtime import imports, stubs
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import where as choose
from jitgraph.tensor.functions.method import axis_of
from jitgraph.tensor.tensor import Tensor, wrap

_NAMES: Final = {
    "absolute": "abs",
    "fabs": "abs",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "power": "pow",
    "rint": "round",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
}
_REDUCTIONS: Final = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
    "logaddexp": "logsumexp",
}
_RUNNING: Final = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
_DEFAULTS: Final = {"casting": "same_kind", "order": "K", "subok": True}


def function_named(name: str) -> Callable[..., Any]:
    """The array function of ``jg`` of this name."""
    function: Callable[..., Any] = getattr(imports.module("jitgraph.tensor.functions"), name)
    return function


def call(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a method of a ufunc gives; JitgraphError where no function of ``jg`` does the same."""
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    into, mask, dtype = (options.get(key) for key in ("out", "where", "dtype"))
    rest = {k: v for k, v in options.items() if k not in ("out", "where", "dtype") and _DEFAULTS.get(k, call) != v}
    target = None if dtype is None else dtypes.canonical(dtype)
    compute = _computation(ufunc.__name__, method)
    if compute is None or rest.pop("initial", None) is not None:
        hint = "x[i] = v, or jg.index_add" if method == "at" else f"{name}(np.asarray(x)) for an array"
        raise JitgraphError(f"{name} of a Tensor\n  hint: {hint}")
    if method != "__call__" and mask is not None and mask is not True:
        raise JitgraphError(f"{name} of a Tensor with where=\n  hint: jg.where(mask, x, neutral) first")
    return written_to(name, compute(inputs, target, rest), into, True if mask is None else mask)


def _computation(name: str, method: str) -> Callable[..., Any] | None:
    """The function of operands, dtype and further options that a method of the ufunc of this name is."""
    ours = _NAMES.get(name, name)
    function = function_named(ours) if ours in stubs.of("jitgraph.tensor.functions").homes else None
    if method == "__call__" and function is not None:
        return lambda xs, dtype, rest: function(*_in_dtype(xs, dtype), **rest)
    if method == "outer" and function is not None:
        return lambda xs, dtype, rest: _outer(function, *_in_dtype(xs, dtype), **rest)
    if method == "reduce" and name in _REDUCTIONS:
        return lambda xs, dtype, rest: _reduced(_REDUCTIONS[name], dtype, *xs, **rest)
    if method == "accumulate" and name in _RUNNING:
        return lambda xs, dtype, rest: _accumulated(_RUNNING[name], *_in_dtype(xs[:1], dtype), *xs[1:], **rest)
    return None


def _in_dtype(xs: Sequence[Any], dtype: dtypes.DType | None) -> list[Any]:
    """Operands in a dtype; as they are where none is asked for."""
    return [x if dtype is None else wrap(lifting.cast(lifting.value_of(x, dtype), dtype)) for x in xs]


def written_to(name: str, result: Any, into: Any, mask: Any = True) -> Any:
    """A result, written to the tensors given as ``out`` where there are any, in places where ``mask`` holds.

    JitgraphError for arrays as ``out``, for a mask without ``out``; DTypeError where numbers of that kind do not fit.
    """
    if isinstance(into, tuple):
        targets = into
    else:
        targets = (into,) if into is not None else ()
    if not any(target is not None for target in targets):
        if mask is not True:
            raise JitgraphError(f"{name} with where= and no out=\n  hint: jg.where(mask, f(x), y)")
        return result
    results = result if isinstance(result, tuple) else (result,)
    for target, value in zip(targets, results, strict=True):
        if target is None:
            continue
        if not isinstance(target, Tensor):
            raise JitgraphError(f"{name} of a Tensor into an array\n  hint: np.asarray(x) is an array, without a copy")
        if dtypes.kind_rank(value.dtype) > dtypes.kind_rank(target.dtype):
            raise DTypeError(f"{name}: {value.dtype.name} does not fit out= of {target.dtype.name}", hint="f(x).astype")
        if tuple(value.shape) != tuple(target.shape):
            value = function_named("broadcast_to")(value, target.shape)
        target[...] = value if mask is True else choose(mask, value, target)
    return into[0] if isinstance(into, tuple) and len(into) == 1 else into


def _outer(function: Callable[..., Any], x: Any, y: Any, **options: Any) -> Any:
    """The function of each element of x with each of y."""
    left, right = (wrap(lifting.value_of(operand)) for operand in (x, y))
    return function(left[(..., *[None] * right.ndim)], right, **options)


def _reduced(name: str, dtype: dtypes.DType | None, x: Any, axis: Any = 0, **options: Any) -> Any:
    if dtype is not None and name in ("sum", "prod"):
        return function_named(name)(x, axis, dtype=dtype, **options)
    (x,) = _in_dtype([x], dtype)
    return function_named(name)(x, axis, **options)


def _accumulated(name: str, x: Any, axis: int = 0) -> Any:
    value = wrap(lifting.value_of(x))
    result = function_named(name)(value, axis_of(axis, value.ndim, name))
    return result[0] if isinstance(result, tuple) else result
