"""A schedule as one LLVM module: its kernels, its constants, and the entry function that runs its steps."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from jitgraph.codegen.cpu import pool
from jitgraph.codegen.cpu.kernel_function import emit_kernel
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    MemoryPlan,
    ParallelCopy,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
    all_steps,
    inner_steps,
)
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import Definition, LlvmFunction, LlvmModule, LlvmValue, check
from jitgraph.codegen.llvm.control import emit_branch, emit_host_call, emit_print, emit_while
from jitgraph.codegen.llvm.entry import EntryWriter, emit_arena_bytes, without_reuse
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike
from jitgraph.ir.fault import working_on
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.loader import abi

# ----------------------------------------------------------------------
# What a loop of the entry function runs is part of it where it is small: kernels inlined, small buffers as values.
#
# A scalar loop is a few instructions an iteration; calls, and carries that go through memory, would take several times
# as long. A kernel is inlined where a ``While`` launches it and it is short. A buffer of some bytes that inlined
# kernels alone touch lies in the frame of the entry, whence LLVM's passes lift it into registers.

MOST_LINES: Final = 80
"""Of a kernel, the math functions that it calls included, for it to be inlined into a loop."""

MOST_STRAIGHT_LINES: Final = 400
"""Of a kernel without loops and vectors: all of it is scalars of the loop around it."""

MOST_LINES_TOGETHER: Final = 1600

UNPOLLED_LINES: Final = 10_000_000
"""Instructions that a loop of known length may execute in all its turns without a question to the host: some ms."""

MOST_BYTES: Final = 64
"""Of a buffer that is a value: a vector register."""

_MATH_LINES: Final = 40  # of a math function, about


@dataclass(frozen=True)
class Emitted:
    """A kernel that has been emitted: its function, the scratch memory it takes, its lines, and what is in them."""

    name: str
    scratch_bytes: int
    lines: int
    can_fail: bool
    shares: bool  # work among threads
    loops: bool

    @property
    def is_small(self) -> bool:
        return not self.shares and self.lines <= (MOST_LINES if self.loops else MOST_STRAIGHT_LINES)


def emitted(name: str, scratch_bytes: int, kernel: Definition, math: Collection[str]) -> Emitted:
    """What to know of a kernel whose function is ``kernel``; ``math`` are the names of math functions."""
    lines = kernel.lines + _MATH_LINES * sum(count for used, count in kernel.uses.items() if used in math)
    return Emitted(name, scratch_bytes, lines, kernel.returns > 1, "jg_range" in kernel.uses, kernel.hot)


@dataclass(frozen=True)
class Inlining:
    """The launches whose kernels are inlined, by the names of their functions, and the buffers that become values."""

    functions: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    def covers(self, loop: While, functions: Mapping[int, Emitted]) -> bool:
        """Whether all that one turn does is inlined launches; ``functions`` are those of launches, by identity.

        They may stand in branches, and in loops, which ask the host by themselves once in as many turns.
        """
        return all(
            functions[id(step)].name in self.functions
            if isinstance(step, Launch)
            else isinstance(step, Branch | While | Exchange)
            for step in all_steps(inner_steps(loop))
        )

    def asks_nothing(self, loop: While, functions: Mapping[int, Emitted]) -> bool:
        """Whether a loop is of scalars and known to last some milliseconds at most."""
        lines = _all_lines(loop, functions) if self.covers(loop, functions) else None
        return lines is not None and lines <= UNPOLLED_LINES

    def turn_lines(self, loop: While, functions: Mapping[int, Emitted]) -> int:
        """About how many instructions a turn executes between questions to the host."""
        return _turn_lines(inner_steps(loop), functions)


def _all_lines(loop: While, functions: Mapping[int, Emitted]) -> int | None:
    """About how many instructions all turns of a loop execute; None where that is not known, or a kernel loops."""
    for step in all_steps(inner_steps(loop)):
        if isinstance(step, Launch) and functions[id(step)].loops:
            return None
        if isinstance(step, While) and not isinstance(step.count, int):
            return None
    return loop.count * _turn_lines(inner_steps(loop), functions) if isinstance(loop.count, int) else None


def _turn_lines(steps: Sequence[Step], functions: Mapping[int, Emitted]) -> int:
    total = 0
    for step in steps:
        match step:
            case Launch():
                total += functions[id(step)].lines
            case Branch():
                total += _turn_lines(inner_steps(step), functions)
            case While():
                lines = _all_lines(step, functions)
                asks = lines is None or lines > UNPOLLED_LINES
                total += _turn_lines(inner_steps(step), functions) if asks else lines or 0
    return total


def plan_inlining(schedule: Schedule, functions: Mapping[int, Emitted], donated: Collection[str]) -> Inlining:
    """What to inline into the loops of ``schedule``; ``donated`` are outputs that lie in the memory of inputs."""
    loops = [step for step in all_steps(schedule.steps) if isinstance(step, While)]
    if not loops:
        return Inlining()
    inside = [functions[id(launch)] for launch in launches(loops)]
    candidates = {function.name for function in inside if function.is_small}
    readers: dict[str, set[str]] = {}
    written: set[str] = set()
    for launch in launches(schedule.steps):
        for buffer, param in zip(launch.buffers, launch.kernel.params, strict=True):
            readers.setdefault(buffer, set()).add(functions[id(launch)].name)
            if param.access != "read":
                written.add(buffer)
    small = {function.name for function in functions.values() if function.is_small}
    steps = list(all_steps(schedule.steps))
    in_memory = {step.buffer for step in steps if isinstance(step, Push | Pop)}
    in_memory.update(
        name for step in steps if isinstance(step, PrintStep | HostStep | Exchange) for name in step.buffers
    )
    values = frozenset(
        buffer.name
        for buffer in schedule.buffers
        if _may_be_value(buffer, written, donated)
        and buffer.name not in in_memory
        and readers.get(buffer.name, set()) <= small
        and not readers.get(buffer.name, set()).isdisjoint(candidates)
    )
    chosen = frozenset(candidates.union(*(readers[name] for name in values)))
    times = Counter(functions[id(launch)].name for launch in launches(schedule.steps))
    lines = {function.name: function.lines for function in functions.values()}
    if sum(lines[name] * times[name] for name in chosen) > MOST_LINES_TOGETHER:
        return Inlining()
    return Inlining(chosen, values)


def launches(steps: Sequence[Step]) -> list[Launch]:
    """Every launch among ``steps``, those of branches and loops included, in order."""
    return [step for step in all_steps(steps) if isinstance(step, Launch)]


def _may_be_value(buffer: ScheduleBuffer, written: Collection[str], donated: Collection[str]) -> bool:
    if not isinstance(buffer.bytes, int) or not 0 < buffer.bytes <= MOST_BYTES:
        return False
    match buffer.role:
        case "temporary":
            return True
        case "input":
            return buffer.name not in written
        case "output":
            return buffer.name in written and buffer.name not in donated
    return False


# ----------------------------------------------------------------------
# A schedule as one LLVM module: its kernels, its constants, and the entry function that runs its steps.

# ----------------------------------------------------------------------
# What a timed entry notes of a call: when its steps began and ended, and how long each launch took.
#
# The table of 64-bit words that the caller gives, zeroed, stands behind the addresses of outputs: the ticks of the
# processor's time stamp counter at begin and end, and then for each timed step its runs, their ticks together, and the
# ticks at which it began first. The end of a call that failed stays 0.

BEGIN, END, FIRST_STEP, WORDS_OF_STEP = 0, 1, 2, 3
RUNS, TICKS, BEGAN = range(WORDS_OF_STEP)


def timed_steps(steps: Sequence[Step]) -> list[Launch | HostStep]:
    """The steps that are timed, in the order of the table: launches and calls of Python, those of loops included."""
    return [step for step in all_steps(steps) if isinstance(step, Launch | HostStep)]


class LaunchTimes:
    """Writes the code that fills the table into ``function``; ``table`` is the address of it."""

    def __init__(self, function: LlvmFunction, table: str, steps: Sequence[Step]) -> None:
        self.function = function
        self.table = table
        self._numbers = {id(step): number for number, step in enumerate(timed_steps(steps))}

    def note(self, word: int) -> None:
        """Put what the counter shows into a word."""
        self.function.do(f"store {self.now()}, {self._at(word)}, align 8")

    def now(self) -> LlvmValue:
        """What the counter shows. Memory is neither read nor written across this."""
        return self.function.emit("i64", "call i64 @llvm.readcyclecounter()")

    def ran(self, step: Launch | HostStep, began: LlvmValue) -> None:
        """Count a run of a step that began at ``began`` and has just ended."""
        function, now = self.function, self.now()
        first = FIRST_STEP + WORDS_OF_STEP * self._numbers[id(step)]
        took = function.emit("i64", f"sub {now}, {began.name}")
        runs, ticks, begin = (self._at(first + word) for word in (RUNS, TICKS, BEGAN))
        before = function.emit("i64", f"load i64, {runs}, align 8")
        sum_before = function.emit("i64", f"load i64, {ticks}, align 8")
        began_before = function.emit("i64", f"load i64, {begin}, align 8")
        is_first = function.emit("i1", f"icmp eq {before}, 0")
        begun = function.emit("i64", f"select {is_first}, {began}, {began_before}")
        for address, value in (
            (runs, function.emit("i64", f"add {before}, 1")),
            (ticks, function.emit("i64", f"add {sum_before}, {took.name}")),
            (begin, begun),
        ):
            function.do(f"store {value}, {address}, align 8")

    def _at(self, word: int) -> LlvmValue:
        return self.function.emit("ptr", f"getelementptr i64, ptr {self.table}, i64 {word}")


# ----------------------------------------------------------------------
# Growable stacks, as functions that the entry calls: what loops leave for their gradients.

STACK_TYPE: Final = "{ ptr, i64, i64 }"
"""A growable stack: its memory, the bytes in use, and its capacity."""

PUSH: Final = Definition(
    "jg_push",
    "i32 @jg_push(ptr %host, ptr %call, ptr %stack, ptr %from, i64 %bytes)",
    f"""
start:
  %used.at = getelementptr {STACK_TYPE}, ptr %stack, i64 0, i32 1
  %capacity.at = getelementptr {STACK_TYPE}, ptr %stack, i64 0, i32 2
  %used = load i64, ptr %used.at
  %capacity = load i64, ptr %capacity.at
  %room = sub i64 %capacity, %used
  %fits = icmp uge i64 %room, %bytes
  br i1 %fits, label %copy, label %grow
grow:
  %needed = call {{ i64, i1 }} @llvm.sadd.with.overflow.i64(i64 %used, i64 %bytes)
  %least = extractvalue {{ i64, i1 }} %needed, 0
  %over = extractvalue {{ i64, i1 }} %needed, 1
  %least.doubled = call i64 @llvm.sshl.sat.i64(i64 %least, i64 1)
  %wanted = call i64 @llvm.smax.i64(i64 %least.doubled, i64 4096)
  br i1 %over, label %refuse, label %ask
ask:
  %block = call ptr @jg_block(ptr %host, ptr %call, i64 %wanted)
  %none = icmp eq ptr %block, null
  br i1 %none, label %refuse, label %move
move:
  %old = load ptr, ptr %stack
  call void @llvm.memcpy.p0.p0.i64(ptr %block, ptr %old, i64 %used, i1 false)
  store ptr %block, ptr %stack
  store i64 %wanted, ptr %capacity.at
  br label %copy
copy:
  %data = load ptr, ptr %stack
  %to = getelementptr i8, ptr %data, i64 %used
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %more = add i64 %used, %bytes
  store i64 %more, ptr %used.at
  ret i32 0
refuse:
  ret i32 {loader.OUT_OF_MEMORY}""",
    inlined=False,
    hot=False,
    uses={"jg_block": 1},
)

POP: Final = Definition(
    "jg_pop",
    "i32 @jg_pop(ptr %stack, ptr %to, i64 %bytes)",
    f"""
start:
  %used.at = getelementptr {STACK_TYPE}, ptr %stack, i64 0, i32 1
  %used = load i64, ptr %used.at
  %left = sub i64 %used, %bytes
  %empty = icmp slt i64 %left, 0
  br i1 %empty, label %refuse, label %copy
copy:
  %data = load ptr, ptr %stack
  %from = getelementptr i8, ptr %data, i64 %left
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  store i64 %left, ptr %used.at
  ret i32 0
refuse:
  ret i32 {loader.SIZE_OVERFLOW}""",
    inlined=False,
    hot=False,
)


# ----------------------------------------------------------------------
# The steps of a schedule as code of the entry function: launches, branches, loops, stacks and prints.

POLL_TURNS: Final = 1024
"""Turns, at most, of a loop that is inlined as a whole between two questions to the host whether to stop."""

POLL_LINES: Final = 1 << 21
"""Instructions, about, between two questions: a ms or two."""


class BufferAddresses(Protocol):
    """Where buffers lie, which changes where they exchange their memory (``EntryWriter``)."""

    def address(self, name: str) -> str: ...
    def exchange(self, step: Exchange) -> None: ...
    def unless_in_place(self, launch: Launch, write: Callable[[], None]) -> None: ...


@dataclass
class StepWriter:
    """Writes steps to the end of ``function``.

    ``places`` tell where buffers lie, ``stack_bytes`` the sizes of those that are pushed or popped, ``kernels``
    the functions of launches, by identity. What ``donated`` names lies in the caller's memory: from the first step on
    that may write to it, ``host`` is one that cannot interrupt the call. ``times`` notes how long launches take.
    """

    function: LlvmFunction
    host: LlvmValue
    call: LlvmValue
    dims: LlvmValue
    scratch: LlvmValue
    sizes: Mapping[str, str]
    places: BufferAddresses
    stacks: Mapping[str, LlvmValue]
    stack_bytes: Mapping[str, str]
    kernels: Mapping[int, Emitted]
    inlining: Inlining
    donated: frozenset[str]
    times: LaunchTimes | None = None

    def write(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Launch():
                    self._keep_quiet((step,))
                    self.places.unless_in_place(step, partial(self._launch, step))
                case Branch():
                    self._branch(step)
                case While():
                    self._while(step)
                case Push(stack, buffer):
                    check(
                        self.function,
                        self.function.call_of(
                            "i32", PUSH.name, self.host, self.call, self.stacks[stack], *self._memory_of(buffer)
                        ),
                    )
                case Pop(stack, buffer):
                    check(
                        self.function,
                        self.function.call_of("i32", POP.name, self.stacks[stack], *self._memory_of(buffer)),
                    )
                case PrintStep():
                    self._print(step)
                case HostStep():
                    self._keep_quiet((step,))
                    pointers = [self.places.address(name) for name in step.buffers]
                    began = self._began()
                    emit_host_call(self.function, self.host, self.call, self.dims, step, pointers)
                    self._ran(step, began)
                case Exchange():
                    self.places.exchange(step)

    def _print(self, step: PrintStep) -> None:
        pointers = [self.places.address(name) for name in step.buffers]
        emit_print(self.function, self.host, self.call, step, lambda: pointers, lambda call: check(self.function, call))

    def _launch(self, launch: Launch) -> None:
        kernel = self.kernels[id(launch)]
        arguments = [str(self.host), str(self.call), str(self.scratch)]
        arguments += [f"ptr {self.places.address(name)}" for name in launch.buffers]
        arguments += [f"i64 {self.sizes[size]}" for size in launch.kernel.sizes]
        began = self._began()
        call = self.function.call_of("i32", kernel.name, *arguments)
        if kernel.can_fail:
            check(self.function, call)
        else:
            self.function.do(call)
        self._ran(launch, began)

    def _began(self) -> LlvmValue | None:
        return None if self.times is None else self.times.now()

    def _ran(self, step: Launch | HostStep, began: LlvmValue | None) -> None:
        if self.times is not None and began is not None:
            self.times.ran(step, began)

    def _predicate(self, name: str) -> str:
        byte = self.function.emit("i8", f"load i8, ptr {self.places.address(name)}, align 1")
        return self.function.emit("i1", f"icmp ne {byte}, 0").name

    def _branch(self, branch: Branch) -> None:
        self._keep_quiet((*branch.then, *branch.otherwise))
        emit_branch(self.function, branch, self._predicate, self.write)

    def _while(self, loop: While) -> None:
        self._keep_quiet((*loop.condition, *loop.body))
        if self.inlining.asks_nothing(loop, self.kernels):
            emit_while(self.function, loop, self._predicate, self.write, lambda: None)
            return
        every = 1
        if self.inlining.covers(loop, self.kernels):
            lines = self.inlining.turn_lines(loop, self.kernels)
            every = min(POLL_TURNS, 1 << max(0, (POLL_LINES // max(1, lines)).bit_length() - 1))
        emit_while(self.function, loop, self._predicate, self.write, lambda: self._poll(every))

    def _poll(self, every: int) -> None:
        """Ask the host whether to stop, once in so many turns, a power of two."""
        function = self.function
        go_on = function.label("go_on")
        if every > 1:
            turns = function.alloca("i64", align=8)
            function.prologue.append(f"  store i64 0, {turns}")
            turn = function.emit("i64", f"load i64, {turns}")
            following = function.emit("i64", f"add i64 {turn.name}, 1")
            function.do(f"store {following}, {turns}")
            low = function.emit("i64", f"and {following}, {every - 1}")
            due = function.emit("i1", f"icmp eq {low}, 0")
            ask = function.label("ask")
            function.branch(due.name, ask, go_on, likely=False)
            function.start_block(ask)
        pool.declare(self.function.module)
        check(function, f"call i32 @jg_poll({self.host}, {self.call})")
        function.jump(go_on)
        function.start_block(go_on)

    def _keep_quiet(self, steps: Sequence[Step]) -> None:
        """From the first step that may write to donated memory, go on with a host that cannot interrupt the call."""
        if not self.donated or not _writes(steps, self.donated):
            return
        self.donated = frozenset()
        function = self.function
        size = ctypes.sizeof(loader.Host)
        quiet = function.alloca("i8", size, align=8)
        function.do(f"call void @llvm.memcpy.p0.p0.i64({quiet}, {self.host}, i64 {size}, i1 false)")
        poll = function.emit("ptr", f"getelementptr i8, {quiet}, i64 {abi.HOST_POLL}")
        function.do(f"store ptr null, {poll}")
        self.host = quiet

    def _memory_of(self, name: str) -> tuple[str, str]:
        """The operands that say where a stacked buffer lies and how long it is."""
        return f"ptr {self.places.address(name)}", f"i64 {self.stack_bytes[name]}"


def _writes(steps: Sequence[Step], buffers: frozenset[str]) -> bool:
    """Whether ``steps`` may write to one of ``buffers``."""
    for step in steps:
        match step:
            case Launch(kernel, names):
                params = zip(names, kernel.params, strict=True)
                writes = any(name in buffers and param.access != "read" for name, param in params)
            case Pop(_, buffer):
                writes = buffer in buffers
            case Branch(_, then, otherwise):
                writes = _writes((*then, *otherwise), buffers)
            case While(condition, _, body):
                writes = _writes((*condition, *body), buffers)
            case HostStep(_, _, names):
                writes = not buffers.isdisjoint(names)
            case Push() | PrintStep() | Exchange() | ParallelCopy():
                writes = False
        if writes:
            return True
    return False


# ----------------------------------------------------------------------
# A schedule as one LLVM module: its kernels, its constants, and the entry function that runs its steps.
#
# ``i32 jg_entry(host, call, buffers, dims)`` and ``i64 jg_arena_bytes(dims)`` as ``runtime/loader/abi.py`` documents
# them. Of ``buffers`` the inputs come first, by position, then the outputs, by position.


def emit_module(schedule: Schedule, target: Target, *, timed: bool = False) -> LlvmModule:
    """The LLVM module of ``schedule`` for ``target``; CompileError for a target without fused multiply-add.

    A ``timed`` entry notes how long its steps take, in a table that stands behind the outputs (``entry.py``).
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
            self.stacks[stack] = self.function.alloca(STACK_TYPE, align=8)
            self.function.do(f"store {STACK_TYPE} zeroinitializer, {self.stacks[stack]}")
        if self.schedule.stacks:
            pool.declare(self.module)
            self.module.functions += [PUSH, POP]
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
            f"  {at.name} = getelementptr i8, {self.call}, i64 {abi.CALL_ARENA}",
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
