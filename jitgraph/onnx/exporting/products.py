"""Products, convolutions, pooling and attention in ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.ir import dims
from jitgraph.ir.graph import Node
from jitgraph.ir.types import Shape, TensorType
from jitgraph.onnx.exporting.elementwise import exact
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter
from jitgraph.onnx.exporting.movement import padded
from jitgraph.onnx.exporting.reductions import carrier
from jitgraph.onnx.exporting.values import OnnxValue
from jitgraph.ops.contraction import free_axes

# ----------------------------------------------------------------------
# dot: MatMul, behind transposes and reshapes where the axes are not as MatMul has them.


def _dot(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    x, y = refs
    attrs: Any = node.attrs
    dtype = carrier(e, "MatMul", x.dtype)
    product = _matmul(e, e.cast(x, dtype), e.cast(y, dtype), attrs["batch"], attrs["contract"], node.output.shape)
    return e.cast(product, node.output.dtype)


def _matmul(e: NodeEmitter, x: OnnxValue, y: OnnxValue, batch: Any, contract: Any, shape: Shape) -> OnnxValue:
    x_free, y_free = free_axes(x.ndim, batch[0], contract[0]), free_axes(y.ndim, batch[1], contract[1])
    type = TensorType(x.dtype, shape)
    one_contracted = len(contract[0]) == 1
    if one_contracted and 1 in (x.ndim, y.ndim) and x.ndim != y.ndim:
        # a matrix of one row or column, as ONNX Runtime 1.32 gives wrong numbers for a vector and a transpose
        wide = (e.reshape(x, (1, *x.shape)), y) if x.ndim == 1 else (x, e.reshape(y, (*y.shape, 1)))
        moved = ((contract[0][0] + 1,), contract[1]) if x.ndim == 1 else contract
        rows_shape = [wide[0].shape[axis] for axis in free_axes(wide[0].ndim, (), moved[0])]
        columns_shape = [wide[1].shape[axis] for axis in free_axes(wide[1].ndim, (), moved[1])]
        return e.reshape(_matmul(e, *wide, ((), ()), moved, (*rows_shape, *columns_shape)), shape)
    if one_contracted and not batch[0] and y.ndim <= 2 and x.ndim:
        left = e.transpose(x, (*x_free, *contract[0]))
        right = e.transpose(y, (*contract[1], *y_free))
        return e.node("MatMul", [left, right], type)
    if one_contracted and batch[0] and len(x_free) == 1 and len(y_free) == 1:
        left = e.transpose(x, (*batch[0], *x_free, *contract[0]))
        right = e.transpose(y, (*batch[1], *contract[1], *y_free))
        return e.node("MatMul", [left, right], type)
    left = e.transpose(x, (*batch[0], *x_free, *contract[0]))
    right = e.transpose(y, (*batch[1], *contract[1], *y_free))

    def extent(ref: OnnxValue, axes: Sequence[int]) -> Any:
        return dims.product(ref.shape[axis] for axis in axes)

    lead = tuple(x.shape[axis] for axis in batch[0])
    inner, rows, columns = extent(x, contract[0]), extent(x, x_free), extent(y, y_free)
    left, right = e.reshape(left, (*lead, rows, inner)), e.reshape(right, (*lead, inner, columns))
    product = e.node("MatMul", [left, right], TensorType(x.dtype, (*lead, rows, columns)))
    return e.reshape(product, shape)


def _linear(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    x, weight, *bias = refs
    if x.ndim == 2:
        return e.node("Gemm", list(refs), node.output.type, transB=1)
    if x.ndim == 1:
        product = _matmul(e, x, weight, ((), ()), ((0,), (1,)), node.output.shape)
    else:
        product = e.node("MatMul", [x, e.transpose(weight, (1, 0))], node.output.type)
    return e.elementwise("Add", product, *bias) if bias else product


# ----------------------------------------------------------------------
# Convolutions.


def _conv(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    attrs: Any = node.attrs
    x, weight = refs
    return _convolved(
        e, x, weight, None, attrs["strides"], attrs["padding"], attrs["lhs_dilation"], attrs["rhs_dilation"],
        attrs["groups"], node.output.type,
    )  # fmt: skip


def _conv_nd(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    attrs: Any = node.attrs
    x, weight, *bias = refs
    unit = (1,) * len(attrs["strides"])
    return _convolved(
        e, x, weight, bias[0] if bias else None, attrs["strides"], attrs["padding"], unit, attrs["dilation"],
        attrs["groups"], node.output.type,
    )  # fmt: skip


def _convolved(
    e: NodeEmitter,
    x: OnnxValue,
    weight: OnnxValue,
    bias: OnnxValue | None,
    strides: Any,
    padding: Any,
    spread: Any,
    dilation: Any,
    groups: int,
    type: Any,
) -> OnnxValue | None:
    spatial = len(strides)
    if not e.model.accepts("Conv", x.dtype):
        return None
    if not spatial:
        return _without_axes(e, x, weight, bias, groups, type)
    rest = padding
    if any(step > 1 for step in spread) or not all(
        isinstance(side, int) and side >= 0 for pair in padding for side in pair
    ):
        x = _around(e, x, padding, spread)
        rest = ((0, 0),) * spatial
    pads = [pair[0] for pair in rest] + [pair[1] for pair in rest]
    attrs: dict[str, Any] = {"strides": list(strides), "dilations": list(dilation), "pads": pads, "group": groups}
    operands = [x, weight] if bias is None else [x, weight, bias]
    return e.node("Conv", list(operands), type, **attrs)


def _without_axes(
    e: NodeEmitter, x: OnnxValue, weight: OnnxValue, bias: OnnxValue | None, groups: int, type: Any
) -> OnnxValue:
    """x[N, C] with weight[O, C / groups], as a convolution of one position."""
    line, kernel = (e.reshape(ref, (*ref.shape, 1)) for ref in (x, weight))
    operands = [line, kernel] if bias is None else [line, kernel, bias]
    product = e.node("Conv", list(operands), TensorType(x.dtype, (*type.shape, 1)), group=groups)
    return e.reshape(product, type.shape)


def _around(e: NodeEmitter, x: OnnxValue, padding: Any, spread: Any) -> OnnxValue:
    """``x`` with zeros between and around its elements; where the padding is negative, without so many of them."""
    zero = e.number(0.0, x.dtype)
    gaps = (0, 0, *(step - 1 for step in spread))
    extents = [
        extent if extent == 0 else extent + (extent - 1) * gap for extent, gap in zip(x.shape, gaps, strict=True)
    ]
    x = padded(e, x, zero, (0,) * x.ndim, (0,) * x.ndim, gaps, extents)
    lows: list[Any] = [0, 0, *(pair[0] for pair in padding)]
    highs: list[Any] = [0, 0, *(pair[1] for pair in padding)]
    if all(isinstance(side, int) for side in (*lows, *highs)):
        starts = [max(-low, 0) for low in lows]
        stops = [extent - max(-high, 0) for extent, high in zip(x.shape, highs, strict=True)]
        cut = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
        x = e.slice(x, starts, stops, (1,) * x.ndim, cut)
        lows, highs = ([max(side, 0) for side in sides] for sides in (lows, highs))
    shape = [extent + low + high for extent, low, high in zip(x.shape, lows, highs, strict=True)]
    return padded(e, x, zero, lows, highs, (0,) * x.ndim, shape)


def conv_of_integers(
    x: Any, w: Any, *, strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any, groups: int
) -> Any:
    """A convolution, over calls of ops: the products with each element of the kernel, added. ONNX has it for floats."""
    spatial = len(strides)
    none, unit = (0,) * (2 + spatial), (1,) * (2 + spatial)
    sides = [[0, 0, *(max(pair[side], 0) for pair in padding)] for side in (0, 1)]
    cuts = [[0, 0, *(max(-pair[side], 0) for pair in padding)] for side in (0, 1)]
    zero = ops.full(shape=(), value=0, dtype=x.dtype)
    x = ops.pad(x, zero, low=none, high=none, interior=(0, 0, *(step - 1 for step in lhs_dilation)))
    stops = tuple(extent - cut for extent, cut in zip(x.shape, cuts[1], strict=True))
    x = ops.slice(x, starts=tuple(cuts[0]), stops=stops, strides=unit)
    x = ops.pad(x, zero, low=tuple(sides[0]), high=tuple(sides[1]), interior=none)
    batch, channels = x.shape[:2]
    out, per_group, *kernel = w.shape
    out_shape = [
        (extent - (size - 1) * step - 1) // stride + 1
        for extent, size, step, stride in zip(x.shape[2:], kernel, rhs_dilation, strides, strict=True)
    ]
    total: Any = ops.full(shape=(groups, out // groups, batch, *out_shape), value=0, dtype=x.dtype)
    for tap in itertools.product(*map(range, kernel)):
        first = [at * step for at, step in zip(tap, rhs_dilation, strict=True)]
        last = [start + (count - 1) * step + 1 for start, count, step in zip(first, out_shape, strides, strict=True)]
        part = ops.slice(x, starts=(0, 0, *first), stops=(batch, channels, *last), strides=(1, 1, *strides))
        weights = ops.slice(w, starts=(0, 0, *tap), stops=(out, per_group, *(at + 1 for at in tap)), strides=unit)
        grouped = ops.reshape(part, shape=(batch, groups, per_group, *out_shape))
        factors = ops.reshape(weights, shape=(groups, out // groups, per_group))
        total = ops.add(total, ops.dot(factors, grouped, batch=((0,), (1,)), contract=((2,), (2,))))
    moved = ops.transpose(total, permutation=(2, 0, 1, *range(3, 3 + spatial)))
    return ops.reshape(moved, shape=(batch, out, *out_shape))


def _conv_transpose(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    attrs: Any = node.attrs
    return e.node(
        "ConvTranspose",
        list(refs),
        node.output.type,
        strides=list(attrs["strides"]),
        pads=[*attrs["padding"], *attrs["padding"]],
        output_padding=list(attrs["output_padding"]),
        dilations=list(attrs["dilation"]),
        group=attrs["groups"],
    )


# ----------------------------------------------------------------------
# Pooling.


def _window(attrs: Any) -> dict[str, Any]:
    (top, bottom), (left, right) = attrs["padding"]
    window = {"kernel_shape": list(attrs["kernel"]), "strides": list(attrs["strides"])}
    return {**window, "pads": [top, left, bottom, right]}


def _max_pool(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    if not e.model.accepts("MaxPool", refs[0].dtype):
        return None
    return e.node("MaxPool", list(refs), node.output.type, **_window(node.attrs))


def _avg_pool(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    (x,) = refs
    wide = e.cast(x, dtypes.float32) if x.dtype in dtypes.HALF else x
    type = TensorType(wide.dtype, node.output.shape)
    counted = int(bool(node.attrs["count_include_pad"]))
    return e.cast(e.node("AveragePool", [wide], type, **_window(node.attrs), count_include_pad=counted), x.dtype)


# ----------------------------------------------------------------------
# Attention without a mask: of a row where nothing is seen ONNX leaves open what it gives.


def _attention(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> list[OnnxValue] | None:
    attrs: Any = node.attrs
    out, spread = node.outputs
    if attrs["dropout"] or len(refs) != 3 or e.is_read(spread) or refs[0].ndim not in (3, 4):
        return None
    q, k, v = refs
    if any(extent == 0 for ref in refs for extent in ref.shape) or not exact(q.dtype, attrs["scale"]):
        return None
    lead = q.shape[:-2] if q.ndim == 4 else (q.shape[0], 1)

    def in_heads(ref: OnnxValue) -> OnnxValue:
        return e.reshape(ref, (*lead, *ref.shape[-2:]))

    type = TensorType(q.dtype, (*lead, *out.shape[-2:]))
    settings = {"scale": float(attrs["scale"]), "is_causal": int(bool(attrs["causal"]))}
    result = e.node("Attention", [in_heads(q), in_heads(k), in_heads(v)], type, **settings)
    return [e.reshape(result, out.shape), e.number(np.nan, spread.dtype, spread.shape)]


FORMS: Final[dict[str, Form]] = {
    "dot": _dot,
    "linear": _linear,
    "conv": _conv,
    "conv_nd": _conv_nd,
    "conv_transpose_nd": _conv_transpose,
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "attention": _attention,
}
