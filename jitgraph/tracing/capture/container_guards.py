"""Guards on what containers hold: their extents and their elements, at any depth."""

from __future__ import annotations

from typing import Any, Final

from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.identity import UsedContainer
from jitgraph.tracing.capture.kinds import (
    is_a,
)
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.containers import MAX_ELEMENTS, is_container
from jitgraph.tracing.source import item_text
from jitgraph.tracing.storage import contents_of, elements_of

MOST_ELEMENTS: Final = 1 << 16  # of a container whose elements are guarded by their identity, all at once


class ContainerGuards:
    """Guards the extents and elements of containers.

    Invariant: a container from outside that was used as a whole is noted with what it held before the function changed
    it, once.
    """

    def __init__(self, seen: Observations) -> None:
        self._position = seen.position
        self._limits = seen.limits
        self._identities = seen.identities
        self._effects = seen.effects
        self._reads = seen.reads

    def guard_contents(self, container: Any, text: str = "", *, soft: bool = False) -> None:
        """The extent and the elements of a container that is used as a whole, and of those inside it."""
        if self._identities.is_argument(container):
            return
        if not self._identities.is_guarded(container):
            self._guard_inside(container, set())
            return
        if self._identities.entry(container).contents is not None:
            return
        text = text or self._reads.text_of(container)
        before = self._original_contents(container, text)
        many = len(before) > MAX_ELEMENTS
        by_identity = MAX_ELEMENTS < len(before) <= MOST_ELEMENTS and not is_a(container, set | frozenset)
        used = UsedContainer(container, before, text, self._position.line, soft, by_identity)
        self._reads.record_contents(container, used)
        if len(before) > MOST_ELEMENTS:
            self._limits.cannot_guard(f"the {len(before)} elements of {text} one by one (their number is)")
            return
        pairs = list(before.items() if is_a(before, dict) else enumerate(before))
        for key, element in pairs:
            element_text = item_text(text, key)
            if is_a(container, tuple | set | frozenset) or many:
                self._reads.reach(element, element_text)
            else:
                slot = self._reads.item_slot(container, key, element_text)
                eases = soft or (self._identities.is_namespace(container) and impure.is_unseen_iterator(element))
                self._reads.record(slot, element, soft=eases, at_first=self._effects.is_subsumed(container))
            if is_container(element):
                self.guard_contents(element, element_text, soft=soft)

    def guard_extent(self, container: Any) -> None:
        """How many elements a container has, or which keys."""
        if not self._identities.is_outside(container) or is_a(container, tuple):
            return
        entry = self._identities.entry(container)
        if entry.contents is None and entry.extent is None:
            text = self._reads.text_of(container)
            before = self._original_contents(container, text)
            self._reads.record_extent(container, UsedContainer(container, before, text, self._position.line))

    def _original_contents(self, container: Any, text: str) -> Any:
        """What a container held before the function changed it."""
        if is_a(container, tuple | frozenset):
            return contents_of(container)
        return self._effects.touch(container, text).before

    def _guard_inside(self, container: Any, walked: set[int]) -> None:
        """Containers from outside that stand in a container which the function made."""
        walked.add(id(container))
        elements = elements_of(container)
        if len(elements) > MOST_ELEMENTS:
            return
        for element in list(elements):
            if is_container(element) and id(element) not in walked:
                if self._identities.is_guarded(element):
                    self.guard_contents(element)
                else:
                    self._guard_inside(element, walked)
