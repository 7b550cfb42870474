"""Statements of a kernel being written, each in the outermost block in which its operands are known.

So what does not change inside a loop leaves it by construction. Equal statements of one block are written once.
"""

from __future__ import annotations

from typing import Literal

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import CheckStatement, IndexValue, Let, Load, Local, Store, Update, Var
from jitgraph.codegen.lower.blocks import OpenBlocks
from jitgraph.codegen.lower.storage import Storage
from jitgraph.dtypes import DType
from jitgraph.ir.dims import Dim, DimLike


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
