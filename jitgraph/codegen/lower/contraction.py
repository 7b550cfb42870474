"""dot as a contraction: operands and epilogue are whatever their values are at the indices of the contraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.kernels.library_sizes import is_large
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.schedules.heuristics import SplitK
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import DType, is_float
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops.ordered_product import BLOCK_STEPS
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Products of few elements over many steps, cut by their steps: parts side by side, and a second nest that merges them.
#
# A part has an aligned run of 2**q blocks of steps, which is a node of the tree in which the blocks of a contraction
# merge (``kernel.Contract``), and the parts merge by that tree as well: the bits are those of the contraction as a
# whole.
#
# A large product that a library computes has what becomes of its elements in a second nest, too.

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
            split_product(builder, recorder, product, None)
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
    split_product(builder, recorder, product, span)


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


def split_product(builder: ScheduleBuilder, recorder: KernelRecorder, product: Product, span: int | None) -> None:
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
    extents = (*around, m, n)
    with recorder.loops(builder.decisions.independent(extents), extents) as index:

        def element(part: DimLike) -> Var:
            return recorder.load(sums, offset((part, *index), shape), again=True)

        total = element(0) if span is None else merged_parts(recorder, count, product.accumulator, element)
        *at, row, column = index
        product.epilogue(at, row, column, total)


def merged_parts(recorder: KernelRecorder, count: DimLike, dtype: DType, part: Callable[[DimLike], Var]) -> Var:
    """The sum of ``part(0)`` to ``part(count - 1)``, by the tree in which blocks of a contraction merge."""
    floats = is_float(dtype)
    (total,) = recorder.reduce(
        count,
        (ScalarOps(recorder, dtype).const(-0.0 if floats else 0),),
        lambda number: (part(number),),
        lambda ops, left, right: (ops.add(left[0], right[0]),),
        1,
        1 if floats else 0,
    )
    return total


# ----------------------------------------------------------------------
# dot as a contraction: operands and epilogue are whatever their values are at the contraction's indices.


def factor_at(values: Evaluator, value: Value, index: Index, mask: Var | None = None) -> Var:
    """The operand at an index, in the accumulator's dtype; 0 where ``mask`` is false."""
    x = values.at(value, index, mask)
    if mask is not None and not is_loaded(values, value):
        ops = ScalarOps(values.recorder, x.dtype)
        x = ops.select(mask, x, ops.const(0))
    return ScalarOps(values.recorder, x.dtype).cast(x, accumulator(x.dtype))


def is_loaded(values: Evaluator, value: Value) -> bool:
    """Whether what a mask leaves out of ``value`` is 0 as it is: of a load, but not of a value that is computed, nor
    of a 0-d one, which is read without a mask."""
    while value not in values.storages:
        node = values.graph.producers[value]
        if "view" not in node.op.traits or not node.inputs[0].shape:
            return False
        (value,) = node.inputs
    return True


def store_results(values: Evaluator, node: Node, group: Group, index: Index, acc: Var) -> None:
    """Round the sum to the op's dtype, compute what the group makes of it, and store that."""
    values.define(node.output, index, ScalarOps(values.recorder, acc.dtype).cast(acc, node.output.dtype))
    results = [values.at(value, index) for value, _ in group.outputs]
    for result, (value, storage) in zip(results, group.outputs, strict=True):
        values.recorder.store(storage, offset(index, value.shape), result)


def lower_dot(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A dot and its epilogue: batch axes are parallel loops; the free axes of a side, and those contracted, are one."""
    if is_empty(node.output.tensor):
        return
    left, right = node.inputs
    batch: Any = node.attrs["batch"]
    contract: Any = node.attrs["contract"]
    free = [
        tuple(axis for axis in range(len(value.shape)) if axis not in batch[side] and axis not in contract[side])
        for side, value in enumerate((left, right))
    ]
    batch_shape = tuple(left.shape[axis] for axis in batch[0])
    k_shape = tuple(left.shape[axis] for axis in contract[0])
    m_shape = tuple(left.shape[axis] for axis in free[0])
    n_shape = tuple(right.shape[axis] for axis in free[1])
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    split = recorder.ranges.split

    def operand(side: int, at: Index, position: DimLike, shape: tuple[DimLike, ...], k: DimLike) -> Var:
        axes = (*batch[side], *free[side], *contract[side])
        index = dict(zip(axes, (*at, *split(position, shape), *split(k, k_shape)), strict=True))
        return factor_at(values, node.inputs[side], tuple(index[axis] for axis in range(len(index))))

    product = Product(
        batch_shape,
        (dims.product(m_shape), dims.product(n_shape), dims.product(k_shape)),
        lambda at, m, k: operand(0, tuple(at), m, m_shape, k),
        lambda at, k, n: operand(1, tuple(at), n, n_shape, k),
        lambda at, m, n, acc: store_results(values, node, group, (*at, *split(m, m_shape), *split(n, n_shape)), acc),
        accumulator(left.dtype),
        is_loaded=all(is_loaded(values, value) for value in node.inputs),
        is_stored=[value for value, _ in group.outputs] == [node.output],
    )
    lower_product(builder, recorder, product)
    builder.launch(recorder, group.name)
