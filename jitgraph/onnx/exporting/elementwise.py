"""Elementwise ops in ONNX: an operator where it has one for the dtype, else the scalar definition; activations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.graph import Node
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter
from jitgraph.onnx.exporting.scalars import OnnxScalars
from jitgraph.onnx.exporting.values import OnnxValue
from jitgraph.ops.distributions import random_bits


def elementwise(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    """An elementwise op: by its ONNX operator where that takes the dtypes, else by the op's scalar body."""
    operator = node.op.onnx
    if operator is not None and all(e.model.accepts(operator, x.dtype, i) for i, x in enumerate(refs)):
        return e.elementwise(operator, *refs, dtype=node.output.dtype)
    return _by_scalars(e, node, refs)


def _by_scalars(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    if node.op.scalar is None:
        return None
    half = any(x.dtype in dtypes.HALF for x in refs)
    operands = [e.cast(x, dtypes.float32) if x.dtype in dtypes.HALF else x for x in refs] if half else refs
    result: OnnxValue = node.op.scalar(OnnxScalars(e, operands[0].dtype), *operands, **node.attrs)
    return e.cast(result, node.output.dtype)


def _bits(of_bool: str) -> Form:
    """Logic on bool has operators of its own."""

    def form(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
        return e.elementwise(of_bool, *refs) if dtypes.is_bool(refs[0].dtype) else None

    return form


def _erf(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    """Runtimes lack the operator for float64, or compute that in float32."""
    return _by_scalars(e, node, refs) if refs[0].dtype == dtypes.float64 else None


def _cast(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return e.cast(refs[0], node.output.dtype)


def _bitcast(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return OnnxScalars(e, refs[0].dtype).bitcast(refs[0], node.output.dtype)


def _same(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return refs[0]


def _gaussian(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    (x,) = refs
    half = e.number(-0.5, x.dtype)
    return e.elementwise("Exp", e.elementwise("Mul", e.elementwise("Mul", x, x), half))


def _random_bits(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    """The words of the stream by integer arithmetic, so that a key gives the same numbers as everywhere."""
    (key,) = refs
    shape = node.output.shape
    words = [
        e.node("Gather", [key, e.model.constant(np.array(i))], node.inputs[0].tensor.__class__(key.dtype, ()))
        for i in (0, 1)
    ]
    count = node.output.tensor.size
    position = e.reshape(e.iota(count), shape)

    def body(inner: NodeEmitter, *operands: OnnxValue) -> OnnxValue:
        assert random_bits.scalar is not None
        result: OnnxValue = random_bits.scalar(OnnxScalars(inner, dtypes.uint64), *operands)
        return result

    return e.call(
        "philox_4x32", [position, *words], lambda inner, at, seed, offset: body(inner, seed, offset, at), dtypes.uint32
    )


# ----------------------------------------------------------------------
# Activations: one operator each, which computes 16-bit floats as ONNX says; ours widens them.


def _activation(operator: str, **fixed: Any) -> Form:
    def form(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
        attrs = {_ATTRIBUTES[name]: value for name, value in node.attrs.items()} | fixed
        if not dtypes.is_float(refs[0].dtype) or not exact(refs[0].dtype, *attrs.values()):
            return None
        return e.elementwise(operator, *refs, **attrs)

    return form


def exact(dtype: DType, *attributes: Any) -> bool:
    """Whether ONNX, whose attributes are float32, has these for operands of a dtype: a float64 would be rounded."""
    numbers = [value for value in attributes if isinstance(value, float)]
    return dtype != dtypes.float64 or all(float(np.float32(number)) == number for number in numbers)


def _gelu(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    """Its definition in ONNX has constants of float32."""
    if refs[0].dtype == dtypes.float64:
        return None
    return e.elementwise("Gelu", *refs, approximate=node.attrs["approximate"])


_ATTRIBUTES: Final = {"negative_slope": "alpha", "alpha": "alpha"}


def _clamp(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    (x,), bounds = refs, [node.attrs["low"], node.attrs["high"]]
    if any(isinstance(bound, float) and np.isnan(bound) for bound in bounds):
        return None
    names = ["" if bound is None else e.number(bound, x.dtype).name for bound in bounds]
    (name,) = e.raw("Clip", [x.name, *names])
    return OnnxValue(name, node.output.type, x.stored)


def _logical(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    if node.op.onnx is None or not all(dtypes.is_bool(x.dtype) for x in refs):
        return None
    return e.elementwise(node.op.onnx, *refs)


def _question(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue | None:
    assert node.op.onnx is not None
    return e.elementwise(node.op.onnx, *refs, dtype=dtypes.bool_)


def _select(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return e.where(*refs)


def _square(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return e.elementwise("Mul", refs[0], refs[0])


FORMS: Final[dict[str, Form]] = {
    "cast": _cast,
    "bitcast": _bitcast,
    "stop_gradient": _same,
    "optimization_barrier": _same,
    "bitwise_not": _bits("Not"),
    "bitwise_and": _bits("And"),
    "bitwise_or": _bits("Or"),
    "bitwise_xor": _bits("Xor"),
    "remainder": _by_scalars,  # ONNX's Mod has another sign for floats, and no value for integers by 0
    "erf": _erf,
    "gaussian": _gaussian,
    "random_bits": _random_bits,
    "select": _select,
    "relu": _activation("Relu"),
    "sigmoid": _activation("Sigmoid"),
    "softplus": _activation("Softplus"),
    "reciprocal": _activation("Reciprocal"),
    "gelu": _gelu,
    "leaky_relu": _activation("LeakyRelu"),
    "elu": _activation("Elu"),
    "square": _square,
    "clamp": _clamp,
    "logical_not": _logical,
    "logical_and": _logical,
    "logical_or": _logical,
    "logical_xor": _logical,
    "isnan": _question,
    "isinf": _question,
}
