"""Loops on tensors: the body is recorded once, with the variables that it binds as carries of a ``while`` or
``scan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from types import FunctionType
from typing import Any, Final

from jitgraph import dtypes, ops, tree
from jitgraph.errors import ScriptError, trying
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.tensor import Tensor, lifting, weak_ints, wrap, wrap_as
from jitgraph.tensor.functions.elementwise import logical_and, logical_not
from jitgraph.tracing.record import control_flow
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import (
    UNBOUND,
    Changed,
    LastElements,
    Tail,
    WriteTarget,
    grows_by_data,
    other_extent,
)
from jitgraph.tracing.record.stand_ins import moved
from jitgraph.tracing.record.values import GrownElement, SameWhere, note_choice
from jitgraph.tracing.script.aliasing import (
    CarriedObjects,
    KnownIdentities,
    Position,
    UnforeseenIdentityError,
    objects_in,
    outlives,
)
from jitgraph.tracing.script.branches import drop, in_body, innermost, rebuilt_here, set_entry, start_body, truth
from jitgraph.tracing.script.exits import RESULT
from jitgraph.tracing.script.iterables import Steps
from jitgraph.tracing.script.lists import ElementRows, is_growing, joined_rows, known_tensors, last_of, single_rows
from jitgraph.tracing.script.variables import (
    Cells,
    Dropped,
    Kind,
    MaybeUnbound,
    Name,
    Site,
    describe,
    handle,
    is_bound,
    is_staged,
    joined,
    kind_of,
    line_of,
    operand,
    same,
    title,
    unbound_name,
    zero,
)
from jitgraph.tracing.symbolic.staged_number import StagedNumber
from jitgraph.tree import TreeDef

# ----------------------------------------------------------------------
# What the turns of a staged loop append to lists: stacked outputs of the loop, which then are rows of the lists.


class _Column(NamedTuple):
    """One part that each turn appends: an element, or ``length`` elements as rows."""

    length: Any
    structure: TreeDef
    leaves: Sequence[Any]
    weak: Sequence[bool | None]
    body: Recorder

    @staticmethod
    def of(part: Any) -> _Column:
        body = context.current().trace
        if type(part) is ElementRows:
            return _Column(part.length, part.structure, part.leaves, part.weak, body)
        return _Column(None, *single_rows(part), body)

    def rows(self, turns: Any, remaining: Iterator[Any], ended: Mapping[int, Tensor]) -> ElementRows:
        """What all turns appended, made of the stacked tensors; ``ended`` are tensors that the last turn appended."""
        leaves = [leaf if weak is None else next(remaining) for leaf, weak in zip(self.leaves, self.weak, strict=True)]
        count = turns
        if self.length is not None:
            count = turns * self.length
            leaves = [leaf if weak is None else _flat(leaf) for leaf, weak in zip(leaves, self.weak, strict=True)]
        trace = context.current().trace
        for leaf, rows in zip(self.leaves, leaves, strict=True):
            if isinstance(leaf, Tensor) and leaf is not rows:
                new = {number: [tensor] for number, tensor in ended.items()}
                roots = moved(trace.stand_ins.roots_of(self.body, leaf), new, partial(outlives, self.body))
                trace.stand_ins.add(rows, roots, trace)
        element_rows = ElementRows(count, self.structure, leaves, self.weak, trace)
        last = {i: ended[id(leaf)] for i, leaf in enumerate(self.leaves) if id(leaf) in ended}
        if last and self.has_last(turns):
            element_rows.adopt(turns - 1, last)
        return element_rows

    def has_last(self, turns: Any) -> bool:
        """Whether the element that the last turn appends is known, so that it is the tensor that the turn left."""
        return self.length is None and type(turns) is int


def _flat(x: Tensor) -> Tensor:
    """The first two axes as one."""
    shape = x.value.type.shape
    return wrap_as(ops.reshape(x.value, shape=(shape[0] * shape[1], *shape[2:])), x)  # type: ignore[no-any-return]


class Growth:
    """The lists that one turn lets grow, with what it appends to each."""

    def __init__(self) -> None:
        self._columns: dict[Tail, list[_Column]] = {}
        self._appended: dict[Tail, list[Tensor]] = {}

    def add(self, entry: Tail, parts: Sequence[Any]) -> None:
        """Each turn appends ``parts`` to a list."""
        self._appended[entry] = [tensor for part in parts for tensor in known_tensors(part)]
        joined = joined_rows(parts) if len(parts) > 1 else None
        self._columns[entry] = [_Column.of(part) for part in (parts if joined is None else [joined])]

    @property
    def tensors(self) -> list[Tensor]:
        """What the loop has to stack."""
        return [
            leaf.as_tensor() if type(leaf) is StagedNumber else leaf
            for columns in self._columns.values()
            for column in columns
            for leaf, weak in zip(column.leaves, column.weak, strict=True)
            if weak is not None
        ]

    def appended(self) -> dict[int, Tail]:
        """The tensors that a turn appends, by their ids, and the list of each."""
        return {id(leaf): entry for entry, leaves in self._appended.items() for leaf in leaves}

    def unknown(self, turns: Any) -> dict[int, Tail]:
        """Those among them of which not even that of the last turn is known as an element of the list."""
        return {
            id(leaf): entry
            for entry, leaves in self._appended.items()
            for leaf in leaves
            if not any(
                column.has_last(turns) and any(leaf is x for x in column.leaves) for column in self._columns[entry]
            )
        }

    def extend_lists(self, turns: Any, stacked: Sequence[Tensor], ended: Mapping[int, Tensor]) -> None:
        """Let the lists hold what ``turns`` turns appended, of which these are the stacked tensors.

        ``ended`` says which tensor a variable is after the loop, by the id of that which the recorded turn left in it.
        """
        remaining = iter(stacked)
        for entry, columns in self._columns.items():
            runs = [column.rows(turns, remaining, ended) for column in columns]
            if len(runs) == 1:
                parts: list[Any] = runs
            elif type(turns) is int and all(type(run.length) is int for run in runs):
                parts = [*_in_turns(turns, runs)]
            else:
                raise ScriptError(
                    "each turn of a loop over a named size appends elements of different types to a list",
                    location=entry.location,
                    hint="append them to a list of their own, or as one tuple",
                )
            set_entry(entry, tuple(parts))


def _in_turns(turns: int, runs: Sequence[ElementRows]) -> Iterator[Any]:
    """The elements of several parts in the order in which the turns append them."""
    elements = [map(run.element, range(run.length)) for run in runs]
    for _ in range(turns):
        for run, of_run in zip(runs, elements, strict=True):
            yield from islice(of_run, run.length // turns)


# ----------------------------------------------------------------------
# Loops on tensors: the body is recorded once, with the variables that it binds as carries of a ``while`` or ``scan``.
#
# Which variables are carried, and with what types, is found by trying: a number that meets a tensor in the body takes
# its dtype, a variable that the body defines starts as zeros where a flag or the length says that it is not read
# before, and the body is recorded again until the carry keeps its types. A variable that is only changed in place stays
# the tensor it is, which the loop then rebinds.

_ZERO = object()  # for a leaf that has no value before the loop
LONGEST: Final = 1024  # turns of a loop that is unrolled where it cannot be staged
_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type, FunctionType)
_COUNTER = Kind(dtypes.int64, (), True)


class _Variable(NamedTuple):
    """A carried variable or entry: its value before the loop (UNBOUND for none), the structure, the leaves with which
    it starts, and each leaf's kind, or None where it stays."""

    start: Any
    structure: TreeDef
    leaves: tuple[Any, ...]
    kinds: tuple[Kind | None, ...]

    @staticmethod
    def of(value: Any) -> _Variable:
        leaves, structure = tree.flatten(value)
        return _Variable(value, structure, tuple(leaves), tuple(map(kind_of, leaves)))

    @staticmethod
    def starting_as_zeros(value: Any) -> _Variable:
        """One that has no value before the loop and becomes as ``value`` in it."""
        variable = _Variable.of(value)
        pairs = zip(variable.leaves, variable.kinds, strict=True)
        return variable._replace(start=UNBOUND, leaves=tuple(leaf if kind is None else _ZERO for leaf, kind in pairs))


class _ReviseError(Exception):
    """The carry needs other variables or types: what some names are to be."""

    def __init__(self, variables: Mapping[Name, _Variable]) -> None:
        super().__init__(*variables)
        self._variables = variables

    @property
    def variables(self) -> Mapping[Name, _Variable]:
        """The variables, asked for when the body's changes have been put back."""
        return self._variables


class _CarriedFromNowOnError(_ReviseError):
    """Names have to be carried, too, starting as these values: in which lists may stand that the body has changed."""

    def __init__(self, values: Mapping[Name, Any]) -> None:
        super().__init__({})
        self._values = values

    @property
    def variables(self) -> Mapping[Name, _Variable]:
        return {name: _Variable.of(value) for name, value in self._values.items()}


class _RedefinedError(Exception):
    """The body gives ``name`` a value that cannot be carried, as ``why`` says: it must not be read before that."""

    def __init__(self, name: str, why: ScriptError, dropped: Dropped | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.why = why
        self.dropped = dropped  # where it has no value for another reason than the loop


@dataclass(slots=True)
class StagedLoop:
    """One loop statement that is being staged."""

    site: Site
    cells: Cells
    runs: bool  # the body runs at least once
    turns: Any = None  # how often it runs, where a list may grow by each turn
    stacked: Sequence[Any] = ()  # what the turns appended, stacked
    fetches: bool = False  # whether each turn takes its item from the tensors as they are then

    def record(self, make: Callable[[_Carry], Any]) -> None:
        """Record the loop by ``make`` and bind the variables to what it gives."""
        before = self.cells.read()
        variables: dict[Name, _Variable] = {
            name: _Variable.of(value)
            for name, value in before.items()
            if is_bound(value) and not (name in self.site.kept and (isinstance(value, Tensor) or is_growing(value)))
        }
        inside = before
        redefined: dict[str, ScriptError] = {}
        dropped: dict[str, Dropped] = {}
        identities = KnownIdentities()
        while True:
            carry = _Carry(self, inside, variables, redefined, identities)
            try:
                with trying():
                    outputs = make(carry)
            except _ReviseError as change:
                variables = {**variables, **change.variables}
                continue
            except UnforeseenIdentityError:
                continue
            except _RedefinedError as change:
                redefined[change.name] = change.why
                if change.dropped is not None:
                    dropped[change.name] = change.dropped
                inside = {**inside, change.name: UNBOUND}
                variables = {name: variable for name, variable in variables.items() if name != change.name}
                continue
            except NameError as error:
                if (unbound := unbound_name(error)) in dropped:
                    raise dropped[unbound].error(unbound, line_of(error)) from None
                if unbound in redefined:
                    raise redefined[unbound] from None
                raise
            finally:
                self.cells.write(before)
            break
        values = carry.rebuilt(outputs)
        carry.growth.extend_lists(self.turns, self.stacked, carry.ended(values))
        for name in variables:
            if name in carry.unchanged or isinstance(name, LastElements):
                del values[name]
                continue
            value = values[name] = rebuilt_here(values[name])
            set_entry(name, value) if isinstance(name, WriteTarget) else self.cells.set(name, value)
        carry.join(values, outputs)
        carry.mark_elements(values)
        line = Location.of_user()
        for name in carry.undefined - redefined.keys():
            why = f"is read but is defined only in the body of the loop at {line}, which may never run"
            self.cells.set(name, carry.dropped[name] if name in carry.dropped else drop(name, why))
        for other in redefined.keys() - variables.keys():
            why = f"is read but has another type after the loop at {line} than before it, or no value, if that runs"
            self.cells.set(other, dropped[other] if other in dropped else drop(other, why))


class _Carry:
    """The carried variables, as a list of tensors and back."""

    def __init__(
        self,
        loop: StagedLoop,
        before: dict[str, Any],
        variables: dict[Name, _Variable],
        redefined: Mapping[str, ScriptError],
        identities: KnownIdentities,
    ) -> None:
        """``identities`` are those that earlier recordings of the body brought about."""
        self.loop = loop
        self.redefined = redefined
        self.before = before
        self.variables = variables
        self.unchanged: set[Name] = set()
        self.undefined: set[str] = set()
        self.dropped: dict[str, Dropped] = {}  # of these the ones for which the body has no value
        self.growth = Growth()
        self._entered: dict[Name, tuple[Any, list[Any]]] = {}
        self._entered_objects: dict[Position, Any] = {}
        self._left: dict[Name, Any] = {}
        self._objects = CarriedObjects(identities)
        self._count = sum(kind is not None for variable in variables.values() for kind in variable.kinds)

    def initial(self) -> list[Tensor]:
        """The tensors with which the loop starts."""
        trace = context.current().trace
        tensors = [
            wrap(operand(zero(kind) if leaf is _ZERO else leaf, kind, trace))
            for variable in self.variables.values()
            for leaf, kind in zip(variable.leaves, variable.kinds, strict=True)
            if kind is not None
        ]
        first = {name: variable.start for name, variable in self.variables.items() if variable.start is not UNBOUND}
        return tensors + self._objects.start(trace, _objects_of(first))

    def rebuilt(self, tensors: Sequence[Tensor]) -> dict[Name, Any]:
        """The variables' values made of a list of tensors."""
        remaining = iter(tensors[: self._count])
        values = {}
        for name, variable in self.variables.items():
            leaves = [
                leaf if kind is None else handle(next(remaining).value, kind)
                for leaf, kind in zip(variable.leaves, variable.kinds, strict=True)
            ]
            values[name] = variable.structure.unflatten(leaves)
        return values

    def enter(self, tensors: Sequence[Tensor]) -> None:
        """Bind the variables for one run of the body."""
        start_body(self.loop.cells, self.before)
        for name, value in self.rebuilt(tensors).items():
            rebuilt_here(value)
            if isinstance(name, LastElements):
                name.owner.split_last(name.key)
            innermost().set(name, value) if isinstance(name, WriteTarget) else self.loop.cells.set(name, value)
            ir_values = [leaf.value.ir for leaf in tree.flatten(value)[0] if is_staged(leaf)]
            self._entered[name] = value, ir_values
        self._entered_objects = _objects_of({name: value for name, (value, _) in self._entered.items()})
        self._objects.enter(context.current().trace, self._entered_objects, tensors[self._count :])

    def join(self, values: Mapping[Name, Any], tensors: Sequence[Tensor]) -> None:
        """Note which objects the variables are after the loop, of which these are the tensors."""
        trace = context.current().trace
        self._objects.join(trace, _objects_of(values), tensors[self._count :], runs=self.loop.runs)

    def leave(self) -> list[Tensor]:
        """The tensors with which the body ends; ScriptError where they are not as those with which it starts."""
        after: dict[Any, Any] = self.loop.cells.read()
        changes = innermost().changes()
        tensors: list[Tensor] = []
        self.unchanged.clear()
        self.undefined.clear()
        self.dropped.clear()
        self._left.clear()
        for name, variable in self.variables.items():
            self._left[name] = value = name.get() if isinstance(name, WriteTarget) else after[name]
            tensors += self._next(name, variable, value)
        left = {
            name: MaybeUnbound.of(value) if self.variables[name].structure.kind is MaybeUnbound else value
            for name, value in self._left.items()
        }
        tensors += self._objects.leave(context.current().trace, _objects_of(left))
        for name, value in after.items():
            if name in self.variables or value is self.before[name]:
                continue
            if type(before := self.before[name]) is Dropped:
                raise _RedefinedError(name, before.error(name, None), before)
            if before is not UNBOUND:
                raise _CarriedFromNowOnError({name: before})
            self._consider(name, value)
        self._require_carried(changes)
        self.growth = Growth()
        for entry, changed in changes.items():
            if isinstance(entry, Tail):
                self._grown(entry, changed.after)
        return tensors

    def ended(self, values: dict[Name, Any]) -> dict[int, Tensor]:
        """For each tensor that a variable was at the end of the recorded turn, by its id, that which it is now."""
        final_tensors: dict[int, Tensor] = {}
        for name, value in values.items():
            last, structure = tree.flatten(self._left.get(name))
            now, other = tree.flatten(value)
            if name not in self.unchanged and structure == other:
                final_tensors |= {id(a): b for a, b in zip(last, now, strict=True) if isinstance(a, Tensor)}
        return final_tensors

    def mark_elements(self, values: Mapping[Name, Any]) -> None:
        """Let writes raise into tensors that may be elements which turns before the last appended: as when two
        variables take turns, and one of them is appended."""
        appended = self.growth.appended()
        if not appended:
            return
        left = {position: id(part) for position, part in _objects_of(self._left).items()}
        position_of = {id(part): position for position, part in self._entered_objects.items()}
        of_last = {position: appended[number] for position, number in left.items() if number in appended}
        unknown = self.growth.unknown(self.loop.turns)
        marked = {position: unknown[number] for position, number in left.items() if number in unknown}
        size = -1
        while size != len(marked):
            size = len(marked)
            for position, number in left.items():
                source = position_of.get(number)
                if source is not None and position not in marked and (entry := (of_last | marked).get(source)):
                    marked[position] = entry
        trace = context.current().trace
        for position, part in _objects_of(values).items():
            if position in marked and position[0] not in self.unchanged:
                mark = GrownElement(marked[position].location)
                note_choice(trace, part, [SameWhere(mark, True)])

    def _require_own(self, entry: Tail, parts: Sequence[Any]) -> None:
        """ScriptError where a turn may write into a tensor that another turn appended."""
        trace = context.current().trace
        appended = {
            id(tensor)
            for leaf in tree.flatten(parts)[0]
            if isinstance(leaf, Tensor)
            for tensor in (leaf, *trace.stand_ins.roots_of(trace, leaf))
        }
        entered = [
            (leaf, value)
            for value, values in self._entered.values()
            for leaf, value in zip(filter(is_staged, tree.flatten(value)[0]), values, strict=True)
        ]
        shared = {id(leaf) for leaf, _ in entered}
        shared |= {id(leaf) for last in self._left.values() for leaf in tree.flatten(last)[0]}
        written = any(leaf.value.ir is not value for leaf, value in entered)
        outside = any(state.written and id(state.handle) in appended for state in trace.states.values())
        if outside or (written and appended & shared):
            raise ScriptError(
                "a loop appends a tensor to a list into which another turn writes, so that both are one",
                location=entry.location,
                hint="append a copy (x.clone()), or compute a new tensor in each turn (x = x + 1, not x += 1)",
            )

    def _require_unknown(self, entry: Tail, parts: Sequence[Any]) -> None:
        """ScriptError where a turn appends what Python knows, or an object of its own: unrolled, it does so."""
        trace = context.current().trace
        leaves = [leaf for part in parts if type(part) is not ElementRows for leaf in tree.flatten(part)[0]]
        staged = list(filter(is_staged, leaves))
        own = (leaf for leaf in leaves if not isinstance(leaf, (Tensor, *_SIMPLE)))
        numbers = (leaf for leaf in staged if type(leaf) is StagedNumber and _counts(trace, trace.own(leaf.value).ir))
        if any(True for _ in own) or any(True for _ in numbers) or not (staged or len(leaves) < len(parts)):
            raise ScriptError(
                "a loop appends to a list what each turn makes of Python values alone",
                location=entry.location,
                hint="use a Python range of at most 1024 steps, which is unrolled",
            )

    def _grown(self, entry: Tail, parts: Sequence[Any]) -> None:
        """A list to which each turn appends ``parts``."""
        if self.loop.turns is None or not is_growing(entry.owner):
            raise (
                grows_by_data(entry.location) if is_growing(entry.owner) else other_extent(entry.owner, entry.location)
            )
        journal = innermost()
        read = journal.reads.get(id(entry.owner), 0)
        if read == inf:
            raise ScriptError(
                "a list is read as a whole, or at a position that counts from its start, in a loop that appends to it",
                location=entry.location,
                hint="read its last elements as out[-1], or write into a tensor (t[i] = value) and read that",
            )
        if read:
            window = LastElements(entry.owner, int(read) + journal.windows.get(id(entry.owner), 0))
            start = last_of(journal.before(entry.owner), window.key)
            if start is None:
                raise ScriptError(
                    f"a loop reads {window} that it lets grow, which has fewer before the loop",
                    location=entry.location,
                    hint="put so many elements into it before the loop",
                )
            raise _CarriedFromNowOnError({window: start})
        self._require_own(entry, parts)
        if type(self.loop.turns) is int and self.loop.turns <= LONGEST:
            self._require_unknown(entry, parts)
        self.growth.add(entry, parts)

    def _consider(self, name: str, value: Any) -> None:
        """A variable that the body defines: it is carried where it is read later and sure to be defined there."""
        site = self.loop.site
        if type(value) is Dropped:
            self.dropped[name] = value
        if name in self.redefined or type(value) is Dropped:
            self.undefined.add(name)
            return
        sure = (
            name in site.live and name not in site.targets and _is_carried(value)
        )  # it is set again before it is read
        if name == RESULT or sure or (name in site.live and self.loop.runs):
            raise _ReviseError({name: _Variable.starting_as_zeros(value)})
        if name in self.loop.site.targets or isinstance(value, MaybeUnbound):
            raise _ReviseError({name: _Variable.starting_as_zeros(MaybeUnbound.of(value))})
        self.undefined.add(name)

    def _require_carried(self, changes: Mapping[WriteTarget, Changed]) -> None:
        """_ReviseError where the body sets entries of outer objects that are not carried.

        All that start as numbers or tensors are asked for at once: one at a time, a loop over a list would be recorded
        once more for each element. What starts as a container may hold other entries, and is asked for by itself.
        """
        numbers: dict[Name, Any] = {}
        for entry, changed in changes.items():
            if isinstance(entry, Tail) or entry in self.variables:
                continue
            if changed.after is not UNBOUND and kind_of(changed.before) is not None:
                numbers[entry] = changed.before
            elif not numbers:
                raise self._entry(entry, changed)
        if numbers:
            raise _CarriedFromNowOnError(numbers)

    def _entry(self, entry: WriteTarget, changed: Changed) -> _ReviseError:
        """What asks for the variable for an entry of an outer object that the body sets."""
        if changed.after is UNBOUND or (changed.before is UNBOUND and not self.loop.runs):
            raise ScriptError(
                f"{entry} is {'removed' if changed.after is UNBOUND else 'new'} in the body of a loop on a tensor, "
                "which may never run",
                location=entry.location,
                hint="set it to a value of the same type before the loop",
            )
        if changed.before is not UNBOUND:
            return _CarriedFromNowOnError({entry: changed.before})
        return _ReviseError({entry: _Variable.starting_as_zeros(changed.after)})

    def _next(self, name: Name, variable: _Variable, value: Any) -> list[Tensor]:
        """The tensors of a carried variable; ScriptError where it does not keep its type, unless it may be another
        variable of that name: one that the body defines before it reads it."""
        try:
            return self._carried(name, variable, value)
        except ScriptError as error:
            if isinstance(name, WriteTarget) or name == RESULT or variable.start is UNBOUND:
                raise
            raise _RedefinedError(name, error, value if type(value) is Dropped else None) from None

    def _carried(self, name: Name, variable: _Variable, value: Any) -> list[Tensor]:
        if type(value) is Dropped:
            assert isinstance(name, str)
            raise value.error(name, None)
        if value is UNBOUND:
            raise ScriptError(f"{title(name)} has no value any more when the loop's body has run", hint=_WAY)
        if variable.structure.kind is MaybeUnbound:
            value = MaybeUnbound.of(value)
        leaves, structure = tree.flatten(value)
        if structure != variable.structure:
            raise _mismatch(name, variable, value)
        trace = context.current().trace
        kinds: list[Kind | None] = []
        tensors: list[Tensor] = []
        ir_values: list[Any] = []
        for leaf, first, kind in zip(leaves, variable.leaves, variable.kinds, strict=True):
            if kind is None:
                if not same(leaf, first):
                    raise _mismatch(name, variable, value)
                kinds.append(None)
                continue
            other = kind_of(leaf)
            both = None if other is None else joined(kind, other)
            if both is None or (not kind.weak and both != kind._replace(api=both.api)):
                raise _mismatch(name, variable, value)
            kinds.append(both)
            tensors.append(wrap(operand(leaf, both, trace)))
            ir_values.append(tensors[-1].value.ir)
        if tuple(kinds) != variable.kinds:
            raise _ReviseError({name: variable._replace(kinds=tuple(kinds))})
        entered, values = self._entered[name]
        if value is entered and values == ir_values and variable.start is not UNBOUND:
            self.unchanged.add(name)
        return tensors


def _is_carried(value: Any) -> bool:
    """Whether a loop can carry a value: tensors, numbers, and what is the same in each turn."""
    return all(kind_of(leaf) is not None or isinstance(leaf, str | bytes) for leaf in tree.flatten(value)[0])


def _counts(trace: Any, value: Any) -> bool:
    """Whether a value of a body depends on the number of the turn and on constants alone."""
    waiting, seen = [value], set()
    counter = trace.parameters[0].ir
    while waiting:
        value = waiting.pop()
        if value is counter or value in seen:
            continue
        seen.add(value)
        node = trace.producers.get(value)
        if node is None or node.op.effect != "none":
            return False
        waiting += node.inputs
    return True


def _objects_of(values: Mapping[Name, Any]) -> dict[Position, Any]:
    """The tensors and mutable containers in the values of variables."""
    return {
        (name, number): part
        for name, value in values.items()
        for number, part in enumerate(objects_in(value))
        if part is not None
    }


_WAY = "give it a value of the same type before the loop"


_RETYPES: Final = "jg_retypes"


def is_retyping(error: Exception) -> bool:
    """Whether an error says that a variable has another type after the first turn than before it."""
    return hasattr(error, _RETYPES)


def _mismatch(name: Name, variable: _Variable, value: Any) -> ScriptError:
    start = str(variable.kinds[0]) if variable.start is UNBOUND else describe(variable.start)
    error = ScriptError(
        f"{title(name)} is {start} when the loop starts and becomes {describe(value)}",
        hint="start with the structure, dtype and shape that the body gives (x.astype(...), jg.zeros(...)), "
        "or collect results with jg.scan",
    )
    setattr(error, _RETYPES, True)
    return error


def record_while(site: Site, cells: Cells, first: Tensor, body: Callable[[], None], again: Callable[[], Any]) -> None:
    """A loop whose test gave the tensor ``first``; ``again`` tests after each run of the body."""

    def make(carry: _Carry) -> Any:
        def run(state: list[Tensor]) -> list[Tensor]:
            def once() -> list[Tensor]:
                carry.enter(state[1:])
                body()
                test = again()
                going = truth(test) if is_staged(test) else wrap(lifting.value_of(bool(test)))
                return [going, *carry.leave()]

            outputs: list[Tensor] = in_body(context.current().trace, once)
            return outputs

        return _record_while(run, [truth(first), *carry.initial()])[1:]

    StagedLoop(site, cells, False).record(make)


def _record_while(run: Callable[[list[Tensor]], list[Tensor]], start: list[Tensor]) -> Any:
    """A while op whose first carry says whether to go on."""
    return control_flow.record_while(lambda state: state[0], run, *tree.flatten(start))


def record_for(site: Site, cells: Cells, steps: Steps, body: Callable[[Any], None], stopped: Callable[[], Any]) -> None:
    """A loop over ``steps``; ``stopped`` says after each run of the body whether a flag ends it."""
    known = not is_staged(steps.length) and isinstance(steps.length, int)
    loop = StagedLoop(site, cells, known and steps.length > 0)
    if site.stop or is_staged(steps.length):

        def make(carry: _Carry) -> Any:
            def run(state: list[Tensor]) -> list[Tensor]:
                def once() -> list[Tensor]:
                    carry.enter(state[2:])
                    number = _number(state[1], steps.length)
                    item = steps.at(number)
                    snapshots = steps.values_of(item)
                    body(item)
                    steps.require_unwritten(snapshots)
                    flag = stopped()
                    following = _following(number)
                    going = _is_below(following, steps.length)
                    if is_staged(flag):
                        going = _both(going, flag)
                    elif flag:
                        going = wrap(lifting.value_of(False))
                    return [going, following, *carry.leave()]

                outputs: list[Tensor] = in_body(context.current().trace, once)
                return outputs

            start = wrap(lifting.value_of(0))
            going = _is_below(start, steps.length)
            return _record_while(run, [going, start, *carry.initial()])[2:]

    else:

        def make(carry: _Carry) -> Any:
            def run(state: list[Tensor], rows: Any) -> tuple[list[Tensor], list[Any]]:
                def once() -> tuple[list[Tensor], list[Any]]:
                    carry.enter(state[1:])
                    number = _number(state[0], steps.length)
                    item = steps.at(number) if loop.fetches else steps.item(number, rows)
                    snapshots = steps.values_of(item)
                    body(item)
                    steps.require_unwritten(snapshots)
                    if not loop.fetches and steps.is_written(context.current().trace):
                        loop.fetches = True
                        raise _ReviseError({})
                    return [_following(number), *carry.leave()], carry.growth.tensors

                outputs: tuple[list[Tensor], list[Any]] = in_body(context.current().trace, once)
                return outputs

            start = wrap(lifting.value_of(0))
            leaves, structure = tree.flatten([start, *carry.initial()])
            rows, shape = tree.flatten(None if loop.fetches else steps.rows)
            state, loop.stacked = control_flow.record_scan(run, leaves, structure, rows, shape, steps.length)
            return state[1:]

        loop.turns = steps.length
    loop.record(make)


def _is_below(counter: Tensor, length: Any) -> Tensor:
    """Whether there is a step of this number."""
    return truth(handle(counter.value, _COUNTER) < length)


def _number(counter: Tensor, length: Any) -> StagedNumber:
    """The number of a step, which stands for a Python int."""
    number = StagedNumber(counter.value)
    weak_ints.note_ends(number.value, 0, length - 1 if type(length) is int else dtypes.LIMITS[dtypes.int64][1] - 1)
    return number


def _following(number: StagedNumber) -> Tensor:
    return wrap(ops.add(number.value, lifting.value_of(1)))


def _both(going: Tensor, flag: Tensor) -> Tensor:
    both: Tensor = logical_and(going, logical_not(truth(flag)))
    return both
