"""Items and elements: what ``x[key]``, ``key in x`` and a loop over ``x`` read."""

from __future__ import annotations

import types
from collections import defaultdict
from typing import Any

import numpy as np

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure, this_process
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.kinds import SIMPLE, is_a, is_plain_key, is_users_own, plain_key
from jitgraph.tracing.capture.object_guards import ObjectGuards
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.source import Slot, item_text
from jitgraph.tracing.storage import MISSING, item_of


class Items:
    """Says what items and elements are about to be read.

    Invariant: no method of the user's is called; where one answers, its own frame tells what it reads.
    """

    def __init__(self, seen: Observations, guards: ObjectGuards) -> None:
        self._position = seen.position
        self._limits = seen.limits
        self._identities = seen.identities
        self._effects = seen.effects
        self._reads = seen.reads
        self._classes = guards.classes
        self._containers = guards.containers
        self._whole = guards.whole
        self._special = guards.special

    def read(self, owner: Any, key: Any, *, plainly: bool = False) -> Finish | None:
        """``owner[key]`` is about to be read; ``plainly`` leaves out what a mapping does where the key is missing."""
        if is_a(owner, np.ndarray):
            if not _is_view(owner, key):
                self._identities.mark_read_by_numpy(owner)
            return None
        if is_a(owner, types.MappingProxyType) and self._identities.is_namespace(owner):
            self._classes.find(self._identities.owner_of(owner), key)
            return None
        if not is_container(owner) or is_users_own(type(owner), "get" if plainly else "__getitem__"):
            self._item_of_object(owner)
            return None
        return self.read_builtin(owner, key, plainly=plainly)

    def read_builtin(self, owner: Any, key: Any, *, plainly: bool = False) -> Finish | None:
        """What a container holds under a key is about to be read, by the method of its built-in class."""
        self._special.guard(owner, "getitem")
        if not self._identities.is_outside(owner):
            self._special.guard(key, "hash" if is_a(owner, dict) else "number")
            return self._default_item(owner, key) if self._identities.is_guarded(owner) else None
        if is_a(owner, tuple):
            self.reach_elements(owner)
            return None
        if not is_plain_key(key):
            self._special.guard(key, "hash" if is_a(owner, dict) else "number")
            self._containers.guard_contents(owner)
            return None
        try:
            value = item_of(owner, key)
        except (LookupError, TypeError):
            value = MISSING
        if self._identities.is_mutated(owner):  # what it held at first is guarded: what it holds now may be made here
            self._containers.guard_contents(owner)
        slot = self._reads.item_slot(owner, plain_key(key), item_text(self._reads.text_of(owner), key))
        if self._reads.first(slot) is not None or not self._identities.is_whole(owner):
            self._reads.record(slot, value)
        if value is not MISSING:
            return self._limits.expect(value) if not plainly else None
        return None if plainly else self._default_item(owner, key)

    def _default_item(self, owner: Any, key: Any) -> Finish | None:
        """A mapping with defaults puts one in."""
        if not is_a(owner, defaultdict) or key in owner or self._identities.is_argument(owner):
            return None
        self._reads.record(
            Slot("attribute", owner, "default_factory", f"{self._reads.text_of(owner)}.default_factory"),
            owner.default_factory,
        )
        slot = self._reads.item_slot(owner, key, item_text(self._reads.text_of(owner), key))

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self._effects.record_write(slot, MISSING)

        return finish

    def reach_elements(self, owner: tuple[Any, ...]) -> None:
        """The elements of a guarded tuple are guarded, too."""
        text = self._reads.text_of(owner)
        for index, element in enumerate(owner):
            if not self._identities.is_guarded(element):
                self._reads.reach(element, f"{text}[{index}]")

    def _item_of_object(self, owner: Any) -> None:
        if is_a(owner, type):
            self._special.guard(owner, "getitem")
            self._classes.find(owner, "__class_getitem__")
        else:
            self._object_whole(owner, "getitem", "__getitem__")

    def is_entry(self, item: Any, container: Any) -> bool:
        """Whether ``item in container``, by the method of a built-in class, asks for one entry of a mapping alone."""
        if not is_a(container, dict) or not is_plain_key(item):
            return False
        if self._identities.is_outside(container):
            self._special.guard(container, "in")
            slot = self._reads.item_slot(container, plain_key(item), f"{self._reads.text_of(container)}[{item!r}]")
            if self._reads.first(slot) is not None or not self._identities.is_whole(container):
                self._reads.record(slot, dict.get(container, plain_key(item), MISSING))
        return True

    # --- elements -----------------------------------------------------------------------------------------------------

    def iterate(self, owner: Any) -> None:
        """The elements of ``owner`` are about to be taken."""
        if type(owner) in SIMPLE or is_a(owner, Tensor | range):
            return
        if is_a(owner, set | frozenset):
            self._limits.bind_to_process(this_process.of_order(owner))
        if is_a(owner, np.ndarray):
            self._identities.mark_read_by_numpy(owner)
        elif is_container(owner) and not is_users_own(type(owner), "__iter__"):
            self._special.guard(owner, "iter")
            self._containers.guard_contents(owner)
        else:
            self._object_whole(owner, "iter", "__iter__")

    def _object_whole(self, owner: Any, operation: str, name: str) -> None:
        """An object takes part in an operation: by code of its own, which is followed, or else as a whole."""
        self._special.guard(owner, operation)
        if is_users_own(type(owner), name):
            return
        if not is_a(owner, type | types.FunctionType):
            self._whole.guard_everything(owner)

    def advance(self, iterator: Any) -> None:
        """The next element of an iterator is about to be taken."""
        if self._identities.is_reachable(iterator):
            impure.refuse_iterator(iterator, self._reads.text_of(iterator), self._position.line)
        self._special.guard(iterator, "next")


def _is_view(array: Any, key: Any) -> bool:
    """Whether ``array[key]`` reads no element: indices that are slices, None, ``...`` and fewer ints than axes."""
    keys = key if is_a(key, tuple) else (key,)
    if not all(is_a(k, slice | int | np.integer | types.EllipsisType | None) and k is not True for k in keys):
        return False
    return bool(sum(is_a(k, int | np.integer) for k in keys) < array.ndim)
