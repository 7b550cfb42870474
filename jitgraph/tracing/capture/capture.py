"""Capture: notes all Python state that a function reads and changes while it is traced.

A tracer stops before each instruction of the user's code (``events.py``) and reads what it is about to use from the
value stack: owners, keys, callables and arguments are the very objects. Nothing of the user's is run for it:
attributes are looked up by storage (``attributes.py``). Every object is known by its identity (``observations.py``):
guarded steps led to it, or it is a container among the arguments, or the function made it.

The standard library, installed packages and jitgraph itself are not followed, except the modules and optimizers of
``jitgraph.nn`` and ``jitgraph.optim``, which hold state of the user's; what code that is not followed may read is
guarded as a whole (``calls.py``).
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitgraph.runtime.cpython.frames import cell_of
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import this_process
from jitgraph.tracing.capture.attributes import Attributes
from jitgraph.tracing.capture.builtin_functions import BuiltinFunctions
from jitgraph.tracing.capture.calls import Calls
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, InstructionSite, Sink
from jitgraph.tracing.capture.followed import CALL_LOOKUPS, PACKAGE, STAGING, is_library_module
from jitgraph.tracing.capture.frames import FrameFollower
from jitgraph.tracing.capture.guard_collection import GuardCollection
from jitgraph.tracing.capture.items import Items, Operators
from jitgraph.tracing.capture.kinds import SIMPLE, is_a, may_change
from jitgraph.tracing.capture.object_guards import ObjectGuards
from jitgraph.tracing.capture.observations import ObjectEntry, Observations
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.guards.guard import Assumption
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MISSING, is_container
from jitgraph.tracing.symbolic.number import EndOfRecording, SymbolicNumber
from jitgraph.tracing.symbolic.numbers import refuse_staged

if TYPE_CHECKING:
    from jitgraph.tracing.symbolic.numbers import Numbers


class Capture(Sink):
    """What one trace saw of the functions that it ran by ``call``: takes in the events and asks the rules.

    Invariant: before a rule is asked, the position is that of the event. The rules are built here, each on those that
    it uses; what they saw is in ``position``, ``limits``, ``identities``, ``effects`` and ``reads``.
    """

    def __init__(self, functions: Iterable[Any], known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        """``known`` are objects whose identity is in the key of the specialisation; ``arguments`` are containers whose
        contents are."""
        self._seen = seen = Observations(known, arguments)
        self._position, self.limits, self.identities = seen.position, seen.limits, seen.identities
        self.effects, self.reads, self.objects = seen.effects, seen.reads, seen.objects
        guards = ObjectGuards(seen)
        self._containers, self._functions = guards.containers, guards.functions
        self._whole, self._special = guards.whole, guards.special
        self._items = items = Items(seen, guards)
        self._writes = writes = Writes(seen, guards)
        self._attributes = attributes = Attributes(seen, guards, items, self._call_of_getter)
        self._operators = operators = Operators(seen, guards, items, writes)
        self._builtins = builtins = BuiltinFunctions(seen, guards, items, writes, attributes, operators)
        self._calls = Calls(seen, guards, items, writes, attributes, operators, builtins)
        self._frames = FrameFollower(self, seen.position, guards.functions)
        self._collection = GuardCollection(seen)
        self._globals: set[tuple[ObjectEntry, str]] = set()  # namespaces and the names that were read in them
        for function in functions:  # an object that is called is as fixed as a function
            while function is not None:
                self.reads.reach(function, _name_of(function))
                function = getattr(function, "__dict__", {}).get("__wrapped__")

    def _call_of_getter(self, function: Any, arguments: Sequence[Any], names: Sequence[str]) -> Finish | None:
        return self._calls.call(function, arguments, names)

    def stand_in(self, standing: Any, original: Any) -> None:
        """One object stands among the builtins in the place of another while this or another thread records."""
        self.identities.entry(standing).replaces = original
        self.objects.stand_ins[id(original)] = standing

    def tell(self, numbers: Numbers) -> None:
        """``numbers`` are those of the trace: they are told what is compared and what calls are passed."""
        self._seen.numbers = numbers

    def call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """What the function returns; meanwhile all that it reads and changes is noted."""
        if is_a(function, functools.partial):
            self._whole.guard_partial(function)
        return self._frames.run(function, *args, **keywords)

    def assumptions(self, lifted: Collection[int] = ()) -> list[Assumption]:
        """What must be true of what was read, so that the recording serves another call."""
        return self._collection.assumptions(lifted)

    # --- names ------------------------------------------------------------------------------------------------------

    def global_(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        name, frame = site.value, view.frame
        names = frame.f_globals
        if mapping is not None and mapping is not names and name in mapping:
            if not self.identities.is_guarded(mapping) or not is_a(mapping, dict):
                return None
            self._position.move(view, site)
            return self._items.read(mapping, name)
        if view.in_package:
            return None
        entry = self.identities.known(names)
        if entry is None or not entry.guarded or (entry, name) in self._globals:
            return None
        self._position.move(view, site)
        self._globals.add((entry, name))
        slot = Slot("item", names, name, name)
        if name in names:
            self.reads.record(slot, names[name])
            return self.limits.expect(names[name])
        self.reads.record(slot, MISSING)
        known = frame.f_builtins
        value = known.get(name, MISSING)
        replacement = self.identities.known(value)
        if replacement is not None and replacement.replaces is not MISSING:
            value = replacement.replaces
        if value is not MISSING:
            self.reads.refuse(value, name)
        self.reads.record(Slot("item", known, name, f"builtins.{name}"), value)
        return None

    def cell(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        name = site.value
        if mapping is not None and name in mapping:
            return None
        cell = self._cell(view, name)
        if cell is None:
            return None
        self._position.move(view, site)
        slot = Slot("cell", cell, None, name)
        value = slot.get_or(MISSING)
        self.reads.record(slot, value)
        return None if value is MISSING else self.limits.expect(value)

    def _cell(self, view: Activation, name: str) -> Any:
        """The cell of a variable where it is older than the call."""
        if name == STAGING or name not in view.frame.f_code.co_freevars:
            return None
        cell = cell_of(view.function, name)
        entry = self.identities.known(cell)
        return cell if entry is not None and entry.older_cell else None

    def store_global(self, view: Activation, site: InstructionSite, mapping: Any) -> None:
        if self.identities.is_guarded(mapping) and is_a(mapping, dict):
            self._position.move(view, site)
            self.effects.record_write(Slot("item", mapping, site.value, site.value), mapping.get(site.value, MISSING))

    def store_cell(self, view: Activation, site: InstructionSite) -> None:
        cell = self._cell(view, site.value)
        if cell is not None:
            self._position.move(view, site)
            slot = Slot("cell", cell, None, site.value)
            self.effects.record_write(slot, slot.get_or(MISSING))

    def imported(self, view: Activation, site: InstructionSite, module: Any) -> None:
        self._position.move(view, site)
        name = getattr(module, "__name__", None)
        if is_a(module, types.ModuleType) and isinstance(name, str):
            self.reads.reach(module, name)
            if not view.in_package and not is_library_module(name) and sys.modules.get(name) is module:
                self.reads.record(Slot("item", sys.modules, name, f"sys.modules[{name!r}]"), module)

    def all_names(self, view: Activation, site: InstructionSite, module: Any) -> None:
        self._position.move(view, site)
        if is_a(module, types.ModuleType) and not is_library_module(module.__name__):
            self.reads.reach(vars(module), module.__name__)
            self._containers.guard_contents(vars(module), module.__name__, soft=True)

    # --- attributes and items ---------------------------------------------------------------------------------------

    def attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> Finish | None:
        if type(owner) in SIMPLE:
            return None
        self._position.move(view, site)
        return self._attributes.look_up(owner, name)

    def inherited(self, view: Activation, site: InstructionSite, kind: Any, owner: Any, name: str) -> Finish | None:
        self._position.move(view, site)
        return self._attributes.inherit(kind, owner, name)

    def item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> Finish | None:
        if type(owner) in SIMPLE or is_a(owner, Tensor):
            return None
        self._position.move(view, site)
        return self._items.read(owner, key)

    def iterate(self, view: Activation, site: InstructionSite, owner: Any) -> None:
        if type(owner) not in SIMPLE and not is_a(owner, Tensor):
            self._position.move(view, site)
            self._items.iterate(owner)

    def advance(self, view: Activation, site: InstructionSite, iterator: Any) -> None:
        if self.identities.is_reachable(iterator) or may_change(type(iterator)):
            self._position.move(view, site)
            self._items.advance(iterator)

    # --- operators --------------------------------------------------------------------------------------------------

    def operate(self, view: Activation, site: InstructionSite, operation: str, operands: Sequence[Any]) -> None:
        for operand in operands:
            if type(operand) not in SIMPLE and (type(operand) is not Tensor or operation in _OF_TENSORS):
                self._position.move(view, site)
                self._operators.apply(operation, operands)
                return
            if type(operand) is SymbolicNumber and operation == "is":
                self._position.move(view, site)
                self._operators.compare_identity(operands)
                return

    def function_created(self, view: Activation, value: Any) -> None:
        self.identities.mark_defined(value)

    def answers(self, view: Activation, value: Any) -> None:
        if type(value) is SymbolicNumber and value.is_live:  # what asked would raise a TypeError, which may be caught
            value.refuse(f"{{}} as the result of {view.frame.f_code.co_name}")
            raise EndOfRecording

    # --- patterns ---------------------------------------------------------------------------------------------------

    def match_class(
        self, view: Activation, site: InstructionSite, subject: Any, kind: Any, names: Sequence[str]
    ) -> Finish | None:
        self._position.move(view, site)
        if not is_a(kind, type):
            return None
        finish = self._builtins.is_instance(subject, kind)
        positional: Sequence[str] = ()
        if site.argument:
            self._attributes.look_up(kind, "__match_args__")
            positional = getattr(kind, "__match_args__", ())[: site.argument]
        for name in (*positional, *names):
            self._attributes.look_up(subject, name)
        return finish

    def match_keys(self, view: Activation, site: InstructionSite, subject: Any, keys: Any) -> None:
        self._position.move(view, site)
        for key in keys:
            self._items.read(subject, key, plainly=True)

    # --- calls ------------------------------------------------------------------------------------------------------

    def called(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Sequence[Any], names: Sequence[str]
    ) -> Finish | None:
        self._position.move(view, site)
        entry = self.identities.known(function)
        if entry is not None and entry.rewritten_from is not MISSING:
            function = entry.rewritten_from
        if _is_call_lookup(function) and arguments:
            return self._staged(arguments[0])
        if (numbers := self._seen.numbers) is not None:
            if function is not type or not view.frame.f_code.co_filename.startswith(PACKAGE):  # which knows their type
                numbers.passed_to(function, arguments)
            if numbers.trace.has_staged:
                refuse_staged(function, arguments)
        return self._calls.call(function, arguments, names)

    def _staged(self, function: Any) -> Finish:
        """A script asks what to call in place of ``function``."""

        if not callable(function) or not is_a(function, (types.FunctionType, types.MethodType, type)):
            self._special.guard(function, "call")

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self._functions.stand_for(after.at(-1), function)

        return finish

    def call_unpacked(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Any, keywords: Any
    ) -> Finish | None:
        self._position.move(view, site)
        if not is_a(arguments, tuple):
            self._items.iterate(arguments)
        elif self.identities.is_reachable(arguments):
            self._items.reach_elements(arguments)
        if not is_a(arguments, tuple | list):
            arguments = ()
        if is_a(keywords, Mapping):
            if is_container(keywords):
                self._containers.guard_contents(keywords)
            return self.called(view, site, function, (*arguments, *keywords.values()), tuple(keywords))
        return self.called(view, site, function, arguments, ())

    def raised(self, view: Activation, site: InstructionSite, error: Any) -> None:
        if is_a(error, type) and may_change(error):
            self._position.move(view, site)
            self._calls.call(error, (), ())

    # --- writes -----------------------------------------------------------------------------------------------------

    def store_attribute(self, view: Activation, site: InstructionSite, owner: Any, name: str) -> None:
        self._position.move(view, site)
        self._writes.sets_attribute(owner, name, removes=site.name == "DELETE_ATTR")

    def store_item(self, view: Activation, site: InstructionSite, owner: Any, key: Any) -> None:
        self._position.move(view, site)
        if is_a(key, slice) and not site.name.startswith("DELETE") and is_a(owner, list):
            self.limits.bind_to_process(this_process.of_order(view.at(-4 if site.name == "STORE_SLICE" else -3)))
        self._writes.sets_item(owner, key, removes=site.name.startswith("DELETE"))


_OF_TENSORS: Final = frozenset({"format", "str", "is"})


def _is_call_lookup(function: Any) -> bool:
    """Whether a function is one by which rewritten code finds out what to call."""
    return any(function is lookup for lookup in CALL_LOOKUPS)


def _name_of(function: Any) -> str:
    """What texts call a function; an object goes by its class, also where it is the method that a call of it runs."""
    name = getattr(function, "__name__", type(function).__name__)
    return type(function.__self__).__name__ if name == "__call__" and is_a(function, types.MethodType) else name
