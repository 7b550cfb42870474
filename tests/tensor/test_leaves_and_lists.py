"""Tensors that are made as leaves, and tensors of nested lists that hold tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.transforms.modes import Mode, close, each_mode

X = jg.ones((2,))
MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": lambda **k: jg.zeros((2,), **k),
    "ones": lambda **k: jg.ones((2,), **k),
    "empty": lambda **k: jg.empty((2,), **k),
    "full": lambda **k: jg.full((2,), 3.0, **k),
    "zeros_like": lambda **k: jg.zeros_like(X, **k),
    "ones_like": lambda **k: jg.ones_like(X, **k),
    "full_like": lambda **k: jg.full_like(X, 2.0, **k),
    "arange": lambda **k: jg.arange(0.0, 2.0, 1.0, **k),
    "linspace": lambda **k: jg.linspace(0.0, 1.0, 2, **k),
    "logspace": lambda **k: jg.logspace(0.0, 1.0, 2, **k),
    "eye": lambda **k: jg.eye(2, **k),
    "tri": lambda **k: jg.tri(2, **k),
    "hann_window": lambda **k: jg.hann_window(2, **k),
    "fftfreq": lambda **k: jg.fft.fftfreq(2, **k),
    "rand": lambda **k: jg.rand(2, **k),
    "randn": lambda **k: jg.randn(2, **k),
    "normal": lambda **k: jg.random.normal((2,), **k),
    "uniform": lambda **k: jg.random.uniform((2,), **k),
    "exponential": lambda **k: jg.random.exponential((2,), **k),
    "truncated_normal": lambda **k: jg.random.truncated_normal((2,), **k),
    "asarray": lambda **k: jg.asarray([1.0, 2.0], **k),
}


@each_mode
@pytest.mark.parametrize("name", MAKERS)
def test_what_makes_tensors_makes_leaves(name: str, mode: Mode) -> None:
    def gradient() -> Any:
        x = MAKERS[name](requires_grad=True)
        assert x.requires_grad and x.is_leaf and not MAKERS[name](requires_grad=False).requires_grad
        (x * 3.0).sum().backward()
        return x.grad

    assert set(np.ravel(mode(gradient)().numpy()).tolist()) == {3.0}


def test_integers_are_no_leaves_and_other_functions_say_what_to_write() -> None:
    for make in (lambda: jg.arange(3, requires_grad=True), lambda: jg.randint(0, 5, (2,), requires_grad=True)):
        with pytest.raises(jg.DTypeError, match="only floats have gradients"):
            make()
    with pytest.raises(jg.JitgraphError, match=r"x\.requires_grad_\(\)"):
        jg.sin(X, requires_grad=True)  # type: ignore[call-arg]


@each_mode
def test_lists_of_tensors_are_differentiable_tensors(mode: Mode) -> None:
    weights = jg.asarray([[1.0, 2.0], [3.0, 4.0]])

    def total(t: Any) -> Any:
        return jg.sum(jg.asarray([[1.0, t], (t * t, 3)]) * weights)

    close(mode(jg.grad(total))(jg.asarray(2.0)), 2.0 + 3.0 * 4.0)
    close(mode(lambda t: jg.asarray([1.0, t]))(jg.asarray(2.0)), [1.0, 2.0])
    close(mode(lambda x: jg.asarray([x, [5.0, 6.0]]))(jg.asarray([1.0, 2.0])), [[1.0, 2.0], [5.0, 6.0]])
    close(mode(lambda x: jg.multiply(x, [x[0], 2.0]))(jg.asarray([3.0, 4.0])), [9.0, 8.0])


def test_dtypes_and_shapes_of_lists_of_tensors() -> None:
    i, f, d = jg.asarray(1), jg.asarray(2.0), jg.asarray(3.0, dtype=jg.float64)
    for inputs, dtype in (([i, 2], jg.int64), ([i, 2.5], jg.float32), ([f, i], jg.float32), ([f, d], jg.float64)):
        assert jg.asarray(inputs).dtype == dtype
    assert jg.asarray([f, np.float64(3)]).dtype == jg.float64
    assert jg.asarray([i, True]).dtype == jg.int64
    assert jg.asarray([f, 1.0], dtype=jg.float64).dtype == jg.float64
    assert jg.asarray([f, 2j]).dtype == jg.complex64
    assert jg.asarray([[[f]]]).shape == (1, 1, 1)
    for inputs in ([f, [f]], [jg.ones(2), jg.ones(3)], [[f, f], [f]]):
        with pytest.raises(jg.JitgraphError, match="not all of one length"):
            jg.asarray(inputs)
    with pytest.raises(jg.SharingError, match="list of tensors"):
        jg.asarray([f, f], copy=False)
