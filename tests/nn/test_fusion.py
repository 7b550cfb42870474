"""Batch norms that are folded into the layer before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

nn, utils = jg.nn, jg.nn.utils


def drawn(*shape: int) -> Any:
    return jg.asarray(np.random.default_rng(len(shape)).standard_normal(shape))


def trained(norm: Any) -> Any:
    """A batch norm with statistics, scales and shifts of its own."""
    rng = np.random.default_rng(1)
    norm.double()
    for name, tensor in norm.state_dict().items():
        if tensor.ndim:
            norm.load_state_dict({name: rng.uniform(0.5, 2.0, tensor.shape)}, strict=False)
    return norm.eval()


LAYERS: dict[str, tuple[Any, Any, tuple[int, ...], bool]] = {
    "Linear": (lambda bias: nn.Linear(4, 6, bias=bias), nn.BatchNorm1d, (5, 4), False),
    "Conv1d": (lambda bias: nn.Conv1d(4, 6, 3, bias=bias), nn.BatchNorm1d, (5, 4, 9), False),
    "Conv2d": (lambda bias: nn.Conv2d(4, 6, 3, padding=1, bias=bias), nn.BatchNorm2d, (2, 4, 5, 6), False),
    "Conv2d groups": (lambda bias: nn.Conv2d(4, 6, 3, groups=2, bias=bias), nn.BatchNorm2d, (2, 4, 5, 6), False),
    "Conv3d": (lambda bias: nn.Conv3d(4, 6, 2, bias=bias), nn.BatchNorm3d, (2, 4, 3, 4, 3), False),
    "ConvTranspose1d": (lambda bias: nn.ConvTranspose1d(4, 6, 3, bias=bias), nn.BatchNorm1d, (5, 4, 9), True),
    "ConvTranspose2d groups": (
        lambda bias: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, bias=bias), nn.BatchNorm2d, (2, 4, 5, 6), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_one_layer_gives_what_both_give(name: str, affine: bool, bias: bool) -> None:
    make, norm, shape, transpose = LAYERS[name]
    layer, bn = make(bias).double().eval(), trained(norm(6, affine=affine))
    x = drawn(*shape)
    expected, weight = bn(layer(x)).detach().numpy(), layer.weight.detach().numpy().copy()
    if name == "Linear":
        fused = utils.fuse_linear_bn_eval(layer, bn)
    else:
        fused = utils.fuse_conv_bn_eval(layer, bn, transpose)
    assert type(fused) is type(layer) and fused is not layer
    np.testing.assert_allclose(fused(x).detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), weight)
    assert [n for n, _ in fused.named_parameters()] == ["weight", "bias"]


def test_weights_alone() -> None:
    w, b = drawn(6, 4), drawn(6)
    bn = trained(nn.BatchNorm1d(6))
    inputs = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    weight, bias = utils.fuse_linear_bn_weights(w, b, *inputs)
    x = drawn(3, 4)
    expected = bn(nn.functional.linear(x, w, b))
    np.testing.assert_allclose((x @ weight.T + bias).detach().numpy(), expected.detach().numpy(), rtol=1e-12)
    assert not weight.requires_grad


def test_what_cannot_be_folded() -> None:
    layer = nn.Linear(4, 6)
    with pytest.raises(jg.JitgraphError, match="fuse_linear_bn_eval: a batch norm in training"):
        utils.fuse_linear_bn_eval(layer, nn.BatchNorm1d(6))
    layer.eval()
    with pytest.raises(jg.JitgraphError, match="no running statistics"):
        utils.fuse_linear_bn_eval(layer, nn.BatchNorm1d(6, track_running_stats=False).eval())
    with pytest.raises(jg.ShapeError, match="a batch norm of 5 channels does not fit"):
        utils.fuse_linear_bn_eval(layer, nn.BatchNorm1d(5).eval())
