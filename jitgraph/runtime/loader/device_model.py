"""The model on a device: its code and state there, and calls that take and give arrays of the host or of the device."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from jitgraph.runtime.loader.abi import ENTRY_TYPE, OK
from jitgraph.runtime.loader.artifact import Artifact, DeviceCode
from jitgraph.runtime.loader.cuda import CudaDevice, DevicePool
from jitgraph.runtime.loader.device_arrays import DEVICE_ALIGNMENT, DeviceArray, borrowed, c_addresses, host_copy
from jitgraph.runtime.loader.entry import CallState, Entry, ShapePlan, as_array, check_error, parsed_sizes
from jitgraph.runtime.loader.errors import ArgumentError, LoadError
from jitgraph.runtime.loader.host import Runtime
from jitgraph.runtime.loader.image import Image
from jitgraph.runtime.loader.model import Model, requested_level, state_copy, state_dtypes, verify_state
from jitgraph.runtime.loader.signatures import Signature
from jitgraph.runtime.loader.specs import Array, dtype_named

# ----------------------------------------------------------------------
# An entry on a device: its code there, and calls that wait for their results.

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


# ----------------------------------------------------------------------
# The model on a device: its state lies there, and calls take and give arrays of the host or of the device.


class DeviceResources:
    """What a model has on a device. Its calls take turns on one stream.

    The context and the memory of results that others hold outlive it.
    """

    def __init__(self, name: str) -> None:
        """LoadError where there is no such device."""
        self.device = CudaDevice(name)
        self.pool = DevicePool(self.device)
        self.entries: dict[str, DeviceEntry] = {}
        self._process = os.getpid()

    def close(self) -> None:
        """Give everything back; a child of a fork leaves it to its parent."""
        if os.getpid() != self._process:
            return
        with self.device.current():
            for entry in self.entries.values():
                entry.close()
        self.entries.clear()
        self.pool.close()


class Fetched(Sequence[Any]):
    """Arrays of a device, each copied to the host where it is asked for."""

    def __init__(self, arrays: Sequence[DeviceArray]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, number: Any) -> Any:
        return self._arrays[number].numpy()


class DeviceModel(Model):
    """A model on a device. Calls wait for their results; those of several threads take turns."""

    def __init__(self, artifact: Artifact, device: str, *, results: str = "numpy") -> None:
        """Load every entry and the state to ``device``; ``results`` is "numpy", or "device" for arrays there."""
        if results not in ("numpy", "device"):
            raise ArgumentError(f"results={results!r:.40} is neither 'numpy' nor 'device'")
        self.metadata = artifact.metadata()
        weights = artifact.weights()
        resources = self._resources = DeviceResources(device)
        # Not at the end of the process: the driver may be gone then.
        self._end = weakref.finalize(self, resources.close)
        self._end.atexit = False
        self.device = resources.device.name
        self._fetches = results == "numpy"
        self._entries: dict[str, Entry] = {}
        self._choices = artifact.specialisations()
        try:
            with resources.device.current():
                for name, signature in artifact.signatures().items():
                    for spec in signature.state:
                        verify_state(spec, weights)
                    loaded = resources.entries[name] = DeviceEntry(artifact, name, signature, resources.pool, weights)
                    self._entries[name] = loaded.entry
                    self.target = loaded.code.generation
                keys = {spec.key for entry in self._entries.values() for spec in entry.signature.state}
                self._placed = {key: host_copy(weights[key], resources.pool) for key in keys}
                resources.device.wait()
        except BaseException:
            self._end()
            raise
        self._dtypes = state_dtypes(artifact, self._entries.values())
        self._unused = {key: array for key, array in weights.items() if key not in keys}
        self._lock = threading.RLock()
        self._default = self.main_entry()

    @property
    def state(self) -> Mapping[str, Array]:
        """The state by key as read-only arrays of the host: a copy that later calls leave as it is."""
        with self._lock:
            state = {**self._unused, **{key: array.numpy() for key, array in self._placed.items()}}
        for array in state.values():
            array.flags.writeable = False
        return MappingProxyType(state)

    def set_state(self, values: Mapping[str, Any]) -> None:
        """As ``Model.set_state``; the arrays are copied to the device."""
        with self._lock, self._resources.device.current():
            state = {**self._unused, **self._placed}
            arrays = {key: state_copy(key, value, state) for key, value in values.items()}
            uploaded = {key: host_copy(new, self._resources.pool) for key, new in arrays.items() if key in self._placed}
            self._resources.device.wait()
            self._placed |= uploaded
            self._unused |= {key: new for key, new in arrays.items() if key not in uploaded}

    def _run_native(self, entry: str, native: Entry, values: Sequence[Any]) -> Any:
        device_entry = self._resources.entries[entry]
        signature = native.signature
        with self._lock, self._resources.device.current():
            arguments = [device_entry.argument(value, index) for index, value in enumerate(values)]
            outputs = device_entry.run([*arguments, *(self._placed[spec.key] for spec in signature.state)])
            for output, index in signature.writes:
                self._placed[signature.state[index].key] = outputs[output]
            return native.result(Fetched(outputs) if self._fetches else outputs)


def load(
    path: str | os.PathLike[str],
    *,
    level: str | None = None,
    device: str = "cpu",
    results: str = "numpy",
    custom_ops: Mapping[str, Any] | None = None,
) -> Model:
    """The model in the file ``path``. It runs the file's native code; LoadError where the file is not sound.

    ``level`` (or JITGRAPH_TARGET_CPU) picks a level below this machine's best. The model takes arrays (or lists and
    numbers) of the dtypes and sizes that ``inputs`` lists, else ArgumentError, and gives arrays.

    ``device`` is "cpu", or a GPU such as "cuda:0" for a file with code for it: then the state lies there, arguments
    may be arrays of other libraries there (DLPack, ``__cuda_array_interface__``), and with ``results="device"`` so are
    the results, which others take by the same protocols. LoadError where there is no driver, no such device, or no code
    that it runs.

    ``custom_ops`` are the functions of the ops that the file calls by their names: functions of NumPy arrays that give
    an array or a tuple of them, or pointers of ctypes to ``int32 f(void **inputs, void **outputs, int64 *sizes)``, with
    dense arrays and the extents of all operands, then results. LoadError names one that is missing.
    """
    try:
        artifact = Artifact(path)
        if device != "cpu":
            return DeviceModel(artifact, device, results=results)
        return Model(artifact, level=level or requested_level(), custom_ops=custom_ops)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from None
