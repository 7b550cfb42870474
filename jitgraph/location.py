"""Where in the user's code something happened."""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from dataclasses import field
from types import CodeType, FrameType, TracebackType
from typing import Final, TypeAlias

from jitgraph.own_code import OWN
from jitgraph.records import dataclass

_LIBRARY: Final = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def _is_users(file: str) -> bool:
    """Whether code of this file is neither jitgraph's nor of the libraries through which it is called."""
    if file.startswith("<") or OWN.have(file):
        return False
    numpy = sys.modules.get("numpy")  # which is not imported for this: commands that print help need none
    if numpy is not None and file.startswith(os.path.dirname(os.path.abspath(str(numpy.__file__))) + os.sep):
        return False
    return not file.startswith(_LIBRARY) or file.startswith(("site-packages", "dist-packages"), len(_LIBRARY))


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's code; prints as ``file:line`` with the path relative to the working directory."""

    file: str
    line: int
    modules: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Of an op in a trace the modules in whose calls it stands: a class, and names of submodules inside of it."""

    def __str__(self) -> str:
        return f"{_relative(self.file)}:{self.line}"

    @staticmethod
    def of_user() -> Location | None:
        """The innermost frame on the stack that is the user's, or None where there is none."""
        return located(user_location())


Place: TypeAlias = "tuple[CodeType, int] | None"
"""A piece of code and an instruction in it: a location that costs next to nothing where nobody asks for the line."""


def user_location() -> Place:
    """Where the innermost frame on the stack that is the user's stands, or None where there is none."""
    return location_of_frame(sys._getframe(1))


def raised_at(error: BaseException) -> TracebackType | None:
    """The end of an error's traceback, where it was raised; None where it has none."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def location_of_frame(frame: FrameType | None) -> Place:
    """Where the innermost frame of the user's stands among this one and its callers, or None where there is none."""
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        users = _KNOWN_FILES.get(file)
        if users is None:
            users = _KNOWN_FILES[file] = _is_users(file)
        if users:
            return code, frame.f_lasti
        frame = frame.f_back
    return None


MODULE_CALLS: Final[dict[int, CodeType]] = {}
"""The code by which modules are called, of which ``self`` is the module, by its id: to hash code takes long."""
_LONGEST_TEXT: Final = 80
_KNOWN_FILES: Final[dict[str, bool]] = {}  # the files of this process: each call of an op on the tape asks


def located(code_position: Place) -> Location | None:
    """The line of a place."""
    if code_position is None:
        return None
    code, instruction = code_position
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return Location(code.co_filename, line)
    return Location(code.co_filename, code.co_firstlineno)


def text_at(code_position: Place) -> str:
    """The expression or statement that a place computes, as it is written on one line; empty where it is on several, or
    its source is not to be had."""
    if code_position is None:
        return ""
    code, instruction = code_position
    span = next(itertools.islice(code.co_positions(), instruction // 2, None), None)
    if span is None or None in span or span[0] != span[1]:
        return ""
    line, _, start, end = span
    assert line is not None
    written = linecache.getline(code.co_filename, line).encode()[start:end]  # columns are bytes
    return written.decode(errors="replace").strip()[:_LONGEST_TEXT]


def _relative(file: str) -> str:
    try:
        path = os.path.relpath(file)
    except ValueError:  # another drive
        return os.path.basename(file)
    return os.path.basename(file) if path.startswith(os.pardir) else path
