"""The steps of a schedule as code of the host's entry: what it asks of the stream, and where it waits for an answer.

A branch, and a loop whose number of turns the device alone knows, wait once for each predicate: it is copied to pinned
memory, with the error record, so that a failed check ends a loop at once. A loop of known length waits for nothing.
A branch or loop that is one launch (``block_loops.py``) is launched for so many turns at a time, so that the host gets
to poll; where its length is not known the predicate says whether it is to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from jitgraph.codegen.cuda.host_entry import HostEntry
from jitgraph.codegen.cuda.launches import KernelLaunch, Launches
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    Launch,
    Pop,
    PrintStep,
    Push,
    Schedule,
    Step,
    While,
    aligned,
)
from jitgraph.codegen.kernels.steps import all_steps
from jitgraph.codegen.llvm.builder import LlvmValue
from jitgraph.codegen.llvm.control import emit_branch, emit_print, emit_while
from jitgraph.codegen.llvm.polling import POLL
from jitgraph.ir.dims import DimLike
from jitgraph.runtime import loader

_APART: Final = 64
"""Bytes between what is copied to pinned memory: the predicate lies first, then a print's operands."""


def host_sizes(schedule: Schedule, launches: Launches) -> tuple[DimLike, ...]:
    """Bytes of pinned memory, of which the entry is given the greatest; none where it never waits.

    It waits where it looks at the device, asks the host to poll or print, or needs memory on the way.
    """
    waits = any(
        isinstance(step, Push | Pop | PrintStep)
        or (isinstance(step, Branch) and id(step) not in launches)
        or (isinstance(step, While) and not _is_launched_once(step, launches))
        for step in _on_the_host(schedule.steps, launches)
    )
    prints = [step for step in all_steps(schedule.steps) if isinstance(step, PrintStep)]
    return (_APART, *(_print_indices(schedule, step)[-1] for step in prints)) if waits else ()


def _on_the_host(steps: Sequence[Step], launches: Launches) -> list[Step]:
    """The steps that the host runs: nothing inside of those that are one launch."""
    host_steps: list[Step] = []
    for step in steps:
        host_steps.append(step)
        if isinstance(step, Branch) and id(step) not in launches:
            host_steps += _on_the_host((*step.then, *step.otherwise), launches)
        if isinstance(step, While) and id(step) not in launches:
            host_steps += _on_the_host((*step.condition, *step.body), launches)
    return host_steps


def _is_launched_once(loop: While, launches: Launches) -> bool:
    return id(loop) in launches and isinstance(loop.count, int) and loop.count <= launches[id(loop)][0].most_turns


def _print_indices(schedule: Schedule, step: PrintStep) -> list[DimLike]:
    """Where the operands of a print lie in pinned memory, and where they end."""
    offsets: list[DimLike] = [_APART]
    for name in step.buffers:
        size = next(buffer.bytes for buffer in schedule.buffers if buffer.name == name)
        offsets.append(offsets[-1] + aligned(size, _APART))
    return offsets


class HostSteps:
    """Writes steps to the end of the entry. Sizes that they need are known before the first one."""

    def __init__(self, entry: HostEntry) -> None:
        self.entry = entry
        self.bytes: dict[str, str] = {}
        value = entry.sizes.value
        of_buffer = {buffer.name: buffer.bytes for buffer in entry.schedule.buffers}
        for step in all_steps(entry.schedule.steps):
            match step:
                case Push(_, name) | Pop(_, name):
                    self.bytes[name] = value(of_buffer[name])
                case PrintStep(_, names):
                    self.bytes |= {name: value(of_buffer[name]) for name in names}
                    for offset in _print_indices(entry.schedule, step):
                        value(offset)
                case While(_, _, _, count) if count is not None:
                    value(count)

    def write(self, steps: Sequence[Step]) -> None:
        entry = self.entry
        for step in steps:
            if isinstance(step, Branch | While) and id(step) in entry.launches:
                self._launched(step, *entry.launches[id(step)])
                continue
            match step:
                case Launch():
                    entry.unless_in_place(step, partial(self._launch, step))
                case Branch():
                    emit_branch(entry.function, step, self._predicate, self.write)
                case While(_, _, _, None):
                    emit_while(entry.function, step, self._predicate, self.write, self._poll)
                case While(_, _, body, count):
                    assert count is not None
                    self._counted(entry.sizes.value(count), 1, partial(self._turn, body))
                case Push(stack, name):
                    entry.stacks.push(stack, entry.address(name), self.bytes[name])
                case Pop(stack, name):
                    entry.stacks.pop(stack, entry.address(name), self.bytes[name])
                case PrintStep():
                    self._print(step)
                case Exchange():
                    entry.exchange(step)

    def _launch(self, step: Launch) -> None:
        for launch in self.entry.launches[id(step)]:
            self.entry.launch(launch)

    def _launched(self, step: Branch | While, launch: KernelLaunch) -> None:
        """A branch or loop that is one launch, again and again where it may take more turns than one launch has."""
        entry, function, most = self.entry, self.entry.function, str(launch.most_turns)
        if isinstance(step, Branch):
            entry.launch(launch)
        elif step.count is not None:
            count = entry.sizes.value(step.count)
            if _is_launched_once(step, entry.launches):
                if count != "0":
                    entry.launch(launch, count)
                return

            def turns(done: LlvmValue) -> None:
                left = function.emit("i64", f"sub i64 {count}, {done.name}")
                some = function.emit("i64", f"call i64 @llvm.smin.i64({left}, i64 {most})")
                entry.launch(launch, some.name)

            self._counted(count, launch.most_turns, turns)
        else:
            again, after = function.label("again"), function.label("after")
            function.jump(again)
            function.start_block(again)
            entry.launch(launch, most)
            self._poll()
            function.branch(self._predicate(step.predicate), again, after)
            function.start_block(after)

    def _counted(self, count: str, by: int, turn: Callable[[LlvmValue], None]) -> None:
        """``turn(done)`` for 0, ``by``, ... below ``count``; the host is asked whether to stop behind each."""
        function = self.entry.function
        before, test, body, after = function.block, *(function.label(hint) for hint in ("test", "body", "after"))
        function.jump(test)
        function.start_block(test)
        done = function.phi("i64")
        done.add("0", before)
        function.branch(function.emit("i1", f"icmp slt {done.value}, {count}").name, body, after)
        function.start_block(body)
        turn(done.value)
        self._poll()
        following = function.emit("i64", f"add {done.value}, {by}")
        done.add(following.name, function.block)
        function.jump(test)
        function.start_block(after)

    def _turn(self, body: Sequence[Step], _: LlvmValue) -> None:
        self.write(body)

    def _poll(self) -> None:
        """Ask the host whether to stop."""
        entry, function = self.entry, self.entry.function
        if function.module.claim(POLL.name):
            function.module.functions.append(POLL)
        self._check(function.call_of("i32", POLL.name, entry.host, entry.call))

    def _check(self, call: str) -> None:
        """Make a call that gives an error code, and end the entry with the code where it is not zero."""
        code = self.entry.function.emit("i32", call)
        self.entry.leave_where(self.entry.function.emit("i1", f"icmp ne {code}, 0").name, code)

    def _predicate(self, name: str) -> str:
        """Whether the bool in a buffer is true, once the stream has come there."""
        entry, function = self.entry, self.entry.function
        self._fetch(entry.pinned, name, "1")
        self._wait()
        byte = function.emit("i8", f"load i8, ptr {entry.pinned}, align 1")
        return function.emit("i1", f"icmp ne {byte}, 0").name

    def _print(self, step: PrintStep) -> None:
        entry = self.entry
        emit_print(entry.function, entry.host, entry.call, step, lambda: self._fetched(step), self._check)

    def _fetched(self, step: PrintStep) -> list[str]:
        """Where the operands of a print lie in pinned memory, once they have arrived there."""
        entry, addresses = self.entry, []
        for name, offset in zip(step.buffers, _print_indices(entry.schedule, step), strict=False):
            at = f"getelementptr i8, ptr {entry.pinned}, i64 {entry.sizes.value(offset)}"
            addresses.append(entry.function.emit("ptr", at).name)
            self._fetch(addresses[-1], name, self.bytes[name])
        self._wait()
        return addresses

    def _fetch(self, to: str, name: str, size: str) -> None:
        """Ask for a copy of the first ``size`` bytes of a buffer in the host's memory."""
        entry = self.entry
        source = entry.function.emit("i64", f"ptrtoint ptr {entry.address(name)} to i64")
        entry.ask("cuMemcpyDtoHAsync_v2", f"ptr {to}, {source}, i64 {size}, ptr {entry.stream}", 0)

    def _wait(self) -> None:
        """Let what was asked for arrive; where a check has failed by then the entry ends, and the record tells it."""
        entry, function = self.entry, self.entry.function
        entry.fetch_record()
        entry.ask("cuStreamSynchronize", f"ptr {entry.stream}", 0)
        if entry.record_at is None:
            return
        at = function.emit("ptr", f"getelementptr i64, ptr {entry.kept}, i64 1")
        order = function.emit("i64", f"load i64, {at}, align 8")
        failed = function.emit("i1", f"icmp ne {order}, -1")
        entry.leave_where(failed.name, LlvmValue(str(loader.OK), "i32"))
