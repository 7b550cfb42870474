"""The decorator that makes a function of one tensor a method of Tensor too."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jitgraph.errors import JitgraphError
from jitgraph.tensor.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

_OTHER_KEYWORDS = {
    "a_max": "max",
    "a_min": "min",
    "axes": "axis",
    "ddof": "correction",
    "decimals": "jg.round(x * 10**n) / 10**n",
    "dim": "axis",
    "keepdim": "keepdims",
    "dims": "axis",
    "other": "the second argument by position",
    "out": "y = f(x), or y[...] = f(x) for a tensor that is there already",
    "size": "the shape, the first argument",
    "unbiased": "correction=1, or correction=0 for unbiased=False",
    "requires_grad": "x.requires_grad_() of the result, or jg.nn.Parameter(x)",
}


def array_function(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which also tells users of PyTorch's ``dim=`` what to write here."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    foreign = {keyword: form for keyword, form in _OTHER_KEYWORDS.items() if keyword not in own}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            for keyword, form in foreign.items():
                if keyword in kwargs:
                    raise JitgraphError(f"{function.__name__}: {keyword}= is not a parameter\n  hint: write {form}")
        return function(*args, **kwargs)

    return call


def method(function: Callable[P, R]) -> Callable[P, R]:
    """An array function that is a method of Tensor as well."""
    wrapped = array_function(function)
    setattr(Tensor, function.__name__, wrapped)
    return wrapped


def axes_of(axis: int | tuple[int, ...] | None, ndim: int, name: str) -> tuple[int, ...]:
    """Non-negative, sorted axes; all of them for None. JitgraphError for an axis out of range or given twice."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    found = []
    for a in given:
        if isinstance(a, bool) or not hasattr(a, "__index__") or (hasattr(a, "ndim") and a.ndim):
            kind = type(a).__name__
            hint = f"\n  hint: jg.{name}imum(x, y) compares two tensors" if name in ("max", "min") else ""
            raise JitgraphError(f"{name}: an axis is an int, not a {kind}{hint}")
        number = operator.index(a)  # NumPy's integers count as axes, and no op takes them as an attribute
        if not -ndim <= number < ndim:
            raise JitgraphError(f"{name}: axis {a} is out of range for a tensor of rank {ndim}")
        found.append(number % ndim)
    if len(set(found)) != len(found):
        raise JitgraphError(f"{name}: axis {axis} names an axis twice")
    return tuple(sorted(found))


def axis_of(axis: int, ndim: int, name: str) -> int:
    """One non-negative axis."""
    return axes_of(axis, ndim, name)[0]
