"""The rules of schedules, checked: kernels, wiring of buffers, nothing read before it is written, and a safe memory
plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph import dtypes
from jitgraph.codegen.kernels.bounds import is_natural, sample_sizes
from jitgraph.codegen.kernels.kernel import CheckStatement, Kernel, statements_of
from jitgraph.codegen.kernels.kernel_text import print_schedule
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
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
    aligned,
)
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike, parse_dim
from jitgraph.runtime.loader import CHECK_KINDS

# ----------------------------------------------------------------------
# Proof that a memory plan is safe, by a liveness analysis of its own: backwards, loops to a fixed point.
#
# Nothing here is shared with the planner but the form of a plan, so that a fault in one does not hide in the other.

Live = frozenset[str]


def verify_plan(schedule: Schedule) -> None:
    """GraphError, naming the buffers, unless the plan keeps every value until its last use and lies in the arena.

    Sizes may be any numbers from 0 on: what cannot be proved by the form of the expressions counts as an overlap.
    """
    plan = schedule.plan
    if plan is None:
        raise GraphError(f"{schedule.name} has no memory plan")
    checker = _Checker(schedule, plan)
    for name in checker.sizes:
        checker.require_offset(name)
    outputs = frozenset(buffer.name for buffer in schedule.buffers if buffer.role == "output")
    inputs = frozenset(buffer.name for buffer in schedule.buffers if buffer.role in ("input", "constant"))
    checker.steps(schedule.steps, outputs, inputs)
    checker.require_checks_first(schedule.steps, plan.donations)


def _at_least(left: DimLike, right: DimLike) -> bool:
    """Whether ``left >= right`` is proved for all sizes."""
    return is_natural(left - right, {})


class _Checker:
    def __init__(self, schedule: Schedule, plan: MemoryPlan) -> None:
        self.plan = plan
        self.name = schedule.name
        self.memories = _memories(schedule.steps)
        self.sizes: dict[str, DimLike] = {
            buffer.name: aligned(buffer.bytes, plan.alignment)
            for buffer in schedule.buffers
            if buffer.role == "temporary"
        }

    def require_offset(self, name: str) -> None:
        """The buffer lies inside the arena, aligned."""
        offset = self.plan.offsets.get(name)
        if offset is None:
            raise GraphError(f"{self.name}: {name} has no place in the arena")
        terms = {(): offset} if isinstance(offset, int) else offset.terms
        if any(coefficient % self.plan.alignment for coefficient in terms.values()) or not _at_least(offset, 0):
            raise GraphError(f"{self.name}: {name} lies at {offset}, which is not a multiple of {self.plan.alignment}")
        if not _at_least(self.plan.arena_bytes, offset + self.sizes[name]):
            raise GraphError(
                f"{self.name}: {name} at {offset} does not fit in an arena of {self.plan.arena_bytes} bytes"
            )

    def overlap(self, left: str, right: str) -> bool:
        """Whether two different buffers may have a byte in common, wherever exchanges have brought them."""
        memories = self.memories.get(left, frozenset((left,))), self.memories.get(right, frozenset((right,)))
        if memories[0] == memories[1]:  # each always has another one of them
            return any(self.overlap_at_first(a, b) for a in memories[0] for b in memories[0] if a != b)
        return any(self.overlap_at_first(a, b) for a in memories[0] for b in memories[1])

    def overlap_at_first(self, left: str, right: str) -> bool:
        """Whether two different buffers may have a byte in common where the plan has them."""
        donations = self.plan.donations
        if donations.get(left, left) == donations.get(right, right):
            return True
        if left not in self.sizes or right not in self.sizes:
            return False
        a, b = self.plan.offsets[left], self.plan.offsets[right]
        sizes = self.sizes[left], self.sizes[right]
        return not (sizes[0] == 0 or sizes[1] == 0 or _at_least(b, a + sizes[0]) or _at_least(a, b + sizes[1]))

    def steps(self, steps: Sequence[Step], live: Live, filled: Live) -> Live:
        """The buffers whose values are wanted before ``steps``, where ``live`` are those wanted after.

        ``filled`` are the buffers that may hold a value before: a work buffer that a kernel first writes and then reads
        holds none that is wanted.
        """
        before = [filled]
        for step in steps:
            before.append(before[-1] | _written((step,)))
        for step, filled_before in zip(reversed(steps), reversed(before[:-1]), strict=True):
            live = self.step(step, live, filled_before)
        return live

    def step(self, step: Step, live: Live, filled: Live) -> Live:
        match step:
            case Launch():
                return self.launch(step, live, filled)
            case Branch(predicate, then, otherwise):
                return self.steps(then, live, filled) | self.steps(otherwise, live, filled) | {predicate}
            case While(condition, predicate, body):
                filled_after = filled | _written((step,))
                turn: Live = frozenset()
                while True:
                    before = self.steps(condition, live | turn | {predicate}, filled_after)
                    again = self.steps(body, before, filled_after)
                    if again <= turn:
                        return before
                    turn |= again
            case Push(_, buffer):
                return live | {buffer}
            case PrintStep(_, buffers):
                return live | frozenset(buffers)
            case HostStep(_, reads, writes):
                for buffer in writes:
                    self.written("a call", buffer, ((live & filled) | frozenset(step.buffers)) - {buffer}, frozenset())
                return (live - frozenset(writes)) | frozenset(reads)
            case Pop(_, buffer):
                self.written("a pop", buffer, (live & filled) - {buffer}, frozenset())
                return live - {buffer}
            case Exchange(names, _):
                moved = dict(zip(names, (*names[1:], names[0]), strict=True))
                return frozenset(moved.get(name, name) for name in live)
        raise GraphError(f"{self.name}: {type(step).__name__} has no place in a schedule with a memory plan")

    def launch(self, launch: Launch, live: Live, filled: Live) -> Live:
        params = dict(zip((param.name for param in launch.kernel.params), launch.buffers, strict=True))
        reads = frozenset(params[param.name] for param in launch.kernel.params if param.access != "write")
        writes = frozenset(params[param.name] for param in launch.kernel.params if param.access != "read")
        allowed = frozenset((params[written], params[read]) for written, read in launch.kernel.aliases)
        for buffer in writes:
            if launch.buffers.count(buffer) > 1 and (buffer, buffer) not in allowed:
                raise GraphError(f"{self.name}: {launch.kernel.name} is given {buffer} twice and cannot be in place")
            self.written(launch.kernel.name, buffer, (live & filled) - {buffer}, frozenset())
            self.written(launch.kernel.name, buffer, (reads | writes) - {buffer}, allowed)
        return (live - (writes - reads)) | reads

    def written(self, what: str, buffer: str, live: Live, allowed: frozenset[tuple[str, str]]) -> None:
        """Writing ``buffer`` changes none of ``live``, but where the kernel reads one and can be in place."""
        for other in sorted(live):
            if self.overlap(buffer, other) and (buffer, other) not in allowed:
                raise GraphError(f"{self.name}: {what} writes {buffer} over {other}, whose value is still wanted")

    def require_checks_first(self, steps: Sequence[Step], donations: dict[str, str]) -> None:
        """No check or print can fail once an input that was given away is written."""
        written: set[str] = set()
        for step in _unrolled(steps):
            before = frozenset(written)
            written |= _written((step,)) & donations.keys()
            if isinstance(step, HostStep):  # its results are written once nothing can fail any more
                written -= frozenset(step.writes) - before
            what = step.kernel.name if isinstance(step, Launch) else f"print or call {step.site}"
            if written and (not isinstance(step, Launch) or _checks(step)):
                raise GraphError(f"{self.name}: {what} can fail when {min(written)} is already written")


def _checks(launch: Launch) -> bool:
    return any(isinstance(statement, CheckStatement) for statement in statements_of(launch.kernel.body))


def _unrolled(steps: Sequence[Step]) -> list[Launch | PrintStep | HostStep]:
    """What can fail, in order, that of loops twice: what a turn writes is there when the next one checks."""
    unrolled: list[Launch | PrintStep | HostStep] = []
    for step in steps:
        match step:
            case Launch() | PrintStep() | HostStep():
                unrolled.append(step)
            case Branch(_, then, otherwise):
                unrolled += _unrolled(then) + _unrolled(otherwise)
            case While(condition, _, body):
                unrolled += 2 * (_unrolled(condition) + _unrolled(body))
    return unrolled


def _written(steps: Sequence[Step]) -> Live:
    """Every buffer that the steps may write."""
    written: set[str] = set()
    for step in steps:
        match step:
            case Launch(kernel, buffers):
                written |= {b for param, b in zip(kernel.params, buffers, strict=True) if param.access != "read"}
            case Branch(_, then, otherwise):
                written |= _written(then) | _written(otherwise)
            case While(condition, _, body):
                written |= _written(condition) | _written(body)
            case Pop(_, buffer):
                written.add(buffer)
            case Exchange(names, _):
                written |= {*names}
    return frozenset(written)


def _memories(steps: Sequence[Step]) -> dict[str, frozenset[str]]:
    """For each buffer that exchanges its memory the buffers, it among them, whose memory that may be."""
    memories: dict[str, frozenset[str]] = {}
    for step in steps:
        match step:
            case Exchange(names, _):
                sets = [names]
            case Branch(_, then, otherwise):
                sets = [tuple(one) for one in _memories((*then, *otherwise)).values()]
            case While(condition, _, body):
                sets = [tuple(one) for one in _memories((*condition, *body)).values()]
            case _:
                continue
        for one in sets:
            joined = frozenset(one).union(*(memories.get(name, ()) for name in one))
            memories |= dict.fromkeys(joined, joined)
    return memories


# ----------------------------------------------------------------------
# The rules of schedules, checked: every kernel, buffers wired to params, and nothing read before it is written.


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
