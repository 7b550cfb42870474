"""erf and gamma functions and their inverses, in SciPy's and PyTorch's names."""

from __future__ import annotations

import math

from jitgraph import ops
from jitgraph.dtypes import float32, is_float
from jitgraph.tensor import Tensor, elementwise, wrap
from jitgraph.tensor.functions.elementwise import log, log1p, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import float_tensors
from jitgraph.tensor.lifting import TensorLike, cast, value_of


@array_function
def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), accurate where it is small. Integers and bools are computed in float32."""
    return elementwise(ops.erfc, x, floating=True)


@array_function
def erfinv(x: TensorLike) -> Tensor:
    """The inverse of erf: infinite at -1 and 1, NaN beyond. Integers and bools are computed in float32."""
    return elementwise(ops.erfinv, x, floating=True)


@array_function
def lgamma(x: TensorLike) -> Tensor:
    """log(|gamma(x)|): infinite at 0, -1, -2, ... Integers and bools are computed in float32."""
    return elementwise(ops.lgamma, x, floating=True)


@array_function
def digamma(x: TensorLike) -> Tensor:
    """The derivative of lgamma: infinite at zeros with the sign of -x, NaN at -1, -2, ... Integers in float32."""
    return elementwise(ops.digamma, x, floating=True)


gammaln = lgamma
"""As ``lgamma``."""
psi = digamma
"""As ``digamma``."""


@array_function
def polygamma(n: int, x: TensorLike) -> Tensor:
    """The n-th derivative of digamma (n = 1: trigamma), and digamma itself for n = 0."""
    if n == 0:
        return digamma(x)
    value = value_of(x)
    return wrap(ops.polygamma(value if is_float(value.type.dtype) else cast(value, float32), n=n))


@array_function
def logit(x: TensorLike) -> Tensor:
    """log(x / (1 - x)), the inverse of ``expit``; infinite at 0 and 1, NaN outside."""
    (probability,) = float_tensors(x)
    outside = where((probability < 0) | (probability > 1), math.nan, 0.0)
    probability = probability + outside  # the slope is NaN there, too
    near = (probability > 0.25) & (probability < 0.75)  # where the difference of logarithms would cancel
    distance = where(near, 2 * probability - 1, 0.0)  # exact
    far = where(near, 0.25, probability)
    return where(near, log1p(distance) - log1p(-distance), log(far) - log1p(-far))
