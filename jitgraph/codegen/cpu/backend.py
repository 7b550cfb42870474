"""The backend of x86-64 processors: LLVM makes objects of a schedule, and the linker a flat image of them."""

from __future__ import annotations

from collections.abc import Collection

from jitgraph.codegen.backend import Code, Stage
from jitgraph.codegen.cpu import native
from jitgraph.codegen.kernels.host_calls import HostCalls
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable


class CpuBackend:
    """Native code for the levels x86-64-v3 and x86-64-v4."""

    name = "cpu"
    alignment = loader.ALIGNMENT
    reads_again = False

    def schedule(self, graph: Graph, target: Target, given_away: Collection[int] = ()) -> Schedule:
        """Each group of nodes as one kernel, or a few."""
        return select(graph, CPU, fastmath=target.fastmath, alone=target.alone, given_away=given_away)

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> Code:
        """The LLVM IR of the schedule and the image of it."""
        with stage("emit"):
            module = native.emit_module(schedule, target)
        with stage("llvm"):
            return Code(native.image_of(module, target), {"llvm": module.text()}, HostCalls.of(schedule))

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        """The image, mapped when it is first called."""
        llvm_ir = code.texts["llvm"]
        return Executable(
            code.image,
            signature,
            llvm_ir=llvm_ir,
            asm=lambda: native.assembly_of(llvm_ir, target),
            callback=code.calls,
            target=target,
        )
