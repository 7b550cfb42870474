"""One call of a plan: state that is updated in place, what goes to a device, and what comes back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np

from jitgraph.eager import placement
from jitgraph.eager.native import Recycled, output_value
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.types import TensorType
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks, loader
from jitgraph.runtime.buffer import CPU, UniqueAmong, are_released, holders
from jitgraph.tracing.call import backend
from jitgraph.tracing.call.code import PythonCode
from jitgraph.tracing.call.plan import CallPlan, Template

# ----------------------------------------------------------------------
# Donation: state that a compiled call rebinds is updated in place where nothing else refers to its memory.
#
# An input may be overwritten if its handle is the only one to hold the value, the value the only one to hold the array,
# and no view of the array was ever given out (``runtime/buffer.py``). Memory that only one value holds overlaps no
# other operand's.


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
    used |= {view.root.at for view in plan.views if view.root.kind == "handle"}
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


# ----------------------------------------------------------------------
# One call of native code on eager values: where each result lies, and what of the state it overwrites.
#
# What does not depend on the call is settled once: the plan of shapes, which results may take over which state
# (``call/invocation.py``), and the memory of small results. The arguments were checked (``call/code.py``), so the code
# is entered without a second look at them.

_MOST_BYTES: Final = 64 << 10  # of one result that is kept; above, allocating is no longer what counts
_MOST_KEPT: Final = 4 << 20  # of all results of one specialisation


class Alias(NamedTuple):
    """An output that may lie where an input lies, which is the value of the handle in a slot."""

    output: int
    input: int
    slot: int
    is_replaced: bool = False  # the handle gives way to another one, so that nobody else may hold it


class Invocation:
    """Calls ``entry`` on operands that fit it; safe from several threads, and from inside a call."""

    def __init__(self, entry: loader.Entry, aliases: Sequence[Alias] = (), recycle: bool = False) -> None:
        """``recycle``: small results that were dropped give their memory to later ones."""
        self._entry = entry
        self._plan: loader.ShapePlan | None = None
        signature = entry.signature
        if not signature.dims:
            self._plan = entry.plan(tuple(_fixed(spec.shape) for spec in signature.parameters))
        self._inputs = [alias.input for alias in aliases]
        self._outputs = [alias.output for alias in aliases]
        self._replaced = [number for number, alias in enumerate(aliases) if alias.is_replaced]
        self._targets = _picker([alias.slot for alias in aliases])
        self._calls: list[InPlaceCall] = []
        recycled: frozenset[int] = frozenset()
        if recycle and self._plan is not None:
            recycled = _recyclable({n: o[2] for n, o in enumerate(self._plan.outputs) if n not in self._outputs})
        self._takes = [_taking(number, number in recycled) for number in range(len(signature.outputs))]
        self._enter, self._assemble = entry_code(entry, self._takes, self._outputs)

    def __call__(self, handles: Sequence[Any], operands: list[EagerValue]) -> list[EagerValue]:
        """The values of the outputs. State is overwritten in place where nothing else refers to it."""
        plan = self._plan
        if plan is None:
            plan = self._entry.plan(tuple([value.array.shape for value in operands]))
        if self._inputs:
            return self._in_place(plan, self._targets(handles), operands)
        results = self._assemble(plan, ())
        self._enter(plan, operands, results)
        return results

    def _in_place(self, plan: loader.ShapePlan, handles: Sequence[Any], operands: list[EagerValue]) -> list[EagerValue]:
        try:
            call = self._calls.pop()
        except IndexError:
            call = InPlaceCall(len(handles))
        with call.lock:
            try:
                alone = call.begin(handles, operands, self._inputs)
                taken = call.held
                if self._replaced:
                    alone = call.leave(handles, self._replaced, alone)
                if alone is not None:
                    taken = [
                        value if mine else self._takes[number](plan)
                        for value, mine, number in zip(taken, alone, self._outputs, strict=True)
                    ]
                results = self._assemble(plan, taken)
                self._enter(plan, operands, results)
                for value in taken:
                    if value.record is not None:  # how the old contents were made
                        value.record, value.output = None, 0
            finally:
                if call.end(handles):
                    self._calls.append(call)
        return results


class EntryCode(NamedTuple):
    """Two loops that each call of native code takes, written out."""

    enter: Callable[[loader.ShapePlan, Sequence[EagerValue], Sequence[EagerValue]], None]
    assemble: Callable[[loader.ShapePlan, Sequence[EagerValue]], list[EagerValue]]


def entry_code(
    entry: loader.Entry, takes: Sequence[Callable[[loader.ShapePlan], EagerValue]], taken_over: Sequence[int]
) -> EntryCode:
    """``enter`` gives the addresses of operands and results to the code. ``assemble`` makes the results: those numbered
    in ``taken_over`` come from the state, the others from ``takes``."""
    inputs = [f"i{n}" for n in range(len(entry.signature.parameters))]
    result_names = [f"o{n}" for n in range(len(takes))]
    addresses = ", ".join(f"{name}.address" for name in (*inputs, *result_names))
    result_exprs = [f"t[{taken_over.index(n)}]" if n in taken_over else f"take{n}(plan)" for n in range(len(takes))]
    code = PythonCode({"call": entry.call, "pack": entry.pack, **{f"take{n}": take for n, take in enumerate(takes)}})
    code.define(
        "enter(plan, operands, results)",
        [
            f"[{', '.join(inputs)}] = operands",
            f"[{', '.join(result_names)}] = results",
            f"call(plan, pack({addresses}))",
        ],
    )
    code.define("assemble(plan, t)", [f"return [{', '.join(result_exprs)}]"])
    names = code.compiled()
    return EntryCode(names["enter"], names["assemble"])


def _recyclable(sizes: Mapping[int, int]) -> frozenset[int]:
    """The small ones of outputs with so many bytes, within a limit for all of them."""
    left = _MOST_KEPT
    recyclable = set()
    for number, size in sizes.items():
        if size <= _MOST_BYTES and Recycled.DEPTH * size <= left:
            left -= Recycled.DEPTH * size
            recyclable.add(number)
    return frozenset(recyclable)


def _taking(number: int, recycles: bool) -> Callable[[loader.ShapePlan], EagerValue]:
    """What gives the value that an output is written to."""
    fresh = partial(output_value, number)
    return Recycled(fresh).take if recycles else fresh


def _fixed(shape: Sequence[int | str]) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int))


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What gives the items of these numbers."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda items: [items[number] for number in numbers]


# ----------------------------------------------------------------------
# One call of a plan whose graph runs on a GPU: what goes there, what of the state it overwrites, and what comes back.
#
# Numbers and small state may lie on the CPU (``record/planning.py``). They go to the device in one copy, which calls
# with the same numbers share. New state of the CPU that follows from what lies there alone, such as that of a
# generator, is computed there, so that no call waits for the device; other state goes back, which does wait.


class _Uploaded(NamedTuple):
    """Values of the CPU as bytes, and the same on the device."""

    content: bytes
    values: list[DeviceValue]


class DeviceInvocation:
    """Calls ``program`` on operands that fit it, without waiting for the results; safe from several threads."""

    def __init__(self, program: Any, plan: CallPlan, aliases: Sequence[Alias] = ()) -> None:
        self._program = program
        self._device = plan.device
        self._aliases = tuple(alias for alias in aliases if plan.handles[alias.slot].device != CPU)
        self._inputs = [alias.input for alias in self._aliases]
        self._calls: list[InPlaceCall] = []
        self._from_host = [
            number
            for number, plan_input in enumerate(plan.inputs)
            if plan_input.kind != "handle" or plan.handles[plan_input.at].device == CPU
        ]
        self._uploaded: _Uploaded | None = None
        self._to_host = sorted({
            value.number
            for handle, value in plan.rebound
            if value.kind == "output" and plan.handles[handle].device == CPU
            and plan.handles[handle].type == plan.graph.outputs[value.number].type
        })  # fmt: skip
        self._host_half = _HostHalf.of(plan.graph, self._to_host, self._from_host) if self._to_host else None

    def __call__(self, handles: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The values of the outputs. State on the device is overwritten in place where nothing else refers to it."""
        outputs = self._in_place(handles, operands) if self._aliases else self._program.call(self.on_device(operands))
        if self._host_half is not None:
            for number, value in zip(self._to_host, self._host_half.run(operands), strict=True):
                outputs[number] = value
        else:
            for number in self._to_host:
                outputs[number] = placement.copied(outputs[number], CPU)
        return outputs

    def on_device(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands, all of them on the device; a second time for the same call they are the same values."""
        if not self._from_host:
            return operands
        numbers = [number for number in self._from_host if isinstance(operands[number], EagerValue)]
        arrays = [operands[number].array for number in numbers]
        content = b"".join([array.tobytes() for array in arrays])
        uploaded = self._uploaded
        if uploaded is None or uploaded.content != content:
            uploaded = self._uploaded = _Uploaded(content, placement.of_arrays(arrays, self._device))
        on_device = list(operands)
        for number, value in zip(numbers, uploaded.values, strict=True):
            on_device[number] = value
        return on_device

    def _in_place(self, handles: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        state = [handles[alias.slot] for alias in self._aliases]
        try:
            call = self._calls.pop()
        except IndexError:
            call = InPlaceCall(len(state), on_device=True)
        with call.lock:
            try:
                alone = call.begin(state, operands, self._inputs)
                taken = {
                    alias.output: value
                    for index, (alias, value) in enumerate(zip(self._aliases, call.held, strict=True))
                    if (alone is None or alone[index]) and value.access == "own"
                }
                outputs = self._program.call(self.on_device(operands), taken)
                for value in taken.values():
                    if value.record is not None:  # how the old contents were made
                        value.record, value.output = None, 0
            finally:
                if call.end(state):
                    self._calls.append(call)
        return outputs  # type: ignore[no-any-return]


class _HostHalf:
    """The part of a graph that computes some of its outputs from inputs on the CPU alone, run there."""

    def __init__(self, graph: Graph, inputs: Sequence[int]) -> None:
        self._program = backend.compile_graph(graph)
        self._inputs = inputs

    def run(self, operands: Sequence[Any]) -> list[EagerValue]:
        """The values of those outputs."""
        return [EagerValue(array) for array in self._program.run([operands[i].array for i in self._inputs])]

    @classmethod
    def of(cls, graph: Graph, outputs: Sequence[int], from_host: Sequence[int]) -> _HostHalf | None:
        """The part for these outputs; None where they follow from anything that lies on the device."""
        live = {graph.outputs[number] for number in outputs}
        nodes: list[Node] = []
        for node in reversed(graph.nodes):
            if not live.isdisjoint(node.outputs):
                nodes.append(node)
                live.update(node.inputs)
        inputs = [number for number, value in enumerate(graph.inputs) if value in live]
        symbolic = any(not isinstance(size, int) for value in graph.inputs for size in value.shape)
        if symbolic or not set(inputs) <= set(from_host):
            return None
        part = Graph(
            tuple([graph.inputs[number] for number in inputs]),
            tuple(reversed(nodes)),
            tuple([graph.outputs[number] for number in outputs]),
            graph.constraints,
            f"{graph.name}.state",
        )
        return cls(part, inputs)
