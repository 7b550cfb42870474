"""slice, pad and concat: parts of tensors, cut out and put together; each is the others' adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import sub
from jitgraph.ops.creation import full
from jitgraph.ops.movement import Condition, Index, Read, reduce_sum
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import samples_for


def _slice_type(x: Type, *, starts: Shape, stops: Shape, strides: tuple[int, ...]) -> TensorType:
    type = rules.require_tensor("slice", x)
    what = f"slice of {type} with starts={starts}, stops={stops}, strides={strides}"
    if not len(starts) == len(stops) == len(strides) == type.ndim:
        raise ShapeError(f"{what}: each needs {type.ndim} entries")
    if any(not isinstance(stride, int) or stride < 1 for stride in strides):
        raise ShapeError(f"{what}: strides should be positive ints")
    for start, stop, extent in zip(starts, stops, type.shape, strict=True):
        rules.at_least(what, start, 0)
        rules.at_least(what, stop, start)
        rules.at_least(what, extent, stop)
    return TensorType(type.dtype, tuple(map(rules.extent_of, starts, stops, strides)))


def _cut(starts: Sequence[int], stops: Sequence[int], strides: Sequence[int]) -> tuple[Any, ...]:
    """NumPy's index for these slices (Python's ``slice`` has given its name to the op)."""
    return tuple(np.s_[start:stop:stride] for start, stop, stride in zip(starts, stops, strides, strict=True))


def _slice_vjp(ct: Any, out: Any, x: Any, *, starts: Shape, stops: Shape, strides: tuple[int, ...]) -> tuple[Any]:
    if any(extent == 0 for extent in ct.shape):
        return (full(shape=x.shape, value=0, dtype=x.dtype),)
    reach = [
        count if stride == 1 else (count - 1) * stride + 1 for count, stride in zip(ct.shape, strides, strict=True)
    ]
    high = tuple(extent - start - span for extent, start, span in zip(x.shape, starts, reach, strict=True))
    zero = full(shape=(), value=0, dtype=x.dtype)
    return (pad(ct, zero, low=starts, high=high, interior=tuple(stride - 1 for stride in strides)),)


slice: Op = Op(
    name="slice",
    kind="movement",
    batch="slice",
    infer=_slice_type,
    evaluate=lambda x, *, starts, stops, strides: np.asarray(x[_cut(starts, stops, strides)]),
    vjp=_slice_vjp,
    index_map=lambda index, x, *, starts, stops, strides: [
        Read(0, tuple(start + at * stride for at, start, stride in zip(index, starts, strides, strict=True)))
    ],
    traits=frozenset({"view"}),
    onnx="Slice",
    samples=samples_for(
        "slice",
        rules.ALL,
        lambda array: [
            Sample((array(*shape),), {"starts": starts, "stops": stops, "strides": strides})
            for shape, starts, stops, strides in [
                ((5, 4), (1, 0), (4, 4), (1, 1)),
                ((7,), (1,), (6,), (2,)),
                ((7,), (0,), (7,), (3,)),
                ((5, 4), (2, 1), (2, 3), (1, 2)),
                ((), (), (), ()),
                ((0, 2), (0, 1), (0, 2), (1, 1)),
                ((40,), (3,), (37,), (1,)),
            ]
        ],
    ),
    doc="Elements starts, starts + strides, ... below stops along each axis; strides are positive, all in range.",
)


def _padded(extent: DimLike, low: DimLike, high: DimLike, interior: int) -> DimLike:
    return low + high + (extent if extent == 0 else extent + (extent - 1) * interior)


def _pad_type(x: Type, value: Type, *, low: Shape, high: Shape, interior: tuple[int, ...]) -> TensorType:
    rules.require_tensors("pad", (x, value), rules.EVERY, 2)
    type = rules.require_tensor("pad", x)
    rules.require_tensor("pad value", value, 0)
    what = f"pad of {type} with low={low}, high={high}, interior={interior}"
    if not len(low) == len(high) == len(interior) == type.ndim:
        raise ShapeError(f"{what}: each needs {type.ndim} entries")
    if any(not isinstance(gap, int) or gap < 0 for gap in interior):
        raise ShapeError(f"{what}: interior should be non-negative ints")
    for extent, before, after, gap in zip(type.shape, low, high, interior, strict=True):
        rules.at_least(what, before, 0)
        rules.at_least(what, after, 0)
        if gap and isinstance(extent, Dim):
            rules.at_least(what, extent, 1)
    return TensorType(type.dtype, tuple(map(_padded, type.shape, low, high, interior)))


def _pad(x: Array, value: Array, *, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    shape = tuple(int(_padded(*each)) for each in zip(x.shape, low, high, interior, strict=True))
    result = np.full(shape, value, x.dtype)
    if x.size:
        strides = [gap + 1 for gap in interior]
        stops = [before + (n - 1) * stride + 1 for before, n, stride in zip(low, x.shape, strides, strict=True)]
        result[_cut(low, stops, strides)] = x
    return result


def _pad_reads(
    index: Index, x: TensorType, value: TensorType, *, low: Shape, high: Shape, interior: tuple[int, ...]
) -> list[Read]:
    condition: Condition = ()
    source: Index = ()
    for at, extent, before, after, gap in zip(index, x.shape, low, high, interior, strict=True):
        offset = at - before
        if before != 0:
            condition += ((offset, ">=", 0),)
        if after != 0 or extent == 0:
            condition += ((offset, "<", extent if gap == 0 else (extent - 1) * (gap + 1) + 1),)
        if gap:
            condition += ((offset % (gap + 1), "<", 1),)
        source += (offset // (gap + 1),)
    return [Read(0, source, condition), Read(1, ())] if condition else [Read(0, source)]


def _pad_vjp(
    ct: Any, out: Any, x: Any, value: Any, *, low: Shape, high: Shape, interior: tuple[int, ...]
) -> tuple[Any, Any]:
    stops = tuple(
        before + _padded(extent, 0, 0, gap) for extent, before, gap in zip(x.shape, low, interior, strict=True)
    )
    inside = slice(ct, starts=low, stops=stops, strides=tuple(gap + 1 for gap in interior))
    axes = tuple(range(len(x.shape)))
    return inside, sub(reduce_sum(ct, axes=axes), reduce_sum(inside, axes=axes))


pad: Op = Op(
    name="pad",
    kind="movement",
    batch="pad",
    infer=_pad_type,
    evaluate=_pad,
    vjp=_pad_vjp,
    index_map=_pad_reads,
    onnx="Pad",
    samples=samples_for(
        "pad",
        rules.ALL,
        lambda array: [
            Sample((array(*shape), array()), {"low": low, "high": high, "interior": interior})
            for shape, low, high, interior in [
                ((2, 3), (1, 0), (0, 2), (0, 0)),
                ((3,), (2,), (1,), (2,)),
                ((2, 2), (0, 1), (0, 1), (1, 0)),
                ((), (), (), ()),
                ((0, 2), (1, 0), (1, 0), (3, 0)),
                ((1,), (0,), (0,), (4,)),
                ((33,), (1,), (3,), (0,)),
            ]
        ],
    ),
    doc="x with low elements before, high after and interior between its own, all equal to the 0-d value.",
)


def _concat_type(*types: Type, axis: int) -> TensorType:
    if not types:
        raise ShapeError("concat takes at least one operand")
    rules.require_tensors("concat", types, rules.EVERY)
    tensors = [rules.require_tensor("concat", type) for type in types]
    first = tensors[0]
    rules.require_axis("concat", axis, first.ndim)
    what, known = f"concat({rules.describe(types)}) along axis {axis}", context.constraints()
    shape = list(first.shape)
    for type in tensors[1:]:
        if type.ndim != first.ndim:
            raise ShapeError(f"{what}: the operands differ in the number of axes")
        for i, extent in enumerate(type.shape):
            shape[i] = shape[i] + extent if i == axis else require_same(known, shape[i], extent, f"{what}: axis {i}")
    return TensorType(first.dtype, tuple(shape))


def _offsets(shapes: Sequence[Shape], axis: int) -> list[DimLike]:
    offsets: list[DimLike] = [0]
    for shape in shapes:
        offsets.append(offsets[-1] + shape[axis])
    return offsets


def _concat_vjp(ct: Any, out: Any, *inputs: Any, axis: int) -> tuple[Any, ...]:
    offsets = _offsets([x.shape for x in inputs], axis)

    def part(start: DimLike, stop: DimLike) -> Any:
        starts = tuple(start if i == axis else 0 for i in range(len(ct.shape)))
        stops = tuple(stop if i == axis else extent for i, extent in enumerate(ct.shape))
        return slice(ct, starts=starts, stops=stops, strides=(1,) * len(ct.shape))

    return tuple(map(part, offsets, offsets[1:]))


def _concat_reads(index: Index, *types: TensorType, axis: int) -> list[Read]:
    offsets = _offsets([type.shape for type in types], axis)
    reads = []
    for operand in range(len(types)):
        at = index[axis]
        condition: Condition = ()
        if operand > 0:
            condition += ((at, ">=", offsets[operand]),)
        if operand < len(types) - 1:
            condition += ((at, "<", offsets[operand + 1]),)
        reads.append(Read(operand, (*index[:axis], at - offsets[operand], *index[axis + 1 :]), condition))
    return reads


_CONCATENATED: list[tuple[list[tuple[int, ...]], int]] = [
    ([(2, 3), (1, 3)], 0),
    ([(2, 1), (2, 3), (2, 2)], 1),
    ([(3,)], 0),
    ([(0, 2), (2, 2), (0, 2)], 0),
    ([(17,), (19,)], 0),
]

concat: Op = Op(
    name="concat",
    kind="movement",
    batch="shifted",
    infer=_concat_type,
    evaluate=lambda *arrays, axis: np.concatenate(arrays, axis),
    vjp=_concat_vjp,
    index_map=_concat_reads,
    onnx="Concat",
    samples=samples_for(
        "concat",
        rules.ALL,
        lambda array: [
            Sample(tuple(array(*shape) for shape in shapes), {"axis": axis}) for shapes, axis in _CONCATENATED
        ],
    ),
    doc="The operands one after another along an axis.",
)
