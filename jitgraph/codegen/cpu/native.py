"""From a schedule to a flat image: LLVM IR, an object, and the linker."""

from __future__ import annotations

from jitgraph import config
from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime import imports


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
