"""cast, bitcast, stop_gradient and optimization_barrier.

A cast rounds once, to nearest even; float to integer truncates, saturates and takes NaN to 0; integer to integer
wraps; to bool it says whether the value is not zero. The scalar body uses only casts that hardware has:
those of 16-bit floats from and to float32, and those among bool, integers, float32 and float64. Wider values reach 16
bits by way of float32 rounded to odd, which makes the second rounding exact (Boldo and Melquiond, "Emulation of FMA
and correctly rounded sums", IEEE Trans. Comput. 57, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import zeros_like
from jitgraph.ops.define import elementwise
from jitgraph.ops.numeric import Array, widen
from jitgraph.ops.sampling import edges, elementwise_samples, samples_for


def _cast_type(x: Type, *, dtype: DType) -> TensorType:
    type = rules.require_tensor("cast", x)
    if dtypes.is_complex(type.dtype) and not dtypes.is_complex(dtype):
        raise DTypeError(f"cast: {type} to {dtype.name} would drop the imaginary part", hint="x.real, or jg.abs(x)")
    return TensorType(dtype, type.shape)


def _cast(x: Array, *, dtype: DType) -> Array:
    if x.dtype == dtype:
        return x
    if dtype.kind == "f" and x.dtype.kind == "f" and x.dtype.itemsize < dtype.itemsize:
        return x.astype(dtype)
    x = widen(x)
    with np.errstate(all="ignore"):
        if dtypes.is_float(x.dtype) and dtypes.is_integer(dtype):
            return _saturated(x, dtype)
        if dtype in rules.HALF and x.dtype != np.float32:
            return _to_odd_float32(x).astype(dtype)
        return x.astype(dtype)


def _saturated(x: Array, dtype: DType) -> Array:
    trunc = np.trunc(x.astype(np.float64))
    info = np.iinfo(dtype)
    above, below = trunc >= float(info.max) + (dtype.itemsize < 8), trunc < float(info.min)  # float(2**63 - 1) is 2**63
    inside = ~(above | below | np.isnan(trunc))
    result = np.where(inside, trunc, 0.0).astype(dtype)
    return np.where(above, dtype.type(info.max), np.where(below, dtype.type(info.min), result))


def _to_odd_float32(x: Array) -> Array:
    """``x`` in float32, inexact values truncated with the last bit set: they round to 16 bits as ``x`` would."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        head = x >> 53
        sticky = ((x >> 11) | ((x & 0x7FF) != 0)) << 11
        x = np.where((head == 0) | (head == -1), x, sticky)
    wide = x.astype(np.float64)
    near = np.asarray(wide.astype(np.float32))
    back = near.astype(np.float64)
    inexact = (back != wide) & ~np.isnan(wide)
    bits = near.view(np.uint32)
    toward_zero = bits - (np.abs(back) > np.abs(wide))
    return np.where(inexact, toward_zero | 1, bits).astype(np.uint32).view(np.float32)


def _cast_scalar(s: Any, x: Any, *, dtype: DType) -> Any:
    if x.dtype == dtype:
        return x
    if x.dtype in rules.HALF:
        x = s.cast(x, dtypes.float32)
    if dtypes.is_bool(dtype):
        return s.cmp("ne", x, s.const(0, x.dtype))
    if dtype in rules.HALF and x.dtype != dtypes.float32:
        x = _to_odd_float32_scalar(s, x)
    return x if x.dtype == dtype else s.cast(x, dtype)


def _to_odd_float32_scalar(s: Any, x: Any) -> Any:
    if x.dtype.kind in "biu" and x.dtype.itemsize <= 2:
        return s.cast(x, dtypes.float32)
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        zero, eleven = s.const(0, x.dtype), s.const(11, x.dtype)
        head = s.shr(x, s.const(53, x.dtype))
        small = s.cmp("eq", head, zero)
        if dtypes.is_signed(x.dtype):
            small = s.or_(small, s.cmp("eq", head, s.const(-1, x.dtype)))
        lost = s.cast(s.cmp("ne", s.and_(x, s.const(0x7FF, x.dtype)), zero), x.dtype)
        x = s.select(small, x, s.shl(s.or_(s.shr(x, eleven), lost), eleven))
    wide = x if x.dtype == dtypes.float64 else s.cast(x, dtypes.float64)
    near = s.cast(wide, dtypes.float32)
    back = s.cast(near, dtypes.float64)
    inexact = s.and_(s.cmp("ne", back, wide), s.cmp("eq", wide, wide))
    bits = s.bitcast(near, dtypes.uint32)
    toward_zero = s.sub(bits, s.cast(s.cmp("gt", s.abs(back), s.abs(wide)), dtypes.uint32))
    odd = s.or_(toward_zero, s.const(1, dtypes.uint32))
    return s.bitcast(s.select(inexact, odd, bits), dtypes.float32)


def _cast_parts(x: Any, *, dtype: DType) -> tuple[Any, Any]:
    """Of parts, or of a real number, whose imaginary part is 0."""
    part = dtypes.part_of(dtype)
    if isinstance(x, tuple):
        return cast(x[0], dtype=part), cast(x[1], dtype=part)
    wide = cast(x, dtype=part)
    return wide, zeros_like(wide)


def _cast_back(ct: Any, dtype: DType) -> Any:
    if dtypes.is_complex(ct.dtype) and not dtypes.is_complex(dtype):
        from jitgraph.ops.complex_parts import real  # here: few programs have complex numbers

        ct = real(ct)
    return cast(ct, dtype=dtype)


def _cast_samples(dtype: DType) -> Sequence[Sample]:
    cases = [Sample((edges(dtype),), {"dtype": to}, differentiable=False) for to in dtypes.DTYPES]
    hard = [
        2.0**63,
        -(2.0**63),
        2.0**64,
        -0.9,
        65519.0,
        65520.0,
        255.9,
        1 + 2.0**-11 + 2.0**-30,
        1 + 2.0**-8 + 2.0**-30,
    ]
    if dtypes.is_float(dtype):
        with np.errstate(all="ignore"):
            cases += [
                Sample((np.array(hard).astype(dtype),), {"dtype": to}, differentiable=False) for to in dtypes.DTYPES
            ]
    elif dtype.itemsize == 8:
        ties = np.array([2**53 + 1, 2**62 + 2**54 + 1, 2**62 + 2**54, 65519, 65520, 2**40 + 2**32 + 2**31 + 1], dtype)
        cases += [
            Sample((ties,), {"dtype": to}) for to in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        ]
    smooth = [dtypes.float64] if dtype == dtypes.float64 else [dtypes.float32]
    for sample in elementwise_samples("cast", 1)(dtype)[1:]:
        cases += [Sample(sample.inputs, {"dtype": to}, differentiable=sample.differentiable) for to in smooth]
    return cases


cast: Op = Op(
    name="cast",
    kind="elementwise",
    infer=_cast_type,
    evaluate=_cast,
    vjp=lambda ct, out, x, *, dtype: (
        _cast_back(ct, x.dtype) if dtypes.is_inexact(x.dtype) and dtypes.is_inexact(dtype) else None,
    ),
    scalar=_cast_scalar,
    parts=_cast_parts,
    traits=frozenset({"storage", "no_arithmetic", "implicit"}),
    onnx="Cast",
    samples=_cast_samples,
    doc="x in another dtype.",
)


def _bitcast_type(x: Type, *, dtype: DType) -> TensorType:
    type = rules.require_tensor("bitcast", x)
    if type.dtype.itemsize != dtype.itemsize or dtypes.is_bool(dtype) or dtypes.is_bool(type.dtype):
        raise DTypeError(
            f"bitcast: {type} has no bits of {dtype.name}", hint="both dtypes need one width, and bool has none"
        )
    return TensorType(dtype, type.shape)


def _bitcast_samples(dtype: DType) -> Sequence[Sample]:
    same = [d for d in dtypes.DTYPES if d.itemsize == dtype.itemsize and not dtypes.is_bool(d)]
    if dtypes.is_bool(dtype):
        return ()
    arrays = (edges(dtype), edges(dtype)[0], edges(dtype)[:0], edges(dtype)[1:9:2])
    return [Sample((np.asarray(x),), {"dtype": to}, differentiable=False) for to in same for x in arrays]


bitcast: Op = Op(
    name="bitcast",
    kind="elementwise",
    infer=_bitcast_type,
    evaluate=lambda x, *, dtype: x.view(dtype),
    scalar=lambda s, x, *, dtype: x if x.dtype == dtype else s.bitcast(x, dtype),
    traits=frozenset({"nondifferentiable", "storage", "no_arithmetic"}),
    samples=_bitcast_samples,
    doc="The same bits read as another dtype of the same width.",
)

stop_gradient: Op = elementwise(
    "stop_gradient",
    lambda x: x,
    accepts=rules.EVERY,
    scalar=lambda s, x: x,
    traits=["idempotent", "no_arithmetic", "implicit", "planewise"],
    doc="x, through which no gradient flows.",
)


def _barrier_type(x: Type, after: Type) -> TensorType:
    rules.require_tensor("optimization_barrier", after)
    return rules.require_tensor("optimization_barrier", x)


optimization_barrier: Op = Op(
    name="optimization_barrier",
    kind="other",
    batch="barrier",
    infer=_barrier_type,
    evaluate=lambda x, after: x,
    vjp=lambda ct, out, x, after: (ct, None),
    fusion="alone",
    traits=frozenset({"view", "alias", "planewise"}),
    samples=samples_for(
        "optimization_barrier",
        rules.ALL,
        lambda array: [Sample((array(*shape), array(2))) for shape in [(), (3,), (2, 3), (0, 2)]],
    ),
    doc="x, which nothing computes with before ``after`` is there (XLA's operation of this name).",
)
