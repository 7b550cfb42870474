"""Panels of operands in shared memory: their layout without bank conflicts, and the copies that bring them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from jitgraph.codegen.cuda.indices import Indices, alignment
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Load, Operand, Var
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar, LlvmValue
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import (
    add,
    element_address,
    index_value,
    least,
    memory_type,
    multiply,
    subtract,
    to_memory,
)
from jitgraph.dtypes import DType, int32, int64
from jitgraph.ir.dims import DimLike, names
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Arithmetic of 32 bits: numbers of threads, and places in shared memory, which are never negative.

Fold = Callable[[int, int], int]


def word(value: int) -> LlvmScalar:
    """A literal."""
    return LlvmScalar(str(value), "i32", int32, 1)


class Int32Writer:
    """Writes arithmetic on int32; what literals alone say is folded."""

    def __init__(self, function: LlvmFunction) -> None:
        self._function = function

    def add(self, x: LlvmScalar, y: LlvmScalar | int) -> LlvmScalar:
        return self._made("add", x, y, lambda a, b: a + b, nothing=0)

    def times(self, x: LlvmScalar, y: int) -> LlvmScalar:
        return self._made("mul", x, y, lambda a, b: a * b, nothing=1)

    def divided(self, x: LlvmScalar, y: int) -> LlvmScalar:
        return self._made("udiv", x, y, lambda a, b: a // b, nothing=1)

    def rest(self, x: LlvmScalar, y: int) -> LlvmScalar:
        return self._made("urem", x, y, lambda a, b: a % b)

    def xor(self, x: LlvmScalar, y: LlvmScalar | int) -> LlvmScalar:
        return self._made("xor", x, y, lambda a, b: a ^ b, nothing=0)

    def bits(self, x: LlvmScalar, first: int, mask: int) -> LlvmScalar:
        """The bits of ``x`` from number ``first`` on that are in ``mask``."""
        shifted = self._made("lshr", x, first, lambda a, b: a >> b, nothing=0)
        return self._made("and", shifted, mask, lambda a, b: a & b)

    def chosen(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        value = self._function.emit("i32", f"select {condition}, {x}, {y}")
        return LlvmScalar(value.name, "i32", int32, 1)

    def low(self, x: LlvmScalar) -> LlvmScalar:
        """The low half of an int64."""
        if x.is_literal:
            return word(int(x.name))
        return LlvmScalar(self._function.emit("i32", f"trunc {x} to i32").name, "i32", int32, 1)

    def _made(
        self, name: str, x: LlvmScalar, y: LlvmScalar | int, fold: Fold, nothing: int | None = None
    ) -> LlvmScalar:
        y = word(y) if isinstance(y, int) else y
        if x.is_literal and y.is_literal:
            return word(fold(int(x.name), int(y.name)))
        if nothing is not None and y.name == str(nothing):
            return x
        if name == "add" and x.name == "0":
            return y
        return LlvmScalar(self._function.emit("i32", f"{name} {x}, {y.name}").name, "i32", int32, 1)


# ----------------------------------------------------------------------
# Where the elements of an operand's panel lie in shared memory, so that no two lanes access one bank at once.
#
# A panel has 64 bytes of k for each of its rows. Its elements lie in lines: those of a row along k, or those of a step
# of k along the rows. A line is cut into chunks of 16 bytes, whose number is combined with that of the line by an
# exclusive or, so that a chunk of eight neighbouring lines covers all banks.

CHUNK: Final = 16
DEPTH_BYTES: Final = 64
"""Of k, in a panel."""

_AT_ONCE: Final = 8
"""Lines that a matrix of ``ldmatrix`` has, or chunks that all banks have."""

_STEPS_AT_ONCE: Final = 4
"""Of k, where fragments are read by elements."""


@dataclass(frozen=True)
class PanelLayout:
    """The layout of ``side`` rows of elements of ``itemsize`` bytes: lines along k, or along the rows.

    ``matrices``: fragments are read as matrices of eight lines, else by elements, of four steps of k at once.
    """

    side: int
    itemsize: int
    along_k: bool
    matrices: bool

    @property
    def of_chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.itemsize

    @property
    def depth(self) -> int:
        """Steps of k."""
        return DEPTH_BYTES // self.itemsize

    @property
    def pitch(self) -> int:
        """Bytes of a line."""
        return DEPTH_BYTES if self.along_k else self.side * self.itemsize

    @property
    def chunks(self) -> int:
        """Chunks of a line."""
        return self.pitch // CHUNK

    @property
    def bytes(self) -> int:
        return self.side * DEPTH_BYTES

    def offset(
        self, words: Int32Writer, line: LlvmScalar, lines: int, chunk: LlvmScalar, chunks: int = 0
    ) -> tuple[LlvmScalar, int]:
        """The offset of chunk ``chunk + chunks`` of line ``line + lines``, as a register and what is added to it."""
        fixed = 0 if lines % (_AT_ONCE if self.matrices else _STEPS_AT_ONCE) else lines
        far = chunks - chunks % _AT_ONCE  # which no turn reaches
        line, chunk = words.add(line, lines - fixed), words.add(chunk, chunks - far)
        swizzled = words.xor(chunk, self._turn(words, line))
        start = words.add(words.times(line, self.pitch), words.times(swizzled, CHUNK))
        return start, fixed * self.pitch + far * CHUNK

    def _turn(self, words: Int32Writer, line: LlvmScalar) -> LlvmScalar:
        """What the numbers of a line's chunks are combined with; it is the same so many lines further on."""
        together = max(1, _AT_ONCE // self.chunks)  # lines that lie in all banks side by side
        first, phases = together.bit_length() - 1, min(self.chunks, _AT_ONCE)
        if self.matrices:
            return words.bits(line, first, phases - 1)
        if self.along_k:
            return words.bits(line, 0, 2)
        return words.times(words.bits(line, first, phases // 2 - 1), 2)  # eight rows are two chunks, or four


# ----------------------------------------------------------------------
# Panels of operands on their way into shared memory: copied asynchronously as they lie, or computed.
#
# Where an operand is a plain load of dense memory, pieces of 16, 8 or 4 bytes are copied past registers, and what lies
# outside of the operand becomes zero. Any other operand is computed into registers, whatever stands in its body, and
# stored from there; its loads are asked for a panel ahead.

_FAR: Final = 1 << 30
"""More lines, or elements of a line, than a panel has."""

_PIECES: Final = {16: "cg.shared.global.16.s", 8: "ca.shared.global.8.s", 4: "ca.shared.global.4.s"}
"""Bytes that one instruction copies, the most first; fewer than 16 go by the nearest cache."""

INTRINSICS: Final = (
    *(f"nvvm.cp.async.{name}" for name in _PIECES.values()),
    "nvvm.cp.async.commit.group",
    "nvvm.cp.async.wait.group",
)


@dataclass(frozen=True)
class Side:
    """One side of a tile: an operand's value, of which ``dtype`` is multiplied, from ``first`` on along its axis."""

    operand: Operand
    value: Var
    dtype: DType
    axis: str
    k: str
    first: LlvmScalar
    extent: LlvmScalar
    depth: LlvmScalar

    def is_whole(self, layout: PanelLayout) -> bool:
        """Whether every row of every tile is one of the operand's."""
        known = constant_of(self.extent)
        return known is not None and known % layout.side == 0

    def ends_whole(self, layout: PanelLayout) -> bool:
        """Whether the last panel is as deep as the others, and there is one."""
        known = constant_of(self.depth)
        return known is not None and known > 0 and known % layout.depth == 0


def plain_load(operand: Operand, value: Var) -> Load | None:
    """The load that an operand is, without a mask and by an index that no loaded value has a part in."""
    load, *rest = operand.body or (None,)
    if not isinstance(load, Load) or load.mask is not None or load.var != value or len(rest) > (value != operand.value):
        return None
    return None if any(name.startswith("_v") for name in names(load.index)) else load


def runs_along(operand: Operand, k: str, axis: str) -> bool:
    """Whether most loads of an operand lie closer together along k than along the other axis."""
    loads = [s for s in operand.body if isinstance(s, Load)]
    return sum(coefficient(s.index, k) == 1 for s in loads) > sum(coefficient(s.index, axis) == 1 for s in loads)


def piece_bytes(operand: Operand, value: Var, axis: str, k: str, layout: PanelLayout) -> int | None:
    """The bytes that can be copied at once; None where the operand has to be computed.

    Across the lines of a panel elements are copied one by one.
    """
    load = plain_load(operand, value)
    steps = {name: coefficient(load.index, name) for name in (axis, k)} if load is not None else {}
    if load is None or None in steps.values() or load.var.dtype.itemsize != layout.itemsize:
        return None
    inner, outer = (k, axis) if layout.along_k else (axis, k)
    if steps[inner] == 1:
        for piece in _PIECES:
            elements = piece // layout.itemsize
            if elements and alignment(load.index, inner, elements) % elements == 0:
                return piece
    return layout.itemsize if steps[outer] == 1 and layout.itemsize in _PIECES else None


class CopiedPanels:
    """Panels of a plain load, of which each thread copies its pieces: along the lines of the panel, or across them."""

    def __init__(
        self, env: Environment, side: Side, layout: PanelLayout, piece: int, thread: LlvmScalar, threads: int
    ) -> None:
        load = plain_load(side.operand, side.value)
        assert load is not None
        self.env, self.side, self.layout, self.piece = env, side, layout, piece
        self.words = words = Int32Writer(env.function)
        self.elements = piece // layout.itemsize
        pieces = layout.bytes // piece
        self.within = env.ops.cmp("lt", thread, word(pieces)) if pieces % threads else None
        inner_axis = side.k if layout.along_k else side.axis
        self.across = across = coefficient(load.index, inner_axis) != 1
        of_line, lines = layout.pitch // piece, layout.bytes // layout.pitch
        if across:
            line, position = words.rest(thread, lines), words.divided(thread, lines)
        else:
            line, position = words.divided(thread, of_line), words.rest(thread, of_line)
        # What each of a thread's pieces is further on than the one before: lines, or elements of a line.
        self.apart = spacing = threads // (lines if across else of_line)
        of_chunk = CHUNK // piece
        chunk, inside = words.divided(position, of_chunk), words.times(words.rest(position, of_chunk), piece)
        outer, inner = wide(env, line), wide(env, words.times(position, self.elements))
        row, k = (outer, inner) if layout.along_k else (inner, outer)
        here = env.at({side.axis: add(env, side.first, row), side.k: k})
        index = Indices(env.kernel).element(here, load.index, {})
        self.source = element_address(env, env["&" + load.buffer], index)
        self.step = self._bytes_of(coefficient(load.index, side.k))
        further = side.axis if across != layout.along_k else side.k
        self.stride = multiply(env, self._bytes_of(coefficient(load.index, further)), integer(spacing))
        # What is left of the operand behind a thread's first piece; the others lie ``further`` on.
        self.rows_left = subtract(env, side.extent, here[side.axis])
        self.steps_left = subtract(env, side.depth, k)
        self.targets = []
        for number in range(-(-pieces // threads)):
            more = number * spacing
            if across and more % of_chunk:
                at = words.add(position, more)
                chunk, inside = words.divided(at, of_chunk), words.times(words.rest(at, of_chunk), piece)
                start, offset = layout.offset(words, line, 0, chunk)
            elif across:
                start, offset = layout.offset(words, line, 0, chunk, more // of_chunk)
            else:
                start, offset = layout.offset(words, line, more, chunk)
            self.targets.append((words.add(start, inside), offset))

    def _bytes_of(self, step: DimLike | None) -> LlvmScalar:
        assert step is not None
        return multiply(self.env, index_value(self.env, step), integer(self.layout.itemsize))

    def start(self, memory: str, stage: LlvmScalar, k: LlvmScalar) -> None:
        """Ask for the panel at step ``k``, into the memory that begins ``stage`` bytes behind ``memory``."""
        env, function = self.env, self.env.function
        along = multiply(env, k, self.step)
        with loops.only_if(env, self.within):
            first = function.emit("ptr", f"getelementptr i8, ptr {self.source}, {along}")
            for number, ((register, more), count) in enumerate(zip(self.targets, self._counts(k), strict=True)):
                at = self.words.add(self.words.add(register, stage), more)
                target = function.emit("ptr addrspace(3)", f"getelementptr i8, ptr addrspace(3) {memory}, {at}")
                offset = multiply(env, self.stride, integer(number))
                source = function.emit("ptr", f"getelementptr i8, {first}, {offset}")
                source = function.emit("ptr addrspace(1)", f"addrspacecast {source} to ptr addrspace(1)")
                _do(env, _PIECES[self.piece], str(target), str(source), f"i32 {count.name}")

    def _left(self, k: LlvmScalar) -> tuple[LlvmScalar | None, LlvmScalar | None]:
        """The lines, and elements of a line, that are left at a thread's first piece; None where no piece lacks any.

        One of them is 0 where the other is, so that only one depends on how far a piece lies from the first.
        """
        env, side, layout, s = self.env, self.side, self.layout, self.env.ops
        row = None if side.is_whole(layout) else self.rows_left
        step = subtract(env, side.depth if side.ends_whole(layout) else self.steps_left, k)
        line, inner = (row, step) if layout.along_k else (step, row)
        if line is not None and inner is not None:
            if self.across:
                inner = s.select(s.cmp("gt", line, integer(0)), inner, integer(0))
            else:
                line = s.select(s.cmp("gt", inner, integer(0)), line, integer(0))
        return line, inner

    def _counts(self, k: LlvmScalar) -> Iterator[LlvmScalar]:
        """How many bytes of each piece are the operand's; those after them become zero."""
        s = self.env.ops
        line, inner = self._left(k)
        both = [None if left is None else self._short(left) for left in (line, inner)]
        known = constant_of(self.side.depth if self.layout.along_k else self.side.extent)
        full = word(self.piece)
        if both[1] is not None and not self.across:
            if known is not None and known % self.elements == 0:
                full = self.words.chosen(s.cmp("gt", both[1], word(0)), full, word(0))
            else:
                some = s.max(s.min(both[1], word(self.elements)), word(0))
                full = self.words.times(some, self.layout.itemsize)
        left = both[1] if self.across and both[1] is not None else both[0]
        # Pieces across lines lie in one of them; and where panels are whole, they have all of their steps or none.
        steps = both[int(self.layout.along_k)]
        same = (self.across and left is both[0]) or (self.side.ends_whole(self.layout) and left is steps)
        for number in range(len(self.targets)):
            more = 0 if same else number * self.apart
            yield full if left is None else self.words.chosen(s.cmp("gt", left, word(more)), full, word(0))

    def _short(self, left: LlvmScalar) -> LlvmScalar:
        """What is left, or more than a panel has, in 32 bits."""
        return self.words.low(least(self.env, left, integer(_FAR)))


class ComputedPanels:
    """Panels of any operand, of which each thread computes its chunks."""

    def __init__(self, env: Environment, side: Side, layout: PanelLayout, thread: LlvmScalar, threads: int) -> None:
        self.env, self.side, self.layout = env, side, layout
        self.words = words = Int32Writer(env.function)
        chunks = layout.bytes // CHUNK
        self.within = env.ops.cmp("lt", thread, word(chunks)) if chunks % threads else None
        lines = chunks // layout.chunks
        # Neighbouring threads have neighbouring chunks of memory, also where lines do not lie as memory does.
        down = layout.along_k != runs_along(side.operand, side.k, side.axis)
        self.places = []
        for number in range(-(-chunks // threads)):
            position = words.add(thread, number * threads)
            if self.within is not None:
                position = words.rest(position, chunks)
            line, chunk = words.divided(position, layout.chunks), words.rest(position, layout.chunks)
            if down:
                line, chunk = words.rest(position, lines), words.divided(position, lines)
            self.places.append((line, chunk))

    def fetched(self, k: LlvmScalar) -> list[LlvmScalar]:
        """A thread's chunks of the panel at step ``k``, as vectors; there is at least one step.

        Behind the last panel there is another one that nobody reads.
        """
        self.cut = not self.side.ends_whole(self.layout)
        if not self.cut:
            k = least(self.env, k, subtract(self.env, self.side.depth, integer(self.layout.depth)))
        return [self._chunk(line, chunk, k) for line, chunk in self.places]

    def put(self, memory: str, stage: LlvmScalar, chunks: list[LlvmScalar]) -> None:
        """Store chunks into the memory that begins ``stage`` bytes behind ``memory``."""
        env, words = self.env, self.words
        with loops.only_if(env, self.within):
            for (line, chunk), vector in zip(self.places, chunks, strict=True):
                start, _ = self.layout.offset(words, line, 0, chunk)
                at = words.add(start, stage)
                address = env.function.emit("ptr addrspace(3)", f"getelementptr i8, ptr addrspace(3) {memory}, {at}")
                env.function.do(f"store {vector}, {address}, align {CHUNK}")

    def _chunk(self, line: LlvmScalar, chunk: LlvmScalar, k: LlvmScalar) -> LlvmScalar:
        env, layout, function = self.env, self.layout, self.env.function
        dtype = self.side.dtype
        type = f"<{layout.of_chunk} x {memory_type(dtype)}>"
        vector = LlvmValue("zeroinitializer", type)
        first = self.words.times(chunk, layout.of_chunk)
        for index in range(layout.of_chunk):
            element = wide(env, self.words.add(first, index))
            row, step = (wide(env, line), element) if layout.along_k else (element, wide(env, line))
            value = to_memory(env, self._element(row, add(env, k, step)), dtype)
            vector = function.emit(type, f"insertelement {vector}, {value}, i32 {index}")
        return LlvmScalar(vector.name, type, dtype, layout.of_chunk)

    def _element(self, row: LlvmScalar, k: LlvmScalar) -> LlvmScalar:
        """An element; zero behind the last step, and anything in rows that the tile does not have."""
        env, side, s = self.env, self.side, self.env.ops
        row, step = add(env, side.first, row), k
        if not side.is_whole(self.layout):
            row = least(env, row, subtract(env, side.extent, integer(1)))
        if self.cut:
            step = least(env, k, subtract(env, side.depth, integer(1)))
        here = env.at({side.axis: row, side.k: step})
        here.emit(side.operand.body)
        value = s.cast(here[side.value.name], side.dtype)
        return s.select(s.cmp("lt", k, side.depth), value, s.const(0, value.dtype)) if self.cut else value


def commit(env: Environment) -> None:
    """What this thread has asked for since the last time is a group."""
    _do(env, "commit.group")


def wait(env: Environment, spared: int) -> None:
    """All groups of this thread but the last ``spared`` have come."""
    _do(env, "wait.group", f"i32 {spared}")


def _do(env: Environment, name: str, *arguments: str) -> None:
    types = ", ".join(argument.rpartition(" ")[0] for argument in arguments)
    env.function.module.declare(f"declare void @llvm.nvvm.cp.async.{name}({types})")
    env.function.do(f"call void @llvm.nvvm.cp.async.{name}({', '.join(arguments)})")


def wide(env: Environment, x: LlvmScalar) -> LlvmScalar:
    """A natural number of 32 bits as an int64."""
    if x.is_literal:
        return integer(int(x.name))
    return env.ops.make(f"zext {x} to i64", int64, 1)
