"""The backend of NVIDIA's GPUs: LLVM makes PTX of the kernels of a schedule, and a table says how they are launched."""

from __future__ import annotations

from jitgraph.codegen.backend import Code, Stage
from jitgraph.codegen.cuda import device_code, machine
from jitgraph.codegen.cuda.launches import KernelLaunch
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower.schedules.gpu import GPU
from jitgraph.codegen.lower.select import select
from jitgraph.errors import DeviceError
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable


@dataclass(frozen=True, kw_only=True)
class CudaCode(Code):
    """PTX of a schedule, and its launches in the order of its steps; ``texts`` has "llvm" and "ptx"."""

    launches: tuple[KernelLaunch, ...]


class CudaBackend:
    """Code for the GPUs that ``machine.processor`` knows."""

    name = "cuda"
    alignment = 256

    def schedule(self, graph: Graph, target: Target) -> Schedule:
        """Each group of nodes as one kernel, or a few."""
        return select(graph, GPU, fastmath=target.fastmath)

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> CudaCode:
        """The PTX of the schedule and its launches; UnsupportedOp for steps that the host would have to look at."""
        with stage("emit"):
            module, launches = device_code.emit_module(schedule, target)
            text = module.text()
        with stage("ptx"):
            return CudaCode(b"", {"llvm": text, "ptx": machine.ptx_of(text, target)}, launches=launches)

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        """DeviceError: no device is at hand yet."""
        raise DeviceError(f"code for {target.name} cannot be loaded here", hint="its PTX is among the code's texts")
