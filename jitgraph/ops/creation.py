"""Ops that make tensors from nothing: full, iota, constant; and the small constructors that gradient rules use.

``full`` and ``iota`` need no index map: codegen has lowerings for them. ``full`` takes a value that is a Python
scalar or a symbolic size (``mean`` divides by one), which is then converted from int64 to the dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, NumberError
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Constant, Shape, TensorType
from jitgraph.ops import rules
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import edges


def _full_type(*, shape: Shape, value: object, dtype: DType) -> TensorType:
    if not isinstance(value, bool | int | float | Dim):
        raise DTypeError(f"full: {value!r} is not a scalar")
    if dtypes.is_integer(dtype) and not isinstance(value, Dim):
        info = np.iinfo(dtype)
        if isinstance(value, float) or not info.min <= value <= info.max:
            raise DTypeError(f"full: {value!r} is not a value of {dtype.name}")
    if dtypes.is_bool(dtype) and not isinstance(value, bool):
        raise DTypeError(f"full: {value!r} is not a value of bool")
    return TensorType(dtype, rules.require_shape("full", shape))


def _full(*, shape: tuple[int, ...], value: Any, dtype: DType) -> Array:
    if isinstance(value, int) and not isinstance(value, bool):
        if dtypes.is_inexact(dtype):
            value = float(value)  # of any length, as a size may be, and rounded as Python does
        elif dtypes.is_integer(dtype) and not _fits(value, dtypes.int64 if value < 0 else dtypes.uint64):
            raise NumberError(f"full: {value} has no room in 64 bits")
    with np.errstate(all="ignore"):
        return np.full(shape, np.asarray(value).astype(dtype))


def _fits(value: int, dtype: DType) -> bool:
    least, greatest = dtypes.LIMITS[dtype]
    return least <= value <= greatest


full: Op = Op(
    name="full",
    kind="creation",
    infer=_full_type,
    evaluate=_full,
    lowering="full",
    parts=lambda *, shape, value, dtype: (
        full(shape=shape, value=value, dtype=dtypes.part_of(dtype)),
        full(shape=shape, value=0.0, dtype=dtypes.part_of(dtype)),
    ),
    traits=frozenset({"nondifferentiable", "implicit"}),
    onnx="ConstantOfShape",
    samples=lambda dtype: (
        [
            Sample((), {"shape": shape, "value": edges(dtype)[-1 - i].item(), "dtype": dtype})
            for i, shape in enumerate([(2, 3), ()])
        ]
        + [Sample((), {"shape": (0, 3), "value": dtype.type(1).item(), "dtype": dtype})]
    ),
    doc="A tensor of one value.",
)


def _iota_type(*, shape: Shape, axis: int, dtype: DType) -> TensorType:
    rules.require_axis("iota", axis, len(shape))
    type = TensorType(dtype, rules.require_shape("iota", shape))
    rules.require_dtype("iota", type, rules.NUMBERS)
    return type


def _iota(*, shape: tuple[int, ...], axis: int, dtype: DType) -> Array:
    along = np.arange(shape[axis], dtype=np.int64)
    with np.errstate(all="ignore"):
        along = (along.astype(np.float32) if dtype in rules.HALF else along).astype(dtype)
    return np.ascontiguousarray(
        np.broadcast_to(along.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)
    )


iota: Op = Op(
    name="iota",
    kind="creation",
    infer=_iota_type,
    evaluate=_iota,
    lowering="iota",
    traits=frozenset({"nondifferentiable"}),
    onnx="Range",
    samples=lambda dtype: [
        Sample((), {"shape": shape, "axis": axis, "dtype": dtype})
        for shape, axis in [((5,), 0), ((2, 3), 0), ((2, 3), 1), ((2, 0), 1), ((1, 300), 1)]
        if dtype in rules.NUMBERS
    ],
    doc="The index along an axis: element [..., i, ...] is i, converted to the dtype (integers wrap).",
)


def _constant_type(*, value: Constant) -> TensorType:
    return value.type


constant: Op = Op(
    name="constant",
    kind="creation",
    infer=_constant_type,
    evaluate=lambda *, value: value.value,
    lowering="constant",
    parts=lambda *, value: (
        constant(value=Constant(value.value.real.copy())),
        constant(value=Constant(value.value.imag.copy())),
    ),
    traits=frozenset({"nondifferentiable", "implicit"}),
    onnx="Constant",
    samples=lambda dtype: [
        Sample((), {"value": Constant(x)})
        for x in (edges(dtype), edges(dtype)[0], edges(dtype)[:0], edges(dtype)[:2].reshape(2, 1))
    ],
    doc="A tensor that is known when the graph is built.",
)


def full_like(value: bool | int | float | DimLike, x: Any) -> Any:
    """``full`` with the shape and dtype of ``x``."""
    return full(shape=x.shape, value=value, dtype=x.dtype)


def zeros_like(x: Any) -> Any:
    """Zeros (False for bool) with the shape and dtype of ``x``."""
    return full_like(False if dtypes.is_bool(x.dtype) else 0, x)
