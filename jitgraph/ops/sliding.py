"""Sums of products of a vector with another that slides along it: what discrete convolutions are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ops.arithmetic import add, mul
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full, iota
from jitgraph.ops.gathering import gather
from jitgraph.ops.movement import broadcast, flip, reduce_sum
from jitgraph.ops.rules import FLOATS, INTEGERS
from jitgraph.ops.sampling import generator
from jitgraph.ops.windows import pad

CHUNK: Final = 384
"""Products that are added one after another, from zero; such sums are added in order, too."""


def _slide(x: Any, weights: Any) -> Any:
    if len(x.shape) != 1 or len(weights.shape) != 1:
        raise ShapeError(f"slide takes two vectors, not {x.type} and {weights.type}")
    if x.dtype != weights.dtype or x.dtype not in (*FLOATS, *INTEGERS):
        raise DTypeError(f"slide takes two tensors of one dtype of numbers, not {x.type} and {weights.type}")
    (m,) = weights.shape
    count = x.shape[0] - m + 1
    first, second = (iota(shape=(count, m), axis=axis, dtype=dtypes.int64) for axis in (0, 1))
    windows = gather(x, add(first, second), axis=0)
    if dtypes.is_float(x.dtype):
        return dot(windows, weights, batch=((), ()), contract=((1,), (0,)))
    products = mul(windows, broadcast(weights, shape=(count, m), axes=(1,)))
    return cast(reduce_sum(products, axes=(1,)), dtype=x.dtype)


def _slide_vjp(ct: Any, out: Any, x: Any, weights: Any) -> tuple[Any, Any]:
    more = (weights.shape[0] - 1,)
    longer = pad(ct, full(shape=(), value=0, dtype=ct.dtype), low=more, high=more, interior=(0,))
    return slide(longer, flip(weights, axes=(0,))), slide(x, ct)


_SIZES: Final = ((1, 1), (7, 3), (70, 4), (40, 40), (900, 800))


def _samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in (*FLOATS, *INTEGERS):
        return ()
    rng = generator("slide", dtype)

    def draw(n: int) -> Any:
        numbers: Any = rng.uniform(0.5, 1.5, n) if dtypes.is_float(dtype) else rng.integers(0, 7, n)
        return numbers.astype(dtype)

    cases = _SIZES if dtype in (dtypes.float32, dtypes.float64, dtypes.int64) else _SIZES[:3]
    return [Sample((draw(n), draw(m))) for n, m in cases]


slide: Op = composite(
    "slide",
    _slide,
    vjp=_slide_vjp,
    samples=_samples,
    lowering="slide",
    doc="Element i is the sum of x[i + k] * weights[k]: n - m + 1 of them.",
)
