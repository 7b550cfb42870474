"""The backend of NVIDIA's GPUs: LLVM makes PTX of the kernels of a schedule, and a table says how they are launched."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.backend import Code, Stage
from jitgraph.codegen.cpu.native import image_of
from jitgraph.codegen.cuda import device_code, machine, plan
from jitgraph.codegen.cuda.launches import KernelLaunch
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower.schedules.gpu import GPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.constant import Constant
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.executable import CudaExecutable, DeviceParts


@dataclass(frozen=True, kw_only=True)
class CudaCode(Code):
    """PTX of a schedule, and its launches in the order of its steps; ``texts`` has "llvm", "ptx" and "host".

    The image's entry (``plan.py``) is given, behind inputs and outputs, the device addresses of ``constants``, memory
    for the error record where ``reports`` is true, and the handles of ``functions``.
    """

    launches: tuple[KernelLaunch, ...]
    constants: tuple[tuple[str, Constant], ...]
    functions: tuple[str, ...]
    reports: bool


_HOST: Final = Target.named("x86-64-v2")
"""The processor of the image, which only puts launches on a stream."""


class CudaBackend:
    """Code for the GPUs that ``machine.processor`` knows."""

    name = "cuda"
    alignment = 256
    reads_again = True  # each launch of a kernel does by itself what stands before it

    def schedule(self, graph: Graph, target: Target) -> Schedule:
        """Each group of nodes as one kernel, or a few."""
        return select(graph, GPU, fastmath=target.fastmath)

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> CudaCode:
        """The PTX of the schedule and its launches; UnsupportedOp for steps that the host would have to look at."""
        with stage("emit"):
            module, launches = device_code.emit_module(schedule, target)
            text = module.text()
        with stage("ptx"):
            ptx = machine.ptx_of(text, target)
        with stage("host"):
            host = plan.emit_plan(schedule, launches)
            image = image_of(host, _HOST)
        return CudaCode(
            image,
            {"llvm": text, "ptx": ptx, "host": host.text()},
            launches=launches,
            constants=tuple((b.name, b.value) for b in schedule.buffers if b.value is not None),
            functions=plan.function_names(launches),
            reports=any(launch.reports for launch in launches),
        )

    def load(self, code: Code, signature: loader.Signature, target: Target) -> CudaExecutable:
        """The code, ready for any device of the target: each loads it when it is first used there."""
        assert isinstance(code, CudaCode)
        parts = DeviceParts(
            ptx=code.texts["ptx"].encode(),
            llvm_ir=code.texts["llvm"],
            functions=code.functions,
            constants=tuple(value.value for _, value in code.constants),
            reports=code.reports,
            launches=len(code.launches),
        )
        return CudaExecutable(code.image, signature, parts, target)
