"""Special functions, in SciPy's and PyTorch's names."""

from __future__ import annotations

from jitgraph import ops
from jitgraph.functions.elementwise import (
    erf,
    exp2,
    expm1,
    log,
    log1p,
    logaddexp,
    where,
)
from jitgraph.functions.elementwise import sigmoid as expit
from jitgraph.functions.reductions import log_softmax, logsumexp, softmax
from jitgraph.lifting import TensorLike, elementwise, value_of, wrap
from jitgraph.tensor import Tensor

__all__ = [
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "log1p",
    "log_softmax",
    "logaddexp",
    "logit",
    "logsumexp",
    "softmax",
    "xlogy",
]


def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), to full precision where it is small. Integers and bools are computed in float32."""
    return elementwise(ops.erfc, x, floating=True)


def erfinv(x: TensorLike) -> Tensor:
    """The inverse of erf: infinite at -1 and 1, NaN beyond. Integers and bools are computed in float32."""
    return elementwise(ops.erfinv, x, floating=True)


def logit(x: TensorLike) -> Tensor:
    """log(x / (1 - x)), the inverse of ``expit``; infinite at 0 and 1, NaN outside."""
    probability = wrap(value_of(x))
    return log(probability) - log1p(-probability)  # type: ignore[no-any-return]


def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """x * log(y), and 0 where x is 0 unless y is NaN."""
    left, right = wrap(value_of(x)), wrap(value_of(y))
    absent = (left == 0) & (right == right)
    return where(absent, 0.0, left * log(where(absent, 1, right)))
