"""The backend of x86-64 processors: LLVM makes objects of a schedule, and the linker a flat image of them."""

from __future__ import annotations

from collections.abc import Collection

from jitgraph import config
from jitgraph.codegen.backend import Code, HostCalls, Stage
from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.runtime import imports, loader
from jitgraph.runtime.executable import Executable

# ----------------------------------------------------------------------
# From a schedule to a flat image: LLVM IR, an object, and the linker.


def emit_module(schedule: Schedule, target: Target, *, timed: bool = False) -> LlvmModule:
    """The LLVM module of ``schedule`` as emitted, before any pass; ``timed`` as of ``entry.emit_module``."""
    with imports.importing():
        from jitgraph.codegen.cpu import entry

    return entry.emit_module(schedule, target, timed=timed)


def image_of(module: LlvmModule, target: Target) -> bytes:
    """The flat image of a module that ``emit_module`` gave."""
    with imports.importing():
        from jitgraph.codegen.cpu import objects, pool
        from jitgraph.codegen.llvm import entry

    if config.logs("llvm"):
        config.log("llvm", module.text())
    if config.logs("asm"):
        config.log("asm", assembly_of(module.text(), target))
    exports = dict(entry.EXPORTS)
    if pool.REQUIRED in module.required:
        exports |= pool.EXPORTS
    return link(objects.objects_of(module, target), exports)


def assembly_of(llvm_ir: str, target: Target) -> str:
    """The assembly of a module, from its text."""
    with imports.importing():
        from jitgraph.codegen.cpu.objects import ENTRY
        from jitgraph.codegen.llvm import machine

    return machine.asm(llvm_ir, target, ENTRY if "alwaysinline" in llvm_ir else "")


def build_image(schedule: Schedule, target: Target, *, timed: bool = False) -> bytes:
    """The flat image that runs ``schedule`` on ``target``; CompileError where it cannot be had."""
    return image_of(emit_module(schedule, target, timed=timed), target)


# ----------------------------------------------------------------------
# The backend of x86-64 processors: LLVM makes objects of a schedule, and the linker a flat image of them.


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
            module = emit_module(schedule, target)
        with stage("llvm"):
            return Code(image_of(module, target), {"llvm": module.text()}, HostCalls.of(schedule))

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        """The image, mapped when it is first called."""
        llvm_ir = code.texts["llvm"]
        return Executable(
            code.image,
            signature,
            llvm_ir=llvm_ir,
            asm=lambda: assembly_of(llvm_ir, target),
            callback=code.calls,
            target=target,
        )
