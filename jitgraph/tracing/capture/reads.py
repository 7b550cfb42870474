"""What a recorded function reads, and the objects that it reaches by that."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from jitgraph import foreign
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.effects import EffectLog
from jitgraph.tracing.capture.identity import IdentityTable, ObjectEntry, UsedContainer
from jitgraph.tracing.capture.kinds import is_a, may_change
from jitgraph.tracing.capture.position import Position, RecordingLimits
from jitgraph.tracing.guard import Assumption
from jitgraph.tracing.predicate import Predicate
from jitgraph.tracing.source import Slot
from jitgraph.tracing.staged.number import StagedNumber
from jitgraph.tracing.storage import MISSING, class_entry
from jitgraph.tracing.symbolic.number import SymbolicNumber, resolved


@dataclass(slots=True)
class FirstRead:
    """A value found at a place when it was first read; ``MISSING`` for nothing."""

    slot: Slot
    value: Any
    location: Location
    by_user: bool = False  # read by code outside of this package, too
    soft: bool = False  # library code may change it for its own purposes: then the recording serves once


class ReadLog:
    """What the function read of objects from outside before it wrote there, and what it reaches by that.

    Invariant: an object that the table of identities has as guarded is the value of a recorded place, or a part of such
    a value that a guard on it fixes, or in the key of a call.
    """

    def __init__(
        self, position: Position, limits: RecordingLimits, identities: IdentityTable, effects: EffectLog
    ) -> None:
        self.tensors: list[tuple[Slot, Tensor]] = []  # the guarded places at which a tensor was read
        self.contents: list[UsedContainer] = []  # containers used as a whole
        self.extents: list[UsedContainer] = []  # those of which the extent was used
        self.compared: list[tuple[Any, Any]] = []  # by ``is``, one of them a container of the arguments
        self._position = position
        self._limits = limits
        self._identities = identities
        self._effects = effects
        self._first: dict[tuple[Any, ...], FirstRead] = {}  # by the identity of the slot
        self._released: set[tuple[Any, ...]] = set()
        self._of_arguments: dict[tuple[ObjectEntry, Any], Assumption] = {}
        self._by_code: dict[CodeType, types.FunctionType] = {}

    def __iter__(self) -> Iterator[FirstRead]:
        return iter(self._first.values())

    def by_location(self) -> Iterable[tuple[tuple[Any, ...], FirstRead]]:
        """The identity of each place, with what was read there first."""
        return self._first.items()

    # --- places -----------------------------------------------------------------------------------------------------

    def record(self, slot: Slot, value: Any, *, soft: bool = False, at_first: bool = False) -> None:
        """``value`` was found at a place of a guarded object; ``at_first`` before the function wrote there."""
        value = resolved(value)
        identity = slot.identity
        if identity in self._effects.writes and not at_first:
            return
        known = self._first.get(identity)
        if known is None:
            if value is not MISSING:
                self.refuse(value, slot.text)
                if soft and impure.is_unseen_iterator(value):
                    self._limits.cannot_guard(f"what {slot.text} gives, an iterator that library code keeps")
                else:
                    impure.refuse_iterator(value, slot.text, self._position.line)
            known = self._first[identity] = FirstRead(slot, value, self._position.line, False, soft)
            if value is not MISSING:
                self.reach(value, slot.text)
            if is_a(value, Tensor):
                self.tensors.append((slot, value))
                entry = self._identities.entry(value)
                entry.source = entry.source or slot
        known.by_user = known.by_user or self._position.by_user

    def first(self, slot: Slot) -> FirstRead | None:
        """The first read of a place."""
        return self._first.get(slot.identity)

    def release(self, mapping: Any, key: Any) -> None:
        """Guard ``mapping[key]`` no more where it is read by this package alone: it is an input."""
        self._released.add(Slot("item", mapping, key, "").identity)

    def is_released(self, location: tuple[Any, ...], read: FirstRead) -> bool:
        """Whether what was read at a place is an input, which needs no guard."""
        return not read.by_user and location in self._released

    def assume_of_argument(self, slot: Slot, predicate: Predicate) -> None:
        """An attribute of an argument that is not in the key of a call was read."""
        assumption = Assumption(slot, predicate, self._position.line)
        self._of_arguments.setdefault((self._identities.entry(slot.owner), slot.key), assumption)

    def of_arguments(self) -> Iterable[Assumption]:
        """What was read of arguments and is not in the key of a call."""
        return self._of_arguments.values()

    def record_contents(self, container: Any, used: UsedContainer) -> None:
        """A container, or a class, was used as a whole."""
        self._identities.entry(container).contents = used
        self.contents.append(used)

    def record_extent(self, container: Any, used: UsedContainer) -> None:
        """The extent of a container was used."""
        self._identities.entry(container).extent = used
        self.extents.append(used)

    def source_of(self, handle: Tensor) -> Slot | None:
        """The first guarded place at which a tensor was read."""
        entry = self._identities.known(handle)
        return None if entry is None else entry.source

    def use_identity(self, handle: Tensor) -> None:
        """A tensor from outside has to stay the same object at each call."""
        self._identities.entry(handle).identity_used = True

    def item_slot(self, container: Any, key: Any, text: str) -> Slot:
        """``container[key]``; in the ``__dict__`` of an object that is the attribute."""
        if self._identities.is_namespace(container) and is_a(key, str):
            text = text.replace(f".__dict__[{key!r}]", f".{key}")
            owner = self._identities.owner_of(container)
            if hasattr(type(class_entry(type(owner), key)), "__set__"):
                return Slot("own", owner, key, text)  # a property, say, hides it
            return Slot.of_attribute(owner, key, text)
        return Slot("item", container, key, text)

    # --- objects ----------------------------------------------------------------------------------------------------

    def text_of(self, value: Any) -> str:
        """How people would write an object."""
        entry = self._identities.known(value)
        text = None if entry is None else entry.text
        return text if text is not None else self._position.local_name(value) or type(value).__name__

    def known_text(self, value: Any) -> str | None:
        """How an object was reached first."""
        entry = self._identities.known(value)
        return None if entry is None else entry.text

    def know_arguments(self, containers: Iterable[tuple[Any, str]]) -> None:
        """Say that these are containers of the arguments, by these names: their changes are seen without this."""
        for container, text in containers:
            entry = self._identities.entry(container)
            entry.argument, entry.text = True, text if entry.text is None else entry.text

    def reach(self, value: Any, text: str) -> None:
        """``value`` is reached by guarded steps, so what is read from it later is, too."""
        if type(value) in (int, float, str, bytes, bool, type(None)):
            return
        if type(value) not in (SymbolicNumber, StagedNumber) and not is_a(value, Tensor):
            foreign.refuse(value, text, self._position.line)
        if is_a(value, np.ndarray) and self._effects.log.entry(value) is None:
            foreign.require_plain(value, text)
            self._effects.touch(value, text)
        if is_a(value, Tensor):
            return
        if not self._identities.is_created(value):
            entry = self._identities.entry(value)
            entry.guarded = True
            if entry.text is None:
                entry.text = text
        self._reach_parts(value, text)

    def _reach_parts(self, value: Any, text: str) -> None:
        """Of a function the variables that it closes over and its globals are guarded, too; of a method its parts."""
        if is_a(value, types.FunctionType):
            if self._identities.is_defined(value):
                return
            for cell in value.__closure__ or ():
                self._identities.entry(cell).older_cell = True
            self._by_code.setdefault(value.__code__, value)
            self._identities.mark_guarded(value.__globals__)
        elif is_a(value, types.MethodType):
            self.reach(value.__self__, text)
            self.reach(value.__func__, text)
        elif is_a(value, staticmethod | classmethod):
            self.reach(value.__func__, text)
        elif is_a(value, enum.EnumMeta) and may_change(value):  # its members may have attributes besides
            for name, member in value.__members__.items():
                self.reach(member, f"{text}.{name}")
        elif is_a(value, property):
            for part in (value.fget, value.fset, value.fdel):
                self.reach(part, text)

    def function_of(self, code: CodeType) -> types.FunctionType | None:
        """The first function with this code that was reached."""
        return self._by_code.get(code)

    def refuse(self, value: Any, text: str) -> None:
        """TraceError for what gives something new at each call; what asks of the world outside is not guarded."""
        entry = self._identities.known(value)
        if entry is not None and entry.harmless:
            return
        impure.refuse(value, text, self._position.line)
        if not self._position.in_package and (what := impure.outside_state(value)) is not None:
            self._limits.cannot_guard(f"what {text} says about {what}")
        elif callable(value):
            self._identities.entry(value).harmless = True
