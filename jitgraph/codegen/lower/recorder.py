"""Recorder: writes one kernel. Every statement goes to the outermost block in which its operands are known.

So what does not change inside a loop leaves it by construction; only parallel loops are never left, because their
bodies run on several threads, and loops without iterations, because what they load need not exist. Equal statements of
one block are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Literal

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import Ranges, has_atoms
from jitgraph.codegen.kernels.kernel import (
    Body,
    Carry,
    CheckStatement,
    Combine,
    Contract,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    LoopKind,
    Operand,
    Param,
    Slots,
    Statement,
    Store,
    Var,
)
from jitgraph.codegen.kernels.traversal import dims_of, sizes_of, statements_of
from jitgraph.codegen.lower.nest import merge_loops, tile_transposed
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.decisions import TransposedTiles
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass

Combiner = Callable[["ScalarOps", tuple[Var, ...], tuple[Var, ...]], tuple[Var, ...]]


@dataclass(frozen=True, slots=True)
class StackSlice:
    """Which slice of a buffer along its first axis a storage is: the one that a 0-d int64 buffer counts to."""

    counter: Storage
    length: DimLike
    reverse: bool


@dataclass(frozen=True, slots=True)
class Storage:
    """A tensor in a buffer of the schedule: the buffer's name, the tensor's type, and where it is one slice, which."""

    name: str
    type: TensorType
    slot: StackSlice | None = None

    @property
    def size(self) -> DimLike:
        """Elements of the whole buffer."""
        return self.type.size if self.slot is None else self.type.size * self.slot.length


@dataclass(slots=True)
class _Block:
    statements: list[Statement] = field(default_factory=list)
    memo: dict[Hashable, tuple[Var, ...]] = field(default_factory=dict)
    lanes: bool = False  # its iterations become lanes, so reductions inside it have one slot
    axis: str = ""  # of the loop whose body it is
    extent: DimLike = 1
    done: bool = False  # its loop has been written, and stands
    floor_outside: int = 0  # below which block nothing is moved once this one is closed


class KernelRecorder:
    """One kernel being written: its parameters, the blocks that are open, and what is known of names."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self._storages: dict[str, Storage] = {}
        self._access: dict[str, set[Literal["read", "write"]]] = {}
        self._blocks = [_Block()]
        self._last = self._blocks[0]  # the block closed last
        self._floor = 0  # the innermost parallel or empty block: nothing is moved out of it
        self._depth: dict[str, int] = {}  # of every variable and axis: the block in which it is known
        self._count = 0
        self._axes = 0
        self._locals = 0

    # --- names

    def var(self, dtype: DType) -> Var:
        """A new variable; it belongs to the innermost block until a statement defines it elsewhere."""
        self._count += 1
        return self._at(Var(f"_v{self._count - 1}", dtype), len(self._blocks) - 1)

    def _at(self, var: Var, depth: int) -> Var:
        self._depth[var.name] = depth
        return var

    def param(self, storage: Storage, access: Literal["read", "write"]) -> str:
        """The kernel's name for ``storage``, noting how it is used."""
        self._storages.setdefault(storage.name, storage)
        self._access.setdefault(storage.name, set()).add(access)
        return f"p{list(self._storages).index(storage.name)}"

    # --- blocks

    def _home(self, names: Iterable[str]) -> int:
        """The depth of the outermost block in which a statement that uses ``names`` may stand."""
        return max([self._floor, *(self._depth[name] for name in names if name in self._depth)])

    def home_of(self, index: Iterable[DimLike], vars: Iterable[Var | None] = ()) -> int:
        """The depth of the outermost block in which something at this index may be computed."""
        used = [name for dim in index for name in dims.names(dim)]
        return self._home([*used, *(var.name for var in vars if var is not None)])

    def recall(self, key: Hashable) -> tuple[Var, ...] | None:
        """What was remembered under ``key`` in a block that is open."""
        for block in reversed(self._blocks):
            if key in block.memo:
                return block.memo[key]
        return None

    def remember(self, key: Hashable, vars: tuple[Var, ...]) -> None:
        """Remember variables for as long as they are known."""
        depth = max([self._floor, *(self._depth[var.name] for var in vars)])
        self._blocks[depth].memo[key] = vars

    @contextmanager
    def within(self, depth: int) -> Iterator[None]:
        """Write as though the blocks deeper than ``depth`` were not open yet."""
        deeper = self._blocks[depth + 1 :]
        del self._blocks[depth + 1 :]
        try:
            yield
        finally:
            self._blocks.extend(deeper)

    def _write(self, statement: Statement, depth: int) -> None:
        self._blocks[depth].statements.append(statement)

    # --- statements

    def let(
        self, dtype: DType, op: str, args: tuple[Var, ...] = (), param: float | int | bool | str | None = None
    ) -> Var:
        """``op(args)`` as a variable."""
        # 0.0 and -0.0 are equal keys but different constants, and so are 1 and True; repr tells them apart.
        key = (op, args, repr(param), dtype)
        known = self.recall(key)
        if known is not None:
            return known[0]
        depth = self._home(arg.name for arg in args)
        var = self._at(self.var(dtype), depth)
        self._write(Let(var, op, args, param), depth)
        self.remember(key, (var,))
        return var

    def index_value(self, index: DimLike) -> Var:
        """An index expression as an int64 scalar."""
        index = self.ranges.simplify(index)
        if isinstance(index, int):
            return self.let(dtypes.int64, "const", (), index)
        name = index.as_name
        key = ("index", index)
        known = self.recall(key)
        if known is not None:
            return known[0]
        if name is not None and name.startswith("_v"):
            return Var(name, dtypes.int64)
        depth = self.home_of((index,))
        var = self._at(self.var(dtypes.int64), depth)
        self._write(IndexValue(var, index), depth)
        self.remember(key, (var,))
        return var

    def as_index(self, var: Var, extent: DimLike) -> DimLike:
        """An int64 scalar known to lie in ``0 .. extent`` as a name in index expressions."""
        self.ranges.declare(var.name, extent)
        return Dim.name(var.name)

    def load(self, storage: Storage, index: DimLike, mask: Var | None = None, *, again: bool = False) -> Var:
        """``storage[index]``; with ``again`` nothing loaded before is used, because it may have changed."""
        index = index + self._base(storage)
        name = self.param(storage, "read")
        return self._load(name, storage.type.dtype, index, mask, again=again)

    def _base(self, storage: Storage) -> DimLike:
        """Where a storage begins in its buffer."""
        if storage.slot is None:
            return 0
        slot = storage.slot
        position = self.as_index(self.load(slot.counter, 0), slot.length)
        return (slot.length - 1 - position if slot.reverse else position) * storage.type.size

    def load_local(self, local: Local, index: DimLike, mask: Var | None = None) -> Var:
        """``local[index]`` as it is now."""
        return self._load(local.buffer, local.dtype, index, mask, again=True)

    def _load(self, name: str, dtype: DType, index: DimLike, mask: Var | None, *, again: bool) -> Var:
        index = self.ranges.simplify(index)
        key = ("load", name, index, mask)
        known = None if again else self.recall(key)
        if known is not None:
            return known[0]
        depth = len(self._blocks) - 1 if again else self.home_of((index,), (mask,))
        var = self._at(self.var(dtype), depth)
        self._write(Load(var, name, index, mask), depth)
        if not again:
            self.remember(key, (var,))
        return var

    def store(self, storage: Storage, index: DimLike, value: Var, mask: Var | None = None) -> None:
        """``storage[index] = value`` in the innermost block."""
        assert value.dtype == storage.type.dtype, (value, storage)
        index = index + self._base(storage)
        name = self.param(storage, "write")
        if storage.slot is not None:
            self.param(storage, "read")  # the other slices keep their values, so the buffer is not written as a whole
        self._write(Store(name, self.ranges.simplify(index), value, mask), len(self._blocks) - 1)

    def store_local(self, local: Local, index: DimLike, value: Var, mask: Var | None = None) -> None:
        """``local[index] = value`` in the innermost block."""
        self._write(Store(local.buffer, self.ranges.simplify(index), value, mask), len(self._blocks) - 1)

    def local(self, dtype: DType, size: int) -> Local:
        """A buffer on the stack, known in the innermost block and those inside it."""
        self._locals += 1
        local = Local(f"l{self._locals - 1}", dtype, size)
        self._write(local, len(self._blocks) - 1)
        return local

    def check(self, ok: Var, site: int, value: Var | None = None, bound: Var | None = None) -> None:
        """Stop with error ``site`` where ``ok`` is false; stands before everything that is written later."""
        self._write(
            CheckStatement(ok, site, value, bound), self._home(v.name for v in (ok, value, bound) if v is not None)
        )

    # --- loops

    def _new_axis(self) -> str:
        self._axes += 1
        return f"_i{self._axes - 1}"

    def _open(self, extent: DimLike, *, lanes: bool = False) -> tuple[str, DimLike]:
        axis = self._new_axis()
        self.ranges.declare(axis, extent)
        self._push(_Block(lanes=lanes, axis=axis, extent=extent), empty=extent == 0)
        self._depth[axis] = len(self._blocks) - 1
        return axis, Dim.name(axis)

    def _push(self, block: _Block, *, empty: bool) -> None:
        block.floor_outside = self._floor
        self._blocks.append(block)
        if empty:
            self._floor = len(self._blocks) - 1

    def _close(self) -> Body:
        block = self._blocks.pop()
        self._floor = block.floor_outside
        block.done = True
        self._last = block
        return tuple(block.statements)

    def loop_over(self, index: DimLike, extent: int) -> object | None:
        """The innermost loop, where its axis is ``index`` and it has ``extent`` iterations; None otherwise."""
        block = self._blocks[-1]
        name = None if isinstance(index, int) else index.as_name
        return block if name is not None and block.axis == name and block.extent == extent else None

    def is_done(self, loop: object) -> bool:
        """Whether a loop that ``loop_over`` gave has been written, so that what comes now comes after it."""
        assert isinstance(loop, _Block)
        return loop.done

    @property
    def written(self) -> Body:
        """What stands in the outermost block so far."""
        return tuple(self._blocks[0].statements)

    @contextmanager
    def loop(
        self, kind: LoopKind, extent: DimLike, *, begin: DimLike = 0, span: int | None = None
    ) -> Iterator[DimLike]:
        """A parallel, vector or serial loop without carries; gives the axis. An extent of 1 needs no loop."""
        if extent == 1 and span is None:
            yield 0
            return
        axis, index = self._open(extent, lanes=kind == "vector")
        if kind == "parallel":
            self._floor = len(self._blocks) - 1
        yield index
        body = self._close()
        self._write(Loop(axis, extent, kind, body, begin=begin, span=span), len(self._blocks) - 1)

    @contextmanager
    def loops(self, kinds: Sequence[LoopKind], extents: Sequence[DimLike]) -> Iterator[tuple[DimLike, ...]]:
        """A nest of loops, outermost first."""
        if not extents:
            yield ()
            return
        with self.loop(kinds[0], extents[0]) as axis, self.loops(kinds[1:], extents[1:]) as rest:
            yield (axis, *rest)

    def serial(
        self,
        extent: DimLike,
        init: tuple[Var, ...],
        step: Callable[[DimLike, tuple[Var, ...]], tuple[Var, ...]],
        *,
        begin: DimLike = 0,
        span: int | None = None,
    ) -> tuple[Var, ...]:
        """A serial loop whose ``step(axis, carried)`` gives what the next step carries; returns what the last gave."""
        results = tuple(self.var(var.dtype) for var in init)
        axis, index = self._open(extent)
        carried = tuple(self.var(var.dtype) for var in init)
        following = step(index, carried)
        body = self._close()
        carries = tuple(map(Carry, carried, init, following, results))
        loop = Loop(axis, extent, "serial", body, carries, begin=begin, span=span)
        self._write(loop, len(self._blocks) - 1)
        return results

    def reduce(
        self,
        extent: DimLike,
        init: tuple[Var, ...],
        element: Callable[[DimLike], tuple[Var, ...]],
        combine: Combiner,
        lanes: int,
        chain: int = 0,
        *,
        begin: DimLike = 0,
        span: int | None = None,
        store_slots: Callable[[DimLike, tuple[Var, ...]], None] | None = None,
    ) -> tuple[Var, ...]:
        """Fold what ``element(axis)`` gives for every step with ``combine``; ``init`` is the identity.

        ``lanes``, ``chain``, ``begin`` and ``span`` are those of ``kernel.Loop``; where the order is free, ``lanes`` is
        no more than advice. With ``store_slots`` the slots are not folded: ``store_slots(slot, accumulators)`` stores
        them, and the results are unknown outside of it.
        """
        if any(block.lanes for block in self._blocks):
            assert lanes == 1 or not chain, "slots in order inside of lanes"
            lanes = 1
        results = tuple(self.var(var.dtype) for var in init)
        axis, index = self._open(extent, lanes=lanes > 1)
        inside = tuple(self.var(var.dtype) for var in init)
        contributed = element(index)
        body = self._close()
        carries = tuple(map(Carry, inside, init, contributed, results))
        combined = self._combine(init, combine)
        slots = None
        if store_slots is not None:
            slot_axis, slot = self._open(lanes, lanes=True)
            for result in results:
                self._at(result, len(self._blocks) - 1)
            store_slots(slot, results)
            slots = Slots(slot_axis, self._close())
        loop = Loop(axis, extent, "reduce", body, carries, combined, lanes, chain, begin, span, slots)
        self._write(loop, len(self._blocks) - 1)
        return results

    def last_divides(self) -> bool:
        """Whether an index in the loop written last divides by something that its axis is part of."""
        loop = self._blocks[-1].statements[-1]
        assert isinstance(loop, Loop)
        return any(
            has_atoms(dim) and loop.axis in dims.names(dim) for s in statements_of(loop.body) for dim in dims_of(s)
        )

    def drop_last(self) -> None:
        """Take back the loop written last; nothing may have used its results."""
        self._blocks[-1].statements.pop()
        self._last.done = False

    def _combine(self, init: tuple[Var, ...], combine: Combiner) -> Combine:
        """The combine of a reduce loop, written apart: it sees its two operands alone."""
        apart = KernelRecorder()
        apart._count = self._count
        left = tuple(apart.var(var.dtype) for var in init)
        right = tuple(apart.var(var.dtype) for var in init)
        results = combine(ScalarOps(apart, left[0].dtype), left, right)
        self._count = apart._count
        body = tuple(s for s in apart._blocks[0].statements if isinstance(s, Let))
        return Combine(left, right, body, results)

    def contract(
        self,
        extents: tuple[DimLike, DimLike, DimLike],
        left: Callable[[DimLike, DimLike], Var],
        right: Callable[[DimLike, DimLike], Var],
        epilogue: Callable[[DimLike, DimLike, Var], None],
        accumulator: DType,
        block_k: int,
    ) -> None:
        """``acc[m, n] = sum over k of left(m, k) * right(k, n)``, and ``epilogue(m, n, acc)`` for every m and n."""
        names = [self._new_axis() for _ in range(3)]
        axes: list[DimLike] = [Dim.name(name) for name in names]
        for name, extent in zip(names, extents, strict=True):
            self.ranges.declare(name, extent)
        m, n, k = axes

        def write(used: Sequence[str], body: Callable[[], Var]) -> Operand:
            self._push(_Block(), empty=0 in extents)
            for name in used:
                self._depth[name] = len(self._blocks) - 1
            value = body()
            return Operand(self._close(), value)

        first = write((names[0], names[2]), lambda: left(m, k))
        second = write((names[2], names[1]), lambda: right(k, n))
        self._push(_Block(), empty=0 in extents[:2])
        for name in names[:2]:
            self._depth[name] = len(self._blocks) - 1
        acc = self.var(accumulator)
        epilogue(m, n, acc)
        body = self._close()
        statement = Contract(names[0], names[1], names[2], extents, first, second, acc, body, block_k)
        self._write(statement, len(self._blocks) - 1)

    # --- the end

    def kernel(
        self, name: str, tiles: TransposedTiles | None, *, fastmath: bool = False
    ) -> tuple[Kernel, tuple[str, ...]]:
        """The finished kernel, and the schedule's buffers for its parameters in order."""
        assert len(self._blocks) == 1
        body = merge_loops(tuple(self._blocks[0].statements), self.ranges, self._new_axis)
        if tiles is not None:
            body = tile_transposed(body, tiles, self._new_axis)
        params = []
        for position, storage in enumerate(self._storages.values()):
            access = self._access[storage.name]
            how: Literal["read", "write", "readwrite"] = "readwrite" if len(access) == 2 else next(iter(access))
            params.append(Param(f"p{position}", storage.type.dtype, storage.size, how))
        sizes = sorted(sizes_of(body) | {name for param in params for name in dims.names(param.size)})
        return Kernel(name, tuple(params), body, tuple(sizes), (), fastmath), tuple(self._storages)
