"""Ops that move elements: reshape, transpose, flip; ``broadcasting`` has broadcast, ``windows`` slice, pad and concat.

``index_map(index, *types, **attrs)`` says where each element comes from. ``index`` is one DimLike for each output axis,
``types`` are the operands' types; the result is a list of ``Read(operand, index, condition)``, tried in order: the
element is that of the first read whose condition holds, and one always does. A condition is a conjunction: a tuple of
``(left, ">=" or "<", right)`` between DimLikes, empty where it always holds. A read's index is in range wherever its
condition holds and no earlier one does, and only there may it be loaded. All but ``pad`` and ``concat`` give one read
with an empty condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
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
        raise ShapeError(
            f"reshape: {type} has {type.size} elements, not the {dims.product(shape)} of {shape_text(shape)}"
        )
    return TensorType(type.dtype, shape)


def shape_text(shape: Shape) -> str:
    """The shape as it stands in messages: ``[2, n]``."""
    return f"[{', '.join(map(str, shape))}]"


reshape: Op = Op(
    name="reshape",
    kind="movement",
    batch="reshape",
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
    batch="shifted",
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


flip: Op = Op(
    name="flip",
    kind="movement",
    batch="shifted",
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
