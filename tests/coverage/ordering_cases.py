"""Quantiles, medians, counts, integrals, slopes, covariances."""

from __future__ import annotations

import numpy as np

from tests.coverage.case import case, integers, positive

M, N = (3, 5), (2, 3, 4)
HOLES = np.where(np.arange(15).reshape(3, 5) % 4 == 2, np.nan, np.sin(np.arange(15.0)).reshape(3, 5))
Q = np.array([0.0, 0.3, 0.5, 0.9, 1.0])
PLACES = np.cumsum(np.arange(1.0, 6))
COUNTS = np.array([1, 2, 1, 3, 1])
ENDS = np.array([-1.0, 0.0, 0.25, 1.0])

CASES = [
    case("sort", lambda m, x: m.sort(x, 1), lambda t, x: t.sort(x, 1)[0], M),
    case("sort, descending", lambda m, x: m.sort(x, 0, descending=True), lambda t, x: t.sort(x, 0, True)[0], M),
    case("argsort", lambda m, x: m.argsort(x, 1), None, M),
    case("msort", lambda m, x: m.msort(x), None, M),
    case("topk", lambda m, x: m.topk(x, 2, 1), lambda t, x: tuple(t.topk(x, 2, 1)), M),
    case("topk, smallest", lambda m, x: m.topk(x, 2, 0, False), lambda t, x: tuple(t.topk(x, 2, 0, False)), M),
    case("kthvalue", lambda m, x: m.kthvalue(x, 2, 1), lambda t, x: tuple(t.kthvalue(x, 2, 1)), M),
    case("median", lambda m, x: m.median(x), None, M),
    case("median, axis", lambda m, x: m.median(x, 1, keepdims=True), lambda t, x: tuple(t.median(x, 1, True)), M),
    case("median of an even number", lambda m, x: m.median(x, 0), lambda t, x: tuple(t.median(x, 0)), (4, 3)),
    case("nanmedian, axis", lambda m, x: m.nanmedian(x, 1), lambda t, x: tuple(t.nanmedian(x, 1)), HOLES),
    case("nanmedian", lambda m, x: m.nanmedian(x), None, HOLES),
    case("mode", lambda m, x: m.mode(x, 1)[0], lambda t, x: t.mode(x, 1)[0], integers((3, 9), 0, 4)),
    case("quantile", lambda m, x: m.quantile(x, 0.3), None, M),
    case("quantile, NaN", lambda m, x: m.quantile(x, 0.3, 1), None, HOLES, gradient=False),
    case("nanquantile", lambda m, x: m.nanquantile(x, 0.3, 1), None, HOLES),
    *(
        case(f"quantile, {how}", lambda m, x, how=how: m.quantile(x, m.asarray(Q), 1, interpolation=how), None, N)
        for how in ("linear", "lower", "higher", "midpoint", "nearest")
    ),
    case("bucketize", lambda m, x: m.bucketize(x, m.asarray(ENDS)), None, M),
    case("bucketize, right", lambda m, x: m.bucketize(x, m.asarray(ENDS), right=True), None, np.array([-1.0, 0.25, 2])),
    case("bincount", lambda m, x: m.bincount(x, minlength=9), None, integers((20,), 0, 7), traced=False),
    case(
        "bincount, weights",
        lambda m, x, w: m.bincount(x, w),
        None,
        integers((9,), 0, 4),
        (9,),
        traced=False,
        gradient=False,
    ),
    case("histc", lambda m, x: m.histc(x, 4, -1, 1), None, (30,)),
    case("histc of the range", lambda m, x: m.histc(x, 5), None, (30,)),
    case(
        "histogram",
        lambda m, x: m.histogram(x, 5, range=(-1.0, 2.0)),
        lambda t, x: tuple(t.histogram(x.detach(), 5, range=(-1.0, 2.0))),
        (30,),
    ),
    case(
        "histogram, density",
        lambda m, x: m.histogram(x, m.asarray(ENDS), density=True)[0],
        lambda t, x: t.histogram(x.detach(), t.asarray(ENDS), density=True)[0],
        (30,),
    ),
    case("trapezoid", lambda m, y: m.trapezoid(y, dx=0.5), None, M),
    case("trapezoid, places", lambda m, y, x: m.trapezoid(y, x), None, M, (5,)),
    case("cumulative_trapezoid", lambda m, y, x: m.cumulative_trapezoid(y, x), None, M, (5,)),
    case("gradient", lambda m, x: m.gradient(x), None, M),
    case(
        "gradient, second order ends",
        lambda m, x: m.gradient(x, axis=1, edge_order=2),
        lambda t, x: t.gradient(x, dim=1, edge_order=2)[0],
        M,
    ),
    case(
        "gradient, places",
        lambda m, x: m.gradient(x, m.asarray(PLACES), axis=1),
        lambda t, x: t.gradient(x, spacing=(t.asarray(PLACES),), dim=1)[0],
        M,
    ),
    case("cov", lambda m, x: m.cov(x), None, M),
    case("cov, weights", lambda m, x, w: m.cov(x, fweights=m.asarray(COUNTS), aweights=w), None, M, positive((5,))),
    case("cov of a vector", lambda m, x: m.cov(x, correction=0), None, (5,)),
    case("corrcoef", lambda m, x: m.corrcoef(x), None, M),
    case("logcumsumexp", lambda m, x: m.logcumsumexp(x, 1), None, M),
    case("logcumsumexp, axis 0", lambda m, x: m.logcumsumexp(x * 500, 0), None, M, second=False),
    case("cummax", lambda m, x: m.cummax(x, 1), lambda t, x: tuple(t.cummax(x, 1)), M),
    case("cummin", lambda m, x: m.cummin(x, 0), lambda t, x: tuple(t.cummin(x, 0)), M),
    case("cumsum", lambda m, x: m.cumsum(x, 1), None, M),
    case("cumprod", lambda m, x: m.cumprod(x, 1), None, M),
]
