"""Eager ops under a profile, each timed without the ops that it consists of."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.ir.op import Op
from jitgraph.location import Location, located, place_of_user

Tell = Callable[[str, Location | None, int, int, int, int], None]
"""Told of each op: its name and line, begin and end, its own nanoseconds, and the bytes that it moves."""


class OpTimer:
    """Times ops as they are applied, and tells of each when it ended."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._inside: list[int] = []  # nanoseconds of what ran inside of each op that is running

    def apply(self, emit: Callable[..., tuple[Any, ...]], op: Op, inputs: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        """The outputs of ``emit(op, inputs, *rest)``."""
        outputs: tuple[Any, ...] = ()
        self._inside.append(0)
        begin = time.perf_counter_ns()
        try:
            outputs = emit(op, inputs, *rest)
            return outputs
        finally:
            end = time.perf_counter_ns()
            inside = self._inside.pop()
            if self._inside:
                self._inside[-1] += end - begin
            moved = 0 if inside else sum(map(_bytes, (*inputs, *outputs)))
            self._tell(op.name, located(place_of_user()), begin, end, end - begin - inside, moved)


def _bytes(value: Any) -> int:
    """Bytes of a tensor; 0 for tokens and stacks."""
    type = value.type
    size, dtype = getattr(type, "size", None), getattr(type, "dtype", None)
    return size * dtype.itemsize if isinstance(size, int) and dtype is not None else 0
