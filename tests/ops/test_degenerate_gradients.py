"""Gradients at points without a slope or a direction: constants, zeros, rows of which nothing may be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.nn import functional
from jitgraph.nn.utils import clip_grad_norm_

WEIGHTS = jg.asarray(np.arange(12.0).reshape(3, 4) - 4.0)
NORMS = (0.5, 1.0, 1.5, 2.0, 3.0, math.inf)


def along(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The derivative of the gradient of ``f`` along a direction."""
    direction = jg.asarray(np.sin(np.arange(12.0)).reshape(3, 4))
    return jg.grad(lambda x: (jg.grad(f)(x) * direction).sum())


def ways(f: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """A derivative eagerly, recorded as a whole, and recorded before it is differentiated."""
    return [jg.grad(f), jg.trace(jg.grad(f)), jg.grad(jg.trace(f))]


FLAT: dict[str, Callable[[Any], Any]] = {
    "std": lambda x: x.std(),
    "std of rows": lambda x: (x.std(axis=1, correction=1) * jg.arange(3.0)).sum(),
    "std of columns": lambda x: (jg.std(x, axis=0) ** 2 + jg.std(x, axis=0)).sum(),
}


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("constant", [0.0, 3.0, -0.5, 0.1])
@pytest.mark.parametrize("dtype", [jg.float32, jg.float64])
def test_std_of_a_constant(name: str, constant: float, dtype: Any) -> None:
    """0.1 has a mean that rounds: what is left of the gradient is of the size of the rounding."""
    x = jg.full((3, 4), constant, dtype=dtype)
    for derivative in ways(FLAT[name]):
        np.testing.assert_allclose(derivative(x).numpy(), 0.0, atol=0.0 if constant != 0.1 else 1e-5)
    if constant != 0.1:
        second = along(lambda x: FLAT[name](x.astype(jg.float64)))
        for derivative in (second, jg.trace(second)):
            np.testing.assert_array_equal(derivative(x.astype(jg.float64)).numpy(), 0.0)


def test_std_of_rows_some_of_which_are_constant() -> None:
    array = np.array([[1.0, 2.0, 4.0, 8.0], [5.0, 5.0, 5.0, 5.0], [0.0, 1.0, 0.0, 1.0]])
    for derivative in ways(lambda x: x.std(axis=1).sum()):
        result = derivative(jg.asarray(array)).numpy()
        left = array - array.mean(axis=1, keepdims=True)
        spread = np.where(array.std(axis=1) == 0, 1.0, array.std(axis=1))
        np.testing.assert_allclose(result, left / (4 * spread[:, None]), atol=1e-15)


def test_half_precision_std_of_a_constant() -> None:
    for dtype in (jg.float16, jg.bfloat16):
        for derivative in ways(lambda x: x.std()):
            np.testing.assert_array_equal(derivative(jg.full((7,), 2.0, dtype=dtype)).astype(jg.float32).numpy(), 0.0)


@pytest.mark.parametrize("p", NORMS)
def test_normalize_at_zero(p: float) -> None:
    """|x| below eps divides by eps: the gradient is the weights over eps, and nothing curves."""
    f = lambda x: (functional.normalize(x, p=p, dim=1, eps=1e-3) * WEIGHTS).sum()
    zeros = jg.zeros((3, 4), dtype=jg.float64)
    for derivative in ways(f):
        np.testing.assert_allclose(derivative(zeros).numpy(), WEIGHTS.numpy() * 1e3, rtol=1e-12)
    for derivative in (along(f), jg.trace(along(f))):
        np.testing.assert_array_equal(derivative(zeros).numpy(), 0.0)


@pytest.mark.parametrize("p", NORMS)
def test_normalize_with_zeros_in_a_row(p: float) -> None:
    """At elements of 0 the size has no slope; elsewhere the gradient is that of differences."""
    array = np.array([[1.0, -2.0, 0.0, 0.5], [0.0, 0.0, 3.0, 0.0], [1.0, 2.0, -3.0, 4.0]])
    f = lambda x: (functional.normalize(x, p=p, dim=1) * WEIGHTS).sum()
    results = [derivative(jg.asarray(array)).numpy() for derivative in ways(f)]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-12, atol=1e-14)
    assert np.isfinite(results[0]).all()
    for position in zip(*np.nonzero(array), strict=True):
        up, down = array.copy(), array.copy()
        up[position] += 1e-6
        down[position] -= 1e-6
        slope = (f(jg.asarray(up)) - f(jg.asarray(down))).item() / 2e-6
        assert results[0][position] == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("p", NORMS)
def test_normalize_is_the_formula(p: float) -> None:
    x = np.random.default_rng(0).normal(size=(3, 5))
    size = np.abs(x).max(1, keepdims=True) if p == math.inf else (np.abs(x) ** p).sum(1, keepdims=True) ** (1 / p)
    np.testing.assert_allclose(functional.normalize(jg.asarray(x), p=p).numpy(), x / size, rtol=1e-12)


def test_a_norm_that_is_none_is_refused() -> None:
    with pytest.raises(jg.JitgraphError, match="hint: p is a number"):
        functional.normalize(jg.ones((2, 2)), p=math.nan)


def test_cosine_similarity_at_zero() -> None:
    f = lambda x: functional.cosine_similarity(x, WEIGHTS, eps=1e-3).sum()
    size = np.sqrt((WEIGHTS.numpy() ** 2).sum(1, keepdims=True))
    zeros = jg.zeros((3, 4), dtype=jg.float64)
    for derivative in ways(f):
        np.testing.assert_allclose(derivative(zeros).numpy(), WEIGHTS.numpy() / (size * 1e-3), rtol=1e-12)
    for derivative in (along(f), jg.trace(along(f))):
        np.testing.assert_array_equal(derivative(zeros).numpy(), 0.0)


def test_hypot_at_the_origin() -> None:
    f = lambda x: jg.hypot(x, 2 * x).sum()
    zeros = jg.zeros((3, 4), dtype=jg.float64)
    for derivative in (*ways(f), along(f), jg.trace(along(f))):
        np.testing.assert_array_equal(derivative(zeros).numpy(), 0.0)


def test_clipping_gradients_of_zero() -> None:
    p = jg.nn.Parameter(jg.ones((3,)))
    p.grad = jg.zeros((3,))
    assert clip_grad_norm_([p], 1.0).item() == 0.0
    np.testing.assert_array_equal(p.grad.numpy(), 0.0)


# --- where branches meet --------------------------------------------------------------------------------------------

SPECIAL = jg.special
MEETINGS: dict[str, tuple[Callable[[Any], Any], list[float], Callable[[Any], Any]]] = {
    # a function, places, and its slope there
    "erfcx": (SPECIAL.erfcx, [0.0, -0.0], lambda x: x * 0 - 2 / math.sqrt(math.pi)),
    "ndtr": (SPECIAL.ndtr, [-1.0, 1.0], lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "log_ndtr": (
        SPECIAL.log_ndtr,
        [-1.0, 1.0],
        lambda x: (
            np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / np.where(x > 0, 0.8413447460685429, 0.15865525393145707)
        ),
    ),
    "xlogy": (lambda x: SPECIAL.xlogy(x, jg.asarray([0.5, 3.0])), [0.0, -0.0], lambda x: np.log([0.5, 3.0])),
    "xlog1py": (lambda x: SPECIAL.xlog1py(x, jg.asarray([-0.5, 3.0])), [0.0, -0.0], lambda x: np.log([0.5, 4.0])),
    "entr": (SPECIAL.entr, [0.0, -0.0], lambda x: x * 0 + math.inf),
    "rel_entr": (lambda x: SPECIAL.rel_entr(x, jg.asarray([0.5, 3.0])), [0.0, -0.0], lambda x: x * 0 - math.inf),
    "ndtri": (SPECIAL.ndtri, [0.0, 1.0, 0.5], lambda x: np.where(x == 0.5, math.sqrt(2 * math.pi), math.inf)),
    "i1": (SPECIAL.i1, [0.0, 5e-324, -5e-324, 1e-310], lambda x: x * 0 + 0.5),
    "i1e": (SPECIAL.i1e, [0.0, 5e-324, -5e-324, 1e-310], lambda x: x * 0 + 0.5),
    "erfcx far below": (
        SPECIAL.erfcx,
        [-26.63, -27.5, -29.0, -30.0, -31.0, -1e8, -1e300, -math.inf],
        lambda x: -abs(x) * math.inf,
    ),
    "entr outside": (SPECIAL.entr, [-1.0, -1e-300], lambda x: abs(x) * math.inf),
    "rel_entr outside": (lambda x: SPECIAL.rel_entr(x, jg.asarray([1.0, 1.0])), [-1.0, -2.0], lambda x: x * math.inf),
    "kl_div by y at 0": (
        lambda y: SPECIAL.kl_div(jg.asarray([1.0, 2.0]), y),
        [0.0, -1.0],
        lambda y: -abs(y + 2) * math.inf,
    ),
    "ndtri outside": (SPECIAL.ndtri, [-0.5, 2.0], lambda x: x * math.nan),
    "logit outside": (SPECIAL.logit, [-0.5, 2.0], lambda x: x * math.nan),
    "copysign": (lambda x: jg.copysign(x, -1.0), [0.0, -0.0, 2.0, -2.0], lambda x: -np.sign(x)),
    "clip": (lambda x: jg.clip(x, jg.asarray(-1.0), jg.asarray(1.0)), [-1.0, 0.0, 1.0, 2.0], lambda x: abs(x) <= 1),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_slopes_where_branches_meet(name: str) -> None:
    function, positions, slope = MEETINGS[name]
    x = np.array(positions)
    due = np.asarray(slope(x), dtype=np.float64)
    for derivative in ways(lambda x: function(x).sum()):
        np.testing.assert_allclose(derivative(jg.asarray(x)).numpy(), due, rtol=1e-13)


def test_second_order_of_x_log_y_at_zero() -> None:
    x, y = jg.asarray(np.zeros(3)), jg.asarray(np.array([0.5, 1.0, 4.0]))
    mixed = jg.grad(lambda y: jg.grad(lambda x: SPECIAL.xlogy(x, y).sum())(x).sum())
    np.testing.assert_allclose(mixed(y).numpy(), [2.0, 1.0, 0.25])


def test_products_with_logarithms_promote_numbers() -> None:
    x = np.array([0.0, 1.0, 2.0])
    for function, log in ((SPECIAL.xlogy, np.log), (SPECIAL.xlog1py, np.log1p)):
        np.testing.assert_allclose(function(jg.asarray(x), 3.0).numpy(), x * log(3.0), rtol=1e-15)
        assert not np.signbit(function(jg.asarray(x), -0.5).numpy()[0])
        np.testing.assert_array_equal(function(jg.asarray([0.0] * 3), jg.asarray([0.0, math.inf, -3.0])).numpy(), 0.0)


def test_bounds_that_vary_have_the_gradient_of_fixed_ones() -> None:
    x = jg.asarray(np.array([-1.0, 0.0, 1.0]))
    slope = lambda x, low: jg.grad(lambda x: jg.clip(x, low, 1.0).sum())(x)
    traced = jg.trace(slope)
    for low in (-1.0, -2.0, 0.0, -1.0):
        np.testing.assert_array_equal(traced(x, low).numpy(), slope(x, low).numpy())
    bounds = jg.grad(lambda low, high: jg.clip(x, low, high).sum(), argnums=(0, 1))
    low, high = bounds(jg.asarray(np.array([0.0, 0.0, 2.0])), jg.asarray(np.array([1.0, 0.0, 1.5])))
    np.testing.assert_array_equal(low.numpy(), [1.0, 0.0, 0.0])  # as in PyTorch: the greater bound decides
    np.testing.assert_array_equal(high.numpy(), [0.0, 0.0, 1.0])


# --- attention ------------------------------------------------------------------------------------------------------

SEEN = np.array([[True, True, False], [False, False, False], [True, True, True]])
MASKS = {
    "bool": SEEN,
    "float": np.where(SEEN, 0.25, -np.inf),
    "batched": np.stack([SEEN, SEEN[::-1]]),
    "none": np.zeros((3, 3), bool),
}


def attend(mask: np.ndarray[Any, Any]) -> Callable[..., Any]:
    inputs = jg.asarray(mask)
    return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=inputs)


def reference(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Row by row, over the keys that are seen."""
    bias = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask
    bias = np.broadcast_to(bias, (*q.shape[:-1], k.shape[-2]))
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for position in np.ndindex(*q.shape[:-1]):
        keys = np.flatnonzero(np.isfinite(bias[position]))
        if keys.size:
            scores = k[position[:-1]][keys] @ q[position] / math.sqrt(q.shape[-1]) + bias[position][keys]
            weights = np.exp(scores - scores.max())
            out[position] = weights / weights.sum() @ v[position[:-1]][keys]
    return out


@pytest.mark.parametrize("name", MASKS)
def test_attention_of_a_row_that_sees_nothing(name: str) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(2, 3, 4)) for _ in range(3))
    attention, mask = attend(MASKS[name]), MASKS[name]
    dead = ~np.isfinite(np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask).any(-1)
    dead = np.broadcast_to(dead, (2, 3))
    inputs = [jg.asarray(x) for x in (q, k, v)]
    expected = reference(q, k, v, mask)
    weights = jg.asarray(rng.normal(size=expected.shape))
    for function in (attention, jg.trace(attention)):
        np.testing.assert_allclose(function(*inputs).numpy(), expected, rtol=1e-10, atol=1e-14)
    loss = lambda q, k, v: (attention(q, k, v) * weights).sum()
    for argument in range(3):
        slope = jg.grad(loss, argnums=argument)
        eager, traced = slope(*inputs).numpy(), jg.trace(slope)(*inputs).numpy()
        np.testing.assert_allclose(traced, eager, rtol=1e-10, atol=1e-13)
        assert np.isfinite(eager).all()
        if argument == 0:
            np.testing.assert_array_equal(eager[dead], 0.0)
        step = 1e-6
        array = (q, k, v)[argument]
        for position in [(0, 0, 1), (0, 2, 3), (1, 1, 2)]:
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[position] += sign * step
                parts = [moved if i == argument else x for i, x in enumerate((q, k, v))]
                ends.append(float((reference(*parts, mask) * weights.numpy()).sum()))
            assert eager[position] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-8)
    second = jg.grad(lambda q: (jg.grad(loss)(q, *inputs[1:]) ** 2).sum())
    for derivative in (second, jg.trace(second)):
        result = derivative(inputs[0]).numpy()
        assert np.isfinite(result).all()
        np.testing.assert_array_equal(result[dead], 0.0)


def test_attention_keeps_nan() -> None:
    """A NaN that is seen is no row without keys."""
    q = jg.asarray([[1.0, np.nan], [1.0, 2.0]])
    k = v = jg.asarray(np.eye(2, dtype=np.float32))
    result = functional.scaled_dot_product_attention(q, k, v, attn_mask=jg.asarray([[True, True], [False, False]]))
    assert np.isnan(result.numpy()[0]).all()
    np.testing.assert_array_equal(result.numpy()[1], 0.0)


def test_plain_softmax_of_nothing_but_minus_infinity_is_nan() -> None:
    x = jg.full((2, 3), -math.inf)
    for function in (jg.softmax, jg.trace(jg.softmax)):
        assert np.isnan(function(x).numpy()).all()
