"""Ops that move elements: reshape, transpose, broadcast, flip; ``windows`` has slice, pad and concat.

``index_map(index, *types, **attrs)`` says where each element comes from. ``index`` is one DimLike for each output axis,
``types`` are the operands' types; the result is a list of ``Read(operand, index, condition)``, tried in order: the
element is that of the first read whose condition holds, and one always does. A condition is a conjunction: a tuple of
``(left, ">=" or "<", right)`` between DimLikes, empty where it always holds. A read's index is in range wherever its
condition holds and no earlier one does, and only there may it be loaded. All but ``pad`` and ``concat`` give one read
with an empty condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import sum_to
from jitgraph.ops.reindex import reshaped_index
from jitgraph.ops.sampling import samples_for
from jitgraph.records import dataclass

Index: TypeAlias = tuple[DimLike, ...]
Condition: TypeAlias = tuple[tuple[DimLike, Literal[">=", "<"], DimLike], ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Take ``operand`` number ``operand`` at ``index`` where ``condition`` holds."""

    operand: int
    index: Index
    condition: Condition = ()


def _reshape_type(x: Type, *, shape: Shape) -> TensorType:
    type = rules.require_tensor("reshape", x)
    rules.require_shape("reshape", shape)
    if not context.constraints().same(type.size, dims.product(shape)):
        raise ShapeError(f"reshape: {type} has {type.size} elements, not the {dims.product(shape)} of {_text(shape)}")
    return TensorType(type.dtype, shape)


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


reshape: Op = Op(
    name="reshape",
    kind="movement",
    infer=_reshape_type,
    evaluate=lambda x, *, shape: np.reshape(x, shape),
    vjp=lambda ct, out, x, *, shape: (reshape(ct, shape=x.shape),),
    index_map=lambda index, x, *, shape: [Read(0, reshaped_index(index, shape, x.shape))],
    traits=frozenset({"view", "alias"}),
    onnx="Reshape",
    samples=samples_for(
        "reshape",
        rules.ALL,
        lambda array: [
            Sample((array(*old),), {"shape": new})
            for old, new in [
                ((2, 3), (6,)),
                ((6,), (2, 3)),
                ((4, 3), (2, 6)),
                ((2, 3, 4), (2, 12)),
                ((2, 6), (1, 4, 1, 3)),
                ((), (1, 1)),
                ((1,), ()),
                ((0, 3), (5, 0)),
            ]
        ],
    ),
    doc="The elements in row-major order under another shape.",
)


def _transpose_type(x: Type, *, permutation: tuple[int, ...]) -> TensorType:
    type = rules.require_tensor("transpose", x)
    if not isinstance(permutation, tuple) or sorted(permutation) != list(range(type.ndim)):
        raise ShapeError(f"transpose: {permutation} is not a permutation of the {type.ndim} axes of {type}")
    return TensorType(type.dtype, tuple(type.shape[axis] for axis in permutation))


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``permutation``."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


transpose: Op = Op(
    name="transpose",
    kind="movement",
    infer=_transpose_type,
    evaluate=lambda x, *, permutation: np.transpose(x, permutation),
    vjp=lambda ct, out, x, *, permutation: (transpose(ct, permutation=inverse(permutation)),),
    index_map=lambda index, x, *, permutation: [Read(0, tuple(index[axis] for axis in inverse(permutation)))],
    traits=frozenset({"view"}),
    onnx="Transpose",
    samples=samples_for(
        "transpose",
        rules.ALL,
        lambda array: [
            Sample((array(*shape),), {"permutation": permutation})
            for shape, permutation in [
                ((2, 3), (1, 0)),
                ((2, 3, 4), (2, 0, 1)),
                ((2, 3, 4), (0, 2, 1)),
                ((), ()),
                ((0, 3), (1, 0)),
                ((1, 5, 1), (1, 2, 0)),
                ((17, 19), (1, 0)),
            ]
        ],
    ),
    doc="Output axis i is input axis permutation[i].",
)


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
            what = f"broadcast: {type} to {_text(shape)} over axes {axes}: output axis {axis}"
            out[axis] = require_same(known, shape[axis], extent, what)
    return TensorType(type.dtype, tuple(out))


def _broadcast(x: Any, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    placed = [1] * len(shape)
    for extent, axis in zip(x.shape, axes, strict=True):
        placed[axis] = extent
    return np.broadcast_to(np.reshape(x, placed), shape)


def _broadcast_vjp(ct: Any, out: Any, x: Any, *, shape: Shape, axes: tuple[int, ...]) -> tuple[Any]:
    from jitgraph.ops.reduction import reduce_sum

    new = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return (sum_to(reduce_sum(ct, axes=new) if new else ct, x.type),)


broadcast: Op = Op(
    name="broadcast",
    kind="movement",
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


flip: Op = Op(
    name="flip",
    kind="movement",
    infer=lambda x, *, axes: _flip_type(x, axes),
    evaluate=lambda x, *, axes: np.asarray(np.flip(x, axes)),
    vjp=lambda ct, out, x, *, axes: (flip(ct, axes=axes),),
    index_map=lambda index, x, *, axes: [
        Read(0, tuple(x.shape[i] - 1 - at if i in axes else at for i, at in enumerate(index)))
    ],
    traits=frozenset({"view"}),
    samples=samples_for(
        "flip",
        rules.ALL,
        lambda array: [
            Sample((array(*shape),), {"axes": axes})
            for shape, axes in [((2, 3), (0,)), ((2, 3), (0, 1)), ((17,), (0,)), ((), ()), ((0, 2), (0,)), ((2, 3), ())]
        ],
    ),
    doc="The order of elements reversed along the axes.",
)


def _flip_type(x: Type, axes: tuple[int, ...]) -> TensorType:
    type = rules.require_tensor("flip", x)
    rules.require_axes("flip", axes, type.ndim)
    return type
