"""CPython's own functions in C, by name, and words of its memory, by address.
The one place that asks for them, beside the loader and DLPack's capsules.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

# ----------------------------------------------------------------------
# CPython's own functions in C, by name: the one place that asks for them, beside the loader and DLPack's capsules.

API: Final = ctypes.pythonapi


def unknown() -> str:
    """Why ``layout.py`` does not describe this interpreter, as far as its name says; empty where it does."""
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return f"it knows CPython 3.11 to 3.13, and this is {sys.implementation.name} {sys.version.split()[0]}"
    if "t" in sys.abiflags:
        return "this CPython is built without a global lock"
    if "d" in sys.abiflags:
        return "this CPython is built for debugging"
    return ""


def address_of(name: str) -> int:
    """Where a function lies; 0 for one that CPython does not have."""
    function = getattr(API, name, None)
    return 0 if function is None else int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def slot_of_class(kind: type, number: int) -> int:
    """What CPython has in a slot of a class that Python made, by the slot's number."""
    API.PyType_GetSlot.restype, API.PyType_GetSlot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    return int(API.PyType_GetSlot(kind, number) or 0)


def vectorcall_of(function: Any) -> int:
    """The address of the code by which CPython calls an object."""
    API.PyVectorcall_Function.restype, API.PyVectorcall_Function.argtypes = ctypes.c_void_p, [ctypes.py_object]
    return int(API.PyVectorcall_Function(function) or 0)


def interpreter_number() -> int:
    """The number of the running interpreter of this process; 0 for the main one."""
    API.PyInterpreterState_Get.restype, API.PyInterpreterState_GetID.restype = ctypes.c_void_p, ctypes.c_int64
    API.PyInterpreterState_GetID.argtypes = [ctypes.c_void_p]
    return int(API.PyInterpreterState_GetID(API.PyInterpreterState_Get()))


def never_free(obj: Any) -> None:
    """Keep an object until the process ends, whatever happens to modules."""
    API.Py_IncRef(ctypes.py_object(obj))


# ----------------------------------------------------------------------
# Words of memory by address, for those who write the dispatcher's records and look at CPython's objects.


def word(address: int) -> int:
    """The 64 bits that lie there."""
    return ctypes.c_uint64.from_address(address).value


def half_word(address: int) -> int:
    """The 32 bits that lie there."""
    return ctypes.c_uint32.from_address(address).value


def byte(address: int) -> int:
    """The byte that lies there."""
    return ctypes.c_uint8.from_address(address).value


def put_word(address: int, value: int) -> None:
    """Write 64 bits."""
    ctypes.c_uint64.from_address(address).value = value
