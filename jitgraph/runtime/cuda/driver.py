"""Driver: what jitgraph asks of the CUDA driver, as methods, over its C functions and their results."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from jitgraph.errors import CudaError, DeviceError, OutOfMemoryError
from jitgraph.runtime.cuda import cublas
from jitgraph.runtime.cuda.cublas import CublasLibrary
from jitgraph.runtime.loader.cuda import CUDA_C_TYPES, DriverCalls

# ----------------------------------------------------------------------
# The functions of the CUDA driver that jitgraph calls, with the C types of their parameters.
#
# This is the one list of them. A driver is a table of addresses in the order of this list: those of ``libcuda.so.1``,
# those that pycuda has loaded, or those of the simulator. Every function returns a ``CUresult`` (0 is success). Symbols
# carry the suffix of the version that ``cuda.h`` of CUDA 13 names (``cuMemAlloc`` alone is an older interface).
#
# Source: NVIDIA CUDA Driver API 13.0, https://docs.nvidia.com/cuda/cuda-driver-api/

FUNCTIONS: Final[dict[str, str]] = {
    # p: pointer or handle (void *), i: int, u: unsigned int, z: size_t or CUdeviceptr (8 bytes), s: const char *
    "cuInit": "u",
    "cuDriverGetVersion": "p",
    "cuGetErrorName": "ip",
    "cuGetErrorString": "ip",
    "cuDeviceGetCount": "p",
    "cuDeviceGet": "pi",
    "cuDeviceGetName": "pii",
    "cuDeviceGetAttribute": "pii",
    "cuDeviceTotalMem_v2": "pi",
    "cuDevicePrimaryCtxRetain": "pi",
    "cuDevicePrimaryCtxRelease_v2": "i",
    "cuCtxSetCurrent": "p",
    "cuCtxGetCurrent": "p",
    "cuCtxSynchronize": "",
    "cuModuleLoadDataEx": "ppupp",
    "cuModuleUnload": "p",
    "cuModuleGetFunction": "pps",
    "cuFuncSetAttribute": "pii",
    "cuFuncGetAttribute": "pip",
    "cuLaunchKernel": "puuuuuuuppp",
    "cuMemGetInfo_v2": "pp",
    "cuMemAlloc_v2": "pz",
    "cuMemFree_v2": "z",
    "cuMemHostAlloc": "pzu",
    "cuMemFreeHost": "p",
    "cuMemcpyHtoD_v2": "zpz",
    "cuMemcpyDtoH_v2": "pzz",
    "cuMemcpyHtoDAsync_v2": "zpzp",
    "cuMemcpyDtoHAsync_v2": "pzzp",
    "cuMemcpyDtoDAsync_v2": "zzzp",
    "cuMemsetD8Async": "zuzp",
    "cuMemsetD32Async": "zuzp",
    "cuPointerGetAttribute": "piz",
    "cuStreamCreate": "pu",
    "cuStreamDestroy_v2": "p",
    "cuStreamSynchronize": "p",
    "cuStreamQuery": "p",
    "cuStreamWaitEvent": "ppu",
    "cuStreamBeginCapture_v2": "pi",
    "cuStreamEndCapture": "pp",
    "cuStreamIsCapturing": "pp",
    "cuEventCreate": "pu",
    "cuEventDestroy_v2": "p",
    "cuEventRecord": "pp",
    "cuEventQuery": "p",
    "cuEventSynchronize": "p",
    "cuEventElapsedTime": "ppp",
    "cuGraphInstantiateWithFlags": "ppz",
    "cuGraphLaunch": "pp",
    "cuGraphExecDestroy": "p",
    "cuGraphDestroy": "p",
    "cuMemAllocAsync": "pzp",
    "cuMemFreeAsync": "zp",
}
"""The letters of each function's parameters, by its symbol."""

SLOTS: Final[dict[str, int]] = {symbol: slot for slot, symbol in enumerate(FUNCTIONS)}
"""Where a function's address stands in a driver's table of 8-byte addresses."""


# ----------------------------------------------------------------------
# What the driver's results mean: each ``CUresult`` that is no success as an error with CUDA's own name and text.
#
# Source: the enumeration CUresult of NVIDIA's CUDA Driver API 13.0.

SUCCESS: Final = 0
OUT_OF_MEMORY: Final = 2
NOT_READY: Final = 600

_RESTART: Final = "the device's context is lost for this process: start a new one; compute-sanitizer names the kernel"
_DRIVER: Final = "nvidia-smi shows the driver; a newer one serves programs of older CUDA versions as well"
_CAPTURE: Final = "leave out of a capture what waits for the device, allocates or uses the default stream"

HINTS: Final[dict[int, str]] = {
    1: "an argument of the driver's function is out of its range",
    OUT_OF_MEMORY: "jg.cuda.memory_summary() shows what is held; drop tensors, or make batches smaller",
    3: "the driver was not initialised in this process",
    4: "the driver is shutting down: this is the end of the process",
    100: "nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES may hide them",
    101: "jg.cuda.device_count() says how many devices there are; the first one is 0",
    200: "the code is neither PTX nor a binary for GPUs",
    201: "another library has destroyed or replaced the device's primary context",
    209: "the code was compiled for another kind of GPU",
    218: "the PTX does not fit this driver",
    222: f"the PTX is of a newer version than this driver knows: {_DRIVER}",
    400: "the stream, event, module or graph is gone, or of another device",
    500: "the module has no kernel of this name",
    700: f"a kernel read or wrote outside of its memory; {_RESTART}",
    701: "a block of the kernel needs more registers or shared memory than this device has",
    702: f"a kernel ran for longer than the system allows; {_RESTART}",
    710: f"an assertion in a kernel did not hold; {_RESTART}",
    715: f"a kernel ran an instruction that is none; {_RESTART}",
    716: f"a kernel used an address that is not aligned; {_RESTART}",
    719: f"a kernel failed; {_RESTART}",
    801: "this driver or device cannot do that",
    803: f"the driver of the kernel and libcuda.so.1 are of different versions: {_DRIVER}",
    804: f"this GPU needs a newer driver: {_DRIVER}",
    **dict.fromkeys(range(900, 909), _CAPTURE),
}
"""What to do about a result, by its number."""


def error(code: int, name: str, text: str, action: str) -> CudaError:
    """The error of a call that gave ``code``, whose name and text are CUDA's; ``action`` says what the call was for."""
    kind = OutOfMemoryError if code == OUT_OF_MEMORY else CudaError
    described = f"{name} ({text})" if text else name
    return kind(f"{action}: {described}", code=code, hint=HINTS.get(code, f"result {code} of the CUDA driver"))


# ----------------------------------------------------------------------
# DriverTable: functions of the CUDA driver by their addresses, with errors in place of results.


class DriverTable(DriverCalls):
    """The functions of FUNCTIONS, to call from Python and from emitted host code."""

    def __init__(self, addresses: Mapping[str, int], name: str) -> None:
        """``addresses`` has one for each symbol of FUNCTIONS; ``name`` is where they come from."""
        self.name = name
        self.addresses = dict(addresses)
        self.table = (ctypes.c_uint64 * len(FUNCTIONS))(*[addresses[symbol] for symbol in FUNCTIONS])
        self._functions = {
            symbol: ctypes.CFUNCTYPE(ctypes.c_int, *[CUDA_C_TYPES[letter] for letter in letters])(addresses[symbol])
            for symbol, letters in FUNCTIONS.items()
        }

    @property
    def table_address(self) -> int:
        """Where the table of addresses lies, for emitted host code; it stays for as long as the driver lives."""
        return ctypes.addressof(self.table)

    def query(self, symbol: str, *arguments: Any, action: str) -> bool:
        """The answer of a function that asks whether work is done."""
        code = self._functions[symbol](*arguments)
        if code not in (SUCCESS, NOT_READY):
            raise self.error(code, action)
        return bool(code == SUCCESS)

    def error(self, code: int, action: str) -> CudaError:
        """The error of a result that is no success."""
        name = self.text_of("cuGetErrorName", code) or f"CUresult {code}"
        return error(code, name, self.text_of("cuGetErrorString", code), action)


# ----------------------------------------------------------------------
# Driver: what jitgraph asks of the CUDA driver, as methods.
#
# The functions behind it come from ``libcuda.so.1``, from pycuda (``pycuda_driver.py``), or from whoever stands in for
# a GPU. Emitted host code is given the same table (``table_address``): 8-byte addresses in the order of ``SLOTS``.

LIBRARY: Final = "libcuda.so.1"
_MAJOR: Final = 75  # of CUdevice_attribute
_MINOR: Final = 76
_NON_BLOCKING_STREAM: Final = 1
_NO_TIMING: Final = 2
_DEVICE_ORDINAL: Final = 9
_BLOCKING_SYNC: Final = 1


class Driver(DriverTable):
    """The driver's functions. Handles (contexts, streams, events, modules) are integers; 0 is the default stream.

    Every method raises CudaError where the driver refuses. What depends on a context uses the calling thread's current
    one.
    """

    # --- devices and contexts ------------------------------------------------------------------------------------

    def initialise(self) -> None:
        """Let the driver begin, once a process."""
        self.call("cuInit", 0, action="the start of the CUDA driver")

    def version(self) -> tuple[int, int]:
        """The newest version of CUDA that the driver serves."""
        out = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.addressof(out), action="the version of the CUDA driver")
        return out.value // 1000, out.value % 1000 // 10

    def device_count(self) -> int:
        """The number of devices."""
        out = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.addressof(out), action="the number of CUDA devices")
        return out.value

    def device(self, ordinal: int) -> int:
        """The driver's own number of a device."""
        out = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.addressof(out), ordinal, action=f"the device cuda:{ordinal}")
        return out.value

    def device_name(self, ordinal: int) -> str:
        """The name of a device."""
        text = ctypes.create_string_buffer(256)
        action = f"the name of cuda:{ordinal}"
        self.call("cuDeviceGetName", ctypes.addressof(text), len(text), self.device(ordinal), action=action)
        return text.value.decode("utf-8", "replace")

    def attribute(self, ordinal: int, number: int) -> int:
        """An attribute of a device, by its number in CUdevice_attribute."""
        out = ctypes.c_int()
        action = f"attribute {number} of cuda:{ordinal}"
        self.call("cuDeviceGetAttribute", ctypes.addressof(out), number, self.device(ordinal), action=action)
        return out.value

    def capability(self, ordinal: int) -> tuple[int, int]:
        """The compute capability of a device, such as (9, 0)."""
        return self.attribute(ordinal, _MAJOR), self.attribute(ordinal, _MINOR)

    def total_memory(self, ordinal: int) -> int:
        """Bytes of a device's memory."""
        action = f"the memory of cuda:{ordinal}"
        return self.created("cuDeviceTotalMem_v2", self.device(ordinal), action=action)

    def retain_context(self, ordinal: int) -> int:
        """The primary context of a device, which other libraries share; ``release_context`` gives it back."""
        action = f"the primary context of cuda:{ordinal}"
        return self.created("cuDevicePrimaryCtxRetain", self.device(ordinal), action=action)

    def release_context(self, ordinal: int) -> None:
        """Need the primary context no more."""
        action = f"the end of the primary context of cuda:{ordinal}"
        self.call("cuDevicePrimaryCtxRelease_v2", self.device(ordinal), action=action)

    def make_current(self, context: int) -> None:
        """Make a context that of the calling thread."""
        self.call("cuCtxSetCurrent", context, action="a context for this thread")

    def synchronize(self) -> None:
        """Wait for all work of the current context."""
        self.call("cuCtxSynchronize", action="waiting for the device")

    # --- streams and events --------------------------------------------------------------------------------------

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream, nor it for this one."""
        return self.created("cuStreamCreate", _NON_BLOCKING_STREAM, action="a stream")

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream; its work is still done."""
        self.call("cuStreamDestroy_v2", stream, action="the end of a stream")

    def synchronize_stream(self, stream: int) -> None:
        """Wait for all work of a stream."""
        self.call("cuStreamSynchronize", stream, action="waiting for a stream")

    def is_stream_done(self, stream: int) -> bool:
        """Whether a stream has no work left."""
        return self.query("cuStreamQuery", stream, action="asking whether a stream is done")

    def wait_event(self, stream: int, event: int) -> None:
        """Let later work of a stream wait for an event."""
        self.call("cuStreamWaitEvent", stream, event, 0, action="letting a stream wait for an event")

    def create_event(self, *, timing: bool = False, blocking: bool = False) -> int:
        """An event; ``timing`` measures times, ``blocking`` lets threads that wait for it sleep."""
        flags = (0 if timing else _NO_TIMING) | (_BLOCKING_SYNC if blocking else 0)
        return self.created("cuEventCreate", flags, action="an event")

    def destroy_event(self, event: int) -> None:
        """Destroy an event; streams that wait for it still do."""
        self.call("cuEventDestroy_v2", event, action="the end of an event")

    def record_event(self, event: int, stream: int) -> None:
        """Let an event stand for all work of a stream so far."""
        self.call("cuEventRecord", event, stream, action="recording an event")

    def is_event_done(self, event: int) -> bool:
        """Whether the work that an event stands for is done."""
        return self.query("cuEventQuery", event, action="asking whether an event is done")

    def synchronize_event(self, event: int) -> None:
        """Wait for the work that an event stands for."""
        self.call("cuEventSynchronize", event, action="waiting for an event")

    def elapsed(self, start: int, end: int) -> float:
        """Milliseconds from one event to another, which both measure times and are done."""
        out = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.addressof(out), start, end, action="the time between two events")
        return out.value

    # --- memory --------------------------------------------------------------------------------------------------

    def memory_info(self) -> tuple[int, int]:
        """Bytes of the current device that are free, and all of them."""
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total), action="the free memory")
        return free.value, total.value

    def allocate(self, size: int) -> int:
        """The address of ``size`` fresh bytes of the current device; OutOfMemoryError where it has no more."""
        return self.created("cuMemAlloc_v2", size, action=f"{size} bytes of device memory")

    def free(self, address: int) -> None:
        """Give memory of a device back."""
        self.call("cuMemFree_v2", address, action="giving device memory back")

    def device_at(self, address: int) -> int:
        """The number of the device on which memory lies."""
        out = ctypes.c_int()
        action = f"the device of the address {address:#x}"
        self.call("cuPointerGetAttribute", ctypes.addressof(out), _DEVICE_ORDINAL, address, action=action)
        return out.value

    def allocate_host(self, size: int) -> int:
        """The address of ``size`` bytes of the host's that devices reach by themselves (pinned memory)."""
        return self.created("cuMemHostAlloc", size, 0, action=f"{size} bytes of pinned host memory")

    def free_host(self, address: int) -> None:
        """Give pinned memory back."""
        self.call("cuMemFreeHost", address, action="giving pinned host memory back")

    def copy_to_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy from the host's memory, in a stream's order; pinned memory must stay as it is until then."""
        self.call("cuMemcpyHtoDAsync_v2", target, source, size, stream, action=f"a copy of {size} bytes to the device")

    def copy_to_host(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy to the host's memory, in a stream's order."""
        self.call(
            "cuMemcpyDtoHAsync_v2", target, source, size, stream, action=f"a copy of {size} bytes from the device"
        )

    def copy_on_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy within devices, in a stream's order."""
        self.call("cuMemcpyDtoDAsync_v2", target, source, size, stream, action=f"a copy of {size} bytes on the device")

    def fill_bytes(self, target: int, byte: int, size: int, stream: int) -> None:
        """Set each of ``size`` bytes, in a stream's order."""
        self.call("cuMemsetD8Async", target, byte, size, stream, action=f"filling {size} bytes of the device")

    # --- code ----------------------------------------------------------------------------------------------------

    def cublas(self) -> CublasLibrary | None:
        """cuBLASLt for the devices of this driver; None where it is not installed."""
        return cublas.load()

    def describe(self, ptx: bytes, llvm_ir: str) -> None:
        """Say which LLVM IR some PTX was made of: a GPU runs the PTX, a simulator the IR."""

    def unload_module(self, module: int) -> None:
        """Give the code of a module back."""
        self.call("cuModuleUnload", module, action="the end of a module")

    def find_function(self, module: int, name: str) -> int:
        """A kernel of a module by its name."""
        return self.created("cuModuleGetFunction", module, name.encode(), action=f"the kernel {name}")

    def function_attribute(self, function: int, number: int, action: str) -> int:
        """An attribute of a kernel, by its number in CUfunction_attribute."""
        out = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.addressof(out), number, function, action=action)
        return out.value

    def set_function_attribute(self, function: int, number: int, value: int, action: str) -> None:
        """Set an attribute of a kernel."""
        self.call("cuFuncSetAttribute", function, number, value, action=action)

    # --- graphs --------------------------------------------------------------------------------------------------

    def begin_capture(self, stream: int, mode: int) -> None:
        """Let a stream write down what it is asked for, in place of doing it."""
        self.call("cuStreamBeginCapture_v2", stream, mode, action="the capture of a stream's work")

    def end_capture(self, stream: int) -> int:
        """The graph of what a stream wrote down."""
        out = ctypes.c_uint64()
        self.call("cuStreamEndCapture", stream, ctypes.addressof(out), action="the end of a capture")
        return out.value

    def instantiate(self, graph: int) -> int:
        """A graph that can be launched."""
        return self.created("cuGraphInstantiateWithFlags", graph, 0, action="a graph that can be launched")

    def launch_graph(self, graph: int, stream: int) -> None:
        """Do what a graph says, in a stream's order."""
        self.call("cuGraphLaunch", graph, stream, action="the launch of a graph")

    def destroy_graph(self, graph: int) -> None:
        """Give a captured graph back."""
        self.call("cuGraphDestroy", graph, action="the end of a graph")

    def destroy_executable_graph(self, graph: int) -> None:
        """Give a graph that can be launched back; launches of it that are under way are still done."""
        self.call("cuGraphExecDestroy", graph, action="the end of a graph that can be launched")


def load() -> Driver:
    """The driver of this machine; DeviceError where it has none."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise DeviceError(
            f"CUDA is not available: this machine has no driver ({LIBRARY} was looked for: {error})",
            hint='compute on device="cpu"; jg.cuda.is_available() tells whether there is a GPU',
        ) from None
    return of_library(library, LIBRARY)


def of_library(library: ctypes.CDLL, name: str) -> Driver:
    """The driver whose symbols a library has; DeviceError where it lacks some."""
    addresses: dict[str, int] = {}
    for symbol in FUNCTIONS:
        try:
            addresses[symbol] = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
        except AttributeError:
            raise DeviceError(
                f"{name} has no {symbol}: the CUDA driver is too old", hint="drivers of CUDA 12 and later have it"
            ) from None
    return Driver(addresses, name)
