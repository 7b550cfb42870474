"""Activations and dropout with ``inplace=True``: the tensor that is given has the result's value from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DTypeError, JitgraphError, TraceError

nn, F = jg.nn, jg.nn.functional
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "relu": (), "relu6": (), "hardtanh": (-0.5, 0.5), "silu": (), "leaky_relu": (0.2,), "elu": (0.7,), "selu": (),
    "celu": (1.3,), "mish": (), "hardsigmoid": (), "hardswish": (), "threshold": (0.1, 3.0), "rrelu": (0.1, 0.3, True),
    "dropout": (0.4, True), "dropout1d": (0.4, True), "alpha_dropout": (0.4, True),
    "feature_alpha_dropout": (0.4, True),
}  # fmt: skip
MODULES: dict[str, tuple[tuple[Any, ...], str]] = {
    "ReLU": ((), "ReLU(inplace=True)"),
    "ReLU6": ((), "ReLU6(inplace=True)"),
    "Hardtanh": ((-0.5, 0.5), "Hardtanh(min_val=-0.5, max_val=0.5, inplace=True)"),
    "SiLU": ((), "SiLU(inplace=True)"),
    "LeakyReLU": ((0.2,), "LeakyReLU(negative_slope=0.2, inplace=True)"),
    "ELU": ((0.7,), "ELU(alpha=0.7, inplace=True)"),
    "SELU": ((), "SELU(inplace=True)"),
    "CELU": ((1.3,), "CELU(alpha=1.3, inplace=True)"),
    "Mish": ((), "Mish(inplace=True)"),
    "Hardsigmoid": ((), "Hardsigmoid(inplace=True)"),
    "Hardswish": ((), "Hardswish(inplace=True)"),
    "Threshold": ((0.1, 3.0), "Threshold(threshold=0.1, value=3.0, inplace=True)"),
    "RReLU": ((0.1, 0.3), "RReLU(lower=0.1, upper=0.3, inplace=True)"),
    "Dropout": ((0.4,), "Dropout(p=0.4, inplace=True)"),
    "Dropout1d": ((0.4,), "Dropout1d(p=0.4, inplace=True)"),
    "AlphaDropout": ((0.4,), "AlphaDropout(p=0.4, inplace=True)"),
    "FeatureAlphaDropout": ((0.4,), "FeatureAlphaDropout(p=0.4, inplace=True)"),
}
MODES: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "traced": jg.trace}


def drawn() -> Any:
    return jg.asarray(np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_given_tensor_has_the_result(name: str, mode: str) -> None:
    function, inputs = getattr(F, name), FUNCTIONS[name]
    x, other = drawn(), drawn()
    jg.random.seed(1)
    expected = function(x, *inputs)
    call = MODES[mode](lambda x: function(x, *inputs, inplace=True) + 0)
    for _ in range(2):
        jg.random.seed(1)
        x = drawn()
        alias = x
        result = call(x)
        for same in (result, alias):
            np.testing.assert_allclose(same.numpy(), expected.numpy(), rtol=1e-6)
    assert function(other, *inputs, True) is other  # by its place, as in PyTorch


NAMED = ("relu", "hardtanh", "leaky_relu", "elu", "selu", "celu", "threshold", "rrelu")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMED)
def test_functions_that_are_named_for_it(name: str, mode: str) -> None:
    inputs, x = FUNCTIONS[name], drawn()
    jg.random.seed(1)
    expected = getattr(F, name)(x, *inputs).numpy()
    jg.random.seed(1)
    result = MODES[mode](lambda x: getattr(F, f"{name}_")(x, *inputs))(x)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(x.numpy(), result.numpy())


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    inputs, text = MODULES[name]
    layer, plain = getattr(nn, name)(*inputs, inplace=True), getattr(nn, name)(*inputs)
    assert repr(layer) == text and "inplace=True" not in repr(plain)
    x = drawn()
    jg.random.seed(1)
    expected = plain(x)
    assert expected is not x
    jg.random.seed(1)
    assert layer(x) is x
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


def test_gradients_go_through_what_was_written() -> None:
    w = drawn().requires_grad_()
    y = w * 2
    z = F.leaky_relu(y, 0.5, inplace=True)
    (z * y).sum().backward()  # y is z by then
    x = w.detach()
    slope = jg.where(x > 0, 2.0, 1.0)
    np.testing.assert_allclose(w.grad.numpy(), (2 * slope * slope * x).numpy(), rtol=1e-6)


def test_what_cannot_be_written() -> None:
    w = drawn().requires_grad_()
    with pytest.raises(JitgraphError, match="writes to a leaf that requires a gradient"):
        F.relu(w, inplace=True)
    with jg.no_grad():
        assert F.relu(w, inplace=True) is w and float(w.min()) == 0
    assert F.dropout(w, 0.5, False, inplace=True) is w
    with pytest.raises(DTypeError, match="the result is float32, which a tensor of int32 does not hold"):
        F.elu(jg.asarray(np.array([1, 2], np.int32)), inplace=True)
    with pytest.raises(JitgraphError, match="writes to a tensor, not to a list"):
        F.relu([1.0, 2.0], inplace=True)
    with pytest.raises(TraceError, match="a NumPy argument is written in place"):
        jg.trace(nn.ReLU(inplace=True))(np.ones(2, np.float32))


def test_a_residual_block_as_in_pytorch() -> None:
    """A block whose second use of x sees what the first layer wrote."""

    class Block(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.relu = nn.ReLU(inplace)

        def forward(self, x: Any) -> Any:
            x = x * 1
            return self.relu(x) + x

    x = drawn()
    for call in (Block(True), jg.trace(Block(True))):
        np.testing.assert_array_equal(call(x).numpy(), 2 * np.maximum(x.numpy(), 0))
    np.testing.assert_array_equal(Block(False)(x).numpy(), np.maximum(x.numpy(), 0) + x.numpy())
