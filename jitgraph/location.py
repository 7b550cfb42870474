"""Where in the user's code something happened."""

from __future__ import annotations

import os
import sys
from types import FrameType

from jitgraph.records import dataclass

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's code; prints as ``file:line`` with the path relative to the working directory."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{_relative(self.file)}:{self.line}"

    @staticmethod
    def of_user() -> Location | None:
        """The innermost frame on the stack that is not jitgraph's own, or None where there is none."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(_PACKAGE) and not file.startswith("<"):
                return Location(file, frame.f_lineno)
            frame = frame.f_back
        return None


def _relative(file: str) -> str:
    try:
        path = os.path.relpath(file)
    except ValueError:  # another drive
        return os.path.basename(file)
    return os.path.basename(file) if path.startswith(os.pardir) else path
