"""Code for GPUs in this process: loaded once a device, and called on the current stream.

Calls wait for the device only where their code has to: for branches, loops and prints (``codegen/cuda/host_entry.py``).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.errors import DeviceError
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks, loader
from jitgraph.runtime.cuda import buffers as memory
from jitgraph.runtime.cuda import cublas
from jitgraph.runtime.cuda import memory as blocks
from jitgraph.runtime.cuda.buffers import CudaBuffer
from jitgraph.runtime.cuda.deferred_errors import RECORD_BYTES, RECORD_ROOM, DeferredError, joined
from jitgraph.runtime.cuda.devices import Device
from jitgraph.runtime.cuda.driver import OUT_OF_MEMORY, Driver
from jitgraph.runtime.cuda.replay import LEAST_LAUNCHES, Replays
from jitgraph.runtime.cuda.streams import device_named
from jitgraph.runtime.device_payload import LIBRARY_FAILED, DevicePayload, LibraryProduct
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader.abi import ENTRY_TYPE
from jitgraph.runtime.loader.entry import CallState, Printer, ShapePlan, check_error, parsed_sizes

_ALIGNMENT: Final = 16  # of device addresses that kernels are given
_MOST_SHAPES: Final = 256
_NOTHING_TAKEN: Final[dict[int, CudaBuffer]] = {}

Shapes = tuple[tuple[int, ...], ...]


class _OnDevice:
    """The code on one device: handles of its functions, its constants, the host's table, and what calls have found."""

    def __init__(self, device: Device, parts: DevicePayload) -> None:
        module = device.modules.load(parts.ptx, parts.llvm_ir)
        self.handles = [module.function(name).handle for name in parts.functions]
        self.handles += [_prepared(device, product) for product in parts.products]
        self.constants = [_uploaded(device, array) for array in parts.constants]
        self.host = loader.Host(abi_version=loader.ABI_VERSION, driver=device.context.driver.table_address)
        self.host_address = ctypes.addressof(self.host)
        self.calls: dict[Shapes, ShapeCall] = {}
        self._seen_by = {device.context.stream} if self.constants else None

    def be_seen_by(self, stream: int) -> None:
        """Let work of a stream come after that which wrote the constants, which is waited for once."""
        if self._seen_by is not None and stream not in self._seen_by:
            for buffer in self.constants:
                buffer.read_on(stream)
            self._seen_by.add(stream)


class ShapeCall(NamedTuple):
    """What calls on one device with arguments of certain shapes have in common."""

    device: Device
    loaded: _OnDevice
    plan: ShapePlan
    sizes: tuple[tuple[int, int], ...]  # bytes of each output, and of the block that holds it
    pack: Callable[..., bytes]  # the addresses that the entry is given
    last: tuple[int, ...]  # those of them that are the same in every call: constants, and functions at the end
    pinned_bytes: int  # of the memory in which the entry looks at what is on the device; 0 for one that never waits
    replays: Replays | None


class CudaExecutable(Executable):
    """A compiled graph for GPUs of one target; safe from several threads, on any number of devices.

    ``llvm_ir`` is the IR of its kernels and ``asm`` their PTX.
    """

    def __init__(
        self,
        image: bytes,
        signature: loader.Signature,
        parts: DevicePayload,
        target: Any,
        stages: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(
            image, signature, llvm_ir=parts.llvm_ir, asm=lambda: parts.ptx.decode(), stages=stages, target=target
        )
        self.parts = parts
        self.code_bytes += len(parts.ptx) + sum(array.nbytes for array in parts.constants)
        self._function = ENTRY_TYPE(self.entry.address)
        self._host_sizes = parsed_sizes(parts.host_sizes)
        self._lock = forks.lock()
        self._states: list[CallState] = []  # of calls that have ended

    def prepared(self, device: Device, shapes: Shapes) -> ShapeCall:
        """What calls with inputs of these shapes have in common, to be kept for ``launch`` as long as the device is in
        use; ArgumentError where the shapes do not fit."""
        loaded = self._on(device)
        call = loaded.calls.get(shapes)
        if call is not None:
            return call
        plan = self.entry.plan(shapes)
        last = (*[buffer.address for buffer in loaded.constants], *loaded.handles)
        pinned = self._pinned_bytes(plan) if self._host_sizes else 0
        count = len(shapes) + len(plan.outputs) + len(last) + self.parts.reports + bool(pinned)
        if len(loaded.calls) >= _MOST_SHAPES:
            loaded.calls.clear()
        call = loaded.calls[shapes] = ShapeCall(
            device,
            loaded,
            plan,
            sizes=tuple([(size, blocks.rounded(size)) for *_, size in plan.outputs]),
            pack=struct.Struct(f"{count}P").pack,
            last=last,
            pinned_bytes=pinned,
            replays=Replays(device.capturing) if self.parts.launches >= LEAST_LAUNCHES else None,
        )
        return call

    def launch(
        self,
        call: ShapeCall,
        inputs: Sequence[CudaBuffer],
        location: str = "",
        taken: Mapping[int, CudaBuffer] = _NOTHING_TAKEN,
    ) -> list[CudaBuffer]:
        """The outputs for inputs on a device, asked for on its current stream of this thread, and not waited for.

        What a check in a kernel finds is raised by whoever waits for the device, or by a later call, and whoever reads
        an output of a call that failed, or of one that followed from it, meets DeviceError. CudaError where the driver
        refuses; DeviceError for inputs that are known not to have been computed. ``call`` is what ``prepared`` gave for
        the device and the shapes of the inputs, ``location`` the user's line, where the graph itself tells none.
        ``taken`` has buffers that outputs take over: inputs of the signature's aliases that nobody else sees.
        """
        device, loaded = call.device, call.loaded
        context = device.context
        driver, stream = context.enter(), context.stream
        loaded.be_seen_by(stream)
        deferred = record = pinned = None
        if self.parts.reports:
            deferred = DeferredError(is_open=True)
            record = device.reports.take(driver, stream, self._failed_check(location), deferred)
        try:
            addresses, inherited = [], None
            copies = []  # that are kept until the launches are on the stream, so that no output lies there
            for buffer in inputs:
                readable = buffer
                if buffer.address % _ALIGNMENT:
                    readable = memory.copied(buffer, device)
                    copies.append(readable)
                if readable.stream == stream and readable.deferred_error is None:
                    addresses.append(readable.address)
                else:
                    addresses.append(readable.read_on(stream))
                if buffer.deferred_error is not None:
                    inherited = [buffer.deferred_error] if inherited is None else [*inherited, buffer.deferred_error]
            if inherited is not None:
                before = joined(inherited)
                if deferred is None:
                    deferred = before
                elif before is not None:
                    deferred.before = (before,)
            outputs, take = [], device.memory.take
            for number, (size, rounded) in enumerate(call.sizes):
                if number in taken:
                    output = taken[number]
                    output.written_on(stream)
                else:
                    block = take(rounded, stream)
                    output = CudaBuffer(device, block.address, size, stream, block, None)
                outputs.append(output)
                addresses.append(output.address)
            pinned = device.pinned.take(call.pinned_bytes) if call.pinned_bytes else None
            if record is None and pinned is None:
                addresses += call.last
            else:
                between = [address for address in (record, pinned) if address is not None]
                addresses += (*call.last[: len(loaded.constants)], *between, *loaded.handles)
            again = not taken and not self.signature.prints
            self._enter(driver, call, addresses, record, stream, again=again)
            if pinned is not None:
                device.pinned.give_back(pinned)
                pinned = None
        except BaseException:
            if record is not None:
                device.reports.forget(record)
            if pinned is not None:  # a copy to it may still be under way
                device.pinned.give_back_behind(pinned, stream)
            raise
        if deferred is not None:
            for output in outputs:
                output.deferred_error = deferred
        return outputs

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        """The outputs in the host's memory for arrays there, computed on this thread's current device."""
        device = device_named(None)
        arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in buffers]
        shapes = tuple(array.shape for array in arrays)
        call = self.prepared(device, shapes)
        outputs = self.launch(call, [_uploaded(device, array) for array in arrays])
        results = []
        for buffer, (shape, dtype, _) in zip(outputs, call.plan.outputs, strict=True):
            result: loader.Array = np.empty(shape, dtype)
            buffer.to_host(result.ctypes.data)
            results.append(result)
        return results

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """As ``run``, in the structure that the function returns."""
        return self.entry.result(self.run(self.entry.arguments(args, kwargs)))

    def _enter(
        self,
        driver: Driver,
        call: ShapeCall,
        addresses: Sequence[int],
        record: int | None,
        stream: int,
        *,
        again: bool,
    ) -> None:
        """One entry; ``again``: what it has asked for may be asked for once more, where the device had no memory."""
        device, loaded = call.device, call.loaded
        try:
            state = self._states.pop()
        except IndexError:
            state = CallState()
        ask, plan = state.record, call.plan
        arena = device.memory.allocate(plan.arena_bytes) if plan.arena_bytes else None
        ask.arena = None if arena is None else arena.address
        ask.stream = stream
        code = loader.OK
        try:
            if call.replays is None or not self._is_replayed(driver, call, addresses, record, state):
                host = self._asking_host(loaded, state, plan) if self._host_sizes else None
                at = loaded.host_address if host is None else ctypes.addressof(host)
                entered = at, state.address, call.pack(*addresses), plan.dims_address
                code = self._function(*entered)
                if code == -OUT_OF_MEMORY and again:  # of a stack; what it has written is written again
                    device.memory.empty_cache()
                    code = self._function(*entered)
        finally:
            if arena is not None:
                device.memory.give_back(arena)  # work of the same stream that uses it next comes after
        if code < LIBRARY_FAILED:
            raise cublas.error(LIBRARY_FAILED - code, f"{self.signature.name}: launch {state.error.check_id}")
        if code < 0:
            raise driver.error(-code, f"{self.signature.name}: launch {state.error.check_id}")
        if code != loader.OK:
            self.entry.fail(code, state)
        state.printer = None
        self._states.append(state)

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

    def _is_replayed(
        self, driver: Driver, call: ShapeCall, addresses: Sequence[int], record: int | None, state: CallState
    ) -> bool:
        """Replay the call where there is a graph for its addresses.

        Its error record goes to where no one looks, and from the arena to the call's own place behind it: as long as
        the device has work, each call has another place.
        """
        ask, stream, device = state.record, state.record.stream, call.device
        patched = list(addresses)
        if record is not None:
            patched[len(patched) - len(call.loaded.handles) - 1] = device.reports.nowhere(driver)
        packed = call.pack(*patched)

        def is_asked(captures: int) -> bool:
            ask.stream = captures
            try:
                code: int = self._function(call.loaded.host_address, state.address, packed, call.plan.dims_address)
            finally:
                ask.stream = stream
            return code == loader.OK

        assert call.replays is not None
        graph = call.replays.graph((packed, ask.arena, device.memory.generation), driver, is_asked)
        if graph is None:
            return False
        driver.launch_graph(graph.handle, stream or 0)
        if record is not None:
            at = (ask.arena or 0) + call.plan.arena_bytes - RECORD_ROOM
            driver.copy_to_host(record, at, RECORD_BYTES, stream or 0)
        return True

    def _on(self, device: Device) -> _OnDevice:
        on_device: _OnDevice | None = device.loaded.get(self)
        if on_device is None:
            with self._lock:
                on_device = device.loaded.get(self)
                if on_device is None:
                    on_device = device.loaded[self] = _OnDevice(device, self.parts)
        return on_device

    def _failed_check(self, location: str) -> Callable[[int, int, int], BaseException]:
        checks = self.signature.checks  # and not the code, which may go before its error is seen

        def describe(number: int, index: int, bound: int) -> BaseException:
            check = checks[number]
            return check_error(check if check.location else check.but_with(location=location), index, bound)

        return describe


def _prepared(device: Device, product: LibraryProduct) -> int:
    products = device.products
    if products is None:
        raise DeviceError(f"{device.name} has no cuBLASLt, for which this code was made", hint="compile it again")
    return products.prepared(product)


def _uploaded(device: Device, array: Any) -> CudaBuffer:
    dense = np.ascontiguousarray(array)
    return memory.of_host(device, dense.ctypes.data, dense.nbytes)
