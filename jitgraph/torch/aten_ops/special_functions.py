"""Special functions by their family's name."""

from __future__ import annotations

from jitgraph import special
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands


def special_airy_ai(x):
    return special.airy_ai(x)


special_bessel_j0 = operands.unary(special.bessel_j0)
special_bessel_j1 = operands.unary(special.bessel_j1)
special_bessel_y0 = operands.unary(special.bessel_y0)
special_bessel_y1 = operands.unary(special.bessel_y1)
special_modified_bessel_i0 = operands.unary(special.modified_bessel_i0)
special_modified_bessel_i1 = operands.unary(special.modified_bessel_i1)
special_modified_bessel_k0 = operands.unary(special.modified_bessel_k0)
special_modified_bessel_k1 = operands.unary(special.modified_bessel_k1)


def special_scaled_modified_bessel_k0(x):
    return special.scaled_modified_bessel_k0(x)


def special_scaled_modified_bessel_k1(x):
    return special.scaled_modified_bessel_k1(x)


def special_spherical_bessel_j0(x):
    return special.spherical_bessel_j0(x)


def special_logit(self, eps=None):
    return special.logit(self if eps is None else fn.clip(self, eps, 1 - eps))


def special_polygamma(n, self):
    return special.polygamma(n, self)


def special_multigammaln(self, p):
    return special.multigammaln(self, p)


def special_round(self, *, decimals=0):
    return fn.round(self, decimals)


def special_chebyshev_polynomial_t(x, n):
    return special.chebyshev_polynomial_t(x, operands.degree(n))


def special_chebyshev_polynomial_u(x, n):
    return special.chebyshev_polynomial_u(x, operands.degree(n))


def special_chebyshev_polynomial_v(x, n):
    return special.chebyshev_polynomial_v(x, operands.degree(n))


def special_chebyshev_polynomial_w(x, n):
    return special.chebyshev_polynomial_w(x, operands.degree(n))


def special_hermite_polynomial_h(x, n):
    return special.hermite_polynomial_h(x, operands.degree(n))


def special_hermite_polynomial_he(x, n):
    return special.hermite_polynomial_he(x, operands.degree(n))


def special_laguerre_polynomial_l(x, n):
    return special.laguerre_polynomial_l(x, operands.degree(n))


def special_legendre_polynomial_p(x, n):
    return special.legendre_polynomial_p(x, operands.degree(n))


def special_shifted_chebyshev_polynomial_t(x, n):
    return special.shifted_chebyshev_polynomial_t(x, operands.degree(n))


def special_shifted_chebyshev_polynomial_u(x, n):
    return special.shifted_chebyshev_polynomial_u(x, operands.degree(n))


def special_shifted_chebyshev_polynomial_v(x, n):
    return special.shifted_chebyshev_polynomial_v(x, operands.degree(n))


def special_shifted_chebyshev_polynomial_w(x, n):
    return special.shifted_chebyshev_polynomial_w(x, operands.degree(n))
