"""The CUDA driver, by ctypes: ``libcuda.so.1`` alone, in the primary context of a device; memory that is used again."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from jitgraph.runtime.loader.artifact import MAX_DRIVER_SLOTS
from jitgraph.runtime.loader.errors import JitgraphError, LoadError

# ----------------------------------------------------------------------
# The CUDA driver, by ctypes: ``libcuda.so.1`` alone, in the primary context of a device.

CUDA_LIBRARY: Final = "libcuda.so.1"
_DEVICE_NAME: Final = re.compile(r"cuda(?::([0-9]{1,3}))?")
_CUDA_OUT_OF_MEMORY: Final = 2
_NO_DEVICE: Final = 100
_MAJOR_CAPABILITY: Final = 75  # CUdevice_attribute
_MINOR_CAPABILITY: Final = 76
_ORDINAL_OF_POINTER: Final = 9  # CUpointer_attribute
ERROR_LOG_OPTION: Final = 5  # CUjit_option, and after it its size
ERROR_LOG_BYTES: Final = 8192
_NON_BLOCKING: Final = 1

_PARAMETERS: Final = {  # p: pointer or handle, i: int, u: unsigned, z: size or address on a device, s: text
    "cuInit": "u", "cuGetErrorName": "ip", "cuGetErrorString": "ip", "cuDeviceGetCount": "p", "cuDeviceGet": "pi",
    "cuDeviceGetName": "pii", "cuDeviceGetAttribute": "pii", "cuDevicePrimaryCtxRetain": "pi",
    "cuDevicePrimaryCtxRelease_v2": "i", "cuCtxSetCurrent": "p", "cuCtxGetCurrent": "p", "cuCtxSynchronize": "",
    "cuModuleLoadDataEx": "ppupp", "cuModuleUnload": "p", "cuModuleGetFunction": "pps", "cuMemAlloc_v2": "pz",
    "cuMemFree_v2": "z", "cuMemHostAlloc": "pzu", "cuMemFreeHost": "p", "cuMemcpyHtoDAsync_v2": "zpzp",
    "cuMemcpyDtoHAsync_v2": "pzzp", "cuMemcpyDtoDAsync_v2": "zzzp", "cuPointerGetAttribute": "piz",
    "cuStreamCreate": "pu", "cuStreamDestroy_v2": "p", "cuStreamSynchronize": "p",
}  # fmt: skip
CUDA_C_TYPES: Final = {
    "p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p
}  # fmt: skip


class DriverCalls:
    """Calls of the driver's functions by their symbols; what a refused one raises, ``error`` says."""

    _functions: Mapping[str, Any]

    def call(self, symbol: str, *arguments: Any, action: str) -> None:
        """Call a function; the error, which says what was ``action``, where it does not succeed."""
        code = self._functions[symbol](*arguments)
        if code:
            raise self.error(code, action)

    def created(self, symbol: str, *arguments: Any, action: str) -> int:
        """The handle, number or address that a function writes to its first parameter."""
        out = ctypes.c_uint64()
        self.call(symbol, ctypes.addressof(out), *arguments, action=action)
        return out.value

    def error(self, code: int, action: str) -> Exception:
        """The error of a result that is no success."""
        raise NotImplementedError

    def text_of(self, symbol: str, code: int) -> str:
        """What a function says of a result."""
        text = ctypes.c_char_p()
        self._functions[symbol](code, ctypes.addressof(text))
        return (text.value or b"").decode("utf-8", "replace")


class CudaDriver(DriverCalls):
    """The driver's functions, of which each that is refused raises with CUDA's own words: a MemoryError or a
    JitgraphError."""

    def __init__(self) -> None:
        """LoadError where this machine has no driver, or one that is too old."""
        try:
            self._library = ctypes.CDLL(CUDA_LIBRARY)
        except OSError as error:
            raise LoadError(f"this machine has no CUDA driver ({error}); load the model for the CPU") from None
        self._functions = {}
        for symbol, letters in _PARAMETERS.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *[CUDA_C_TYPES[letter] for letter in letters])
            self._functions[symbol] = kind(self._address(symbol))
        code = self._functions["cuInit"](0)
        if code == _NO_DEVICE:
            raise LoadError("the CUDA driver finds no device; load the model for the CPU")
        if code:
            raise LoadError(f"the CUDA driver does not start: {self.words(code)}; load the model for the CPU")

    def _address(self, symbol: str) -> int:
        try:
            return ctypes.cast(getattr(self._library, symbol), ctypes.c_void_p).value or 0
        except AttributeError:
            raise LoadError(f"the CUDA driver is too old: {CUDA_LIBRARY} has no {symbol}") from None

    def table(self, slots: Sequence[tuple[str, int]]) -> Any:
        """A table for emitted code with the addresses of these functions at their places."""
        table = (ctypes.c_void_p * MAX_DRIVER_SLOTS)()
        for symbol, slot in slots:
            table[slot] = self._address(symbol)
        return table

    def error(self, code: int, action: str) -> Exception:
        """The error of a result that is no success."""
        text = f"{action}: {self.words(code)}"
        return MemoryError(text) if code == _CUDA_OUT_OF_MEMORY else JitgraphError(text)

    def words(self, code: int) -> str:
        """CUDA's name of a result and its text."""
        name, text = (self.text_of(symbol, code) for symbol in ("cuGetErrorName", "cuGetErrorString"))
        return f"{name or f'CUresult {code}'}{f' ({text})' if text else ''}"


class CudaDevice:
    """A device: its primary context, which other libraries of the process share, and a stream in it."""

    def __init__(self, name: str) -> None:
        """``name`` is "cuda" or such as "cuda:1"; LoadError where there is no such device."""
        parts = _DEVICE_NAME.fullmatch(name) if isinstance(name, str) else None
        if parts is None:
            raise LoadError(f"{name!r:.60} names no device; 'cpu', 'cuda' or 'cuda:0'")
        self.ordinal = int(parts[1] or 0)
        self.name = f"cuda:{self.ordinal}"
        self.driver = driver = CudaDriver()
        count = driver.created("cuDeviceGetCount", action="the number of CUDA devices")
        if self.ordinal >= count:
            there = ", ".join(f"cuda:{number}" for number in range(count)) or "none"
            raise LoadError(f"there is no {self.name}; the devices are: {there}")
        self._process = os.getpid()
        self._number = driver.created("cuDeviceGet", self.ordinal, action=self.name)
        self.capability = 10 * self._attribute(_MAJOR_CAPABILITY) + self._attribute(_MINOR_CAPABILITY)
        self._context = driver.created("cuDevicePrimaryCtxRetain", self._number, action=f"the context of {self.name}")
        self.stream = 0
        try:
            with self.current():
                self.stream = driver.created("cuStreamCreate", _NON_BLOCKING, action=f"a stream of {self.name}")
        except BaseException:
            self.release()
            raise

    @property
    def title(self) -> str:
        """The device's name and what it is."""
        text = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", ctypes.addressof(text), len(text), self._number, action=self.name)
        return f"{self.name} ({text.value.decode('utf-8', 'replace')})"

    def _attribute(self, number: int) -> int:
        return self.driver.created("cuDeviceGetAttribute", number, self._number, action=f"an attribute of {self.name}")

    @contextmanager
    def current(self) -> Iterator[None]:
        """A block in which the device's context is that of this thread; the one that was before comes back."""
        if os.getpid() != self._process:
            raise JitgraphError(
                f"{self.name} was in use before this process was forked, and CUDA cannot be used in such a child; "
                'start it by multiprocessing.get_context("spawn")'
            )
        driver = self.driver
        before = driver.created("cuCtxGetCurrent", action="the current context")
        if before != self._context:
            driver.call("cuCtxSetCurrent", self._context, action=f"the context of {self.name}")
        try:
            yield
        finally:
            if before != self._context:
                driver.call("cuCtxSetCurrent", before or None, action="the context of before")

    def wait(self) -> None:
        """Wait for all work of the stream."""
        self.driver.call("cuStreamSynchronize", self.stream, action=f"waiting for {self.name}")

    def load(self, ptx: bytes) -> int:
        """The handle of a module with this PTX; LoadError with what the driver's compiler says."""
        log = ctypes.create_string_buffer(ERROR_LOG_BYTES)
        options = (ctypes.c_int * 2)(ERROR_LOG_OPTION, ERROR_LOG_OPTION + 1)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), ERROR_LOG_BYTES)
        image = ctypes.create_string_buffer(ptx)
        address = ctypes.addressof
        try:
            return self.driver.created(
                "cuModuleLoadDataEx", address(image), 2, address(options), address(values), action="loading its PTX"
            )
        except JitgraphError as error:
            message = log.value.decode("utf-8", "replace").strip()
            raise LoadError(f"{error}{f': {message}' if message else ''}") from None

    def kernel(self, module: int, name: str) -> int:
        """The handle of a kernel; LoadError where the module has none of this name."""
        try:
            return self.driver.created("cuModuleGetFunction", module, name.encode(), action=f"the kernel {name}")
        except JitgraphError as error:
            raise LoadError(str(error)) from None

    def unload(self, module: int) -> None:
        """Give a module back."""
        self.driver.call("cuModuleUnload", module, action="the end of a module")

    def allocate(self, size: int) -> int:
        """The address of fresh memory of the device; MemoryError where it has no more."""
        return self.driver.created("cuMemAlloc_v2", max(1, size), action=f"{size} bytes of {self.name}")

    def free(self, address: int) -> None:
        """Give memory of the device back."""
        self.driver.call("cuMemFree_v2", address, action="giving memory back")

    def pinned(self, size: int) -> int:
        """The address of memory of the host that the device writes to by itself."""
        return self.driver.created("cuMemHostAlloc", size, 0, action=f"{size} bytes of pinned memory")

    def free_pinned(self, address: int) -> None:
        """Give pinned memory back."""
        self.driver.call("cuMemFreeHost", address, action="giving pinned memory back")

    def upload(self, target: int, source: int, size: int) -> None:
        """Copy from the host's memory, in the stream's order."""
        if size:
            action = f"a copy of {size} bytes to {self.name}"
            self.driver.call("cuMemcpyHtoDAsync_v2", target, source, size, self.stream, action=action)

    def download(self, target: int, source: int, size: int) -> None:
        """Copy to the host's memory, in the stream's order."""
        if size:
            action = f"a copy of {size} bytes from {self.name}"
            self.driver.call("cuMemcpyDtoHAsync_v2", target, source, size, self.stream, action=action)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy within the device, in the stream's order."""
        self.driver.call("cuMemcpyDtoDAsync_v2", target, source, size, self.stream, action=f"a copy on {self.name}")

    def ordinal_at(self, address: int) -> int:
        """The number of the device whose memory lies at an address."""
        out = ctypes.c_int()
        action = f"the device of the address {address:#x}"
        self.driver.call("cuPointerGetAttribute", ctypes.addressof(out), _ORDINAL_OF_POINTER, address, action=action)
        return out.value

    def wait_for_all(self) -> None:
        """Wait for all work of the device's context, whichever library asked for it."""
        self.driver.call("cuCtxSynchronize", action=f"waiting for all work of {self.name}")

    def settle(self, stream: int) -> None:
        """Wait for all work of another stream, by its handle."""
        self.driver.call("cuStreamSynchronize", stream, action="waiting for the stream of an argument")

    def release(self) -> None:
        """Need the stream and the context no more."""
        if os.getpid() != self._process:
            return
        try:
            with self.current():
                if self.stream:
                    self.driver.call("cuStreamDestroy_v2", self.stream, action="the end of a stream")
        finally:
            self.driver.call("cuDevicePrimaryCtxRelease_v2", self._number, action=f"the end of {self.name}")


# ----------------------------------------------------------------------
# Memory of a device that is used again.

_STEP: Final = 512


class DevicePool:
    """Blocks of a device by their size; before one is given back, the model's work on it has ended.

    What other libraries were shown is used again only after all work of the context.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._free: dict[int, list[int]] = {}
        self._blocks: set[int] = set()
        self._shown: set[int] = set()
        self._unsettled: list[tuple[int, int]] = []  # shown, and given back: address and size
        self._closed = False
        self._lock = threading.RLock()  # results go back in any thread, also while this one takes a block

    def take(self, size: int) -> DeviceBlock:
        """A block of at least so many bytes; its context is current."""
        size = max(_STEP, -(-size // _STEP) * _STEP)
        with self._lock:
            free = self._free.setdefault(size, [])
            if not free and self._unsettled:
                self._settle()
            try:
                address = free.pop()
            except IndexError:
                try:
                    address = self.device.allocate(size)
                except MemoryError:
                    self.trim()
                    address = self.device.allocate(size)
                self._blocks.add(address)
        block = DeviceBlock(self, address)
        weakref.finalize(block, self._return, address, size, os.getpid()).atexit = False
        return block

    def show(self, block: DeviceBlock) -> None:
        """Note that other libraries may have work on a block whose end is not known."""
        with self._lock:
            self._shown.add(block.address)

    def _return(self, address: int, size: int, process: int) -> None:
        if process != os.getpid():
            return
        with self._lock:
            if address in self._shown:
                self._shown.remove(address)
                self._unsettled.append((address, size))
            else:
                self._free.setdefault(size, []).append(address)
            if self._closed:
                self._end()

    def _settle(self) -> None:
        """Let blocks that others were shown serve again."""
        self.device.wait_for_all()
        while self._unsettled:
            address, size = self._unsettled.pop()
            self._free.setdefault(size, []).append(address)

    def trim(self) -> None:
        """Give back what is not used."""
        with self._lock:
            if self._unsettled:
                self._settle()
            for free in list(self._free.values()):  # freeing may run finalisers, which give blocks back
                while free:
                    address = free.pop()
                    self._blocks.remove(address)
                    self.device.free(address)

    def close(self) -> None:
        """Give back what is not used, and the rest with its last reference; the device with that."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end()

    def _end(self) -> None:
        with self.device.current():
            self.trim()
        if not self._blocks:
            self.device.release()


class DeviceBlock:
    """Bytes of a device, which go back to their pool with the last reference."""

    __slots__ = ("__weakref__", "address", "pool")

    def __init__(self, pool: DevicePool, address: int) -> None:
        self.pool = pool
        self.address = address
