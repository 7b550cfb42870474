"""Quantiles, counts, slopes, padding, images and special functions: values by NumPy, by hand or known to be exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.nn import functional as F

NAN, INF = np.nan, np.inf
M = np.array([[3.0, -1.0, 4.0, 1.5], [2.0, NAN, -6.0, 5.0]])
K = np.array([[3, 1, 2, 1, 3], [5, 5, 0, 0, 7]])
V = np.array([0.0, 1.0, 3.0, 7.0, 4.0])
B = np.array([1.0, -2.0, 0.5, 4.0])
WIDTHS = ((1, 7), (9, 0))
Q = [0.0, 0.25, 0.4, 1.0]
S = jg.special
IMAGE = np.arange(24.0).reshape(1, 2, 3, 4)
LINE = np.arange(1.0, 33).reshape(1, 1, 1, 32)
Table = dict[str, tuple[Callable[[], Any], Any]]


def _of_numpy() -> Table:
    results: Table = {}
    for how in ("linear", "lower", "higher", "midpoint"):
        results[f"quantile {how}"] = (
            lambda how=how: jg.quantile(V, np.array(Q), interpolation=how),
            np.quantile(V, Q, method=how),
        )
    for mode in ("reflect", "edge", "wrap", "symmetric"):
        results[f"pad_{mode}"] = (lambda mode=mode: jg.pad(M, WIDTHS, mode=mode), np.pad(M, WIDTHS, mode))
    for mode in ("full", "same", "valid"):
        results[f"convolve {mode}"] = (lambda mode=mode: jg.convolve(V, B, mode), np.convolve(V, B, mode))
        results[f"correlate {mode}"] = (lambda mode=mode: jg.correlate(V, B, mode), np.correlate(V, B, mode))
    return results


PLACES = np.array([0.0, 0.5, 2.0, 3.0, 6.0])
TABLE: Table = {
    **_of_numpy(),
    "quantile of a number": (lambda: jg.quantile(M[0], 0.5), np.median(M[0])),
    "quantile_beside_nan": (lambda: jg.quantile(M, 0.5, 1, keepdims=True), np.array([[2.25], [NAN]])),
    "nanquantile": (lambda: jg.nanquantile(M, np.array(Q), 1), np.nanquantile(M, Q, 1)),
    "nanquantile of NaN": (lambda: jg.nanquantile(np.array([NAN, NAN]), 0.5), np.float64(NAN)),
    "quantile of infinities": (lambda: jg.quantile(np.array([INF, INF, 1.0]), 0.75), np.float64(INF)),
    "quantile of integers": (lambda: jg.quantile(K[0], 0.5), np.float32(2)),
    "median": (lambda: jg.median(M[0]), np.float64(1.5)),
    "median along": (lambda: jg.median(M, 1), (np.array([1.5, NAN]), np.array([3, 1]))),
    "nanmedian": (lambda: jg.nanmedian(M, 1), (np.array([1.5, 2.0]), np.array([3, 0]))),
    "mode": (lambda: jg.mode(K, 1), (np.array([1, 0]), np.array([3, 3]))),
    "kthvalue": (lambda: jg.kthvalue(K, 2, 1, keepdims=True), (np.array([[1], [0]]), np.array([[3], [3]]))),
    "msort": (lambda: jg.msort(K), np.sort(K, 0)),
    "bucketize": (lambda: jg.bucketize(np.array([-1, 0.0, 0.5, 7, 9, NAN]), np.sort(V)), np.array([0, 0, 1, 4, 5, 5])),
    "bucketize right": (lambda: jg.bucketize(np.array([-1, 0.0, 7]), np.sort(V), right=True), np.array([0, 1, 5])),
    "bincount": (lambda: jg.bincount(K[1], length=9), np.bincount(K[1], minlength=9)),
    "bincount weights": (lambda: jg.bincount(K[0], V, length=4), np.bincount(K[0], V)),
    "histc": (lambda: jg.histc(np.array([-1.0, 0.0, 0.5, 2.0, 2.1, NAN]), 2, 0, 2), np.array([2.0, 1.0])),
    "histogram": (lambda: jg.histogram(V, 3), tuple(x.astype(float) for x in np.histogram(V, 3))),
    "histogram edges": (lambda: jg.histogram(V, np.array([0.0, 1.0, 4.0]))[0], np.array([1.0, 3.0])),
    "histogram of one value": (lambda: jg.histogram(np.full(3, 2.0), 2)[1], np.array([1.5, 2.0, 2.5])),
    "trapezoid": (lambda: jg.trapezoid(V, PLACES), np.float64(24.75)),
    "cumulative_trapezoid": (lambda: jg.cumulative_trapezoid(V, dx=2.0), np.array([1.0, 5.0, 15.0, 26.0])),
    "gradient": (lambda: tuple(jg.gradient(K * 1.0, edge_order=1)), tuple(np.gradient(K * 1.0))),
    "gradient at places": (lambda: jg.gradient(V, PLACES, edge_order=2), np.gradient(V, PLACES, edge_order=2)),
    "interp": (
        lambda: jg.interp(np.array([-1.0, 0.0, 0.25, 2.5, 6.0, 7.0, NAN]), PLACES, V),
        np.interp([-1.0, 0.0, 0.25, 2.5, 6.0, 7.0, NAN], PLACES, V),
    ),
    "interp beyond": (lambda: jg.interp(np.array([-1.0, 9.0]), PLACES, V, left=-5.0, right=NAN), np.array([-5.0, NAN])),
    "interp one point": (lambda: jg.interp(np.array([-1.0, 9.0]), V[:1], V[:1] + 2), np.array([2.0, 2.0])),
    "convolve of integers": (lambda: jg.convolve(K[0], K[1]), np.convolve(K[0], K[1])),
    "cov": (lambda: jg.cov(K * 1.0, aweights=V), np.cov(K * 1.0, aweights=V)),
    "corrcoef": (lambda: jg.corrcoef(K * 1.0), np.corrcoef(K * 1.0)),
    "logcumsumexp": (
        lambda: jg.logcumsumexp(np.array([-INF, 700.0, 700.0, -800.0]), 0),
        np.array([-INF, 700, 700 + math.log(2), 700 + math.log(2)]),
    ),
    "pad of PyTorch": (
        lambda: F.pad(IMAGE, (1, 2, 0, 1), mode="circular"),
        np.pad(IMAGE, ((0, 0),) * 2 + ((0, 1), (1, 2)), "wrap"),
    ),
    "nearest": (lambda: F.interpolate(IMAGE, scale_factor=2), IMAGE.repeat(2, 2).repeat(2, 3)),
    "area": (
        lambda: F.interpolate(IMAGE[:, :, :2], (1, 2), mode="area"),
        IMAGE[:, :, :2].reshape(1, 2, 2, 2, 2).mean((2, 4))[:, :, None],
    ),
    "bilinear corners": (
        lambda: F.interpolate(np.array([[[[0.0, 2.0], [4.0, 6.0]]]]), 3, mode="bilinear", align_corners=True),
        np.arange(0.0, 3)[None, None, None, :] + 2 * np.arange(0.0, 3)[None, None, :, None],
    ),
    "antialias of a line keeps it inside": (
        lambda: F.interpolate(LINE, (1, 8), mode="bicubic", antialias=True)[..., 3:5],
        np.array([14.5, 18.5])[None, None, None],
    ),
    "antialias-by-triangles": (
        lambda: F.interpolate(LINE[..., :4], (1, 2), mode="bilinear", antialias=True),
        np.array([(0.75 * 1 + 0.75 * 2 + 0.25 * 3) / 1.75, (0.25 * 2 + 0.75 * 3 + 0.75 * 4) / 1.75])[None, None, None],
    ),
    "Lanczos of a constant": (
        lambda: F.interpolate(LINE * 0 + 3, (3, 7), mode="lanczos", antialias=True),
        np.full((1, 1, 3, 7), 3.0),
    ),
    "area-beside-an-infinity": (
        lambda: F.interpolate(np.array([[[INF, 1.0, 1.0, 1.0, NAN]]]), 3, mode="area"),
        np.array([[[INF, 1.0, NAN]]]),
    ),
    "grid_sample of the identity": (
        lambda: F.grid_sample(IMAGE, F.affine_grid(np.eye(2, 3)[None], (1, 2, 3, 4)), mode="nearest"),
        IMAGE,
    ),
    "fold of unfold counts": (
        lambda: F.fold(F.unfold(np.ones((1, 1, 3, 3)), 2), 3, 2),
        np.array([[[[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]]]),
    ),
    "pixel_shuffle": (
        lambda: F.pixel_shuffle(np.arange(8.0).reshape(1, 4, 1, 2), 2),
        np.array([[[[0.0, 2, 1, 3], [4, 6, 5, 7]]]]),
    ),
    "pixel_unshuffle": (
        lambda: F.pixel_unshuffle(F.pixel_shuffle(np.arange(8.0).reshape(1, 4, 1, 2), 2), 2),
        np.arange(8.0).reshape(1, 4, 1, 2),
    ),
    "i0": (
        lambda: S.i0(np.array([0.0, 1.0, -20.0, INF, NAN])),
        np.array([1.0, 1.2660658777520084, 43558282.55955353, INF, NAN]),
    ),
    "i1e": (lambda: S.i1e(np.array([0.0, -2.0, 1e300])), np.array([0.0, -0.21526928924893771, 3.989422804014327e-151])),
    "sinc": (lambda: S.sinc(np.array([0.0, 1.0, -0.5, 1e15])), np.array([1.0, 0.0, 2 / math.pi, 0.0])),
    "erfcx": (lambda: S.erfcx(np.array([0.0, 1e10, -INF, INF])), np.array([1.0, 5.641895835477563e-11, INF, 0.0])),
    "ndtr": (lambda: S.ndtr(np.array([0.0, -38.0, -INF, INF])), np.array([0.5, 2.8854283600687843e-316, 0.0, 1.0])),
    "log_ndtr": (lambda: S.log_ndtr(np.array([-1e8, 0.0, 40.0])), np.array([-5e15, -math.log(2), 0.0])),
    "ndtri": (
        lambda: S.ndtri(np.array([0.0, 0.5, 0.975, 1e-300, 1.0, 2.0])),
        np.array([-INF, 0.0, 1.959963984540054, -37.0471, INF, NAN]),
    ),
    "entr": (lambda: S.entr(np.array([0.0, 1.0, -1.0, NAN])), np.array([0.0, 0.0, -INF, NAN])),
    "rel_entr": (lambda: S.rel_entr(np.array([0.0, 2.0, 1.0]), np.array([0.0, 2.0, 0.0])), np.array([0.0, 0.0, INF])),
    "kl_div": (lambda: S.kl_div(np.array([0.0, 2.0]), np.array([3.0, 2.0])), np.array([3.0, 0.0])),
    "xlog1py": (lambda: S.xlog1py(np.array([0.0, 2.0]), np.array([-1.0, 0.0])), np.array([0.0, 0.0])),
    "betaln": (lambda: S.betaln(2.0, np.array([3.0])), np.array([-math.log(12)])),
    "multigammaln": (
        lambda: S.multigammaln(np.array([2.5, 0.4]), 2),
        np.array([math.log(math.sqrt(math.pi) * math.gamma(2.5)), NAN]),
    ),
    "zeta": (
        lambda: S.zeta(np.array([2.0, 4.0, 1.0, 0.5]), 1.0),
        np.array([math.pi**2 / 6, math.pi**4 / 90, INF, NAN]),
    ),
}


def _parts(actual: Any) -> tuple[Any, ...]:
    return tuple(actual) if isinstance(actual, tuple | list) else (actual,)


@pytest.mark.parametrize("name", TABLE)
def test_values(name: str) -> None:
    call, expected = TABLE[name]
    rough = 1e-6 if name == "ndtri" else 5e-15
    for run in (call, jg.trace(lambda: _parts(call()))):
        for actual, wanted in zip(_parts(run()), _parts(expected), strict=True):
            wanted = np.asarray(wanted)
            assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(actual.numpy(), wanted, rtol=rough, atol=1e-15)


def test_slopes_of_quantiles_are_nan_in_rows_with_nan_alone() -> None:
    x = jg.asarray(np.array([[3.0, 1.0, 2.0, 5.0], [1.0, NAN, 2.0, 3.0]]))
    slope = jg.grad(lambda x: jg.quantile(x, 0.5, 1).sum())
    for derivative in (slope, jg.trace(slope)):
        slopes = derivative(x).numpy()
        np.testing.assert_array_equal(slopes[0], [0.5, 0.0, 0.5, 0.0])
        assert np.isnan(slopes[1]).any()


@pytest.mark.parametrize(
    ("function", "at", "first", "second"),
    [
        (S.i0, 0.0, 0.0, 0.5),
        (S.i1, 0.0, 0.5, 0.0),
        (S.sinc, 0.0, 0.0, -(math.pi**2) / 3),
        (S.ndtri, 0.5, math.sqrt(2 * math.pi), 0.0),
        (S.log_ndtr, -1e4, 1e4, -1.0),
        (lambda x: jg.quantile(jg.stack([x, 2 * x, 5 * x]), 0.75), 1.0, 3.5, 0.0),
        (lambda x: jg.logcumsumexp(jg.stack([x, -x]), 0)[1], 0.0, 0.0, 1.0),
        (lambda x: jg.interp(x, PLACES, V), 4.5, -1.0, 0.0),
    ],
)
def test_derivatives(function: Any, at: float, first: float, second: float) -> None:
    slope = jg.grad(lambda x: function(x).sum())
    x = jg.asarray(np.float64(at))
    np.testing.assert_allclose(slope(x).item(), first, rtol=1e-7, atol=1e-15)
    np.testing.assert_allclose(jg.trace(jg.grad(slope))(x).item(), second, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: jg.quantile(V, 1.5), ValueError, "q lies between 0 and 1"),
        (lambda: jg.quantile(V, 0.5, interpolation="best"), jg.JitgraphError, "none of linear"),
        (lambda: jg.median(np.zeros((0,))), jg.ShapeError, "no elements"),
        (lambda: jg.kthvalue(V, 6), jg.ShapeError, "between 1 and the 5"),
        (lambda: jg.bincount(K[1], length=7), IndexError, "out of range"),
        (lambda: jg.bincount(np.array([-1]), length=3), IndexError, "out of range"),
        (lambda: jg.pad(M, 1, mode="mirror"), jg.JitgraphError, "none of constant"),
        (lambda: jg.pad(np.zeros((0, 2)), 1, mode="edge"), jg.ShapeError, "axis 0"),
        (lambda: jg.pad(M, ((1, -1), (0, 0))), jg.ShapeError, "negative"),
        (lambda: jg.convolve(V, V, "best"), jg.JitgraphError, "none of full"),
        (lambda: jg.gradient(V[:1]), jg.ShapeError, "at least 2"),
        (lambda: F.interpolate(IMAGE, 2, mode="nearest", antialias=True), jg.JitgraphError, "takes no antialias"),
        (lambda: F.interpolate(IMAGE, 2, mode="lanczos"), jg.JitgraphError, "takes antialias=True"),
        (lambda: F.interpolate(IMAGE, 2, mode="linear"), jg.ShapeError, "2 spatial axes"),
        (lambda: F.fold(np.ones((1, 4, 3)), 3, 2), jg.ShapeError, "4 windows of 4"),
        (lambda: F.grid_sample(IMAGE, IMAGE), jg.ShapeError, "grid_sample of"),
    ],
)
def test_errors(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_a_bincount_in_a_trace_needs_its_length() -> None:
    with pytest.raises(jg.UnsupportedOp, match="hint: give length="):
        jg.trace(jg.bincount)(K[0])


def test_named_sizes() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def run(x: Any) -> Any:
        both = jg.median(x), jg.quantile(x, 0.3), jg.nanmedian(x), jg.pad(x, 2, mode="reflect"), jg.trapezoid(x)
        return *both, jg.gradient(x), jg.logcumsumexp(x, 0)

    for n in (5, 8):
        x = np.sin(np.arange(float(n)))
        results = [tensor.numpy() for tensor in run(x)]
        middle = np.sort(x)[(n - 1) // 2]
        area = np.sum((x[1:] + x[:-1]) / 2)
        sums = np.log(np.cumsum(np.exp(x)))
        wanted = [middle, np.quantile(x, 0.3), middle, np.pad(x, 2, "reflect"), area, np.gradient(x), sums]
        for one, other in zip(results, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    assert run.cache_info().misses == 1


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bins_over_elements_that_are_not_finite(bad: float, traced: bool) -> None:
    """Every count was 0."""
    x = np.array([1.0, bad, 3.0])
    run = jg.trace(jg.histogram) if traced else jg.histogram
    with pytest.raises(ValueError, match="histogram: an element is not finite, and no range is given"):
        run(x)
    with pytest.raises(ValueError, match="an element is not finite"):
        jg.histc(jg.asarray(x), 4)
    counts, _ = jg.histogram(x, 2, range=(0.0, 4.0))
    np.testing.assert_array_equal(counts.numpy(), [1, 1])


@pytest.mark.parametrize("far", [3, -3, 2**70, -(2**70)])
def test_diagonals_beyond_a_matrix_and_differences_of_nothing_are_empty(far: int) -> None:
    matrix = np.ones((2, 3, 3))
    assert jg.linalg.diagonal(matrix, offset=far).shape == (2, 0)
    assert jg.linalg.trace(matrix, offset=far).numpy().tolist() == [0, 0]
    assert jg.diff(V, n=abs(far) + 5).shape == (0,)
