"""The backend of NVIDIA's GPUs: LLVM makes PTX of the kernels of a schedule, and a table says how they are launched."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Final

from jitgraph.codegen.backend import Code, Stage
from jitgraph.codegen.cpu.backend import image_of
from jitgraph.codegen.cuda import device_code, host_entry
from jitgraph.codegen.cuda.launches import KernelLaunch
from jitgraph.codegen.kernels.schedule import Launch, Schedule
from jitgraph.codegen.lower.schedules.gpu import GPU, GPU_IN_ANY_ORDER, GPU_WITH_LIBRARY
from jitgraph.codegen.lower.select import select
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import Constant
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.executable import CudaExecutable
from jitgraph.runtime.device_payload import DevicePayload, LibraryProduct


@dataclass(frozen=True, kw_only=True)
class CudaCode(Code):
    """PTX of a schedule, and its launches in the order of its steps; ``texts`` has "llvm", "ptx" and "host".

    The image's entry (``host_entry.py``) is given, behind inputs and outputs, the device addresses of ``constants``,
    memory
    for the error record where ``reports`` is true, pinned memory of the greatest of ``host_sizes``, where there are
    any, the handles of ``functions``, and what a library needs for ``products``. ``replayed`` is how many launches
    every call asks for, or 0 where there are branches, loops, stacks or prints, whose calls are not replayed.
    """

    launches: tuple[KernelLaunch, ...]
    constants: tuple[tuple[str, Constant], ...]
    functions: tuple[str, ...]
    products: tuple[LibraryProduct, ...]
    driver: tuple[str, ...]
    reports: bool
    host_sizes: tuple[int | str, ...]
    replayed: int

    @property
    def waits(self) -> bool:
        """Whether a call waits for the device, so that it cannot be captured into a graph."""
        return bool(self.host_sizes)


_HOST: Final = Target.named("x86-64-v2")
"""The processor of the image, which only puts launches on a stream."""


class CudaBackend:
    """Code for the GPUs that ``machine.processor`` knows."""

    name = "cuda"
    alignment = 256
    reads_again = True  # each launch of a kernel does by itself what stands before it

    def schedule(self, graph: Graph, target: Target, given_away: Collection[int] = ()) -> Schedule:
        """Each group of nodes as one kernel, or a few."""
        strategies = GPU if not target.free_order else GPU_WITH_LIBRARY if target.library else GPU_IN_ANY_ORDER
        schedule = select(graph, strategies, fastmath=target.fastmath, alone=target.alone, given_away=given_away)
        for call in schedule.calls:
            raise UnsupportedOp(
                f"{call.op.name} runs in Python on the host, and code for GPUs cannot call it",
                location=call.location,
                hint="move its operands with x.cpu() outside of the traced function, and the result back with .cuda()",
            )
        return schedule

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> CudaCode:
        """The PTX of the schedule and its launches, and the host's image."""
        with stage("emit"):
            module, launches = device_code.emit_module(schedule, target)
            text = module.text()
        with stage("ptx"):
            ptx = device_code.ptx_of(text, target)
        with stage("host"):
            host, called = host_entry.emit_plan(schedule, launches)
            image = image_of(host, _HOST)
        in_order = tuple(chain.from_iterable(launches.values()))
        return CudaCode(
            image,
            {"llvm": text, "ptx": ptx, "host": host.text()},
            launches=in_order,
            constants=tuple((b.name, b.value) for b in schedule.buffers if b.value is not None),
            functions=host_entry.function_names(in_order),
            products=tuple(launch.call.product for launch in in_order if launch.call is not None),
            driver=called,
            reports=any(launch.reports for launch in in_order),
            replayed=len(in_order) if all(isinstance(step, Launch) for step in schedule.steps) else 0,
            host_sizes=tuple(n if isinstance(n, int) else str(n) for n in host_entry.host_sizes(schedule, launches)),
        )

    def load(self, code: Code, signature: loader.Signature, target: Target) -> CudaExecutable:
        """The code, ready for any device of the target: each loads it when it is first used there."""
        assert isinstance(code, CudaCode)
        parts = DevicePayload(
            ptx=code.texts["ptx"].encode(),
            llvm_ir=code.texts["llvm"],
            functions=code.functions,
            driver=code.driver,
            constants=tuple(value.value for _, value in code.constants),
            reports=code.reports,
            host_sizes=code.host_sizes,
            launches=code.replayed,
            products=code.products,
        )
        return CudaExecutable(code.image, signature, parts, target)


CUDA: Final = CudaBackend()
"""The one of this process: it keeps nothing between calls."""
