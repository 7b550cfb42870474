"""Eager ops under a profile, each timed without the ops that it consists of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.eager.device_value import DeviceValue
from jitgraph.ir.op import Op
from jitgraph.location import Location, located, user_location
from jitgraph.runtime import imports

Emit = Callable[..., tuple[Any, ...]]
Tell = Callable[[str, Location | None, int, int, int, int], None]
"""Told of each op: its name and line, begin and end, its own nanoseconds, and the bytes that it moves."""


class OpTimer:
    """Times ops as they are applied, and reports each when it has ended."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._inside: list[int] = []  # of each op that is running: nanoseconds of what is told apart
        self._parts: list[bool] = []  # and whether it consists of others

    def exclude(self, nanoseconds: int) -> None:
        """What the running op spent on something that is reported by itself."""
        if self._inside:
            self._inside[-1] += nanoseconds

    def apply(self, emit: Emit, op: Op, inputs: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        """The outputs of ``emit(op, inputs, *rest)``."""
        outputs: tuple[Any, ...] = ()
        self._inside.append(0)
        self._parts.append(False)
        begin = time.perf_counter_ns()
        try:
            outputs = emit(op, inputs, *rest)
            wait_for(outputs)
            return outputs
        finally:
            end = time.perf_counter_ns()
            inside, has_parts = self._inside.pop(), self._parts.pop()
            if self._inside:
                self._inside[-1] += end - begin
                self._parts[-1] = True
            moved = 0 if has_parts else sum(map(_bytes, (*inputs, *outputs)))
            self._tell(op.name, located(user_location()), begin, end, end - begin - inside, moved)


def wait_for(values: Sequence[Any]) -> None:
    """Wait for the GPUs on which values lie; CudaError where some of their work failed, and errors of checks in it."""
    for name in {value.device for value in values if value.__class__ is DeviceValue}:
        imports.module("jitgraph.runtime.cuda.names").device_named(name).synchronize()


def _bytes(value: Any) -> int:
    """Bytes of a tensor; 0 for tokens and stacks."""
    type = value.type
    size, dtype = getattr(type, "size", None), getattr(type, "dtype", None)
    return size * dtype.itemsize if isinstance(size, int) and dtype is not None else 0
