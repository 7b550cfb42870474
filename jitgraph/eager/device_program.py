"""Graphs compiled for a GPU, as functions of values there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from jitgraph import config
from jitgraph.compiler import Cache, compile
from jitgraph.eager.device_value import DeviceValue, device_type
from jitgraph.errors import DeviceError, UnsupportedOp
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import GENERATIONS, Target
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.runtime.cuda.devices import Device, devices
from jitgraph.runtime.cuda.executable import CudaExecutable, ShapeCall

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
