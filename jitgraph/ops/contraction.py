"""dot: the contraction of two tensors over pairs of axes, with batch axes.

The result's axes are the batch axes, the left operand's free axes and the right operand's free axes, in order. 16-bit
floats are accumulated in float32; integers wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, OpenShape, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.movement import inverse, transpose
from jitgraph.ops.numeric import Array, rounded
from jitgraph.ops.ordered_product import matmul
from jitgraph.ops.sampling import edges, samples_for

Axes: TypeAlias = tuple[int, ...]
AxisPairs: TypeAlias = tuple[Axes, Axes]


def free_axes(ndim: int, batch: Axes, contract: Axes) -> Axes:
    """The axes of one operand that are neither batch nor contracted."""
    return tuple(axis for axis in range(ndim) if axis not in batch and axis not in contract)


def _dot_type(x: Type, y: Type, *, batch: AxisPairs, contract: AxisPairs) -> TensorType:
    rules.require_tensors("dot", (x, y), rules.NUMBERS, 2)
    left, right = rules.require_tensor("dot", x), rules.require_tensor("dot", y)
    what = f"dot({left}, {right}) with batch={batch}, contract={contract}"
    for side, type in enumerate((left, right)):
        axes = (*batch[side], *contract[side])
        if len(set(axes)) != len(axes) or any(not 0 <= axis < type.ndim for axis in axes):
            raise ShapeError(f"{what}: {axes} are not distinct axes of {type}")
    if len(batch[0]) != len(batch[1]) or len(contract[0]) != len(contract[1]):
        raise ShapeError(f"{what}: axes should come in pairs")
    known = context.constraints()

    def paired(pairs: AxisPairs) -> list[Any]:
        return [
            require_same(known, left.shape[i], right.shape[j], f"{what}: axis {i} of the left and {j} of the right")
            for i, j in zip(*pairs, strict=True)
        ]

    shape = paired(batch)
    paired(contract)
    shape += [left.shape[axis] for axis in free_axes(left.ndim, batch[0], contract[0])]
    shape += [right.shape[axis] for axis in free_axes(right.ndim, batch[1], contract[1])]
    return TensorType(left.dtype, tuple(shape))


def _dot(x: Array, y: Array, *, batch: AxisPairs, contract: AxisPairs) -> Array:
    left_free, right_free = free_axes(x.ndim, batch[0], contract[0]), free_axes(y.ndim, batch[1], contract[1])

    def extents(array: Array, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(array.shape[axis] for axis in axes)

    def matrices(array: Array, *groups: Axes) -> Array:
        shape = [int(np.prod(extents(array, group), dtype=np.int64)) for group in groups]
        return np.reshape(np.transpose(array, [axis for group in groups for axis in group]), shape)

    product = matmul(matrices(x, batch[0], left_free, contract[0]), matrices(y, batch[1], contract[1], right_free))
    return np.reshape(product, extents(x, batch[0]) + extents(x, left_free) + extents(y, right_free))


def _dot_vjp(ct: Any, out: Any, x: Any, y: Any, *, batch: AxisPairs, contract: AxisPairs) -> tuple[Any, Any]:
    count = len(batch[0])
    left_free, right_free = (
        free_axes(len(x.shape), batch[0], contract[0]),
        free_axes(len(y.shape), batch[1], contract[1]),
    )
    ct_batch = tuple(range(count))
    ct_left = tuple(range(count, count + len(left_free)))
    ct_right = tuple(range(count + len(left_free), len(ct.shape)))

    def gradient(other: Any, ct_axes: Axes, other_batch: Axes, other_free: Axes, own: tuple[Axes, ...]) -> Any:
        """``ct`` with ``other`` contracted over what only they share; its axes put back to where ``own`` says."""
        product = dot(ct, other, batch=(ct_batch, other_batch), contract=(ct_axes, other_free))
        own_batch, own_free, own_contract, other_contract = own
        # the other's contracted axes come last, in the order in which they stand in it
        last = tuple(own_contract[other_contract.index(axis)] for axis in sorted(other_contract))
        axes = (*own_batch, *own_free, *last)
        return product if axes == tuple(range(len(axes))) else transpose(product, permutation=inverse(axes))

    dx = gradient(y, ct_right, batch[1], right_free, (batch[0], left_free, contract[0], contract[1]))
    dy = gradient(x, ct_left, batch[0], left_free, (batch[1], right_free, contract[1], contract[0]))
    return dx, dy


def _dot_flops(out: TensorType, x: TensorType, y: Type, *, batch: AxisPairs, contract: AxisPairs) -> DimLike:
    """A product and a sum for each element of the result and each step along the contracted axes."""
    return 2 * dims.product(x.shape[axis] for axis in contract[0]) * out.size


def _dot_open_shapes(x: Axes, y: Axes, *, batch: AxisPairs, contract: AxisPairs) -> tuple[OpenShape, OpenShape]:
    """A name for each axis; axes that meet share one."""
    left = [rules.open_extent(extent, f"l{axis}") for axis, extent in enumerate(x)]
    right = [rules.open_extent(extent, f"r{axis}") for axis, extent in enumerate(y)]
    for pairs in (batch, contract):
        for i, j in zip(*pairs, strict=True):
            right[j] = left[i]
    return tuple(left), tuple(right)


def _edge_products(dtype: DType) -> list[Sample]:
    """Single products, in which infinities and NaN meet no other order of summation than the one there is."""
    column, row = edges(dtype)[:, None], edges(dtype)[None, :]
    return [Sample((column, row), {"batch": ((), ()), "contract": ((1,), (0,))}, differentiable=False)]


dot: Op = Op(
    name="dot",
    kind="contraction",
    batch="dot",
    infer=_dot_type,
    evaluate=rounded(_dot),
    vjp=_dot_vjp,
    lowering="dot",
    flops=_dot_flops,
    open_shapes=_dot_open_shapes,
    onnx="MatMul",
    samples=samples_for(
        "dot",
        rules.NUMBERS,
        lambda array: (
            [
                Sample((array(*left), array(*right)), {"batch": batch, "contract": contract})
                for left, right, batch, contract in [
                    ((2, 3), (3, 4), ((), ()), ((1,), (0,))),
                    ((3, 2), (4, 3), ((), ()), ((0,), (1,))),
                    ((3,), (3,), ((), ()), ((0,), (0,))),
                    ((3,), (2,), ((), ()), ((), ())),
                    ((2, 3, 4), (2, 4, 2), ((0,), (0,)), ((2,), (1,))),
                    ((2, 3, 4), (5, 4, 3), ((), ()), ((1, 2), (2, 1))),
                    ((2, 3, 2), (3, 2, 4), ((2,), (1,)), ((1,), (0,))),
                    ((2, 0), (0, 3), ((), ()), ((1,), (0,))),
                    ((0, 2), (2, 3), ((), ()), ((1,), (0,))),
                    ((), (), ((), ()), ((), ())),
                    ((17, 33), (33, 19), ((), ()), ((1,), (0,))),
                    ((1, 300), (300, 5), ((), ()), ((1,), (0,))),
                ]
            ]
            + _edge_products(array().dtype)
        ),
    ),
    doc="The sum over contracted axis pairs of the product, for each index of batch and free axes.",
    traits=frozenset({"autocast_low"}),
)
