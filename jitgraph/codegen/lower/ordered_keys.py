"""Numbers as integers of the same order, in which NaN is the greatest and the zeros are one."""

from __future__ import annotations

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.dtypes import DType, float64, int32, int64, uint8


def key_dtype(dtype: DType) -> DType:
    """The integer dtype of the keys of ``dtype``."""
    if dtypes.is_bool(dtype):
        return uint8
    if dtypes.is_float(dtype):
        return int64 if dtype == float64 else int32
    return dtype


def ordered_key(recorder: KernelRecorder, x: Var, descending: bool) -> Var:
    """The key of an element; with ``descending`` those of greater elements are less."""
    dtype = key_dtype(x.dtype)
    ops = ScalarOps(recorder, dtype)
    key = _of_float(recorder, x, dtype) if dtypes.is_float(x.dtype) else ops.cast(x, dtype)
    return ops.not_(key) if descending else key


def _of_float(recorder: KernelRecorder, x: Var, dtype: DType) -> Var:
    """The bits of a positive number are in order; those of a negative one are, turned round."""
    wide = accumulator(x.dtype)
    floats, ops = ScalarOps(recorder, wide), ScalarOps(recorder, dtype)
    number = floats.add(floats.cast(x, wide), floats.const(0.0))  # -0.0 + 0.0 is 0.0
    bits = ops.bitcast(number, dtype)
    most = int(np.iinfo(dtype).max)
    sign = ops.shr(bits, ops.const(8 * dtype.itemsize - 1))
    ordered = ops.xor(bits, ops.and_(sign, ops.const(most)))
    return ops.select(floats.cmp("ne", number, number), ops.const(most), ordered)
