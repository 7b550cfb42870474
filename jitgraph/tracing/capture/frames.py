"""The frames that run while a trace records: which of them are followed, and where following stops."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its ``getsignal`` makes no enums, so that it is fast
import signal
from collections.abc import Callable
from importlib import _bootstrap, _bootstrap_external
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.runtime import shared
from jitgraph.tracing.capture import handlers, impure
from jitgraph.tracing.capture.events import Activation, Sink, follow, run_watched
from jitgraph.tracing.capture.followed import is_followed, is_library_module
from jitgraph.tracing.capture.handlers import callee
from jitgraph.tracing.capture.object_guards import FunctionGuards
from jitgraph.tracing.capture.observations import Position

_FINDS: Final[tuple[CodeType, ...]] = (  # the code of ``import`` that asks finders
    _bootstrap._find_spec.__code__,  # type: ignore[attr-defined]
    _bootstrap_external.PathFinder._get_spec.__func__.__code__,  # type: ignore[attr-defined]
)
_SIGNALS: Final = tuple(map(int, signal.valid_signals()))


class FrameFollower:
    """Runs a function and follows the frames of the user's functions that it calls.

    Invariant: the sink is told of each instruction of the frames that are followed, and of no other: not of handlers of
    signals, hooks of forks and finders of modules, which are no part of the function.
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
            if followed and _handles_a_signal(code):  # no longer, perhaps, when it runs again
                self._interrupted = True
                frame.f_trace_lines = False
                return self._until_return
            known = self._known[id(code)] = code, followed
        if not known[1]:
            return None
        if _finds_a_module(frame) or self._is_run_by_a_fork(frame):
            self._interrupted = True
            frame.f_trace_lines = False
            return self._until_return
        view = Activation(frame, self._sink)
        self._functions.enter(view)
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
                return impure.forks(callee(Activation(caller, self._sink)))
            caller = caller.f_back
        return False


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
