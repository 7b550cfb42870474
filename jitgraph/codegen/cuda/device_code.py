"""The device code of a schedule: one module of LLVM IR, its PTX, and the launches that run its steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jitgraph.codegen.cuda import mma, panels
from jitgraph.codegen.cuda.block_loops import emit_block
from jitgraph.codegen.cuda.grid import emit_kernel
from jitgraph.codegen.cuda.launches import KernelLaunch, Launches, Shape, launch_nests_of
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import Branch, Launch, Schedule, Step, While, all_steps
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target

# ----------------------------------------------------------------------
# PTX from LLVM IR: the processors that LLVM knows NVIDIA's GPUs by, and what its back end for them can select.
#
# What that back end selects is not all used: the driver's assembler computes ``neg.s16`` and ``abs.s16`` in 32 bits and
# does not wrap the result, so that what is computed of -32768 next goes by +32768 (seen on an H200, driver 580). Both
# are written as 32-bit arithmetic, wrapped by shifts.
#
# What that back end cannot select ends the process, and so does a version of PTX that is too old for the GPU; so both
# are looked up here, before LLVM sees the module.

TRIPLE: Final = "nvptx64-nvidia-cuda"

_VERSIONS: Final = {80: 78, 86: 78, 89: 78, 90: 78, 100: 86, 120: 87}
"""The version of PTX, ten times its number, by compute capability: the oldest, from 7.8 on, that has it."""

_FLOATS: Final = ("f32", "f64")
_SELECTED: Final = frozenset(
    [f"{name}.{type}" for name in ("ceil", "copysign", "fabs", "floor", "fma", "roundeven", "sqrt", "trunc")
     for type in _FLOATS]
    + ["fabs.f16", "fma.v2f16"]
    + [f"{name}.{type}" for name in ("ctlz", "ctpop", "cttz") for type in ("i32", "i64")]
    + [f"nvvm.read.ptx.sreg.{name}.{axis}" for name in ("tid", "ctaid") for axis in "xyz"]
    + ["nvvm.bar.warp.sync", "nvvm.barrier.cta.sync.aligned.all"]
    + [*mma.INTRINSICS, *panels.INTRINSICS]
    + [f"nvvm.shfl.sync.{mode}.i32" for mode in ("bfly", "down", "idx")]
    + ["maxnum.f32", "nvvm.ex2.approx.ftz.f", "nvvm.ff2bf16x2.rn", "nvvm.ff2f16x2.rn"]
)  # fmt: skip
_UNWRAPPED: Final = re.compile(r"^(\s*)(@!?%\w+\s+)?(neg|abs)\.s16(\s+)(%\w+), ([^;\s]+);", re.MULTILINE)
_INTRINSIC: Final = re.compile(r"@llvm\.([\w.]+)\(")


def processor(target: Target) -> machine.Processor:
    """What LLVM calls a GPU; CompileError for a target that is none."""
    if target.sm not in _VERSIONS:
        known = ", ".join(f"sm_{sm}" for sm in _VERSIONS)
        raise CompileError(f"PTX for the target {target.name!r} is not supported", hint=f"one of {known}")
    return machine.Processor(TRIPLE, target.name, f"+ptx{_VERSIONS[target.sm]}")


def ptx_of(llvm_ir: str, target: Target) -> str:
    """The PTX of a module; CompileError for an intrinsic that LLVM has no instruction for on GPUs."""
    unknown = set(_INTRINSIC.findall(llvm_ir)) - _SELECTED
    if unknown:
        names = ", ".join(f"llvm.{name}" for name in sorted(unknown))
        raise CompileError(f"GPUs have no instruction for {names}")
    return _UNWRAPPED.sub(_wrapped, machine.assembly(llvm_ir, processor(target)))


def _wrapped(instruction: re.Match[str]) -> str:
    """A negation or an absolute value of 16 bits by 32-bit arithmetic; a block has a register of its own."""
    indent, guard, name, gap, result, operand = instruction.groups(default="")
    steps = (
        f"cvt.s32.s16{gap}%wide, {operand};",
        f"{name}.s32{gap}%wide, %wide;",
        f"shl.b32{gap}%wide, %wide, 16;",
        f"shr.s32{gap}%wide, %wide, 16;",
        f"cvt.u16.u32{gap}{result}, %wide;",
    )
    lines = [f"{indent}{guard}{step}" for step in steps]
    return "\n".join([f"{indent}{{", f"{indent}.reg .b32 %wide;", *lines, f"{indent}}}"])


# ----------------------------------------------------------------------
# The device code of a schedule: one module of LLVM IR, and the launches that run its steps.


def emit_module(schedule: Schedule, target: Target) -> tuple[LlvmModule, Launches]:
    """The module of ``schedule`` as emitted, before any pass, and the launches of its steps."""
    writer = _ModuleWriter(schedule, target)
    for number, step in enumerate(schedule.steps):
        writer.write((step,), number)
    return writer.module, writer.launches


class _ModuleWriter:
    def __init__(self, schedule: Schedule, target: Target) -> None:
        self.module = LlvmModule(TRIPLE, links=False)
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
