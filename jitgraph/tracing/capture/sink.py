"""What the handlers of instructions tell: a protocol. ``Capture`` takes it in; tests and probes write it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jitgraph.tracing.capture.events import Activation, Finish, InstructionSite


class Sink(Protocol):
    """Each method is called before the instruction runs, with the very objects that it is about to use.

    What a method gives back is called after the instruction, with the frame's state then.
    """

    def global_(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        """The name ``site.value`` is looked up in ``mapping`` where that is not None, then among globals, builtins."""

    def cell(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        """The variable ``site.value`` is looked up in ``mapping`` where that is not None, then in its cell."""

    def attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> Finish | None:
        """``owner.name``."""

    def inherited(self, view: Activation, site: InstructionSite, kind: Any, owner: Any, name: str) -> Finish | None:
        """``super(kind, owner).name``."""

    def item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> Finish | None:
        """``owner[key]``."""

    def iterate(self, view: Activation, site: InstructionSite, owner: Any) -> None:
        """The elements of ``owner`` are about to be taken."""

    def advance(self, view: Activation, site: InstructionSite, iterator: Any) -> None:
        """The next element of an iterator is about to be taken."""

    def answers(self, view: Activation, value: Any) -> None:
        """A method such as ``__index__`` gives ``value``, which Python itself may be waiting for."""

    def operate(self, view: Activation, site: InstructionSite, operation: str, operands: Sequence[Any]) -> None:
        """An operator, ``len``, ``bool``, ``hash``, ``format``, ``with`` and the like, of these operands."""

    def called(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Sequence[Any], names: Sequence[str]
    ) -> Finish | None:
        """``function`` is called; the last ``arguments`` are given by ``names``."""

    def call_unpacked(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Any, keywords: Any
    ) -> Finish | None:
        """``function(*arguments, **keywords)``; ``keywords`` may be None."""

    def raised(self, view: Activation, site: InstructionSite, error: Any) -> None:
        """``raise error``, an exception or its class."""

    def store_attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> None:
        """``owner.name`` is about to be set or deleted."""

    def store_item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> None:
        """``owner[key]`` is about to be set or deleted."""

    def store_global(self, view: Activation, site: InstructionSite, mapping: Any) -> None:
        """The name ``site.value`` is about to be set or deleted in ``mapping``."""

    def store_cell(self, view: Activation, site: InstructionSite) -> None:
        """The variable ``site.value`` of a cell is about to be set or deleted."""

    def function_created(self, view: Activation, value: Any) -> None:
        """A function was just made."""

    def match_class(
        self, view: Activation, site: InstructionSite, subject: Any, kind: Any, names: Sequence[str]
    ) -> Finish | None:
        """``case kind(...)``, with ``names`` by keyword and ``site.argument`` patterns by position."""

    def match_keys(self, view: Activation, site: InstructionSite, subject: Any, keys: Any) -> None:
        """``case {...}`` with these keys."""

    def imported(self, view: Activation, site: InstructionSite, module: Any) -> None:
        """An import statement has found ``module``."""

    def all_names(self, view: Activation, site: InstructionSite, module: Any) -> None:
        """``from module import *``."""
