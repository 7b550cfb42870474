"""Array functions against NumPy: values on edges of every dtype, dtypes, axes, keepdims, empty tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.ops.sampling import edges

SHAPES = [(), (3,), (2, 3), (2, 3, 4), (0, 3), (2, 0), (1, 1)]
RNG = np.random.default_rng(0)


def same(actual: jg.Tensor, expected: Any, dtype: Any = None, rtol: float = 0.0) -> None:
    wanted = np.asarray(expected)
    assert actual.shape == wanted.shape
    if dtype is not None:
        assert actual.dtype == dtype
    np.testing.assert_allclose(actual.numpy().astype(np.float64), wanted.astype(np.float64), rtol=rtol)


UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_floats(name: str) -> None:
    x = edges(jg.float64)
    with np.errstate(all="ignore"):
        same(getattr(jg, name)(x), UNARY[name](x), jg.float64, rtol=1e-15)
        same(getattr(jg.asarray(x), name)(), UNARY[name](x), jg.float64, rtol=1e-15)
        small = np.array([0, 1, 2], np.int16)
        same(getattr(jg, name)(small), UNARY[name](small.astype(np.float32)), jg.float32, rtol=2e-7)


@pytest.mark.parametrize("name", ["abs", "negative", "sign", "square", "positive"])
@pytest.mark.parametrize("dtype", [d for d in dtypes.DTYPES if d != dtypes.bool_], ids=str)
def test_functions_of_numbers(name: str, dtype: Any) -> None:
    x = edges(dtype)
    with np.errstate(all="ignore"):
        same(getattr(jg, name)(x), getattr(np, name)(x), dtype)


@pytest.mark.parametrize("dtype", dtypes.DTYPES, ids=str)
def test_questions_and_rounding(dtype: Any) -> None:
    x = edges(dtype)
    wide = x.astype(np.float64) if dtypes.is_float(dtype) else x
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        same(getattr(jg, name)(x), getattr(np, name)(wide), jg.bool)
    for name in ("floor", "ceil", "trunc", "round"):
        same(getattr(jg, name)(x), getattr(np, name)(wide) if dtypes.is_float(dtype) else x, dtype)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
}
COMPARISONS: dict[str, Callable[..., Any]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64, jg.int8, jg.int64, jg.uint8, jg.uint64], ids=str)
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_binary_functions(name: str, dtype: Any) -> None:
    x = edges(dtype)
    with np.errstate(all="ignore"):
        expected = (BINARY | COMPARISONS)[name](x[:, None], x)
    same(getattr(jg, name)(x[:, None], x), expected, jg.bool if name in COMPARISONS else dtype)


@pytest.mark.parametrize("wrap", [lambda f: f, jg.trace], ids=["eager", "trace"])
@pytest.mark.parametrize("dtype", [d for d in dtypes.DTYPES if dtypes.is_float(d)], ids=str)
def test_signs_and_neighbours(dtype: Any, wrap: Any) -> None:
    limits = ml_dtypes.finfo(dtype)
    more = [limits.smallest_subnormal, -limits.smallest_subnormal, limits.max, limits.tiny, np.pi]
    x = np.concatenate([edges(dtype), np.array(more).astype(dtype)])
    y, minus_nan = np.repeat(x, len(x)), -np.array([np.nan]).astype(dtype)
    x = np.tile(x, len(x))
    for name in ("copysign", "nextafter"):
        result = wrap(getattr(jg, name))(x, y)
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x, y)
        assert result.dtype == wanted.dtype == dtype
        np.testing.assert_array_equal(result.numpy().astype(np.float64), wanted.astype(np.float64))
        ordered = ~np.isnan(wanted)
        if dtype.itemsize == 2:
            ordered &= (x != 0) | (y != 0)  # there NumPy keeps the first of two zeros, C the second
        np.testing.assert_array_equal(np.signbit(result.numpy()[ordered]), np.signbit(wanted[ordered]))
    for values in (x, minus_nan):
        np.testing.assert_array_equal(wrap(jg.signbit)(values).numpy(), np.signbit(values))


def test_signs_of_integers() -> None:
    assert jg.signbit(jg.asarray([-3, 0, 3])).tolist() == [True, False, False]
    assert jg.signbit(jg.asarray([3], dtype=jg.uint8)).tolist() == [False]
    same(jg.copysign(jg.asarray([1, 2]), jg.asarray([-1.0, 1.0])), [-1.0, 2.0], jg.float32)
    same(jg.copysign(jg.asarray([1.0, -2.0]), -1), [-1.0, -2.0], jg.float32)
    assert jg.grad(lambda x: jg.copysign(x, -1.0).sum())(jg.asarray([2.0, -2.0])).tolist() == [-1.0, 1.0]


def test_derivatives_of_lgamma_of_any_order() -> None:
    derivative = lambda x: jg.special.lgamma(x).sum()
    x = jg.asarray(np.array([0.7, 3.0, -1.3]))
    for order in range(1, 4):
        derivative = jg.grad(lambda x, f=derivative: f(x).sum())
        same(jg.trace(derivative)(x), jg.special.polygamma(order - 1, x).numpy(), rtol=1e-13)


def test_hypot() -> None:
    x = edges(jg.float64)
    with np.errstate(all="ignore"):
        same(jg.hypot(x[:, None], x), np.hypot(x[:, None], x), jg.float64)
    assert jg.hypot(3, 4).item() == 5.0
    one = jg.asarray([0.0, 3.0], requires_grad=True)
    jg.hypot(one, jg.asarray([0.0, 4.0])).sum().backward()
    same(one.grad, [0.0, 0.6], rtol=1e-6)


def test_gradient_of_asinh_does_not_overflow() -> None:
    x = jg.asarray([0.0, 1.0, -300.0, 60000.0], dtype=jg.float16)
    same(jg.grad(lambda x: jg.asinh(x).sum())(x), [1.0, 0.5**0.5, 1 / 300, 1 / 60000], rtol=2e-3)


def test_a_power_records_the_products_that_it_needs_and_no_others() -> None:
    x = jg.ones(3)
    for exponent, ops in ((1, []), (2, ["square"]), (3, ["square", "mul"])):
        graph = jg.trace(lambda x, exponent=exponent: x**exponent).lower(x).graph
        assert [node.op.name for node in graph.nodes] == ops


@pytest.mark.parametrize("compiled", [lambda f: f, jg.trace, jg.script])
@pytest.mark.parametrize("numbers", [np.array([7, -7, 0]), np.array([7.5, -7.5, -0.0], np.float32)], ids=str)
@pytest.mark.parametrize("other", [3, -4, np.array([3, -3, 5]), np.array([0.5, -2.0, 3.0], np.float32)], ids=str)
def test_divmod_of_operands_of_every_kind(numbers: Any, other: Any, compiled: Any) -> None:
    x = jg.asarray(numbers)
    for mine, due in (
        (compiled(lambda x: divmod(x, other))(x), (x // other, x % other)),
        (compiled(lambda x: divmod(other, x + 1))(x), (other // (x + 1), other % (x + 1))),
    ):
        assert all(a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True) for a, b in zip(mine, due, strict=True))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(divmod(x, other)[0], divmod(numbers, other)[0])


def test_division_and_powers() -> None:
    x = edges(jg.float64)
    with np.errstate(all="ignore"):
        same(jg.divide(x[:, None], x), x[:, None] / x, jg.float64)
        same(jg.pow(x[:, None], x), x[:, None] ** x, jg.float64, rtol=1e-15)
        same(jg.atan2(x[:, None], x), np.arctan2(x[:, None], x), jg.float64, rtol=1e-15)
        same(jg.logaddexp(x[:, None], x), np.logaddexp(x[:, None], x), jg.float64, rtol=1e-14)
        for exponent in (0, 1, 2, 3, -1, 0.5, 2.0, 4):
            same(jg.pow(x[x != -np.inf], exponent), x[x != -np.inf] ** exponent, jg.float64, rtol=1e-15)
    for dtype in (jg.int8, jg.uint8, jg.int64):
        base, power = edges(dtype), np.array([0, 1, 2, 3, 7, 63], dtype)
        same(jg.pow(base[:, None], power), base[:, None] ** power, dtype)
    same(3 ** jg.arange(5), 3 ** np.arange(5), jg.int64)
    with pytest.raises(ValueError, match="negative power"):
        jg.asarray([2]) ** jg.asarray([-1])


@pytest.mark.parametrize("dtype", [jg.int8, jg.uint16, jg.int64], ids=str)
def test_bits(dtype: Any) -> None:
    x = edges(dtype)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        same(getattr(jg, name)(x[:, None], x), getattr(np, name)(x[:, None], x), dtype)
    same(jg.bitwise_invert(x), ~x, dtype)
    for count in (0, 1, dtype.itemsize * 8 - 1):
        same(jg.asarray(x) << count, x << dtype.type(count), dtype)
        same(jg.asarray(x) >> count, x >> dtype.type(count), dtype)


def test_logic_takes_any_dtypes() -> None:
    a, b = np.array([0.0, 1.0, np.nan]), np.array([[0], [3]], np.int8)
    for name in ("logical_and", "logical_or", "logical_xor"):
        same(getattr(jg, name)(a, b), getattr(np, name)(a, b), jg.bool)


# --- reductions -----------------------------------------------------------------------------------------------------


def axes_of(ndim: int) -> list[Any]:
    pairs = list(itertools.combinations(range(ndim), 2))
    return [None, *range(-ndim, ndim), *pairs]


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, shape: tuple[int, ...]) -> None:
    x = RNG.integers(-2, 3, shape).astype(np.float64)
    for axis, keepdims in itertools.product(axes_of(len(shape)), [False, True]):
        settings = {"axis": axis, "keepdims": keepdims}
        try:
            expected = REDUCTIONS[name](x, **settings)
        except ValueError:
            with pytest.raises(jg.ShapeError, match=f"{name} of no elements"):
                getattr(jg, name)(x, **settings)
            continue
        same(getattr(jg, name)(x, **settings), expected, rtol=1e-14)
        same(getattr(jg.asarray(x), name)(axis, keepdims=keepdims), expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", dtypes.DTYPES, ids=str)
def test_dtypes_of_reductions(dtype: Any) -> None:
    x = jg.ones((4,), dtype=dtype)
    wide = dtype if dtypes.is_float(dtype) else jg.uint64 if dtype.kind == "u" else jg.int64
    assert x.sum().dtype == x.prod().dtype == x.cumsum().dtype == wide
    assert x.mean().dtype == x.var().dtype == (dtype if dtypes.is_float(dtype) else jg.float32)
    assert x.max().dtype == x.min().dtype == dtype and x.argmax().dtype == jg.int64 and x.any().dtype == jg.bool
    assert x.sum(dtype=jg.float64).dtype == jg.float64


def test_sums_of_narrow_integers_do_not_wrap() -> None:
    assert jg.full((3,), 200, dtype=jg.uint8).sum().item() == 600
    assert jg.asarray([100, 100], dtype=jg.int8).cumsum().tolist() == [100, 200]
    assert (jg.asarray([True, True]).sum().item(), jg.ones((70_000,), dtype=jg.float16).mean().item()) == (2, 1.0)


def test_nan_and_ties() -> None:
    x = np.array([[1.0, np.nan, 3.0], [4.0, 4.0, -np.inf]])
    for name in ("max", "min", "argmax", "argmin", "sum"):
        same(getattr(jg, name)(x, axis=1), getattr(np, name)(x, axis=1))
    same(jg.argmax(x[1]), 0, jg.int64)
    same(jg.argmax(x, keepdims=True), np.argmax(x, keepdims=True))
    same(jg.argmin(x[:, 2:], axis=0, keepdims=True), np.argmin(x[:, 2:], axis=0, keepdims=True))
    same(jg.var(x[1, :2], correction=1), 0.0)
    assert np.isnan(jg.var(jg.ones(1), correction=1).item())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_an_axis(axis: int) -> None:
    x = RNG.standard_normal((4, 5)).round(1)
    same(jg.cumsum(x, axis), np.cumsum(x, axis), rtol=1e-14)
    same(jg.cumulative_prod(x, axis), np.cumprod(x, axis), rtol=1e-14)
    same(jg.sort(x, axis), np.sort(x, axis))
    same(jg.argsort(x, axis), np.argsort(x, axis, kind="stable"), jg.int64)
    same(jg.sort(x, axis, descending=True), -np.sort(-x, axis))
    values, positions = jg.topk(x, 2, axis)
    same(values, np.flip(np.sort(x, axis), axis).take([0, 1], axis))
    same(jg.take_along_axis(x, positions, axis), values.numpy())
    low, _ = jg.topk(x, 2, axis, largest=False)
    same(low, np.sort(x, axis).take([0, 1], axis))
    for name, ufunc in (("cummax", np.maximum), ("cummin", np.minimum)):
        actual, where = getattr(jg, name)(x, axis)
        same(actual, ufunc.accumulate(x, axis))
        same(jg.take_along_axis(x, where, axis), actual.numpy())
    e = np.exp(x - x.max(axis, keepdims=True))
    same(jg.softmax(x, axis), e / e.sum(axis, keepdims=True), rtol=1e-14)
    same(jg.log_softmax(x, axis), np.log(e / e.sum(axis, keepdims=True)), rtol=1e-13)
    np.testing.assert_allclose(
        jg.logsumexp(x * 1000, axis).numpy(), np.logaddexp.reduce(x * 1000, axis), rtol=1e-14, atol=1e-15
    )


# --- manipulation ---------------------------------------------------------------------------------------------------

A = np.arange(24).reshape(2, 3, 4)
MANIPULATIONS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x.reshape(4, -1), lambda a: a.reshape(4, -1)),
    (lambda x: x.reshape((6, 4)), lambda a: a.reshape(6, 4)),
    (lambda x: jg.permute_dims(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    (lambda x: x.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    (lambda x: x.transpose(), lambda a: a.T),
    (lambda x: x.mT, lambda a: a.swapaxes(1, 2)),
    (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    (lambda x: x.expand_dims(-1).squeeze(-1).unsqueeze(0), lambda a: a[None]),
    (lambda x: x[:, :1].squeeze(), lambda a: a[:, 0]),
    (lambda x: x.flip(), np.flip),
    (lambda x: x.flip((0, -1)), lambda a: np.flip(a, (0, 2))),
    (lambda x: x.roll(5), lambda a: np.roll(a, 5)),
    (lambda x: jg.roll(x, (1, -2), axis=(0, 2)), lambda a: np.roll(a, (1, -2), (0, 2))),
    (lambda x: x.repeat(2, axis=1), lambda a: np.repeat(a, 2, 1)),
    (lambda x: x.repeat(0), lambda a: np.repeat(a, 0)),
    (lambda x: jg.tile(x, (2, 1, 2)), lambda a: np.tile(a, (2, 1, 2))),
    (lambda x: jg.tile(x, (3, 1, 1, 1)), lambda a: np.tile(a, (3, 1, 1, 1))),
    (lambda x: jg.moveaxis(x, (0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0))),
    (lambda x: jg.stack(jg.unstack(x, 1), axis=-1), lambda a: np.moveaxis(a, 1, -1)),
    (lambda x: jg.concat([x, x + 1], axis=-1), lambda a: np.concatenate([a, a + 1], -1)),
    (lambda x: jg.concat([x, x], axis=None), lambda a: np.concatenate([a, a], None)),
    (lambda x: jg.concat(x.split(3, axis=2)[::-1], axis=2), lambda a: np.concatenate([a[..., 3:], a[..., :3]], 2)),
    (lambda x: x.chunk(2, 1)[1], lambda a: a[:, 2:]),
    (lambda x: jg.split(x, [1, 3], axis=-1)[1], lambda a: a[..., 1:]),
    (lambda x: x.pad([(1, 0), (0, 0), (2, 3)], 7), lambda a: np.pad(a, [(1, 0), (0, 0), (2, 3)], constant_values=7)),
    (lambda x: x.take([[2, 0]], axis=1), lambda a: a.take([[2, 0]], 1)),
    (lambda x: x.index_select(2, [3, -4]), lambda a: a[:, :, [3, 0]]),
    (lambda x: x.broadcast_to((5, 2, 3, 4)), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
    (lambda x: x.tril(1), lambda a: np.tril(a, 1)),
    (lambda x: x.triu(-1), lambda a: np.triu(a, -1)),
    (lambda x: x.clip(3, 9), lambda a: a.clip(3, 9)),
    (lambda x: x.clip(max=9.5), lambda a: a.clip(max=9.5)),
    (lambda x: x.masked_fill(x > 5, -1), lambda a: np.where(a > 5, -1, a)),
    (lambda x: jg.where(x[0] > 5, x, 0), lambda a: np.where(a[0] > 5, a, 0)),
    (
        lambda x: jg.index_add(x, 1, [0, 0], x[:, 1:]),
        lambda a: a + np.pad(a[:, 1:].sum(1, keepdims=True), [(0, 0), (0, 2), (0, 0)]),
    ),
    (
        lambda x: jg.index_add(x, 1, [0, 0], x[:, 1:], alpha=-2),
        lambda a: a - 2 * np.pad(a[:, 1:].sum(1, keepdims=True), [(0, 0), (0, 2), (0, 0)]),
    ),
    (lambda x: jg.round(x * 0.125, 2), lambda a: np.round(a * np.float32(0.125), 2).astype(np.float32)),
    (lambda x: jg.round(x * 7, decimals=-1), lambda a: np.round(a * 7, -1)),
    (lambda x: round(x.astype(jg.int64) * 7, -1), lambda a: np.round(a.astype(np.int64) * 7, -1)),
]


@pytest.mark.parametrize("number", range(len(MANIPULATIONS)))
def test_manipulation(number: int) -> None:
    ours, expected = MANIPULATIONS[number]
    same(ours(jg.asarray(A)), expected(A))


def test_products() -> None:
    shapes = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((4, 2, 3), (3, 5)),
        ((4, 1, 2, 3), (5, 3, 2)),
        ((3,), (4, 3, 2)),
    ]
    for left, right in shapes:
        a, b = RNG.standard_normal(left), RNG.standard_normal(right)
        same(jg.asarray(a) @ b, a @ b, jg.float64, rtol=1e-12)
    a, b = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((4, 3, 5))
    same(jg.tensordot(a, b, axes=((1, 2), (1, 0))), np.tensordot(a, b, ((1, 2), (1, 0))), rtol=1e-12)
    same(jg.outer([1.0, 2.0], [3.0]), [[3.0], [6.0]])
    same(jg.vecdot(a, a), (a * a).sum(-1), rtol=1e-12)
    same(jg.asarray([[1, 2]]) @ jg.asarray([[3.5], [1.0]]), [[5.5]], jg.float32)
    with pytest.raises(jg.ShapeError, match="use \\* to scale"):
        jg.matmul(2.0, jg.ones(2))


def test_creation() -> None:
    for arguments in [(5,), (2, 9, 3), (9, 2, -2), (3, 3), (0.5, 2.0, 0.25), (1, 0)]:
        same(jg.arange(*arguments), np.arange(*arguments))
    assert jg.arange(3).dtype == jg.int64 and jg.arange(3.0).dtype == jg.float32
    assert jg.arange(2**62, 2**62 + 3).tolist() == [2**62, 2**62 + 1, 2**62 + 2]
    same(jg.linspace(0, 1, 5), np.linspace(0, 1, 5), jg.float32)
    same(jg.eye(2, 4, k=1, dtype=jg.int8), np.eye(2, 4, 1), jg.int8)
    same(jg.full((2,), True), [True, True], jg.bool)
    same(jg.full_like(jg.ones(2), 3, dtype=jg.int32), [3, 3], jg.int32)
    same(jg.zeros_like(jg.ones((0, 2))), np.zeros((0, 2)))


@pytest.mark.parametrize("dtype", dtypes.DTYPES, ids=str)
def test_casts_from_floats_saturate(dtype: Any) -> None:
    numbers = [1e30, -1e30, float("nan"), 1.9, -0.5]
    x = jg.asarray(numbers, dtype=jg.float64).astype(dtype)
    assert x.dtype == dtype
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        assert x.tolist() == [info.max, info.min, 0, 1, 0]
    else:
        with np.errstate(over="ignore"):
            due = np.array(numbers).astype(dtype).astype(np.float64)
        np.testing.assert_array_equal(x.numpy().astype(np.float64), due)


def test_special() -> None:
    x = np.array([0.0, 0.25, 0.5, 1.0])
    with np.errstate(divide="ignore"):
        same(jg.special.logit(x), np.log(x / (1 - x)), rtol=1e-14)
    same(jg.special.expit(jg.special.logit(x[1:3])), x[1:3], rtol=1e-14)
    same(jg.special.xlogy([0.0, 2.0, 0.0], [0.0, 3.0, np.nan]), [0.0, 2 * np.log(3.0), np.nan], rtol=1e-6)
    same(
        jg.special.lgamma(np.array([0.5, 1.0, 10.0, -0.5])),
        [0.5723649429247001, 0, 12.801827480081469, 1.2655121234846454],
        rtol=1e-15,
    )
    same(
        jg.special.digamma(np.array([0.5, 1.0, -0.5])),
        [-1.9635100260214235, -0.5772156649015329, 0.03648997397857652],
        rtol=1e-14,
    )
    same(jg.special.polygamma(1, np.array([1.0, -0.5])), [np.pi**2 / 6, np.pi**2 / 2 + 4], rtol=1e-15)
    same(jg.special.polygamma(0, 1), -0.5772156649015329, jg.float32, rtol=1e-7)
    with pytest.raises(jg.UnsupportedOp, match="n from 1 on"):
        jg.special.polygamma(-1, 2.0)
    same(jg.special.erfinv(np.array([-0.5, 0.0, 1.0])), [-0.4769362762044699, 0.0, np.inf], rtol=1e-15)
    same(jg.special.erfc(np.array([-1.0, 0.0, 26.0])), [1.8427007929497148, 1.0, 5.663192408856143e-296], rtol=1e-14)
    same(jg.special.erf(np.array([0.0, 0.5, 2.0])), [0.0, 0.5204998778130465, 0.9953222650189527], rtol=1e-15)


@pytest.mark.parametrize("join", [jg.stack, jg.concat])
@pytest.mark.parametrize("wrap", [lambda f: f, jg.trace])
def test_tensors_to_join_stand_in_a_list(join: Any, wrap: Any) -> None:
    with pytest.raises(jg.JitgraphError, match=rf"jg\.{join.__name__}\(\[x, y\], axis=0\)"):
        wrap(lambda x: join(x, x))(jg.ones(2))
    assert wrap(lambda x: join(x[None]))(jg.ones(2)).shape == ((1, 2) if join is jg.stack else (2,))


NUMPY_INTEGERS: dict[str, Callable[[Any, Callable[[int], Any]], Any]] = {
    "sum": lambda x, i: jg.sum(x, axis=i(1)),
    "sum of two axes": lambda x, i: jg.sum(x, axis=(i(1), i(-1))),
    "mean": lambda x, i: x.mean(axis=i(-1)),
    "any": lambda x, i: jg.any(x > 0, axis=i(1)),
    "argmax": lambda x, i: x.argmax(axis=i(1)),
    "softmax": lambda x, i: jg.softmax(x, axis=i(1)),
    "cumsum": lambda x, i: jg.cumsum(x, axis=i(1)),
    "cummax": lambda x, i: jg.cummax(x, axis=i(1))[1],
    "sort": lambda x, i: jg.sort(x, axis=i(1)),
    "topk": lambda x, i: jg.topk(x, i(2), axis=i(1))[0],
    "flip": lambda x, i: jg.flip(x, axis=i(1)),
    "roll": lambda x, i: jg.roll(x, i(1), axis=i(1)),
    "roll of the flat tensor": lambda x, i: jg.roll(x, i(5)),
    "concat": lambda x, i: jg.concat([x, x], axis=i(1)),
    "stack": lambda x, i: jg.stack([x, x], axis=i(1)),
    "split": lambda x, i: jg.split(x, i(2), axis=i(1))[1],
    "chunk": lambda x, i: jg.chunk(x, i(3), axis=i(1))[2],
    "moveaxis": lambda x, i: jg.moveaxis(x, i(1), i(2)),
    "permute_dims": lambda x, i: jg.permute_dims(x, (i(2), i(1), i(0))),
    "take": lambda x, i: jg.take(x, jg.asarray([0]), axis=i(1)),
    "index_add": lambda x, i: jg.index_add(x, i(1), jg.asarray([0]), x[:, :1]),
    "repeat": lambda x, i: jg.repeat(x, i(2), axis=i(1)),
    "tile": lambda x, i: jg.tile(x, (i(2), i(1), i(1))),
    "unstack": lambda x, i: jg.unstack(x, axis=i(1))[0],
    "tensordot": lambda x, i: jg.tensordot(x, x, axes=((i(0), i(1)), (i(0), i(1)))),
    "vecdot": lambda x, i: jg.vecdot(x, x, axis=i(1)),
    "std": lambda x, i: jg.std(x, axis=i(1), correction=i(1)),
    "group_norm": lambda x, i: jg.nn.functional.group_norm(x, i(3)),
    "max_pool1d": lambda x, i: jg.nn.functional.max_pool1d(x, i(2), i(1), i(1)),
    "randint": lambda x, i: jg.random.randint(i(2), i(3), (i(4),)),
}


@pytest.mark.parametrize("run", [lambda f: f, jg.trace], ids=["eager", "trace"])
@pytest.mark.parametrize("name", NUMPY_INTEGERS)
def test_axes_and_counts_may_be_integers_of_numpy(name: str, run: Any) -> None:
    x = jg.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32))
    f = NUMPY_INTEGERS[name]
    np.testing.assert_array_equal(run(lambda x: f(x, np.int64))(x).numpy(), run(lambda x: f(x, int))(x).numpy())


@pytest.mark.parametrize("wrap", [lambda f: f, jg.trace], ids=["eager", "trace"])
def test_fractions_in_the_divisor_of_a_variance(wrap: Any) -> None:
    x = np.array([[3, 1, 2, 1], [0, 5, 2, 2], [4, 1, 0, 7]], np.float64)
    for correction in (0.5, 1.5, 2.0, 3.5):
        with np.errstate(divide="ignore"):
            wanted = [
                np.var(x, axis=0, ddof=correction) if correction < 3 else x.var(0) * np.inf,
                x.var(ddof=correction),
            ]
        result = wrap(lambda x, c=correction: [jg.var(x, axis=0, correction=c), jg.var(x, correction=c)])(jg.asarray(x))
        for have, want in zip(result, wanted, strict=True):
            np.testing.assert_allclose(have.numpy(), want, rtol=1e-14)


@pytest.mark.parametrize("of_boundaries", ["bool", "int8", "uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_boundaries_of_another_dtype(dtype: str, of_boundaries: str) -> None:
    boundaries = np.asarray([-1.5, 0, 0.5, 2] if of_boundaries[0] == "f" else [0, 1]).astype(of_boundaries)
    x = np.asarray([0, 1, 1, 2, 3]).astype(dtype)
    common = np.result_type(x, boundaries)
    for right, side in ((False, "left"), (True, "right")):
        expected = np.searchsorted(boundaries.astype(common), x.astype(common), side)
        same(jg.bucketize(jg.asarray(x), jg.asarray(boundaries), right=right), expected, jg.int64)
