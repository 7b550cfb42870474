"""Lazy layers: nothing before the first call, which makes them the plain ones; as PyTorch's, but for traces."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import JitgraphError, ShapeError, TraceError

nn = jg.nn
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Linear": ({"out_features": 3}, (2, 5)),
    "Conv1d": ({"out_channels": 4, "kernel_size": 3, "groups": 2}, (2, 6, 8)),
    "Conv2d": ({"out_channels": 4, "kernel_size": 3, "padding": "same"}, (2, 3, 8, 7)),
    "Conv3d": ({"out_channels": 2, "kernel_size": 2, "bias": False}, (1, 3, 4, 4, 4)),
    "ConvTranspose1d": ({"out_channels": 4, "kernel_size": 3, "groups": 2}, (2, 6, 8)),
    "ConvTranspose2d": ({"out_channels": 4, "kernel_size": 3, "stride": 2, "output_padding": 1}, (2, 3, 4, 4)),
    "ConvTranspose3d": ({"out_channels": 2, "kernel_size": 2}, (1, 3, 3, 3, 3)),
    "BatchNorm1d": ({"eps": 1e-3}, (4, 5)),
    "BatchNorm2d": ({"momentum": None}, (4, 3, 2, 2)),
    "BatchNorm3d": ({"affine": False}, (4, 3, 2, 2, 2)),
    "InstanceNorm1d": ({"affine": True, "track_running_stats": True}, (2, 3, 5)),
    "InstanceNorm2d": ({"affine": False, "track_running_stats": False}, (2, 3, 4, 4)),
    "InstanceNorm3d": ({"affine": True, "track_running_stats": False}, (2, 3, 3, 3, 3)),
}
_INPUTS = {"Linear": -1}


def lazy(name: str) -> tuple[Any, Any, Any]:
    """The lazy layer, the plain one of the same random state, and an input."""
    inputs, shape = CASES[name]
    x = jg.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    jg.random.seed(3)
    waiting = getattr(nn, f"Lazy{name}")(**inputs)
    waiting(x)
    jg.random.seed(3)
    plain = getattr(nn, name)(shape[_INPUTS.get(name, 1)], **inputs)
    plain(x)
    return waiting, plain, x


@pytest.mark.parametrize("name", CASES)
def test_the_first_call_makes_the_plain_layer(name: str) -> None:
    waiting, plain, x = lazy(name)
    assert type(waiting) is type(plain) and repr(waiting) == repr(plain)
    assert set(vars(waiting)) == set(vars(plain))
    state, other = waiting.state_dict(), plain.state_dict()
    assert list(state) == list(other)
    for key, value in state.items():
        np.testing.assert_array_equal(value, other[key])
    np.testing.assert_array_equal(jg.trace(waiting)(x).detach().numpy(), jg.trace(plain)(x).detach().numpy())


@pytest.mark.parametrize("name", CASES)
def test_a_state_dict_makes_the_plain_layer(name: str) -> None:
    inputs, _ = CASES[name]
    _, plain, x = lazy(name)
    model = nn.Sequential(getattr(nn, f"Lazy{name}")(**inputs))
    state = nn.Sequential(plain).state_dict()
    if not state:  # of a norm without parameters or averages
        assert name == "InstanceNorm2d"
        return
    model.load_state_dict(state)
    assert type(model[0]) is type(plain)
    np.testing.assert_array_equal(model.eval()(x).detach().numpy(), plain.eval()(x).detach().numpy())


@pytest.mark.parametrize("name", CASES)
def test_before_the_first_call_there_are_no_parameters(name: str) -> None:
    inputs, shape = CASES[name]
    layer = getattr(nn, f"Lazy{name}")(**inputs)
    assert isinstance(layer, getattr(nn, name)) and repr(layer).startswith(f"Lazy{name}(")
    model = nn.Sequential(nn.Flatten(0, -1), layer)
    for requested in (
        lambda: list(model.parameters()),
        lambda: dict(model.named_buffers()),
        model.state_dict,
        lambda: jg.optim.SGD(model.parameters(), lr=0.1),
        lambda: model.load_state_dict({}),
        lambda: nn.summary(model),
    ):
        with pytest.raises(JitgraphError, match=rf"Lazy{name}\)? has no parameters before its first call"):
            requested()
    with pytest.raises(TraceError, match="call the model once on a batch before it is traced"):
        jg.trace(layer)(jg.ones(shape))
    assert type(layer).__name__ == f"Lazy{name}"
    layer(jg.ones(shape))
    assert type(layer).__name__ == name


def test_a_parameter_that_is_not_there_says_so() -> None:
    layer = nn.LazyLinear(3)
    assert repr(layer.weight) == "<uninitialized, of a LazyLinear>"
    with pytest.raises(JitgraphError, match="shape of a LazyLinear that was not called yet"):
        _ = layer.bias.shape
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'input'"):
        layer()
    with pytest.raises(ShapeError, match="LazyConv2d takes x of 3 or 4 axes"):
        nn.LazyConv2d(3, 3)(jg.ones((2, 2)))
    with pytest.raises(ShapeError, match="LazyLinear takes x of 1 axes"):
        nn.LazyLinear(3)(jg.ones(()))


def test_settings_made_before_the_first_call_hold_after_it() -> None:
    seen = []
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)).to(jg.float64)
    model[0].register_forward_hook(lambda module, args, result: seen.append(type(module).__name__))
    model.eval()
    again = copy.deepcopy(pickle.loads(pickle.dumps(nn.LazyLinear(2, bias=False))))
    assert again(jg.ones((1, 3))).shape == (1, 2) and again.bias is None
    x = jg.ones((2, 3, 5, 5), dtype=jg.float64)
    assert model(x).shape == (2, 2) and model(x).dtype == jg.float64
    assert seen == ["Conv2d", "Conv2d"]
    assert not any(module.training for module in model.modules())
    assert all(tensor.dtype == jg.float64 for tensor in model.parameters())
    half = nn.LazyLinear(2).half()
    assert half(jg.ones((1, 3), dtype=jg.float16)).dtype == jg.float16


def test_a_lazy_model_is_trained() -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(1))
    x = jg.asarray(np.random.default_rng(1).standard_normal((16, 3)).astype(np.float32))
    y = x.sum(1, keepdims=True)
    model(x)
    optimizer = jg.optim.Adam(model.parameters(), lr=0.05)

    @jg.trace
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x, y)) for _ in range(60)]
    assert losses[-1] < losses[0] / 20
