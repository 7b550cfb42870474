"""Tools for modules: norms of weights by their newer and older forms, parametrisations, packed sequences, clipping."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch import nn
from jitgraph.torch.nn import utils
from jitgraph.torch.nn.utils import rnn

X = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_older_norms_have_their_parameters_beside_the_weight(name):
    keys = {"weight_norm": ["bias", "weight_g", "weight_v"], "spectral_norm": ["bias", "weight_orig"]}[name]
    plain = nn.Linear(3, 4)
    expected = plain(X)
    layer = getattr(utils, name)(copy.deepcopy(plain))
    assert sorted(dict(layer.named_parameters())) == keys
    if name == "weight_norm":
        np.testing.assert_allclose(layer(X).tolist(), expected.tolist(), rtol=1e-5)
    else:
        assert {"weight_u", "weight_v"} <= layer.state_dict().keys()
        for _ in range(20):
            layer(X)
        assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1.0, rel=1e-4)
    layer(X).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    layer.eval()
    compiled = jg.trace(lambda x: layer(x))
    np.testing.assert_allclose(compiled(X).tolist(), layer(X).tolist(), rtol=1e-5)
    weight = layer.weight.tolist()
    removed = getattr(utils, f"remove_{name}")(layer)
    assert sorted(removed.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(removed.weight.tolist(), weight, rtol=1e-5)
    with pytest.raises(ValueError, match="not found"):
        getattr(utils, f"remove_{name}")(removed)


def test_a_norm_is_registered_once():
    layer = utils.weight_norm(nn.Linear(3, 4))
    layer.weight = nn.Parameter(torch.zeros(4, 3))
    with pytest.raises(RuntimeError, match="Cannot register two"):
        utils.weight_norm(layer)


def test_parametrisations_are_of_pytorchs_classes():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    layer = nn.Linear(3, 3)
    utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    assert isinstance(layer, nn.Linear)
    assert type(layer.weight) is torch.Tensor
    assert layer.weight.tolist() == layer.weight.T.tolist()
    assert type(layer.parametrizations.weight.original) is nn.Parameter
    assert utils.parametrize.type_before_parametrizations(layer) is nn.Linear
    for make in (utils.parametrizations.weight_norm, utils.parametrizations.orthogonal):
        made = make(nn.Linear(3, 3))
        assert type(made.weight) is torch.Tensor
        assert all(isinstance(module, nn.Module) for module in made.modules())


def test_packed_sequences_have_pytorchs_layout():
    sequences = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0]), torch.tensor([6.0])]
    packed = rnn.pack_sequence(sequences)
    assert isinstance(packed, rnn.PackedSequence)
    assert packed.data.tolist() == [1.0, 4.0, 6.0, 2.0, 5.0, 3.0]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is None
    again = rnn.PackedSequence(packed.data * 2, packed.batch_sizes)
    assert [x.tolist() for x in rnn.unpack_sequence(again)] == [[2.0, 4.0, 6.0], [8.0, 10.0], [12.0]]
    shuffled = rnn.pack_sequence([sequences[1], sequences[0], sequences[2]], enforce_sorted=False)
    again = rnn.PackedSequence(shuffled.data, shuffled.batch_sizes, shuffled.sorted_indices, shuffled.unsorted_indices)
    assert [x.tolist() for x in rnn.unpack_sequence(again)] == [[4.0, 5.0], [1.0, 2.0, 3.0], [6.0]]
    outputs, last = nn.GRU(1, 2)(rnn.pack_sequence([x.unsqueeze(-1) for x in sequences]))
    assert isinstance(outputs, rnn.PackedSequence)
    assert outputs.data.shape == (6, 2)
    assert type(last) is torch.Tensor


def test_gradients_are_clipped_in_place():
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    (weight * weight).sum().backward()
    norm = utils.clip_grad_norm_([weight], 1.0)
    assert type(norm) is torch.Tensor
    assert float(norm) == pytest.approx(10.0)
    np.testing.assert_allclose(weight.grad.tolist(), [0.6, 0.8], rtol=1e-5)
    utils.clip_grad_value_([weight], 0.7)
    np.testing.assert_allclose(weight.grad.tolist(), [0.6, 0.7], rtol=1e-5)
    assert utils.parameters_to_vector([weight]).tolist() == [3.0, 4.0]
    utils.vector_to_parameters(torch.tensor([1.0, 2.0]), [weight])
    assert weight.tolist() == [1.0, 2.0]


def test_fused_norms():
    layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    fused = utils.fuse_conv_bn_eval(*layers)
    x = torch.ones(1, 1, 4, 4)
    np.testing.assert_allclose(fused(x).tolist(), layers(x).tolist(), rtol=1e-5)
    assert type(fused) is nn.Conv2d
    assert type(fused.weight) is nn.Parameter
