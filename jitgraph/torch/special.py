"""``torch.special``: PyTorch's names and parameters over ATen's operators and ``jg.special``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import dtypes
from jitgraph import special as functions
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn
from jitgraph.torch.adapters import of_aten, with_out
from jitgraph.torch.aten_ops import operands, pointwise, reductions
from jitgraph.torch.promotion import promoted, to_inexact


def _of_one(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of each element; integers count as the default float dtype."""

    def of_one(input: Any) -> Any:
        return function(to_inexact(input))

    return _named(of_one, function)


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function of the elements of two operands, of which one may be a number."""

    def of_two(input: Any, other: Any) -> Any:
        _require_tensor(function.__name__, input, other)
        return function(*map(to_inexact, promoted(input, other)))

    return _named(of_two, function)


def _polynomial(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """An orthogonal polynomial of degree ``n``, a number or a tensor."""

    def polynomial(input: Any, n: Any) -> Any:
        _require_tensor(function.__name__, input, n)
        x, degree = promoted(input, n)
        degree = fn.astype(degree, dtypes.int64) if isinstance(degree, Tensor) else int(degree)
        return function(to_inexact(x), degree)

    return _named(polynomial, function)


def _require_tensor(name: str, *operands: Any) -> None:
    if not any(isinstance(operand, Tensor) for operand in operands):
        kinds = ", ".join(type(operand).__name__ for operand in operands)
        raise TypeError(f"special_{name}() takes a tensor, and not ({kinds})")


def _named(new: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    new.__name__ = new.__qualname__ = function.__name__
    new.__doc__ = function.__doc__
    return with_out(new)


airy_ai = _of_one(functions.airy_ai)
bessel_j0 = _of_one(functions.bessel_j0)
bessel_j1 = _of_one(functions.bessel_j1)
bessel_y0 = _of_one(functions.bessel_y0)
bessel_y1 = _of_one(functions.bessel_y1)
modified_bessel_i0 = _of_one(functions.modified_bessel_i0)
modified_bessel_i1 = _of_one(functions.modified_bessel_i1)
modified_bessel_k0 = _of_one(functions.modified_bessel_k0)
modified_bessel_k1 = _of_one(functions.modified_bessel_k1)
scaled_modified_bessel_k0 = _of_one(functions.scaled_modified_bessel_k0)
scaled_modified_bessel_k1 = _of_one(functions.scaled_modified_bessel_k1)
spherical_bessel_j0 = _of_one(functions.spherical_bessel_j0)

chebyshev_polynomial_t = _polynomial(functions.chebyshev_polynomial_t)
chebyshev_polynomial_u = _polynomial(functions.chebyshev_polynomial_u)
chebyshev_polynomial_v = _polynomial(functions.chebyshev_polynomial_v)
chebyshev_polynomial_w = _polynomial(functions.chebyshev_polynomial_w)
hermite_polynomial_h = _polynomial(functions.hermite_polynomial_h)
hermite_polynomial_he = _polynomial(functions.hermite_polynomial_he)
laguerre_polynomial_l = _polynomial(functions.laguerre_polynomial_l)
legendre_polynomial_p = _polynomial(functions.legendre_polynomial_p)
shifted_chebyshev_polynomial_t = _polynomial(functions.shifted_chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = _polynomial(functions.shifted_chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = _polynomial(functions.shifted_chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = _polynomial(functions.shifted_chebyshev_polynomial_w)

digamma = psi = _of_one(functions.digamma)
entr = _of_one(functions.entr)
erf = _of_one(fn.erf)
erfc = _of_one(functions.erfc)
erfcx = _of_one(functions.erfcx)
erfinv = _of_one(functions.erfinv)
exp2 = _of_one(fn.exp2)
expit = _of_one(fn.sigmoid)
expm1 = _of_one(fn.expm1)
gammaln = _of_one(functions.gammaln)
i0 = _of_one(functions.i0)
i0e = _of_one(functions.i0e)
i1 = _of_one(functions.i1)
i1e = _of_one(functions.i1e)
log1p = _of_one(fn.log1p)
log_ndtr = _of_one(functions.log_ndtr)
ndtr = _of_one(functions.ndtr)
ndtri = _of_one(functions.ndtri)
sinc = _of_one(functions.sinc)
gammainc = _of_two(functions.gammainc)
gammaincc = _of_two(functions.gammaincc)
xlog1py = _of_two(functions.xlog1py)
xlogy = _of_two(functions.xlogy)
zeta = _of_two(functions.zeta)
logsumexp = of_aten(reductions.special_logsumexp, "logsumexp")
round = of_aten(pointwise.round, "round")


@with_out
def logit(input: Any, eps: float | None = None) -> Any:
    """The logarithm of x / (1 - x), of x between eps and 1 - eps."""
    return (
        functions.logit(to_inexact(input)) if eps is None else functions.logit(fn.clip(to_inexact(input), eps, 1 - eps))
    )


@with_out
def polygamma(n: int, input: Any) -> Any:
    """The n-th derivative of digamma."""
    return functions.polygamma(n, to_inexact(input))


@with_out
def multigammaln(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension p."""
    return functions.multigammaln(to_inexact(input), p)


@with_out
def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """exp(x) over its sum along an axis."""
    return fn.softmax(operands.cast(input, dtype), dim)


@with_out
def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of ``softmax``."""
    return fn.log_softmax(operands.cast(input, dtype), dim)
