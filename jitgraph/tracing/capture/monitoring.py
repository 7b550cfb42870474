"""Callbacks before each instruction of the frames that a thread records.

On Python 3.11 a frame has such events by itself. Later Pythons share what a trace function asks for among all threads:
on CPython 3.12.1 a frame with ``f_trace_opcodes`` in a thread without a trace function crashes as soon as another
thread has one, and on 3.13 a thread without one, passing through the same code, ends the events of those that have
one. There the events are those of ``sys.monitoring``, under a number of this package's own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.runtime import forks


class Watched:
    """The frames of one recording whose instructions have events, with the callback that gets the offset of each."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}
        self.listeners: dict[FrameType, Callable[[int], None]] = {}

    def follow(self, frame: FrameType, listener: Callable[[int], None]) -> None:
        """Let ``listener`` be told of the instructions of a frame from now on."""
        self.listeners[frame] = listener
        code = frame.f_code
        if id(code) not in self._codes:
            with _lock:
                _users[id(code)] = _users.get(id(code), 0) + 1
                self._codes[id(code)] = code
                _set_events(code)

    def leave(self, frame: FrameType) -> None:
        """The frame returns, or waits for the next value to be asked of it."""
        self.listeners.pop(frame, None)

    def end(self) -> None:
        """Let the code be as it was, unless another recording follows it. Events that stay cost time alone."""
        self.listeners.clear()
        with _lock:
            while self._codes:
                number, code = self._codes.popitem()
                _users[number] -= 1
                if not _users[number]:
                    del _users[number]
                    _set_events(code)


class _ThreadWatch(threading.local):
    """What a thread records."""

    watched: Watched | None = None


OWN: Final = _ThreadWatch()


def run_watched(
    on_call: Callable[[FrameType, str, Any], Any], function: Callable[..., Any], /, *args: Any, **keywords: Any
) -> Any:
    """What ``function`` returns, with ``on_call`` as the trace function and events for the frames that are followed.

    It is no context manager: a signal handler may raise before the first line of an ``__exit__`` in Python, and the
    trace function would stay. ``finally`` leaves no such gap before its first call.
    """
    watched, tracer, outer = Watched(), sys.gettrace(), OWN.watched
    try:
        OWN.watched = watched
        sys.settrace(on_call)
        return function(*args, **keywords)
    finally:
        OWN.watched = outer
        sys.settrace(tracer)
        watched.end()


_lock: Final = forks.lock()
_users: Final[dict[int, int]] = {}  # how many recordings follow the code with that id, which they keep alive

if sys.version_info >= (3, 12):
    _numbers: Final[list[int]] = []  # the one by which Python knows this package's events

    def follow_instructions(frame: FrameType, listener: Callable[[int], None]) -> None:
        """Let ``listener`` be told the offset of each instruction of the frame before it runs."""
        if OWN.watched is not None:
            OWN.watched.follow(frame, listener)

    def leave_instructions(frame: FrameType) -> None:
        """The frame returns, or waits for the next value to be asked of it."""
        if OWN.watched is not None:
            OWN.watched.leave(frame)

    def _set_events(code: CodeType) -> None:
        events = sys.monitoring.events
        sys.monitoring.set_local_events(_number(), code, events.INSTRUCTION if id(code) in _users else events.NO_EVENTS)

    def _number() -> int:
        if not _numbers:
            free = [number for number in (3, 4, 5, 2, 1, 0) if sys.monitoring.get_tool(number) is None]
            if not free:
                raise TraceError(
                    "sys.monitoring has no number left for the events of a recording",
                    hint="end one of the debuggers, profilers and coverage tools that run",
                )
            sys.monitoring.use_tool_id(free[0], "jitgraph")
            sys.monitoring.register_callback(free[0], sys.monitoring.events.INSTRUCTION, _on_instruction)
            _numbers.append(free[0])
        return _numbers[0]

    def _on_instruction(code: CodeType, offset: int) -> Any:
        watched = OWN.watched
        if watched is not None and (listener := watched.listeners.get(sys._getframe(1))) is not None:
            listener(offset)

else:

    def follow_instructions(frame: FrameType, listener: Callable[[int], None]) -> None:
        """Let the frame have events before its instructions, for its trace function."""
        frame.f_trace_opcodes = True

    def leave_instructions(frame: FrameType) -> None:
        """The frame returns: nothing is kept of it."""

    def _set_events(code: CodeType) -> None:
        pass
