"""Calls the driver's stand-in as native code does: by the addresses in its table."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.runtime.cuda.driver import FUNCTIONS
from jitgraph_testing.simulator.driver import FakeDriver

_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p}
NAMES = {"launch": "cuLaunchKernel"}


class Caller:
    """One device with a current context; ``call`` asserts success, ``code`` gives the code."""

    def __init__(self, driver: FakeDriver, *, ready: bool = True) -> None:
        self.driver = driver
        self._functions = {
            symbol: ctypes.CFUNCTYPE(ctypes.c_int, *[_TYPES[letter] for letter in letters])(driver.addresses[symbol])
            for symbol, letters in FUNCTIONS.items()
        }
        if ready:
            self.call("cuInit", 0)
            self.call("cuCtxSetCurrent", self.made("cuDevicePrimaryCtxRetain", 0))

    def code(self, symbol: str, *arguments: Any) -> int:
        return self._functions[symbol](*arguments)

    def call(self, symbol: str, *arguments: Any) -> None:
        code = self.code(symbol, *arguments)
        assert code == 0, f"{symbol}: {code} {self.driver.calls[-1].note}"

    def made(self, symbol: str, *arguments: Any) -> int:
        """What a function puts at its first argument."""
        location = ctypes.c_uint64()
        self.call(symbol, ctypes.addressof(location), *arguments)
        return location.value

    def put(self, array: NDArray) -> int:
        address = self.made("cuMemAlloc_v2", array.nbytes)
        self.call("cuMemcpyHtoD_v2", address, array.ctypes.data, array.nbytes)
        return address

    def get(self, address: int, like: NDArray) -> NDArray:
        out = np.empty_like(like)
        self.call("cuMemcpyDtoH_v2", out.ctypes.data, address, out.nbytes)
        return out

    def kernel(self, text: str, name: str) -> int:
        ptx = f"// {name} {hash(text)}\0".encode()
        self.driver.register(ptx, text)
        module = self.made("cuModuleLoadDataEx", ctypes.cast(ptx, ctypes.c_void_p), 0, None, None)
        return self.made("cuModuleGetFunction", module, name.encode())

    def launch(self, function: int, grid: int, block: int, *arguments: Any, stream: int = 0) -> None:
        """Arguments are ctypes values, which need not outlive the call."""
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(each) for each in arguments])
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, stream, pointers, None)
        for each in arguments:
            ctypes.memset(ctypes.addressof(each), 0xEE, ctypes.sizeof(each))
