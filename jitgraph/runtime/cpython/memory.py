"""Words of memory by address, for those who write the dispatcher's records and look at CPython's objects."""

from __future__ import annotations

import ctypes


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
