"""DriverTable: functions of the CUDA driver by their addresses, with errors in place of results."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from jitgraph.errors import CudaError
from jitgraph.runtime.cuda import results
from jitgraph.runtime.cuda.driver_functions import FUNCTIONS

_TYPES: Final[dict[str, Any]] = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "z": ctypes.c_size_t,
    "s": ctypes.c_char_p,
}


class DriverTable:
    """The functions of FUNCTIONS, to call from Python and from emitted host code."""

    def __init__(self, addresses: Mapping[str, int], name: str) -> None:
        """``addresses`` has one for each symbol of FUNCTIONS; ``name`` is where they come from."""
        self.name = name
        self.addresses = dict(addresses)
        self.table = (ctypes.c_uint64 * len(FUNCTIONS))(*[addresses[symbol] for symbol in FUNCTIONS])
        self._functions = {
            symbol: ctypes.CFUNCTYPE(ctypes.c_int, *[_TYPES[letter] for letter in letters])(addresses[symbol])
            for symbol, letters in FUNCTIONS.items()
        }

    @property
    def table_address(self) -> int:
        """Where the table of addresses lies, for emitted host code; it stays for as long as the driver lives."""
        return ctypes.addressof(self.table)

    def call(self, symbol: str, *arguments: Any, action: str) -> None:
        """Call a function; CudaError, which says what was ``action``, where it does not succeed."""
        code = self._functions[symbol](*arguments)
        if code:
            raise self.error(code, action)

    def query(self, symbol: str, *arguments: Any, action: str) -> bool:
        """The answer of a function that asks whether work is done."""
        code = self._functions[symbol](*arguments)
        if code not in (results.SUCCESS, results.NOT_READY):
            raise self.error(code, action)
        return bool(code == results.SUCCESS)

    def error(self, code: int, action: str) -> CudaError:
        """The error of a result that is no success."""
        name = self._text("cuGetErrorName", code) or f"CUresult {code}"
        return results.error(code, name, self._text("cuGetErrorString", code), action)

    def _text(self, symbol: str, code: int) -> str:
        text = ctypes.c_char_p()
        self._functions[symbol](code, ctypes.addressof(text))
        return (text.value or b"").decode("utf-8", "replace")

    def created(self, symbol: str, *arguments: Any, action: str) -> int:
        """The handle or address that a function writes to its first parameter."""
        made = ctypes.c_uint64()
        self.call(symbol, ctypes.addressof(made), *arguments, action=action)
        return made.value
