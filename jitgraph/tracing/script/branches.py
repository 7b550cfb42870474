"""Statements and expressions with two sides on a tensor: both are recorded, and a ``cond`` op chooses what differs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from functools import partial
from types import FunctionType
from typing import Any, Final, TypeAlias

from jitgraph import dtypes, ops, tree
from jitgraph.errors import ScriptError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.graph import Node
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, lifting, wrap, wrap_as
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import (
    UNBOUND,
    Changed,
    Region,
    Tail,
    WriteLog,
    WriteTarget,
    grows_by_data,
    handles_of,
    operands_of,
    other_extent,
    unchanged,
    write_back,
)
from jitgraph.tracing.script.aliasing import Merging, Pair, objects_in
from jitgraph.tracing.script.exits import RESULT
from jitgraph.tracing.script.variables import (
    Cells,
    Dropped,
    Kind,
    MaybeUnbound,
    Name,
    describe,
    handle,
    is_staged,
    joined,
    kind_of,
    operand,
    same,
    title,
    zero,
)
from jitgraph.tracing.symbolic.staged_number import StagedNumber
from jitgraph.tree import TreeDef

Results: TypeAlias = "dict[Any, Any]"  # by name or entry
_LARGEST_INLINE: Final = 16  # ops of a side that is computed in any case rather than only where it is needed


class DeadEnd(Exception):
    """A side that always raises when it runs: nothing follows in it."""


class Merge(NamedTuple):
    """One result: its structure, and for each leaf its kind, or None with the Python value that both sides have."""

    structure: TreeDef
    leaves: tuple[tuple[Kind | None, Any], ...]


def truth(test: Any) -> Tensor:
    """A tensor of one element, or a staged number, as a 0-d bool."""
    if type(test) is StagedNumber:
        return wrap(test.truth())
    if test.ndim and test.size != 1:
        raise ShapeError(f"the truth of a tensor of shape {tuple(test.shape)} is not known", hint="jg.any or jg.all")
    one: Tensor = test.reshape(()) if test.ndim else test
    return one if dtypes.is_bool(one.dtype) else one != 0


def in_body(region: Recorder, function: Callable[[], Any]) -> Any:
    """Run the body of a staged statement with its journal; what it changes outside is put back."""
    region.journal = journal = WriteLog()
    with unchanged("an if or loop on a tensor", region, None, journal):
        try:
            return function()
        finally:
            journal.undo()


class Outcome(NamedTuple):
    """What a side gives, with the entries of outer objects that it sets; and, as changes are put back, of those results
    that hold a container which it changes copies, and the mutable objects that stand in them when the side ends."""

    results: Results
    copies: Results
    objects: dict[Any, list[Any]]
    changes: Mapping[WriteTarget, Changed]

    @staticmethod
    def of(side: Callable[[], Results]) -> Outcome:
        """Run a side, in a body."""
        results = side()
        changes = innermost().changes()
        results = {**results, **{entry: changed.after for entry, changed in changes.items()}}
        outcome = Outcome({}, {}, {}, changes)
        outcome.add(results)
        return outcome

    def add(self, results: Results) -> None:
        """Add results as they are now."""
        owners = {id(entry.owner) for entry in self.changes if not entry.attribute}
        self.results.update(results)
        for name, value in results.items():
            if _holds(value, owners):
                self.copies[name] = tree.map_leaves(lambda leaf: leaf, value)
                self.objects[name] = [*objects_in(value)]

    def add_unset(self, entries: Sequence[WriteTarget]) -> None:
        """Add what stands at entries that the side does not set when it ends: its changes have been put back."""
        before = {entry: entry.get() for entry in self.changes if not entry.attribute}
        for entry in before:
            entry.put(self.changes[entry].after)
        try:
            self.add({entry: entry.get() for entry in entries if entry not in self.results})
        finally:
            for entry, value in reversed(before.items()):
                entry.put(value)


def _holds(value: Any, owners: Set[int]) -> bool:
    """Whether a tree is, or holds, one of these containers."""
    if id(value) in owners:
        return True
    container = tree.container_of(value) if owners else None
    return container is not None and any(_holds(child, owners) for child in container.take_apart(value).children)


def choose(
    test: Any,
    sides: Sequence[Callable[[], Results]],
    live: Sequence[str],
    words: Sequence[str],
    lines: Sequence[Mapping[str, Sequence[int]]] = ({}, {}),
    *,
    unsure: Container[Any] = (),
) -> dict[str, Any]:
    """The results of the first side where ``test`` holds, else of the second.

    Names that only one side has are dropped, or, those in ``unsure``, checked where they are read.
    Entries of outer objects that a side sets are set to what is chosen. ScriptError where a name that is read later, or
    an entry, has types that differ. ``words`` say what the sides are called, ``lines`` where they bind a name.
    """
    trace = context.current().trace
    predicate = trace.own(truth(test).value)
    regions = [Region(word, trace, [], []) for word in words]
    side_results, entries, objects = _recorded(regions, sides)
    results, merges = _merged(Sides(regions, side_results, words, lines, unsure), live)
    outputs = [
        region.record(_lowered, region, merges, values) for region, values in zip(regions, side_results, strict=True)
    ]
    merging = Merging(regions, [_pair(merge, name, side_results, objects) for name, merge in merges.items()])
    for side, (region, out) in enumerate(zip(regions, outputs, strict=True)):
        out += region.record(merging.outputs, region, side)
    written = handles_of(regions)
    for region, out in zip(regions, outputs, strict=True):
        out += [region.read(target) for target in written]
    keys, outer = operands_of(regions)
    graphs = [region.close(keys, [v.type for v in outer], out) for region, out in zip(regions, outputs, strict=True)]
    cond_outputs = list(trace.emit(ops.cond, [predicate, *outer], {}, graphs))
    if side_results[0] is None and side_results[1] is None:
        raise DeadEnd
    write_back(trace, written, cond_outputs[len(cond_outputs) - len(written) :])
    remaining = iter(cond_outputs)
    values = []
    for name, merge in merges.items():
        leaves = [handle(next(remaining), kind) if kind is not None else fixed for kind, fixed in merge.leaves]
        values.append(merge.structure.unflatten(leaves))
        results[name] = rebuilt_here(values[-1])
    merging.note(trace, predicate, values, remaining)
    for entry in dict.fromkeys(entries):
        set_entry(entry, results.pop(entry))
    return results


def _pair(
    merge: Merge, name: Name, found: Sequence[Results | None], objects: Sequence[Mapping[Any, list[Any]]]
) -> Pair:
    """The mutable objects of a name on both sides, None where it has no value; as many as the result has."""
    pair: list[list[Any] | None] = []
    for values, known in zip(found, objects, strict=True):
        value = UNBOUND if values is None else values[name]
        if value is UNBOUND:
            pair.append(None)
            continue
        on_side = known[name] if name in known else [*objects_in(value)]
        is_wrapped = merge.structure.kind is MaybeUnbound and not isinstance(value, MaybeUnbound)
        pair.append([*on_side, None] if is_wrapped else on_side)
    return pair[0], pair[1]


def _recorded(
    regions: Sequence[Region], sides: Sequence[Callable[[], Results]]
) -> tuple[list[Results | None], list[WriteTarget], list[dict[Any, list[Any]]]]:
    """What each side gives, recorded into its region, or None where it always raises; the entries that any sets,
    which then each side has; and the objects in what is copied."""
    outcomes: list[Outcome | None] = []
    for side, region in zip(sides, regions, strict=True):
        try:
            outcomes.append(region.record(in_body, region, partial(Outcome.of, side)))
        except DeadEnd:
            outcomes.append(None)
    entries = [entry for outcome in outcomes if outcome is not None for entry in outcome.changes]
    for region, outcome in zip(regions, outcomes, strict=True):
        if outcome is not None and any(entry not in outcome.results for entry in entries):
            region.record(outcome.add_unset, entries)
    side_results = [None if outcome is None else outcome.results for outcome in outcomes]
    objects: list[dict[Any, list[Any]]] = [{} if outcome is None else outcome.objects for outcome in outcomes]
    for values, outcome, other in zip(side_results, outcomes, side_results[::-1], strict=True):
        if values is not None and outcome is not None:
            for name, value in outcome.copies.items():
                if other is None or other[name] is not values[name]:
                    values[name] = value
    return side_results, entries, objects


def set_entry(entry: WriteTarget, value: Any) -> None:
    """Set an entry of an object, which is noted where that is in the body of a staged statement itself."""
    journal = innermost_write_log()
    if journal is None:
        entry.put(value)
    else:
        journal.set(entry, value)


def created_here(value: Any) -> Any:
    """``value``, a container or object made by the staged body that is being recorded, if one is."""
    journal = innermost_write_log()
    if journal is not None:
        journal.make(value)
    return value


def rebuilt_here(value: Any) -> Any:
    """``created_here`` of a tree that was built of leaves, and of the containers in it; not of a leaf that is an object
    from outside, whose writes the enclosing statements have to know."""
    for part in objects_in(value):
        if part is not None and not isinstance(part, Tensor):
            created_here(part)
    return created_here(value) if isinstance(value, Tensor) or tree.container_of(value) is not None else value


def start_body(cells: Cells, values: dict[str, Any]) -> None:
    """Bind the variables of a staged statement as its body, which is being recorded, starts.

    What they become is a result of the statement, also where a function that the body calls rebinds them: its journal
    would put them back to what the body itself had bound before that call.
    """
    cells.write(values)
    journal = innermost()
    for cell in cells.cells.values():
        journal.make(cell)


def innermost() -> WriteLog:
    """The journal of the innermost staged body, in one."""
    journal = innermost_write_log()
    assert journal is not None
    return journal


def innermost_write_log() -> WriteLog | None:
    """The journal of the innermost staged body that is being recorded."""
    return next((recorder.journal for recorder in recorders() if recorder.journal is not None), None)


def recorders() -> Iterator[Recorder]:
    """The recorders of this place, from the innermost outwards; none outside of traces."""
    trace: Recorder | None = context.current().trace
    return iter(()) if trace is None else trace.outwards()


class Sides(NamedTuple):
    """Both sides of a statement: their regions, what they give (None where it always raises), what they are called,
    at which lines they bind a name, and which names that one side does not bind may be read later."""

    regions: Sequence[Region]
    found: Sequence[Results | None]
    words: Sequence[str]
    lines: Sequence[Mapping[str, Sequence[int]]]
    unsure: Container[Any]

    def where(self, name: Name) -> str:
        """At which lines a name gets its values, for an error message."""
        texts = [" or ".join(map(str, side[name])) for side in self.lines if isinstance(name, str) and name in side]
        return f" (line{'s' if len(texts) > 1 else ''} {' and '.join(texts)})" if texts else ""


def _merged(sides: Sides, live: Sequence[str]) -> tuple[Results, dict[Name, Merge]]:
    """The names that are the same on both sides, with their values, and how the others are merged."""
    left, right = sides.found
    first, second = sides.regions
    one_raises = left is None or right is None
    if left is None or right is None:
        first = second = second if left is None else first
        left = right = (right if left is None else left) or {}
    results: Results = {}
    merges: dict[Name, Merge] = {}
    for name in left:
        a, b = left[name], right[name]
        if a is b and not one_raises:
            results[name] = a
            continue
        if type(a) is Dropped or type(b) is Dropped:
            results[name] = a if type(a) is Dropped else b
            continue
        if a is UNBOUND or b is UNBOUND:
            if isinstance(name, WriteTarget) and a is not b:
                word = sides.words[1] if a is UNBOUND else sides.words[0]
                raise ScriptError(
                    f"{name} is there only after the {word} of the statement at {Location.of_user()}",
                    location=name.location,
                    hint="set it to a value of the same type before that statement, or on both sides",
                )
            if name in sides.unsure and a is not b and name != RESULT:
                known, home = (b, second) if a is UNBOUND else (a, first)
                merges[name] = _unsure(known, home)
                continue
            if (name != RESULT and name not in live) or a is b:  # a live one is set again before it is read
                results[name] = UNBOUND
                if a is not b:
                    word = sides.words[1] if a is UNBOUND else sides.words[0]
                    drop(name, f"is read but is defined only in the {word} of the statement at {Location.of_user()}")
                continue
            homes = (second, second) if a is UNBOUND else (first, first)
            a = b = b if a is UNBOUND else a
        else:
            homes = first, second
        merge = _merge(a, b, homes)
        if merge is None and isinstance(name, Tail):
            known = type(name.owner) is not list
            raise grows_by_data(name.location) if known else other_extent(name.owner, name.location)
        if merge is not None:
            merges[name] = merge
            continue
        known = f"{first.record(describe, a)} in the {sides.words[0]} and {second.record(describe, b)} in the "
        known += f"{sides.words[1]}{sides.where(name)}"
        hint = "give it the same structure, dtype and shape on both sides, as by .astype(...) or jg.zeros(...)"
        if isinstance(name, WriteTarget) or not name.isidentifier() or name == RESULT:
            raise ScriptError(f"{title(name)} is {known}", hint=hint)
        at = f"of the statement at {Location.of_user()}"
        if _are_functions(a, b):
            results[name] = drop(name, f"is read but is another function on each side {at}")
        else:
            results[name] = drop(name, f"is {known} {at}", hint)
    return results, merges


def _are_functions(a: Any, b: Any) -> bool:
    """Whether a name holds functions, between which no graph can choose; it is an error only if the name is read."""
    return isinstance(a, FunctionType) and isinstance(b, FunctionType)


def _merge(a: Any, b: Any, homes: tuple[Region, Region]) -> Merge | None:
    if isinstance(a, MaybeUnbound) or isinstance(b, MaybeUnbound):
        a, b = MaybeUnbound.of(a), MaybeUnbound.of(b)
    left, structure = tree.flatten(a)
    right, other = tree.flatten(b)
    if structure != other:
        return None
    leaves: list[tuple[Kind | None, Any]] = []
    for x, y in zip(left, right, strict=True):
        if (not is_staged(x) and same(x, y)) or (x is y and _is_outer(x, homes)):
            leaves.append((None, x))
            continue
        kinds = homes[0].record(kind_of, x), homes[1].record(kind_of, y)
        if kinds[0] is None or kinds[1] is None:
            return None
        kind = joined(kinds[0], kinds[1])
        if kind is None:
            return None
        leaves.append((kind, None))
    return Merge(structure, tuple(leaves))


def _is_outer(leaf: Any, homes: Sequence[Region]) -> bool:
    """Whether a leaf is a tensor from outside of both sides, which it then stays."""
    return isinstance(leaf, Tensor) and not leaf._weak and not any(home.is_own(leaf) for home in homes)


def _unsure(value: Any, home: Region) -> Merge:
    """How a value that the other side does not have is merged with nothing."""
    merge = _merge(value, value, (home, home))
    assert merge is not None  # what is the same on both sides needs no choice
    if isinstance(value, MaybeUnbound):
        return merge
    return Merge(tree.flatten(MaybeUnbound.of(value))[1], (*merge.leaves, (Kind(dtypes.bool_, (), True), None)))


def _lowered(region: Region, merges: dict[Name, Merge], values: Results | None) -> list[Any]:
    operands = []
    for name, merge in merges.items():
        value = UNBOUND if values is None else values[name]
        if merge.structure.kind is MaybeUnbound and value is not UNBOUND:
            value = MaybeUnbound.of(value)
        leaves = [None] * len(merge.leaves) if value is UNBOUND else tree.flatten(value)[0]
        for leaf, (kind, _) in zip(leaves, merge.leaves, strict=True):
            if kind is not None:
                operands.append(operand(zero(kind) if value is UNBOUND else leaf, kind, region))
    return operands


def drop(name: str, why: str, hint: str = "give it a value before that statement") -> Dropped:
    """Note why a variable has no value any more, and the way out, for the error that reading it raises."""
    value = Dropped(why, hint)
    for recorder in recorders():
        recorder.dropped[name] = value
    return value


def lazily(test: Any, side: Callable[[], Any], cells: Cells, *, conjunction: bool) -> Any:
    """``test and side()``, or ``test or side()``: one op where the side is cheap and has no effect, else a ``cond``.

    ``cells`` are the variables that the side binds.
    """
    trace = context.current().trace
    if not cells and dtypes.is_bool(test.dtype):
        region = Region("operand", trace, [], [])
        try:
            value, changes = region.record(in_body, region, lambda: (side(), innermost().changes()))
        except DeadEnd:
            value, changes = None, {}
        if not changes and _is_cheap(region, value):
            is_number = type(test) is StagedNumber and lifting.is_weak(value)
            inlined = _inlined(trace, region, value) if is_staged(value) else value
            other = truth(inlined).value if isinstance(inlined, Tensor) else lifting.value_of(inlined)
            op = ops.logical_and if conjunction else ops.logical_or
            both = op(truth(test).value, other)
            return StagedNumber(both) if is_number else wrap_as(both, test, value)
    sides = (side, lambda: test) if conjunction else (lambda: test, side)
    return choose_value(test, sides, cells, f"the value of {'and' if conjunction else 'or'}")


def choose_value(test: Any, sides: Sequence[Callable[[], Any]], cells: Cells, name: str) -> Any:
    """The value, called ``name``, of the first side where ``test`` holds, else of the second.

    ``cells`` are variables that a side may bind.
    """
    before = cells.read()

    def run(side: Callable[[], Any]) -> Results:
        start_body(cells, before)
        value = side()
        return {**cells.read(), name: value}

    try:
        results = choose(
            test, [partial(run, side) for side in sides], (), ("left side", "right side"), unsure=cells.read()
        )
    finally:
        cells.write(before)
    value = results.pop(name)
    cells.write(results)
    return value


def _is_cheap(region: Region, value: Any) -> bool:
    kind: Kind | None = region.record(kind_of, value)
    nodes = region.builder.nodes
    return (
        kind is not None
        and dtypes.is_bool(kind.dtype)
        and not kind.shape
        and len(nodes) <= _LARGEST_INLINE
        and not region.written()
        and all(map(cannot_fail, nodes))
        and all(not output.shape for node in nodes for output in node.outputs)
    )


def cannot_fail(node: Node) -> bool:
    """Whether a node has no effect: an index out of range raises, so that indexing waits until it is needed."""
    if node.op.effect != "none" or node.op.kind in ("control", "gradient", "indexing"):
        return False
    return all(cannot_fail(inner) for region in node.regions for inner in region.nodes)


def _inlined(trace: Recorder, region: Region, result: Tensor | StagedNumber) -> Tensor:
    """The ops that ``region`` recorded, recorded here."""
    last = region.record(lambda: region.own(result.value).ir)
    known = {captured.inner: captured.outer for captured in region.captured.values()}
    for node in region.builder.nodes:
        outputs = trace.emit(node.op, [known[value] for value in node.inputs], node.attrs, node.regions)
        known.update(zip(node.outputs, outputs, strict=True))
    return wrap_as(known[last], result)  # type: ignore[no-any-return]
