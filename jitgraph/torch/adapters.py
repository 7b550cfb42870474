"""PyTorch's functions over jitgraph's: results that are ``torch.Tensor``, ``out=``, and forms that write in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import jitgraph as jg
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.tensors import Tensor, adopted
from jitgraph.torch.writing import overwritten, written_to

P = ParamSpec("P")


def torch_function(function: Callable[P, Any]) -> Callable[P, Any]:
    """A function with PyTorch's signature over jitgraph's functions: its results are ``torch.Tensor``."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        result = function(*args, **kwargs)
        if result.__class__ is jg.Tensor:
            result.__class__ = Tensor
            return result
        return adopted(result)

    return call


def with_out(function: Callable[P, Any]) -> Callable[..., Any]:
    """A ``torch_function`` that takes ``out=``, a tensor or a tuple of them, to which results are written."""

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if out is not None:
            return written_to(out, result)
        if result.__class__ is jg.Tensor:
            result.__class__ = Tensor
            return result
        return adopted(result)

    return call


def of_aten(operator: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function of ``torch`` that an operator of ATen is: its first argument is ``input``; it takes ``out=``."""
    function = with_out(operator)

    @functools.wraps(operator)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "input" in kwargs:
            kwargs["self"] = kwargs.pop("input")
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """``x.f_(...)``: the result of ``f(x, ...)`` written to x, whose shape and dtype stay; gives x."""
    name = f"{function.__name__}_"

    @functools.wraps(function)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return overwritten(self, function(self, *args, **kwargs))

    call.__name__ = name
    call.__qualname__ = name
    call.__doc__ = f"``{function.__name__}`` in place: the result is written to the tensor, which is given back."
    return call


def plain(x: Any) -> Any:
    """A tensor as jitgraph's own class, for code of jitgraph's that calls methods; other objects as they are."""
    return wrap(x.value) if isinstance(x, Tensor) else x
