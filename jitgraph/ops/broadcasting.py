"""broadcast and reduce_sum, which are each other's adjoints, and what gradient rules make of the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.op import Op, Reduction, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.define import reduce_over
from jitgraph.ops.movement import Read, reshape, shape_text
from jitgraph.ops.order import in_order
from jitgraph.ops.sampling import samples_for


def _broadcast_type(x: Type, *, shape: Shape, axes: tuple[int, ...]) -> TensorType:
    type = rules.require_tensor("broadcast", x)
    rules.require_shape("broadcast", shape)
    rules.require_axes("broadcast", axes, len(shape))
    if len(axes) != type.ndim:
        raise ShapeError(f"broadcast: {type} has {type.ndim} axes, but axes {axes} name {len(axes)}")
    known = context.constraints()
    out = list(shape)
    for extent, axis in zip(type.shape, axes, strict=True):
        if extent != 1:
            what = f"broadcast: {type} to {shape_text(shape)} over axes {axes}: output axis {axis}"
            out[axis] = require_same(known, shape[axis], extent, what)
    return TensorType(type.dtype, tuple(out))


def _broadcast(x: Any, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    aligned_shape = [1] * len(shape)
    for extent, axis in zip(x.shape, axes, strict=True):
        aligned_shape[axis] = extent
    return np.broadcast_to(np.reshape(x, aligned_shape), shape)


def _broadcast_vjp(ct: Any, out: Any, x: Any, *, shape: Shape, axes: tuple[int, ...]) -> tuple[Any]:
    new = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return (sum_to(reduce_sum(ct, axes=new) if new else ct, x.type),)


broadcast: Op = Op(
    name="broadcast",
    kind="movement",
    batch="broadcast",
    infer=_broadcast_type,
    evaluate=_broadcast,
    vjp=_broadcast_vjp,
    index_map=lambda index, x, *, shape, axes: [
        Read(0, tuple(0 if extent == 1 else index[axis] for extent, axis in zip(x.shape, axes, strict=True)))
    ],
    traits=frozenset({"view", "implicit"}),
    onnx="Expand",
    samples=samples_for(
        "broadcast",
        rules.ALL,
        lambda array: [
            Sample((array(*old),), {"shape": new, "axes": axes})
            for old, new, axes in [
                ((), (2, 3), ()),
                ((3,), (2, 3), (1,)),
                ((2,), (2, 3), (0,)),
                ((2, 1), (2, 3), (0, 1)),
                ((1, 3), (4, 2, 3), (0, 2)),
                ((1,), (0,), (0,)),
                ((0,), (3, 0), (1,)),
                ((2, 3), (2, 3), (0, 1)),
                ((19,), (5, 19), (1,)),
            ]
        ],
    ),
    doc="Input axis i becomes output axis axes[i], stretched where its extent is the int 1; other output axes are new.",
)


reduce_sum: Op = reduce_over(
    "reduce_sum",
    in_order(np.add, -0.0, 0.0),
    Reduction(
        lambda dtype: -0.0 if dtypes.is_float(dtype) else 0,  # -0.0 leaves every element as it is, 0.0 does not
        lambda s, x, y: s.add(x, y),
        rounds=True,
        empty=lambda dtype: dtype.type(0).item(),
    ),
    accepts=rules.LINEAR,
    vjp=lambda ct, out, x, *, axes: (restore(ct, x.type, axes),),
    traits=["planewise", "autocast_wide"],
    onnx="ReduceSum",
    doc="The sum over axes, in the operand's dtype; integers wrap.",
)


def restore(value: Any, type: TensorType, axes: Sequence[int]) -> Any:
    """``value``, reduced over ``axes`` from ``type``, repeated along them again."""
    other_axes = tuple(axis for axis in range(type.ndim) if axis not in axes)
    return broadcast(value, shape=type.shape, axes=other_axes)


def sum_to(ct: Any, type: TensorType) -> Any:
    """``ct`` summed down to the shape of ``type``: the adjoint of NumPy's broadcasting from that shape.

    Leading axes that ``type`` lacks are summed away; axes where it has the int 1 and ``ct`` has not are summed to 1.
    """
    extra = len(ct.shape) - len(type.shape)
    stretched = tuple(extra + i for i, dim in enumerate(type.shape) if dim == 1 and ct.shape[extra + i] != 1)
    axes = (*range(extra), *stretched)
    summed = reduce_sum(ct, axes=axes) if axes else ct
    return reshape(summed, shape=type.shape) if stretched else summed
