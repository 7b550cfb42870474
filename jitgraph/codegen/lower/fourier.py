"""Fourier transforms as kernels: passes of butterflies over data that stays in registers and caches.

A transform of n = r m elements takes butterflies of r elements that lie m apart, a twiddle factor for each result, and
r transforms of m elements each (decimation in frequency). The passes of one transform are done in one of two forms,
with the same arithmetic, so that the bits depend on the size alone:

- in rows, the elements of one transform are lanes. Results are stored in Stockham's order (D. Bailey, Int. J.
  Supercomputer Appl. 2, 1988), after which nothing has to be permuted, between two buffers of the iteration;
- in lanes, each lane has a transform of its own, which is done in place; the last pass stores in order.

A size beyond the caches is two passes over memory of sizes a and b (n = a b): columns of a elements in lanes, a factor
for each, and rows of b, whose results are columns again. Each reads and writes runs of neighbours.

A real transform of n elements is a complex one of n / 2 pairs of neighbours, and one more pass over its result (or
before it) while that is in the caches: W. Press et al., Numerical recipes, section 12.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Final

import numpy as np

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Local, LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Index
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import Constant, TensorType
from jitgraph.ops.butterflies import Number, butterfly, times
from jitgraph.ops.fourier_factors import ROW, halves, neighbours, radices, roots

Load = Callable[[DimLike], Number]
StoreNumber = Callable[[DimLike, Number], None]
Loads = Callable[[Sequence[DimLike]], Sequence[Number]]
Stores = Callable[[Sequence[DimLike], Sequence[Number]], None]

_LEAST_ROW: Final = 128  # elements from which on those of one transform are lanes
_BLOCK: Final = 16  # elements of a row that go to lanes, or come from them, at a time


def lower_dft(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A kernel, or two of which the second reads what the first leaves in columns."""
    if is_empty(node.output.tensor):
        return
    transform = _Transform(builder, group, node, node.inputs[0].shape[-3], 3, 1 if node.attrs["inverse"] else -1)
    inner = node.inputs[0].shape[-2]
    if transform.n > ROW:
        transform.in_two_steps()
    elif isinstance(inner, int) and inner == 1:
        if transform.n >= _LEAST_ROW:
            transform.rows()
        else:
            transform.rows_in_lanes()
    else:
        transform.columns()


def lower_dft_of_real(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel: the transform of pairs of neighbours, and what separates those of even and odd elements."""
    if is_empty(node.output.tensor):
        return
    n: Any = node.inputs[0].shape[-1]
    _Transform(builder, group, node, n // 2, 1, -1).of_real()


def lower_dft_to_real(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """The steps of ``lower_dft_of_real`` in the other order."""
    if is_empty(node.output.tensor):
        return
    n: Any = node.output.shape[-1]
    _Transform(builder, group, node, n // 2, 2, 1).to_real()


def _weighted(digits: Sequence[DimLike], weights: Sequence[int]) -> DimLike:
    """The number that has these digits."""
    total: DimLike = 0
    for digit, weight in zip(digits, weights, strict=True):
        total = total + digit * weight
    return total


class _SplitBuffer:
    """Numbers in a kernel's own memory, real and imaginary parts each in a buffer."""

    def __init__(self, recorder: KernelRecorder, dtype: DType, size: int) -> None:
        self.recorder = recorder
        self.parts: tuple[Local, Local] = recorder.local(dtype, size), recorder.local(dtype, size)

    def load(self, index: DimLike) -> Number:
        real, imag = self.parts
        return self.recorder.load_local(real, index), self.recorder.load_local(imag, index)

    def loads(self, indices: Sequence[DimLike]) -> list[Number]:
        """The numbers at some indices, those of each part one after another."""
        real, imag = ([self.recorder.load_local(part, index) for index in indices] for part in self.parts)
        return list(zip(real, imag, strict=True))

    def store(self, index: DimLike, x: Number) -> None:
        for part, value in zip(self.parts, x, strict=True):
            self.recorder.store_local(part, index, value)

    def stores(self, indices: Sequence[DimLike], numbers: Sequence[Number]) -> None:
        """As ``loads``."""
        for part, values in zip(self.parts, zip(*numbers, strict=True), strict=True):
            for index, value in zip(indices, values, strict=True):
                self.recorder.store_local(part, index, value)


class _Transform:
    """The transforms of one node, of n elements each, as kernels are written for them.

    The last ``axes`` axes of the operand are those of one transform, or of several beside each other.
    """

    def __init__(self, builder: ScheduleBuilder, group: Group, node: Node, n: Any, axes: int, sign: int) -> None:
        assert isinstance(n, int)
        self.builder, self.group, self.node, self.n = builder, group, node, n
        self.dtype = node.output.dtype
        self.sign = sign
        scale: Any = node.attrs["scale"]
        self.scale: float = scale
        self.x, self.y = node.inputs[0], node.output
        self.outer = self.x.shape[:-axes]
        self.radices = radices(n) or ()
        self._begin()

    def _begin(self) -> None:
        self.recorder = KernelRecorder()
        self.ops = ScalarOps(self.recorder, self.dtype)
        self.values = self.builder.evaluator(self.recorder, self.group)

    def _launch(self) -> None:
        self.builder.launch(self.recorder, self.node.op.name)
        self._begin()

    # --- the forms

    def rows(self) -> None:
        """Rows of [..., n, 1, 2], of which one is an iteration."""
        with self._iterations() as row:
            self._in_row(lambda j: self._load((*row, j, 0)), lambda k, x: self._store((*row, k, 0), x))
        self._launch()

    def rows_in_lanes(self) -> None:
        """Rows of [..., n, 1, 2], of which each lane has one."""
        with self.recorder.loops(self.builder.decisions.independent(self.outer), self.outer) as row:
            loads, stores = self._at(lambda j: (*row, j, 0))
            self._in_lanes(self.n, self.radices, loads, stores, reads_rows=True, writes_rows=True)
        self._launch()

    def columns(self) -> None:
        """Columns of [..., n, m, 2], m of which lie beside each other."""
        extents = (*self.outer, self.x.shape[-2])
        with self.recorder.loops(self.builder.decisions.independent(extents), extents) as (*row, column):
            self._in_lanes(self.n, self.radices, *self._at(lambda j: (*row, j, column)))
        self._launch()

    def _at(self, index: Callable[[DimLike], Index]) -> tuple[Loads, Stores]:
        """Loads of the numbers of one transform from the operand, and stores of them to the result."""

        def stores(numbers: Sequence[DimLike], x: Sequence[Number]) -> None:
            for number, value in zip(numbers, x, strict=True):
                self._store(index(number), value)

        return lambda numbers: [self._load(index(number)) for number in numbers], stores

    def in_two_steps(self) -> None:
        """Columns of a elements from memory into two temporaries [a, b], and rows of b from there, as columns of it."""
        split = halves(self.n)
        assert split is not None
        a, b = split
        inner = self.x.shape[-2]
        assert isinstance(inner, int) and inner == 1, "long transforms are of the last axis"
        shape = (*self.outer, a, b)
        temporaries = [self.builder.temporary(TensorType(self.dtype, shape)) for _ in range(2)]
        with self._lanes_of(b) as (row, block, lane, beside):
            column = block * beside + lane
            fine = self._table(np.arange(a)[:, None] * np.arange(beside), self.n)
            coarse = self._table(np.arange(a)[:, None] * (beside * np.arange(b // beside)), self.n)

            loads, _ = self._at(lambda j: (*row, j * b + column, 0))

            def to_temporaries(numbers: Sequence[DimLike], x: Sequence[Number]) -> None:
                for k, value in zip(numbers, x, strict=True):
                    turn = self._of(fine, k * beside + lane), self._of(coarse, k * (b // beside) + block)
                    turned = times(self.ops, value, times(self.ops, *turn))
                    for temporary, part in zip(temporaries, turned, strict=True):
                        self.recorder.store(temporary, offset((*row, k, column), shape), part)

            self._in_lanes(a, radices(a) or (), loads, to_temporaries)
        self._launch()
        with self._lanes_of(a) as (row, block, lane, beside):
            place = block * beside + lane

            def from_temporaries(numbers: Sequence[DimLike]) -> list[Number]:
                at = [offset((*row, place, j), shape) for j in numbers]
                real, imag = ([self.recorder.load(temporary, index) for index in at] for temporary in temporaries)
                return list(zip(real, imag, strict=True))

            _, stores = self._at(lambda k: (*row, k * a + place, 0))
            self._in_lanes(b, radices(b) or (), from_temporaries, stores, reads_rows=True)
        self._launch()

    @contextmanager
    def _lanes_of(self, extent: int) -> Iterator[tuple[Index, DimLike, DimLike, int]]:
        """Columns of each row: the row, a block of columns, a lane of it, and how many of those there are."""
        beside = neighbours(extent)
        kinds: list[LoopKind] = ["parallel"] * (len(self.outer) + 1)
        extents = (*self.outer, extent // beside, beside)
        with self.recorder.loops([*kinds, "vector"], extents) as (*row, block, lane):
            yield tuple(row), block, lane, beside

    @contextmanager
    def _iterations(self) -> Iterator[Index]:
        """One row in each; there is a loop where there is one row, to which the memory of a row belongs."""
        if dims.product(self.outer) == 1:
            with self.recorder.loop("parallel", 1, always=True):
                yield (0,) * len(self.outer)
            return
        with self.recorder.loops(["parallel"] * len(self.outer), self.outer) as row:
            yield row

    def of_real(self) -> None:
        """Rows of 2 n real numbers, as pairs; a transform leaves E[k] + i O[k], those of even and of odd elements."""
        n, s = self.n, self.ops
        half, turns = s.const(0.5), self._turns()
        with self._iterations() as row:
            spectrum = _SplitBuffer(self.recorder, self.dtype, n + 1)

            def pair(j: DimLike) -> Number:
                return self.values.at(self.x, (*row, 2 * j)), self.values.at(self.x, (*row, 2 * j + 1))

            self._in_row(pair, spectrum.store)
            spectrum.store(n, spectrum.load(0))

            def result(k: DimLike, turn: Number) -> Number:
                (a, b), (c, d) = spectrum.load(k), spectrum.load(n - k)
                even = s.mul(half, s.add(a, c)), s.mul(half, s.sub(b, d))
                odd = s.mul(half, s.add(b, d)), s.mul(half, s.sub(c, a))
                x, y = times(s, odd, turn)
                return s.add(even[0], x), s.add(even[1], y)

            with self.recorder.loop("vector", n) as k:
                self._store((*row, k), result(k, self._of(turns, k)))
            self._store((*row, n), result(n, (s.const(-1.0), s.const(-0.0))))
        self._launch()

    def to_real(self) -> None:
        """Rows of n + 1 numbers; imaginary parts of the ends do not count."""
        n, s = self.n, self.ops
        turns = self._turns()
        with self._iterations() as row:
            pairs = _SplitBuffer(self.recorder, self.dtype, n)

            def pair(x: Number, y: Number, turn: Number) -> Number:
                (a, b), (c, d) = x, y
                even, odd = (s.add(a, c), s.sub(b, d)), times(s, (s.sub(a, c), s.add(b, d)), turn)
                return s.sub(even[0], odd[1]), s.add(even[1], odd[0])

            zero = s.const(0.0)
            (a, _), (c, _) = self._load((*row, 0)), self._load((*row, n))
            with self.recorder.loop("vector", n) as k:
                pairs.store(k, pair(self._load((*row, k)), self._load((*row, n - k)), self._of(turns, k)))
            pairs.store(0, pair((a, zero), (c, zero), (s.const(1.0), zero)))

            def store(j: DimLike, x: Number) -> None:
                for which, part in enumerate(x):
                    self._store_part((*row, 2 * j + which), part)

            self._in_row(pairs.load, store)
        self._launch()

    def _turns(self) -> tuple[Storage, Storage]:
        """exp(sign 2 pi i k / 2 n) for k below n."""
        return self._table(np.arange(self.n), 2 * self.n)

    # --- the passes of one transform

    def _in_row(self, load: Load, store: StoreNumber) -> None:
        """The elements of one transform in lanes, passed on by two buffers in turn."""
        if len(self.radices) < 2:
            numbers = range(self.n)
            for k, x in enumerate(butterfly(self.ops, [load(j) for j in numbers], self.sign)):
                store(k, x)
            return
        first, *middle, last = self.radices
        m = self.n // first
        source, target = (_SplitBuffer(self.recorder, self.dtype, self.n) for _ in range(2))
        turns = self._table(np.arange(1, first)[:, None] * np.arange(m), self.n)
        with self.recorder.loop("vector", m) as p:
            results = butterfly(self.ops, [load(j * m + p) for j in range(first)], self.sign)
            turned = [times(self.ops, y, self._of(turns, k * m + p)) for k, y in enumerate(results[1:])]
            source.stores([p * first + k for k in range(first)], [results[0], *turned])
        done = first
        for radix in middle:
            length, m = m, m // radix
            turns = self._rows_of_turns(length, radix)
            with self.recorder.loop("serial", m) as p, self.recorder.loop("vector", done) as q:
                at = [(j * m + p) * done + q for j in range(radix)]
                results = butterfly(self.ops, source.loads(at), self.sign)
                target.stores([(p * radix + k) * done + q for k in range(radix)], self._turned(results, turns, p))
            source, target = target, source
            done *= radix
        with self.recorder.loop("vector", done) as q:
            results = butterfly(self.ops, source.loads([j * done + q for j in range(last)]), self.sign)
            for k, y in enumerate(results):
                store(k * done + q, y)

    def _in_lanes(
        self,
        n: int,
        split: Sequence[int],
        loads: Loads,
        stores: Stores,
        *,
        reads_rows: bool = False,
        writes_rows: bool = False,
    ) -> None:
        """A transform in each lane, in place.

        Where lanes read (or write) rows of their own, these are copied, some neighbours of each at a time.
        """
        if len(split) < 2:
            numbers: list[DimLike] = list(range(n))
            stores(numbers, butterfly(self.ops, loads(numbers), self.sign))
            return
        work = _SplitBuffer(self.recorder, self.dtype, n)
        if reads_rows:
            source = loads
            self._blocks_of(n, lambda numbers: work.stores(numbers, source(numbers)))
            loads = work.loads
        lengths, length = [], n
        for radix in split:
            length //= radix
            lengths.append(length)
        blocks = 1
        for radix, m in list(zip(split, lengths, strict=True))[:-1]:
            turns = self._rows_of_turns(m * radix, radix)
            with self.recorder.loops(["serial", "serial"], [blocks, m]) as (block, p):
                at = [block * (radix * m) + j * m + p for j in range(radix)]
                work.stores(at, self._turned(butterfly(self.ops, loads(at), self.sign), turns, p))
            loads = work.loads
            blocks *= radix
        *before, last = split
        with self.recorder.loops(["serial"] * len(before), before) as digits:
            base = _weighted(digits, lengths[:-1])
            at = [base + j for j in range(last)]
            x = butterfly(self.ops, work.loads(at), self.sign)
            if writes_rows:
                work.stores(at, x)
            else:
                first = _weighted(digits, [prod(before[:i]) for i in range(len(before))])
                stores([first + k * (n // last) for k in range(last)], x)
        if writes_rows:
            with self.recorder.loops(["serial"] * len(split[1:]), split[1:]) as digits:
                base = _weighted(digits, lengths[1:])
                first = _weighted(digits, [prod(split[: i + 1]) for i in range(len(digits))])
                numbers = [base + k * lengths[0] for k in range(split[0])]
                stores([first + k for k in range(split[0])], work.loads(numbers))

    def _blocks_of(self, n: int, copy: Callable[[Sequence[DimLike]], None]) -> None:
        """``copy`` of all numbers below n, some neighbours at a time."""
        whole = n // _BLOCK
        with self.recorder.loop("serial", whole) as block:
            if whole:
                copy([block * _BLOCK + j for j in range(_BLOCK)])
        if n % _BLOCK:
            copy([whole * _BLOCK + j for j in range(n % _BLOCK)])

    def _turned(self, x: Sequence[Number], turns: tuple[Storage, Storage], p: DimLike) -> list[Number]:
        """The results of a butterfly times their factors, of which a row is for place p."""
        count = len(x) - 1
        return [x[0], *(times(self.ops, y, self._of(turns, p * count + k)) for k, y in enumerate(x[1:]))]

    # --- numbers in memory

    def _load(self, index: Index) -> Number:
        return self.values.at(self.x, (*index, 0)), self.values.at(self.x, (*index, 1))

    def _store(self, index: Index, x: Number) -> None:
        for which, part in enumerate(x):
            self._store_part((*index, which), part)

    def _store_part(self, index: Index, part: Var) -> None:
        scaled = part if self.scale == 1 else self.ops.mul(part, self.ops.const(self.scale))
        for _, storage in self.group.outputs:
            self.recorder.store(storage, offset(index, self.y.shape), scaled)

    def _of(self, table: tuple[Storage, Storage], index: DimLike) -> Number:
        real, imag = table
        return self.recorder.load(real, index), self.recorder.load(imag, index)

    def _rows_of_turns(self, length: int, radix: int) -> tuple[Storage, Storage]:
        """Row p has exp(sign 2 pi i p k / length) for k from 1 below ``radix``."""
        return self._table(np.arange(length // radix)[:, None] * np.arange(1, radix), length)

    def _table(self, numerators: Any, n: int) -> tuple[Storage, Storage]:
        """exp(sign 2 pi i k / n) for ``numerators`` k, as buffers of real and of imaginary parts."""
        cos, sin = roots(np.asarray(numerators, np.int64).reshape(-1), n)
        return self._constant(cos), self._constant(self.sign * sin)

    def _constant(self, values: Any) -> Storage:
        return self.builder.constant_of(Constant(values.astype(self.dtype)))
