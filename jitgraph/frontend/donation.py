"""Donation: state that a compiled call rebinds is updated in place where nobody else can see its memory.

An input may be overwritten if its handle is the only one to hold the value, the value the only one to hold the array,
and no view of the array was ever given out. CPython's reference counts say so; what they are for an unshared value is
measured once, on the way the check itself takes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.eager import EagerValue
from jitgraph.frontend.program import Program


def candidates(program: Program) -> tuple[tuple[int, int], ...]:
    """The pairs (output, input) of state that is rebound to a value of the same type; each output and input once."""
    kept = {fresh.source.number for fresh in program.fresh if fresh.source.kind == "input"}
    kept |= {source.number for _, source in program.writes if source.kind == "input"}
    of_slot = {source.at: i for i, source in enumerate(program.inputs) if source.kind == "slot"}
    found: dict[int, int] = {}
    for slot, source in program.writes:
        i = of_slot.get(slot)
        if i is None or i in kept or source.kind != "output" or source.number in found:
            continue
        if program.graph.inputs[i].type == program.graph.outputs[source.number].type:
            found[source.number] = i
    return tuple(found.items())


class InFlight(EagerValue):
    """Stands in a handle while a call overwrites its memory: whoever reads it from another thread waits for the end."""

    __slots__ = ("_lock", "settled")

    def __init__(self, old: EagerValue, lock: threading.RLock) -> None:
        self._lock = lock
        self._type = old.type
        self.settled = _NOTHING  # and not ``old``, whose references are about to be counted
        self.record = old.record
        self.output = old.output
        self.exported = False

    @property
    def array(self) -> Any:  # type: ignore[override]  # read-only: nobody sets the array of a value in flight
        """The array, once the call has ended."""
        with self._lock:
            return self.settled.array


def run_in_place(
    run: Callable[[Sequence[Any], Sequence[int]], list[Any]],
    handles: Sequence[Any],
    buffers: Sequence[Any],
    slots: Sequence[tuple[int, int]],
) -> list[Any]:
    """``run(buffers, donate)``, where ``donate`` are those of ``slots``, pairs (input, slot of its handle), that nobody
    else can see.

    Each handle is taken out of reach before its references are counted, and until the call has ended.
    """
    lock = threading.RLock()
    with lock:
        held = [handles[slot]._value for _, slot in slots]
        waiting = [InFlight(value, lock) for value in held]
        for (_, slot), wait in zip(slots, waiting, strict=True):
            handles[slot]._value = wait
        donated = []
        for i, (number, slot) in enumerate(slots):
            if _counts(held, i, buffers, number) == _ALONE:
                donated.append(number)
            else:
                handles[slot]._value = held[i]
            waiting[i].settled = held[i]
        try:
            outputs = run(buffers, donated)
        finally:
            for (_, slot), wait, value in zip(slots, waiting, held, strict=True):
                wait.settled = value
                handles[slot]._value = value
    return outputs


def _counts(held: list[Any], i: int, buffers: Sequence[Any], number: int) -> tuple[int, int] | None:
    value = held[i]
    array = value.array
    if value.exported or not array.flags.writeable or isinstance(array.base, np.ndarray):
        return None
    return sys.getrefcount(value), sys.getrefcount(array)


_NOTHING: Final = EagerValue(np.zeros(0))


def _measure() -> tuple[int, int]:
    held = [EagerValue(np.zeros(1))]
    counts = _counts(held, 0, [held[0].array], 0)
    assert counts is not None
    return counts


_ALONE: Final = _measure()
