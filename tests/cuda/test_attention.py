"""Attention of tensors on a simulated GPU whose sums go in any order: eager, traced, and both with gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager import device_program
from tests.graphs import needs_native
from tests.runtime.cuda.machines import Machine, machine

pytestmark = needs_native
ARRAYS = [
    np.random.default_rng(i).normal(size=(2, length, 8)).astype(np.float32) for i, length in enumerate((9, 21, 21))
]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    plain = device_program.target_of
    monkeypatch.setattr(device_program, "target_of", lambda device: plain(device).in_any_order())
    with machine(hides=True) as found:
        yield found


def step(q: Any, k: Any, v: Any, dropout: float) -> Any:
    """The result and the gradients, heads in the layout in which linear layers leave them."""
    heads = [x.reshape(*x.shape[:-1], 2, 4).transpose(-2, -3) for x in (q, k, v)]
    out = jg.nn.functional.scaled_dot_product_attention(*heads, is_causal=True, dropout_p=dropout)
    (out.transpose(-2, -3) ** 2).sum().backward()
    return [out, q.grad, k.grad, v.grad]


def outcome(function: Any, place: str, dropout: float) -> list[Any]:
    jg.random.seed(3)
    tensors = [jg.asarray(x, device=place, requires_grad=True) for x in ARRAYS]
    return [x.detach().cpu().numpy() for x in function(*tensors, dropout)]


@pytest.mark.parametrize(("function", "dropout"), [(step, 0.0), (jg.trace(step), 0.25)], ids=["eager", "traced"])
def test_it_is_the_cpus(here: Machine, function: Any, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[str] = []
    plain = device_program.compile
    monkeypatch.setattr(device_program, "compile", lambda *args, **more: seen(plain(*args, **more), whole))
    found = outcome(function, "cuda", dropout)
    for got, want in zip(found, outcome(function, "cpu", dropout), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=4e-6)
    assert {"k_attention", "k_attention_of_queries", "k_attention_of_keys"} <= set(whole)


def seen(made: Any, whole: list[str]) -> Any:
    """The code that was made, whose functions are noted."""
    whole += made.parts.functions
    return made
