"""``jg.elementwise``: functions of numbers as ops, against Python's and NumPy's own and against the built-in ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader


def shrink(x: float) -> Any:
    if x > 0.5:
        return x - 0.5
    if x < -0.5:
        return x + 0.5
    return 0.0


def damped(x: float) -> Any:
    return x / (1 + math.exp(-x))


def poles(x: float) -> Any:
    return math.log(x) if x > 0 else math.sqrt(-x) if x < 0 else 1.0


def halvings(x: float) -> Any:
    count = 0
    while abs(x) > 1:
        x = x / 2
        count += 1
    return x + count


def series(x: float) -> Any:
    total, term = 0.0, 1.0
    for k in range(12):
        total += term
        term = term * x / (k + 1)
    return total


def clipped(x: float, low: float, high: float) -> Any:
    return min(max(x, low), high)


def polynomial(x: float) -> Any:
    """Helpers are recorded, too."""
    return square(x) * 3 - square(x - 1)


def square(x: float) -> Any:
    return x * x


ONES: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (shrink, lambda x: jg.where(x > 0.5, x - 0.5, jg.where(x < -0.5, x + 0.5, 0.0))),
    (damped, lambda x: x / (1 + jg.exp(-x))),
    (poles, lambda x: jg.where(x > 0, jg.log(x), jg.where(x < 0, jg.sqrt(-x), 1.0))),
    (polynomial, lambda x: x * x * 3 - (x - 1) * (x - 1)),
    (lambda x: math.atan2(x, 2.0) + math.hypot(x, 1), lambda x: jg.atan2(x, 2.0) + jg.hypot(x, 1.0)),
    (lambda x: math.floor(x) + x % 2 - x // 3, lambda x: jg.floor(x).astype(jg.int64) + x % 2 - x // 3),
    (lambda x: 1 if x > 0 else -1 if x < 0 else 0, lambda x: jg.where(x > 0, 1, jg.where(x < 0, -1, 0))),
    (lambda x: x > 0 and not x > 1, lambda x: (x > 0) & ~(x > 1)),
    (lambda x: np.exp(x) + jg.tanh(x) + abs(x) ** 2, lambda x: jg.exp(x) + jg.tanh(x) + jg.abs(x) ** 2),
]
VALUES = [0.0, -0.0, 0.25, -0.25, 0.5, 0.75, -1.5, 3.0, -7.25, 100.0, math.inf, -math.inf, math.nan]


def same(x: Any, y: Any) -> None:
    x, y = np.asarray(x), np.asarray(y)
    assert (x.dtype, x.shape) == (y.dtype, y.shape)
    zeros = np.signbit(x[x == 0]) if x.dtype.kind == "f" else 0
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(zeros, np.signbit(y[y == 0]) if y.dtype.kind == "f" else 0)


@pytest.mark.parametrize(
    ("number", "dtype"), [*((n, jg.float32) for n in range(len(ONES))), (0, jg.float64), (2, jg.float64)]
)
def test_it_is_the_same_ops_on_tensors(number: int, dtype: Any) -> None:
    function, ours = ONES[number]
    op = jg.elementwise(function)
    x = jg.asarray(np.asarray(VALUES), dtype=dtype)
    expected = jg.trace(ours)(x)
    same(op(x), expected)
    if number not in (0, 2):
        return
    same(jg.vmap(op)(x), expected)
    same(jg.trace(lambda x: op(x.reshape(13, 1)[::2]))(x), expected.reshape(13, 1)[::2])


@pytest.mark.parametrize("function", [shrink, halvings, series, polynomial])
def test_each_element_is_what_python_makes_of_it(function: Callable[[float], float]) -> None:
    x = np.asarray([v for v in VALUES if math.isfinite(v)])
    expected = np.asarray([float(function(v)) for v in x])
    for got in (jg.elementwise(function)(x), jg.trace(jg.elementwise(function))(x)):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def endless(x: float) -> Any:
    """Its loop ends for those elements alone that come to it."""
    steps = 0
    if x >= 0:
        while x != 0:
            x = math.floor(x / 2) * 1.0
            for _ in range(2):
                if x > 5:
                    steps += 1
    return steps


def test_loops_run_for_the_elements_that_come_to_them() -> None:
    x = np.asarray([[-1.0, 8.0], [0.0, 300.0], [-0.5, 31.0]])
    expected = np.asarray([[endless(float(v)) for v in row] for row in x])
    op = jg.elementwise(endless)
    for got in (op(x), jg.trace(lambda x: op(x.T).T)(x), jg.vmap(op)(x)):
        same(got, expected)
    same(op(x[:0]), expected[:0])
    same(jg.elementwise(halvings)(np.float64(9)), np.float64(9 / 16 + 4))


def test_operands_broadcast_and_promote_as_those_of_built_in_ops() -> None:
    op = jg.elementwise(clipped)
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    low, high = np.asarray([[-1.0], [-2], [0]], np.float32), np.float32(1.5)
    same(op(x, low, high), np.clip(x, low, high))
    same(op(x.T[::2], -1.0, 1), np.clip(x.T[::2], np.float32(-1), np.float32(1)))
    same(op(x[:, :0], low, high), x[:, :0])
    same(op(jg.asarray(2.0), 0.0, 1.0), np.float32(1))
    same(op(2.0, 0.0, 1.0), np.float32(1))
    same(op(high=1, low=-1, x=x), np.clip(x, -1, 1))
    same(op(np.arange(5), 1, 3), np.clip(np.arange(5), 1, 3))
    assert op(x, np.float64(0), np.float64(1)).dtype == jg.float64
    with pytest.raises(jg.ShapeError, match="broadcast"):
        op(x, np.zeros(3, np.float32), 1.0)


@pytest.mark.parametrize("dtype", [jg.float16, jg.bfloat16])
def test_16_bit_floats_are_computed_in_float32_and_rounded_once(dtype: Any) -> None:
    x = jg.asarray(np.linspace(-4, 4, 101, dtype=np.float32)).astype(dtype)
    got = jg.elementwise(damped)(x)
    assert got.dtype == dtype
    same(got.astype(jg.float32), jg.elementwise(damped)(x.astype(jg.float32)).astype(dtype).astype(jg.float32))


def test_complex_numbers_integers_and_several_results() -> None:
    z = np.asarray([1 + 2j, 0.1j, -3], np.complex64)
    same(jg.elementwise(lambda z: z * z.real if abs(z) > 1 else z)(z), np.where(np.abs(z) > 1, z * z.real, z))
    n = np.asarray([-7, 0, 9], np.int32)
    quotient, rest = jg.elementwise(lambda a, b: (a // b, a % b))(n, 4)
    same(quotient, n // np.int32(4))
    same(rest, n % np.int32(4))
    same(jg.elementwise(lambda x: int(x) + bool(x))(np.asarray([-1.5, 0, 2.5], np.float32)), np.asarray([0, 0, 3]))


def test_ints_become_floats_of_the_operands_dtype() -> None:
    def mixed(x: float, n: int) -> Any:
        count = 0
        if x > 0:
            count += 3
        return x + math.tanh(count) + float(n) / 3 + math.sqrt(n)

    x, n = np.asarray([0.5, -0.5]), np.asarray([7, 2])
    expected = [float(mixed(float(a), int(b))) for a, b in zip(x, n, strict=True)]
    np.testing.assert_allclose(jg.elementwise(mixed)(x, n), expected, rtol=1e-14)
    assert jg.elementwise(mixed)(x.astype(np.float32), n).dtype == jg.float32


def test_nothing_raises_as_in_ufuncs() -> None:
    x = np.asarray([-1.0, 0, 4], np.float32)
    with np.errstate(all="ignore"):
        same(jg.elementwise(lambda x: math.sqrt(x) + 1 / x)(x), np.sqrt(x) + 1 / x)

    def count(n: int) -> int:
        total = 2**62
        while n > 0:
            total, n = total * 2, n - 1
        return total

    same(jg.elementwise(count)(np.arange(3)), np.asarray([2**62, -(2**63), 0]))


# --- gradients --------------------------------------------------------------------------------------------------------


def root(x: float) -> Any:
    return math.sqrt(x) if x > 0 else 0.0


@pytest.mark.parametrize("wrapped", [lambda f: f, jg.trace])
def test_the_gradient_is_that_of_the_branch_which_an_element_takes(wrapped: Any) -> None:
    op, x = jg.elementwise(root), jg.asarray([-1.0, 0.0, 4.0])
    gradient = jg.grad(lambda x: op(x).sum())
    same(wrapped(gradient)(x), np.asarray([0, 0, 0.25], np.float32))
    second = jg.grad(lambda x: gradient(x).sum())
    same(np.abs(wrapped(second)(x)), np.asarray([0, 0, 0.25 * 0.125], np.float32))
    (_, tangent) = jg.jvp(op, x, jg.ones(3))
    same(tangent, np.asarray([0, 0, 0.25], np.float32))
    x.requires_grad_()
    (op(x) * 2).sum().backward()
    same(x.grad, np.asarray([0, 0, 0.5], np.float32))


def test_gradients_sum_over_what_broadcasts_and_pass_loops() -> None:
    op = jg.elementwise(lambda x, k: x * k if x > 0 else k)
    x, k = jg.asarray([[-1.0, 2.0], [3.0, 4.0]]), jg.asarray(5.0)
    dx, dk = jg.grad(lambda x, k: op(x, k).sum(), argnums=(0, 1))(x, k)
    same(dx, np.asarray([[0, 5], [5, 5]], np.float32))
    same(dk, np.float32(2 + 3 + 4 + 1))
    for function in (halvings, series):
        op = jg.elementwise(function)
        y = jg.asarray([0.5, 3.0, -9.0, 1.1], dtype=jg.float64, requires_grad=True)
        assert jg.autograd.gradcheck(op, (y,))


def newtons_root(a: float) -> float:
    y = a if a > 1 else 1.0
    while abs(y * y - a) > 1e-12 * a:
        y = 0.5 * (y + a / y)
    return y


@pytest.mark.parametrize("wrapped", [lambda f: f, jg.trace], ids=["eager", "traced"])
def test_loops_pass_vmap_and_gradients_in_either_order(wrapped: Any) -> None:
    op = jg.elementwise(newtons_root)
    x = np.array([[0.5, 2.0, 100.0], [1e4, 3.0, 7.0]])
    slope = lambda f: jg.grad(lambda v: f(v).sum())
    for function, expected in (
        (jg.vmap(op), np.sqrt(x)),
        (jg.vmap(slope(op)), 0.5 / np.sqrt(x)),
        (slope(jg.vmap(op)), 0.5 / np.sqrt(x)),
        (slope(jg.vmap(jg.vmap(op))), 0.5 / np.sqrt(x)),
        (jg.vmap(slope(slope(op))), -0.25 * x**-1.5),
    ):
        np.testing.assert_allclose(np.asarray(wrapped(function)(x)), expected, rtol=1e-6)


def test_a_rule_of_the_users_is_followed() -> None:
    @jg.elementwise(vjp=lambda ct, out, x, y: (ct * 10 * out, None))
    def product(x: float, y: float) -> Any:
        return x * y

    @jg.elementwise
    def other(x: float, y: float) -> Any:
        return x * y

    @other.vjp
    def _(ct: Any, out: Any, x: Any, y: Any) -> Any:
        return 10.0 * ct * out, 0.0

    x = jg.asarray([[1.0], [2.0]])
    for op in (product, other):
        for wrapped in (lambda f: f, jg.trace):
            gradient = wrapped(jg.grad(lambda x, op=op: op(x, jg.ones(3)).sum()))
            same(gradient(x), np.asarray([[30], [60]], np.float32))
        same(jg.grad(lambda x, op=op: op(x, 2.0).sum())(x), np.asarray([[20], [40]], np.float32))
    with pytest.raises(jg.errors.ArgumentError, match="before the first call"):
        other.vjp(lambda ct, out, x, y: (ct, ct))
    wrong = jg.elementwise(square, vjp=lambda ct, out, x: (ct, ct))
    with pytest.raises(jg.ShapeError, match="2 cotangents for 1 input"):
        jg.grad(lambda x: wrong(x).sum())(x)


# --- inside of compiled code ------------------------------------------------------------------------------------------


def test_it_fuses_with_its_neighbours() -> None:
    op = jg.elementwise(shrink)
    low = jg.trace(lambda x, b: jg.exp(op(x * 2 + b)) - x).lower(jg.ones((64, 32)), jg.ones(32))
    assert str(low.kernels).count("launch ") == 1
    backward = jg.trace(jg.grad(lambda x: op(x * 2).sum())).lower(jg.ones((64, 32)))
    assert str(backward.kernels).count("launch ") == 1
    short = jg.elementwise(series)
    once = jg.trace(lambda x: short(x) + 1).lower(jg.ones(64))
    assert str(once.kernels).count("launch ") == 1


def test_numbers_from_outside_are_never_stale() -> None:
    factor = 2.0

    def scaled(x: float) -> Any:
        return x * factor if x > 0 else offset

    offset = jg.asarray(1.0)
    op = jg.elementwise(scaled)
    traced = jg.trace(lambda x: op(x) + 1)
    x = jg.asarray([-1.0, 3.0])
    for factor, offset in ((2.0, jg.asarray(1.0)), (3.0, jg.asarray(7.0)), (-1, jg.asarray(0.5))):
        expected = np.asarray([float(offset), 3 * factor], np.float32)
        same(op(x), expected)
        same(traced(x), expected + 1)


def test_it_calls_others_and_is_called_by_scripts() -> None:
    inner = jg.elementwise(shrink)
    outer = jg.elementwise(lambda x: inner(x) * 2 if x < 3 else inner(-x))
    x = jg.asarray([-1.0, 0.25, 2.0, 4.0])
    same(outer(x), np.asarray([-1, 0, 3, -3.5], np.float32))

    @jg.script
    def chosen(x: Any) -> Any:
        if x.sum() > 0:
            x = outer(x)
        return x

    same(chosen(x), np.asarray([-1, 0, 3, -3.5], np.float32))
    same(jg.vmap(jg.grad(lambda x: outer(x).sum()))(x.reshape(2, 2)), np.asarray([[2, 0], [2, -1]], np.float32))


def test_it_is_in_files_as_the_ops_that_it_consists_of(tmp_path: Path) -> None:
    op = jg.elementwise(poles)

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def step(x: Any) -> Any:
        return op(x) * 2, jg.grad(lambda x: op(x).sum())(x)

    x = jg.asarray([1.0, -4.0, 0.0])
    path = tmp_path / "step.jg"
    jg.save(step, path, example_inputs=(x,))
    wider = np.asarray([1.0, -4, 0, 2.5, -0.5], np.float32)
    for run in (jg.load(path), loader.load(path)):
        for got, expected in zip(run(wider), step(jg.asarray(wider)), strict=True):
            same(got, expected)


# --- what is refused --------------------------------------------------------------------------------------------------


def draws(x: float) -> Any:
    return x * jg.random.normal(())


def tells(x: float) -> Any:
    if x > 0:
        raise ValueError("positive")
    return x


def stacks(x: float) -> Any:
    return jg.stack([x, x])


def sums(x: float) -> Any:
    return jg.stack([x, x]).sum()


def nothing(x: float) -> None:
    pass


def half_of_it(x: float) -> Any:
    if x > 0:
        return x
    return None


def frexp(x: float) -> Any:
    return math.frexp(x)[0]


def asserts(x: float) -> float:
    assert x > 2, "small"
    return x


def has_no_value(x: float) -> float:
    if x > 2:
        y = x
    return y


def has_no_value_without_a_turn(x: float) -> float:
    while x > 2:
        y = x
        x = x - 1
    return y


def looks_up(x: float) -> float:
    return (1.0, 2.0, 3.0)[int(x)]


def has_a_value_for_each(x: float) -> float:
    y = 0.0
    if x > 2:
        y = x
    assert math.pi > 3
    return y + sum([x, x]) + max(x, 1.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (asserts, r"AssertionError \(small\) for some"),
        (has_no_value, "local variable 'y'.*for some elements"),
        (has_no_value_without_a_turn, "local variable 'y'.*for some elements"),
        (looks_up, "IndexError"),
        *(
            (lambda x, name=name: x / getattr(jg, name)(x), f"uses {name}, which is no function of single")
            for name in ("sum", "prod", "mean", "max", "min", "any", "all")
        ),
        (lambda x: x / np.sum(x), "uses sum, which"),
        (draws, "draws random numbers"),
        (tells, "raises or checks"),
        (stacks, "is no function of single numbers"),
        (sums, "is no function of single numbers"),
        (nothing, "gives None"),
        (half_of_it, "None in the else branch"),
        (frexp, "math.frexp of an element"),
        (lambda x: "text", "gives a str"),
        (lambda x: x + jg.ones(3), "of shape|single numbers"),
    ],
)
def test_what_is_no_function_of_numbers_is_refused_and_names_the_line(function: Any, message: str) -> None:
    with pytest.raises((jg.errors.UnsupportedOp, jg.ScriptError, jg.ShapeError), match=message) as failure:
        jg.elementwise(function)(jg.ones(3))
    assert "test_elementwise.py:" in str(failure.value)


def test_what_has_a_value_for_each_element_is_one() -> None:
    x = np.array([0.5, 3.0], np.float32)
    same(jg.elementwise(has_a_value_for_each)(x), np.float32([2.0, 12.0]))


def test_what_is_no_operand_is_refused() -> None:
    op = jg.elementwise(square)
    with pytest.raises(jg.errors.ArgumentError, match="operand 0 is a str"):
        op("text")
    with pytest.raises(jg.errors.ArgumentError, match="takes a function of numbers"):
        jg.elementwise(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        op()
