"""Recurrent and transformer layers with lengths and masks give the loss and the gradients of the CPU on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgraph as jg
from tests.cuda.places import Machine

nn = jg.nn


def step_of(both: Any) -> Any:
    walk, layer = both

    @jg.trace
    def step(x: Any, lengths: Any, labels: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(walk(packed)[0], batch_first=True)
        hidden = jg.arange(3, device=x.device) >= lengths[:, None]
        scores = layer(outputs, src_key_padding_mask=hidden)[:, 0]
        loss = nn.functional.cross_entropy(scores, labels)
        both.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(both.parameters(), 0.5)
        return loss

    return step


def test_layers_with_lengths_and_masks(here: Machine) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    lengths, labels = np.array([3, 2]), np.array([1, 0])
    results: dict[str, list[Any]] = {}
    for device in ("cpu", "cuda:0"):
        jg.random.seed(0)
        walk = nn.LSTM(4, 4, bidirectional=True, batch_first=True, proj_size=2)
        layer = nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0, batch_first=True)
        both = nn.ModuleList([walk, layer]).to(device)

        loss = step_of(both)(*(jg.asarray(array, device=device) for array in (x, lengths, labels)))
        results[device] = [loss.detach().cpu().numpy(), *(p.grad.cpu().numpy() for p in both.parameters())]
    assert len(results["cpu"]) == 1 + 10 + 12
    for plain, other in zip(*results.values(), strict=True):
        np.testing.assert_allclose(other, plain, rtol=1e-5, atol=1e-7)
