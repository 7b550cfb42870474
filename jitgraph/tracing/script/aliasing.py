"""What a staged choice between mutable objects means for later writes: the result is the chosen one of them.

Tensors follow in ``Recorder.write``. An element that is set in a list or dict is set in the others under the condition
by which they are the same; any other change of one raises, as no graph can say which object it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from jitgraph import ops, tree
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.tensor import Tensor
from jitgraph.tracing.control.region import Region
from jitgraph.tracing.record.aliases import Condition, GrownElement, aliases_of, unknown_write, value_of
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.staged.number import StagedNumber

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


def _itself(value: Any) -> Any:
    return value


def outlives(region: Recorder, value: Any) -> bool:
    """Whether an object was there before the region, as far as its tensors and the journal tell: a container that the
    region changes was, whatever stands in it now."""
    journal = region.journal
    if journal is not None and journal.has_created(value):
        return False
    if journal is not None and journal.before(value) is not None:
        return True
    container = tree.container_of(value)
    if container is not None:
        return all(outlives(region, child) for child in container.take_apart(value).children)
    traced = value._value if isinstance(value, Tensor) or type(value) is StagedNumber else None
    return not isinstance(traced, TracedValue) or any(
        traced.trace is recorder for recorder in region.outwards() if recorder is not region
    )
