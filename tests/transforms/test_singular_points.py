"""Derivatives where a formula breaks: kinks, steps, NaN, and magnitudes whose squares underflow or overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.nn import functional as F
from tests.transforms.modes import Mode, each_mode

NAN = math.nan
INF = math.inf


def gradients(mode: Mode, function: Callable[..., Any], *operands: Any, dtype: Any = np.float64) -> list[Any]:
    """Gradients of the sum by all operands, by ``backward`` and by ``jg.grad``, which agree."""
    arrays = [jg.asarray(np.asarray(x, dtype)) for x in operands]

    def total(*xs: Any) -> Any:
        return jg.sum(function(*xs))

    result = mode(jg.grad(total, argnums=tuple(range(len(arrays)))))(*arrays)
    leaves = [jg.asarray(x, requires_grad=True) for x in arrays]
    total(*leaves).backward()
    for leaf, each in zip(leaves, result, strict=True):
        np.testing.assert_array_equal(leaf.grad.numpy(), each.numpy())
    return [x.numpy() for x in result]


STEPS: dict[str, Callable[[Any], Any]] = {
    "floor": jg.floor,
    "ceil": jg.ceil,
    "round": jg.round,
    "trunc": jg.trunc,
    "sign": jg.sign,
    "x // 2": lambda x: x // 2.0,
    "2 // x": lambda x: 2.0 // x,
    "floor_divide": lambda x: jg.floor_divide(x, x + 3.0),
    "heaviside": lambda x: jg.heaviside(x, 0.5),
    "decimals": lambda x: jg.round(x, decimals=1),
}


@each_mode
@pytest.mark.parametrize("name", STEPS)
def test_steps_have_gradients_of_zero(mode: Mode, name: str) -> None:
    step = STEPS[name]
    assert gradients(mode, step, [1.5, -2.5, 0.3])[0].tolist() == [0.0, 0.0, 0.0]
    assert gradients(mode, lambda x: x * x + step(x), [1.5, -2.5])[0].tolist() == [3.0, -5.0]
    second = mode(jg.grad(lambda x: jg.sum(jg.grad(lambda x: jg.sum(step(x) * x))(x))))(jg.asarray([1.5, -2.5]))
    assert second.tolist() == [0.0, 0.0]


# the gradients of torch.amax, maximum, cummax, max_pool1d and their like (PyTorch 2.13)
EXTREMES: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "max": (jg.max, [[1.0, NAN, 3.0, NAN]], [[NAN] * 4]),
    "min": (jg.min, [[1.0, NAN, 3.0]], [[NAN] * 3]),
    "max of rows": (lambda x: jg.max(x, axis=1), [[[1.0, NAN], [3.0, 4.0]]], [[[NAN, NAN], [0.0, 1.0]]]),
    "max of equal": (jg.max, [[3.0, 1.0, 3.0]], [[0.5, 0.0, 0.5]]),
    "max of infinities": (jg.max, [[INF, 1.0]], [[1.0, 0.0]]),
    "aminmax": (lambda x: jg.aminmax(x)[0] + jg.aminmax(x)[1], [[1.0, NAN]], [[NAN, NAN]]),
    "ptp": (jg.ptp, [[1.0, NAN]], [[NAN, NAN]]),
    "inf norm": (lambda x: jg.linalg.vector_norm(x, ord=INF), [[1.0, NAN]], [[NAN, NAN]]),
    "nanmax": (jg.nanmax, [[1.0, NAN, 3.0]], [[0.0, 0.0, 1.0]]),
    "cummax": (lambda x: jg.cummax(x, 0)[0], [[1.0, NAN, 3.0, NAN]], [[1.0, 2.0, 0.0, 1.0]]),
    "cummin": (lambda x: jg.cummin(x, 0)[0], [[1.0, NAN, 3.0, NAN]], [[1.0, 2.0, 0.0, 1.0]]),
    "maximum": (
        jg.maximum,
        [[NAN, 1.0, NAN, 2.0, 3.0], [1.0, NAN, NAN, 2.0, 1.0]],
        [[1.0, 1.0, 1.0, 0.5, 1.0], [1.0, 1.0, 1.0, 0.5, 0.0]],
    ),
    "minimum": (
        jg.minimum,
        [[NAN, 1.0, NAN, 2.0, 3.0], [1.0, NAN, NAN, 2.0, 1.0]],
        [[1.0, 1.0, 1.0, 0.5, 0.0], [1.0, 1.0, 1.0, 0.5, 1.0]],
    ),
    "max_pool1d": (lambda x: F.max_pool1d(x[None, None], 2, 1), [[1.0, NAN, 3.0, NAN]], [[0.0, 2.0, 0.0, 1.0]]),
    "max_pool1d by places": (
        lambda x: F.max_pool1d(x[None, None], 2, 1, return_indices=True)[0],
        [[1.0, NAN, 3.0, NAN]],
        [[0.0, 2.0, 0.0, 1.0]],
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x[None, None], (1, 2), 1),
        [[[1.0, NAN, 3.0, 2.0]]],
        [[[0.0, 2.0, 1.0, 0.0]]],
    ),
    "adaptive_max_pool1d": (
        lambda x: F.adaptive_max_pool1d(x[None, None], 2),
        [[1.0, NAN, 3.0, NAN]],
        [[0.0, 1.0, 0.0, 1.0]],
    ),
    "sort": (lambda x: jg.sort(x) * jg.arange(4), [[1.0, NAN, 3.0, NAN]], [[0.0, 2.0, 1.0, 3.0]]),
    "logsumexp": (lambda x: jg.logsumexp(x, 0), [[1.0, NAN]], [[NAN, NAN]]),
    "relu": (F.relu, [[NAN, 0.0, 1.0]], [[1.0, 0.0, 1.0]]),
    "clip": (lambda x: jg.clip(x, 0.0, 1.0), [[0.5, 2.0, 0.0, 1.0]], [[1.0, 0.0, 1.0, 1.0]]),
}


@each_mode
@pytest.mark.parametrize("name", EXTREMES)
def test_gradients_of_extremes_among_nan_and_equal_ones(mode: Mode, name: str) -> None:
    function, operands, expected = EXTREMES[name]
    for actual, wanted in zip(gradients(mode, function, *operands), expected, strict=True):
        np.testing.assert_array_equal(actual, np.asarray(wanted))


def direction(x: float, y: float) -> tuple[np.longdouble, np.longdouble, np.longdouble]:
    a, b = np.longdouble(x), np.longdouble(y)
    return a, b, np.sqrt(a * a + b * b)


def of_hypot(x: float, y: float) -> list[Any]:
    a, b, size = direction(x, y)
    return [a / size, b / size]


def of_atan2(y: float, x: float) -> list[Any]:
    a, b, size = direction(x, y)
    return [a / size / size, -b / size / size]


def complex_of(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(jg.complex(x, y))


PLANE: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float, float], list[Any]]]] = {
    "hypot": (jg.hypot, of_hypot),
    "abs": (complex_of(jg.abs), of_hypot),
    "atan2": (jg.atan2, of_atan2),
    "angle": (lambda y, x: jg.angle(jg.complex(x, y)), of_atan2),
}
SCALES = {
    np.float32: [1e-38, 1e-30, 1e-20, 1e-3, 1.0, 1e10, 1e20, 2e38],
    np.float64: [1e-300, 1e-200, 1e-160, 1e-20, 1.0, 1e160, 1e300, 1.5e308],
}


@each_mode
@pytest.mark.parametrize("dtype", SCALES)
@pytest.mark.parametrize("name", PLANE)
def test_gradients_in_the_plane_at_every_magnitude(mode: Mode, name: str, dtype: Any) -> None:
    function, expected = PLANE[name]
    points = [
        (a * s, b * s) for s in SCALES[dtype] for a, b in [(1, 1), (-0.6, 0.8), (1, -1e-3), (0, 1), (1, 0), (-1, 0)]
    ]
    first, second = (np.asarray(each, dtype) for each in zip(*points, strict=True))
    result = gradients(mode, function, first, second, dtype=dtype)
    with np.errstate(all="ignore"):
        wanted = np.transpose([[dtype(each) for each in expected(x, y)] for x, y in zip(first, second, strict=True)])
    for left, right in zip(result, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=8 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).tiny)


@each_mode
@pytest.mark.parametrize("name", PLANE)
def test_second_derivatives_in_the_plane(mode: Mode, name: str) -> None:
    function, _ = PLANE[name]
    hessian = mode(jg.hessian(lambda z: function(z[0], z[1])))
    for scale in (1e-100, 1e-20, 1.0, 1e100):
        x, y = 0.6, -0.8
        result = hessian(jg.asarray(np.array([x, y]) * scale)).numpy()
        if name in ("hypot", "abs"):
            wanted = np.array([[y * y, -x * y], [-x * y, x * x]]) / scale
        else:  # of atan2(first, second)
            wanted = np.array([[-2 * x * y, x * x - y * y], [x * x - y * y, 2 * x * y]]) / scale / scale
        np.testing.assert_allclose(result, wanted, rtol=1e-13, atol=1e-14 * np.abs(wanted).max())


@each_mode
def test_gradients_in_the_plane_at_the_origin_and_at_infinity(mode: Mode) -> None:
    half = math.sqrt(0.5)
    for name in ("hypot", "abs"):
        result = gradients(mode, PLANE[name][0], [0.0, INF, -INF, INF, 1.0, NAN], [0.0, 1.0, 0.0, -INF, INF, 1.0])
        np.testing.assert_allclose(result, [[0, 1, -1, half, 0, NAN], [0, 0, 0, -half, 1, NAN]], rtol=1e-15)
    for name in ("atan2", "angle"):
        result = gradients(mode, PLANE[name][0], [0.0, INF, 1.0, INF, NAN], [0.0, 1.0, -INF, INF, 1.0])
        np.testing.assert_array_equal(result, [[0, 0, 0, 0, NAN], [0, 0, 0, 0, NAN]])
    assert gradients(mode, jg.angle, [0.0, -2.0, 3.0])[0].tolist() == [0.0, 0.0, 0.0]


@each_mode
@pytest.mark.parametrize(
    "shapes", [((4, 1, 3), (5, 3), -1), ((3, 1), (3, 4), 1), ((3,), (2, 3), 1), ((2, 3), (1, 3), 0)]
)
def test_cosine_similarity_of_shapes_that_broadcast(mode: Mode, shapes: Any) -> None:
    left, right, dim = shapes
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    result = mode(lambda a, b: F.cosine_similarity(a, b, dim))(jg.asarray(a), jg.asarray(b)).numpy()
    wide_a, wide_b = np.broadcast_arrays(a, b)
    norms = np.linalg.norm(wide_a, axis=dim) * np.linalg.norm(wide_b, axis=dim)
    np.testing.assert_allclose(result, (wide_a * wide_b).sum(dim) / norms, rtol=1e-14)


# p: the norm of (3, 0, -4) and of (3, 2, -4), their gradients (PyTorch's vector_norm)
NORMS: dict[float, tuple[float, list[float], float, list[float]]] = {
    0: (2.0, [0, 0, 0], 3.0, [0, 0, 0]),
    1: (7.0, [1, 0, -1], 9.0, [1, 1, -1]),
    2: (5.0, [0.6, 0, -0.8], math.sqrt(29), [3 / math.sqrt(29), 2 / math.sqrt(29), -4 / math.sqrt(29)]),
    -1: (0.0, [0, 0, 0], 12 / 13, [16 / 169, 36 / 169, -9 / 169]),
    INF: (4.0, [0, 0, -1], 4.0, [0, 0, -1]),
    -INF: (0.0, [0, 0, 0], 2.0, [0, 1, 0]),
}


@each_mode
@pytest.mark.parametrize("p", NORMS)
def test_norms_of_every_order(mode: Mode, p: float) -> None:
    with_zero, slopes_with_zero, without, slopes = NORMS[p]
    forms: list[Callable[[Any], Any]] = [
        lambda x: jg.linalg.vector_norm(x, ord=p),
        lambda x: F.pairwise_distance(x, x.detach() * 0.0, p=p, eps=0.0),
        lambda x: jg.dist(x, x.detach() * 0.0, p),
    ]
    for form in forms:
        for x, value, gradient in (([3, 0, -4], with_zero, slopes_with_zero), ([3, 2, -4], without, slopes)):
            np.testing.assert_allclose(mode(form)(jg.asarray(np.array(x, float))).numpy(), value, rtol=1e-15)
            if p or form is forms[0]:  # a count depends on nothing
                np.testing.assert_allclose(gradients(mode, form, x)[0], gradient, rtol=1e-14, atol=1e-300)
    x = jg.asarray(np.array([[3.0, 2.0, -4.0]]))
    np.testing.assert_allclose(
        mode(lambda x: F.normalize(x, p))(x).numpy()[0], np.array([3, 2, -4]) / without, rtol=1e-15
    )


@each_mode
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_power_pools_of_infinite_order_are_greatest_elements(mode: Mode, spatial: int) -> None:
    pool, greatest = (getattr(F, f"{name}_pool{spatial}d") for name in ("lp", "max"))
    x = jg.asarray(np.random.default_rng(0).standard_normal((1, 2, *(4,) * spatial)))
    assert mode(lambda x: pool(x, INF, 2))(x).tolist() == greatest(x, 2).tolist()
    with pytest.raises(jg.JitgraphError, match="root"):
        pool(x, 0, 2)
