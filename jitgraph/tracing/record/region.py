"""Region: records the body of a control-flow op, with the Python objects that it makes or changes."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import CellType
from typing import Any, Final, TypeAlias

from jitgraph import ops
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import ScriptError, TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import Constant, Type
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.undo_log import UndoEntry, UndoLog
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MISSING, contents_of
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.values import TracedValue

# ----------------------------------------------------------------------
# WriteLog: the Python objects that a staged body makes, and the entries of outer ones that it changes.
#
# A body is recorded once and runs as often as tensors say, so what it sets is put back when it has been recorded: an
# element of a list or dict, or an attribute, that holds something else afterwards is a result of the statement, as a
# variable is. What changes the extent of a container is no such result and raises.

UNBOUND: Final[Any] = object()  # the value of a variable or entry that has none
CONTAINERS: Final = (list, dict, set, deque, bytearray)


class WriteTarget:
    """Where a value stands in a Python object: an element of a list, deque or dict, or an attribute."""

    __slots__ = ("attribute", "key", "location", "owner")

    def __init__(self, owner: Any, key: Any, *, attribute: bool, location: Location | None = None) -> None:
        self.owner = owner
        self.key = key
        self.attribute = attribute
        self.location = location  # of the first change

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WriteTarget) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, bool, Any]:
        return id(self.owner), self.attribute, self.key

    def __str__(self) -> str:
        kind = type(self.owner).__name__
        return f"the attribute {self.key!r} of a {kind}" if self.attribute else f"the item {self.key!r} of a {kind}"

    def get(self) -> Any:
        """What stands there, for an attribute also by the class, or UNBOUND."""
        if self.attribute:
            return getattr(self.owner, self.key, UNBOUND)
        if isinstance(self.owner, dict):
            return dict.get(self.owner, self.key, UNBOUND)
        return self.owner[self.key] if self.key < len(self.owner) else UNBOUND

    def stored(self) -> Any:
        """As ``get``, but UNBOUND for an attribute that the object has by its class alone."""
        own = self._attributes()
        return self.get() if own is None else own.get(self.key, UNBOUND)

    def _attributes(self) -> dict[str, Any] | None:
        """The dict in which the object keeps this attribute; None where a slot or a property does."""
        return Slot("attribute", self.owner, self.key, self.key).storage if self.attribute else None

    def put(self, value: Any) -> None:
        """Set the entry, or with UNBOUND remove it; no ``__setattr__`` of the user's is run."""
        own = self._attributes() if self.attribute else self.owner
        if value is not UNBOUND:
            setattr(self.owner, self.key, value) if own is None else own.__setitem__(self.key, value)
        elif self.stored() is not UNBOUND:
            delattr(self.owner, self.key) if own is None else own.__delitem__(self.key)


class Tail(WriteTarget):
    """What stands in a list from the position ``key`` on, where nothing stood: the elements that were appended."""

    __slots__ = ()

    def __init__(self, owner: Any, key: int, location: Location | None = None) -> None:
        super().__init__(owner, key, attribute=False, location=location)

    @property
    def _identity(self) -> tuple[int, bool, Any]:
        return id(self.owner), False, ("tail", self.key)

    def __str__(self) -> str:
        return "what is appended to a list"

    def get(self) -> Any:
        return tuple(list.__iter__(self.owner))[self.key :]

    def put(self, value: Any) -> None:
        if hasattr(self.owner, "put_segments"):
            self.owner.put_segments(self.key, value)
        else:
            list.__setitem__(self.owner, slice(self.key, None), value)


class LastElements(WriteTarget):
    """The last ``key`` elements of a list that grows in a loop, which reads them: the loop carries them."""

    __slots__ = ()

    def __init__(self, owner: Any, key: int) -> None:
        super().__init__(owner, key, attribute=False)

    @property
    def _identity(self) -> tuple[int, bool, Any]:
        return id(self.owner), False, ("window", self.key)

    def __str__(self) -> str:
        return "the last element of a list" if self.key == 1 else f"the last {self.key} elements of a list"

    def get(self) -> Any:
        return tuple(list.__iter__(self.owner))[-self.key :]

    def put(self, value: Any) -> None:
        list.__setitem__(self.owner, slice(-self.key, None), value)


class CellVariable(WriteTarget):
    """A variable of an enclosing function, by its cell, which a function inside rebinds."""

    __slots__ = ()

    def __init__(self, cell: CellType, name: str, location: Location | None = None) -> None:
        super().__init__(cell, name, attribute=False, location=location)

    def __str__(self) -> str:
        return f"the variable {self.key!r}"

    def get(self) -> Any:
        try:
            return self.owner.cell_contents
        except ValueError:
            return UNBOUND

    def put(self, value: Any) -> None:
        if value is not UNBOUND:
            self.owner.cell_contents = value
        elif self.get() is not UNBOUND:
            del self.owner.cell_contents


class Changed(NamedTuple):
    """What stood at an entry before the body, and what stands there after it."""

    before: Any
    after: Any


class WriteLog:
    """What one body makes and changes."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._log = UndoLog()
        self.reads: dict[int, float] = {}  # of lists that may grow here: how many of the last elements are read
        self.windows: dict[int, int] = {}  # of those, how many of the last elements the loop carries

    def make(self, value: Any) -> None:
        """``value`` was made by the body: changing it changes nothing outside."""
        self._made[id(value)] = value

    def change(self, target: Any, attribute: str | None) -> None:
        """``target`` is about to be changed: its attribute of that name, or its contents."""
        touched = target if attribute is None else Slot("attribute", target, attribute, attribute)
        if id(target) not in self._made and self._log.entry(touched) is None:
            self._log.save(touched, f"a {type(target).__name__}", Location.of_user())

    def rebind(self, cell: CellType, name: str) -> None:
        """A variable of an enclosing function is about to be rebound."""
        if id(cell) not in self._made and self._log.entry(slot := Slot("cell", cell, None, name)) is None:
            self._log.save(slot, f"the variable {name!r}", Location.of_user())

    def set(self, entry: WriteTarget, value: Any) -> None:
        """Set an entry as the body does."""
        if isinstance(entry, CellVariable):
            self.rebind(entry.owner, entry.key)
        else:
            self.change(entry.owner, entry.key if entry.attribute else None)
        entry.put(value)
        if isinstance(entry, LastElements):
            self.windows[id(entry.owner)] = entry.key

    def has_created(self, value: Any) -> bool:
        """Whether the body made an object."""
        return id(value) in self._made

    def before(self, target: Any) -> Any:
        """What a container held before the body changed it; None where it did not."""
        entry = self._log.entry(target)
        return None if entry is None else entry.before

    def covers(self, owner: Any, key: Any, *, attribute: bool) -> bool:
        """Whether a change of this entry is noted here, or is one of an object that the body made."""
        return (
            id(owner) in self._made
            or (isinstance(owner, CellType) and self._log.entry(Slot("cell", owner, None, "")) is not None)
            or self._log.entry(Slot("attribute", owner, key, key) if attribute else owner) is not None
        )

    def changes(self) -> dict[WriteTarget, Changed]:
        """The entries that hold something else now; ScriptError where a container has another extent."""
        return {
            entry: changed
            for undo_entry in self._log
            for entry, changed in _differences(undo_entry, self.windows.get(id(undo_entry.target), 0))
            if changed.after is not changed.before
        }

    def undo(self) -> None:
        """Put all changes back."""
        self._log.undo()


def _differences(undo_entry: UndoEntry, window: int) -> Iterator[tuple[WriteTarget, Changed]]:
    """``window`` elements at the end of what a list held are carried, and no changes."""
    target, before, location = undo_entry.target, undo_entry.before, undo_entry.location
    if isinstance(target, Slot) and target.kind == "cell":
        variable = CellVariable(target.owner, target.text, location=location)
        yield variable, Changed(UNBOUND if before is MISSING else before, variable.get())
    elif isinstance(target, Slot):
        entry = WriteTarget(target.owner, target.key, attribute=True, location=location)
        stood = getattr(type(target.owner), target.key, UNBOUND) if before is MISSING else before
        yield entry, Changed(stood, entry.get())
    elif isinstance(target, dict):
        if [key for key in target if key in before] != list(before):
            raise other_extent(target, location)
        for key, value in target.items():
            entry = WriteTarget(target, key, attribute=False, location=location)
            yield entry, Changed(before.get(key, UNBOUND), value)
    elif isinstance(target, list) and (len(now := contents_of(target)) > len(before) or window):
        start = len(before)
        if any(a is not b for a, b in zip(now[: start - window], before, strict=False)) or len(now) < start:
            raise other_extent(target, location)
        yield Tail(target, start, location), Changed((), tuple(now[start:]))
    elif isinstance(target, list | deque):
        if len(contents_of(target)) != len(before):
            raise other_extent(target, location)
        for key, value in enumerate(contents_of(target)):
            yield WriteTarget(target, key, attribute=False, location=location), Changed(before[key], value)
    elif undo_entry.is_changed:
        raise other_extent(target, location)


def other_extent(target: Any, location: Location | None) -> ScriptError:
    """The error where code that runs depending on a tensor changes the extent of a container."""
    kind = target.__class__.__name__
    what = "in its elements" if isinstance(target, set | bytearray) else "in its length or keys"
    return ScriptError(
        f"a {kind} from outside is changed {what} by code that runs depending on a tensor, which no graph can do",
        location=location,
        hint="set elements that are there already, write into a tensor (t[...] = value), collect results with jg.scan, "
        "or loop over a Python range, which is unrolled",
    )


def grows_by_data(location: Location | None) -> ScriptError:
    """The error where tensors decide how often a list is appended to."""
    return ScriptError(
        "how often this appends to a list depends on the values of tensors, so that its length is known only when the "
        "graph runs, and a graph has no tensors of such a length",
        location=location,
        hint="write into a tensor of the greatest length (t[k] = value; k += 1), or append in each turn of a loop over "
        "range(n), jg.where(test, value, 0), and count",
    )


# ----------------------------------------------------------------------
# Region: records the body of a control-flow op, which changes no Python object from outside.

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
