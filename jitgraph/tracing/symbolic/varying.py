"""Which Python numbers of a call vary: those that were seen with another value, or that the call itself counts up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.location import Location
from jitgraph.tracing.arguments import Arguments, LeafKey, Static
from jitgraph.tracing.guards import Guard, Place
from jitgraph.tracing.program import Program
from jitgraph.tracing.specialisation import Specialisation
from jitgraph.tracing.symbolic.places import can_stand_in, is_numeric, varies
from jitgraph.tracing.symbolic.questions import Held, Origin


class Varying:
    """The numbers that a recording reads at each call: at places and among the leaves of the arguments.

    Ints vary where they were seen to, floats among the arguments from the start. ``held`` are those that Python needs,
    which stay part of the key by their values.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.places: dict[Any, Place] = {}
        self.leaves: dict[int, str] = {}
        self.floats = {n: arguments.texts[n] for n, key in enumerate(arguments.keys) if key.kind == "float"}
        self.held: dict[Any, Held] = {}
        self._has_counted = False

    def __bool__(self) -> bool:
        return bool(self.places or self.leaves or self.floats)

    @staticmethod
    def of(known: Sequence[Specialisation], arguments: Arguments) -> Varying:
        """The numbers that differ now from what the specialisations ``known`` assume, or that vary there already."""
        found = Varying(arguments)
        for specialisation in known:
            program = specialisation.program
            for held in program.held:
                found.held.setdefault(_identity(held.origin), held)
            for origin in program.numbers:
                if origin.place is not None:
                    found.places[origin.place.identity] = origin.place
            for guard in program.guards:
                if varies(guard) and can_stand_in(guard.place):
                    found.places[guard.place.identity] = guard.place
            if specialisation.structure == arguments.structure:
                found._compare(specialisation.keys, arguments)
        for identity in found.held:
            found.places.pop(identity, None)
        found.floats = {number: text for number, text in found.floats.items() if text not in found.held}
        return found

    def _compare(self, keys: Sequence[LeafKey], arguments: Arguments) -> None:
        for number, (expected, key, leaf) in enumerate(zip(keys, arguments.keys, arguments.leaves, strict=True)):
            if isinstance(leaf, Static) or key.kind != "equal" or type(key.value) is not int:
                continue
            by_value = expected.kind == "equal" and type(expected.value) is int
            text = arguments.texts[number]
            if text not in self.held and (expected.kind == "number" or (by_value and expected.value != key.value)):
                self.leaves[number] = text

    def keys(self, keys: Sequence[LeafKey], arguments: Arguments) -> tuple[LeafKey, ...]:
        """The keys of leaves, with those that vary by their kind alone, and floats that are held by their values."""
        return tuple([self._key(number, key, arguments.leaves[number]) for number, key in enumerate(keys)])

    def _key(self, number: int, key: LeafKey, leaf: Any) -> LeafKey:
        if number in self.leaves:
            return LeafKey("number")
        return LeafKey("static float", value=leaf) if key.kind == "float" and number not in self.floats else key

    def settle(self, program: Program, arguments: Arguments) -> bool:
        """Take out what ``program`` had to hold and put in what it counts up; whether to record once more."""
        self.hold(program.held)
        numbers: list[int] = [] if program.held else self._counted_leaves(program, arguments)
        for number in numbers:
            self.leaves[number] = arguments.texts[number]
        look = not program.held and not self._has_counted  # once: the places may be other ones in each recording
        self._has_counted |= look
        counted = [] if not look else [guard for guard in _counted(program) if self._is_open(guard.place)]
        for guard in counted:
            self.places[guard.place.identity] = guard.place
        return bool(program.held or counted or numbers)

    def _counted_leaves(self, program: Program, arguments: Arguments) -> list[int]:
        """Ints in containers of the arguments that the program itself sets to something else."""
        found = []
        for change, template in program.changes:
            number = change.box.leaves.get(change.key, -1)
            if number < 0 or template is None or number in self.leaves or arguments.texts[number] in self.held:
                continue
            key = arguments.keys[number]
            if key.kind == "equal" and type(key.value) is int:
                found.append(number)
        return found

    def hold(self, numbers: Sequence[Held]) -> None:
        """Record these numbers with their values from now on."""
        for held in numbers:
            self._hold(held)

    def hold_all(self, error: Exception) -> None:
        """Give up on all numbers, as recording with them raised ``error``."""
        what = f"code that raised {type(error).__name__}"
        origins = [Origin(-1, place, -1, place.text, int) for place in self.places.values()]
        leaves = {**self.leaves, **self.floats}
        origins += [Origin(-1, None, leaf, text, int) for leaf, text in leaves.items()]
        for origin in origins:
            self._hold(Held(origin, what, Location.of_user()))

    def _hold(self, held: Held) -> None:
        self.held[_identity(held.origin)] = held
        if held.origin.place is None:
            self.leaves.pop(held.origin.leaf, None)
            self.floats.pop(held.origin.leaf, None)
        else:
            self.places.pop(held.origin.place.identity, None)

    def _is_open(self, place: Place) -> bool:
        return place.identity not in self.held and place.identity not in self.places and can_stand_in(place)


def _identity(origin: Origin) -> Any:
    return origin.text if origin.place is None else origin.place.identity


def _counted(program: Program) -> list[Guard]:
    """Guards on numbers that the program itself sets to something else."""
    set_to = {place.identity: template for place, template in program.effects}
    return [guard for guard in program.guards if is_numeric(guard) and set_to.get(guard.place.identity) is not None]
