"""What autocast does to an op: which of its operands become 16-bit floats, and which float32.

The lists are those of PyTorch's autocast for CUDA, said by the ops' traits. Products and convolutions run in the 16-bit
dtype; sums, exponentials, softmax, norms and losses in float32; other ops in the widest of their operands' dtypes.
float64 stays as it is, as in PyTorch. An op is looked at where a program applies it; what it is made of is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import ops
from jitgraph.dtypes import DType, float32, float64, is_float
from jitgraph.ir import context
from jitgraph.ir.context import Emitter
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType

_OF_ONE_DTYPE: Final = frozenset({"elementwise", "movement", "indexing"})


def emit(emitter: Emitter, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
    """What ``emitter`` makes of the op with its operands cast; for whatever it applies on the way nothing is cast."""
    low = context.current().autocast
    with context.using(autocast=None):
        return emitter.emit(op, _cast(inputs, _dtype_of(op, inputs, low)), attrs, regions)


def _dtype_of(op: Op, inputs: Sequence[Any], low: DType) -> DType | None:
    """The dtype in which an op's floats go in; None where they stay as they are."""
    floats = {value.type.dtype for value in inputs if isinstance(value.type, TensorType)}
    floats = {dtype for dtype in floats if is_float(dtype)}
    if not floats or float64 in floats:
        return None
    if "autocast_low" in op.traits:
        return low
    if "autocast_wide" in op.traits:
        return float32
    alike = op.kind in _OF_ONE_DTYPE or "pointwise" in op.traits
    return float32 if alike and len(floats) > 1 else None


def _cast(inputs: Sequence[Any], dtype: DType | None) -> Sequence[Any]:
    if dtype is None:
        return inputs
    return [ops.cast(value, dtype=dtype) if _is_other(value, dtype) else value for value in inputs]


def _is_other(value: Any, dtype: DType) -> bool:
    return isinstance(value.type, TensorType) and is_float(value.type.dtype) and value.type.dtype != dtype
