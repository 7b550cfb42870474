"""Which Python numbers of a call vary: those seen with another value, or that the call itself counts up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.location import Location
from jitgraph.tracing.call.arguments import Arguments, LeafKey, Static
from jitgraph.tracing.call.plan import CallPlan, PinnedSource
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.call.undo_log import UndoLog
from jitgraph.tracing.guards.guard import Equals, Guard, Varies
from jitgraph.tracing.guards.source import Slot, Source, World
from jitgraph.tracing.symbolic.number import PinnedNumber, source_of
from jitgraph.tracing.symbolic.numbers import Numbers

# ----------------------------------------------------------------------
# Numbers that vary in their places: put there while a trace records, and taken away after it.


def is_numeric(guard: Guard) -> bool:
    """Whether a guard holds a place to the value of a Python int or float."""
    return isinstance(guard.predicate, Equals) and guard.predicate.plain.kind in ("int", "float")


def varies(guard: Guard, slot: Slot) -> bool:
    """Whether a number of the same kind and another value stands at the place of the guard now."""
    predicate, now = guard.predicate, slot.get_or(None)
    return isinstance(predicate, Equals) and type(now).__name__ == predicate.plain.kind and not predicate.holds(now)


def stand_in(slots: Sequence[Slot], numbers: Numbers, log: UndoLog) -> None:
    """Put numbers that vary at ``slots``, where that can be without running code of the user's."""
    for slot in slots:
        plain, put = slot.get_or(None), slot.setter
        if put is not None and type(plain) in (int, float):
            log.save(slot, slot.text)
            put(numbers.at_slot(slot, plain))


# ----------------------------------------------------------------------
# Which Python numbers of a call vary: those that were seen with another value, or that the call itself counts up.


class Varying:
    """The numbers that a recording reads at each call: at places and among the leaves of the arguments.

    Ints vary where they were seen to, floats among the arguments from the start. ``pinned`` are those that Python
    needs, which stay part of the key by their values.
    """

    def __init__(self, arguments: Arguments, sources: Sequence[Source]) -> None:
        """``sources`` are those of the leaves of the arguments."""
        self.places: dict[Any, Slot] = {}
        self.leaves: dict[int, Source] = {}
        self.held: dict[Any, PinnedSource] = {}
        self.floats = {n: sources[n] for n, key in enumerate(arguments.keys) if key.kind == "float"}
        self._arguments = sources
        self._sources: dict[Any, Source] = {}  # of the places
        self._has_counted = False

    def __bool__(self) -> bool:
        return bool(self.places or self.leaves or self.floats)

    @staticmethod
    def of(
        known: Sequence[Specialisation], arguments: Arguments, values: Sequence[Any], sources: Sequence[Source]
    ) -> Varying:
        """The numbers that differ now from what the specialisations ``known`` assume, or that vary there already."""
        varying = Varying(arguments, sources)
        for specialisation in known:
            plan, world = specialisation.plan, specialisation.world(values)
            for pinned in plan.pinned:
                varying.held.setdefault(_identity(pinned.source, plan, world), pinned)
            for guard in plan.guards:
                if guard.source is None or _is_argument(guard.source, plan):
                    continue
                if isinstance(guard.predicate, Varies) or is_numeric(guard):
                    slot = world.slot(guard.source)
                    if slot is not None and (
                        isinstance(guard.predicate, Varies) or (varies(guard, slot) and slot.setter is not None)
                    ):
                        varying._add(slot, guard.source)
            if specialisation.structure == arguments.structure:
                varying._compare(specialisation, arguments)
        for identity in varying.held:
            varying.places.pop(identity, None)
        varying.floats = {number: source for number, source in varying.floats.items() if source not in varying.held}
        return varying

    def _add(self, slot: Slot, source: Source) -> None:
        self.places[slot.identity] = slot
        self._sources[slot.identity] = source

    def _compare(self, known: Specialisation, arguments: Arguments) -> None:
        for number, (expected, key, leaf) in enumerate(zip(known.keys, arguments.keys, arguments.leaves, strict=True)):
            if isinstance(leaf, Static) or key.kind != "equal" or type(key.value) is not int:
                continue
            by_value = expected.kind == "equal" and type(expected.value) is int
            source = known.plan.arguments[number]
            if source not in self.held and (expected.kind == "number" or (by_value and expected.value != key.value)):
                self.leaves[number] = source

    def keys(self, keys: Sequence[LeafKey], arguments: Arguments) -> tuple[LeafKey, ...]:
        """The keys of leaves, with those that vary by their kind alone, and floats that are held by their values."""
        return tuple([self._key(number, key, arguments.leaves[number]) for number, key in enumerate(keys)])

    def _key(self, number: int, key: LeafKey, leaf: Any) -> LeafKey:
        if number in self.leaves:
            return LeafKey("number")
        return LeafKey("static float", value=leaf) if key.kind == "float" and number not in self.floats else key

    def settle(self, plan: CallPlan, world: World, arguments: Arguments) -> bool:
        """Take out what ``plan`` had to hold and put in what it counts up; whether to record once more.

        A plan that serves this call alone need not know what varies: its function has been run, and is not run again.
        """
        for pinned in plan.pinned:
            self._hold(pinned, _identity(pinned.source, plan, world))
        numbers = [] if plan.pinned or plan.unguarded else self._counted_leaves(plan, arguments)
        for number in numbers:
            self.leaves[number] = plan.arguments[number]
        look = not (plan.pinned or plan.unguarded or self._has_counted)  # once: places may be others in each recording
        self._has_counted |= look
        counted = [] if not look else [(p, s) for p, s in _counted(plan, world) if self._is_open(p)]
        for slot, source in counted:
            self._add(slot, source)
        return bool(plan.pinned or counted or numbers)

    def _counted_leaves(self, plan: CallPlan, arguments: Arguments) -> list[int]:
        """Ints in containers of the arguments that the plan itself sets to something else."""
        set_to = {effect.source for effect in plan.effects if effect.operation == "set"}
        return [
            number
            for number, (source, key) in enumerate(zip(plan.arguments, arguments.keys, strict=True))
            if source in set_to and number not in self.leaves and source not in self.held
            if key.kind == "equal" and type(key.value) is int
        ]

    def hold(self, numbers: Sequence[PinnedNumber]) -> None:
        """Record these numbers, which a recording had to hold, with their values from now on."""
        for origin, what, location in numbers:
            slot = origin.slot
            source = source_of(origin, self._arguments) if slot is None else self._sources[slot.identity]
            self._hold(PinnedSource(source, what, location), source if slot is None else slot.identity)

    def hold_all(self, error: BaseException) -> None:
        """Give up on all numbers, as recording with them raised ``error``."""
        what = f"code that raised {type(error).__name__}"
        for identity in list(self.places):
            self._hold(PinnedSource(self._sources[identity], what, Location.of_user()), identity)
        for source in [*self.leaves.values(), *self.floats.values()]:
            self._hold(PinnedSource(source, what, Location.of_user()), source)

    def _hold(self, pinned: PinnedSource, identity: Any) -> None:
        self.held[identity] = pinned
        self.places.pop(identity, None)
        self.leaves = {number: source for number, source in self.leaves.items() if source != identity}
        self.floats = {number: source for number, source in self.floats.items() if source != identity}

    def _is_open(self, slot: Slot) -> bool:
        return slot.identity not in self.held and slot.identity not in self.places and slot.setter is not None


def _is_argument(source: Source, plan: CallPlan) -> bool:
    """Whether a source is a leaf of the arguments or in one of their containers, and not in an object among them."""
    return source.kind == "argument" and not any(source.is_inside(leaf) for leaf in plan.arguments)


def _identity(source: Source, plan: CallPlan, world: World) -> Any:
    """What a number is known by from one recording to the next: its place, or its source among the arguments."""
    slot = None if _is_argument(source, plan) else world.slot(source)
    return source if slot is None else slot.identity


def _counted(plan: CallPlan, world: World) -> list[tuple[Slot, Source]]:
    """Numbers by whose values the plan is guarded and that it itself sets to something else."""
    set_to = {effect.source.stored for effect in plan.effects if effect.operation == "set"}
    sources = [g.source for g in plan.guards if g.source is not None and g.source.stored in set_to and is_numeric(g)]
    slots = [(world.slot(source), source) for source in sources if not _is_argument(source, plan)]
    return [(slot, source) for slot, source in slots if slot is not None]
