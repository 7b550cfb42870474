"""PyTorch's functions over jitgraph's: results that are ``torch.Tensor``, ``out=``, and forms that write in place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, ParamSpec

import jitgraph as jg
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.one_step import one_step
from jitgraph.tensor.saved_by_functions import STEPS
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.tensors import Tensor, View, adopted
from jitgraph.torch.writing import OF_ASKED_DTYPE, OF_OWN_DTYPE, overwritten, require_own_dtype, written_to

P = ParamSpec("P")

_SYNONYMS: Final = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""NumPy's keywords, which PyTorch's functions accept for their own."""


_BY_COUNT: Final[dict[Callable[..., Any], DirectCalls]] = {}
"""What serves calls of a function by positional arguments alone, by how many they are."""


def _with_own_names(kwargs: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """Keyword arguments by the names of the parameters: ``input`` is ``self`` of an operator, ``axis`` is ``dim``."""
    if own.issuperset(kwargs):
        return kwargs
    renamed = {}
    for word, value in kwargs.items():
        name = word if word in own else _SYNONYMS.get(word, word)
        renamed["self" if name == "input" and name not in own and "self" in own else name] = value
    return renamed


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    code = inspect.unwrap(function).__code__
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _of_tensors(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that raises TypeError where an argument without a tensor's attributes should be a tensor."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AttributeError as error:
            for position, argument in enumerate(args, 1):
                if argument is error.obj and not isinstance(argument, jg.Tensor):
                    raise TypeError(
                        f"{name}(): argument {position} must be a tensor, not {type(argument).__name__}"
                    ) from error
            raise

    return call


def _as_one_step(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of PyTorch's tape, unless it is one of ``nn.functional``, which is by itself."""
    package = function.__module__.rpartition(".")[2]
    key = f"{package}.{name}" if package in ("linalg", "special") else name
    is_one = key in STEPS and not function.__module__.startswith("jitgraph.nn.")
    return one_step(function, key) if is_one else function


def _results(results: Any) -> Any:
    """Results in PyTorch's classes, of which several are a tuple."""
    converted = adopted(results)
    return tuple(converted) if converted.__class__ is list else converted


def torch_function(function: Callable[P, Any]) -> Callable[P, Any]:
    """A function with PyTorch's signature over jitgraph's functions: its results are ``torch.Tensor``.

    Calls of tensors and numbers that are one op go past Python, as those of jitgraph's own functions do.
    """
    checked = _of_tensors(_as_one_step(function, function.__name__), function.__name__)
    own, by_count = _parameters(function), _by_count(checked)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        if not kwargs:
            return by_count[len(args)](*args)
        return _results(checked(*args, **_with_own_names(kwargs, own)))

    _BY_COUNT[call] = by_count
    return call


def with_out(function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A ``torch_function`` that takes ``out=``, a tensor or a tuple of them, to which results are written.

    Of functions whose names ``OF_OWN_DTYPE`` lists these have the results' dtypes; else RuntimeError. Its results are
    new tensors: where jitgraph's function gives an operand itself, a copy of it.
    """
    public = name or function.__name__
    checked = _of_tensors(_as_one_step(function, public), public)
    own, by_count = _parameters(function), _by_count(checked, fresh=True)
    package = "linalg." if function.__module__.endswith(".linalg") else ""
    is_strict = f"{package}{public}" in OF_OWN_DTYPE

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return by_count[len(args)](*args)
        out = kwargs.pop("out", None)
        if out is not None and public in OF_ASKED_DTYPE and kwargs.get("dtype") not in (None, out.dtype):
            raise RuntimeError(f"dtype {kwargs['dtype']!r} does not match dtype of out parameter ({out.dtype!r})")
        result = checked(*args, **_with_own_names(kwargs, own))
        if out is not None:
            if is_strict or (public in ("max", "min") and not isinstance(out, jg.Tensor)):
                require_own_dtype(public, out, result)
            return written_to(out, result)
        return _fresh(_results(result), (*args, *kwargs.values()))

    _BY_COUNT[call] = by_count
    return call


def of_aten(operator: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of ``torch`` that an operator of ATen is: its first argument is ``input``; it takes ``out=``."""
    call = with_out(operator, name)
    call.__name__ = call.__qualname__ = name
    return call


def _fresh(result: Any, operands: tuple[Any, ...]) -> Any:
    """A result that shares its elements with no operand; of several each one."""
    if result.__class__ is tuple:
        return tuple(_fresh(item, operands) for item in result)
    if isinstance(result, View) or (isinstance(result, jg.Tensor) and any(result is x for x in operands)):
        return adopted(jg.clone(result))
    return result


def _by_count(function: Callable[..., Any], fresh: bool = False) -> DirectCalls:
    """A function by how many positional arguments it gets; ``fresh``: its results are new tensors."""

    def with_adopted(*args: Any) -> Any:
        result = function(*args)
        if result.__class__ is jg.Tensor:
            result.__class__ = Tensor
            return result
        return _fresh(_results(result), args) if fresh else _results(result)

    return DirectCalls(lambda count: direct_call(with_adopted, count, api="torch"))


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """``x.f_(...)``: the result of ``f(x, ...)`` written to x, whose shape and dtype stay; gives x."""
    name = f"{function.__name__}_"
    by_count = _BY_COUNT.get(function)

    @functools.wraps(function)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if kwargs or by_count is None:
            return overwritten(self, function(self, *args, **kwargs))
        return overwritten(self, by_count[1 + len(args)](self, *args))

    call.__name__ = name
    call.__qualname__ = name
    call.__doc__ = f"``{function.__name__}`` in place: the result is written to the tensor, which is given back."
    return call


def plain(x: Any) -> Any:
    """A tensor as jitgraph's own class, for code of jitgraph's that calls methods; other objects as they are."""
    return wrap(x.value) if isinstance(x, Tensor) else x


def of_users(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's function as jitgraph's transforms call it: the tensors that it gets are ``torch.Tensor``."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*adopted(args), **adopted(kwargs))

    return call
