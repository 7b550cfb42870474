"""Special functions, in SciPy's and PyTorch's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jitgraph import migration_hints, ops
from jitgraph.dtypes import float32, is_float
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, elementwise, wrap
from jitgraph.tensor.functions.elementwise import erf, exp2, expm1, log, log1p, logaddexp, round, where
from jitgraph.tensor.functions.elementwise import sigmoid as expit
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import float_tensors
from jitgraph.tensor.functions.reductions import log_softmax, logsumexp, softmax
from jitgraph.tensor.functions.special_functions import (
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
    xlogy,
    zeta,
)
from jitgraph.tensor.lifting import TensorLike, cast, value_of

if TYPE_CHECKING:
    from jitgraph.special.airy_function import airy_ai as airy_ai
    from jitgraph.special.bessel import bessel_j0 as bessel_j0
    from jitgraph.special.bessel import bessel_j1 as bessel_j1
    from jitgraph.special.bessel import bessel_y0 as bessel_y0
    from jitgraph.special.bessel import bessel_y1 as bessel_y1
    from jitgraph.special.bessel import j0 as j0
    from jitgraph.special.bessel import j1 as j1
    from jitgraph.special.bessel import k0 as k0
    from jitgraph.special.bessel import k0e as k0e
    from jitgraph.special.bessel import k1 as k1
    from jitgraph.special.bessel import k1e as k1e
    from jitgraph.special.bessel import modified_bessel_i0 as modified_bessel_i0
    from jitgraph.special.bessel import modified_bessel_i1 as modified_bessel_i1
    from jitgraph.special.bessel import modified_bessel_k0 as modified_bessel_k0
    from jitgraph.special.bessel import modified_bessel_k1 as modified_bessel_k1
    from jitgraph.special.bessel import scaled_modified_bessel_k0 as scaled_modified_bessel_k0
    from jitgraph.special.bessel import scaled_modified_bessel_k1 as scaled_modified_bessel_k1
    from jitgraph.special.bessel import y0 as y0
    from jitgraph.special.bessel import y1 as y1
    from jitgraph.special.elementary import agm as agm
    from jitgraph.special.elementary import boxcox as boxcox
    from jitgraph.special.elementary import boxcox1p as boxcox1p
    from jitgraph.special.elementary import cosm1 as cosm1
    from jitgraph.special.elementary import ellipe as ellipe
    from jitgraph.special.elementary import ellipk as ellipk
    from jitgraph.special.elementary import ellipkm1 as ellipkm1
    from jitgraph.special.elementary import erfcinv as erfcinv
    from jitgraph.special.elementary import exp10 as exp10
    from jitgraph.special.elementary import exprel as exprel
    from jitgraph.special.elementary import huber as huber
    from jitgraph.special.elementary import inv_boxcox as inv_boxcox
    from jitgraph.special.elementary import inv_boxcox1p as inv_boxcox1p
    from jitgraph.special.elementary import log_expit as log_expit
    from jitgraph.special.elementary import powm1 as powm1
    from jitgraph.special.elementary import pseudo_huber as pseudo_huber
    from jitgraph.special.elementary import softplus as softplus
    from jitgraph.special.gamma_products import beta as beta
    from jitgraph.special.gamma_products import betaln as betaln
    from jitgraph.special.gamma_products import binom as binom
    from jitgraph.special.gamma_products import comb as comb
    from jitgraph.special.gamma_products import factorial as factorial
    from jitgraph.special.gamma_products import gamma as gamma
    from jitgraph.special.gamma_products import gammasgn as gammasgn
    from jitgraph.special.gamma_products import perm as perm
    from jitgraph.special.gamma_products import poch as poch
    from jitgraph.special.gamma_products import rgamma as rgamma
    from jitgraph.special.incomplete_beta import betainc as betainc
    from jitgraph.special.incomplete_gamma import gammainc as gammainc
    from jitgraph.special.incomplete_gamma import gammaincc as gammaincc
    from jitgraph.special.polynomials import chebyshev_polynomial_t as chebyshev_polynomial_t
    from jitgraph.special.polynomials import chebyshev_polynomial_u as chebyshev_polynomial_u
    from jitgraph.special.polynomials import chebyshev_polynomial_v as chebyshev_polynomial_v
    from jitgraph.special.polynomials import chebyshev_polynomial_w as chebyshev_polynomial_w
    from jitgraph.special.polynomials import hermite_polynomial_h as hermite_polynomial_h
    from jitgraph.special.polynomials import hermite_polynomial_he as hermite_polynomial_he
    from jitgraph.special.polynomials import laguerre_polynomial_l as laguerre_polynomial_l
    from jitgraph.special.polynomials import legendre_polynomial_p as legendre_polynomial_p
    from jitgraph.special.polynomials import shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t
    from jitgraph.special.polynomials import shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u
    from jitgraph.special.polynomials import shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v
    from jitgraph.special.polynomials import shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w
    from jitgraph.special.polynomials import spherical_bessel_j0 as spherical_bessel_j0
    from jitgraph.special.probabilities import bdtr as bdtr
    from jitgraph.special.probabilities import bdtrc as bdtrc
    from jitgraph.special.probabilities import betaincc as betaincc
    from jitgraph.special.probabilities import chdtr as chdtr
    from jitgraph.special.probabilities import chdtrc as chdtrc
    from jitgraph.special.probabilities import fdtr as fdtr
    from jitgraph.special.probabilities import fdtrc as fdtrc
    from jitgraph.special.probabilities import gdtr as gdtr
    from jitgraph.special.probabilities import gdtrc as gdtrc
    from jitgraph.special.probabilities import nbdtr as nbdtr
    from jitgraph.special.probabilities import nbdtrc as nbdtrc
    from jitgraph.special.probabilities import pdtr as pdtr
    from jitgraph.special.probabilities import pdtrc as pdtrc
    from jitgraph.special.probabilities import stdtr as stdtr

__all__ = [
    "agm",
    "airy_ai",
    "bdtr",
    "bdtrc",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "beta",
    "betainc",
    "betaincc",
    "betaln",
    "binom",
    "boxcox",
    "boxcox1p",
    "chdtr",
    "chdtrc",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "comb",
    "cosm1",
    "digamma",
    "ellipe",
    "ellipk",
    "ellipkm1",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp2",
    "exp10",
    "expit",
    "expm1",
    "exprel",
    "factorial",
    "fdtr",
    "fdtrc",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "gdtr",
    "gdtrc",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "huber",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "inv_boxcox",
    "inv_boxcox1p",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "lgamma",
    "log1p",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "logaddexp",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "nbdtr",
    "nbdtrc",
    "ndtr",
    "ndtri",
    "pdtr",
    "pdtrc",
    "perm",
    "poch",
    "polygamma",
    "powm1",
    "pseudo_huber",
    "psi",
    "rel_entr",
    "rgamma",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "softplus",
    "spherical_bessel_j0",
    "stdtr",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]

_BESSEL = (
    "bessel_j0 bessel_j1 bessel_y0 bessel_y1 j0 j1 k0 k0e k1 k1e modified_bessel_i0 modified_bessel_i1 "
    "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 y0 y1"
)

_POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w spherical_bessel_j0"
)

_HOMES = {
    "airy_function": "airy_ai",
    "gamma_products": "beta betaln binom comb factorial gamma gammasgn perm poch rgamma",
    "probabilities": "bdtr bdtrc betaincc chdtr chdtrc fdtr fdtrc gdtr gdtrc nbdtr nbdtrc pdtr pdtrc stdtr",
    "elementary": (
        "agm boxcox boxcox1p cosm1 ellipe ellipk ellipkm1 erfcinv exp10 exprel huber inv_boxcox inv_boxcox1p "
        "log_expit powm1 pseudo_huber softplus"
    ),
}

__dir__ = imports.listing(__name__)
__getattr__ = imports.attributes(
    "jitgraph.special",
    {"betainc": "incomplete_beta", "gammainc": "incomplete_gamma", "gammaincc": "incomplete_gamma"}
    | {name: home for home, names in _HOMES.items() for name in names.split()}
    | dict.fromkeys(_BESSEL.split(), "bessel")
    | dict.fromkeys(_POLYNOMIALS.split(), "polynomials"),
    lambda name: migration_hints.advice(name, {}, owner="jg.special"),
)


@array_function
def erfc(x: TensorLike) -> Tensor:
    """1 - erf(x), to full precision where it is small. Integers and bools are computed in float32."""
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
