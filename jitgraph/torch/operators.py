"""Python's operators of ``torch.Tensor``, with PyTorch's promotion, and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jitgraph as jg
from jitgraph.tensor import lifting
from jitgraph.tensor.direct_calls import direct_call
from jitgraph.tensor.scalars import is_scalar
from jitgraph.torch import promotion
from jitgraph.torch.writing import overwritten

_BINARY: Final = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"),
)
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def attach_operators(kind: type) -> None:
    """Give the class of PyTorch's tensors its operators."""
    for name in (*_BINARY, *(f"r{name}" for name in _BINARY), *_COMPARISONS):
        setattr(kind, f"__{name}__", _operator(kind, f"__{name}__"))
    for name in _BINARY:
        setattr(kind, f"__i{name}__", _in_place_operator(kind, name))
    kind.__rdiv__ = kind.__rtruediv__  # type: ignore[attr-defined]  # a name of Python 2, which PyTorch has
    for name in ("invert", "neg", "pos", "abs"):
        setattr(kind, f"__{name}__", _unary(kind, f"__{name}__"))


def _quotient_of(x: Any, other: Any) -> Any:
    """``other / x``: of a number times the reciprocal, which PyTorch saves for the gradient in the place of x."""
    is_number = not isinstance(other, jg.Tensor) and is_scalar(other)
    return jg.reciprocal(x) * other if is_number else jg.Tensor.__rtruediv__(x, other)


def _power(x: Any, other: Any) -> Any:
    """``x ** other``: a square root gives a result that may be written, as PyTorch saves x for the gradient."""
    result = jg.Tensor.__pow__(x, other)
    return result * 1.0 if other.__class__ is float and other == 0.5 else result


_OF_ATEN: Final[dict[str, Callable[[Any, Any], Any]]] = {"__rtruediv__": _quotient_of, "__pow__": _power}


def _operator(kind: type, name: str) -> Any:
    """The binary operator with PyTorch's promotion."""
    operate = _OF_ATEN.get(name) or getattr(jg.Tensor, name)
    divides = "truediv" in name

    def general(self: Any, other: Any) -> Any:
        if other.__class__ is not int:
            if not lifting.is_operand(other):
                return NotImplemented
            self, other = promotion.promoted(self, other)
        if divides:
            self, other = promotion.to_inexact(self), promotion.to_inexact(other)
        result = operate(self, other)
        if result.__class__ is jg.Tensor:
            result.__class__ = kind
        return result

    native = direct_call(general, 2, api="torch")

    def call(self: Any, other: Any) -> Any:
        return native(self, other)

    call.__name__ = call.__qualname__ = name
    return call


def _in_place_operator(kind: type, name: str) -> Any:
    """``x += y``: the value of the binary operator written to x."""
    operate = _operator(kind, f"__{name}__")

    def call(self: Any, other: Any) -> Any:
        result = operate(self, other)
        return result if result is NotImplemented else overwritten(self, result)

    call.__name__ = call.__qualname__ = f"__i{name}__"
    return call


def _unary(kind: type, name: str) -> Any:
    operate = getattr(jg.Tensor, name)

    def general(self: Any) -> Any:
        result = operate(self)
        if result.__class__ is jg.Tensor:
            result.__class__ = kind
        return result

    native = direct_call(general, 1, api="torch")

    def call(self: Any) -> Any:
        return native(self)

    call.__name__ = call.__qualname__ = name
    return call
