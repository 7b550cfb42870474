"""``x += y`` and its like: the handle gets the operator's result, whose shape and dtype are the handle's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jitgraph import dtypes, ops
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir import context

H = TypeVar("H", bound=ValueHandle)


def in_place(operator: Callable[[H, Any], H]) -> Callable[[H, Any], H]:
    """The in-place form of a binary operator."""
    name = operator.__name__.strip("_")

    def apply(self: H, other: Any) -> H:
        result = operator(self, other)
        if result is NotImplemented:
            return result
        if self._weak:
            return result  # it stands for a Python number, never changed in place
        old, new = self._value, result._value
        if new.__class__ is EagerValue and old.__class__ is EagerValue and context.current().trace is None:
            before, after = old.array, new.array
            if before.shape == after.shape and before.dtype is after.dtype:
                self._rebind(new)
                return self
        if hasattr(new, "trailing"):  # of places that a mask selects, which the assignment that follows writes back
            self._value = new.in_dtype(old)
            return self
        value = result.value
        if value.type.shape != self._static.type.shape:
            raise ShapeError(f"in-place {name} would change the shape from {self.shape} to {result.shape}")
        if value.type.dtype != self.dtype:
            if dtypes.kind_rank(value.type.dtype) > dtypes.kind_rank(self.dtype):
                raise DTypeError(
                    f"in-place {name} would turn {self.dtype.name} into {value.type.dtype.name}",
                    hint="write x = x ... instead, or cast the other operand with .astype(...)",
                )
            value = ops.cast(value, dtype=self.dtype)
        self._rebind(value)
        return self

    apply.__name__ = f"__i{name}__"
    apply.__doc__ = f"Rebind this handle to ``self {name} other``; shape and dtype stay."
    return apply
