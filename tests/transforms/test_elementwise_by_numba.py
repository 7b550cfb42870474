"""``@jg.elementwise(compiler="numba")``: functions of numbers by numba's code, which becomes ops."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from tests.transforms.test_elementwise import VALUES, damped, halvings, poles, root, same, series, shrink


def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)


def test_without_numba_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without_numba(monkeypatch)
    with pytest.raises(jg.errors.CompileError, match=r"numba.*cannot be imported") as failure:
        jg.elementwise(compiler="numba")(shrink)
    assert 'pip install "jitgraph[numba]"' in str(failure.value)
    with pytest.raises(jg.errors.ArgumentError, match="compiler is"):
        jg.elementwise(compiler="gcc")(shrink)  # type: ignore[call-overload]


def test_a_file_needs_no_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    x = np.asarray([1.0, -4.0, 0.0, 2.5], np.float32)
    op = jg.elementwise(compiler="numba")(poles)
    expected = op(x)
    jg.save(jg.trace(lambda x: op(x)), tmp_path / "poles.jg", example_inputs=(x,))
    without_numba(monkeypatch)
    for run in (jg.load(tmp_path / "poles.jg"), loader.load(tmp_path / "poles.jg")):
        same(run(x), expected)
    jg.save(jg.load(tmp_path / "poles.jg"), tmp_path / "again.jg", example_inputs=(x,), targets=("x86-64-v3", "sm_80"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [shrink, damped, poles, halvings, series])
def test_it_gives_what_the_recorded_function_gives(function: Callable[..., Any], dtype: Any) -> None:
    pytest.importorskip("numba")
    x = np.asarray([v for v in VALUES if function is not halvings or math.isfinite(v)], dtype)
    op = jg.elementwise(compiler="numba")(function)
    expected = jg.elementwise(compiler="jitgraph")(function)(x)
    for got in (op(x), jg.trace(lambda x: op(x))(x)):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=2e-6 if dtype == np.float32 else 1e-14)
    low = jg.trace(lambda x: jg.exp(op(x) * 2)).lower(x)
    assert function is halvings or str(low.kernels).count("launch ") == 1


def test_operands_results_and_gradients() -> None:
    numba = pytest.importorskip("numba")

    def plain(x: float) -> Any:
        return -x

    @numba.njit
    def helper(x: float, n: int) -> Any:
        return x * n if n > 1 else plain(x)

    @jg.elementwise
    def mixed(x: float, n: int, flag: bool) -> Any:
        return (helper(x, n), n // 2) if flag else (x, -n)

    x, n, flag = np.asarray([[0.5], [2.0]], np.float32), np.asarray([1, 2, 5]), np.asarray([True, False, True])
    y, k = mixed(x, n, flag)
    same(y, np.where(flag, np.where(n > 1, x * n.astype(np.float32), -x), x))
    same(k, np.broadcast_to(np.where(flag, n // 2, -n), (2, 3)))
    half = mixed(x.astype(np.float16), 3, True)[0]
    assert half.dtype == jg.float16 and half.tolist() == [[1.5], [6.0]]
    op = jg.elementwise(compiler="numba")(root)
    same(jg.grad(lambda x: op(x).sum())(jg.asarray([-1.0, 0.0, 4.0])), np.asarray([0, 0, 0.25], np.float32))
    same(jg.vmap(op)(jg.asarray([[4.0], [-1.0]])), np.asarray([[2], [0]], np.float32))


def test_numbers_from_outside_are_never_stale() -> None:
    pytest.importorskip("numba")
    factor = 2.0

    def helper(x: float) -> Any:
        return x * factor

    @jg.elementwise(compiler="numba")
    def scaled(x: float) -> Any:
        return helper(x)

    traced = jg.trace(lambda x: scaled(x) + 1)
    x = jg.asarray([1.0, -3.0])
    for factor in (2.0, 3.0, -1, 2.0):
        same(scaled(x), np.asarray([factor, -3 * factor], np.float32))
        same(traced(x), np.asarray([factor + 1, 1 - 3 * factor], np.float32))


def raises(x: float) -> Any:
    if x < 0:
        raise ValueError("negative")
    return x


def in_memory(x: float) -> Any:
    numbers = np.zeros(3)
    numbers[int(x) % 3] = x
    return numbers.sum()


def text(x: float) -> Any:
    return "text"


@pytest.mark.parametrize("function", [raises, in_memory, text])
def test_what_is_no_arithmetic_is_refused_and_names_the_line(function: Any) -> None:
    pytest.importorskip("numba")
    with pytest.raises(jg.errors.UnsupportedOp, match=function.__name__) as failure:
        jg.elementwise(compiler="numba")(function)(jg.ones(3))
    assert "test_elementwise_by_numba.py:" in str(failure.value)
    with pytest.raises((jg.errors.UnsupportedOp, jg.ScriptError, jg.TraceError)):
        jg.elementwise(function)(jg.ones(3))


def test_complex_numbers_and_tensors_from_outside_are_refused() -> None:
    pytest.importorskip("numba")
    weight = jg.ones(())
    with pytest.raises(jg.errors.UnsupportedOp, match="complex"):
        jg.elementwise(compiler="numba")(damped)(np.ones(2, np.complex64))
    with pytest.raises(jg.errors.UnsupportedOp, match="reads a tensor from outside"):
        jg.elementwise(compiler="numba")(lambda x: x * weight)(np.ones(2, np.float32))
