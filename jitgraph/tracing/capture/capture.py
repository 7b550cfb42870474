"""Capture: notes all Python state that a function reads and changes while it is traced, in the frames that it
follows.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its ``getsignal`` makes no enums, so that it is fast
import functools
import signal
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import _bootstrap, _bootstrap_external
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph.own_code import PACKAGE
from jitgraph.runtime import shared
from jitgraph.runtime.cpython.frames import cell_of
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import handlers, impure
from jitgraph.tracing.capture.attributes import Attributes
from jitgraph.tracing.capture.calls import BuiltinFunctions, Calls
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, InstructionSite, Sink, follow, run_watched
from jitgraph.tracing.capture.handlers import callee
from jitgraph.tracing.capture.items import Items, Operators
from jitgraph.tracing.capture.kinds import (
    CALL_LOOKUPS,
    SIMPLE,
    STAGING,
    is_a,
    is_followed,
    is_library_module,
    may_change,
)
from jitgraph.tracing.capture.object_guards import FunctionGuards, ObjectGuards
from jitgraph.tracing.capture.observations import (
    FirstRead,
    ObjectEntry,
    Observations,
    Position,
    UsedContainer,
    changed_unseen,
    is_plain,
)
from jitgraph.tracing.capture.writes import Writes
from jitgraph.tracing.guards.guard import Absent, Assumption, HasContents, Predicate
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MAX_BYTES, MISSING, contents_of, is_container, same_extent
from jitgraph.tracing.symbolic.number import EndOfRecording, SymbolicNumber
from jitgraph.tracing.symbolic.numbers import refuse_staged

if TYPE_CHECKING:
    from jitgraph.tracing.symbolic.numbers import Numbers

# ----------------------------------------------------------------------
# The frames that run while a trace records: which of them are followed, and where following stops.

_FINDS: Final[tuple[CodeType, ...]] = (  # the code of ``import`` that asks finders
    _bootstrap._find_spec.__code__,  # type: ignore[attr-defined]
    _bootstrap_external.PathFinder._get_spec.__func__.__code__,  # type: ignore[attr-defined]
)
_SIGNALS: Final = tuple(map(int, signal.valid_signals()))


class FrameFollower:
    """Runs a function and follows the frames of the user's functions that it calls.

    Invariant: the sink is told of each instruction of the frames that are followed, and of no other: not of handlers of
    signals, hooks of forks, finders of modules and what the code of a module runs, which are no part of the function.
    """

    def __init__(self, sink: Sink, position: Position, functions: FunctionGuards) -> None:
        handlers.require()
        self._sink = sink
        self._position = position
        self._functions = functions
        self._known: dict[int, tuple[CodeType, bool]] = {}  # by the id of code, whose hash goes through all of it
        self._interrupted = False

    def run(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """What the function returns; meanwhile all that it reads and changes is noted."""
        with shared.PAUSED.inside():
            try:
                return run_watched(self._on_call, function, *args, **keywords)
            finally:
                self._position.move(None, None)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._interrupted:
            return None
        code = frame.f_code
        known = self._known.get(id(code))
        if known is None:
            followed = _is_followed(frame)
            # A signal has another handler, perhaps, when this code runs again; a module runs once.
            if _is_module(code) or (followed and _handles_a_signal(code)):
                return self._interrupt(frame)
            known = self._known[id(code)] = code, followed
        if not known[1]:
            return None
        if _finds_a_module(frame) or self._is_run_by_a_fork(frame):
            return self._interrupt(frame)
        view = Activation(frame, self._sink)
        self._functions.enter(view)
        return follow(frame, view)

    def _interrupt(self, frame: FrameType) -> Any:
        """Follow nothing until the frame returns."""
        self._interrupted = True
        frame.f_trace_lines = False
        return self._until_return

    def _until_return(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What handlers of signals, hooks of forks, finders and modules themselves run is no part of the function."""
        if event == "return":
            self._interrupted = False
        return self._until_return

    def _is_run_by_a_fork(self, frame: FrameType) -> bool:
        """Whether what runs is a hook of ``os.register_at_fork``: the nearest caller that is followed, or is code of a
        library that names a fork, waits for a call that forks."""
        caller = frame.f_back
        while caller is not None and caller.f_code is not run_watched.__code__:
            code = caller.f_code
            if is_followed(code.co_filename) or not impure.FORKS.isdisjoint(code.co_names):
                return impure.forks(callee(Activation(caller, self._sink)))
            caller = caller.f_back
        return False


def _is_followed(frame: FrameType) -> bool:
    code = frame.f_code
    if not is_followed(code.co_filename):
        return False
    if code.co_filename.startswith("<"):  # code made by dataclass, namedtuple, exec
        name = frame.f_globals.get("__name__", "__main__")
        return not (is_library_module(name) or str(name).startswith("namedtuple_"))
    return True


def _is_module(code: CodeType) -> bool:
    """Whether code is that of a module's file, which an ``import`` runs once in a process: no state of the call."""
    return code.co_name == "<module>" and not code.co_filename.startswith("<")


def _finds_a_module(frame: FrameType) -> bool:
    """Whether an ``import`` asks a finder, of ``sys.meta_path`` or of a path, that is written in Python."""
    caller = frame.f_back
    return caller is not None and any(caller.f_code is code for code in _FINDS)


def _handles_a_signal(code: CodeType) -> bool:
    """Whether code is that of a handler of signals, which runs between any two instructions."""
    return any(getattr(_signal.getsignal(number), "__code__", None) is code for number in _SIGNALS)


# ----------------------------------------------------------------------
# At the end of a trace: what must be true of what was read, so that the recording serves another call.


class GuardCollection:
    """Turns what was read and written into assumptions.

    Invariant: what was read is assumed, or the function wrote there, or it is an input, or a reason why the recording
    serves one call alone says so.
    """

    def __init__(self, seen: Observations) -> None:
        self._limits = seen.limits
        self._identities = seen.identities
        self._effects = seen.effects
        self._reads = seen.reads
        self._objects = seen.objects

    def assumptions(self, lifted: Collection[int] = ()) -> list[Assumption]:
        """What must be true of what was read; TraceError where the function changed it in a way not seen.

        ``lifted`` are the ids of arrays that are inputs. Elements that Python or NumPy used are guarded where they are
        few.
        """
        assumptions: list[Assumption] = []
        hard = [used.container for used in self._reads.contents if not used.soft]
        whole = {id(owner) for container in hard for owner in (container, self._identities.owner_of(container))}
        for location, read in self._reads.by_location():
            rebound = location in self._effects.writes  # perhaps to what follows of the value that was read
            if rebound or not self._reads.is_released(location, read):
                # of an owner that is guarded as a whole ``changes`` sees what was done
                owner = read.slot.owner
                changed = rebound or id(owner) in whole or self._identities.is_mutated(owner)
                assumptions += self._of_read(read, changed, lifted)
        assumptions += self._of_writes()
        for slot, handle in self._reads.tensors:
            if self._identities.entry(handle).identity_used:
                first = self._reads.first(slot)
                assert first is not None
                assumptions.append(Assumption(slot, self._objects.same(handle), first.location))
        for used in (*self._reads.contents, *self._reads.extents):
            assumptions += self._of_contents(used)
        return [*assumptions, *self._reads.of_arguments()]

    def _of_read(self, read: FirstRead, written: bool, lifted: Collection[int]) -> Iterator[Assumption]:
        slot, value, location = read.slot, read.value, read.location
        if type(value) is SymbolicNumber:  # read again at each call
            if not written and slot.get_or(None) is not value:
                raise changed_unseen(slot.text, location)
            return
        predicate = Absent() if value is MISSING else self._objects.value(value)
        assumption = Assumption(slot.as_own, predicate, location)
        if issubclass(type(value), np.ndarray) and (
            id(value) not in lifted or self._identities.is_read_by_numpy(value)
        ):
            if value.dtype.hasobject:
                self._limits.cannot_guard(f"the objects in the array {slot.text}", location)
            elif value.nbytes <= MAX_BYTES:
                yield assumption._replace(predicate=HasContents.of(value))
            else:
                what = f"the {value.nbytes} bytes of the array {slot.text}, used by NumPy"
                self._limits.cannot_guard(what, location)
        if written or assumption.holds(self._objects.values):
            yield assumption
        elif not read.soft:
            raise changed_unseen(slot.text, location)
        else:
            self._limits.cannot_guard(f"what library code keeps in {slot.text}", location)

    def _of_writes(self) -> Iterator[Assumption]:
        """What a write that leaves things as they were, or deletes, needs of the place."""
        for write in self._effects.writes.values():
            slot, after = write.target, write.target.own_value()
            if after is write.before and not is_plain(after) and not self._identities.is_own(slot.owner):
                predicate: Predicate = Absent() if after is MISSING else self._objects.same(after)
                yield Assumption(slot.as_own, predicate, write.location)
            elif after is MISSING and self._reads.first(slot) is None and slot.storage is not None:
                kind = self._objects.kind(type(write.before))  # it is deleted, which another call cannot do without it
                yield Assumption(slot.as_own, kind, write.location)

    def _of_contents(self, used: UsedContainer) -> Iterator[Assumption]:
        container, before = used.container, used.before
        soft = used.soft and not self._identities.is_mutated(container)
        if soft and not same_extent(self._effects.without_added(container), before):
            self._limits.cannot_guard(f"what library code keeps in {used.text}", used.location)
            return
        slot = Slot("object", container, None, used.text)
        is_set = is_a(container, set | frozenset)
        if ordered := is_set and not self._identities.is_mutated(container):
            before = contents_of(container)  # a copy may give its members in another order
            # where members hash otherwise in each process, a trace that needs their order is not stored
            ordered = bool(self._limits.bound) or not impure.of_order(before, 0)
        yield Assumption(slot, self._objects.extent(before, container, ordered=ordered), used.location)
        if used.by_identity:
            yield Assumption(slot, self._objects.elements(before, container), used.location)


def _names_of_import(name: str, package: Any) -> Iterator[str]:
    """The names of modules that an import of ``name`` in a package may give."""
    yield name
    yield name.partition(".")[0]
    while isinstance(package, str) and package:
        yield f"{package}.{name}" if name else package
        package = package.rpartition(".")[0]


# ----------------------------------------------------------------------
# Capture: notes all Python state that a function reads and changes while it is traced.
#
# A tracer stops before each instruction of the user's code (``events.py``) and reads what it is about to use from the
# value stack: owners, keys, callables and arguments are the very objects. Nothing of the user's is run for it:
# attributes are looked up by storage (``attributes.py``). Every object is known by its identity (``observations.py``):
# guarded steps led to it, or it is a container among the arguments, or the function made it.
#
# The standard library, installed packages and jitgraph itself are not followed, except the modules and optimizers of
# ``jitgraph.nn`` and ``jitgraph.optim``, which hold state of the user's; what code that is not followed may read is
# guarded as a whole (``calls.py``).


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
        value = self.identities.original_of(known.get(name, MISSING))
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
        own = getattr(module, "__name__", None) if is_a(module, types.ModuleType) else None
        if isinstance(own, str):
            self.reads.reach(module, own)
        if view.in_package or (isinstance(own, str) and is_library_module(own)):
            return
        # any object may stand there for a module, and a module under another name than its own
        names = (own, *_names_of_import(site.value, view.frame.f_globals.get("__package__")))
        name = next((name for name in names if isinstance(name, str) and sys.modules.get(name) is module), None)
        if name is not None:
            self.reads.record(Slot("item", sys.modules, name, f"sys.modules[{name!r}]"), module)
        elif own is None:
            self.limits.cannot_guard(f"what the import of {site.value} gives")

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
        entry, called = self.identities.known(function), function
        if entry is not None and entry.rewritten_from is not MISSING:
            function = entry.rewritten_from
        if _is_call_lookup(function) and arguments:
            return self._staged(arguments[0])
        if (numbers := self._seen.numbers) is not None:
            if function is not type or not view.frame.f_code.co_filename.startswith(PACKAGE):  # which knows their type
                numbers.passed_to(function, arguments)
            if numbers.trace.has_staged:
                refuse_staged(function, called, arguments)
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
            self.limits.bind_to_process(impure.of_order(view.at(-4 if site.name == "STORE_SLICE" else -3)))
        self._writes.sets_item(owner, key, removes=site.name.startswith("DELETE"))


_OF_TENSORS: Final = frozenset({"format", "str", "is"})


def _is_call_lookup(function: Any) -> bool:
    """Whether a function is one by which rewritten code finds out what to call."""
    return any(function is lookup for lookup in CALL_LOOKUPS)


def _name_of(function: Any) -> str:
    """What texts call a function; an object goes by its class, also where it is the method that a call of it runs."""
    name = getattr(function, "__name__", type(function).__name__)
    return type(function.__self__).__name__ if name == "__call__" and is_a(function, types.MethodType) else name
