"""What a staged choice between two mutable objects means for later writes: the result is the chosen one of them.

Tensors follow in ``Recorder.write``. An element that is set in a list or dict is set in the others under the condition
by which they are the same; any other change of one raises, as no graph can say which object it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from jitgraph import dtypes, ops, tree
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, lifting
from jitgraph.tracing.control.journal import UNBOUND
from jitgraph.tracing.control.region import Region
from jitgraph.tracing.record.aliases import aliases_of
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.staged.number import StagedNumber

Pair: TypeAlias = "tuple[Any, Any]"
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
    found = [(target, value)]
    if isinstance(target, Tensor):
        return found
    for other, condition in aliases_of(context.current().trace, target):
        if not isinstance(target, list | dict) or isinstance(key, slice) or not _has(target, key):
            require_single(target)
        found.append((other, choose(condition(), value, other[key])))
    return found


def _has(target: Any, key: Any) -> bool:
    return key in target if isinstance(target, dict) else isinstance(key, int) and -len(target) <= key < len(target)


class PossibleIdentity(NamedTuple):
    """A result and an object outside of the branches that it may be; on each side a bool, or the value of one."""

    result: int
    other: Any
    conditions: tuple[Any, Any]

    @property
    def is_known(self) -> bool:
        return all(isinstance(condition, bool) for condition in self.conditions)


class Merging:
    """The mutable objects that are results of a staged choice, on each side, and what outside they may be."""

    def __init__(self, regions: Sequence[Region], pairs: Sequence[Pair]) -> None:
        self.objects: list[Pair] = []
        for pair in pairs:
            sides = [None if value is UNBOUND else [*objects_in(value)] for value in pair]
            count = max(0 if side is None else len(side) for side in sides)
            columns = [[None] * count if side is None else side for side in sides]
            self.objects += zip(*columns, strict=True)
        self.shared: list[PossibleIdentity] = []
        for number, pair in enumerate(self.objects):
            if pair[0] is pair[1]:
                continue
            known = [_visible(region, side) for region, side in zip(regions, pair, strict=True)]
            for key, (other, _) in (known[0] | known[1]).items():
                left, right = (side[key][1] if key in side else False for side in known)
                self.shared.append(PossibleIdentity(number, other, (left, right)))

    def outputs(self, region: Region, side: int) -> list[Any]:
        """The conditions that only the graph knows, as results of a side."""
        found = []
        for shared in self.shared:
            if not shared.is_known:
                condition = shared.conditions[side]
                value = lifting.constant(condition, dtypes.bool_) if isinstance(condition, bool) else condition()
                found.append(region.own(value))
        return found

    def note(self, trace: Recorder, test: Any, results: Sequence[Any], computed: Iterator[Any]) -> None:
        """Let ``trace`` know which objects the results may be."""
        made = [object_ for value in results for object_ in objects_in(value)]

        def holds() -> Any:
            return test

        def fails() -> Any:
            return ops.logical_not(test)

        def always() -> Any:
            return lifting.constant(True, dtypes.bool_)

        known = {(True, False): holds, (False, True): fails, (True, True): always}
        for shared in self.shared:
            condition = known[shared.conditions] if shared.is_known else partial(_itself, next(computed))
            if made[shared.result] is not None and made[shared.result] is not shared.other:
                trace.aliases.add(made[shared.result], shared.other, condition)
        seen: list[dict[int, list[int]]] = [{}, {}]
        for number, pair in enumerate(self.objects):
            same: dict[int, list[bool]] = {}
            for side, value in enumerate(pair):
                if value is not None:
                    earlier = seen[side].setdefault(id(value), [])
                    for other in earlier:
                        same.setdefault(other, [False, False])[side] = True
                    earlier.append(number)
            for other, (left, right) in same.items():
                if made[number] is not None and made[other] is not None and made[number] is not made[other]:
                    trace.aliases.add(made[number], made[other], known[left, right])


def _itself(value: Any) -> Any:
    return value


def _visible(region: Region, value: Any) -> dict[int, tuple[Any, Any]]:
    """The objects outside of a region that one of its results may be: each with True, or the condition."""
    if value is None:
        return {}
    found: dict[int, tuple[Any, Any]] = {}
    for other, condition in aliases_of(region, value):
        if _outlives(region, other):
            found[id(other)] = other, condition
    if _outlives(region, value):
        found[id(value)] = value, True
    return found


def _outlives(region: Region, value: Any) -> bool:
    """Whether an object was there before the region, as far as its tensors and the journal tell."""
    if region.journal is not None and region.journal.has_made(value):
        return False
    outer = [recorder for recorder in region.outwards() if recorder is not region]
    for leaf in tree.flatten(value)[0]:
        traced = leaf._value if isinstance(leaf, Tensor) or type(leaf) is StagedNumber else None
        if isinstance(traced, TracedValue) and traced.trace not in outer:
            return False
    return True
