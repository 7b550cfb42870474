"""The steps of a schedule as code of the entry function: launches, branches, loops, stacks and prints."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from jitgraph.codegen.cpu import pool, stacks
from jitgraph.codegen.cpu.inlining import Emitted, Inlining
from jitgraph.codegen.cpu.launch_times import LaunchTimes
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    ParallelCopy,
    Pop,
    PrintStep,
    Push,
    Step,
    While,
)
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmValue, check
from jitgraph.codegen.llvm.control import emit_branch, emit_host_call, emit_print, emit_while
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

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
                            "i32", stacks.PUSH.name, self.host, self.call, self.stacks[stack], *self._memory_of(buffer)
                        ),
                    )
                case Pop(stack, buffer):
                    check(
                        self.function,
                        self.function.call_of("i32", stacks.POP.name, self.stacks[stack], *self._memory_of(buffer)),
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
        poll = function.emit("ptr", f"getelementptr i8, {quiet}, i64 {offsets.HOST_POLL}")
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
