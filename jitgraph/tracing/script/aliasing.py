"""What a staged choice between mutable objects means for later writes, and which objects variables of a loop are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from jitgraph import ops, tree
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import Region
from jitgraph.tracing.record.stand_ins import StandIns, moved
from jitgraph.tracing.record.values import Condition, GrownElement, TracedValue, aliases_of, unknown_write, value_of
from jitgraph.tracing.script.variables import Name
from jitgraph.tracing.symbolic.staged_number import StagedNumber

# ----------------------------------------------------------------------
# What a staged choice between mutable objects means for later writes: the result is the chosen one of them.
#
# Tensors follow in ``Recorder.write``. An element that is set in a list or dict is set in the others under the
# condition by which they are the same; any other change of one raises, as no graph can say which object it changes.

Pair: TypeAlias = "tuple[Any, Any]"
Key = TypeVar("Key", bound=Hashable)
OPAQUE: Final[set[type]] = set()  # nodes of trees that no variable holds by themselves


def objects_in(value: Any) -> Iterator[Any]:
    """The leaves and mutable containers of a tree, None for what is no tensor and no container: as many as its
    structure says."""
    container = tree.container_of(value)
    if container is None or type(value) in OPAQUE:
        yield value if isinstance(value, Tensor) else None
        return
    if not isinstance(value, tuple):
        yield value
    for child in container.take_apart(value).children:
        yield from objects_in(child)


def require_single(target: Any) -> None:
    """ScriptError where ``target`` is about to be changed, and a staged choice made it one of two objects, or chose
    it."""
    if not isinstance(target, Tensor) and aliases_of(context.current().trace, target):
        kind = target.__class__.__name__
        raise ScriptError(
            f"a {kind} is changed that is one of two objects, as a tensor says that is known only when the graph runs: "
            "the change would miss the other name of the same object",
            location=Location.of_user(),
            hint="write into the chosen one inside the branches (if t: a[0] = v, else: b[0] = v), or choose a copy",
        )


def put(target: Any, key: Any, value: Any, choose: Callable[[Any, Any, Any], Any]) -> list[Pair]:
    """The objects with what is to be set under ``key`` for ``target[key] = value``: ``target``, and each that may be
    the same one, in which the old element stays where it is not."""
    pairs = [(target, value)]
    if isinstance(target, Tensor):
        return pairs
    for other, condition in aliases_of(context.current().trace, target):
        if isinstance(other, GrownElement):
            raise unknown_write(other.location)
        if not isinstance(target, list | dict) or isinstance(key, slice) or not _has(target, key):
            require_single(target)
        pairs.append((other, value if condition is True else choose(value_of(condition), value, other[key])))
    return pairs


def _has(target: Any, key: Any) -> bool:
    return key in target if isinstance(target, dict) else isinstance(key, int) and -len(target) <= key < len(target)


class Outside:
    """An object that was there before a staged statement, as a key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outside) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def relations(
    trace: Recorder, objects: Mapping[Key, Any], outlives: Callable[[Any], bool]
) -> dict[tuple[Key, Key | Outside], Condition]:
    """Which of these objects may be one, by their keys, the later one first; and which may be one of those outside."""
    keys: dict[int, list[Key]] = {}
    for key, value in objects.items():
        keys.setdefault(id(value), []).append(key)
    number = {key: i for i, key in enumerate(objects)}
    conditions: dict[tuple[Key, Key | Outside], Condition] = {}

    def note(key: Key, other: Any, condition: Condition) -> None:
        for earlier in keys.get(id(other), ()):
            if number[earlier] < number[key]:
                conditions[key, earlier] = condition
        if outlives(other):
            conditions[key, Outside(other)] = condition

    for key, value in objects.items():
        note(key, value, True)
        for alias in aliases_of(trace, value):
            note(key, alias.other, alias.condition)
    return conditions


class Merging:
    """The mutable objects that are results of a staged choice, on each side, and which may be one, or one outside.

    ``pairs`` has of each result the objects on both sides, None for a side on which it has no value.
    """

    def __init__(self, regions: Sequence[Region], pairs: Sequence[Pair]) -> None:
        self._regions = regions
        self.objects: list[Pair] = []
        for pair in pairs:
            count = max(0 if side is None else len(side) for side in pair)
            columns = [[None] * count if side is None else side for side in pair]
            self.objects += zip(*columns, strict=True)
        left, right = (
            relations(
                region,
                {i: pair[side] for i, pair in enumerate(self.objects) if pair[side] is not None},
                partial(outlives, region),
            )
            for side, region in enumerate(regions)
        )
        self.shared = {
            key: (left.get(key, False), right.get(key, False))
            for key in left | right
            if not any(isinstance(target, int) and self._stays(regions, target) for target in key)
        }

    def _stays(self, regions: Sequence[Region], number: int) -> bool:
        """Whether a result is a tensor from outside, the same one on each side that has it: what that may be is known
        already, and of another result it is said as of any object outside."""
        left, right = self.objects[number]
        either = right if left is None else left
        return (
            isinstance(either, Tensor)
            and (left is None or right is None or left is right)
            and not any(region.is_own(either) for region in regions)
        )

    def outputs(self, region: Region, side: int) -> list[Any]:
        """The conditions that only the graph knows, as results of a side."""
        return [
            region.own(value_of(conditions[side]))
            for conditions in self.shared.values()
            if not all(isinstance(condition, bool) for condition in conditions)
        ]

    def note(self, trace: Recorder, test: Any, results: Sequence[Any], computed: Iterator[Any]) -> None:
        """Let ``trace`` know which objects the results may be."""
        result_objects = [object_ for value in results for object_ in objects_in(value)]
        self._note_views(trace, result_objects)
        known: dict[tuple[Condition, Condition], Condition] = {
            (True, False): lambda: test,
            (False, True): lambda: ops.logical_not(test),
            (True, True): True,
        }
        for (number, target), conditions in self.shared.items():
            condition = known.get(conditions)
            if condition is None:
                condition = partial(_itself, next(computed))
            other = target.value if isinstance(target, Outside) else result_objects[target]
            if result_objects[number] is not None and other is not None:
                trace.aliases.add(result_objects[number], other, condition)

    def _note_views(self, trace: Recorder, result_objects: Sequence[Any]) -> None:
        """Let ``trace`` know which results stand for views of what."""
        new: dict[int, list[Any]] = {}
        for pair, result in zip(self.objects, result_objects, strict=True):
            for part in pair:
                if isinstance(part, Tensor) and result is not part and result is not None:
                    new.setdefault(id(part), []).append(result)
        for side, region in enumerate(self._regions):
            parts = {
                number: pair[side]
                for number, (pair, result) in enumerate(zip(self.objects, result_objects, strict=True))
                if isinstance(pair[side], Tensor) and isinstance(result, Tensor) and pair[side] is not result
            }
            for number, others in _siblings(region, trace.stand_ins, parts, partial(outlives, region)).items():
                trace.stand_ins.add(result_objects[number], [result_objects[other] for other in others], trace)
        for pair, result in zip(self.objects, result_objects, strict=True):
            if result is None or any(part is result for part in pair):
                continue
            roots = [
                root
                for part, region in zip(pair, self._regions, strict=True)
                if isinstance(part, Tensor)
                for root in moved(trace.stand_ins.roots_of(region, part), new, partial(outlives, region))
            ]
            trace.stand_ins.add(result, roots, trace)


def _itself(value: Any) -> Any:
    return value


def outlives(region: Recorder, value: Any) -> bool:
    """Whether an object was there before the region, as far as its tensors and the journal tell: a container that the
    region changes was, whatever stands in it now. A view is as old as what it is of."""
    journal = region.journal
    if journal is not None and journal.has_created(value):
        return False
    if journal is not None and journal.before(value) is not None:
        return True
    container = tree.container_of(value)
    if container is not None:
        return all(outlives(region, child) for child in container.take_apart(value).children)
    if isinstance(value, Tensor):
        value = value._root  # a view is not read here, which computes it where what it is of may be gone
    traced = value._value if isinstance(value, Tensor) or type(value) is StagedNumber else None
    return not isinstance(traced, TracedValue) or any(
        traced.trace is recorder for recorder in region.outwards() if recorder is not region
    )


# ----------------------------------------------------------------------
# Which objects the variables of a staged loop are: another variable's, or one from before the loop.
#
# The body is recorded once, with an object of its own for each tensor and container that the loop carries. In Python
# such a variable is in the first turn the object that it was before the loop, and in a later turn what the turn before
# left in it: another variable's object, one from outside, or one that the turn made. So the loop carries, for each pair
# of objects that may be one, a bool that says whether they are; a turn computes it for the next one. Objects that no
# variable and nothing outside refers to are gone, so that these pairs are all there are.

Position: TypeAlias = "tuple[Name, int]"  # of an object in a carried variable
Identity: TypeAlias = "tuple[Position, Position | Outside]"  # of two objects
Objects: TypeAlias = "Mapping[Position, Any]"
Roots: TypeAlias = "Mapping[Position, Mapping[Position | Outside, None]]"  # of positions in which a view is


class UnforeseenIdentityError(Exception):
    """The body was recorded without an identity that a turn brings about for the next one."""


class KnownIdentities:
    """The identities that recordings of one body brought about, with those that the last one added; and the positions
    in which each recording leaves an object that it makes where none can tell: each turn makes one of its own."""

    def __init__(self) -> None:
        self.every: dict[Identity, None] = {}
        self.latest: list[Identity] = []
        self.transient: set[Position] = set()
        self.roots: dict[Position, dict[Position | Outside, None]] = {}
        """Of positions that a view is in: the roots that it has when the loop or a turn ends."""

    def require(self, left: dict[Identity, Condition], foreseen: Sequence[Identity]) -> dict[Identity, Condition]:
        """``left`` without what a turn makes; UnforeseenIdentityError where a recording has to foresee more."""
        self.transient |= {identity[0] for identity in self.latest if _is_outer(identity) and identity not in left}
        known = dict.fromkeys(foreseen)
        left = {
            identity: condition
            for identity, condition in left.items()
            if identity in known or not (_is_outer(identity) and identity[0] in self.transient)
        }
        self.latest = [identity for identity in left if identity not in known]
        if self.latest:
            self.every.update(dict.fromkeys(self.latest))
            raise UnforeseenIdentityError
        return left


def _is_outer(identity: Identity) -> bool:
    return isinstance(identity[1], Outside)


class CarriedObjects:
    """The objects that a loop carries, with the conditions under which two of them are one."""

    def __init__(self, known: KnownIdentities) -> None:
        self._known = known
        self._identities: list[Identity] = []
        self._before: Mapping[Identity, Condition] = {}
        self._entered: dict[Identity, Condition] = {}
        self._left: Mapping[Identity, Condition] = {}
        self._start: Objects = {}
        self._roots_before: Roots = {}
        self._roots_left: Roots = {}

    def start(self, trace: Recorder, objects: Objects) -> list[Tensor]:
        """The conditions before the loop, of the objects with which it starts."""
        self._before = relations(trace, objects, lambda _: True)
        self._identities = [*dict.fromkeys((*self._before, *self._known.every))]
        self._start = objects
        self._roots_before = _roots(trace, objects, lambda _: True)
        return [wrap(value_of(self._before.get(identity, False))) for identity in self._identities]

    def enter(self, body: Recorder, objects: Objects, conditions: Sequence[Tensor]) -> None:
        """Let the body know which of its objects may be one."""
        for identity, condition in zip(self._identities, conditions, strict=True):
            self._entered[identity] = partial(_itself, condition.value)
            _note(body, identity, objects, self._entered[identity])
        _note_roots(body, _both(self._roots_before, self._known.roots), objects, {})

    def leave(self, body: Recorder, objects: Objects) -> list[Tensor]:
        """The conditions of the next turn; UnforeseenIdentityError where the body has to be recorded again."""
        roots = self._roots_left = _roots(body, objects, partial(outlives, body))
        known = _both(self._roots_before, self._known.roots)
        if any(roots[position].keys() - known.get(position, {}).keys() for position in roots):
            self._known.roots = _both(self._known.roots, roots)
            raise UnforeseenIdentityError
        left = relations(body, objects, partial(outlives, body))
        self._left = self._known.require(left, self._identities)
        return [wrap(value_of(self._left.get(identity, False))) for identity in self._identities]

    def join(self, trace: Recorder, objects: Objects, conditions: Sequence[Tensor], *, runs: bool) -> None:
        """Let the trace know which of the objects that the variables are after the loop may be one; ``runs`` where the
        body runs at least once."""
        for identity, condition in zip(self._identities, conditions, strict=True):
            before, left = self._before.get(identity, False), self._left.get(identity, False)
            if left is self._entered[identity]:  # no turn changes it
                left = before
            sides = {left} if runs else {before, left}
            if sides != {False}:
                _note(trace, identity, objects, True if sides == {True} else partial(_itself, condition.value))
        roots = self._roots_left if runs else _both(self._roots_before, self._roots_left)
        if any(isinstance(key, tuple) for keys in self._roots_left.values() for key in keys):
            roots = _both(self._roots_before, self._roots_left)  # those of an object that was there before
        _note_roots(trace, roots, objects, self._start)


def _roots(recorder: Recorder, objects: Objects, outlives: Callable[[Any], bool]) -> Roots:
    """The roots of views, and of what stands for them, by position: objects of other positions, or from outside."""
    positions: dict[int, list[Position]] = {}
    for position, value in objects.items():
        positions.setdefault(id(value), []).append(position)
    roots: dict[Position, Mapping[Position | Outside, None]] = {}
    for position, value in objects.items():
        if isinstance(value, Tensor) and (of_value := recorder.stand_ins.roots_of(recorder, value)):
            keys: list[Position | Outside] = [key for root in of_value for key in positions.get(id(root), ())]
            keys += [Outside(root) for root in of_value if outlives(root)]
            roots[position] = dict.fromkeys(keys)
    for position, others in _siblings(recorder, recorder.stand_ins, objects, outlives).items():
        roots[position] = {**roots.get(position, {}), **dict.fromkeys(others)}
    return roots


def _siblings(
    recorder: Recorder, stand_ins: StandIns, objects: Mapping[Key, Any], outlives: Callable[[Any], bool]
) -> dict[Key, list[Key]]:
    """By their keys the views of one tensor that a body made and that is none of these objects: what is written to
    one of them changes the others, and no name leads to what they are of."""
    ids = {id(value) for value in objects.values()}
    families: dict[int, list[Key]] = {}
    for key, value in objects.items():
        if isinstance(value, Tensor):
            for root in stand_ins.roots_of(recorder, value):
                if id(root) not in ids and not outlives(root):
                    families.setdefault(id(root), []).append(key)
    siblings: dict[Key, list[Key]] = {}
    for family in families.values():
        for key in family:
            others = [other for other in family if objects[other] is not objects[key]]
            if others:
                siblings.setdefault(key, []).extend(others)
    return siblings


def _both(first: Roots, second: Roots) -> dict[Position, dict[Position | Outside, None]]:
    return {key: {**first.get(key, {}), **second.get(key, {})} for key in (*first, *second)}


def _note_roots(trace: Recorder, roots: Roots, objects: Objects, unchanged: Objects) -> None:
    """Let ``trace`` know which objects stand for views of what; at other positions stands what is ``unchanged``."""
    for position, keys in roots.items():
        value = objects.get(position)
        if isinstance(value, Tensor):
            found = [key.value if isinstance(key, Outside) else objects.get(key, unchanged.get(key)) for key in keys]
            trace.stand_ins.add(value, [root for root in found if isinstance(root, Tensor)], trace)


def _note(trace: Recorder, identity: Identity, objects: Objects, condition: Condition) -> None:
    position, target = identity
    other = target.value if isinstance(target, Outside) else objects.get(target)
    if position in objects and other is not None:
        trace.aliases.add(objects[position], other, condition)
