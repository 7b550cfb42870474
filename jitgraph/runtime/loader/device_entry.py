"""An entry on a device: its code there, and calls that wait for their results."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.runtime.loader.abi import ENTRY_TYPE, OK
from jitgraph.runtime.loader.arguments import as_array
from jitgraph.runtime.loader.artifact import Artifact
from jitgraph.runtime.loader.calls import CallState, ShapePlan, parsed_sizes
from jitgraph.runtime.loader.cuda import CudaDevice
from jitgraph.runtime.loader.device_arrays import DEVICE_ALIGNMENT, DeviceArray, c_addresses, host_copy
from jitgraph.runtime.loader.device_borrowing import borrowed
from jitgraph.runtime.loader.device_code import DeviceCode
from jitgraph.runtime.loader.device_memory import DevicePool
from jitgraph.runtime.loader.dtypes import Array, dtype_named
from jitgraph.runtime.loader.entry import Entry, check_error
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.host import Runtime
from jitgraph.runtime.loader.image import Image
from jitgraph.runtime.loader.signatures import Signature

_RECORD_BYTES: Final = 40  # a lock, then the order of the failure, the value, the bound and the number of the check
_NO_FAILURE: Final = -1


def best_code(codes: Sequence[DeviceCode], device: CudaDevice, entry: str) -> DeviceCode:
    """The newest code that the device runs, which its driver compiles for it; LoadError where there is none."""
    fitting = [code for code in codes if code.capability <= device.capability]
    if not codes:
        raise LoadError(f"{entry!r} has no code for GPUs; save it with targets=('cuda',), or load it for the CPU")
    if not fitting:
        oldest = min(codes, key=lambda code: code.capability)
        raise LoadError(
            f"{entry!r} has code for GPUs from {oldest.generation} on, but {device.title} is sm_{device.capability}; "
            "load the model for the CPU"
        )
    return max(fitting, key=lambda code: code.capability)


class DeviceEntry:
    """One entry of a file on a device. The caller has made the device current, and calls one at a time."""

    def __init__(
        self, artifact: Artifact, name: str, signature: Signature, pool: DevicePool, weights: Mapping[str, Array]
    ) -> None:
        """Load the code that fits the device best, with its constants; LoadError where there is none."""
        device = self.device = pool.device
        self.pool = pool
        self.code = best_code(artifact.device_codes(name, signature, weights), device, name)
        self._table = device.driver.table(self.code.driver)
        self._specs = [(spec, dtype_named(spec.dtype)) for spec in signature.parameters]
        runtime = Runtime(threads=1)
        runtime.host.driver = ctypes.addressof(self._table)
        self.entry = Entry(Image(artifact.read(self.code.host)), signature, runtime=runtime)
        self._function = ENTRY_TYPE(self.entry.address)
        self._module = device.load(bytes(artifact.read(self.code.ptx)))
        try:
            handles = [device.kernel(self._module, kernel) for kernel in self.code.functions]
            self._constants = [host_copy(weights[key], pool) for key, _ in self.code.constants]
            self._record = device.pinned(_RECORD_BYTES) if self.code.reports else 0
        except BaseException:
            device.unload(self._module)
            raise
        self._before = [array.address for array in self._constants] + ([self._record] if self._record else [])
        self._handles = handles
        self._pinned_sizes = parsed_sizes(self.code.pinned)
        self._pinned, self._pinned_bytes = 0, 0

    def close(self) -> None:
        """Give the code back; what it was given of the pool goes with that."""
        self.device.unload(self._module)
        for address in (self._record, self._pinned):
            if address:
                self.device.free_pinned(address)

    def _waiting(self, plan: ShapePlan) -> list[int]:
        """The address of pinned memory that is large enough for a call, where the entry needs any."""
        if not self._pinned_sizes:
            return []
        dims = dict(zip(self.entry.signature.dims, plan.dims, strict=False))
        needed = max(1, *[size if isinstance(size, int) else size.evaluate(dims) for size in self._pinned_sizes])
        if needed > self._pinned_bytes:
            if self._pinned:
                self.device.free_pinned(self._pinned)
                self._pinned, self._pinned_bytes = 0, 0
            self._pinned, self._pinned_bytes = self.device.pinned(needed), needed
        return [self._pinned]

    def argument(self, value: Any, index: int) -> DeviceArray:
        """An argument on the device: the caller's memory there, or a copy of what lies on the host."""
        spec, dtype = self._specs[index]
        where = f"{self.entry.signature.name}, argument {index} ({spec.name})"
        array = value if isinstance(value, DeviceArray) else borrowed(value, self.device, spec, dtype, where)
        if array is None or array.device.ordinal != self.device.ordinal or array.dtype != dtype:
            return host_copy(as_array(value, spec, dtype, where), self.pool)
        if array.address % DEVICE_ALIGNMENT:
            block = self.pool.take(array.nbytes)
            self.device.copy(block.address, array.address, array.nbytes)
            return DeviceArray(self.device, block.address, array.shape, dtype, (block, array))
        return array

    def run(self, arguments: Sequence[DeviceArray]) -> list[DeviceArray]:
        """The outputs for arguments and state, computed when this returns; raises what a check has found."""
        entry = self.entry
        plan = entry.plan(tuple(array.shape for array in arguments))
        results = []
        for shape, dtype, size in plan.outputs:
            block = self.pool.take(size)
            results.append(DeviceArray(self.device, block.address, shape, dtype, block))
        addresses = [array.address for array in (*arguments, *results)]
        addresses += [*self._before, *self._waiting(plan), *self._handles]
        arena = self.pool.take(plan.arena_bytes)
        call = CallState()
        call.record.stream = self.device.stream
        call.record.arena, call.record.arena_bytes = arena.address, plan.arena_bytes
        buffers = c_addresses(addresses)
        table = entry.own_host(call, plan)
        try:
            code = self._function(ctypes.addressof(table), call.address, ctypes.addressof(buffers), plan.dims_address)
        finally:
            self.device.wait()
            call.settle()
        if code < 0:
            raise self.device.driver.error(-code, f"{entry.signature.name}: launch {call.error.check_id}")
        if code != OK:
            entry.fail(code, call)
        self._look()
        return results

    def _look(self) -> None:
        if not self._record:
            return
        _, order, value, bound, number = (ctypes.c_int64 * 5).from_address(self._record)
        if order != _NO_FAILURE:
            if not 0 <= number < len(self.code.checks):
                raise LoadError(f"{self.entry.signature.name}: a kernel reports check {number}, which the file lacks")
            raise check_error(self.code.checks[number], value, bound)
