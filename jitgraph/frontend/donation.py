"""Donation: state that a compiled call rebinds is updated in place where nobody else can see its memory.

An input may be overwritten if its handle is the only one to hold the value, the value the only one to hold the array,
and no view of the array was ever given out. CPython's reference counts say so; what they are for an unshared value is
measured once, on the way the check itself takes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
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


def unshared(handles: Sequence[Any], buffers: Sequence[Any], slots: Sequence[tuple[int, int]]) -> list[int]:
    """The inputs that may be overwritten now, of ``slots``: pairs (input, slot of its handle)."""
    return [number for number, slot in slots if _counts(handles[slot], buffers, number) == _ALONE]


def _counts(handle: Any, buffers: Sequence[Any], number: int) -> tuple[int, int] | None:
    value = handle._value
    array = value.array
    if value.exported or not array.flags.writeable or isinstance(array.base, np.ndarray):
        return None
    return sys.getrefcount(value), sys.getrefcount(array)


class _Probe:
    _value: EagerValue


def _measure() -> tuple[int, int]:
    handle = _Probe()
    handle._value = EagerValue(np.zeros(1))
    counts = _counts(handle, [handle._value.array], 0)
    assert counts is not None
    return counts


_ALONE: Final = _measure()
