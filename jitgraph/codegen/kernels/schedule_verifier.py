"""The rules of schedules, checked: every kernel, buffers wired to params, and nothing read before it is written."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph import dtypes
from jitgraph.codegen.kernels.bounds import sample_sizes
from jitgraph.codegen.kernels.kernel import CheckStatement, Kernel
from jitgraph.codegen.kernels.kernel_text import print_schedule
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.codegen.kernels.memory_verifier import verify_plan
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    ParallelCopy,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
)
from jitgraph.codegen.kernels.traversal import statements_of
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.dim_parser import parse_dim
from jitgraph.ir.dims import DimLike
from jitgraph.runtime.loader import CHECK_KINDS


def verify_schedule(schedule: Schedule) -> None:
    """GraphError where ``schedule`` or one of its kernels breaks a rule; its memory plan is verified where it has one.

    Sizes of buffers and params must be equal as expressions, or agree on sample sizes that satisfy the constraints.
    """
    verifier = _ScheduleVerifier(schedule)
    verifier.declarations()
    written = {b.name for b in schedule.buffers if b.role in ("input", "constant") or b.type.size == 0}
    verifier.steps(schedule.steps, written)
    for buffer in schedule.buffers:
        if buffer.role == "output" and buffer.name not in written:
            verifier.fail(f"the output {buffer.name} is never written")
    if schedule.plan is not None:
        verify_plan(schedule)


class _ScheduleVerifier:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.buffers = {buffer.name: buffer for buffer in schedule.buffers}
        self.verified: list[Kernel] = []

    def fail(self, why: str) -> None:
        heading = print_schedule(self.schedule).split("\n\n")[0]
        raise GraphError(f"schedule {self.schedule.name}: {why}\n{heading}")

    def declarations(self) -> None:
        schedule = self.schedule
        if len(self.buffers) != len(schedule.buffers):
            self.fail("two buffers have one name")
        for role in ("input", "output"):
            positions = sorted(buffer.position for buffer in schedule.buffers if buffer.role == role)
            if positions != list(range(len(positions))):
                self.fail(f"the positions of the {role}s are {positions}")
        for buffer in schedule.buffers:
            if (buffer.value is not None) != (buffer.role == "constant"):
                self.fail(f"{buffer.name}: constants have a value and others have none")
            if buffer.value is not None and buffer.value.type != buffer.type:
                self.fail(f"{buffer.name} is {buffer.type} and its value {buffer.value.type}")
            unknown = set().union(*map(dims.names, buffer.type.shape)) - set(schedule.sizes)
            if unknown:
                self.fail(f"{buffer.name} has the size {', '.join(sorted(unknown))}, which is not among the schedule's")
        for site in schedule.checks:
            if site.kind not in CHECK_KINDS:
                self.fail(f"a check raises {site.kind}; one of {', '.join(CHECK_KINDS)}")

    def steps(self, steps: Sequence[Step], written: set[str]) -> None:
        """Check the steps in order; ``written`` are the buffers that hold something, and grows."""
        for step in steps:
            match step:
                case Launch():
                    self.launch(step, written)
                case Branch(predicate, then, otherwise):
                    self.predicate(predicate, written)
                    sides = (set(written), set(written))
                    self.steps(then, sides[0])
                    self.steps(otherwise, sides[1])
                    written |= sides[0] & sides[1]
                case While(condition, predicate, body, count):
                    if count is not None and (unknown := dims.names(count) - set(self.schedule.sizes)):
                        self.fail(f"a loop has {count} turns, and {', '.join(sorted(unknown))} is not the schedule's")
                    self.steps(condition, written)
                    self.predicate(predicate, written)
                    self.steps(body, written)  # where it does not run, what it alone writes (stacked results) is empty
                case Push(stack, name):
                    self.stack(stack)
                    self.read(name, written)
                case Pop(stack, name):
                    self.stack(stack)
                    self.write(name, written)
                case PrintStep():
                    self.print(step, written)
                case HostStep():
                    self.host(step, written)
                case ParallelCopy(copies):
                    for copy in copies:
                        self.launch(copy, written)
                case Exchange():
                    self.exchange(step, written)

    def exchange(self, step: Exchange, written: set[str]) -> None:
        """Temporaries of one size, each once; a buffer holds something behind it where the next one did before."""
        names = step.buffers
        for buffer in map(self.buffer, names):
            if buffer.role != "temporary":
                self.fail(f"{buffer.name} is {buffer.role} and cannot exchange its memory")
            if buffer.bytes != step.bytes:
                self.fail(f"{buffer.name} has {buffer.bytes} bytes, and exchanges memory of {step.bytes} bytes")
        if len({*names}) < max(2, len(names)):
            self.fail(f"an exchange of {', '.join(names)}: two buffers or more, each once")
        moved = {name for name, following in zip(names, (*names[1:], names[0]), strict=True) if following in written}
        written -= {*names}
        written |= moved

    def host(self, step: HostStep, written: set[str]) -> None:
        if step.site >= len(self.schedule.calls):
            self.fail(f"call {step.site} is not among the schedule's")
        call = self.schedule.calls[step.site]
        if (len(step.reads), len(step.writes)) != (len(call.operands), len(call.results)):
            self.fail(f"call {step.site} of {call.op.name} has {len(step.reads)} operands, {len(step.writes)} results")
        for name in step.reads:
            self.read(name, written)
        for name in step.writes:
            if step.buffers.count(name) > 1:
                self.fail(f"call {step.site} writes {name} and is given it twice")
            self.write(name, written)
        for name, due in zip(step.buffers, (*call.operands, *call.results), strict=True):
            type = self.buffer(name).type
            if type.dtype != due.dtype or not self.equal(due.size, type.size):
                self.fail(f"call {step.site}: {name} is {type}, not {due}")

    def print(self, step: PrintStep, written: set[str]) -> None:
        if step.site >= len(self.schedule.prints):
            self.fail(f"print {step.site} is not among the schedule's")
        operands = self.schedule.prints[step.site].operands
        if len(operands) != len(step.buffers):
            self.fail(f"print {step.site} takes {len(operands)} buffers, not {len(step.buffers)}")
        for operand, name in zip(operands, step.buffers, strict=True):
            self.read(name, written)
            type = self.buffer(name).type
            size = dims.product(parse_dim(str(extent)) for extent in operand.shape)
            if operand.dtype != type.dtype.name or not self.equal(size, type.size):
                self.fail(f"print {step.site}: {name} is {type}, not {operand}")

    def stack(self, stack: str) -> None:
        if stack not in self.schedule.stacks:
            self.fail(f"there is no stack {stack}")

    def buffer(self, name: str) -> ScheduleBuffer:
        if name not in self.buffers:
            self.fail(f"there is no buffer {name}")
        return self.buffers[name]

    def read(self, name: str, written: set[str]) -> None:
        self.buffer(name)
        if name not in written:
            self.fail(f"{name} is read before anything was written to it")

    def write(self, name: str, written: set[str]) -> None:
        if self.buffer(name).role in ("input", "constant"):
            self.fail(f"{name} is {self.buffer(name).role} and not to be written")
        written.add(name)

    def predicate(self, name: str, written: set[str]) -> None:
        self.read(name, written)
        type = self.buffer(name).type
        if not dtypes.is_bool(type.dtype) or type.shape:
            self.fail(f"{name} is {type} and decides a branch: it should be bool[]")

    def launch(self, launch: Launch, written: set[str]) -> None:
        kernel = launch.kernel
        if not any(kernel is known for known in self.verified):
            verify_kernel(kernel, self.schedule.constraints)
            self.verified.append(kernel)
        for statement in statements_of(kernel.body):
            if isinstance(statement, CheckStatement) and statement.check >= len(self.schedule.checks):
                self.fail(f"kernel {kernel.name} has check {statement.check}, which the schedule does not say")
        if unknown := set(kernel.sizes) - set(self.schedule.sizes) - {number.name for number in self.schedule.numbers}:
            self.fail(f"kernel {kernel.name} has sizes {', '.join(sorted(unknown))}, which are not the schedule's")
        if len(kernel.params) != len(launch.buffers):
            self.fail(f"kernel {kernel.name} takes {len(kernel.params)} buffers, not {len(launch.buffers)}")
        for param, name in zip(kernel.params, launch.buffers, strict=True):
            type = self.buffer(name).type
            if type.dtype != param.dtype or not self.equal(type.size, param.size):
                self.fail(f"kernel {kernel.name}: {name} is {type}, and {param.name} {param.dtype.name}[{param.size}]")
            if param.access == "read":
                self.read(name, written)
        for param, name in zip(kernel.params, launch.buffers, strict=True):
            if param.access != "read":
                self.write(name, written)

    def equal(self, left: DimLike, right: DimLike) -> bool:
        if left == right:
            return True
        return all(
            dims.evaluate(left, sizes) == dims.evaluate(right, sizes)
            for sizes in sample_sizes(self.schedule.sizes, self.schedule.constraints)
        )
