"""The decorator that makes a function of one tensor a method of Tensor too, and what loads such methods."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from jitgraph.errors import IndexingError, JitgraphError, ShapeError
from jitgraph.runtime import imports
from jitgraph.tensor.scalars import items, listed
from jitgraph.tensor.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def array_function(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which says of other libraries' keywords what to write here.

    Where it names ``requires_grad``, as what makes tensors does, its result is a leaf that asks for gradients.
    """
    code = function.__code__
    own = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and not own.issuperset(kwargs):
            _explain_keywords(function.__name__, kwargs.keys() - own)
        result = function(*args, **kwargs)
        return result.requires_grad_() if kwargs and kwargs.get("requires_grad") else result  # type: ignore[attr-defined]

    return call


def _explain_keywords(name: str, keywords: set[str]) -> None:
    """JitgraphError for a keyword of NumPy, the Array API or PyTorch; Python's own error follows for any other."""
    from jitgraph.migration_hints import keyword_advice  # here, as only errors need it

    for keyword in sorted(keywords):
        if advice := keyword_advice(name, keyword):
            raise JitgraphError(f"{name}: {keyword}= is not a parameter\n  hint: write {advice}")


def method(function: Callable[P, R]) -> Callable[P, R]:
    """An array function that is a method of Tensor as well."""
    wrapped = array_function(function)
    setattr(Tensor, function.__name__, wrapped)
    return wrapped


class _UnloadedMethod:
    """Stands in a class of tensors for a method until its module is loaded, which puts the method itself there."""

    __slots__ = ("name", "owner", "package")

    def __init__(self, name: str, owner: type[Tensor], package: str) -> None:
        self.name = name
        self.owner = owner
        self.package = package

    def __get__(self, tensor: Tensor | None, owner: type[Tensor]) -> Any:
        function = getattr(imports.module(self.package), self.name)
        if vars(self.owner)[self.name] is self:  # the module did not put it there
            setattr(self.owner, self.name, function)
        return getattr(owner if tensor is None else tensor, self.name)


def attach(names: Iterable[str], owner: type[Tensor] = Tensor, package: str = "jitgraph.tensor.functions") -> None:
    """Give a class of tensors the methods of these names of a package, each of which loads when it is first used."""
    for name in names:
        if name not in vars(owner):
            setattr(owner, name, _UnloadedMethod(name, owner, package))


def axes_of(axis: int | Sequence[int] | None, ndim: int, name: str) -> tuple[int, ...]:
    """Non-negative, sorted axes, all for None. IndexingError for one out of range, ShapeError for one given twice."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(ordered_axes_of(axis, ndim, name)))


def ordered_axes_of(axis: int | Sequence[int], ndim: int, name: str) -> tuple[int, ...]:
    """Non-negative axes in the order that they are listed in, by any kind of sequence; else as ``axes_of``."""
    axes = []
    for a in listed(axis):
        if isinstance(a, bool) or not hasattr(a, "__index__") or (hasattr(a, "ndim") and a.ndim):
            kind = type(a).__name__
            hint = f"\n  hint: jg.{name}imum(x, y) compares two tensors" if name in ("max", "min") else ""
            raise JitgraphError(f"{name}: an axis is an int, not a {kind}{hint}")
        number = operator.index(a)  # NumPy's integers count as axes, and no op takes them as an attribute
        if not -ndim <= number < ndim:
            raise IndexingError(f"{name}: axis {a} is out of range for a tensor of rank {ndim}")
        axes.append(number % ndim)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: axis {axis} names an axis twice")
    return tuple(axes)


def axis_of(axis: int, ndim: int, name: str) -> int:
    """One non-negative axis; JitgraphError where several are listed."""
    if items(axis) is not None:
        raise JitgraphError(f"{name} takes one axis, not {axis!r}")
    return ordered_axes_of(axis, ndim, name)[0]
