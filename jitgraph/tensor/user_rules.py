"""Gradient rules that users write over tensors, run on values that are no tensors: those of a pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jitgraph import ops
from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Value
from jitgraph.ir.types import Constant
from jitgraph.tensor.tensor import wrap


def apply_rule(name: str, rule: Callable[..., Any], *operands: Any) -> Any:
    """What ``rule`` gives for operands, each a value, None, or a tuple of these, which it sees as tensors.

    It runs eagerly where they are eager values. In a pass it is recorded, and may read no tensor but its operands: the
    code would not see later changes of others. TraceError where it does.
    """
    wrapped = [_wrapped(operand) for operand in operands]
    if any(isinstance(value, Value) for operand in operands for value in _flat(operand)):
        with context.using(trace=_Recording(name)):
            return rule(*wrapped)
    return rule(*wrapped)


def _wrapped(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_wrapped, value))
    return None if value is None else wrap(value)


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


class _Recording:
    """What handles ask of a trace, where a pass applies a user's rule: each holds a value of the pass."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.ends: dict[Any, tuple[int, int]] = {}

    def read(self, handle: ValueHandle) -> Any:
        if not isinstance(handle._value, Value):
            raise TraceError(
                f"{self._name}: the gradient rule reads a tensor that is none of its operands",
                hint="make it an operand of the op, whose cotangent may be None",
            )
        return handle._value

    def write(self, handle: ValueHandle, value: Any) -> None:
        self.read(handle)
        handle._value = value

    def lift(self, array: Any) -> Any:
        return ops.constant(value=Constant(array))

    def user_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(shape)

    def to_dim(self, size: Any) -> Any:
        return size

    def require_device(self, device: str) -> None:
        """Values of a pass have no device."""

    def require_recording(self, why: str, location: Any) -> None:
        """The trace around the pass recorded the op that is differentiated, and said so."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TraceError(
            f"{self._name}: the gradient rule asks for what is not known while it is recorded ({name})",
            hint="write the rule with jg's functions of its operands alone",
        )
