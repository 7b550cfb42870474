"""Capture: notes all Python state that a function reads and changes while it is traced.

A tracer stops before each instruction of the user's code (``events.py``) and reads what it is about to use from the
value stack: owners, keys, callables and arguments are the very objects. Nothing of the user's is run for it:
attributes are looked up by storage (``lookup.py``). Every object is known by its identity: guarded steps led to it, or
it is a container among the arguments, or the function made it.
The standard library, installed packages and jitgraph itself are not followed, except the modules and optimizers of
``jitgraph.nn`` and ``jitgraph.optim``, which hold state of the user's; what code that is not followed may read is
guarded as a whole (``calls.py``).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import this_process
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, InstructionSite
from jitgraph.tracing.capture.followed import PACKAGE, STAGING, is_library_module
from jitgraph.tracing.capture.functions import Functions
from jitgraph.tracing.capture.kinds import SIMPLE, is_a, may_change
from jitgraph.tracing.capture.layout import cell_of
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING
from jitgraph.tracing.symbolic.number import EndOfRecording, SymbolicNumber
from jitgraph.tracing.symbolic.passing import refuse_staged

_CALLEE: Final = ("jitgraph.tracing.script.callees", "callee")


class Capture(Functions):
    """What one trace saw of the functions that it ran by ``call``."""

    # --- names ------------------------------------------------------------------------------------------------------

    def global_(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        name, frame = site.value, view.frame
        names = frame.f_globals
        if mapping is not None and mapping is not names and name in mapping:
            if id(mapping) not in self.steady or not is_a(mapping, dict):
                return None
            self._view, self._site = view, site
            return self.read_item(mapping, name)
        if view.in_package or (id(names), name) in self._globals or id(names) not in self.steady:
            return None
        self._view, self._site = view, site
        self._globals[id(names), name] = names
        slot = Slot("item", names, name, name)
        if name in names:
            self.record_read(slot, names[name])
            return self.expect(names[name])
        self.record_read(slot, MISSING)
        known = frame.f_builtins
        value = known.get(name, MISSING)
        value = self.replaced_builtins.get(id(value), value)
        if value is not MISSING:
            self.refuse(value, name)
        self.record_read(Slot("item", known, name, f"builtins.{name}"), value)
        return None

    def cell(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        name = site.value
        if mapping is not None and name in mapping:
            return None
        cell = self._cell(view, name)
        if cell is None:
            return None
        self._view, self._site = view, site
        slot = Slot("cell", cell, None, name)
        value = slot.get_or(MISSING)
        self.record_read(slot, value)
        return None if value is MISSING else self.expect(value)

    def _cell(self, view: Activation, name: str) -> Any:
        """The cell of a variable where it is older than the call."""
        if name == STAGING or name not in view.frame.f_code.co_freevars:
            return None
        cell = cell_of(view.function, name)
        return cell if id(cell) in self._cells else None

    def store_global(self, view: Activation, site: InstructionSite, mapping: Any) -> None:
        if id(mapping) in self.steady and is_a(mapping, dict):
            self._view, self._site = view, site
            self.record_write(Slot("item", mapping, site.value, site.value), mapping.get(site.value, MISSING))

    def store_cell(self, view: Activation, site: InstructionSite) -> None:
        cell = self._cell(view, site.value)
        if cell is not None:
            self._view, self._site = view, site
            slot = Slot("cell", cell, None, site.value)
            self.record_write(slot, slot.get_or(MISSING))

    def imported(self, view: Activation, site: InstructionSite, module: Any) -> None:
        self._view, self._site = view, site
        name = getattr(module, "__name__", None)
        if is_a(module, types.ModuleType) and isinstance(name, str):
            self.settle(module, name)
            if not view.in_package and not is_library_module(name) and sys.modules.get(name) is module:
                self.record_read(Slot("item", sys.modules, name, f"sys.modules[{name!r}]"), module)

    def all_names(self, view: Activation, site: InstructionSite, module: Any) -> None:
        self._view, self._site = view, site
        if is_a(module, types.ModuleType) and not is_library_module(module.__name__):
            self.settle(vars(module), module.__name__)
            self.guard_contents(vars(module), module.__name__, soft=True)

    # --- attributes and items ---------------------------------------------------------------------------------------

    def attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> Finish | None:
        if type(owner) in SIMPLE:
            return None
        self._view, self._site = view, site
        return self.look_up(owner, name)

    def inherited(self, view: Activation, site: InstructionSite, kind: Any, owner: Any, name: str) -> Finish | None:
        self._view, self._site = view, site
        return self.inherit(kind, owner, name)

    def item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> Finish | None:
        if type(owner) in SIMPLE or is_a(owner, Tensor):
            return None
        self._view, self._site = view, site
        return self.read_item(owner, key)

    def iterate(self, view: Activation, site: InstructionSite, owner: Any) -> None:
        if type(owner) not in SIMPLE and not is_a(owner, Tensor):
            self._view, self._site = view, site
            self.iteration(owner)

    def advance(self, view: Activation, site: InstructionSite, iterator: Any) -> None:
        if self.is_reachable(iterator) or may_change(type(iterator)):
            self._view, self._site = view, site
            self.advancing(iterator)

    # --- operators --------------------------------------------------------------------------------------------------

    def operate(self, view: Activation, site: InstructionSite, operation: str, operands: Sequence[Any]) -> None:
        for operand in operands:
            if type(operand) not in SIMPLE and (type(operand) is not Tensor or operation in _OF_TENSORS):
                self._view, self._site = view, site
                self.operation(operation, operands)
                return
            if type(operand) is SymbolicNumber and operation == "is":
                self._view, self._site = view, site
                self._compare_identity(operands)
                return

    def answers(self, view: Activation, value: Any) -> None:
        if type(value) is SymbolicNumber and value.is_live:  # what asked would raise a TypeError, which may be caught
            value.refuse(f"{{}} as the result of {view.frame.f_code.co_name}")
            raise EndOfRecording

    # --- patterns ---------------------------------------------------------------------------------------------------

    def match_class(
        self, view: Activation, site: InstructionSite, subject: Any, kind: Any, names: Sequence[str]
    ) -> Finish | None:
        self._view, self._site = view, site
        if not is_a(kind, type):
            return None
        finish = self.is_instance(subject, kind)
        positional: Sequence[str] = ()
        if site.argument:
            self.look_up(kind, "__match_args__")
            positional = getattr(kind, "__match_args__", ())[: site.argument]
        for name in (*positional, *names):
            self.look_up(subject, name)
        return finish

    def match_keys(self, view: Activation, site: InstructionSite, subject: Any, keys: Any) -> None:
        self._view, self._site = view, site
        for key in keys:
            self.read_item(subject, key, plainly=True)

    # --- calls ------------------------------------------------------------------------------------------------------

    def called(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Sequence[Any], names: Sequence[str]
    ) -> Finish | None:
        self._view, self._site = view, site
        rewriting = self._stands_for.get(id(function))
        if rewriting is not None:
            function = rewriting[1]
        if _is_callee(function) and arguments:
            return self._staged(arguments[0])
        if self.numbers is not None:
            if function is not type or not view.frame.f_code.co_filename.startswith(PACKAGE):  # which knows their type
                self.numbers.passed_to(function, arguments)
            if self.numbers.trace.has_staged:
                refuse_staged(function, arguments)
        return self.call_of(function, arguments, names)

    def _staged(self, function: Any) -> Finish:
        """A script asks what to call in place of ``function``."""

        if not callable(function) or not is_a(function, (types.FunctionType, types.MethodType, type)):
            self.special(function, "call")

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self._stand_for(after.at(-1), function)

        return finish

    def call_unpacked(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Any, keywords: Any
    ) -> Finish | None:
        self._view, self._site = view, site
        if not is_a(arguments, tuple):
            self.iteration(arguments)
        elif self.is_reachable(arguments):
            self._settle_elements(arguments)
        if not is_a(arguments, tuple | list):
            arguments = ()
        if is_a(keywords, Mapping):
            if is_container(keywords):
                self.guard_contents(keywords)
            return self.called(view, site, function, (*arguments, *keywords.values()), tuple(keywords))
        return self.called(view, site, function, arguments, ())

    def raised(self, view: Activation, site: InstructionSite, error: Any) -> None:
        if is_a(error, type) and may_change(error):
            self._view, self._site = view, site
            self.call_of(error, (), ())

    # --- writes -----------------------------------------------------------------------------------------------------

    def store_attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> None:
        self._view, self._site = view, site
        self.sets_attribute(owner, name, removes=site.name == "DELETE_ATTR")

    def store_item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> None:
        self._view, self._site = view, site
        if is_a(key, slice) and not site.name.startswith("DELETE") and is_a(owner, list):
            self.bind_to_process(this_process.of_order(view.at(-4 if site.name == "STORE_SLICE" else -3)))
        self.sets_item(owner, key, removes=site.name.startswith("DELETE"))


_OF_TENSORS: Final = frozenset({"format", "str", "is"})


def _is_callee(function: Any) -> bool:
    """Whether a function is the one by which a script finds out what to call."""
    return is_a(function, types.FunctionType) and (function.__module__, function.__name__) == _CALLEE
