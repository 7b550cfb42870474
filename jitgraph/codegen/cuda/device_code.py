"""The device code of a schedule: one module of LLVM IR, and the launches that run its steps."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.cuda import machine
from jitgraph.codegen.cuda.block_loops import emit_block
from jitgraph.codegen.cuda.grid import emit_kernel
from jitgraph.codegen.cuda.launch_nests import launch_nests_of
from jitgraph.codegen.cuda.launches import KernelLaunch, Launches, Shape
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import Branch, Launch, Schedule, Step, While
from jitgraph.codegen.kernels.steps import all_steps
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target


def emit_module(schedule: Schedule, target: Target) -> tuple[LlvmModule, Launches]:
    """The module of ``schedule`` as emitted, before any pass, and the launches of its steps."""
    writer = _ModuleWriter(schedule, target)
    for number, step in enumerate(schedule.steps):
        writer.write((step,), number)
    return writer.module, writer.launches


class _ModuleWriter:
    def __init__(self, schedule: Schedule, target: Target) -> None:
        self.module = LlvmModule(machine.TRIPLE, links=False)
        self.target = target
        self.launches: Launches = {}
        kernels = [step.kernel for step in all_steps(schedule.steps) if isinstance(step, Launch)]
        self.reports = any(nest.can_fail for kernel in kernels for nest in launch_nests_of(kernel))
        self._known: dict[Kernel, list[tuple[Shape, bool]]] = {}

    def write(self, steps: Sequence[Step], number: int) -> None:
        """The functions of steps that stand at, or inside of, the schedule's step of this number."""
        for step in steps:
            match step:
                case Launch():
                    self._launch(step, number)
                case Branch() | While():
                    launch = emit_block(step, self.module, self.target, number, reports=self.reports)
                    if launch is not None:
                        self.launches[id(step)] = (launch,)
                    elif isinstance(step, Branch):
                        self.write((*step.then, *step.otherwise), number)
                    else:
                        self.write((*(step.condition if step.count is None else ()), *step.body), number)

    def _launch(self, step: Launch, number: int) -> None:
        kernel = step.kernel
        if kernel not in self._known:
            self._known[kernel] = emit_kernel(kernel, self.module, self.target, reports=self.reports)
        self.launches[id(step)] = tuple(
            KernelLaunch(
                shape.function,
                shape.grid,
                shape.block,
                shape.shared_bytes,
                step.buffers,
                kernel.sizes,
                self.reports,
                can_fail,
                number,
                call=shape.call,
            )
            for shape, can_fail in self._known[kernel]
        )
