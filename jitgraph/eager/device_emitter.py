"""Ops that run at once on a GPU: each is a graph of one op, compiled for the types of its operands and cached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from jitgraph import config
from jitgraph.compiler import Cache, compile
from jitgraph.dtypes import is_inexact
from jitgraph.eager import placement
from jitgraph.eager.anomalies import check_finite
from jitgraph.eager.kernels import exact
from jitgraph.eager.placement import DeviceValue, device_type
from jitgraph.eager.records import GraphRecord, OpRecord
from jitgraph.errors import DeviceError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Attrs, Graph, Value
from jitgraph.ir.op import Op
from jitgraph.ir.target import GENERATIONS, Target
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.passes.autodiff import vjp_graph
from jitgraph.runtime import shared
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.cuda.devices import Device, devices
from jitgraph.runtime.cuda.executable import CudaExecutable, ShapeCall
from jitgraph.runtime.cuda.streams import device_named

# ----------------------------------------------------------------------
# Graphs compiled for a GPU, as functions of values there.

_MOST_SHAPES: Final = 256
_NOTHING_TAKEN: Final[Mapping[int, DeviceValue]] = {}


_Prepared = tuple[ShapeCall, list[TensorType]]
"""What calls with certain shapes have in common, and the types of their outputs."""


class DeviceProgram:
    """A compiled graph on one device: values in, values out, without waiting for them."""

    def __init__(self, executable: CudaExecutable, device: Device) -> None:
        self.executable = executable
        self.device = device
        self.signature = executable.signature
        self.target = executable.target
        self.is_found = executable.is_found
        self._calls: dict[Any, _Prepared] = {}  # by the shapes of the inputs
        self._only: _Prepared | None = None  # where no size has a name

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR of the kernels."""
        return self.executable.llvm_ir

    @property
    def asm(self) -> str:
        """The PTX of the kernels."""
        return self.executable.asm

    @property
    def stages(self) -> Any:
        """The stages that the graph went through."""
        return self.executable.stages

    def run(self, buffers: Sequence[DeviceValue], donate: Iterable[int] = ()) -> list[Any]:
        """As ``call``, with nothing taken over."""
        return self.call(buffers)

    def call(
        self,
        values: Sequence[DeviceValue],
        taken: Mapping[int, DeviceValue] = _NOTHING_TAKEN,
        *,
        tells_line: bool = False,
    ) -> list[Any]:
        """The outputs for values on the device; ``taken`` has, by output, inputs of the signature's aliases whose
        memory that output takes over, so that it is the very value given.

        ``tells_line``: errors of checks name the user's line of this call, as for a graph that has none.
        """
        prepared = self._only
        if prepared is None:
            shapes: Any = tuple([value.type.shape for value in values])
            prepared = self._calls.get(shapes) or self._prepared(shapes)
        location = Location.of_user() if tells_line and self.executable.parts.reports else None
        buffers = self.executable.launch(
            prepared[0],
            [value.buffer for value in values],
            "" if location is None else str(location),
            {number: value.buffer for number, value in taken.items()} if taken else {},
        )
        results = list(map(DeviceValue, buffers, prepared[1]))
        for number, value in taken.items():
            results[number] = value
        return results

    def _prepared(self, shapes: tuple[tuple[int, ...], ...]) -> _Prepared:
        call = self.executable.prepared(self.device, shapes)
        prepared = call, [device_type(dtype, shape) for shape, dtype, _ in call.plan.outputs]
        if not self.signature.dims:
            self._only = prepared
        if len(self._calls) >= _MOST_SHAPES:
            self._calls.clear()
        self._calls[shapes] = prepared
        return prepared


def program_for(
    graph: Graph, device: Device, *, donate: Sequence[tuple[int, int]] = (), fastmath: bool = False
) -> DeviceProgram:
    """The code of a graph for a device; equal graphs share it, also on other devices of the same generation.

    ``donate`` holds pairs (output, input) that may share memory.
    """
    executable: Any = compile(graph, target_of(device), donate=tuple(donate), fastmath=fastmath, cache=_process_cache())
    if not isinstance(executable, CudaExecutable):
        raise UnsupportedOp(f"{graph.name} on {device.name} under JITGRAPH_INTERPRET", hint="x.cpu() first")
    return DeviceProgram(executable, device)


def target_of(device: Device) -> Target:
    """What code for a device is made for: its generation, and the order of sums that JITGRAPH_CUDA_ORDER asks for.

    DeviceError where the device is older than all generations that are known.
    """
    major, minor = devices().driver.capability(device.ordinal)
    known = max((sm for sm in GENERATIONS if sm <= 10 * major + minor), default=None)
    if known is None:
        raise DeviceError(
            f"{device.name} has compute capability {major}.{minor}, and code is made for 8.0 and later",
            hint='compute on device="cpu"',
        )
    target, order = Target.named(f"sm_{known}"), config.cuda_order()
    if not order:
        return target
    free = target.in_tf32() if order == "tf32" else target.in_any_order()
    return free if device.products is None else free.with_library()


@lru_cache(maxsize=1)
def _process_cache() -> Cache:
    return Cache()


# ----------------------------------------------------------------------
# Ops that run at once on a GPU: each is a graph of one op, compiled for the types of its operands and kept.

_MOST: Final = 4096


class DeviceEmitter:
    """Applies ops on one device; what has no operands lands there as well, and numbers of the CPU are copied there."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._programs: dict[tuple[Any, ...], tuple[DeviceProgram, list[TensorType]]] = {}

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """The outputs of ``op``, on the tape where gradients are enabled and an input requires one."""
        device = self.device
        operands = [
            value if value.__class__ is DeviceValue and value.buffer.device is device else self._operand(op, value)
            for value in inputs
        ]
        now = context.current()
        grad = now.grad_enabled and "nondifferentiable" not in op.traits
        taped = grad and any(value.record is not None for value in operands)
        if taped and regions:
            return self._emit_region(op, operands, attrs, regions)
        if (taped and op.vjp is None) or (now.anomaly and op.decompose is not None and not regions):
            if op.decompose is None:
                raise UnsupportedOp(f"the gradient of {op.name} on {self.device.name}")
            with context.using(emitter=self):
                result = op.decompose(*operands, **attrs)
            return tuple(result) if isinstance(result, tuple | list) else (result,)
        outputs = tuple(self._program(op, operands, attrs, regions).call(operands, tells_line=True))
        if now.anomaly:
            check_finite(op.name, map(_array, operands), [*map(_array, outputs)])
        if not taped:
            return outputs
        record = DeviceRecord(op, tuple(operands), dict(attrs), outputs, self)
        return tuple([x.part_of(record, number) if is_inexact(x.dtype) else x for number, x in enumerate(outputs)])

    def _emit_region(
        self, op: Op, operands: Sequence[DeviceValue], attrs: Attrs, regions: Sequence[Graph]
    ) -> tuple[Any, ...]:
        """Control flow on the tape: a forward graph that also gives residuals, and a record with the backward graph."""
        builder, inputs = _begun(operands)
        with context.using(emitter=builder, constraints=builder.constraints):
            outputs = builder.emit(op, inputs, attrs, regions)
        wrt = tuple(number for number, value in enumerate(operands) if value.record is not None)
        source = builder.graph(outputs, op.name)
        with shared.PAUSED.inside():  # finalisers may run ops
            forward, backward = vjp_graph(source, wrt)
        results = program_for(forward, self.device).call(operands, tells_line=True)
        primals, residuals = tuple(results[: len(outputs)]), tuple(results[len(outputs) :])
        record = DeviceGraphRecord(op.name, tuple(operands), wrt, backward, residuals, primals, source)
        record.emitter = self
        return tuple([x.part_of(record, number) if is_inexact(x.dtype) else x for number, x in enumerate(primals)])

    def _operand(self, op: Op, value: Any) -> DeviceValue:
        moved = placement.moved(value, self.device.name) if hasattr(value, "device") else value
        if not isinstance(moved, DeviceValue):
            raise UnsupportedOp(f"{op.name} with a {type(value).__name__} on {self.device.name}")
        return moved

    def _program(
        self, op: Op, operands: Sequence[DeviceValue], attrs: Attrs, regions: Sequence[Graph]
    ) -> DeviceProgram:
        types = [id(value.type) for value in operands]  # mostly one object for each type
        key = (
            (op, exact(attrs), *types, *[region.canonical for region in regions]) if attrs or regions else (op, *types)
        )
        cached = self._programs.get(key)
        if cached is None:
            builder, inputs = _begun(operands)
            with context.using(emitter=builder, constraints=builder.constraints):
                outputs = builder.emit(op, inputs, attrs, regions)
            if len(self._programs) >= _MOST:
                self._programs.clear()
            program = program_for(builder.graph(outputs, op.name), self.device)
            cached = self._programs[key] = program, [value.type for value in operands]  # kept, and so are their ids
        return cached[0]


class DeviceRecord(OpRecord):
    """An op that ran on a device, where its gradient runs as well."""

    __slots__ = ("_emitter",)

    def __init__(
        self, op: Op, inputs: tuple[Any, ...], attrs: Attrs, outputs: tuple[Any, ...], emitter: DeviceEmitter
    ) -> None:
        super().__init__(op, inputs, attrs, outputs)
        self._emitter = emitter

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        with context.using(emitter=self._emitter):
            return super().backward(cotangents)


class DeviceGraphRecord(GraphRecord):
    """Control flow that ran on a device, where its backward graph runs as well."""

    emitter: DeviceEmitter

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        with context.using(emitter=self.emitter):
            return super().backward(cotangents)


def _begun(operands: Sequence[DeviceValue]) -> tuple[GraphBuilder, list[Value]]:
    """A builder, and the inputs of its graph for these operands."""
    builder = GraphBuilder()
    return builder, [builder.input(value.type) for value in operands]


def _array(value: Any) -> Any:
    """A copy on the CPU of what lies on a device; other kinds of value are none."""
    return placement.moved(value, CPU).array if isinstance(value, DeviceValue) else None


def emitter_of(name: str) -> DeviceEmitter:
    """Who applies ops on the device of this name, as long as that is in use."""
    device = device_named(name)
    emitter: DeviceEmitter | None = device.emitter
    if emitter is None:
        emitter = device.emitter = DeviceEmitter(device)
    return emitter
