"""CPython's own functions in C, by name: the one place that asks for them, beside the loader and DLPack's capsules."""

from __future__ import annotations

import ctypes
from typing import Any, Final

API: Final = ctypes.pythonapi


def address_of(name: str) -> int:
    """Where a function lies; 0 for one that CPython does not have."""
    found = getattr(API, name, None)
    return 0 if found is None else int(ctypes.cast(found, ctypes.c_void_p).value or 0)


def interpreter_number() -> int:
    """The number of the running interpreter of this process; 0 for the main one."""
    API.PyInterpreterState_Get.restype, API.PyInterpreterState_GetID.restype = ctypes.c_void_p, ctypes.c_int64
    API.PyInterpreterState_GetID.argtypes = [ctypes.c_void_p]
    return int(API.PyInterpreterState_GetID(API.PyInterpreterState_Get()))


def never_free(held: Any) -> None:
    """Keep an object until the process ends, whatever happens to modules."""
    API.Py_IncRef(ctypes.py_object(held))
