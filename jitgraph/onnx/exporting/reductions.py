"""Reductions, cumulative ops, sorts and normalisations in ONNX."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.onnx.exporting.elementwise import exact
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter
from jitgraph.onnx.exporting.values import OnnxValue
from jitgraph.ops.numeric import greatest, least


def carrier(e: NodeEmitter, operator: str, dtype: DType) -> DType:
    """The dtype in which an operator computes integers like those of ``dtype``: itself, or a wider one."""
    if e.model.accepts(operator, dtype):
        return dtype
    wide = (dtypes.int32, dtypes.int64) if dtype != dtypes.uint32 else (dtypes.int64,)
    return next(candidate for candidate in wide if e.model.accepts(operator, candidate))


def accumulator(e: NodeEmitter, operator: str, dtype: DType) -> DType:
    """``carrier``, and float32 for 16-bit floats that are added or multiplied."""
    return dtypes.float32 if dtype in dtypes.HALF and operator in _ACCUMULATES else carrier(e, operator, dtype)


_ACCUMULATES: Final = frozenset({"ReduceSum", "ReduceProd", "CumSum", "CumProd"})
_EXTREMES: Final[dict[str, tuple[Any, str]]] = {"ReduceMax": (least, "Max"), "ReduceMin": (greatest, "Min")}


def _reduce(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    (x,), operator = refs, node.op.onnx
    assert operator is not None
    axes: Any = node.attrs["axes"]
    if not axes:
        return x
    if not dtypes.is_float(x.dtype) and node.op.kind == "composite":
        return None
    dtype = accumulator(e, operator, x.dtype)
    type = TensorType(dtype, node.output.shape)
    result = e.node(operator, [e.cast(x, dtype), e.ints(axes)], type, keepdims=0)
    if dtype != x.dtype and operator in _EXTREMES:  # of nothing it is the wider dtype's own
        bound, choose = _EXTREMES[operator]
        result = e.elementwise(choose, result, e.number(bound(x.dtype), dtype))
    return e.cast(result, x.dtype)


def _arg_reduce(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    (x,), operator = refs, node.op.onnx
    assert operator is not None
    if dtypes.is_bool(x.dtype):
        x = e.cast(x, dtypes.uint8)
    return e.node(operator, [x], node.output.type, axis=node.attrs["axis"], keepdims=0)


def _cumulative(operator: str) -> Form:
    def form(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
        (x,), axis = refs, node.attrs["axis"]
        dtype = accumulator(e, operator, x.dtype)
        position = e.model.constant(np.array(axis, np.int64))
        return e.cast(e.node(operator, [e.cast(x, dtype), position], TensorType(dtype, x.shape)), x.dtype)

    return form


def _running(operator: str, start: Any) -> Form:
    """The extreme of the elements so far, by a scan along the axis."""

    def form(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
        (x,), axis = refs, node.attrs["axis"]
        assert isinstance(axis, int)
        if x.shape[axis] == 0:
            return x
        front = [axis, *(i for i in range(x.ndim) if i != axis)]
        rows = e.transpose(x, front)
        row = TensorType(x.dtype, rows.shape[1:])
        first = e.number(start(x.dtype), x.dtype, row.shape)

        def body(inner: NodeEmitter, operands: list[OnnxValue]) -> list[OnnxValue]:
            extreme = inner.elementwise(operator, *operands)
            return [extreme, extreme]

        graph = e.subgraph("running", [("extreme", row), ("x", row)], body, [row, row])
        _, name = e.raw("Scan", [e.whole(first), e.whole(rows)], 2, body=graph, num_scan_inputs=1)
        back = sorted(range(x.ndim), key=front.__getitem__)
        return e.transpose(OnnxValue(name, rows.type, rows.shape), back)

    return form


def _sort(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> list[OnnxValue]:
    """TopK of all elements: of equal ones the first comes first. Where a NaN goes is left to the runtime."""
    (x,), attrs = refs, node.attrs
    axis: Any = attrs["axis"]
    keys = e.cast(x, dtypes.uint8) if dtypes.is_bool(x.dtype) else x
    inputs = [e.whole(keys), e.ints((x.shape[axis],))]
    values, order = e.raw("TopK", inputs, 2, axis=axis, largest=int(bool(attrs["descending"])), sorted=1)
    sorted_keys = OnnxValue(values, TensorType(keys.dtype, x.shape), x.shape)
    return [e.cast(sorted_keys, x.dtype), OnnxValue(order, TensorType(dtypes.int64, x.shape), x.shape)]


# ----------------------------------------------------------------------
# Softmax and normalisations, in float32 for 16-bit floats as ours are.


def _widened(e: NodeEmitter, refs: list[OnnxValue]) -> list[OnnxValue]:
    return [e.cast(x, dtypes.float32) if x.dtype in dtypes.HALF else x for x in refs]


def _softmax(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    (x,), operator = _widened(e, refs), node.op.onnx
    assert operator is not None
    return e.cast(e.node(operator, [x], x.type, axis=node.attrs["axis"]), node.output.dtype)


def _mean(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    wide = _widened(e, refs)
    reduced = _reduce(e, node, wide)
    return None if reduced is None else e.cast(reduced, node.output.dtype)


def _layer_norm(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    """LayerNormalization computes in float32, whatever its operands are."""
    if refs[0].dtype == dtypes.float64:
        return None
    num_axes: Any = node.attrs["num_axes"]
    attrs = {"axis": -num_axes, "epsilon": node.attrs["eps"]}
    return e.node("LayerNormalization", list(refs), node.output.type, **attrs)


def _batch_norm(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    if not exact(refs[0].dtype, node.attrs["eps"]):
        return None
    wide = _widened(e, refs)
    type = TensorType(wide[0].dtype, node.output.shape)
    result = e.node("BatchNormalization", list(wide), type, epsilon=node.attrs["eps"])
    return e.cast(result, node.output.dtype)


FORMS: Final[dict[str, Form]] = {
    "reduce_sum": _reduce,
    "reduce_prod": _reduce,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "argmax": _arg_reduce,
    "argmin": _arg_reduce,
    "cumsum": _cumulative("CumSum"),
    "cumprod": _cumulative("CumProd"),
    "cummax": _running("Max", least),
    "cummin": _running("Min", greatest),
    "sort": _sort,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "mean": _mean,
    "logsumexp": _mean,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
}
