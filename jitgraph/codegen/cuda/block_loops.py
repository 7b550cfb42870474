"""A branch or a loop as one launch of one block: which ones, and how their kernels run one after another with
barriers between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitgraph.codegen.cuda.contract import emit_element
from jitgraph.codegen.cuda.failures import Failures, leave_if
from jitgraph.codegen.cuda.grid import MOST_WARPS, wants_team, warps_of_team, with_vector
from jitgraph.codegen.cuda.indices import Indices
from jitgraph.codegen.cuda.launches import KernelLaunch, LaunchNest, launch_nests_of
from jitgraph.codegen.cuda.team import Team, TeamStatements, ThreadStatements, exchanged_buffers
from jitgraph.codegen.cuda.thread_memory import PrivateMemory, SharedMemory
from jitgraph.codegen.cuda.warp import WARP, special_register, unravelled, wait_for_block
from jitgraph.codegen.kernels.kernel import Attend, Body, Contract, Kernel, Let, Local, Loop, Statement, statements_of
from jitgraph.codegen.kernels.schedule import Branch, Exchange, Launch, Step, While
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar
from jitgraph.codegen.llvm.control import emit_branch
from jitgraph.codegen.llvm.environment import Environment, Names, integer
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target

# ----------------------------------------------------------------------
# Which branches and loops become one launch of one block, and how many turns of them a launch runs.
#
# Why. A launch costs a GPU 2 to 4 us, a predicate that the host waits for about 10 us. A block issues roughly one
# instruction of a warp a cycle, so 2**17 statements of threads, 4096 of warps, take it about 2.5 us: a kernel of no
# more runs in one block as fast as the next launch would begin. A nest takes one block a microsecond at least, for
# memory and a barrier, so a launch of 2**14 nests is over after some 40 ms, and the host gets to look for signals.

MOST_STATEMENTS: Final = 1 << 17
"""Of a kernel, each counted as often as it runs."""

MOST_NESTS: Final = 1 << 14
"""That one launch runs."""

MOST_LOCAL_BYTES: Final = 4096
"""Of a nest's own memory: a block has the nests of a whole loop in the shared memory of one kernel."""

_CALL: Final = 20
"""Statements that a math function stands for."""


def turns_of_launch(step: Branch | While) -> int | None:
    """The turns of a loop that one launch of one block may run, 1 for a branch; None where it is not for one block."""
    nest_count = _nests_of_turn(step)
    if nest_count is None or isinstance(step, Branch):
        return None if nest_count is None else 1
    return max(1, MOST_NESTS // max(1, nest_count))


def _nests_of_turn(step: Branch | While) -> int | None:
    """The nests that a branch, or one turn of a loop, runs at most; None where one is not for one block."""
    if isinstance(step, Branch):
        return _nests((*step.then, *step.otherwise))
    return _nests(step.body if step.count is not None else (*step.condition, *step.body))


def _nests(steps: Sequence[Step]) -> int | None:
    """The nests that steps run; None where one is large, or holds something that the host has to do or to end."""
    total = 0
    for step in steps:
        match step:
            case Launch(kernel):
                nest_count = len(launch_nests_of(kernel)) if _is_small(kernel) else None
            case Branch():
                nest_count = _nests_of_turn(step)
            case Exchange(names, bytes):  # whose contents a block moves
                nest_count = 1 if isinstance(bytes, int) and len(names) * bytes <= MOST_STATEMENTS else None
            case While(_, _, _, int(count)):
                turn = _nests_of_turn(step)
                nest_count = None if turn is None else turn * count
            case _:
                nest_count = None
        if nest_count is None:
            return None
        total += nest_count
    return total if total <= MOST_NESTS else None


def _is_small(kernel: Kernel) -> bool:
    nests = launch_nests_of(kernel)
    if any(_local_bytes(nest) > MOST_LOCAL_BYTES or not _is_simple(nest) for nest in nests):
        return False
    runs = [_runs(tuple(_as_loops(nest))) for nest in nests]
    return sum(run or 0 for run in runs) <= MOST_STATEMENTS and None not in runs


def _is_simple(nest: LaunchNest) -> bool:
    """Whether contractions stand alone in their nests, and no thread has more of a row than in a grid; attention is
    a block's."""
    statements = [*statements_of(nest.body)]
    contracts = [s for s in statements if isinstance(s, Contract)]
    if any(isinstance(s, Attend) for s in statements):
        return False
    return not contracts or (contracts == [nest.body[-1]] and not wants_team(nest))


def _local_bytes(nest: LaunchNest) -> int:
    return sum(s.size * s.dtype.itemsize for s in statements_of(nest.statements) if isinstance(s, Local))


def _as_loops(nest: LaunchNest) -> Sequence[Statement]:
    """A nest as the loops that it was made of."""
    body = nest.statements
    for level in reversed(nest.levels):
        body = (Loop(level.axis, level.extent, "parallel", body),)
    return body


def _runs(body: Body) -> int | None:
    """How many statements run in a body, all turns of its loops counted; None where an extent has a name."""
    total = 0
    for statement in body:
        run: int | None = _CALL if isinstance(statement, Let) and statement.op == "call" else 1
        if isinstance(statement, Loop):
            run = _times(statement.extent if statement.span is None else statement.span, statement.body)
            if statement.slots is not None and run is not None:
                each = _runs(statement.slots.body)
                run = None if each is None else run + statement.lanes * each
        if isinstance(statement, Contract):
            m, n = statement.extents[:2]
            k = statement.extents[2] if statement.span is None else statement.span
            steps = _times(dims.product((m, n, k)), (*statement.left.body, *statement.right.body), more=1)
            ends = _times(dims.product((m, n)), statement.epilogue)
            run = None if steps is None or ends is None else steps + ends
        if run is None:
            return None
        total += run
    return total


def _times(count: object, body: Body, more: int = 0) -> int | None:
    """Statements of a body, and ``more``, that run so many times."""
    each = _runs(body)
    return count * (each + more) if isinstance(count, int) and each is not None else None


# ----------------------------------------------------------------------
# A branch or a loop as one launch of one block: its nests run one after another, with barriers between.
#
# Buffers lie in global memory as everywhere: what one nest stores the next may read behind a barrier of the block.
# Names of buffers tell nothing of who shares memory, since temporaries take turns on it, so a barrier stands behind
# each nest. All threads read a predicate, and whether a check has failed, between two barriers, and so go the same way.

MOST_THREADS: Final = 512
"""Of a block, with 128 registers each."""

_SHARED_BYTES: Final = 48 << 10
"""That a kernel may have as variables."""


def emit_block(
    step: Branch | While, module: LlvmModule, target: Target, number: int, *, reports: bool
) -> KernelLaunch | None:
    """The function that runs a branch or a loop as one block, and its launch; None where it is not small."""
    turns = turns_of_launch(step)
    return None if turns is None else _BlockWriter(step, module, target, reports=reports).emit(number, turns)


class _BlockWriter:
    def __init__(self, step: Branch | While, module: LlvmModule, target: Target, *, reports: bool) -> None:
        self.step, self.module, self.target = step, module, target
        steps = [*_run_steps(step)]
        self.launches = [inner for inner in steps if isinstance(inner, Launch)]
        self.nests = {
            id(launch): [with_vector(nest) for nest in launch_nests_of(launch.kernel)] for launch in self.launches
        }
        self.threads = _threads([nest for nests in self.nests.values() for nest in nests], target)
        self.exchanges = [inner for inner in steps if isinstance(inner, Exchange)]
        names = dict.fromkeys(name for launch in self.launches for name in launch.buffers)
        names |= dict.fromkeys(name for exchange in self.exchanges for name in exchange.buffers)
        asking = [s for s in steps if isinstance(s, Branch) or (isinstance(s, While) and s.count is None)]
        names |= dict.fromkeys(each.predicate for each in asking)
        self.buffers = tuple(names)
        self.sizes = tuple(dict.fromkeys(name for launch in self.launches for name in launch.kernel.sizes))
        self.can_fail = any(nest.can_fail for nests in self.nests.values() for nest in nests)
        self.shared_bytes = 0
        stem = self.launches[0].kernel.name if self.launches else "nothing"
        self.function = LlvmFunction(module, module.unique(f"k_loop_{stem}"), "void", linkage="ptx_kernel")
        self.places: dict[str, str] = {}
        for name in self.buffers:
            argument = self.function.argument("ptr addrspace(1)", "align 16")
            self.places[name] = self.function.fresh("ptr").name
            self.function.prologue.append(f"  {self.places[name]} = addrspacecast {argument} to ptr")
        self.extents = {size: self.function.argument("i64").name for size in self.sizes}
        self.failures = Failures(self.function) if reports else None

    def emit(self, number: int, most_turns: int) -> KernelLaunch | None:
        """The launch; None where the nests need more shared memory than a block has."""
        function, step, turns = self.function, self.step, 0
        self.thread = special_register(function, "tid.x")
        if self.failures is not None:
            self.failures.leave_if_failed()
            if self.can_fail:
                self.failures.stay()
        if isinstance(step, Branch):
            emit_branch(self.function, step, self._predicate, self._write)
        else:
            turns = most_turns
            self._loop(step, function.argument("i64").name)
        function.attributes = f'"nvvm.maxntid"="{self.threads}" "nvvm.minctasm"="1"'
        function.ret()
        if self.shared_bytes > _SHARED_BYTES:
            return None
        function.finish()
        return KernelLaunch(
            function.name,
            (1, 1, 1),
            (self.threads, 1, 1),
            self.shared_bytes,
            self.buffers,
            self.sizes,
            self.failures is not None,
            self.can_fail,
            number,
            turns,
        )

    def _write(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Launch():
                    for nest in self.nests[id(step)]:
                        self._nest(step, nest)
                case Branch():
                    emit_branch(self.function, step, self._predicate, self._write)
                case While(_, _, _, int(count)):
                    self._loop(step, str(count))
                case Exchange():
                    self._exchange(step)
                case _:
                    raise AssertionError(step)

    def _loop(self, loop: While, turns: str) -> None:
        """So many turns; fewer where the condition, which a loop of known length does without, is false before."""
        function = self.function
        before, test, body, after = function.block, *(function.label(hint) for hint in ("test", "body", "after"))
        function.jump(test)
        function.start_block(test)
        turn = function.phi("i64")
        turn.add("0", before)
        more = function.emit("i1", f"icmp slt {turn.value}, {turns}").name
        if _asks(loop):
            self._write(loop.condition)
            more = function.emit("i1", f"and i1 {more}, {self._predicate(loop.predicate)}").name
        function.branch(more, body, after)
        function.start_block(body)
        self._write(loop.body)
        following = function.emit("i64", f"add {turn.value}, 1")
        turn.add(following.name, function.block)
        function.jump(test)
        function.start_block(after)

    def _exchange(self, step: Exchange) -> None:
        """Move the contents instead: the host, and the next launch, find each buffer where it was before this one."""
        function, bytes = self.function, step.bytes
        assert isinstance(bytes, int)  # or the loop would not be small
        width = next(width for width in (8, 4, 2, 1) if bytes % width == 0)
        before, test, body, after = function.block, *(function.label(hint) for hint in ("test", "body", "after"))
        function.jump(test)
        function.start_block(test)
        position = function.phi("i64")
        position.add(self.thread.name, before)
        function.branch(function.emit("i1", f"icmp slt {position.value}, {bytes // width}").name, body, after)
        function.start_block(body)
        word = f"i{8 * width}"
        addresses = [
            function.emit("ptr", f"getelementptr {word}, ptr {self.places[name]}, {position.value}")
            for name in step.buffers
        ]
        words = [function.emit(word, f"load {word}, {address}, align {width}") for address in addresses]
        for address, value in zip(addresses, (*words[1:], words[0]), strict=True):
            function.do(f"store {value}, {address}, align {width}")
        position.add(function.emit("i64", f"add {position.value}, {self.threads}").name, function.block)
        function.jump(test)
        function.start_block(after)
        wait_for_block(function)

    def _predicate(self, name: str) -> str:
        """Whether a bool, stored by a nest or before this launch, is true; nothing stores it again before all know."""
        byte = self.function.emit("i8", f"load i8, ptr {self.places[name]}, align 1")
        wait_for_block(self.function)
        return self.function.emit("i1", f"icmp ne {byte}, 0").name

    def _nest(self, launch: Launch, nest: LaunchNest) -> None:
        kernel = launch.kernel
        statements = ThreadStatements(Indices(kernel), self.failures)
        env = Environment(self.function, kernel, self.target, Names(), PrivateMemory(), statements.statement)
        for param, name in zip(kernel.params, launch.buffers, strict=True):
            env.bind("&" + param.name, LlvmScalar(self.places[name], "ptr", param.dtype, 1))
        for size in kernel.sizes:
            env.bind(size, LlvmScalar(self.extents[size], "i64", int64, 1))
        if wants_team(nest) and not isinstance(nest.body[-1], Contract):
            self._rows(env, nest, statements)
        else:
            self._elements(env, nest)
        wait_for_block(self.function)
        if nest.can_fail and self.failures is not None:
            failed = self.failures.has_failed()
            wait_for_block(self.function)
            leave_if(self.function, failed)

    def _elements(self, env: Environment, nest: LaunchNest) -> None:
        """Independent elements, each thread every so manieth of them; those of a contraction's results are some."""
        *before, last = nest.body
        contract = last if isinstance(last, Contract) else None
        extents = [level.extent for level in nest.levels] + list(contract.extents[:2] if contract else ())

        def step(position: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            indices = unravelled(env, position, extents)
            here = env.at(dict(zip((level.axis for level in nest.levels), indices, strict=False)))
            here.bind("$order", position)
            if contract is None:
                here.emit(nest.statements)
            else:
                here.emit((*nest.before, *before))
                emit_element(contract, here, (indices[-2], indices[-1]))
            return []

        loops.counted(env, self.thread, integer(_count(extents)), self.threads, [], step)

    def _rows(self, env: Environment, nest: LaunchNest, statements: ThreadStatements) -> None:
        """Rows that threads share: a warp's each, or one after another of the whole block."""
        extents = [level.extent for level in nest.levels]
        warps = self.threads // WARP
        if self.threads > WARP * MOST_WARPS or _count(extents) >= warps:
            teams, shared = warps, SharedMemory(self.function, self.target, warps)
            team = Team(self.function, 1, shared)
        else:
            teams, shared = 1, SharedMemory(self.function, self.target, 1)
            team = Team(self.function, warps, shared)
        exchanged = exchanged_buffers(nest.statements, env.kernel.aliases)
        together = TeamStatements(team, statements, exchanged, free_order=self.target.free_order)

        def step(row: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            here = Environment(self.function, env.kernel, self.target, Names(env.names), env.memory, together.statement)
            here.bind("$order", row)
            indices = unravelled(env, row, extents)
            here.names.update(zip((level.axis for level in nest.levels), indices, strict=True))
            here.emit(nest.statements)
            team.barrier()  # the next row has the same shared memory
            return []

        loops.counted(env, team.number, integer(_count(extents)), teams, [], step)
        self.shared_bytes += shared.bytes


def _run_steps(step: Branch | While) -> list[Step]:
    """The step, and all inside of it that run in one block: no conditions of loops of known length."""
    inner = (
        (step.then, step.otherwise) if isinstance(step, Branch) else (step.condition if _asks(step) else (), step.body)
    )
    steps: list[Step] = [step]
    for each in (*inner[0], *inner[1]):
        steps += _run_steps(each) if isinstance(each, Branch | While) else [each]
    return steps


def _asks(step: Step) -> bool:
    return isinstance(step, While) and step.count is None


def _count(extents: Sequence[DimLike]) -> int:
    total = dims.product(extents)
    assert isinstance(total, int)  # or the nest would not be small
    return total


def _threads(nests: Sequence[LaunchNest], target: Target) -> int:
    """As many threads as the largest nest has use for."""
    most = WARP
    for nest in nests:
        extents = [level.extent for level in nest.levels]
        if nest.body and isinstance(nest.body[-1], Contract):
            extents += nest.body[-1].extents[:2]
        total = _count(extents)
        if wants_team(nest) and not isinstance(nest.body[-1], Contract):
            total *= WARP * warps_of_team(nest, free_order=target.free_order)
        most = max(most, min(total, MOST_THREADS))
    return 1 << (most - 1).bit_length()
