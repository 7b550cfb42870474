"""From a kernel to functions of PTX: which threads a nest is given, and the functions' heads.

A nest of independent elements is flat: a thread each. One whose body has loops to share is a team's: a warp or a block
for each point of the parallel loops. A contraction has tiles (``contract.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jitgraph.codegen.cuda import contract as simt
from jitgraph.codegen.cuda import mma
from jitgraph.codegen.cuda.attend import emit_attend, tiles_of
from jitgraph.codegen.cuda.failures import Failures, leave_if
from jitgraph.codegen.cuda.indices import Indices
from jitgraph.codegen.cuda.launches import Grid, LaunchNest, Shape, is_pure, launch_nests_of
from jitgraph.codegen.cuda.library_products import library_call
from jitgraph.codegen.cuda.reductions import FEW, is_few
from jitgraph.codegen.cuda.team import (
    VECTOR_BYTES,
    Team,
    TeamStatements,
    ThreadStatements,
    exchanged_buffers,
    is_shared,
)
from jitgraph.codegen.cuda.thread_memory import PrivateMemory, SharedMemory
from jitgraph.codegen.cuda.warp import WARP, ceil_div, special_register, unravelled
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import (
    Attend,
    CheckStatement,
    Contract,
    Kernel,
    Load,
    Local,
    Loop,
    Store,
    statements_of,
)
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, Names, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply
from jitgraph.dtypes import int64
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike, names
from jitgraph.ir.target import Target

FLAT_THREADS: Final = 256
MOST_WARPS: Final = 8
"""Of a team, where there are rows for all processors."""

_FEW_ROWS: Final = 64
"""Rows up to which a team is as many warps as a block has, since no other block would run in their place."""

_WARPS_OF_BLOCK: Final = 32

_TEAMS: Final = 4
"""In a block, where a team is one warp."""

_STEPS_OF_A_LANE: Final = 4
"""Steps of a loop that each thread has at least before a team has another warp."""

_MANY: Final = 1 << 16
"""Elements from which on a thread has several: fewer are better spread over as many threads."""

_LONG: Final = 64
"""Statements from which on a thread has one element, whose registers are then enough for many threads."""

_MOST_ELEMENTS: Final = 8
"""Of a thread, side by side."""

_UNKNOWN_WARPS: Final = 4
"""Of a team where no extent of its loops is known."""


def emit_kernel(kernel: Kernel, module: LlvmModule, target: Target, *, reports: bool) -> list[tuple[Shape, bool]]:
    """Emit the functions of ``kernel`` into ``module``: how each is launched, and whether it may fail, in order."""
    return [(_shape(kernel, nest, module, target, reports=reports), nest.can_fail) for nest in launch_nests_of(kernel)]


def _shape(kernel: Kernel, nest: LaunchNest, module: LlvmModule, target: Target, *, reports: bool) -> Shape:
    # A library knows nothing of failed checks, behind which nothing may be touched.
    call = None if reports else library_call(nest, kernel, target)
    if call is not None:
        return Shape("cublasLtMatmul", (1, 1, 1), (1, 1, 1), 0, call)
    return _Function(kernel, nest, module, target, reports=reports).emit()


class _Function:
    """One function of PTX being written."""

    def __init__(self, kernel: Kernel, nest: LaunchNest, module: LlvmModule, target: Target, *, reports: bool) -> None:
        self.kernel, self.nest, self.target = kernel, with_vector(nest), target
        name = module.unique(f"k_{kernel.name}")
        self.function = LlvmFunction(module, name, "void", linkage="ptx_kernel")
        self.statements = ThreadStatements(Indices(kernel), None)
        self.env = Environment(self.function, kernel, target, Names(), PrivateMemory(), self.statements.statement)
        for param in kernel.params:
            # What a launch both reads and writes its threads may exchange, so nothing is said of who else sees it.
            attributes = ["align 16"]
            if param.name in self.env.unaliased and param.access != "readwrite":
                attributes.append("noalias")
            if param.access == "read":
                attributes.append("readonly")
            argument = self.function.argument("ptr addrspace(1)", " ".join(attributes))
            generic = self.function.fresh("ptr")
            self.function.prologue.append(f"  {generic.name} = addrspacecast {argument} to ptr")
            self.env.bind("&" + param.name, LlvmScalar(generic.name, "ptr", param.dtype, 1))
        for size in kernel.sizes:
            self.env.bind(size, LlvmScalar(self.function.argument("i64").name, "i64", int64, 1))
        self.failures = Failures(self.function) if reports else None
        self.statements.failures = self.failures

    def emit(self) -> Shape:
        if self.failures is not None:
            self.failures.leave_if_failed()
        self.together = 1  # blocks that a processor is to have room for
        kinds = {type(s) for s in statements_of(self.nest.body)}
        if Contract in kinds:
            shape = self._tiles()
        elif Attend in kinds:
            shape = self._attend()
        elif wants_team(self.nest):
            shape = self._teams()
        else:
            shape = self._flat()
        x, y, z = shape.block
        # Left to choose, ptxas spills registers for more blocks, or takes all of them for one.
        self.function.attributes = f'"nvvm.maxntid"="{x * y * z}" "nvvm.minctasm"="{self.together}"'
        self.function.ret()
        self.function.finish()
        return shape

    def _shape(self, grid: Grid, block: tuple[int, int, int], shared: int = 0) -> Shape:
        return Shape(self.function.name, grid, block, shared)

    def _flat(self) -> Shape:
        env, nest = self.env, self.nest
        several = _elements_of_thread(nest)
        extents = [level.extent for level in nest.levels]
        if several > 1:
            extents[-1] = extents[-1] // several
        total = dims.product(extents)
        threads = FLAT_THREADS if not isinstance(total, int) else min(FLAT_THREADS, WARP * max(1, -(-total // WARP)))
        block, thread = special_register(self.function, "ctaid.x"), special_register(self.function, "tid.x")
        position = add(env, multiply(env, block, integer(threads)), thread)
        env.bind("$order", position)
        leave_if(self.function, env.ops.cmp("ge", position, index_value(env, total)))
        indices = dict(zip((level.axis for level in nest.levels), unravelled(env, position, extents), strict=True))
        for element in range(several):
            here = env.at(indices)
            if several > 1:
                axis = nest.levels[-1].axis
                here.bind(axis, add(env, multiply(env, indices[axis], integer(several)), integer(element)))
                self.statements.first_of = None if element else (axis, several)
            here.emit(nest.statements)
        self.statements.first_of = None
        return self._shape((ceil_div(total, threads), 1, 1), (threads, 1, 1))

    def _teams(self) -> Shape:
        env, nest = self.env, self.nest
        extents = [level.extent for level in nest.levels]
        total = dims.product(extents)
        warps = warps_of_team(nest, free_order=self.target.free_order)
        teams = _teams_of_block(nest, total, self.target) if warps == 1 else 1
        shared = SharedMemory(self.function, self.target, teams)
        team = Team(self.function, warps, shared)
        block = special_register(self.function, "ctaid.x")
        row = add(env, multiply(env, block, integer(teams)), team.number)
        env.bind("$order", row)
        if teams > 1:
            leave_if(self.function, env.ops.cmp("ge", row, index_value(env, total)))
        if self.failures is not None and nest.can_fail:
            self.failures.stay()
        indices = unravelled(env, row, extents)
        exchanged = exchanged_buffers(nest.statements, self.kernel.aliases)
        together = TeamStatements(team, self.statements, exchanged, free_order=self.target.free_order)
        here = Environment(self.function, self.kernel, self.target, Names(env.names), env.memory, together.statement)
        here.names.update(zip((level.axis for level in nest.levels), indices, strict=True))
        here.emit(nest.statements)
        return self._shape((ceil_div(total, teams), 1, 1), (team.threads * teams, 1, 1), shared.bytes)

    def _tiles(self) -> Shape:
        env, nest = self.env, self.nest
        *before, contract = nest.body
        if not isinstance(contract, Contract) or not all(map(is_pure, before)):
            raise UnsupportedOp(f"kernel {self.kernel.name}: a contraction beside other loops")
        extents = [level.extent for level in nest.levels]
        strategy = mma if mma.suits(contract, self.target) else simt
        tiles = strategy.tiles_of(contract, dims.product(extents))
        self.together = tiles.together
        shared = SharedMemory(self.function, self.target, 1)
        block = special_register(self.function, "ctaid.x")
        env.bind("$order", block)
        batch, *tile_index = unravelled(env, block, tiles.counts)
        if self.failures is not None and nest.can_fail:
            self.failures.stay()
        here = env.at(dict(zip((level.axis for level in nest.levels), unravelled(env, batch, extents), strict=True)))
        here.emit((*nest.before, *before))
        at = tile_index[0], tile_index[1]
        if isinstance(tiles, mma.WarpTiles):
            mma.MmaWriter(contract, here, tiles, at, shared, self.statements).emit()
        else:
            simt.ContractWriter(contract, here, tiles, at, shared, self.statements).emit()
        return self._shape((dims.product(tiles.counts), 1, 1), (tiles.threads, 1, 1), shared.bytes)

    def _attend(self) -> Shape:
        env, nest = self.env, self.nest
        *before, attend = nest.body
        if not isinstance(attend, Attend) or not all(map(is_pure, before)):
            raise UnsupportedOp(f"kernel {self.kernel.name}: sums by weights beside other loops")
        extents = [level.extent for level in nest.levels]
        batch = dims.product(extents)
        tiles, count = tiles_of(attend, self.target)
        shared = SharedMemory(self.function, self.target, 1)
        block = special_register(self.function, "ctaid.x")
        env.bind("$order", block)
        each, row_tile = unravelled(env, block, (batch, count))
        here = env.at(dict(zip((level.axis for level in nest.levels), unravelled(env, each, extents), strict=True)))
        here.emit((*nest.before, *before))
        emit_attend(attend, here, tiles, row_tile, shared, self.statements)
        return self._shape((batch * count, 1, 1), (tiles.threads, 1, 1), shared.bytes)


def with_vector(nest: LaunchNest) -> LaunchNest:
    """The nest with the vector loop that is all of its body as one more level."""
    if not nest.body:
        return nest
    *outside, last = nest.body
    if not (isinstance(last, Loop) and last.kind == "vector" and last.is_whole and all(map(is_pure, outside))):
        return nest
    if names(last.extent) & {level.axis for level in nest.levels} or any(
        n.startswith("_v") for n in names(last.extent)
    ):
        return nest
    return replace(nest, levels=(*nest.levels, last), before=(*nest.before, *outside), body=last.body)


def _elements_of_thread(nest: LaunchNest) -> int:
    """How many elements side by side a thread has: as many as one access takes, where there is work for all threads."""
    if not nest.levels or any(isinstance(s, Loop | Local | CheckStatement) for s in nest.statements):
        return 1
    accesses = [s for s in nest.statements if isinstance(s, Load | Store)]
    total, last = dims.product(level.extent for level in nest.levels), nest.levels[-1]
    beside = [s for s in accesses if coefficient(s.index, last.axis) == 1]
    if not isinstance(total, int) or total < _MANY or len(nest.statements) > _LONG or 2 * len(beside) <= len(accesses):
        return 1
    widest = max((s.var if isinstance(s, Load) else s.value).dtype.itemsize for s in beside)
    several = VECTOR_BYTES // widest
    assert isinstance(last.extent, int)
    while last.extent % several:
        several //= 2
    return min(several, _MOST_ELEMENTS)


def wants_team(nest: LaunchNest) -> bool:
    """Whether there are loops to share that are too long for one thread."""
    shared = [s for s in statements_of(nest.body) if isinstance(s, Loop) and is_shared(s)]
    in_vector = any(level.kind == "vector" for level in nest.levels)
    return not in_vector and not all(_is_short(loop) for loop in shared)


def _is_short(loop: Loop) -> bool:
    if loop.kind == "reduce" and loop.lanes > 1 and loop.chain:
        return is_few(loop)
    return loop.is_whole and isinstance(loop.extent, int) and loop.extent <= FEW and loop.slots is None


def warps_of_team(nest: LaunchNest, *, free_order: bool) -> int:
    """Warps of a team: as many as the longest loop that it shares gives steps, or chunks, to."""
    rows = dims.product(level.extent for level in nest.levels)
    few = isinstance(rows, int) and rows <= _FEW_ROWS
    limit = _WARPS_OF_BLOCK if few and not _waits_again_and_again(nest) else MOST_WARPS
    most = 1
    for loop in statements_of(nest.body):
        if not isinstance(loop, Loop) or not is_shared(loop):
            continue
        extent = loop.span if loop.span is not None else loop.extent
        if not isinstance(extent, int):
            most = max(most, min(limit, _UNKNOWN_WARPS if limit == MOST_WARPS else limit))
            continue
        in_order = loop.kind == "reduce" and loop.chain and not free_order
        each = max(WARP, loop.lanes) * loop.chain if in_order else WARP * _STEPS_OF_A_LANE
        most = max(most, min(limit, 1 << max(0, -(-extent // each) - 1).bit_length()))
    return most


def _waits_again_and_again(nest: LaunchNest) -> bool:
    """Whether a loop of the nest shares others in each of its steps, as those of matrices do: all warps wait there."""
    around = [loop for loop in nest.body if isinstance(loop, Loop) and not is_shared(loop)]
    return any(isinstance(s, Loop) and is_shared(s) for loop in around for s in statements_of(loop.body))


def _teams_of_block(nest: LaunchNest, rows: DimLike, target: Target) -> int:
    """Teams of one warp in a block: as many as there is shared memory for, and rows."""
    each = sum(s.size * s.dtype.itemsize for s in statements_of(nest.body) if isinstance(s, Local))
    teams = _TEAMS
    while teams > 1 and (teams * each > target.l1_bytes // 2 or (isinstance(rows, int) and rows < teams)):
        teams //= 2
    return teams
