"""PTX as code on a device: each text is loaded once, its kernels are found by name and launched on a stream."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any, Final

from jitgraph.errors import CudaError
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.context import DeviceContext
from jitgraph.runtime.loader.cuda import ERROR_LOG_BYTES, ERROR_LOG_OPTION

_STATIC_SHARED: Final = 1  # CUfunction_attribute
_REGISTERS: Final = 4
_DYNAMIC_SHARED: Final = 8


class KernelFunction:
    """A kernel on a device."""

    def __init__(self, context: DeviceContext, handle: int, name: str) -> None:
        self._context = context
        self.handle = handle
        """The driver's handle, for emitted host code."""
        self.name = name
        self._allowed = 0

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self._attribute(_REGISTERS)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block that the code itself asks for."""
        return self._attribute(_STATIC_SHARED)

    def allow_shared(self, size: int) -> None:
        """Let launches ask for up to ``size`` bytes of shared memory beside; CudaError where the device has less."""
        if size > self._allowed:
            action = f"{size} bytes of shared memory for the kernel {self.name}"
            self._context.enter().set_function_attribute(self.handle, _DYNAMIC_SHARED, size, action)
            self._allowed = size

    def launch(self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], *, shared: int = 0) -> None:
        """Launch the kernel on this thread's current stream; ``arguments`` are objects of ctypes, such as c_uint64.

        CudaError where the launch is refused; what goes wrong in the kernel itself is seen when it is waited for.
        """
        params = (ctypes.c_void_p * max(1, len(arguments)))(*[ctypes.addressof(x) for x in arguments])
        self._context.enter().call(
            "cuLaunchKernel", self.handle, *grid, *block, shared, self._context.stream, ctypes.addressof(params), None,
            action=f"the launch of the kernel {self.name} with a grid of {tuple(grid)} and blocks of {tuple(block)}",
        )  # fmt: skip

    def _attribute(self, number: int) -> int:
        return self._context.enter().function_attribute(self.handle, number, f"an attribute of the kernel {self.name}")


class LoadedModule:
    """A piece of PTX on a device; it stays there as long as the context."""

    def __init__(self, context: DeviceContext, handle: int) -> None:
        self._context = context
        self.handle = handle
        self._functions: dict[str, KernelFunction] = {}

    def function(self, name: str) -> KernelFunction:
        """The kernel of this name; CudaError where there is none."""
        function = self._functions.get(name)
        if function is None:
            handle = self._context.enter().find_function(self.handle, name)
            function = self._functions[name] = KernelFunction(self._context, handle, name)
        return function


class Modules:
    """The PTX that was loaded to one device; safe from several threads."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._lock = forks.lock()
        self._loaded: dict[bytes, LoadedModule] = {}

    def load(self, ptx: bytes, llvm_ir: str = "") -> LoadedModule:
        """The module of a text, loaded when it is first asked for; CudaError with what the driver's compiler says.

        ``llvm_ir`` is what the PTX was made of, which a simulator runs in its place.
        """
        key = hashlib.sha256(ptx).digest()
        with self._lock:
            module = self._loaded.get(key)
            if module is None:
                self._context.driver.describe(ptx, llvm_ir)
                module = self._loaded[key] = LoadedModule(self._context, self._handle(ptx))
            return module

    def close(self) -> None:
        """Give the code back."""
        driver = self._context.enter()
        with self._lock:
            while self._loaded:
                driver.unload_module(self._loaded.popitem()[1].handle)

    def _handle(self, ptx: bytes) -> int:
        driver = self._context.enter()
        log = ctypes.create_string_buffer(ERROR_LOG_BYTES)
        options = (ctypes.c_int * 2)(ERROR_LOG_OPTION, ERROR_LOG_OPTION + 1)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), ERROR_LOG_BYTES)
        out = ctypes.c_uint64()
        try:
            driver.call(
                "cuModuleLoadDataEx", ctypes.addressof(out), ctypes.c_char_p(ptx), 2, ctypes.addressof(options),
                ctypes.addressof(values), action="loading PTX",
            )  # fmt: skip
        except CudaError as error:
            message = log.value.decode("utf-8", "replace").strip()
            if not message:
                raise
            raise CudaError(f"{error.message}\n{message}", code=error.code, hint=error.hint) from None
        return out.value
