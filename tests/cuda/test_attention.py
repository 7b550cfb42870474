"""Attention of tensors on a simulated GPU whose sums go in any order: eager, traced, and both with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager import device_emitter
from tests.cuda.places import Machine
from tests.graphs import needs_native

pytestmark = needs_native
SHAPES = ((2, 9, 16), (2, 21, 8), (2, 21, 8))
ARRAYS = [np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in enumerate(SHAPES)]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, here: Machine) -> Machine:
    monkeypatch.setenv("JITGRAPH_CUDA_ORDER", "free")
    return here


def step(q: Any, k: Any, v: Any, dropout: float) -> Any:
    """The result and the gradients of four heads beside two, in the layout in which linear layers leave them."""
    heads = [x.reshape(*x.shape[:-1], -1, 4).transpose(-2, -3) for x in (q, k, v)]
    attend = jg.nn.functional.scaled_dot_product_attention
    out = attend(*heads, is_causal=True, dropout_p=dropout, enable_gqa=True)
    (out.transpose(-2, -3) ** 2).sum().backward()
    return [out, q.grad, k.grad, v.grad]


def outcome(function: Any, device: str, dropout: float) -> list[Any]:
    jg.random.seed(3)
    tensors = [jg.asarray(x, device=device, requires_grad=True) for x in ARRAYS]
    return [x.detach().cpu().numpy() for x in function(*tensors, dropout)]


@pytest.mark.parametrize(("function", "dropout"), [(step, 0.0), (jg.trace(step), 0.25)], ids=["eager", "traced"])
def test_it_is_the_cpus(here: Machine, function: Any, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    full: list[str] = []
    plain = device_emitter.compile
    monkeypatch.setattr(device_emitter, "compile", lambda *args, **more: seen(plain(*args, **more), full))
    result = outcome(function, "cuda", dropout)
    for got, want in zip(result, outcome(function, "cpu", dropout), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=4e-6)
    assert {"k_attention", "k_attention_of_queries", "k_attention_of_keys"} <= set(full)


def seen(result: Any, full: list[str]) -> Any:
    """The code that was made, whose functions are noted."""
    full += result.parts.functions
    return result
