"""Statements of one thread, and of teams: a warp, or the warps of a block, that work on a row together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from jitgraph.codegen.cuda.failures import Failures
from jitgraph.codegen.cuda.indices import AxisPosition, Indices, alignment
from jitgraph.codegen.cuda.reductions import TeamReduction, emit_reduce
from jitgraph.codegen.cuda.thread_memory import SharedMemory
from jitgraph.codegen.cuda.warp import WARP, special_register, wait_for_block, wait_for_warp
from jitgraph.codegen.kernels.kernel import (
    Body,
    CheckStatement,
    IndexValue,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
    Update,
    statements_of,
)
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, Names, emit_let, integer
from jitgraph.codegen.llvm.index import (
    add,
    element_address,
    from_memory,
    load_element,
    memory_type,
    multiply,
    store_element,
    to_memory,
)
from jitgraph.codegen.llvm.loops import Emit, emit_serial, window
from jitgraph.dtypes import DType, int64, is_float, is_signed
from jitgraph.errors import UnsupportedOp

# ----------------------------------------------------------------------
# Statements of one thread: scalars, elements of memory, checks, and loops that run all of their steps in it.

VECTOR_BYTES = 16
"""The most that one instruction loads or stores."""

_WRITTEN_OUT = 256
"""Instructions up to which a run of memory that a thread walks is written out: LLVM then joins its accesses."""

_GROUP = 4
"""Elements of such a run that are aligned together; wider elements make several accesses."""


class ThreadStatements:
    """What ``Environment.statement`` is where each thread works by itself.

    Of elements that a thread has side by side the first says how it is aligned, from which LLVM makes accesses of
    several: ``first_of`` is their axis and their number, while the first one is emitted. ``places`` are axes whose
    values, while an element is emitted, lie at constant distances from those of a thread's first one.
    """

    def __init__(self, indices: Indices, failures: Failures | None) -> None:
        self.indices, self.failures = indices, failures
        self.first_of: tuple[str, int] | None = None
        self.places: Mapping[str, AxisPosition] = {}

    def statement(self, statement: Statement, env: Environment) -> None:
        """Emit one statement and bind what it defines."""
        match statement:
            case Let():
                env.bind(statement.var.name, emit_let(statement, env))
            case IndexValue():
                env.bind(statement.var.name, self.indices.value(env, statement.index))
            case Load():
                self._load(statement, env)
            case Store():
                self._store(statement, env)
            case CheckStatement():
                assert self.failures is not None
                self.failures.check(statement, env)
            case Local():
                env.bind("&" + statement.buffer, env.private(statement.dtype, statement.size))
            case Loop(kind="reduce"):
                emit_reduce(statement, env)
            case Loop():
                serial = replace(statement, kind="serial")
                if is_aligned_run(serial):
                    emit_serial(serial, env, *window(serial, env), _plain, _WRITTEN_OUT, self._turn_of(serial))
                else:
                    emit_serial(serial, env, *window(serial, env), _plain)
            case _:
                raise UnsupportedOp(f"kernel {env.kernel.name}: a contraction inside of other loops")

    def _turn_of(self, loop: Loop) -> Callable[[int | None], None]:
        """What says of each step of a run that is written out whether it is the first of an aligned group."""
        outside = self.first_of

        def at_turn(turn: int | None) -> None:
            first = turn is not None and turn % _GROUP == 0
            self.first_of = outside if turn is None else (loop.axis, _GROUP) if first else None

        return at_turn

    def _load(self, load: Load, env: Environment) -> None:
        buffer = env["&" + load.buffer]
        access = self._masked(load, env)
        mask = None if access.mask is None else env[access.mask.name]
        index = self.indices.element(env, load.index, self.places)
        env.bind(load.var.name, load_element(env, buffer, index, mask, self._alignment(load, env)))

    def _store(self, store: Store, env: Environment) -> None:
        buffer = env["&" + store.buffer]
        access = self._masked(store, env)
        mask = None if access.mask is None else env[access.mask.name]
        value = to_memory(env, env[store.value.name], buffer.dtype)
        index = self.indices.element(env, store.index, self.places)
        if store.update is None:
            store_element(env, buffer, index, value, mask, self._alignment(store, env))
            return
        with loops.only_if(env, mask):
            update_element(env, buffer, index, value, store.update)

    def _alignment(self, access: Load | Store, env: Environment) -> int:
        if self.first_of is None or all(param.name != access.buffer for param in env.kernel.params):
            return 1  # memory of the kernel's own is aligned to an element
        dtype = access.var.dtype if isinstance(access, Load) else access.value.dtype
        return min(alignment(access.index, *self.first_of), VECTOR_BYTES // dtype.itemsize)

    def _masked(self, access: Load | Store, env: Environment) -> Load | Store:
        return access if self.failures is None else self.failures.masked(access, env)


def is_aligned_run(loop: Loop) -> bool:
    """Whether a serial loop walks a run of memory, of groups that are aligned wherever it begins."""
    if loop.span is None or loop.span % _GROUP or loop.begin % _GROUP != 0:
        return False
    return all(isinstance(statement, Let | IndexValue | Load | Store) for statement in loop.body)


def update_element(env: Environment, buffer: LlvmScalar, index: LlvmScalar, value: LlvmScalar, update: Update) -> None:
    """An element and ``value`` combined in one step, which no other thread of the device comes between."""
    name: str = update
    if is_float(buffer.dtype):
        name = f"f{update}"
    elif update != "add" and not is_signed(buffer.dtype):
        name = f"u{update}"
    address = element_address(env, buffer, index)
    env.function.do(f'atomicrmw {name} ptr {address}, {value} syncscope("device") monotonic')


def _plain(env: Environment, step: Emit, body: Body, count: int | None) -> Emit:
    return step


# ----------------------------------------------------------------------
# Teams: a warp, or the warps of a block, that work on a row together, and their statements.
#
# What stands in a parallel loop runs in every thread of the team alike; the steps of vector loops, and of reduce loops
# inside of which nothing is shared, are spread over its threads. Between a store and whatever else touches its buffer
# there is a barrier, written when the second of them is.


class Team:
    """The threads that work together: ``warps`` warps, of which a block has several teams where it is one."""

    def __init__(self, function: LlvmFunction, warps: int, shared: SharedMemory) -> None:
        assert warps == 1 or shared.teams == 1
        self.function, self.warps, self.shared = function, warps, shared
        self.threads = WARP * warps
        thread_id = special_register(function, "tid.x")
        self.lane = _int64(function, f"and {thread_id}, {WARP - 1}")
        above = _int64(function, f"lshr {thread_id}, {WARP.bit_length() - 1}")
        self.warp = above if warps > 1 else integer(0)
        self.number = above if warps == 1 and shared.teams > 1 else integer(0)
        self.thread = thread_id if warps > 1 else self.lane
        self._rooms: dict[tuple[DType, int, int], LlvmScalar] = {}

    def barrier(self) -> None:
        """All threads of the team have come here, and each sees what the others have stored."""
        if self.warps == 1:
            wait_for_warp(self.function)
        else:
            wait_for_block(self.function)

    def memory(self, env: Environment, dtype: DType, elements: int) -> LlvmScalar:
        """Shared memory of the team."""
        return self.shared.take(env, dtype, elements, self.number)

    def exchanged(
        self, env: Environment, slots: Sequence[Sequence[LlvmScalar]], *, one_lane: bool
    ) -> list[list[list[LlvmScalar]]]:
        """The slots of every warp, in order: those of the same lane, or the first lane's."""
        width = 1 if one_lane else WARP * len(slots)

        def places(warp: LlvmScalar) -> list[list[str]]:
            addresses = []
            for slot in range(len(slots)):
                at = multiply(env, warp, integer(width))
                at = at if one_lane else add(env, at, add(env, self.lane, integer(WARP * slot)))
                addresses.append([self._place(env, number, value, width, at) for number, value in enumerate(slots[0])])
            return addresses

        self.barrier()  # for those who still read what was exchanged before
        first = env.ops.cmp("eq", self.lane, integer(0)) if one_lane else None
        with loops.only_if(env, first):
            for row, values in zip(places(self.warp), slots, strict=True):
                for address, value in zip(row, values, strict=True):
                    raw = to_memory(env, value, value.dtype)
                    env.function.do(f"store {raw}, ptr {address}, align {value.dtype.itemsize}")
        self.barrier()
        return [
            [
                [self._read(env, address, value) for address, value in zip(row, slots[0], strict=True)]
                for row in places(integer(warp))
            ]
            for warp in range(self.warps)
        ]

    def _place(self, env: Environment, number: int, value: LlvmScalar, width: int, at: LlvmScalar) -> str:
        key = (value.dtype, width, number)
        if key not in self._rooms:
            self._rooms[key] = self.memory(env, value.dtype, width * self.warps)
        room = self._rooms[key]
        return env.function.emit("ptr", f"getelementptr {memory_type(value.dtype)}, ptr {room.name}, {at}").name

    def _read(self, env: Environment, address: str, value: LlvmScalar) -> LlvmScalar:
        memory = memory_type(value.dtype)
        raw = env.ops.make(f"load {memory}, ptr {address}, align {value.dtype.itemsize}", value.dtype, 1, memory)
        return from_memory(env, raw, value.dtype)


class TeamStatements:
    """What ``Environment.statement`` is where a team works together.

    ``exchanged`` are the buffers that the nest both reads and writes, through which its threads may exchange values;
    it leads from their names to one name for each memory.
    """

    def __init__(self, team: Team, alone: ThreadStatements, exchanged: Mapping[str, str], *, free_order: bool) -> None:
        self.team, self.alone = team, alone
        self.exchanged, self.free_order = exchanged, free_order
        self._read: set[str] = set()  # since the last barrier
        self._written: set[str] = set()

    def statement(self, statement: Statement, env: Environment) -> None:
        """Emit one statement and bind what it defines."""
        match statement:
            case Local():
                env.bind("&" + statement.buffer, self.team.memory(env, statement.dtype, statement.size))
            case Loop() if is_shared(statement):
                self._barrier_between(statement)
                self._share(statement, env)
            case Loop(kind="reduce"):
                emit_reduce(statement, env)
            case Loop():
                self._serial(statement, env)
            case Store():
                self._barrier_between(statement)
                with loops.only_if(env, env.ops.cmp("eq", self.team.thread, integer(0))):
                    self.alone.statement(statement, env)
            case _:
                self._barrier_between(statement)
                self.alone.statement(statement, env)

    def _barrier_between(self, statement: Statement) -> None:
        """A barrier, where the statement touches what another thread may just have stored, or be reading."""
        inside = list(statements_of((statement,)))
        known = self.exchanged
        reads = {known[s.buffer] for s in inside if isinstance(s, Load) and s.buffer in known}
        writes = {known[s.buffer] for s in inside if isinstance(s, Store) and s.buffer in known}
        if reads & self._written or writes & (self._read | self._written):
            self._barrier()
        self._read |= reads
        self._written |= writes

    def _barrier(self) -> None:
        self.team.barrier()
        self._read, self._written = set(), set()

    def _serial(self, loop: Loop, env: Environment) -> None:
        """A loop that all threads of the team run through together."""
        begin, end = loops.window(loop, env)
        inner = env.inner()
        rest = loops.hoist(loop, inner, env.ops.sub(end, begin))
        before = set(self._read), set(self._written)

        def step(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
            inner.bind(loop.axis, axis)
            for carry, value in zip(loop.carries, carries, strict=True):
                inner.bind(carry.var.name, value)
            inner.emit(rest)
            if self._read or self._written:
                self._barrier()
            return [inner[carry.next.name] for carry in loop.carries]

        init = [env[carry.init.name] for carry in loop.carries]
        results = loops.counted(inner, begin, end, 1, init, step)
        self._read |= before[0]
        self._written |= before[1]
        for carry, result in zip(loop.carries, results, strict=True):
            env.bind(carry.result.name, result)

    def _share(self, loop: Loop, env: Environment) -> None:
        """A loop whose steps the threads of the team share."""
        thread_env = _alone(env, self.alone)
        if loop.kind == "reduce":
            self._reduce(loop, env, thread_env)
            return
        begin, end = loops.window(loop, env)
        rest = loops.hoist(loop, thread_env, env.ops.sub(end, begin))

        def step(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
            thread_env.at({loop.axis: axis}).emit(rest)
            return carries

        loops.counted(thread_env, add(env, begin, self.team.thread), end, self.team.threads, [], step)

    def _reduce(self, loop: Loop, env: Environment, thread_env: Environment) -> None:
        reduction = TeamReduction(loop, thread_env, self.team)
        if loop.slots is None and (self.free_order or not loop.chain):
            reduction.bind(env, reduction.in_any_order())
            return
        slots = reduction.in_order()
        if loop.slots is None:
            reduction.bind(env, reduction.folded(slots))
            return
        s = env.ops
        mine = s.cmp("lt", self.team.thread, integer(min(WARP, loop.lanes)))
        with loops.only_if(env, mine):
            for index, values in enumerate(slots):
                here = thread_env.at({loop.slots.axis: add(env, self.team.lane, integer(WARP * index))})
                reduction.bind(here, values)
                here.emit(loop.slots.body)


def is_shared(loop: Loop) -> bool:
    """Whether the threads of a team share the steps of a loop: it has lanes, or any order and no lanes inside."""
    if _has_lanes(loop):
        return True
    free = loop.kind == "parallel" or (loop.kind == "reduce" and not loop.chain)
    return free and not any(isinstance(s, Loop) and _has_lanes(s) for s in statements_of(loop.body))


def _has_lanes(loop: Loop) -> bool:
    return loop.kind == "vector" or (loop.kind == "reduce" and loop.lanes > 1)


def exchanged_buffers(body: Body, aliases: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The buffers whose memory ``body`` both loads from and stores to, each with one name of that memory."""
    same = dict(aliases)
    inside = [s for s in statements_of(body) if isinstance(s, Load | Store)]
    read, written = ({same.get(s.buffer, s.buffer) for s in inside if isinstance(s, kind)} for kind in (Load, Store))
    names = {s.buffer: same.get(s.buffer, s.buffer) for s in inside}
    return {name: memory for name, memory in names.items() if memory in read & written}


def _alone(env: Environment, statements: ThreadStatements) -> Environment:
    """The scope inside ``env`` of a thread that works by itself."""
    return Environment(
        env.function, env.kernel, env.target, Names(env.names), env.memory, statements.statement, env.lanes
    )


def _int64(function: LlvmFunction, instruction: str) -> LlvmScalar:
    return LlvmScalar(function.emit("i64", instruction).name, "i64", int64, 1)
