"""Operators: what they read of their operands."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure, this_process
from jitgraph.tracing.capture.items import Items
from jitgraph.tracing.capture.kinds import SIMPLE, SPECIAL, is_a, is_users_own
from jitgraph.tracing.capture.object_guards import ObjectGuards
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.containers import is_container

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


class Operators:
    """Says what an operator reads of its operands, before it is applied.

    Invariant: an operand from outside is guarded as far as the operation reads it; one that the operation changes in
    place is in the effect log.
    """

    def __init__(self, seen: Observations, guards: ObjectGuards, items: Items, writes: Writes) -> None:
        self._position = seen.position
        self._limits = seen.limits
        self._identities = seen.identities
        self._reads = seen.reads
        self._classes = guards.classes
        self._containers = guards.containers
        self._whole = guards.whole
        self._special = guards.special
        self._items = items
        self._writes = writes
        self._seen = seen

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
                self._limits.bind_to_process(this_process.of_text(operand))
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
                        self._limits.bind_to_process(this_process.of_order(other))
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
