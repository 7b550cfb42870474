"""Neighbours in every lane: loads and stores that go together as whole vectors, and are (de)interleaved in registers.

Lanes that each read two neighbours, as the parts of complex numbers, or sixteen elements of a row of their own, would
gather each of them. Here their memory is read in runs, and the elements are brought to their lanes by shuffles: the
array [lane, neighbour] becomes [neighbour, lane], one bit of the position after another (a perfect shuffle each).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import (
    Body,
    CheckStatement,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    bodies_of,
    statements_of,
)
from jitgraph.codegen.llvm.builder import LlvmScalar, lanes_of
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import (
    add,
    element_address,
    from_memory,
    index_value,
    load_run,
    multiply,
    reversed_lanes,
    split,
    store_run,
    to_memory,
)
from jitgraph.dtypes import DType, bool_
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

MOST: Final = 16
"""Neighbours that go together: with the lanes they are a square of registers."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Loads or stores of one body, in order of their addresses: element i of each lane lies i behind the first."""

    accesses: tuple[Load | Store, ...]
    last: Load | Store  # in the order of the body

    @property
    def index(self) -> DimLike:
        return self.accesses[0].index


def neighbours_of(kernel: Kernel) -> Mapping[int, Neighbours]:
    """The accesses in vector loops that go together, each by its identity."""
    groups: dict[int, Neighbours] = {}

    def walk(body: Body, axis: str | None) -> None:
        if axis is not None and not any(isinstance(statement, CheckStatement) for statement in body):
            for group in _groups(body, axis):
                groups.update((id(access), group) for access in group.accesses)
        for statement in body:
            inner = statement.axis if isinstance(statement, Loop) and statement.kind == "vector" else axis
            for each in bodies_of(statement):
                walk(each, inner)

    walk(kernel.body, None)
    return groups


def _groups(body: Body, axis: str) -> list[Neighbours]:
    """Loads of what the body does not store, which may come sooner; stores of what it does not load, which may wait."""
    loaded, stored = _buffers(body, Load), _buffers(body, Store)
    runs: dict[tuple[type, str, DimLike], dict[int, Load | Store]] = {}
    for statement in body:
        if not isinstance(statement, Load | Store) or statement.mask is not None:
            continue
        if isinstance(statement, Store) and statement.update is not None:
            continue
        if statement.buffer in (stored if isinstance(statement, Load) else loaded):
            continue
        base, place = _constant_apart(statement.index)
        if coefficient(base, axis) in (None, 0, 1, -1):
            continue
        runs.setdefault((type(statement), statement.buffer, base), {}).setdefault(place, statement)
    order = {id(statement): number for number, statement in enumerate(body)}
    groups = []
    for places in runs.values():
        for run in _consecutive(places):
            pieces = _pieces(run)
            groups += [Neighbours(piece, max(piece, key=lambda access: order[id(access)])) for piece in pieces]
    return groups


def _buffers(body: Body, kind: type[Load] | type[Store]) -> set[str]:
    return {statement.buffer for statement in statements_of(body) if isinstance(statement, kind)}


def _constant_apart(index: DimLike) -> tuple[DimLike, int]:
    if isinstance(index, int):
        return 0, index
    constant = index.terms.get((), 0)
    return index - constant, constant


def _consecutive(places: Mapping[int, Load | Store]) -> list[list[Load | Store]]:
    runs: list[list[Load | Store]] = []
    before: int | None = None
    for place in sorted(places):
        if before is None or place != before + 1:
            runs.append([])
        runs[-1].append(places[place])
        before = place
    return runs


def _pieces(run: Sequence[Load | Store]) -> list[tuple[Load | Store, ...]]:
    """Pieces whose lengths are powers of two, of at least two elements; one that is left over goes by itself."""
    pieces, start = [], 0
    while len(run) - start >= 2:
        size = min(MOST, 1 << ((len(run) - start).bit_length() - 1))
        pieces.append(tuple(run[start : start + size]))
        start += size
    return pieces


def emit_neighbours(
    group: Neighbours, access: Statement, env: Environment, alone: Callable[[Statement, Environment], None]
) -> None:
    """Emit an access of a group: its loads all at once with the first, its stores with the last one."""
    buffer = env["&" + group.accesses[0].buffer]
    if env.lanes is None or env.lanes.width == 1 or buffer.lanes > 1:
        alone(access, env)
        return
    parts = split(env, group.index)
    if parts is None:
        alone(access, env)
    elif isinstance(access, Store):
        if access is group.last:
            _store(group, buffer, parts, env)
    elif isinstance(access, Load) and access.var.name not in env.names:
        _load(group, buffer, parts, env)


# ----------------------------------------------------------------------
# Runs of memory. Without gaps between lanes all of it is one run, else each lane has its own.


def _load(group: Neighbours, buffer: LlvmScalar, parts: tuple[DimLike, DimLike], env: Environment) -> None:
    count = len(group.accesses)
    memory = _Memory(env, buffer, parts, count)
    vectors = _turned(env, memory.load(), -(count.bit_length() - 1))
    for access, vector in zip(group.accesses, vectors, strict=True):
        assert isinstance(access, Load)
        value = reversed_lanes(env, vector) if memory.falls else vector
        env.bind(access.var.name, from_memory(env, value, buffer.dtype))


def _store(group: Neighbours, buffer: LlvmScalar, parts: tuple[DimLike, DimLike], env: Environment) -> None:
    assert env.lanes is not None
    count = len(group.accesses)
    memory = _Memory(env, buffer, parts, count)
    vectors = []
    for access in group.accesses:
        assert isinstance(access, Store)
        value = env.ops.splat(to_memory(env, env[access.value.name], buffer.dtype), env.lanes.width)
        vectors.append(reversed_lanes(env, value) if memory.falls else value)
    memory.store(_turned(env, vectors, count.bit_length() - 1))


class _Memory:
    """The memory [lane, neighbour] of a group, as vectors of as many elements as there are lanes."""

    def __init__(self, env: Environment, buffer: LlvmScalar, parts: tuple[DimLike, DimLike], count: int) -> None:
        assert env.lanes is not None
        self.env, self.buffer, self.count = env, buffer, count
        self.width, self.mask = env.lanes.width, env.lanes.mask
        step, rest = parts
        self.falls = step == -count
        self.is_dense = step in (count, -count)
        self.first = add(env, index_value(env, rest), multiply(env, index_value(env, step), env.lanes.base))
        self.step = index_value(env, step)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def load(self) -> list[LlvmScalar]:
        if self.is_dense:
            return [load_run(self.env, address, self.dtype, self.width, mask) for address, mask in self._dense()]
        pieces = max(1, self.count // self.width)
        rows = []
        for lane in range(self.width):
            for piece in range(pieces):
                address = self._address(lane, piece * self.width)
                short = self.count // pieces
                rows.append(load_run(self.env, address, self.dtype, short, self._lane_mask(lane, short)))
        while len(rows) > self.count:
            rows = [_joined(self.env, rows[i], rows[i + 1]) for i in range(0, len(rows), 2)]
        return rows

    def store(self, vectors: Sequence[LlvmScalar]) -> None:
        if self.is_dense:
            for vector, (address, mask) in zip(vectors, self._dense(), strict=True):
                store_run(self.env, vector, address, self.dtype, mask)
            return
        short = min(self.count, self.width)
        rows = [_cut(self.env, vector, i, short) for vector in vectors for i in range(0, self.width, short)]
        pieces = max(1, self.count // self.width)
        for number, row in enumerate(rows):
            lane, piece = divmod(number, pieces)
            address = self._address(lane, piece * self.width)
            store_run(self.env, row, address, self.dtype, self._lane_mask(lane, short))

    def _dense(self) -> list[tuple[str, LlvmScalar | None]]:
        """The addresses of the vectors of a single run, and which of their elements there are."""
        env = self.env
        first = self.first
        if self.falls:
            first = add(env, first, integer(-self.count * (self.width - 1)))
        runs = []
        for number in range(self.count):
            mask = None
            if self.mask is not None:
                lanes = [(number * self.width + i) // self.count for i in range(self.width)]
                if self.falls:
                    lanes = [self.width - 1 - lane for lane in lanes]
                mask = _shuffled(env, self.mask, self.mask, lanes)
            runs.append((element_address(env, self.buffer, add(env, first, integer(number * self.width))), mask))
        return runs

    def _address(self, lane: int, place: int) -> str:
        env = self.env
        index = add(env, self.first, multiply(env, self.step, integer(lane)))
        return element_address(env, self.buffer, add(env, index, integer(place)))

    def _lane_mask(self, lane: int, count: int) -> LlvmScalar | None:
        """Whether a lane is in range, for each of its elements."""
        if self.mask is None:
            return None
        return _shuffled(self.env, self.mask, self.mask, [lane] * count)


# ----------------------------------------------------------------------
# Shuffles.


def _turned(env: Environment, vectors: Sequence[LlvmScalar], by: int) -> list[LlvmScalar]:
    """The elements of vectors, numbered in one row, at the places whose bits are the number's, turned left ``by``."""
    width = vectors[0].lanes
    bits = (width * len(vectors)).bit_length() - 1
    by %= bits
    result = list(vectors)
    half = len(vectors) // 2
    even, odd = list(range(0, 2 * width, 2)), list(range(1, 2 * width, 2))
    low = [i // 2 + i % 2 * width for i in range(width)]
    high = [place + width // 2 for place in low]
    if by <= bits - by:
        for _ in range(by):
            pairs = [(result[i], result[i + half]) for i in range(half)]
            result = [_shuffled(env, *pair, order) for pair in pairs for order in (low, high)]
    else:
        for _ in range(bits - by):
            pairs = [(result[2 * i], result[2 * i + 1]) for i in range(half)]
            result = [_shuffled(env, *pair, order) for order in (even, odd) for pair in pairs]
    return result


def _shuffled(env: Environment, x: LlvmScalar, y: LlvmScalar, order: Sequence[int]) -> LlvmScalar:
    """The elements of x and then y at the places ``order``."""
    places = ", ".join(f"i32 {place}" for place in order)
    element = x.type[x.type.index(" x ") + 3 : -1]
    type = lanes_of(element, len(order))
    dtype = bool_ if element == "i1" else x.dtype
    return env.ops.make(f"shufflevector {x}, {y}, <{len(order)} x i32> <{places}>", dtype, len(order), type)


def _joined(env: Environment, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    return _shuffled(env, x, y, range(2 * x.lanes))


def _cut(env: Environment, x: LlvmScalar, start: int, count: int) -> LlvmScalar:
    return x if count == x.lanes else _shuffled(env, x, x, range(start, start + count))
