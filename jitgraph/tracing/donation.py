"""Donation: state that a compiled call rebinds is updated in place where nothing else refers to its memory.

An input may be overwritten if its handle is the only one to hold the value, the value the only one to hold the array,
and no view of the array was ever given out (``runtime/buffer.py``). Memory that only one value holds overlaps no other
operand's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np

from jitgraph.eager.device_value import DeviceValue
from jitgraph.eager.value import EagerValue
from jitgraph.errors import JitgraphError
from jitgraph.ir.types import TensorType
from jitgraph.runtime import forks
from jitgraph.runtime.buffer import CPU, UniqueAmong, are_released, holders
from jitgraph.tracing.plan import CallPlan, Template


def candidates(plan: CallPlan) -> tuple[tuple[int, int], ...]:
    """The pairs (output, input) of state that is rebound to a value of the same type; each output and input once."""
    retained = {value.number for value in plan.computed if value.kind == "input"}
    of_handle = {plan_input.at: i for i, plan_input in enumerate(plan.inputs) if plan_input.kind == "handle"}
    donor_of: dict[int, int] = {}
    for handle, value in plan.rebound:
        i = of_handle.get(handle)
        if i is None or i in retained or value.kind != "output" or value.number in donor_of:
            continue
        if plan.graph.inputs[i].type == plan.graph.outputs[value.number].type:
            donor_of[value.number] = i
    for output, i in replacements(plan):
        if output not in donor_of and i not in retained:
            donor_of[output] = i
    return tuple(donor_of.items())


def replacements(plan: CallPlan) -> tuple[tuple[int, int], ...]:
    """The pairs (output, input) of a large tensor in an attribute or container, and of a new one of its type that takes
    its place there (``self.k = jg.where(mask, x, self.k)``), where nothing else of the call hands the old one on."""
    if plan.device != CPU or plan.copied is not None:
        return ()
    numbers = plan.handle_numbers
    of_handle = {plan_input.at: i for i, plan_input in enumerate(plan.inputs) if plan_input.kind == "handle"}
    templates = [plan.result, *plan.shared_templates]
    templates += [effect.value for effect in plan.effects if isinstance(effect.value, Template)]
    used: set[Any] = {leaf.at for template in templates for leaf in template.leaves if leaf.kind == "handle"}
    used |= {numbers.get(effect.owner) for effect in plan.effects}
    pairs = []
    for effect in plan.effects:
        handle, new = numbers.get(effect.source), effect.value
        if effect.operation != "set" or handle is None or handle in used or handle not in of_handle:
            continue
        if (
            effect.source.steps[-1].kind not in _PLACES
            or not isinstance(new, Template)
            or new.structure.kind is not None
        ):
            continue
        (leaf,) = new.leaves
        if leaf.kind != "fresh" or not isinstance(leaf.at, int) or plan.fresh[leaf.at].weak:
            continue
        value, i = plan.fresh[leaf.at].value, of_handle[handle]
        type = plan.graph.inputs[i].type
        if value.kind == "output" and plan.graph.outputs[value.number].type == type and _is_large(type):
            pairs.append((value.number, i))
    return tuple(pairs)


def _is_large(type: Any) -> bool:
    """Whether a tensor is so large that memory counts for more than a native call."""
    size = type.dtype.itemsize
    for extent in type.shape:
        if not isinstance(extent, int):
            return False
        size *= extent
    return bool(size >= _LEAST_REPLACED)


_PLACES: Final = ("attribute", "item")
_LEAST_REPLACED: Final = 1 << 18  # bytes


class InFlight(EagerValue):
    """Stands in a handle while a call overwrites its memory: a reader in another thread waits for the end."""

    __slots__ = ("_lock", "settled")

    access = "borrowed"  # so that nothing about the array is kept here
    native = None

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self.settled = _NOTHING

    _array = None  # nothing is known here of what the settled value has

    @property
    def array(self) -> Any:
        """The array, once the call has ended."""
        with self._lock:
            return self.settled.array

    def _layout(self) -> Any:
        return self.settled.shape, self.settled.dtype

    @property
    def type(self) -> TensorType:
        return self.settled.type

    @property
    def record(self) -> Any:  # type: ignore[override]
        return self.settled.record

    @property
    def output(self) -> int:  # type: ignore[override]
        return self.settled.output

    def export(self) -> None:
        """Note it on the value itself."""
        self.settled.export()


class DeviceInFlight(DeviceValue):
    """The same for memory of a GPU, whose reader's work then comes after the call's."""

    __slots__ = ("_lock", "settled")

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self.settled: Any = _NOTHING

    @property
    def buffer(self) -> Any:  # type: ignore[override]
        """The memory, once the call has been asked for."""
        with self._lock:
            return self.settled.buffer

    @property
    def type(self) -> TensorType:  # type: ignore[override]
        return self.settled.type  # type: ignore[no-any-return]

    @property
    def record(self) -> Any:  # type: ignore[override]
        return self.settled.record

    @property
    def output(self) -> int:  # type: ignore[override]
        return self.settled.output  # type: ignore[no-any-return]

    @property
    def access(self) -> Any:  # type: ignore[override]
        return self.settled.access

    def outside(self, handle: Any) -> Any:
        """The value that the handle has once the call has been asked for."""
        with self._lock:
            return self.settled if handle._value is self else handle.value


class InPlaceCall:
    """One call that may overwrite the values of some handles; one that has ended can serve the next call.

    While ``lock`` is held: ``begin``, the call, ``end``. ``on_device``: the values lie on a GPU.
    """

    def __init__(self, count: int, *, on_device: bool = False) -> None:
        self.lock = forks.lock(awaited=True)
        self.flying = False
        self.held: list[Any] = []
        kind: Any = DeviceInFlight if on_device else InFlight
        self._waiting: list[Any] = [kind(self.lock) for _ in range(count)]
        memory = attrgetter("buffer" if on_device else "array")
        self._uniques = UniqueAmong(count, 2, memory)  # two beside ``held``: a value that waits, and the operands
        _IN_PLACE_CALLS.add(self)

    def begin(self, handles: Sequence[Any], operands: Sequence[EagerValue], inputs: Sequence[int]) -> list[bool] | None:
        """Take the handles out of reach; for each whether nothing else holds its value, None where that is so of all.

        ``operands[inputs[i]]`` is what the call reads from ``handles[i]``, and ``operands`` holds it once.
        """
        self.flying = True
        values = self.held = list(map(_value_of, handles))
        self._hide(handles)
        uniques = self._uniques(values)
        if uniques is None and values == [operands[i] for i in inputs] and not any(map(_base_of, values)):
            return None
        alone = []
        for i, number in enumerate(inputs):
            mine = values[i] is operands[number] and values[i].base is None and (uniques is None or uniques[i])
            alone.append(mine)
            if not mine:
                if isinstance(values[i], InFlight | DeviceInFlight):
                    values[i] = values[i].settled
                handles[i]._value = values[i]
        return alone

    def leave(self, handles: Sequence[Any], numbers: Sequence[int], alone: list[bool] | None) -> list[bool] | None:
        """``alone`` without the handles of these numbers that others hold than one place and the call."""
        counts = holders(handles)
        shared = [number for number in numbers if counts[number] > _PLACE_AND_CALL]
        if not shared:
            return alone
        alone = [True] * len(handles) if alone is None else alone
        for number in shared:
            if alone[number]:
                alone[number] = False
                handles[number]._value = self.held[number]
        return alone

    def _hide(self, handles: Sequence[Any]) -> None:
        for handle, wait, value in zip(handles, self._waiting, self.held, strict=True):
            wait.settled = value
            handle._value = wait

    def end(self, handles: Sequence[Any]) -> bool:
        """Give the handles their values again; False where a thread still waits, and this must not be used again."""
        for handle, value in zip(handles, self.held, strict=False):  # nothing is held where ``begin`` was interrupted
            handle._value = value
        self.flying = False
        if not are_released(self._waiting):
            return False
        self.held = []
        for wait in self._waiting:
            wait.settled = _NOTHING
        return True

    def in_child(self) -> None:
        """After a fork that could wait no longer for another thread's call: what it was writing is lost."""
        if self.flying and not self.lock._is_owned():
            for wait in self._waiting:
                wait.settled = Lost(wait.settled.type)


class Lost(EagerValue):
    """The value of a tensor whose memory another thread was overwriting when the process forked."""

    __slots__ = ("_lost_type",)

    access = "borrowed"
    native = None
    record = None
    output = 0

    def __init__(self, type: TensorType) -> None:
        self._lost_type = type

    _array = None

    @property
    def array(self) -> Any:
        """JitgraphError."""
        raise JitgraphError(
            "another thread was updating this tensor in place when the process forked, so its values are lost here\n"
            "  hint: fork while no call is under way, or give the child a copy"
        )

    @property
    def type(self) -> TensorType:
        return self._lost_type

    def _layout(self) -> Any:
        return self._lost_type.shape, self._lost_type.dtype

    def export(self) -> None:
        """There is nothing to export."""


_IN_PLACE_CALLS: Final = forks.Living()


def _in_child() -> None:
    for call in _IN_PLACE_CALLS.members():
        call.in_child()


forks.in_child(_in_child)

_PLACE_AND_CALL: Final = 2
_NOTHING: Final = EagerValue(np.zeros(0))
_value_of: Final = attrgetter("_value")
_base_of: Final = attrgetter("base")
