"""What native callers give and expect at addresses."""

from __future__ import annotations

import ctypes

from jitgraph_testing.simulator.calls.codes import INVALID_VALUE, DriverFault


def put(address: int | None, kind: type[ctypes._SimpleCData[int]], value: int) -> None:
    """Write a number of C type ``kind``; DriverFault where there is no address."""
    if not address:
        raise DriverFault(INVALID_VALUE, "a pointer for the answer is NULL")
    kind.from_address(address).value = value


def put_float(address: int | None, value: float) -> None:
    """Write a C float."""
    if not address:
        raise DriverFault(INVALID_VALUE, "a pointer for the answer is NULL")
    ctypes.c_float.from_address(address).value = value


def put_handle(address: int | None, value: int) -> None:
    """Write a pointer, or a number of 64 bits."""
    put(address, ctypes.c_uint64, value)


def put_int(address: int | None, value: int) -> None:
    """Write a C int."""
    put(address, ctypes.c_int32, value)
