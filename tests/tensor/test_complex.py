"""Complex numbers: NumPy's results, special values, the bits of a trace, gradients, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.runtime import loader

RNG = np.random.default_rng(7)
Z = (RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))).astype(np.complex64)
W = (RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))).astype(np.complex64)
WORDS = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
LOGARITHMS = ["exp", "expm1", "log", "log1p", "log2", "log10"]
FUNCTIONS = [*LOGARITHMS, "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", *WORDS, "square", "reciprocal", "abs"]
NOT_AS_NUMPY = ("square", "reciprocal", "atan", "atanh", "expm1")  # whose special values C or NumPy have otherwise

PROGRAMS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda m, x, y: (x + y, x - y, x * y, x / y, -x, 2 * x - 1j, x + m.real(y)),
    "parts": lambda m, x, y: (m.real(x), m.imag(x), m.conj(x), m.angle(x), m.abs(x)),
    "reductions": lambda m, x, y: (x.sum(), m.sum(x, axis=0), m.mean(x, axis=1), m.prod(x, axis=1), m.var(x), m.std(x)),
    "movement": lambda m, x, y: (x.T, x.reshape(2, 6), x[::-1, 1:3], m.stack([x, y]), m.where(m.real(x) > 0, x, y)),
    "products": lambda m, x, y: (x @ y.T, m.vdot(x, y), m.tensordot(x, y.T, 1)),
    "comparisons": lambda m, x, y: (x == y, x != x * 1, m.isnan(x), m.isfinite(x), m.any(x), m.all(x)),
    "powers": lambda m, x, y: (x**2, x**y, m.sqrt(x)),
    "running": lambda m, x, y: (m.cumsum(x, axis=1), m.cumprod(x, axis=1), m.cumprod(y, axis=0)),
    "closeness": lambda m, x, y: (m.isclose(x, x * (1 + 1e-6)), m.isclose(x, y), m.nan_to_num(x / 0 + y)),
    "without NaN": lambda m, x, y: (m.nansum(m.log(x * 0) * 0 + x), m.nanmean(y, axis=0), m.nanvar(x), m.nanstd(y)),
    "statistics": lambda m, x, y: (m.cov(x).astype(x.dtype), m.corrcoef(y).astype(x.dtype), m.convolve(x[0], y[1])),
    "gathers": lambda m, x, y: (m.take(x, m.asarray([2, 0]), axis=0), m.roll(x, 1, 1), m.flip(x)),
}


def arrays(actual: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in actual]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_numpy_eager_and_traced(name: str, dtype: Any) -> None:
    x, y = Z.astype(dtype), W.astype(dtype)
    with np.errstate(all="ignore"):
        expected = arrays(PROGRAMS[name](np, x, y))
    eager = arrays(PROGRAMS[name](jg, jg.asarray(x), jg.asarray(y)))
    traced = arrays(jg.trace(lambda a, b: PROGRAMS[name](jg, a, b))(jg.asarray(x), jg.asarray(y)))
    for want, actual, compiled in zip(expected, eager, traced, strict=True):
        assert actual.dtype == want.dtype and actual.shape == want.shape
        assert actual.tobytes() == compiled.tobytes()
        np.testing.assert_allclose(actual, want, rtol=64 * np.finfo(dtype).eps, atol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_accurate(name: str) -> None:
    spread = np.exp(2 * RNG.normal(size=(2, 500)))
    z = (spread * np.exp(2j * np.pi * RNG.random((2, 500)))).astype(np.complex64)
    result = getattr(jg, name)(jg.asarray(z)).numpy()
    with np.errstate(all="ignore"):
        wide = getattr(np, WORDS.get(name, name))(z.astype(np.complex128))
    inside = (np.abs(wide) < 1e37) & (np.abs(wide) > 1e-37)
    error = np.abs(result[inside] - wide[inside]) / np.abs(wide[inside])
    assert np.max(error) < 6 * np.finfo(np.float32).eps


SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]


def _class(x: Any) -> Any:
    return np.where(np.isnan(x), 3, np.where(np.isinf(x), 2, x != 0))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in NOT_AS_NUMPY])
def test_special_values(name: str) -> None:
    """Zeros, infinities and NaN stand where C99's Annex G has them, as NumPy's do, and so do the signs of results."""
    z = np.array([0j] * len(SPECIAL) ** 2)
    z.real, z.imag = zip(*itertools.product(SPECIAL, SPECIAL), strict=True)
    with np.errstate(all="ignore"):
        expected = getattr(np, WORDS.get(name, name))(z)
    result = getattr(jg, name)(jg.asarray(z)).numpy()
    for part in ("real", "imag"):
        want, got = getattr(expected, part), getattr(result, part)
        assert np.array_equal(_class(want), _class(got))
        known = np.isfinite(want) & (want != 0)
        np.testing.assert_allclose(got[known], want[known], rtol=1e-14)


@pytest.mark.parametrize(("z", "sign"), [(-1 + 0j, 1), (complex(-1, -0.0), -1)])
def test_cuts_have_two_sides(z: complex, sign: int) -> None:
    x = jg.asarray(z, dtype=jg.complex128)
    assert jg.log(x).item().imag == sign * np.pi
    assert jg.sqrt(x).item() == complex(0, sign)
    assert np.isclose(jg.acos(2 * x).item().imag, -sign * np.arccosh(2))


LOSSES: dict[str, Callable[[jg.Tensor], jg.Tensor]] = {
    "mul": lambda x: jg.abs(x * jg.asarray(W[0].astype(np.complex128))).sum(),
    "div": lambda x: (jg.asarray(W[0].astype(np.complex128)) / x).imag.sum(),
    "abs": lambda x: (jg.abs(x) ** 3).sum(),
    "exp of log": lambda x: (jg.exp(x) * jg.log(x)).real.sum(),
    "tan of asin": lambda x: jg.abs(jg.tan(x) + jg.asin(x)).sum(),
    "conj and parts": lambda x: (x.conj() * x.real + x.imag).imag.sum(),
    "matmul": lambda x: jg.abs(x.reshape(2, 2) @ x.reshape(2, 2)).sum(),
    "prod": lambda x: jg.abs(x.prod()) + jg.abs(jg.cumulative_sum(x)).sum(),
}


def differences(function: Callable[[jg.Tensor], jg.Tensor], z: Any, step: float) -> Any:
    """dL/dx + i dL/dy by central differences."""
    result = np.zeros_like(z)
    for i, unit in itertools.product(range(z.size), (1, 1j)):
        move = np.zeros_like(z)
        move[i] = step * unit
        up, down = (function(jg.asarray(z + sign * move)).item() for sign in (1, -1))
        result[i] += unit * (up - down) / (2 * step)
    return result


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_both_orders(name: str) -> None:
    loss, z = LOSSES[name], (0.5 * Z[0]).astype(np.complex128)
    first = jg.grad(loss)
    result = first(jg.asarray(z)).numpy()
    np.testing.assert_allclose(result, differences(loss, z, 1e-6), rtol=1e-6, atol=1e-7)
    assert result.tobytes() == jg.trace(first)(jg.asarray(z)).numpy().tobytes()

    def again(x: jg.Tensor) -> jg.Tensor:
        return (first(x) * (1 + 2j)).real.sum()  # type: ignore[no-any-return]

    second = jg.trace(jg.grad(again))(jg.asarray(z)).numpy()
    np.testing.assert_allclose(second, differences(again, z, 1e-5), rtol=1e-5, atol=1e-6)


def test_a_gradient_is_dx_plus_i_dy() -> None:
    z = jg.asarray(3 + 4j, dtype=jg.complex128).requires_grad_()
    jg.abs(z).backward()
    assert z.grad is not None and z.grad.item() == 0.6 + 0.8j
    for call in (lambda: (z * z).backward(), lambda: jg.trace(lambda x: jg.grad(lambda y: y * y)(x))(z)):
        with pytest.raises((jg.DTypeError, jg.ShapeError, jg.JitgraphError), match="real"):
            call()


def test_control_flow_carries_complex_numbers() -> None:
    def loop(x: jg.Tensor) -> Any:
        carry, rows = jg.scan(lambda c, e: (c * e + 1j, c), x[0], x)
        grown = jg.while_loop(lambda c: jg.abs(c).sum() < 100, lambda c: c * (1 + 0.5j), x)
        return carry, rows, jg.cond(jg.abs(carry) > 1, lambda a: a * 1j, lambda a: a / 2, grown)

    x = jg.asarray(Z[0])
    for want, actual in zip(arrays(loop(x)), arrays(jg.trace(loop)(x)), strict=True):
        assert want.tobytes() == actual.tobytes()
    total = lambda x: sum((jg.abs(part) ** 2).sum() for part in loop(x))
    assert jg.grad(total)(x).numpy().tobytes() == jg.trace(jg.grad(total))(x).numpy().tobytes()


def test_promotion() -> None:
    x = jg.ones(2, dtype=jg.complex64)
    assert (x + jg.ones(2, dtype=jg.float64)).dtype == jg.complex128
    assert (x + jg.ones(2, dtype=jg.int64)).dtype == (x * 2.5).dtype == (x + 1j).dtype == jg.complex64
    assert (jg.ones(2, dtype=jg.float64) * 1j).dtype == jg.complex128
    assert (jg.ones(2, dtype=jg.bfloat16) * 1j).dtype == jg.asarray([1j]).dtype == jg.complex64
    assert dtypes.promote(jg.complex64, jg.float16, jg.int8) == jg.complex64


def test_what_people_write() -> None:
    np.testing.assert_array_equal(jg.linspace(0, 1 + 2j, 3).numpy(), np.linspace(0, 1 + 2j, 3).astype("c8"))
    x = jg.asarray([[1 + 2j, 3 - 1j]])
    assert x.tolist() == [[1 + 2j, 3 - 1j]] and complex(x[0, 0]) == 1 + 2j
    assert x.H.tolist() == [[1 - 2j], [3 + 1j]]
    assert jg.view_as_complex(jg.view_as_real(x)).tolist() == x.tolist()
    assert (
        jg.complex(jg.asarray([-0.0]), jg.asarray([np.inf])).numpy().tobytes()
        == np.array([complex(-0.0, np.inf)], np.complex64).tobytes()
    )
    np.testing.assert_allclose(jg.polar(jg.asarray(2.0), jg.asarray(np.pi / 2)).item(), 2j, atol=1e-6)
    assert np.from_dlpack(x).dtype == np.complex64 and jg.asarray(np.from_dlpack(x)).tolist() == x.tolist()
    x[0, 0] = 5j
    assert x.tolist() == [[5j, 3 - 1j]]


def test_graphs_have_text() -> None:
    traced = jg.trace(lambda x: x * np.array([1 + 1j, 0.1 - 0j], np.complex64) + 2j)
    graph = traced.lower(jg.asarray(Z[0, :2])).graph
    assert "c64[2]" in str(graph) and str(jg.ir.parse(str(graph))) == str(graph)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x < x, "no order"),
        (lambda x: jg.maximum(x, x), "no order"),
        (lambda x: jg.sort(x), "takes a real dtype"),
        (lambda x: jg.max(x), "takes a real dtype"),
        (lambda x: jg.argmax(x), "takes a real dtype"),
        (lambda x: x // x, "not defined for complex"),
        (lambda x: jg.floor(x), "not defined for complex"),
        (lambda x: x.astype(jg.float32), "drop the imaginary part"),
        (lambda x: jg.asarray([1j], dtype=jg.float32), "drop the imaginary part"),
        (lambda x: jg.linspace(0, 1j, 3, dtype=jg.float32), "drop the imaginary part"),
        (lambda x: jg.signbit(x), "not defined for complex"),
    ],
)
def test_what_is_refused(call: Callable[[jg.Tensor], Any], message: str) -> None:
    x = jg.asarray(Z[0])
    with pytest.raises(jg.DTypeError, match=message):
        call(x)
    with pytest.raises(jg.DTypeError, match=message):
        jg.trace(call)(x)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_files_hold_complex_numbers(dtype: Any, tmp_path: Any) -> None:
    weight, x = jg.asarray(W[0].astype(dtype)), jg.asarray(Z[0].astype(dtype))
    function = jg.trace(lambda a: jg.exp(a) * weight)
    expected = function(x).numpy()
    jg.save(function, tmp_path / "model.jg", example_inputs=(x,))
    assert np.asarray(jg.load(tmp_path / "model.jg")(x)).tobytes() == expected.tobytes()
    assert loader.load(tmp_path / "model.jg")(x.numpy()).tobytes() == expected.tobytes()


def test_samples_in_one_call() -> None:
    x = jg.asarray(Z.astype(np.complex128))
    norm = lambda row: jg.grad(lambda y: jg.abs(y * y).sum())(row) + jg.fft.fft(row)
    result = jg.vmap(norm)(x).numpy()
    np.testing.assert_allclose(result, np.stack([norm(row).numpy() for row in x]), rtol=1e-14)
    assert result.tobytes() == jg.trace(jg.vmap(norm))(x).numpy().tobytes()
