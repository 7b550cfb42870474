"""What ``x[key]``, ``key in x``, loops and operators read of their operands."""

from __future__ import annotations

import types
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.events import Finish
from jitgraph.tracing.capture.kinds import SIMPLE, SPECIAL, is_a, is_plain_key, is_users_own, plain_key
from jitgraph.tracing.capture.object_guards import CaptureRule, ObjectGuards
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.guards.source import Slot, item_text
from jitgraph.tracing.guards.storage import MISSING, is_container, item_of

# ----------------------------------------------------------------------
# Items and elements: what ``x[key]``, ``key in x`` and a loop over ``x`` read.


class Items(CaptureRule):
    """Says what items and elements are about to be read.

    Invariant: no method of the user's is called; where one answers, its own frame tells what it reads.
    """

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
        return self._effects.written_after(
            self._reads.item_slot(owner, key, item_text(self._reads.text_of(owner), key))
        )

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
            self._limits.bind_to_process(impure.of_order(owner))
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


# ----------------------------------------------------------------------
# Operators: what they read of their operands.

_IN_PLACE: Final = {
    "+=": "extend",
    "*=": "__imul__",
    "|=": "__ior__",
    "&=": "__iand__",
    "-=": "__isub__",
    "^=": "__ixor__",
}  # operators that change a container, by the method that does the same

_OF_ONE_METHOD: Final = frozenset({"len", "bool", "iter", "reversed", "in"})

_TEXTS: Final = frozenset({"format", "str", "repr"})

_ROUNDING: Final = frozenset(
    ["neg", "pos", "abs", *(f"{symbol}{end}" for symbol in ("+", "-", "*", "/", "//", "%", "**") for end in ("", "="))]
)  # operations that round a decimal number as the context of its thread says


class Operators(CaptureRule):
    """Says what an operator reads of its operands, before it is applied.

    Invariant: an operand from outside is guarded as far as the operation reads it; one that the operation changes in
    place is in the effect log.
    """

    def __init__(self, seen: Observations, guards: ObjectGuards, items: Items, writes: Writes) -> None:
        super().__init__(seen, guards)
        self._items = items
        self._writes = writes

    def apply(self, operation: str, operands: Sequence[Any]) -> None:
        """An operator is about to be applied."""
        if operation == "is":
            self.compare_identity(operands)
            return
        asks_entry = operation == "in" and not is_users_own(type(operands[1]), "__contains__")
        if asks_entry and self._items.is_entry(*operands):
            return
        if operation in _TEXTS or (operation == "%" and is_a(operands[0], str | bytes)):
            for operand in operands:
                self._limits.bind_to_process(impure.of_text(operand))
        for index, operand in enumerate(operands):
            if type(operand) in SIMPLE:
                continue
            if is_a(operand, Tensor):
                if operation in ("format", "str") and not (self._position.in_package or _is_printing()):
                    self._limits.cannot_guard(f"the text of {self._reads.text_of(operand)}, which is not computed yet")
            elif is_a(operand, np.ndarray):
                self._of_array(operation, operand, operands)
            elif operation in _OF_ONE_METHOD and is_users_own(type(operand), *SPECIAL[operation]):
                self._special.guard(operand, operation)
            elif is_container(operand):
                self._special.guard(operand, operation)
                if index == 0 and operation in _IN_PLACE and is_a(operand, list | dict | set | deque):
                    for other in () if is_a(operand, set) else operands[1:]:
                        self._limits.bind_to_process(impure.of_order(other))
                    self._writes.mutate(operand, _IN_PLACE[operation])
                else:
                    self._of_container(operation, operand)
            else:
                self._of_object(operation, operand)

    def _of_container(self, operation: str, operand: Any) -> None:
        if operation in ("bool", "len", "matched"):
            self._containers.guard_extent(operand)
        elif operation == "hash":
            self._whole.guard_everything(operand)
        elif operation in ("mapping", "iter", "reversed"):
            self._containers.guard_contents(operand)
        else:
            self._whole.guard_everything(operand)

    def _of_object(self, operation: str, operand: Any) -> None:
        """An operand with special methods of the user's, which are followed, or of a library's."""
        if is_a(operand, type):
            self._special.guard(operand, operation)
            return
        if operation in _ROUNDING and impure.is_decimal(operand):
            self._limits.cannot_guard("the context of decimal arithmetic")
        users = self._special.guard(operand, operation)
        asks_truth = operation == "bool" and not users
        if asks_truth and any(self._classes.find(type(operand), name) for name in SPECIAL["bool"]):
            self._whole.guard_everything(operand)
        if operation in ("hash", "matched", "bool", "with", "async with", "await", "aiter") or users:
            return
        if operation in ("format", "str", "repr", "==", "!=") and is_a(operand, types.FunctionType | types.ModuleType):
            return
        self._whole.guard_everything(operand)

    def _of_array(self, operation: str, operand: Any, operands: Sequence[Any]) -> None:
        if operation in ("bool", "in", "number", "format", "str", "repr") or not any(
            is_a(other, Tensor) for other in operands
        ):
            self._identities.mark_read_by_numpy(operand)

    def compare_identity(self, operands: Sequence[Any]) -> None:
        """``is``: a number that varies has no identity, and tensors from outside have to stay who they are."""
        a, b = operands
        if self._seen.numbers is not None:
            self._seen.numbers.compared(a, b)
        if a is not None and b is not None and (self._identities.is_argument(a) or self._identities.is_argument(b)):
            self._reads.compared.append((a, b))
        for one, other in ((a, b), (b, a)):
            if is_a(one, Tensor) and is_a(other, Tensor):
                self._reads.use_identity(one)


def _is_printing() -> bool:
    """Whether the text that is being made is one of a print, in which tensors are marks."""
    trace = context.current().trace
    return trace is not None and trace.text is not None
