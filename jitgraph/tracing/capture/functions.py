"""The functions that run while a trace records: which are followed, and what of them is older than the call."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its ``getsignal`` makes no enums, so that it is fast
import enum
import functools
import inspect
import signal
import types
from collections.abc import Callable, Iterable
from importlib import _bootstrap, _bootstrap_external
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.runtime import collector
from jitgraph.tracing.capture import impure, known_answers
from jitgraph.tracing.capture.calls import Calls
from jitgraph.tracing.capture.events import Activation, follow
from jitgraph.tracing.capture.followed import is_followed, is_library_module, original_of
from jitgraph.tracing.capture.handlers import callee
from jitgraph.tracing.capture.kinds import is_a, may_change
from jitgraph.tracing.capture.monitoring import run_watched
from jitgraph.tracing.capture.sink import Sink
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import class_entry

_FINDS: Final[tuple[CodeType, ...]] = (  # the code of ``import`` that asks finders
    _bootstrap._find_spec.__code__,  # type: ignore[attr-defined]
    _bootstrap_external.PathFinder._get_spec.__func__.__code__,  # type: ignore[attr-defined]
)
_SIGNALS: Final = tuple(map(int, signal.valid_signals()))


class Functions(Calls, Sink):
    """Runs a function and follows the user's functions that it calls."""

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
        if is_a(function, functools.partial):
            self.guard_partial(function)
        with collector.PAUSED.inside():
            try:
                return run_watched(self._on_call, function, *args, **keywords)
            finally:
                self._view = self._site = None

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
        if _finds_a_module(frame) or self._is_run_by_a_fork(frame):
            self._interrupted = True
            frame.f_trace_lines = False
            return self._until_return
        view = Activation(frame, self)
        self._enter(view)
        return follow(frame, view)

    def _until_return(self, frame: FrameType, event: str, arg: Any) -> Any:
        """What the handler of a signal, a hook of forks or a finder of modules does is no part of the function."""
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
            instance = view.frame.f_locals.get(code.co_varnames[0])
            if id(instance) not in self.steady:
                self.fresh[id(instance)] = instance
        function = view.function
        if id(function) in self._entered or id(function) in self._made:
            return
        self._entered[id(function)] = function
        self.settle(function, getattr(function, "__name__", "a function"))
        original = self._original(function)
        if is_a(original, types.FunctionType) and not view.in_package:
            self._guard_components(original)

    def _original(self, function: Any) -> Any:
        """The user's function in place of which a rewritten one runs."""
        rewriting = self._stands_for.get(id(function))
        if rewriting is not None:
            return rewriting[1]
        code = original_of(function.__code__)[0]
        return function if code is function.__code__ else self._by_code.get(code, function)

    def guard_function(self, function: types.FunctionType) -> None:
        original = self._original(function)
        if is_a(original, types.FunctionType) and is_followed(original.__code__.co_filename):
            self._guard_components(original)

    def _guard_components(self, function: types.FunctionType) -> None:
        name = self.text_of(function)
        self.record_read(Slot("attribute", function, "__code__", f"{name}.__code__"), function.__code__)
        for part in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is not None:
                self.record_read(Slot("attribute", function, part, f"{name}.{part}"), value)
                if is_a(value, dict):
                    self.guard_contents(value, f"{name}.{part}")
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

    def function_created(self, view: Activation, value: Any) -> None:
        self._made[id(value)] = value

    def _stand_for(self, rewritten: Any, function: Any) -> None:
        if rewritten is function:
            return
        self._stands_for[id(rewritten)] = rewritten, function
        inner = getattr(function, "__func__", None)
        if is_a(rewritten, types.MethodType):
            call = inner if inner is not None else class_entry(type(function), "__call__")
            self._stand_for(rewritten.__func__, call)
        elif is_a(rewritten, types.FunctionType) and id(function) in self._made:
            self._made[id(rewritten)] = rewritten


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


def _finds_a_module(frame: FrameType) -> bool:
    """Whether an ``import`` asks a finder, of ``sys.meta_path`` or of a path, that is written in Python."""
    caller = frame.f_back
    return caller is not None and any(caller.f_code is code for code in _FINDS)


def _handles_a_signal(code: CodeType) -> bool:
    """Whether code is that of a handler of signals, which runs between any two instructions."""
    return any(getattr(_signal.getsignal(number), "__code__", None) is code for number in _SIGNALS)
