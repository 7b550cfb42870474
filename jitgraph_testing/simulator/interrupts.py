"""Ctrl-C while the simulator works inside of native code: it is held, and raised when Python runs again.

An exception cannot leave a function that native code calls, so Python would print it and go on. The first Ctrl-C waits
for the work at hand, the second ends it: what it was to write is then lost, as after a kernel that failed. Python runs
handlers at the first step of any function, before its ``try``, so the handler looks whose step that is.
"""

from __future__ import annotations

import signal
import threading
from types import CodeType, FrameType
from typing import Final


class Interrupts:
    """What has come so far: ``pending`` until the main thread takes it, whose it is."""

    def __init__(self) -> None:
        self.pending = False
        self._inside: set[CodeType] = set()

    def hold_inside(self, code: CodeType) -> None:
        """Let a Ctrl-C wait while a function of this code runs, where Python's own handler stood so far."""
        self._inside.add(code)
        if _is_main() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)

    @property
    def is_told(self) -> bool:
        """Whether the calling thread is to be told of one."""
        return self.pending and _is_main()

    def taken(self) -> bool:
        """Whether the calling thread is to be told of one, which is gone then."""
        interrupted = self.is_told
        if interrupted:
            self.pending = False
        return interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code not in self._inside:
            frame = frame.f_back
        if frame is None or self.pending:
            raise KeyboardInterrupt
        self.pending = True


INTERRUPTS: Final = Interrupts()
"""The one of this process, as its handler is."""


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
