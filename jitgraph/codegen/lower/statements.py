"""Statements of a kernel being written, each in the outermost block in which its operands are known."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Literal

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import Ranges
from jitgraph.codegen.kernels.kernel import (
    Body,
    CheckStatement,
    IndexValue,
    Let,
    Load,
    Local,
    Statement,
    Store,
    Update,
    Var,
)
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.scalar import Comparison, Scalar

# ----------------------------------------------------------------------
# Where a tensor lies while a graph is lowered.


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


# ----------------------------------------------------------------------
# The blocks of a kernel that are open while it is written, and in which of them each name is known.
#
# A statement may stand in the outermost block in which its operands are known; only parallel loops are never left,
# because their bodies run on several threads, and loops without iterations, because what they load need not exist.


@dataclass(slots=True)
class OpenBlock:
    """One block: what stands in it and what is remembered there."""

    statements: list[Statement] = field(default_factory=list)
    memo: dict[Hashable, tuple[Var, ...]] = field(default_factory=dict)
    lanes: bool = False  # its iterations become lanes, so reductions inside it have one slot
    axis: str = ""  # of the loop whose body it is
    extent: DimLike = 1
    done: bool = False  # its loop has been written, and stands
    floor_outside: int = 0  # below which block nothing is moved once this one is closed


class OpenBlocks:
    """Blocks inside of each other, the names that are known in each, and what is remembered there."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self._blocks = [OpenBlock()]
        self._last = self._blocks[0]  # the block closed last
        self._floor = 0  # the innermost parallel or empty block: nothing is moved out of it
        self._depth: dict[str, int] = {}  # of every variable and axis: the block in which it is known
        self._count = 0
        self._axes = 0

    def var(self, dtype: DType) -> Var:
        """A new variable; it belongs to the innermost block until a statement defines it elsewhere."""
        self._count += 1
        return self._at(Var(f"_v{self._count - 1}", dtype), len(self._blocks) - 1)

    def _at(self, var: Var, depth: int) -> Var:
        self._depth[var.name] = depth
        return var

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

    def _new_axis(self) -> str:
        self._axes += 1
        return f"_i{self._axes - 1}"

    def _open(self, extent: DimLike, *, lanes: bool = False) -> tuple[str, DimLike]:
        axis = self._new_axis()
        self.ranges.declare(axis, extent)
        self._push(OpenBlock(lanes=lanes, axis=axis, extent=extent), empty=extent == 0)
        self._depth[axis] = len(self._blocks) - 1
        return axis, Dim.name(axis)

    def _push(self, block: OpenBlock, *, empty: bool) -> None:
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
        assert isinstance(loop, OpenBlock)
        return loop.done

    @property
    def written(self) -> Body:
        """What stands in the outermost block so far."""
        return tuple(self._blocks[0].statements)


# ----------------------------------------------------------------------
# Statements of a kernel being written, each in the outermost block in which its operands are known.
#
# So what does not change inside a loop leaves it by construction. Equal statements of one block are written once.


class StatementRecorder(OpenBlocks):
    """Scalar ops, loads, stores and checks, and the buffers that they use."""

    def __init__(self) -> None:
        super().__init__()
        self._storages: dict[str, Storage] = {}
        self._access: dict[str, set[Literal["read", "write"]]] = {}
        self._locals = 0

    def param(self, storage: Storage, access: Literal["read", "write"]) -> str:
        """The kernel's name for ``storage``, noting how it is used."""
        self._storages.setdefault(storage.name, storage)
        self._access.setdefault(storage.name, set()).add(access)
        return f"p{list(self._storages).index(storage.name)}"

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

    def store(
        self, storage: Storage, index: DimLike, value: Var, mask: Var | None = None, update: Update | None = None
    ) -> None:
        """``storage[index] = value`` in the innermost block, or an update of it (``kernel.Store``)."""
        assert value.dtype == storage.type.dtype, (value, storage)
        index = index + self._base(storage)
        name = self.param(storage, "write")
        if storage.slot is not None or update is not None:
            self.param(storage, "read")  # other slices and elements stay, so the buffer is not written as a whole
        self._write(Store(name, self.ranges.simplify(index), value, mask, update), len(self._blocks) - 1)

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


# ----------------------------------------------------------------------
# The scalar ops over a recorder: each becomes a statement of the kernel being written.


class ScalarOps:
    """The scalar ops over a recorder: each becomes a ``Let``."""

    def __init__(self, recorder: StatementRecorder, dtype: DType) -> None:
        self.recorder = recorder
        self.dtype = dtype

    def const(self, value: float | int | bool, dtype: DType | None = None) -> Var:
        dtype = dtype if dtype is not None else self.dtype
        return self.recorder.let(dtype, "const", (), constant_of(value, dtype))

    def _same(self, op: str, *args: Scalar) -> Var:
        operands = tuple(_var(arg) for arg in args)
        return self.recorder.let(operands[0].dtype, op, operands)

    def add(self, x: Scalar, y: Scalar) -> Var:
        return self._same("add", x, y)

    def sub(self, x: Scalar, y: Scalar) -> Var:
        return self._same("sub", x, y)

    def mul(self, x: Scalar, y: Scalar) -> Var:
        return self._same("mul", x, y)

    def div(self, x: Scalar, y: Scalar) -> Var:
        return self._same("div", x, y)

    def rem(self, x: Scalar, y: Scalar) -> Var:
        return self._same("rem", x, y)

    def neg(self, x: Scalar) -> Var:
        return self._same("neg", x)

    def abs(self, x: Scalar) -> Var:
        return self._same("abs", x)

    def min(self, x: Scalar, y: Scalar) -> Var:
        return self._same("min", x, y)

    def max(self, x: Scalar, y: Scalar) -> Var:
        return self._same("max", x, y)

    def sqrt(self, x: Scalar) -> Var:
        return self._same("sqrt", x)

    def floor(self, x: Scalar) -> Var:
        return self._same("floor", x)

    def ceil(self, x: Scalar) -> Var:
        return self._same("ceil", x)

    def rint(self, x: Scalar) -> Var:
        return self._same("rint", x)

    def trunc(self, x: Scalar) -> Var:
        return self._same("trunc", x)

    def fma(self, x: Scalar, y: Scalar, z: Scalar) -> Var:
        return self._same("fma", x, y, z)

    def cmp(self, relation: Comparison, x: Scalar, y: Scalar) -> Var:
        return self.recorder.let(dtypes.bool_, "cmp", (_var(x), _var(y)), relation)

    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Var:
        return self.recorder.let(x.dtype, "select", (_var(condition), _var(x), _var(y)))

    def cast(self, x: Scalar, dtype: DType) -> Var:
        return _var(x) if x.dtype == dtype else self.recorder.let(dtype, "cast", (_var(x),))

    def bitcast(self, x: Scalar, dtype: DType) -> Var:
        return _var(x) if x.dtype == dtype else self.recorder.let(dtype, "bitcast", (_var(x),))

    def and_(self, x: Scalar, y: Scalar) -> Var:
        return self._same("and_", x, y)

    def or_(self, x: Scalar, y: Scalar) -> Var:
        return self._same("or_", x, y)

    def xor(self, x: Scalar, y: Scalar) -> Var:
        return self._same("xor", x, y)

    def not_(self, x: Scalar) -> Var:
        return self._same("not_", x)

    def shl(self, x: Scalar, y: Scalar) -> Var:
        return self._same("shl", x, y)

    def shr(self, x: Scalar, y: Scalar) -> Var:
        return self._same("shr", x, y)

    def call(self, function: str, *args: Scalar) -> Var:
        operands = tuple(_var(arg) for arg in args)
        return self.recorder.let(operands[0].dtype, "call", operands, function)


def _var(x: Scalar) -> Var:
    assert isinstance(x, Var), x
    return x


def constant_of(value: float | int | bool | np.generic, dtype: DType) -> float | int | bool:
    """``value`` as a Python number that ``dtype`` holds exactly: what a ``const`` statement carries."""
    if dtypes.is_bool(dtype):
        return bool(value)
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        return (int(value) - int(info.min)) % (1 << (8 * dtype.itemsize)) + int(info.min)
    with np.errstate(over="ignore"):
        return float(np.asarray(value).astype(dtype))
