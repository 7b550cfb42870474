"""Kernel IR: loop nests over buffers, as plain data, and the walks over it. It has text, a verifier and a slow
executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Kernel IR: loop nests over buffers, as plain data. It has text and a verifier, and targets emit it.
#
# All names in a kernel live in one namespace of index expressions (``ir.dims``): sizes of the graph by their own names,
# loop axes as ``_i0, _i1, ...`` and integer scalars as ``_v0, _v1, ...``; user sizes never begin with an underscore,
# and what the entry computes of them is named ``_n0, _n1, ...``. So an index is a ``DimLike`` over axes, sizes and, for
# indirect access, int64 scalars; a buffer is flat and an index counts elements.

SIZE_NUMBER: Final = "_n"
"""How the names begin of numbers that the entry computes of the sizes (``SizeNumber``)."""


@dataclass(frozen=True, slots=True)
class Var:
    """An SSA scalar, defined once: ``_v`` and a number, and its dtype."""

    name: str
    dtype: DType

    def __hash__(self) -> int:
        return hash(self.name)  # a dtype takes ten times as long, and tells no more


@dataclass(frozen=True, slots=True)
class Let:
    """``var = op(args)`` of a scalar op (``ir.scalar``).

    ``param`` is the op's non-scalar part: the value of ``const``, the relation of ``cmp``, the name of ``call``;
    ``cast`` and ``bitcast`` take their dtype from ``var``.
    """

    var: Var
    op: str
    args: tuple[Var, ...] = ()
    param: float | int | bool | str | None = None


@dataclass(frozen=True, slots=True)
class IndexValue:
    """``var = index``: an index expression as an int64 scalar."""

    var: Var
    index: DimLike


@dataclass(frozen=True, slots=True)
class Load:
    """``var = buffer[index]``; where ``mask`` (bool) is false nothing is read and the value is zero."""

    var: Var
    buffer: str
    index: DimLike
    mask: Var | None = None


Update: TypeAlias = Literal["add", "max", "min"]
"""A scalar op that an element of memory and a value go through in one step."""


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value``; nothing is written where ``mask`` is false.

    With ``update`` the element becomes ``update(element, value)`` in one step, and iterations that may run at once may
    store to one element: integers of 32 or 64 bits give the same in any order, and for a float32 or float64 ``add`` any
    order will do. Nothing else of the nest touches the buffer, which is read and written.
    """

    buffer: str
    index: DimLike
    value: Var
    mask: Var | None = None
    update: Update | None = None


@dataclass(frozen=True, slots=True)
class CheckStatement:
    """Stop the kernel with error ``check`` (an index into the schedule's table) where ``ok`` is false in any lane.

    ``value`` and ``bound`` (int64) go into the error record. Nothing after a failed check in the same lane may touch
    memory: what follows it in a body is not executed.
    """

    ok: Var
    check: int
    value: Var | None = None
    bound: Var | None = None


@dataclass(frozen=True, slots=True)
class Carry:
    """A value carried through a loop: ``var`` inside, starting as ``init``; the body gives ``next``; ``result`` after.

    In a reduce loop ``init`` is the identity and ``next`` is the element that one step contributes; ``result`` is what
    all of them make together, or the value of a slot where the loop has ``Slots``.
    """

    var: Var
    init: Var
    next: Var
    result: Var


@dataclass(frozen=True, slots=True)
class Combine:
    """How two accumulators of a reduce loop become one: ``results`` of ``body`` over ``left`` and ``right``."""

    left: tuple[Var, ...]
    right: tuple[Var, ...]
    body: tuple[Let, ...]
    results: tuple[Var, ...]


LoopKind: TypeAlias = Literal["parallel", "vector", "serial", "reduce"]


@dataclass(frozen=True, slots=True)
class Slots:
    """What becomes of the slots of a reduce loop that are not folded: ``body`` runs once for each, as lanes.

    ``axis`` is the number of the slot, below ``lanes``, and the results of the loop's carries are the slot's values;
    they are known in ``body`` alone, which stores them.
    """

    axis: str
    body: Body


@dataclass(frozen=True, slots=True)
class Loop:
    """``for axis in begin .. extent``, and at most ``span`` steps where that is given.

    parallel: iterations may run at once, on several threads; only as the outermost loops, and whole. vector: iterations
    are independent and become lanes; inside it stand only serial and reduce loops with ``lanes == 1`` and extents that
    do not depend on its axis. serial: in order, with loop-carried values. ``lanes`` of a vector loop is the target's.

    reduce: ``combine`` folds what the steps contribute (in the carries the body cannot see what there is so far). Where
    ``chain`` is 0 the combine gives the same in any order, and so the order is free. Else the order is part of the
    meaning, whatever the width of the machine and the number of threads. Steps are counted from ``begin``:

    - step k goes to chunk ``k // (lanes * chain)``, and there to slot ``k % lanes``, which begins as ``init``:
      ``slot = combine(slot, element)`` in order of k;
    - the chunks, a vector of slots each, merge slot by slot as a tree: T(c chunks) is ``combine(T(h), T(c - h))`` for
      the greatest power of two h below c; T of one chunk is the chunk;
    - the slots fold in halves: ``slot[j] = combine(slot[j], slot[j + half])`` for half = lanes/2, lanes/4, ..., 1. With
      ``slots`` they are not folded but handed to it.

    ``lanes`` and ``chain`` are powers of two, and so is an aligned run of 2^q chunks a node of the tree: a loop over
    each run, without folding, and a loop with a ``chain`` of 1 over what these gave, are the loop over all.
    """

    axis: str
    extent: DimLike
    kind: LoopKind
    body: Body
    carries: tuple[Carry, ...] = ()
    combine: Combine | None = None
    lanes: int = 1
    chain: int = 0
    begin: DimLike = 0
    span: int | None = None
    slots: Slots | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the axis runs over all of ``0 .. extent``."""
        return self.begin == 0 and self.span is None


@dataclass(frozen=True, slots=True)
class Operand:
    """One factor of a contraction: statements that compute ``value`` at given axes."""

    body: Body
    value: Var


@dataclass(frozen=True, slots=True)
class Contract:
    """``acc[m, n] = sum over k of left[m, k] * right[k, n]`` with an epilogue while ``acc`` is in registers.

    ``left`` is computed from axes m and k (and those of loops around), ``right`` from k and n, with no stores. ``acc``
    has the accumulator's dtype (float32 for 16-bit floats); ``epilogue`` runs once for every (m, n), reads ``acc`` and
    stores. The order of summation is part of the meaning: blocks of ``block_k`` steps; within a block
    ``p = fma(left, right, p)`` from p = 0 in order of k (multiply and add for integers), and the blocks' sums merge as
    a tree T, the earlier blocks on the left: T(c blocks) = T(the first 2**q) + T(the others), where 2**q is the largest
    power of two below c; T of one block is its sum. An empty k gives 0.

    Steps run from ``begin``, a multiple of ``block_k``, to the extent, and are at most ``span`` where that is given: a
    power of two of blocks. So an aligned run of blocks, which is a node of the tree, is a contraction of its own.
    """

    m: str
    n: str
    k: str
    extents: tuple[DimLike, DimLike, DimLike]
    left: Operand
    right: Operand
    acc: Var
    epilogue: Body
    block_k: int
    begin: DimLike = 0
    span: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether k runs over all of ``0 .. extent``."""
        return self.begin == 0 and self.span is None


@dataclass(frozen=True, slots=True)
class Factor:
    """Rows of numbers: ``operand`` is computed from an axis of ``Attend`` and ``axis``, a column below ``extent``."""

    axis: str
    extent: int
    operand: Operand


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """``acc[m, c] = sum over n of weight[m, n] * columns[factor][n, c]``; ``epilogue`` runs once for every (m, c)."""

    weight: Var
    factor: int
    acc: Var
    epilogue: Body


@dataclass(frozen=True, slots=True)
class Attend:
    """Sums over n whose weights follow from products at (m, n), none of which is ever in memory as a whole.

    ``products[i]`` is the sum over their columns of ``rows[i][m] * columns[i][n]``, in float32, and there may be more
    columns than rows. ``score`` is computed from products, m and n; ``weight`` is its exponential, and 0 where n is not
    in the ``window`` of m: from the first bound to before the second, which m does not lower, and n itself. Then come
    ``derived``, other weights. With ``softmax``, a pair (top, total), ``weight`` is exp(score - top), where top[m] is
    the greatest score (0 where all are -inf) and total[m] the sum of the row's weights; ``row`` runs once for every m
    and knows both, and so do epilogues. All sums may go in any order, and weights are rounded to their columns' dtype.
    """

    m: str
    n: str
    extents: tuple[DimLike, DimLike]
    window: tuple[DimLike, DimLike]
    rows: tuple[Factor, ...]
    columns: tuple[Factor, ...]
    products: tuple[Var, ...]
    score: Operand
    weight: Var
    derived: Body
    softmax: tuple[Var, Var] | None
    row: Body
    sums: tuple[WeightedSum, ...]

    @property
    def results(self) -> tuple[Var, ...]:
        """The variables that it defines itself."""
        return (*self.products, self.weight, *(self.softmax or ()), *(one.acc for one in self.sums))


@dataclass(frozen=True, slots=True)
class Local:
    """A buffer of ``size`` elements, visible to the statements after it in its body and inner bodies.

    Where it stands says whose it is. Inside a vector loop each lane has its own. Elsewhere in the body of a parallel
    loop it belongs to the iteration (a chunk's stack or scratch memory; the shared memory of a block). A vector loop
    that stores to it is over before the next statement begins: what one lane stored another may load in a later
    statement, and no barrier is written. Inside the loop that stores, a lane loads only the elements that it stores.
    Outside of parallel loops it belongs to the kernel, and no parallel loop sees it: iterations that may run at once
    exchange values by params alone.
    """

    buffer: str
    dtype: DType
    size: int


Statement: TypeAlias = Let | IndexValue | Load | Store | CheckStatement | Loop | Contract | Attend | Local
Body: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Param:
    """A buffer that a kernel is given: ``size`` elements of ``dtype``."""

    name: str
    dtype: DType
    size: DimLike
    access: Literal["read", "write", "readwrite"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A named sequence of loop nests over ``params``. ``sizes`` are the names of graph sizes that it mentions.

    Parameters may be the same memory only where ``aliases`` pairs them (a written one with a read one): then every
    iteration reads an element before it writes it, and no other iteration reads it.
    """

    name: str
    params: tuple[Param, ...]
    body: Body
    sizes: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    fastmath: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.params, self.sizes, len(self.body)))  # of few statements, as a body may be long


# ----------------------------------------------------------------------
# Walking and rewriting kernels: what a statement mentions and what stands inside it.


def dims_of(statement: Statement) -> tuple[DimLike, ...]:
    """The index expressions and extents that stand in a statement itself."""
    match statement:
        case IndexValue(index=index) | Load(index=index) | Store(index=index):
            return (index,)
        case Loop(extent=extent, begin=begin):
            return (extent, begin)
        case Contract(extents=extents, begin=begin):
            return (*extents, begin)
        case Attend(extents=extents, window=window):
            return (*extents, *window)
    return ()


def bodies_of(statement: Statement) -> tuple[Body, ...]:
    """The bodies inside a statement."""
    match statement:
        case Loop(body=body, slots=slots):
            return (body,) if slots is None else (body, slots.body)
        case Contract(left=left, right=right, epilogue=epilogue):
            return left.body, right.body, epilogue
        case Attend():
            factors = (factor.operand.body for factor in (*statement.rows, *statement.columns))
            epilogues = (one.epilogue for one in statement.sums)
            return (*factors, statement.score.body, statement.derived, statement.row, *epilogues)
    return ()


def map_dims(statement: Statement, change: Callable[[DimLike], DimLike]) -> Statement:
    """The statement with every index expression and extent in it, inner bodies included, changed."""

    def body(inner: Body) -> Body:
        return tuple(map_dims(one, change) for one in inner)

    def factors(some: tuple[Factor, ...]) -> tuple[Factor, ...]:
        return tuple(replace(one, operand=replace(one.operand, body=body(one.operand.body))) for one in some)

    match statement:
        case IndexValue() | Load() | Store():
            return replace(statement, index=change(statement.index))
        case Loop():
            slots = statement.slots
            if slots is not None:
                slots = replace(slots, body=body(slots.body))
            extent, begin = change(statement.extent), change(statement.begin)
            return replace(statement, extent=extent, begin=begin, body=body(statement.body), slots=slots)
        case Contract():
            m, n, k = (change(extent) for extent in statement.extents)
            return replace(
                statement,
                extents=(m, n, k),
                begin=change(statement.begin),
                left=replace(statement.left, body=body(statement.left.body)),
                right=replace(statement.right, body=body(statement.right.body)),
                epilogue=body(statement.epilogue),
            )
        case Attend(extents=(m, n), window=(begin, end)):
            return replace(
                statement,
                extents=(change(m), change(n)),
                window=(change(begin), change(end)),
                rows=factors(statement.rows),
                columns=factors(statement.columns),
                score=replace(statement.score, body=body(statement.score.body)),
                derived=body(statement.derived),
                row=body(statement.row),
                sums=tuple(replace(one, epilogue=body(one.epilogue)) for one in statement.sums),
            )
    return statement


def statements_of(body: Body) -> Iterator[Statement]:
    """Every statement of a body, those of inner bodies included, outer before inner."""
    for statement in body:
        yield statement
        for inner in bodies_of(statement):
            yield from statements_of(inner)


def sizes_of(body: Body) -> frozenset[str]:
    """The sizes of the graph that a body mentions, and the numbers that the entry computes of them."""
    mentioned = {name for s in statements_of(body) for dim in dims_of(s) for name in dims.names(dim)}
    return frozenset(name for name in mentioned if not name.startswith("_") or name.startswith(SIZE_NUMBER))
