"""Special functions, in SciPy's and PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitgraph import ops
from jitgraph.dtypes import float32, is_float
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, elementwise, wrap
from jitgraph.tensor.functions.elementwise import erf, exp2, expm1, log, log1p, logaddexp, where
from jitgraph.tensor.functions.elementwise import sigmoid as expit
from jitgraph.tensor.functions.reductions import log_softmax, logsumexp, softmax
from jitgraph.tensor.functions.special_functions import (
    betaln,
    entr,
    erfcx,
    i0,
    i0e,
    i1,
    i1e,
    kl_div,
    log_ndtr,
    multigammaln,
    ndtr,
    ndtri,
    rel_entr,
    sinc,
    xlog1py,
    zeta,
)
from jitgraph.tensor.lifting import TensorLike, cast, value_of

if TYPE_CHECKING:
    from jitgraph.special.incomplete_beta import betainc as betainc
    from jitgraph.special.incomplete_gamma import gammainc as gammainc
    from jitgraph.special.incomplete_gamma import gammaincc as gammaincc

__all__ = [
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "lgamma",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logaddexp",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "rel_entr",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]


__getattr__ = imports.attributes(
    "jitgraph.special",
    {"betainc": "incomplete_beta", "gammainc": "incomplete_gamma", "gammaincc": "incomplete_gamma"},
)


def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), to full precision where it is small. Integers and bools are computed in float32."""
    return elementwise(ops.erfc, x, floating=True)


def erfinv(x: TensorLike) -> Tensor:
    """The inverse of erf: infinite at -1 and 1, NaN beyond. Integers and bools are computed in float32."""
    return elementwise(ops.erfinv, x, floating=True)


def lgamma(x: TensorLike) -> Tensor:
    """log(|gamma(x)|): infinite at 0, -1, -2, ... Integers and bools are computed in float32."""
    return elementwise(ops.lgamma, x, floating=True)


def digamma(x: TensorLike) -> Tensor:
    """The derivative of lgamma: infinite at zeros with the sign of -x, NaN at -1, -2, ... Integers in float32."""
    return elementwise(ops.digamma, x, floating=True)


def polygamma(n: int, x: TensorLike) -> Tensor:
    """The n-th derivative of digamma (n = 1: trigamma), and digamma itself for n = 0."""
    if n == 0:
        return digamma(x)
    value = value_of(x)
    return wrap(ops.polygamma(value if is_float(value.type.dtype) else cast(value, float32), n=n))


def logit(x: TensorLike) -> Tensor:
    """log(x / (1 - x)), the inverse of ``expit``; infinite at 0 and 1, NaN outside."""
    probability = wrap(value_of(x))
    return log(probability) - log1p(-probability)


def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """x * log(y), and 0 where x is 0 unless y is NaN."""
    left, right = wrap(value_of(x)), wrap(value_of(y))
    absent = (left == 0) & (right == right)
    return where(absent, 0.0, left * log(where(absent, 1, right)))
