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

import _signal  # type: ignore[import-not-found]  # its ``getsignal`` makes no enums, so that it is fast
import enum
import inspect
import signal
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.runtime import collector
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure, known_answers, this_process
from jitgraph.tracing.capture.calls import Calls
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, InstructionSite, follow
from jitgraph.tracing.capture.followed import STAGING, is_followed, is_library_module, original_of
from jitgraph.tracing.capture.handlers import callee
from jitgraph.tracing.capture.kinds import SIMPLE, is_a, may_change
from jitgraph.tracing.capture.layout import cell_of
from jitgraph.tracing.capture.monitoring import run_watched
from jitgraph.tracing.containers import is_container
from jitgraph.tracing.source import Place
from jitgraph.tracing.storage import MISSING, class_entry
from jitgraph.tracing.symbolic.number import EndOfRecording, SymbolicNumber

_CALLEE: Final = ("jitgraph.tracing.script.callees", "callee")
_SIGNALS: Final = tuple(map(int, signal.valid_signals()))


class Capture(Calls):
    """What one trace saw of the functions that it ran by ``call``."""

    def __init__(self, functions: Iterable[Any], known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        """``known`` are objects whose identity is in the key of the specialisation; ``arguments`` are containers whose
        contents are."""
        super().__init__(known, arguments)
        known_answers.require()
        self.replaced_builtins: dict[int, Any] = {}  # by id: the builtins in whose places others stand meanwhile
        self._followed: dict[int, bool | None] = {}  # by the id of code, as the hash of code goes through all of it
        self._codes: list[CodeType] = []  # that stands there
        self._interrupted = False
        self._entered: dict[int, Any] = {}
        self._made: dict[int, Any] = {}  # functions that the function made
        self._cells: dict[int, Any] = {}  # cells of functions that are older than the call
        self._globals: dict[tuple[int, str], Any] = {}
        self._stands_for: dict[int, tuple[Any, Any]] = {}  # what a script calls in place of a function
        self._by_code: dict[CodeType, types.FunctionType] = {}
        for function in functions:  # an object that is called is as fixed as a function
            while function is not None:
                self.settle(function, _name_of(function))
                function = getattr(function, "__dict__", {}).get("__wrapped__")

    def stand_in(self, standing: Any, original: Any) -> None:
        """One object stands among the builtins in the place of another while this or another thread records."""
        self.replaced_builtins[id(standing)] = original
        self.objects.stand_ins[id(original)] = standing

    def call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """What the function returns; meanwhile all that it reads and changes is noted."""
        with collector.PAUSED.inside():
            try:
                return run_watched(self._on_call, function, *args, **keywords)
            finally:
                self._view = self._site = None

    # --- frames -----------------------------------------------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self._interrupted:
            return None
        code = frame.f_code
        followed = self._followed.get(id(code))
        if followed is None:
            self._codes.append(code)
            followed = self._followed[id(code)] = _is_followed(frame)
            if followed and _handles_a_signal(code):
                self._interrupted, self._followed[id(code)] = True, None
                frame.f_trace_lines = False
                return self._until_return
        if not followed:
            return None
        if self._is_run_by_a_fork(frame):
            self._interrupted = True
            frame.f_trace_lines = False
            return self._until_return
        view = Activation(frame, self)
        self._enter(view)
        return follow(frame, view)

    def _until_return(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What the handler of a signal or a hook of forks does is no part of the function that it interrupts."""
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
                return impure.forks(callee(Activation(caller, self)))
            caller = caller.f_back
        return False

    def _enter(self, view: Activation) -> None:
        """A function begins to run, or goes on: one that is older than the call is guarded from here."""
        code = view.frame.f_code
        if not code.co_flags & inspect.CO_NEWLOCALS:
            return
        if code.co_name == "__init__" and code.co_argcount:
            made = view.frame.f_locals.get(code.co_varnames[0])
            if id(made) not in self.steady:
                self.fresh[id(made)] = made
        function = view.function
        if id(function) in self._entered or id(function) in self._made:
            return
        self._entered[id(function)] = function
        self.settle(function, getattr(function, "__name__", "a function"))
        original = self._original(function)
        if is_a(original, types.FunctionType) and not view.in_package:
            self._keep_parts(original)

    def _original(self, function: Any) -> Any:
        """The user's function in place of which a rewritten one runs."""
        found = self._stands_for.get(id(function))
        if found is not None:
            return found[1]
        code = original_of(function.__code__)[0]
        return function if code is function.__code__ else self._by_code.get(code, function)

    def keep_function(self, function: types.FunctionType) -> None:
        original = self._original(function)
        if is_a(original, types.FunctionType) and is_followed(original.__code__.co_filename):
            self._keep_parts(original)

    def _keep_parts(self, function: types.FunctionType) -> None:
        name = self.text_of(function)
        self.keep(Place("attribute", function, "__code__", f"{name}.__code__"), function.__code__)
        for part in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is not None:
                self.keep(Place("attribute", function, part, f"{name}.{part}"), value)
                if is_a(value, dict):
                    self.keep_contents(value, f"{name}.{part}")
                for default in value.values() if is_a(value, dict) else value:
                    self.settle(default, name)

    def settle(self, value: Any, text: str) -> None:
        """As the base class; of a function the variables that it closes over and its globals are steady, too."""
        super().settle(value, text)
        if is_a(value, types.FunctionType) and id(value) not in self._made:
            for cell in value.__closure__ or ():
                self._cells[id(cell)] = cell
            self._by_code.setdefault(value.__code__, value)
            self.steady.setdefault(id(value.__globals__), value.__globals__)
        elif is_a(value, types.MethodType):
            self.settle(value.__self__, text)
            self.settle(value.__func__, text)
        elif is_a(value, staticmethod | classmethod):
            self.settle(value.__func__, text)
        elif is_a(value, enum.EnumMeta) and may_change(value):  # its members may have attributes besides
            for name, member in value.__members__.items():
                self.settle(member, f"{text}.{name}")
        elif is_a(value, property):
            for part in (value.fget, value.fset, value.fdel):
                self.settle(part, text)

    def made(self, view: Activation, value: Any) -> None:
        self._made[id(value)] = value

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
        place = Place("item", names, name, name)
        if name in names:
            self.keep(place, names[name])
            return self.expect(names[name])
        self.keep(place, MISSING)
        known = frame.f_builtins
        value = known.get(name, MISSING)
        value = self.replaced_builtins.get(id(value), value)
        if value is not MISSING:
            self.refuse(value, name)
        self.keep(Place("item", known, name, f"builtins.{name}"), value)
        return None

    def cell(self, view: Activation, site: InstructionSite, mapping: Any) -> Finish | None:
        name = site.value
        if mapping is not None and name in mapping:
            return None
        cell = self._cell(view, name)
        if cell is None:
            return None
        self._view, self._site = view, site
        place = Place("cell", cell, None, name)
        value = place.get_or(MISSING)
        self.keep(place, value)
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
            self.note_write(Place("item", mapping, site.value, site.value), mapping.get(site.value, MISSING))

    def store_cell(self, view: Activation, site: InstructionSite) -> None:
        cell = self._cell(view, site.value)
        if cell is not None:
            self._view, self._site = view, site
            place = Place("cell", cell, None, site.value)
            self.note_write(place, place.get_or(MISSING))

    def imported(self, view: Activation, site: InstructionSite, module: Any) -> None:
        self._view, self._site = view, site
        name = getattr(module, "__name__", None)
        if is_a(module, types.ModuleType) and isinstance(name, str):
            self.settle(module, name)
            if not view.in_package and not is_library_module(name) and sys.modules.get(name) is module:
                self.keep(Place("item", sys.modules, name, f"sys.modules[{name!r}]"), module)

    def all_names(self, view: Activation, site: InstructionSite, module: Any) -> None:
        self._view, self._site = view, site
        if is_a(module, types.ModuleType) and not is_library_module(module.__name__):
            self.settle(vars(module), module.__name__)
            self.keep_contents(vars(module), module.__name__, soft=True)

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
        if self.is_steady(iterator) or may_change(type(iterator)):
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
        found = self._stands_for.get(id(function))
        if found is not None:
            function = found[1]
        if _is_callee(function) and arguments:
            return self._staged(arguments[0])
        if self.numbers is not None:
            self.numbers.passed_to(function, arguments)
        return self.call_of(function, arguments, names)

    def _staged(self, function: Any) -> Finish:
        """A script asks what to call in place of ``function``."""

        if not callable(function) or not is_a(function, (types.FunctionType, types.MethodType, type)):
            self.special(function, "call")

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self._stand_for(after.at(-1), function)

        return finish

    def _stand_for(self, made: Any, function: Any) -> None:
        if made is function:
            return
        self._stands_for[id(made)] = made, function
        inner = getattr(function, "__func__", None)
        if is_a(made, types.MethodType):
            call = inner if inner is not None else class_entry(type(function), "__call__")
            self._stand_for(made.__func__, call)
        elif is_a(made, types.FunctionType) and id(function) in self._made:
            self._made[id(made)] = made

    def call_unpacked(
        self, view: Activation, site: InstructionSite, function: Any, arguments: Any, keywords: Any
    ) -> Finish | None:
        self._view, self._site = view, site
        if not is_a(arguments, tuple):
            self.iteration(arguments)
        elif self.is_steady(arguments):
            self._settle_elements(arguments)
        if not is_a(arguments, tuple | list):
            arguments = ()
        if is_a(keywords, Mapping):
            if is_container(keywords):
                self.keep_contents(keywords)
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
        self.set_item(owner, key, removes=site.name.startswith("DELETE"))


_OF_TENSORS: Final = frozenset({"format", "str", "is"})


def _name_of(function: Any) -> str:
    """What texts call a function; an object goes by its class, also where it is the method that a call of it runs."""
    name = getattr(function, "__name__", type(function).__name__)
    return type(function.__self__).__name__ if name == "__call__" and is_a(function, types.MethodType) else name


def _is_followed(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name == "<module>" and not code.co_filename.startswith("<"):  # no state of the call
        return False
    if not is_followed(code.co_filename):
        return False
    if code.co_filename.startswith("<"):  # code made by dataclass, namedtuple, exec
        name = frame.f_globals.get("__name__", "__main__")
        return not (is_library_module(name) or str(name).startswith("namedtuple_"))
    return True


def _handles_a_signal(code: CodeType) -> bool:
    """Whether code is that of a handler of signals, which runs between any two instructions."""
    return any(getattr(_signal.getsignal(number), "__code__", None) is code for number in _SIGNALS)


def _is_callee(function: Any) -> bool:
    """Whether a function is the one by which a script finds out what to call."""
    return is_a(function, types.FunctionType) and (function.__module__, function.__name__) == _CALLEE
