"""From a schedule to a flat image: LLVM IR, an object, and the linker."""

from __future__ import annotations

from jitgraph import config
from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.ir.target import Target
from jitgraph.runtime import forks


def emit_llvm(schedule: Schedule, target: Target) -> str:
    """The LLVM IR of ``schedule`` as emitted, before any pass."""
    with forks.whole():
        from jitgraph.codegen.cpu.entry import emit_module

    return emit_module(schedule, target)


def image_of(llvm_ir: str, target: Target) -> bytes:
    """The flat image of a module that ``emit_llvm`` gave."""
    with forks.whole():
        from jitgraph.codegen.cpu import entry, objects, pool
        from jitgraph.codegen.llvm import machine

    config.log("llvm", llvm_ir)
    if config.logs("asm"):
        config.log("asm", machine.asm(llvm_ir, target))
    exports = dict(entry.EXPORTS)
    if pool.DECLARATIONS in llvm_ir:
        exports |= pool.EXPORTS
    return link(objects.objects_of(llvm_ir, target), exports)


def assembly_of(llvm_ir: str, target: Target) -> str:
    """The assembly of a module that ``emit_llvm`` gave."""
    with forks.whole():
        from jitgraph.codegen.llvm import machine

    return machine.asm(llvm_ir, target)


def build_image(schedule: Schedule, target: Target) -> bytes:
    """The flat image that runs ``schedule`` on ``target``; CompileError where it cannot be had."""
    return image_of(emit_llvm(schedule, target), target)
