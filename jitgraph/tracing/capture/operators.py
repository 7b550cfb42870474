"""Items, iterations and operators: what they read of their operands."""

from __future__ import annotations

import types
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure, this_process
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.kinds import SIMPLE, SPECIAL, is_a, is_plain_key, is_users_own, plain_key
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.source import Slot, item_text
from jitgraph.tracing.storage import MISSING, item_of

if TYPE_CHECKING:
    from jitgraph.tracing.symbolic.numbers import Numbers

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


def _is_printing() -> bool:
    """Whether the text that is being made is one of a print, in which tensors are marks."""
    trace = context.current().trace
    return trace is not None and trace.text is not None


class Operators(Writes):
    """Says what ``x[key]``, a loop over ``x`` and an operator read, before they run."""

    def __init__(self, known: Iterable[Any], arguments: Iterable[Any]) -> None:
        super().__init__(known, arguments)
        self.numbers: Numbers | None = None  # of the trace: they are told what is compared and what calls are given

    # --- items and elements -----------------------------------------------------------------------------------------

    def read_item(self, owner: Any, key: Any, *, plainly: bool = False) -> Finish | None:
        """``owner[key]`` is about to be read; ``plainly`` leaves out what a mapping does where the key is missing."""
        if is_a(owner, np.ndarray):
            if not _is_view(owner, key):
                self.by_numpy.add(id(owner))
            return None
        if is_a(owner, types.MappingProxyType) and id(owner) in self.instances:
            self.find(self.instances[id(owner)], key)
            return None
        if not is_container(owner) or is_users_own(type(owner), "get" if plainly else "__getitem__"):
            self._item_of_object(owner)
            return None
        return self.read_builtin_item(owner, key, plainly=plainly)

    def read_builtin_item(self, owner: Any, key: Any, *, plainly: bool = False) -> Finish | None:
        """What a container holds under a key is about to be read, by the method of its built-in class."""
        self.special(owner, "getitem")
        if id(owner) not in self.steady or id(owner) in self.keyed:
            self.special(key, "hash" if is_a(owner, dict) else "number")
            return self._default_item(owner, key) if id(owner) in self.steady else None
        if is_a(owner, tuple):
            self._settle_elements(owner)
            return None
        if not is_plain_key(key):
            self.special(key, "hash" if is_a(owner, dict) else "number")
            self.guard_contents(owner)
            return None
        try:
            value = item_of(owner, key)
        except (LookupError, TypeError):
            value = MISSING
        if id(owner) in self.mutated:  # what it held at first is guarded, what it holds now may be the function's own
            self.guard_contents(owner)
        slot = self.entry(owner, plain_key(key), item_text(self.text_of(owner), key))
        if slot.identity in self.reads or not self.is_whole(owner):
            self.record_read(slot, value)
        if value is not MISSING:
            return self.expect(value) if not plainly else None
        return None if plainly else self._default_item(owner, key)

    def _default_item(self, owner: Any, key: Any) -> Finish | None:
        """A mapping with defaults puts one in."""
        if not is_a(owner, defaultdict) or key in owner or id(owner) in self.keyed:
            return None
        self.record_read(
            Slot("attribute", owner, "default_factory", f"{self.text_of(owner)}.default_factory"),
            owner.default_factory,
        )
        slot = self.entry(owner, key, item_text(self.text_of(owner), key))

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self.record_write(slot, MISSING)

        return finish

    def _settle_elements(self, owner: tuple[Any, ...]) -> None:
        text = self.text_of(owner)
        for index, element in enumerate(owner):
            if id(element) not in self.steady:
                self.settle(element, f"{text}[{index}]")

    def _item_of_object(self, owner: Any) -> None:
        if is_a(owner, type):
            self.special(owner, "getitem")
            self.find(owner, "__class_getitem__")
        else:
            self._object_whole(owner, "getitem", "__getitem__")

    def iteration(self, owner: Any) -> None:
        """The elements of ``owner`` are about to be taken."""
        if type(owner) in SIMPLE or is_a(owner, Tensor | range):
            return
        if is_a(owner, set | frozenset):
            self.bind_to_process(this_process.of_order(owner))
        if is_a(owner, np.ndarray):
            self.by_numpy.add(id(owner))
        elif is_container(owner) and not is_users_own(type(owner), "__iter__"):
            self.special(owner, "iter")
            self.guard_contents(owner)
        else:
            self._object_whole(owner, "iter", "__iter__")

    def _object_whole(self, owner: Any, operation: str, name: str) -> None:
        """An object takes part in an operation: by code of its own, which is followed, or else as a whole."""
        self.special(owner, operation)
        if is_users_own(type(owner), name):
            return
        if not is_a(owner, type | types.FunctionType):
            self.guard_everything(owner)

    def advancing(self, iterator: Any) -> None:
        """The next element of an iterator is about to be taken."""
        if self.is_reachable(iterator):
            impure.refuse_iterator(iterator, self.text_of(iterator), self.line)
        self.special(iterator, "next")

    # --- operators --------------------------------------------------------------------------------------------------

    def operation(self, operation: str, operands: Sequence[Any]) -> None:
        """An operator is about to be applied."""
        if operation == "is":
            self._compare_identity(operands)
            return
        if operation == "in" and not is_users_own(type(operands[1]), "__contains__") and self.is_entry(*operands):
            return
        if operation in _TEXTS or (operation == "%" and is_a(operands[0], str | bytes)):
            for operand in operands:
                self.bind_to_process(this_process.of_text(operand))
        for index, operand in enumerate(operands):
            if type(operand) in SIMPLE:
                continue
            if is_a(operand, Tensor):
                if operation in ("format", "str") and not self.in_package and not _is_printing():
                    self.cannot_guard(f"the text of {self.text_of(operand)}, which is not computed yet")
            elif is_a(operand, np.ndarray):
                self._of_array(operation, operand, operands)
            elif operation in _OF_ONE_METHOD and is_users_own(type(operand), *SPECIAL[operation]):
                self.special(operand, operation)
            elif is_container(operand):
                self.special(operand, operation)
                if index == 0 and operation in _IN_PLACE and is_a(operand, list | dict | set | deque):
                    for other in () if is_a(operand, set) else operands[1:]:
                        self.bind_to_process(this_process.of_order(other))
                    self.mutate(operand, _IN_PLACE[operation])
                else:
                    self._of_container(operation, operand)
            else:
                self._of_object(operation, operand)

    def _of_container(self, operation: str, operand: Any) -> None:
        if operation in ("bool", "len", "matched"):
            self.guard_extent(operand)
        elif operation == "hash":
            self.guard_everything(operand)
        elif operation in ("mapping", "iter", "reversed"):
            self.guard_contents(operand)
        else:
            self.guard_everything(operand)

    def _of_object(self, operation: str, operand: Any) -> None:
        """An operand with special methods of the user's, which are followed, or of a library's."""
        if is_a(operand, type):
            self.special(operand, operation)
            return
        if operation in _ROUNDING and impure.is_decimal(operand):
            self.cannot_guard("the context of decimal arithmetic")
        users = self.special(operand, operation)
        if operation == "bool" and not users and any(self.find(type(operand), name) for name in SPECIAL["bool"]):
            self.guard_everything(operand)
        if operation in ("hash", "matched", "bool", "with", "async with", "await", "aiter") or users:
            return
        if operation in ("format", "str", "repr", "==", "!=") and is_a(operand, types.FunctionType | types.ModuleType):
            return
        self.guard_everything(operand)

    def _of_array(self, operation: str, operand: Any, operands: Sequence[Any]) -> None:
        if operation in ("bool", "in", "number", "format", "str", "repr") or not any(
            is_a(other, Tensor) for other in operands
        ):
            self.by_numpy.add(id(operand))

    def is_entry(self, item: Any, container: Any) -> bool:
        """Whether ``item in container``, by the method of a built-in class, asks for one entry of a mapping alone."""
        if not is_a(container, dict) or not is_plain_key(item):
            return False
        if id(container) in self.steady and id(container) not in self.keyed:
            self.special(container, "in")
            slot = self.entry(container, plain_key(item), f"{self.text_of(container)}[{item!r}]")
            if slot.identity in self.reads or not self.is_whole(container):
                self.record_read(slot, dict.get(container, plain_key(item), MISSING))
        return True

    def _compare_identity(self, operands: Sequence[Any]) -> None:
        """``is``: a number that varies has no identity, and tensors from outside have to stay who they are."""
        a, b = operands
        if self.numbers is not None:
            self.numbers.compared(a, b)
        if a is not None and b is not None and (id(a) in self.keyed or id(b) in self.keyed):
            self.compared.append((a, b))
        for one, other in ((a, b), (b, a)):
            if is_a(one, Tensor) and is_a(other, Tensor):
                self.with_attributes[id(one)] = one


def _is_view(array: Any, key: Any) -> bool:
    """Whether ``array[key]`` reads no element: indices that are slices, None, ``...`` and fewer ints than axes."""
    keys = key if is_a(key, tuple) else (key,)
    if not all(is_a(k, slice | int | np.integer | types.EllipsisType | None) and k is not True for k in keys):
        return False
    return bool(sum(is_a(k, int | np.integer) for k in keys) < array.ndim)
