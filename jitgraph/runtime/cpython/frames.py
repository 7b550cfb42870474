"""Where the interpreter keeps the locals, the value stack and the function of a running frame.

The offsets are found by known answers: raw words of a frame of a known function are compared with the ids of objects
that it is known to hold. Until they agree, no word is taken for an object.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.records import NamedTuple

WORD: Final = ctypes.sizeof(ctypes.c_void_p)
SUPPORTED: Final = ((3, 11), (3, 12), (3, 13))
_HEADER: Final = 2 * WORD  # of an object: its count of references and its type
_FRAME: Final = _HEADER + WORD  # in a frame object: behind the header stands the frame that called, then its own data
_MOST: Final = 16  # words before the locals
_word = ctypes.c_void_p.from_address
_object: Any = ctypes.py_object.from_address


class FrameLayout(NamedTuple):
    """Offsets in the data of a frame."""

    function: int
    locals: int


def word_at(address: int) -> int:
    """The word at an address, as a number."""
    return _word(address).value or 0


def object_at(address: int) -> Any:
    """The object to which the word at an address points; ValueError for a word of 0."""
    return _object(address).value


def data_of(frame: FrameType) -> int:
    """The address of the data of a running frame."""
    return word_at(id(frame) + _FRAME)


@cache
def layout() -> FrameLayout:
    """The layout of frames in this interpreter; TraceError for one that is not known."""
    known = sys.implementation.name == "cpython" and sys.version_info[:2] in SUPPORTED
    if not known or "t" in getattr(sys, "abiflags", ""):
        raise _unknown()
    return _found(object(), object())


def _found(first: object, second: object) -> FrameLayout:
    frame = sys._getframe()
    if word_at(id(frame) + WORD) != id(FrameType):
        raise _unknown()
    data = data_of(frame)
    if data == 0 or data % WORD:
        raise _unknown()
    return _searched(data, id(frame.f_code), id(_found), (id(first), id(second)))


def _searched(data: int, code: int, function: int, pair: tuple[int, int]) -> FrameLayout:
    words = [word_at(data + i * WORD) for i in range(_MOST + 2)]
    functions = [i for i in range(_MOST) if words[i] == function]
    locals_ = [i for i in range(_MOST) if (words[i], words[i + 1]) == pair]
    if len(functions) != 1 or len(locals_) != 1 or code not in words[:_MOST]:
        raise _unknown()
    return FrameLayout(functions[0] * WORD, locals_[0] * WORD)


def _unknown() -> TraceError:
    return TraceError(
        f"tracing does not know how this interpreter, {sys.implementation.name} "
        f"{sys.version_info[0]}.{sys.version_info[1]}, lays out its frames",
        hint=f"use CPython {', '.join(f'{a}.{b}' for a, b in SUPPORTED)}, or JITGRAPH_DISABLE_JIT=1",
    )


@cache
def slots_of(code: CodeType) -> int:
    """How many locals, cells and free variables stand before the value stack."""
    name_of: Callable[[int], str] = code._varname_from_oparg  # type: ignore[attr-defined]
    count = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    while count and not _is_slot(name_of, count - 1):
        count -= 1
    while _is_slot(name_of, count):
        count += 1
    return count


def _is_slot(name_of: Callable[[int], str], index: int) -> bool:
    try:
        name_of(index)
    except IndexError:
        return False
    return True


def cell_of(function: FunctionType, name: str) -> Any:
    """The cell in which a function finds a variable of an enclosing one."""
    return (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
