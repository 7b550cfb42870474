"""Layouts of objects that native code reads and writes where they lie: machine words, slots, and a dict in a slot.

Classes with words are made by CPython's ``PyType_FromSpec``, so the words stand at known offsets from the object, and
Python sees each as an integer attribute. Nothing else is in them: subclasses add slots and methods.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Final

from jitgraph.runtime.cpython.api import API

_HEADER_BYTES: Final = 16  # the count of references and the type
WORD_BYTES: Final = 8
_BASE_TYPE: Final = 1 << 10  # Py_TPFLAGS_BASETYPE
_MEMBERS: Final = 72  # Py_tp_members
_UNSIGNED: Final = 18  # the kind of member of an unsigned 64-bit integer
_kept: Final[list[Any]] = []  # what the types point to, which is never freed


_DICT_OFFSET: Final = 288  # of tp_dictoffset in a class, in CPython 3.11 to 3.13
_MEMBER: Final = 40  # of the member in a descriptor of a slot
_MEMBER_KIND: Final = 8
_MEMBER_OFFSET: Final = 16
_OBJECT_SLOT: Final = 16  # T_OBJECT_EX
_OBJECT_OR_NONE: Final = 6  # T_OBJECT


def slot_offset(kind: type, name: str) -> int:
    """Where a slot of a class lies in its objects, in bytes."""
    descriptor = next(vars(base)[name] for base in kind.__mro__ if name in vars(base))
    member: int = ctypes.c_uint64.from_address(id(descriptor) + _MEMBER).value
    return int(ctypes.c_uint64.from_address(member + _MEMBER_OFFSET).value)


def _kind_of_member(descriptor: Any) -> int:
    member = ctypes.c_uint64.from_address(id(descriptor) + _MEMBER).value
    return ctypes.c_int.from_address(member + _MEMBER_KIND).value


def is_object_slot(descriptor: Any) -> bool:
    """Whether a member of a class is a slot as Python's classes have them, which holds an object or nothing.

    Members of classes that are written in C may be numbers and texts of C's.
    """
    return _kind_of_member(descriptor) == _OBJECT_SLOT


def is_object_or_none(descriptor: Any) -> bool:
    """Whether a member of a class written in C is an object, or None where there is nothing."""
    return _kind_of_member(descriptor) == _OBJECT_OR_NONE


def use_dict_slot(kind: type, number: int) -> None:
    """Let objects of a class without a dict have one in the word of this number, made when it is first needed.

    Unlike CPython's own dicts of instances it costs nothing until then. Subclasses that are made later have it, too.
    """
    dict_offset = ctypes.c_int64.from_address(id(kind) + _DICT_OFFSET)
    assert dict_offset.value == kind.__dictoffset__ == 0, "the class keeps attributes already, or CPython differs"
    dict_offset.value = offset_of(number)


def attributes_of(obj: Any) -> dict[str, Any]:
    """The dict of an object of such a class."""
    attributes: dict[str, Any] = _generic_dict(obj, None)
    return attributes


def offset_of(number: int) -> int:
    """Where the word of this number lies in an object, in bytes."""
    return _HEADER_BYTES + WORD_BYTES * number


def class_with_native_fields(name: str, *words: str) -> Any:
    """A class whose instances have these words, all 0 at first, as attributes that hold integers of 64 bits.

    A word without a name is no attribute.
    """
    members = b"".join(
        struct.pack("@PiPiP", _text(word), _UNSIGNED, offset_of(number), 0, 0)
        for number, word in enumerate(words)
        if word
    )
    slots = struct.pack("@iPiP", _MEMBERS, _kept_bytes(members + bytes(struct.calcsize("@PiPiP"))), 0, 0)
    spec = struct.pack("@PiiIP", _text(f"jitgraph.{name}"), offset_of(len(words)), 0, _BASE_TYPE, _kept_bytes(slots))
    make = API.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(_kept_bytes(spec))


def _text(text: str) -> int:
    return _kept_bytes(text.encode() + b"\0")


def _kept_bytes(data: bytes) -> int:
    buffer = ctypes.create_string_buffer(data, len(data))
    _kept.append(buffer)
    return ctypes.addressof(buffer)


_generic_dict: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
    ("PyObject_GenericGetDict", API)
)
