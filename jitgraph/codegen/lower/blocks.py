"""The blocks of a kernel that are open while it is written, and in which of them each name is known.

A statement may stand in the outermost block in which its operands are known; only parallel loops are never left,
because their bodies run on several threads, and loops without iterations, because what they load need not exist.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field

from jitgraph.codegen.kernels.index import Ranges
from jitgraph.codegen.kernels.kernel import Body, Statement, Var
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.records import dataclass


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
