"""Region: records the body of a control-flow op, which changes no Python object from outside."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

from jitgraph import ops
from jitgraph.eager.value import EagerValue
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import Constant, Type
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.undo_log import UndoEntry, UndoLog
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.record.write_log import WriteLog

# ----------------------------------------------------------------------
# Region: records the body of a control-flow op. What it uses from outside comes in as operands of the op.

Key: TypeAlias = "tuple[str, Any]"


class Captured(NamedTuple):
    """A value from outside: the operand, and the region's input for it."""

    outer: TracedValue
    inner: Value


class Region(Recorder):
    """The recorder of one body; ``parameters`` are the values the op itself hands to it."""

    def __init__(self, name: str, parent: Recorder, types: Sequence[Type], flags: Sequence[bool]) -> None:
        super().__init__(name, parent.constraints, parent)
        self.parameters = [self.wrap(Value(type), flag, None) for type, flag in zip(types, flags, strict=True)]
        self.captured: dict[Key, Captured] = {}

    def record(self, function: Any, *args: Any) -> Any:
        """Call ``function`` with its ops recorded here."""
        with context.using(emitter=self, trace=self, constraints=self.constraints):
            return function(*args)

    # --- what comes from outside ------------------------------------------------------------------------------------

    def import_value(self, value: TracedValue) -> TracedValue:
        """A value of a surrounding recorder, as an input of this region."""
        assert self.parent is not None
        outer = self.parent.own(value)
        return self._capture(("value", outer.ir), outer)

    def _capture(self, key: Key, outer: TracedValue) -> TracedValue:
        captured = self.captured.get(key)
        if captured is None:
            captured = self.captured[key] = Captured(outer, Value(outer.type, outer.ir.hint))
            if key[0] == "value" and outer.ir in self.parent_ends:
                self.ends[captured.inner] = self.parent_ends[outer.ir]
        return self.wrap(captured.inner, outer.requires_grad, outer.location)

    @property
    def parent_ends(self) -> dict[Value, tuple[int, int]]:
        """The ends of the values outside."""
        assert self.parent is not None
        return self.parent.ends

    def adopt(self, handle: Tensor) -> TracedValue:
        """A handle from outside gets an input of its own, which becomes a carry where the region rebinds it."""
        assert self.parent is not None
        value = self._capture(("handle", id(handle)), self.parent.read(handle))
        if handle._requires_grad:
            self.gradients.leaves[value.ir] = handle
        return value

    def lift_eager(self, value: EagerValue) -> TracedValue:
        """A computed value that no handle names: a constant, or an input where gradients go on to its tape."""
        if self.takes_tape:
            assert self.parent is not None
            return self.own(self.parent.lift_eager(value))
        (lifted,) = self.record_op(ops.constant, [], {"value": Constant(value.array)}, (), False)
        return lifted

    def lift(self, array: Any) -> TracedValue:
        """A NumPy array, lifted outside."""
        assert self.parent is not None
        return self.own(self.parent.lift(array))

    def host_float(self, mapping: Any, key: Any) -> Any:
        """A float read at each call, lifted outside."""
        assert self.parent is not None
        return self.parent.host_float(mapping, key)

    def outer_grad(self, handle: Tensor) -> Tensor | None:
        """``.grad`` as it is outside."""
        assert self.parent is not None
        return self.parent.read_grad(handle)

    # --- what goes out ----------------------------------------------------------------------------------------------

    def written(self) -> list[Tensor]:
        """The handles from outside that the region rebinds; TraceError where it leaves another ``.grad`` behind."""
        handles = []
        for state in self.states.values():
            if state.grad_written and state.grad is not None and state.grad is not state.initial_grad:
                raise TraceError(
                    f"the body of {self.name} leaves a .grad in a tensor from outside",
                    location=Location.of_user(),
                    hint="set it to None before the body ends, or use jg.autograd.grad inside and return what you need",
                )
            if state.written and state.value is not state.initial:
                handles.append(state.handle)
        return handles

    def close(self, keys: Sequence[Key], types: Sequence[Type], outputs: Sequence[TracedValue]) -> Graph:
        """The closed graph: parameters, then an input for each key (also where this region does not use it)."""
        inner = [
            self.captured[key].inner if key in self.captured else Value(type)
            for key, type in zip(keys, types, strict=True)
        ]
        self.builder.inputs = [value.ir for value in self.parameters] + inner
        graph = self.builder.graph([value.ir for value in outputs], self.name)
        self.ended = True
        return Graph(graph.inputs, graph.nodes, graph.outputs, (), self.name)


def handles_of(regions: Sequence[Region]) -> list[Tensor]:
    """The handles that any of the regions rebinds, each once."""
    by_id = {id(handle): handle for region in regions for handle in region.written()}
    return list(by_id.values())


def adopt_written(region: Region, handle: Tensor) -> None:
    """Make sure that a handle which was written before it was read has an input, as a carry needs."""
    if ("handle", id(handle)) not in region.captured:
        state = region.states[id(handle)]
        state.initial = region.adopt(handle)


def operands_of(regions: Sequence[Region], first: Sequence[Key] = ()) -> tuple[list[Key], list[TracedValue]]:
    """What the regions use from outside, once each: the keys, ``first`` in front, and the operands."""
    operands: dict[Key, TracedValue] = {}
    for key in first:
        operands[key] = next(region.captured[key].outer for region in regions if key in region.captured)
    for region in regions:
        for key, captured in region.captured.items():
            operands.setdefault(key, captured.outer)
    return list(operands), list(operands.values())


def write_back(trace: Recorder, handles: Sequence[Tensor], values: Sequence[TracedValue]) -> None:
    """Rebind what a body rebinds; it wrote into the aliases of each, too, so that these are among the handles."""
    for handle, value in zip(handles, values, strict=True):
        trace.rebind(handle, value)


# ----------------------------------------------------------------------
# Bodies of control-flow ops change no Python object from outside: recorded once, they run any number of times.


@contextmanager
def unchanged(name: str, trace: Recorder, function: Any, journal: WriteLog | None = None) -> Iterator[None]:
    """TraceError where the block, which records ``function`` as a body of ``name``, leaves Python state changed.

    That is what the trace sees being changed, but for what ``journal`` covers, and the variables and containers that
    the function closes over. It is put back.
    """
    *_, root = trace.outwards()
    capture = root.capture
    failed = True
    log = UndoLog()
    try:
        with nullcontext(log) if capture is None else capture.effects.watching(log):
            if isinstance(function, types.FunctionType):
                _save_variables(function, log)
            yield
        failed = False
    finally:
        left = [entry for entry in log.changed() if not _is_covered(entry, journal)]
        for entry in reversed(left):
            entry.put_back()
        if left and not failed:
            raise _changed(left[0].text, name, left[0].location or Location.of_user())


def _save_variables(function: types.FunctionType, log: UndoLog) -> None:
    """The variables that a function closes over, and the containers in them, may be changed from now on."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        slot = Slot("cell", cell, None, name)
        log.save(slot, name)
        if type(value := slot.get_or(None)) in (list, dict, set):
            log.save(value, name)


def watched(name: str, trace: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls ``unchanged`` looks at."""

    def call(*args: Any) -> Any:
        with unchanged(name, trace, function):
            return function(*args)

    return call


def _is_covered(entry: UndoEntry, journal: WriteLog | None) -> bool:
    """Whether the journal takes care of what was changed."""
    target = entry.target
    if journal is None:
        return False
    if isinstance(target, Slot):
        return journal.covers(target.owner, target.key, attribute=target.kind in ("attribute", "own"))
    return journal.covers(target, None, attribute=False)


def _changed(text: str, name: str, location: Location | None) -> TraceError:
    return TraceError(
        f"{text} is changed in a body of {name}, which runs as often as tensors say, while Python runs it once",
        location=location,
        hint="carry it as a value of the loop or a result of the branch, or write into a tensor (t[...] = value)",
    )
