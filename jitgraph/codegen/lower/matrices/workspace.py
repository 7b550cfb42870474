"""What the kernels of matrix ops share: real and complex numbers, one matrix of the batch per parallel iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Loop, LoopKind, Var
from jitgraph.codegen.kernels.schedule import CheckSite
from jitgraph.codegen.lower.building import ScheduleBuilder
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps, StatementRecorder, Storage
from jitgraph.dtypes import DType, bool_, int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Numbers of matrix kernels: real ones, or complex ones as their two parts, in the scalar ops of kernels.

Number: TypeAlias = "tuple[Var, ...]"
"""The parts of a number: itself, or its real and its imaginary part."""


@dataclass(frozen=True)
class MatrixNumbers:
    """Arithmetic on numbers of ``parts`` parts, 1 or 2, of one dtype."""

    recorder: StatementRecorder
    dtype: DType
    parts: int

    @property
    def ops(self) -> ScalarOps:
        """The scalar ops of the parts."""
        return ScalarOps(self.recorder, self.dtype)

    @property
    def is_complex(self) -> bool:
        """Whether there are two parts."""
        return self.parts == 2

    def real(self, x: Var) -> Number:
        """The number whose real part is ``x``."""
        return (x, self.ops.const(0.0)) if self.is_complex else (x,)

    def const(self, value: float) -> Number:
        """A real constant."""
        return self.real(self.ops.const(value))

    def add(self, x: Number, y: Number) -> Number:
        """x + y."""
        return tuple(map(self.ops.add, x, y))

    def sub(self, x: Number, y: Number) -> Number:
        """x - y."""
        return tuple(map(self.ops.sub, x, y))

    def neg(self, x: Number) -> Number:
        """-x."""
        return tuple(map(self.ops.neg, x))

    def conj(self, x: Number) -> Number:
        """The conjugate of x."""
        return (x[0], self.ops.neg(x[1])) if self.is_complex else x

    def scale(self, x: Number, r: Var) -> Number:
        """x * r, of real r."""
        return tuple(self.ops.mul(part, r) for part in x)

    def select(self, condition: Var, x: Number, y: Number) -> Number:
        """x where the condition holds, else y."""
        return tuple(self.ops.select(condition, one, other) for one, other in zip(x, y, strict=True))

    def mul(self, x: Number, y: Number) -> Number:
        """x * y."""
        s = self.ops
        if not self.is_complex:
            return (s.mul(x[0], y[0]),)
        return (
            s.fma(x[0], y[0], s.neg(s.mul(x[1], y[1]))),
            s.fma(x[0], y[1], s.mul(x[1], y[0])),
        )

    def add_product(self, total: Number, x: Number, y: Number) -> Number:
        """total + x * y, each part by fused multiply-adds."""
        s = self.ops
        if not self.is_complex:
            return (s.fma(x[0], y[0], total[0]),)
        return (
            s.fma(s.neg(x[1]), y[1], s.fma(x[0], y[0], total[0])),
            s.fma(x[1], y[0], s.fma(x[0], y[1], total[1])),
        )

    def squared(self, x: Number) -> Var:
        """|x|**2."""
        s = self.ops
        total = s.mul(x[0], x[0])
        return s.fma(x[1], x[1], total) if self.is_complex else total

    def size(self, x: Number) -> Var:
        """|x| of a real number, and |re| + |im| of a complex one, as LAPACK compares pivots."""
        s = self.ops
        total = s.abs(x[0])
        return s.add(total, s.abs(x[1])) if self.is_complex else total

    def polar(self, x: Number) -> tuple[Var, Number]:
        """|x|, and x / |x|: 0 of 0."""
        s = self.ops
        zero = s.const(0.0)
        if not self.is_complex:
            length = s.abs(x[0])
            sign = s.select(s.cmp("lt", x[0], zero), s.const(-1.0), s.const(1.0))
            known = s.select(s.cmp("eq", x[0], x[0]), sign, x[0])
            return length, (s.select(s.cmp("eq", x[0], zero), zero, known),)
        greater = s.max(s.abs(x[0]), s.abs(x[1]))
        none = s.cmp("eq", greater, zero)
        scale = s.select(none, s.const(1.0), greater)
        near = tuple(s.div(part, scale) for part in x)
        length = s.sqrt(self.squared(near))
        safe = s.select(none, s.const(1.0), length)
        return s.mul(length, greater), tuple(s.div(part, safe) for part in near)

    def div(self, x: Number, y: Number) -> Number:
        """x / y: of real numbers rounded once."""
        if not self.is_complex:
            return (self.ops.div(x[0], y[0]),)
        return self.mul(x, self.inverse(y))

    def inverse(self, x: Number) -> Number:
        """1 / x; of complex numbers by their greater part, so that no square overflows (Smith, 1962)."""
        s = self.ops
        one = s.const(1.0)
        if not self.is_complex:
            return (s.div(one, x[0]),)
        turned = s.cmp("gt", s.abs(x[1]), s.abs(x[0]))
        big, small = s.select(turned, x[1], x[0]), s.select(turned, x[0], x[1])
        ratio = s.div(small, big)
        scale = s.div(one, s.fma(small, ratio, big))
        straight = (scale, s.neg(s.mul(ratio, scale)))
        crossed = (s.mul(ratio, scale), s.neg(scale))
        return self.select(turned, crossed, straight)


LEAST_NORMAL: Final = {dtypes.float32: 2.0**-126, dtypes.float64: 2.0**-1022}
EPSILON: Final = {dtypes.float32: 2.0**-23, dtypes.float64: 2.0**-52}


# ----------------------------------------------------------------------
# What the kernels of matrix ops share: one matrix of the batch in each parallel iteration, rows in lanes.
#
# A kernel works on dense copies with rows side by side, in temporaries. Blocks have ``BLOCK`` rows, and copies that are
# worked on in blocks are padded to whole ones, so that the innermost loops have no edges. The trailing update is that
# of right-looking algorithms (G. Golub and C. Van Loan, Matrix computations, 4th ed., 2013, section 3.2.11): each
# element is loaded and stored once for the products of a whole block, several rows at a time, with the sums in
# registers.

BLOCK: Final = 8
"""Rows of a block, and steps of a trailing update."""

ROWS: Final = 4
"""Rows that a trailing update works on at once; it divides BLOCK."""


@dataclass(frozen=True)
class Matrix:
    """A matrix of one iteration in the storages of its parts: rows of ``stride`` elements from ``base`` on."""

    work: MatrixKernel
    storages: tuple[Storage, ...]
    base: DimLike
    stride: DimLike

    def __getitem__(self, at: tuple[DimLike, DimLike]) -> Number:
        return self.load(*at)

    def __setitem__(self, at: tuple[DimLike, DimLike], value: Number) -> None:
        self.store(*at, value)

    def load(self, row: DimLike, column: DimLike, mask: Var | None = None) -> Number:
        """The element as it is now, in the innermost block; 0 where the mask is false."""
        index = self.base + row * self.stride + column
        return tuple(self.work.recorder.load(storage, index, mask, again=True) for storage in self.storages)

    def store(self, row: DimLike, column: DimLike, value: Number, mask: Var | None = None) -> None:
        """Write the element where the mask allows."""
        index = self.base + row * self.stride + column
        for storage, part in zip(self.storages, value, strict=True):
            self.work.recorder.store(storage, index, part, mask)

    def part(self, number: int) -> Matrix:
        """The matrix of one of the parts."""
        return Matrix(self.work, self.storages[number : number + 1], self.base, self.stride)


class MatrixKernel:
    """A kernel that does the same for each matrix of a batch.

    ``operands`` and ``results`` are the storages of a node's; the first operand's leading axes are the batch. ``parts``
    is 2 where matrices are complex, whose operands and results then come in pairs. Matrices take up the last ``axes``.
    """

    def __init__(
        self,
        builder: ScheduleBuilder,
        node: Node,
        operands: Sequence[Storage],
        results: Sequence[Storage],
        parts: int,
        axes: int = 2,
    ) -> None:
        self.builder, self.node = builder, node
        self.operands, self.results, self.parts = operands, results, parts
        first = operands[0].type
        self.batch, self.dtype = first.shape[:-axes], first.dtype
        self.rows, self.columns = (1, *first.shape)[-2:] if axes == 1 else first.shape[-2:]
        self.recorder = KernelRecorder()
        self.numbers = MatrixNumbers(self.recorder, self.dtype, parts)
        self.ops = ScalarOps(self.recorder, self.dtype)
        self.integers = ScalarOps(self.recorder, int64)
        self.logic = ScalarOps(self.recorder, bool_)
        self.number: DimLike = 0  # of the matrix in the batch

    def operand(self, first: int = 0) -> Matrix:
        """The matrices of an operand whose parts begin with that number."""
        return self._whole(self.operands[first : first + self.parts])

    def result(self, first: int = 0, parts: int | None = None) -> Matrix:
        """The matrices of a result; vectors are matrices of one row."""
        return self._whole(self.results[first : first + (parts or self.parts)])

    def _whole(self, storages: Sequence[Storage]) -> Matrix:
        shape = (1, *storages[0].type.shape[len(self.batch) :])[-2:]
        return Matrix(self, tuple(storages), self.number * shape[0] * shape[1], shape[1])

    def matrix(self, rows: DimLike, columns: DimLike, dtype: DType | None = None, parts: int | None = None) -> Matrix:
        """A temporary matrix of each iteration, of the kernel's dtype and parts."""
        type = TensorType(dtype or self.dtype, (dims.product(self.batch), rows, columns))
        storages = tuple(self.builder.temporary(type) for _ in range(parts or self.parts))
        return Matrix(self, storages, self.number * rows * columns, columns)

    def vector(self, size: DimLike, dtype: DType | None = None, parts: int = 1) -> Matrix:
        """A temporary vector of real numbers, a matrix of one row."""
        return self.matrix(1, size, dtype, parts)

    # loops

    @contextmanager
    def each_matrix(self) -> Iterator[None]:
        """The parallel loop over the batch, also over a batch of one: what stands in it is of one thread."""
        recorder = self.recorder
        extent = dims.product(self.batch)
        axis, self.number = recorder._open(extent)
        recorder._floor = len(recorder._blocks) - 1
        yield
        body = recorder._close()
        recorder._write(Loop(axis, extent, "parallel", body), len(recorder._blocks) - 1)

    def _loop(self, kind: LoopKind, begin: DimLike, extent: DimLike, body: Callable[[DimLike], None]) -> None:
        recorder = self.recorder
        axis, index = recorder._open(extent, lanes=kind == "vector")
        body(index)
        statements = recorder._close()
        if statements:
            recorder._write(Loop(axis, extent, kind, statements, begin=begin), len(recorder._blocks) - 1)

    def along(self, extent: DimLike, body: Callable[[DimLike], None], begin: DimLike = 0) -> None:
        """``body(j)`` for independent j, in lanes."""
        self._loop("vector", begin, extent, body)

    def each(self, extent: DimLike, body: Callable[[DimLike], None], begin: DimLike = 0) -> None:
        """``body(i)``, one after another."""
        self._loop("serial", begin, extent, body)

    def when(self, condition: Var, body: Callable[[], None]) -> None:
        """``body()`` where the condition holds: a loop of one turn or none."""
        turns = self.index(self.integers.cast(condition, int64), 2)
        self._loop("serial", 0, turns, lambda _: body())

    # numbers in indices

    def index(self, var: Var, extent: DimLike) -> DimLike:
        """An int64 scalar known to lie in ``0 .. extent`` as an index."""
        return self.recorder.as_index(var, extent)

    def value(self, index: DimLike) -> Var:
        """An index as an int64 scalar."""
        return self.recorder.index_value(index)

    def is_less(self, x: DimLike, y: DimLike) -> Var:
        """Whether one index is less than another."""
        return self.integers.cmp("lt", self.value(x), self.value(y))

    def both(self, *conditions: Var) -> Var:
        """Whether all hold."""
        all_hold, *others = conditions
        for other in others:
            all_hold = self.logic.and_(all_hold, other)
        return all_hold

    # what algorithms consist of

    def padded(self, extent: DimLike) -> DimLike:
        """The extent rounded up to whole blocks."""
        return (extent + BLOCK - 1) // BLOCK * BLOCK

    def identity(self, target: Matrix, rows: DimLike, columns: DimLike) -> None:
        """Ones on the diagonal and zeros elsewhere."""

        def element(i: DimLike, j: DimLike) -> None:
            on_diagonal = self.integers.cmp("eq", self.value(i), self.value(j))
            one = self.ops.select(on_diagonal, self.ops.const(1.0), self.ops.const(0.0))
            target[i, j] = self.numbers.real(one)

        self.each(rows, lambda i: self.along(columns, lambda j: element(i, j)))

    def subtract_products(
        self,
        target: Matrix,
        groups: tuple[DimLike, DimLike],
        columns: tuple[DimLike | Callable[[DimLike], DimLike], DimLike],
        left: Callable[[DimLike, int], Number],
        right: Callable[[int, DimLike], Number],
    ) -> None:
        """``target[i, j] -= left(i, p) * right(p, j)``, summed over the BLOCK steps p.

        For the rows of ``groups`` of ROWS, from the first up to the second, and the columns from the first, which may
        depend on the group's first row, up to the second.
        """
        begin, end = columns

        def group(number: DimLike) -> None:
            rows = [ROWS * number + row for row in range(ROWS)]
            factors = [[self.numbers.neg(left(row, step)) for step in range(BLOCK)] for row in rows]

            def column(j: DimLike) -> None:
                sums = [target[row, j] for row in rows]
                for step in range(BLOCK):
                    other = right(step, j)
                    sums = [
                        self.numbers.add_product(total, factor[step], other)
                        for total, factor in zip(sums, factors, strict=True)
                    ]
                for row, total in zip(rows, sums, strict=True):
                    target[row, j] = total

            self.along(end, column, begin(rows[0]) if callable(begin) else begin)

        self.each(groups[1], group, groups[0])

    def sum(self, extent: DimLike, term: Callable[[DimLike], tuple[Var, ...]], terms: int) -> tuple[Var, ...]:
        """The sums of the ``terms`` numbers of ``term(j)`` for j below the extent, in lanes (``Loop``)."""

        def combine(s: ScalarOps, x: tuple[Var, ...], y: tuple[Var, ...]) -> tuple[Var, ...]:
            return tuple(map(s.add, x, y))

        zero = self.ops.const(-0.0)
        return self.recorder.reduce(extent, (zero,) * terms, term, combine, 16, 32)

    def check(self, ok: Var, reason: str) -> None:
        """Fail with ``reason`` and the number of the matrix where ``ok`` is false."""
        where = " (matrix {index} of the batch)" if self.batch else ""
        site = CheckSite("LinAlgError", f"{self.node.op.name}: {reason}{where}", self.node.location)
        self.recorder.check(ok, self.builder.sites.number(site), self.value(self.number))

    def launch(self) -> None:
        """End the kernel and launch it."""
        self.builder.launch(self.recorder, self.node.op.name)
