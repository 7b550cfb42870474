"""Events before the instructions of the code that a thread records.

On Python 3.11 a frame has them by itself. Later Pythons share what a trace function asks for among all threads: on
CPython 3.12.1 a frame with ``f_trace_opcodes`` in a thread without a trace function crashes as soon as another thread
has one, and on 3.13 a thread without one, passing through the same code, ends the events of those that have one. There
the events are those of ``sys.monitoring``, under a number of this package's own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.runtime import forks

Listener = Callable[[FrameType, int], None]
"""Called with a frame and the offset of the instruction that it is about to run."""


class _Own(threading.local):
    """Who listens to the instructions that a thread runs."""

    listener: Listener | None = None


OWN: Final = _Own()


class Instructions:
    """The code of one recording that has events; it shares them with recordings of other threads."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}

    def follow(self, frame: FrameType) -> None:
        """Let the instructions of a frame have events from now on."""
        if sys.version_info < (3, 12):
            frame.f_trace_opcodes = True
            return
        code = frame.f_code
        if id(code) not in self._codes:
            with _lock:
                _users[id(code)] = _users.get(id(code), 0) + 1
                self._codes[id(code)] = code
                _set_events(code)

    def end(self) -> None:
        """Let the code be as it was, unless another recording follows it. Events that stay cost time alone."""
        with _lock:
            while self._codes:
                number, code = self._codes.popitem()
                _users[number] -= 1
                if not _users[number]:
                    del _users[number]
                    _set_events(code)


_lock: Final = forks.lock()
_users: Final[dict[int, int]] = {}  # how many recordings follow the code with that id, which they keep alive

if sys.version_info >= (3, 12):
    _numbers: Final[list[int]] = []  # the one by which Python knows this package's events

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
        listener = OWN.listener
        if listener is not None:
            listener(sys._getframe(1), offset)

else:

    def _set_events(code: CodeType) -> None:
        pass
