"""Code for GPUs in this process: loaded once a device, and called on the current stream.

Calls wait for the device only where their code has to: for branches, loops and prints (``codegen/cuda/steps.py``).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.records import NamedTuple
from jitgraph.runtime import forks, loader
from jitgraph.runtime.cuda import buffers as memory
from jitgraph.runtime.cuda.buffers import CudaBuffer
from jitgraph.runtime.cuda.devices import Device
from jitgraph.runtime.cuda.names import device_named
from jitgraph.runtime.cuda.results import OUT_OF_MEMORY
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader.abi import ENTRY_TYPE
from jitgraph.runtime.loader.calls import CallState, Printer, ShapePlan, parsed_sizes
from jitgraph.runtime.loader.entry import check_error

_ALIGNMENT: Final = 16  # of device addresses that kernels are given

Shapes = tuple[tuple[int, ...], ...]


class DeviceParts(NamedTuple):
    """What a call needs beside the host's image: the PTX, the IR that it was made of, the names of the functions whose
    handles the entry is given, the constants, whether kernels may fail, and the sizes of pinned memory of which the
    entry is given the greatest: none where it never waits."""

    ptx: bytes
    llvm_ir: str
    functions: tuple[str, ...]
    constants: tuple[Any, ...]
    reports: bool
    host_sizes: tuple[int | str, ...]


class _OnDevice:
    """The code on one device: handles of its functions, its constants, and the host's table."""

    def __init__(self, device: Device, parts: DeviceParts) -> None:
        module = device.modules.load(parts.ptx, parts.llvm_ir)
        self.handles = [module.function(name).handle for name in parts.functions]
        self.constants = [_uploaded(device, array) for array in parts.constants]
        self.host = loader.Host(abi_version=loader.ABI_VERSION, driver=device.context.driver.table_address)


class CudaExecutable(Executable):
    """A compiled graph for GPUs of one target; safe from several threads, on any number of devices.

    ``llvm_ir`` is the IR of its kernels and ``asm`` their PTX.
    """

    def __init__(self, image: bytes, signature: loader.Signature, parts: DeviceParts, target: Any) -> None:
        super().__init__(image, signature, llvm_ir=parts.llvm_ir, asm=lambda: parts.ptx.decode(), target=target)
        self.parts = parts
        self.code_bytes += len(parts.ptx) + sum(array.nbytes for array in parts.constants)
        self._function = ENTRY_TYPE(self.entry.address)
        self._host_sizes = parsed_sizes(parts.host_sizes)
        self._lock = forks.lock()

    @property
    def waits(self) -> bool:
        """Whether a call waits for the device, so that it cannot be captured into a graph."""
        return bool(self._host_sizes)

    def launch(
        self, device: Device, given: Sequence[CudaBuffer], shapes: Shapes, location: str = ""
    ) -> list[CudaBuffer]:
        """The outputs for inputs on ``device``, asked for on its current stream of this thread, and not waited for.

        What a check in a kernel finds is raised by whoever waits for the device, or by a later call. ArgumentError
        where the shapes do not fit; CudaError where the driver refuses. ``location`` is the user's line, where the
        graph itself tells none.
        """
        plan = self.entry.plan(shapes)
        loaded = self._on(device)
        context = device.context
        driver, stream = context.enter(), context.stream
        record = device.reports.take(driver, stream, self._failed_check(location)) if self.parts.reports else None
        try:
            outputs = [memory.allocate(device, size) for _, _, size in plan.outputs]
            inputs = [_aligned(buffer, device) for buffer in given]
            addresses = [buffer.read_on(stream) for buffer in inputs]
            addresses += [buffer.address for buffer in outputs]
            addresses += [buffer.read_on(stream) for buffer in loaded.constants]
            addresses += [] if record is None else [record]
            arena = memory.allocate(device, plan.arena_bytes) if plan.arena_bytes else None
            if not self._host_sizes:
                self._enter(device, loaded, plan, [*addresses, *loaded.handles], stream, arena)
            else:
                pinned = device.pinned.take(self._pinned_bytes(plan))
                self._enter(device, loaded, plan, [*addresses, pinned, *loaded.handles], stream, arena)
                device.pinned.give_back(pinned)
        except BaseException:
            if record is not None:
                device.reports.forget(record)
            raise
        return outputs

    def outputs_of(self, shapes: Shapes) -> tuple[tuple[tuple[int, ...], Any, int], ...]:
        """Shape, dtype and bytes of each output for inputs of these shapes."""
        return self.entry.plan(shapes).outputs

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        """The outputs in the host's memory for arrays there, computed on this thread's current device."""
        device = device_named(None)
        arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in buffers]
        shapes = tuple(array.shape for array in arrays)
        found = self.launch(device, [_uploaded(device, array) for array in arrays], shapes)
        results = []
        for buffer, (shape, dtype, _) in zip(found, self.outputs_of(shapes), strict=True):
            made: loader.Array = np.empty(shape, dtype)
            buffer.to_host(made.ctypes.data)
            results.append(made)
        return results

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """As ``run``, in the structure that the function returns."""
        return self.entry.result(self.run(self.entry.arguments(args, named)))

    def _enter(
        self, device: Device, loaded: _OnDevice, plan: ShapePlan, addresses: Sequence[int], stream: int, arena: Any
    ) -> None:
        call = CallState()
        call.record.stream = stream
        call.record.arena = None if arena is None else arena.address
        packed = struct.pack(f"{len(addresses)}P", *addresses)
        host = self._asking_host(loaded, call, plan) if self._host_sizes else loaded.host
        code = self._function(ctypes.addressof(host), call.address, packed, plan.dims_address)
        if code == -OUT_OF_MEMORY and not self.signature.prints:  # of a stack; what it has written is written again
            device.memory.empty_cache()
            code = self._function(ctypes.addressof(host), call.address, packed, plan.dims_address)
        if code < 0:
            raise device.context.driver.error(-code, f"{self.signature.name}: launch {call.error.check_id}")
        if code != loader.OK:
            self.entry.fail(code, call)

    def _asking_host(self, loaded: _OnDevice, call: CallState, plan: ShapePlan) -> loader.Host:
        """The host of a call that asks whether to stop, and prints."""
        host = loader.Host.from_buffer_copy(self.entry.runtime.host)
        host.driver = loaded.host.driver
        if self.signature.prints:
            call.printer = Printer(call.record, self.signature)
            host = call.printer.host(host, plan.dims)
        return host

    def _pinned_bytes(self, plan: ShapePlan) -> int:
        dims = dict(zip(self.signature.dims, plan.dims, strict=False))
        return max(size if isinstance(size, int) else size.evaluate(dims) for size in self._host_sizes)

    def _on(self, device: Device) -> _OnDevice:
        found: _OnDevice | None = device.loaded.get(self)
        if found is None:
            with self._lock:
                found = device.loaded.get(self)
                if found is None:
                    found = device.loaded[self] = _OnDevice(device, self.parts)
        return found

    def _failed_check(self, location: str) -> Callable[[int, int, int], BaseException]:
        checks = self.signature.checks  # and not the code, which may go before its error is seen

        def describe(number: int, index: int, bound: int) -> BaseException:
            check = checks[number]
            return check_error(check if check.location else check.but_with(location=location), index, bound)

        return describe


def _uploaded(device: Device, array: Any) -> CudaBuffer:
    dense = np.ascontiguousarray(array)
    return memory.of_host(device, dense.ctypes.data, dense.nbytes)


def _aligned(buffer: CudaBuffer, device: Device) -> CudaBuffer:
    """The buffer, or a copy of memory of somebody else's that begins anywhere."""
    return memory.copied(buffer, device) if buffer.address % _ALIGNMENT else buffer
