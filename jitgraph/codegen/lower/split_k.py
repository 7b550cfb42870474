"""Products of few elements over many steps, cut by their steps: parts side by side, and a second nest that merges them.

A part has an aligned run of 2**q blocks of steps, which is a node of the tree in which the blocks of a contraction
merge (``kernel.Contract``), and the parts merge by that tree as well: the bits are those of the contraction as a whole.

A large product that a library computes has what becomes of its elements in a second nest, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.kernels.library_sizes import is_large
from jitgraph.codegen.lower.building import ScheduleBuilder
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.heuristics import SplitK
from jitgraph.dtypes import DType, is_float
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.types import TensorType
from jitgraph.ops.blocks import BLOCK_STEPS
from jitgraph.records import dataclass

Extents = tuple[DimLike, DimLike, DimLike]


@dataclass(frozen=True)
class Product:
    """A product for each place of ``around``: the factors at (place, m, k) and (place, k, n), and what becomes of the
    sum at (place, m, n)."""

    around: tuple[DimLike, ...]
    extents: Extents
    left: Callable[[Sequence[DimLike], DimLike, DimLike], Var]
    right: Callable[[Sequence[DimLike], DimLike, DimLike], Var]
    epilogue: Callable[[Sequence[DimLike], DimLike, DimLike, Var], None]
    accumulator: DType
    is_loaded: bool = False  # the factors are elements of memory as they are
    is_stored: bool = False  # nothing becomes of the sums but being rounded and stored


def lower_product(builder: ScheduleBuilder, recorder: KernelRecorder, product: Product) -> None:
    """Record the product as one nest, or as two where it is cut."""
    around = dims.product(product.around)
    library = builder.decisions.library
    if library is not None and product.is_loaded and is_large(library, around, product.extents):
        if not product.is_stored:
            _in_parts(builder, recorder, product, None)
            return
        span = None
    else:
        span = span_of(builder.decisions.products, around, product.extents)
    if span is None:
        with recorder.loops(_parallel(len(product.around)), product.around) as at:
            recorder.contract(
                product.extents,
                lambda m, k: product.left(at, m, k),
                lambda k, n: product.right(at, k, n),
                lambda m, n, acc: product.epilogue(at, m, n, acc),
                product.accumulator,
                BLOCK_STEPS,
            )
        return
    _in_parts(builder, recorder, product, span)


def span_of(sizes: SplitK | None, around: DimLike, extents: Extents) -> int | None:
    """Steps of a part, a power of two of blocks; None for a product that stays whole."""
    m, n, k = extents
    if sizes is None or not all(isinstance(extent, int) and extent for extent in (around, m, n, k)):
        return None
    assert isinstance(around, int) and isinstance(m, int) and isinstance(n, int) and isinstance(k, int)
    tiles = around * -(-m // sizes.side) * -(-n // sizes.side)
    if k < sizes.least_steps or 2 * tiles > sizes.tiles:
        return None
    span = BLOCK_STEPS
    while -(-k // span) * tiles > sizes.tiles:
        span *= 2
    return span if span < k else None


def _parallel(count: int) -> list[LoopKind]:
    return ["parallel"] * count


def _in_parts(builder: ScheduleBuilder, recorder: KernelRecorder, product: Product, span: int | None) -> None:
    """The sums of each part, or of all steps, and what becomes of them."""
    m, n, k = product.extents
    around = product.around
    count: DimLike = 1 if span is None else (k + (span - 1)) // span
    sums = builder.temporary(TensorType(product.accumulator, (count, *around, m, n)))
    shape = sums.type.shape
    with recorder.loops(_parallel(len(around) + 1), (count, *around)) as (part, *at):
        recorder.contract(
            product.extents,
            lambda m, k: product.left(at, m, k),
            lambda k, n: product.right(at, k, n),
            lambda m, n, acc: recorder.store(sums, offset((part, *at, m, n), shape), acc),
            product.accumulator,
            BLOCK_STEPS,
            0 if span is None else part * span,
            span,
        )
    ops = ScalarOps(recorder, product.accumulator)
    floats = is_float(product.accumulator)
    extents = (*around, m, n)
    with recorder.loops(builder.decisions.independent(extents), extents) as index:

        def element(part: DimLike) -> tuple[Var, ...]:
            return (recorder.load(sums, offset((part, *index), shape), again=True),)

        if span is None:
            (total,) = element(0)
        else:
            (total,) = recorder.reduce(
                count,
                (ops.const(-0.0 if floats else 0),),
                element,
                lambda ops, left, right: (ops.add(left[0], right[0]),),
                1,
                1 if floats else 0,
            )
        *at, row, column = index
        product.epilogue(at, row, column, total)
