"""Ops that move elements: reshape, transpose, flip, broadcast and its adjoint reduce_sum; ``windows`` has slice,
pad, concat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Reduction, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.define import reduce_over
from jitgraph.ops.order import in_order
from jitgraph.ops.sampling import samples_for
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Where an element stands after a reshape: from an index under one shape to the index under another.
#
# The axes of both shapes are cut into the shortest groups of equal size, so that axes that a reshape leaves alone keep
# their plain index, and only within a group is the index made linear and taken apart again, with // and % where they
# must be.


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of a mixed-radix number: ``index`` in ``0 .. extent - 1``."""

    index: DimLike
    extent: DimLike


def reshaped_index(
    index: Sequence[DimLike], shape: Sequence[DimLike], source: Sequence[DimLike]
) -> tuple[DimLike, ...]:
    """The index into a tensor of shape ``source`` of the element at ``index`` of its reshape to ``shape``.

    Where a shape has an extent 0 there is no element, and the result means nothing.
    """
    if any(extent == 0 for extent in (*shape, *source)):
        return (0,) * len(source)
    digits = [Digit(i, extent) for i, extent in zip(index, shape, strict=True) if extent != 1]
    extents = [extent for extent in source if extent != 1]
    coordinates = iter(_regroup(digits, extents))
    return tuple(0 if extent == 1 else next(coordinates) for extent in source)


def _regroup(digits: list[Digit], extents: list[DimLike]) -> list[DimLike]:
    result: list[DimLike] = []
    while digits and extents:
        taken, num_extents = _group(digits, extents)
        result += _convert(digits[:taken], extents[:num_extents])
        digits, extents = digits[taken:], extents[num_extents:]
    # what is left over has one element only, known by a constraint rather than as the int 1
    return result + [0] * len(extents)


def _group(digits: list[Digit], extents: list[DimLike]) -> tuple[int, int]:
    """How many digits and how many wanted extents make the first group of equal size."""
    taken, num_extents = 1, 1
    left, right = digits[0].extent, extents[0]
    while left != right:
        if taken == len(digits) and num_extents == len(extents):
            break  # equal by a constraint only
        grow_left = _smaller(left, right) if taken < len(digits) and num_extents < len(extents) else taken < len(digits)
        if grow_left:
            left, taken = left * digits[taken].extent, taken + 1
        else:
            right, num_extents = right * extents[num_extents], num_extents + 1
    return taken, num_extents


def _smaller(left: DimLike, right: DimLike) -> bool:
    """Whether ``left`` is the size that has to grow to meet ``right``: by value, or because it divides it."""
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    if left % right == 0:
        return False
    return right % left == 0 or isinstance(left, int)


def _convert(digits: list[Digit], extents: list[DimLike]) -> list[DimLike]:
    """The same number in the radices ``extents``."""
    result: list[DimLike] = []
    for position, extent in enumerate(extents):
        high, _ = _split(digits, dims.product(extents[position + 1 :]))
        result.append(_number(high if position == 0 else _split(high, extent)[1]))
    return result


def _split(digits: list[Digit], size: DimLike) -> tuple[list[Digit], list[Digit]]:
    """The number divided by ``size``: the digits of the quotient and those of the remainder."""
    below: DimLike = 1
    for cut in range(len(digits), -1, -1):
        if below == size:
            return digits[:cut], digits[cut:]
        if cut and (larger := _straddles(digits[cut - 1], below, size, leading=cut == 1)):
            high, low = larger
            return [*digits[: cut - 1], high], [low, *digits[cut:]]
        if cut:
            below = below * digits[cut - 1].extent
    total, count = _number(digits), dims.product(digit.extent for digit in digits)
    return [Digit(total // size, count // size)], [Digit(total % size, size)]


def _straddles(digit: Digit, below: DimLike, size: DimLike, *, leading: bool) -> tuple[Digit, Digit] | None:
    """``digit`` of weight ``below`` cut in two at ``size``, where ``size`` is a multiple that divides its reach.

    What a leading digit reaches matters to no other one.
    """
    part, rest = size // below, size % below
    if rest != 0 or (digit.extent % part != 0 and not (leading and isinstance(part, int))):
        return None
    if isinstance(part, int) and isinstance(digit.extent, int) and part > digit.extent:
        return None
    return Digit(digit.index // part, digit.extent // part), Digit(digit.index % part, part)


def _number(digits: Sequence[Digit]) -> DimLike:
    total: DimLike = 0
    for digit in digits:
        total = total * digit.extent + digit.index
    return total


# ----------------------------------------------------------------------
# Ops that move elements: reshape, transpose, flip; ``broadcasting`` has broadcast, ``windows`` slice, pad and concat.
#
# ``index_map(index, *types, **attrs)`` says where each element comes from. ``index`` is one DimLike for each output
# axis, ``types`` are the operands' types; the result is a list of ``Read(operand, index, condition)``, tried in order:
# the element is that of the first read whose condition holds, and one always does. A condition is a conjunction: a
# tuple of ``(left, ">=" or "<", right)`` between DimLikes, empty where it always holds. A read's index is in range
# wherever its condition holds and no earlier one does, and only there may it be loaded. All but ``pad`` and ``concat``
# give one read with an empty condition.

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


# ----------------------------------------------------------------------
# broadcast and reduce_sum, which are each other's adjoints, and what gradient rules make of the two.


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
