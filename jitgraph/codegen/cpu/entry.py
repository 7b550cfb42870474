"""A schedule as one LLVM module: its kernels, its constants, and the entry function that runs its steps.

``i32 jg_entry(host, call, buffers, dims)`` and ``i64 jg_arena_bytes(dims)`` as ``runtime/loader/abi.py`` documents
them. Of ``buffers`` the inputs come first, by position, then the outputs, by position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitgraph.codegen.cpu import pool, stacks
from jitgraph.codegen.cpu.inlining import Emitted, Inlining, emitted, launches, plan_inlining
from jitgraph.codegen.cpu.kernel_function import emit_kernel
from jitgraph.codegen.cpu.launch_times import BEGIN, END, LaunchTimes
from jitgraph.codegen.cpu.steps import StepWriter
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import (
    Branch,
    MemoryPlan,
    Pop,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
)
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule, LlvmValue
from jitgraph.codegen.llvm.entry import EntryWriter, emit_arena_bytes, without_reuse
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike
from jitgraph.ir.fault import working_on
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets


def emit_module(schedule: Schedule, target: Target, *, timed: bool = False) -> LlvmModule:
    """The LLVM module of ``schedule`` for ``target``; CompileError for a target without fused multiply-add.

    A ``timed`` entry notes how long its steps take, in a table that stands behind the outputs (``launch_times.py``).
    """
    if not target.fma:
        raise CompileError(
            f"{target.name} has no fused multiply-add, which the results of compiled code rest on",
            hint="compile for x86-64-v3 or later, or set JITGRAPH_INTERPRET=1",
        )
    module = LlvmModule(machine.TRIPLE)
    plan = schedule.plan or without_reuse(schedule)
    entry = _Entry(module, schedule, plan, target, timed=timed)
    entry.emit()
    emit_arena_bytes(module, schedule, plan.arena_bytes + entry.scratch_bytes)
    return module


class _Entry(EntryWriter):
    """The entry function under construction."""

    def __init__(
        self, module: LlvmModule, schedule: Schedule, plan: MemoryPlan, target: Target, *, timed: bool
    ) -> None:
        super().__init__(module, schedule, plan)
        self.target = target
        self.timed = timed
        self.stacks: dict[str, LlvmValue] = {}
        self.kernels: dict[int, Emitted] = {}  # of launches, by identity
        self.inlining = Inlining()
        self.scratch = self.function.fresh("ptr")
        self.arena = self.function.fresh("ptr")
        self.scratch_bytes = 0
        self.donated = frozenset(plan.donations)

    def emit(self) -> None:
        self._emit_kernels()
        self.verify_sizes()
        self._place_buffers()
        sizes = {name: self.sizes.value(self._bytes(name)) for name in self._stacked(self.schedule.steps)}
        overflow = self.sizes.overflow()
        if overflow != "false":
            self.leave_if(overflow, loader.SIZE_OVERFLOW)
        for stack in self.schedule.stacks:
            self.stacks[stack] = self.function.alloca(stacks.STACK_TYPE, align=8)
            self.function.do(f"store {stacks.STACK_TYPE} zeroinitializer, {self.stacks[stack]}")
        if self.schedule.stacks:
            pool.declare(self.module)
            self.module.functions += [stacks.PUSH, stacks.POP]
        times = LaunchTimes(self.function, self.table, self.schedule.steps) if self.timed else None
        if times is not None:
            times.note(BEGIN)
        steps = StepWriter(
            self.function,
            self.host,
            self.call,
            self.dims,
            self.scratch,
            self.sizes.values,
            self,
            self.stacks,
            sizes,
            self.kernels,
            self.inlining,
            self.donated,
            times,
        )
        steps.write(self.schedule.steps)
        self._store_values()
        if times is not None:
            times.note(END)
        self.function.ret(LlvmValue("0", "i32"))
        self._place_arena()
        self.function.finish()

    def _emit_kernels(self) -> None:
        """The functions of all launches, equal kernels once, and what of them goes into the loops of the entry."""
        by_kernel: dict[Kernel, Emitted] = {}
        index_of: dict[str, int] = {}
        functions = self.module.functions
        for launch in launches(self.schedule.steps):
            kernel = launch.kernel
            if len(launch.buffers) != len(kernel.params):
                raise CompileError(
                    f"kernel {kernel.name} takes {len(kernel.params)} buffers, not {len(launch.buffers)}"
                )
            key = replace(kernel, name="")  # hashing a kernel goes through all of it
            known = by_kernel.get(key)
            if known is None:
                with working_on(f"the kernel {kernel.name}", launch.location):
                    name, scratch_bytes = emit_kernel(kernel, self.module, self.target)
                known = by_kernel[key] = emitted(name, scratch_bytes, functions[-1], self.module.math)
                index_of[name] = len(functions) - 1
                self.scratch_bytes = max(self.scratch_bytes, scratch_bytes)
            self.kernels[id(launch)] = known
        self.inlining = plan_inlining(self.schedule, self.kernels, self.donated)
        for name in self.inlining.functions:
            functions[index_of[name]] = replace(functions[index_of[name]], inlined=True)

    def _store_values(self) -> None:
        """Store the outputs that are values of the entry function to the caller's buffers."""
        for buffer in self.schedule.buffers:
            if buffer.name in self.inlining.values and buffer.role == "output":
                self._copy(self.given[buffer.name], self.places[buffer.name], buffer)

    def _copy(self, to: str, source: str, buffer: ScheduleBuffer) -> None:
        self.function.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {buffer.bytes}, i1 false)")

    def _place_arena(self) -> None:
        """The scratch memory of the calling thread, which kernels were found to need, and the temporaries behind it."""
        at = self.function.fresh("ptr")
        self.function.prologue += [
            f"  {at.name} = getelementptr i8, {self.call}, i64 {offsets.CALL_ARENA}",
            f"  {self.scratch.name} = load ptr, {at}, align 8",
            f"  {self.arena.name} = getelementptr i8, {self.scratch}, i64 {self.scratch_bytes}",
        ]

    def _place_buffers(self) -> None:
        function, schedule = self.function, self.schedule
        count = self.bind_arguments()
        self.table = self.argument_address(count) if self.timed else ""
        self.given = dict(self.places)
        for buffer in schedule.buffers:
            if buffer.name in self.inlining.values:
                value = function.alloca("i8", int(buffer.bytes))
                if buffer.role == "input":
                    self._copy(value.name, self.given[buffer.name], buffer)
                self.places[buffer.name] = value.name
            elif buffer.role == "constant":
                assert buffer.value is not None, buffer.name
                self.places[buffer.name] = function.named(self.module.constant(buffer.value.value.tobytes()))
            elif buffer.role == "temporary":
                self.bind_temporary(buffer, self.arena)
        self.bind_exchanged()

    def _bytes(self, name: str) -> DimLike:
        return next(buffer.bytes for buffer in self.schedule.buffers if buffer.name == name)

    def _stacked(self, steps: Sequence[Step]) -> set[str]:
        """The buffers that are pushed or popped."""
        stacked: set[str] = set()
        for step in steps:
            match step:
                case Push(_, buffer) | Pop(_, buffer):
                    stacked.add(buffer)
                case Branch(_, then, otherwise):
                    stacked |= self._stacked(then) | self._stacked(otherwise)
                case While(condition, _, body):
                    stacked |= self._stacked(condition) | self._stacked(body)
        return stacked
