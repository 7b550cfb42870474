"""The device code of a schedule: one module of LLVM IR, and the launches that run its steps in order."""

from __future__ import annotations

from jitgraph.codegen.cuda import machine
from jitgraph.codegen.cuda.grid import emit_kernel
from jitgraph.codegen.cuda.launches import KernelLaunch, Shape
from jitgraph.codegen.cuda.nests import nests_of
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import Branch, Launch, Pop, PrintStep, Push, Schedule, Step, While
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.target import Target


def emit_module(schedule: Schedule, target: Target) -> tuple[LlvmModule, tuple[KernelLaunch, ...]]:
    """The module of ``schedule`` as emitted, before any pass, and its launches.

    UnsupportedOp where a step needs the host between launches: branches, loops, stacks and prints.
    """
    module = LlvmModule(machine.TRIPLE, links=False)
    reports = any(nest.can_fail for kernel in _kernels(schedule) for nest in nests_of(kernel))
    known: dict[Kernel, list[tuple[Shape, bool]]] = {}
    launches: list[KernelLaunch] = []
    for number, step in enumerate(schedule.steps):
        if not isinstance(step, Launch):
            raise UnsupportedOp(f"{_OPS[type(step)]} on a GPU", hint="trace what stands inside it by itself")
        if step.kernel not in known:
            known[step.kernel] = emit_kernel(step.kernel, module, target, reports=reports)
        for shape, can_fail in known[step.kernel]:
            launches.append(
                KernelLaunch(
                    shape.function,
                    shape.grid,
                    shape.block,
                    shape.shared_bytes,
                    step.buffers,
                    step.kernel.sizes,
                    reports,
                    can_fail,
                    number,
                )
            )
    return module, tuple(launches)


_OPS: dict[type[Step], str] = {
    Branch: "cond",
    While: "while_loop or scan",
    Push: "a stack that a loop leaves for its gradient",
    Pop: "a stack that a loop leaves for its gradient",
    PrintStep: "print",
}


def _kernels(schedule: Schedule) -> list[Kernel]:
    return [step.kernel for step in schedule.steps if isinstance(step, Launch)]
