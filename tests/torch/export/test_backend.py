"""``torch.compile`` with jitgraph as backend: results, gradients and training as PyTorch's own; shared memory."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import numpy as np
import pytest

from tests import ROOT

torch = pytest.importorskip("torch")

from jitgraph.torch.programs import backend as module  # noqa: E402 - needs torch
from tests.torch.export.models import MODELS  # noqa: E402
from tests.torch.export.test_models import prepared, tensors  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("mlp", "cnn", "residual_network", "u_net", "vae", "transformer_encoder", "gpt", "graph_network", "losses")


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def relative(actual: Any, expected: Any) -> float:
    return float((actual - expected).abs().max() / (expected.abs().max() + 1e-9))


@pytest.mark.parametrize("name", NAMES)
def test_forward_and_backward(name: str) -> None:
    model, args = prepared(name)
    twin = copy.deepcopy(model)
    actual = tensors(torch.compile(twin, backend=module.backend, fullgraph=True)(*args), torch.Tensor)
    expected = tensors(model(*args), torch.Tensor)
    for own, theirs in zip(actual, expected, strict=True):
        assert relative(own, theirs) < 1e-4
        weight = torch.randn_like(theirs)
        (own * weight).sum().backward(retain_graph=True)
        (theirs * weight).sum().backward(retain_graph=True)
    largest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    for own, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        if theirs.grad is not None:
            assert float((own.grad - theirs.grad).abs().max()) < 1e-4 * largest
    for own, theirs in zip(twin.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(own, theirs)


def test_training_with_pytorchs_optimiser() -> None:
    losses = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, (x,) = MODELS["cnn"]()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        forward = torch.compile(model, backend=module.backend) if compiled else model
        own = []
        for _ in range(6):
            loss = torch.nn.functional.cross_entropy(forward(x), torch.tensor([1, 2, 3]))
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            own.append(loss.item())
        losses.append(own)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert losses[0][-1] < losses[0][0]


def test_a_recurrent_layer_is_in_the_graph() -> None:
    """Where PyTorch's own setting lets it be there; without, PyTorch breaks the graph and computes the layer itself."""
    torch.manual_seed(0)
    model = torch.nn.LSTM(3, 4, batch_first=True)
    twin, x = copy.deepcopy(model), torch.randn(2, 3, 3)
    with torch._dynamo.config.patch(allow_rnn=True):
        actual = torch.compile(twin, backend=module.backend, fullgraph=True)(x)[0]
    expected = model(x)[0]
    torch.testing.assert_close(actual, expected)
    for result in (actual, expected):
        result.square().sum().backward()
    for own, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own.grad, theirs.grad)


def test_inputs_that_are_no_plain_memory() -> None:
    """Conjugated, negated as they are read, and with gradients."""
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x, y: x * 2 + y)(torch.randn(3), torch.randn(3))
    call = module.compiled(graph)
    turned = torch.randn(3, dtype=torch.complex64).conj().imag
    assert turned.is_neg()
    leaf = torch.randn(3, requires_grad=True)
    torch.testing.assert_close(call(turned, leaf)[0], (turned * 2 + leaf).detach())


def test_sizes_that_vary() -> None:
    model, _ = prepared("mlp")
    compiled = torch.compile(model, backend=module.backend, dynamic=True)
    for rows in (3, 5, 9, 17):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_results_and_inputs_share_memory() -> None:
    """A result is PyTorch's to write to; an input that is given back is itself; strides and bfloat16 go in."""
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: (x * 2, x, torch.zeros(2)))(torch.randn(2, 3))
    call = module.compiled(graph)
    x = torch.arange(6.0).reshape(3, 2).t()
    for _ in range(2):
        doubled, same, zeros = call(x)
        torch.testing.assert_close(doubled, x * 2)
        assert same is x and not zeros.any()
        doubled.add_(1)
        zeros.add_(1)
    half = torch.randn(2, 3).bfloat16()
    torch.testing.assert_close(call(half)[0], half * 2)
    assert call(half)[0].dtype == torch.bfloat16


def test_the_entry_point_names_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    path = project["entry-points"]["torch_dynamo_backends"]["jitgraph"]
    assert path == f"{module.__name__}:{module.backend.__name__}"
