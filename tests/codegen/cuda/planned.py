"""The host's entry of a schedule, run with a driver that notes everything and a host that prints and polls."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph.codegen.cuda.backend import CudaCode
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.ir import dims
from jitgraph.ir.dims import parse_dim
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver import FUNCTIONS, SLOTS
from jitgraph.runtime.loader.specs import dtype_named
from jitgraph_testing.simulator.module import SimulatedModule
from tests.codegen.cuda.launched import code_of, sizes_of

POLL_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
PRINT_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p}
FIRST_HANDLE = 0x1000


class NotingDriver:
    """A driver that runs launches in the simulator at once; any of its functions may be made to fail.

    What is copied to the host arrives when the stream is waited for, or at the end.
    """

    def __init__(self, code: CudaCode, *, races: bool = False) -> None:
        self.code, self.races = code, races
        self.late: list[tuple[int, bytes]] = []
        self.held: set[int] = set()
        self.module = SimulatedModule(code.texts["llvm"])
        self.calls: list[str] = []
        self.result: dict[str, int] = {}
        self._kept: list[Any] = []
        self.table = (ctypes.c_uint64 * len(FUNCTIONS))()
        for symbol, function in (
            ("cuLaunchKernel", self.launch),
            ("cuMemsetD32Async", self.fill),
            ("cuMemcpyDtoHAsync_v2", self.copy),
            ("cuMemcpyDtoDAsync_v2", self.move),
            ("cuMemAllocAsync", self.allocate),
            ("cuMemFreeAsync", self.free),
            ("cuStreamSynchronize", self.wait),
        ):
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *[TYPES[letter] for letter in FUNCTIONS[symbol]])
            result = kind(self.noted(symbol, function))
            self._kept.append(result)
            self.table[SLOTS[symbol]] = ctypes.cast(result, ctypes.c_void_p).value or 0

    def noted(self, symbol: str, function: Callable[..., None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(symbol)
            if self.result.get(symbol):
                return self.result[symbol]
            function(*arguments)
            return 0

        return call

    def launch(self, handle: int, *rest: Any) -> None:
        *grid_and_block, shared, stream, parameters, extra = rest
        assert (shared, stream, extra) == (0, 77, None)
        name = self.code.functions[handle - FIRST_HANDLE]
        sizes = self.module.argument_bytes(name)
        devices = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        arguments = [ctypes.string_at(device, size) for device, size in zip(devices, sizes, strict=True)]
        self.module.launch(name, grid_and_block[:3], grid_and_block[3:], 0, arguments, seed=1, races=self.races)

    def fill(self, address: int, value: int, count: int, stream: int) -> None:
        self.module.memory.bytes_at(address, 4 * count)[:] = np.frombuffer(struct.pack("<I", value) * count, np.uint8)

    def copy(self, to: int, address: int, size: int, stream: int) -> None:
        if size:
            self.late.append((to, self.module.memory.bytes_at(address, size).tobytes()))

    def move(self, to: int, address: int, size: int, stream: int) -> None:
        if size:
            self.module.memory.bytes_at(to, size)[:] = self.module.memory.bytes_at(address, size).copy()

    def allocate(self, to: int, size: int, stream: int) -> None:
        address = self.module.memory.allocate(size, "stack")
        self.held.add(address)
        ctypes.c_uint64.from_address(to).value = address

    def free(self, address: int, stream: int) -> None:
        self.held.remove(address)
        self.module.memory.free(address)

    def wait(self, stream: int) -> None:
        for to, data in self.late:
            ctypes.memmove(to, data, len(data))
        self.late.clear()


class Planned:
    """The image of a schedule on arrays: outputs, the error record, what was printed, and what the driver was asked."""

    def __init__(self, schedule: Schedule, arguments: list[Any], *, races: bool = False, donated: bool = False) -> None:
        self.schedule, self.code = schedule, code_of(schedule)
        self.donated = donated  # outputs are the memory of the inputs that the plan gives them
        self.arguments = arguments
        self.driver = NotingDriver(self.code, races=races)
        self.record = np.zeros(5, np.int64)
        self.call = loader.Call(stream=77)
        self.polls = 0
        self.stop_after = -1
        self.printed: list[tuple[int, list[Any]]] = []
        self._kept = [kind(f) for kind, f in ((POLL_TYPE, self._poll), (PRINT_TYPE, self._print))]

    def run(self, **sizes: int) -> int:
        """The code that the entry returns."""
        memory, schedule = self.driver.module.memory, self.schedule
        sizes = {**sizes_of(schedule, self.arguments), **sizes}
        self.sizes = sizes
        self.image = loader.Image(self.code.image)
        entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(self.image.export("entry"))
        arena_bytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.image.export("arena_bytes"))
        names = (ctypes.c_int64 * max(1, len(schedule.sizes)))(*[sizes[name] for name in schedule.sizes])
        devices = [self.put(np.asarray(argument)) for argument in self.arguments]
        outputs = sorted((b for b in schedule.buffers if b.role == "output"), key=lambda b: b.position)
        donors = schedule.plan.donations if self.donated and schedule.plan is not None else {}
        inputs = {b.name: devices[b.position] for b in schedule.buffers if b.role == "input"}
        self.outputs = [
            (
                b,
                inputs[donors[b.name]]
                if b.name in donors
                else memory.allocate(max(1, dims.evaluate(b.bytes, sizes)), b.name),
            )
            for b in outputs
        ]
        devices += [address for _, address in self.outputs]
        devices += [self.put(value.value) for _, value in self.code.constants]
        if self.code.reports:
            devices.append(self.record.ctypes.data)
        self.pinned = np.zeros(1 << 16, np.uint8)
        if self.code.waits:
            devices.append(self.pinned.ctypes.data)
        devices += [FIRST_HANDLE + number for number in range(len(self.code.functions))]
        size = arena_bytes(names)
        self.call.arena = memory.allocate(max(1, size), "arena")
        host = loader.Host(abi_version=loader.ABI_VERSION, driver=ctypes.addressof(self.driver.table))
        host.poll, host.print = (ctypes.cast(each, ctypes.c_void_p).value for each in self._kept)
        operands = (ctypes.c_void_p * len(devices))(*devices)
        code = int(entry(ctypes.byref(host), ctypes.byref(self.call), operands, names))
        self.driver.wait(77)
        assert not self.driver.held
        return code

    def _poll(self, host: int) -> int:
        self.polls += 1
        return int(self.polls > self.stop_after >= 0)

    def _print(self, host: int, call: int) -> int:
        site = self.schedule.prints[self.call.print_site]
        devices = (ctypes.c_void_p * max(1, len(site.operands))).from_address(self.call.print_operands)
        arrays = []
        for operand, device in zip(site.operands, devices, strict=False):
            shape = [dims.evaluate(parse_dim(str(extent)), self.sizes) for extent in operand.shape]
            dtype = dtype_named(operand.dtype)
            data = ctypes.string_at(device, int(np.prod(shape)) * dtype.itemsize)
            arrays.append(np.frombuffer(data, dtype).reshape(shape))
        self.printed.append((self.call.print_site, arrays))
        return loader.OK

    def put(self, array: Any) -> int:
        memory = self.driver.module.memory
        address = memory.allocate(max(1, array.nbytes))
        memory.bytes_at(address, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)
        return int(address)

    def results(self) -> list[Any]:
        results = []
        for buffer, address in self.outputs:
            flat = self.driver.module.memory.bytes_at(address, dims.evaluate(buffer.bytes, self.sizes))
            shape = tuple(dims.evaluate(extent, self.sizes) for extent in buffer.type.shape)
            results.append(flat.copy().view(buffer.type.dtype).reshape(shape))
        return results
