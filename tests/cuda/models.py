"""Training steps of whole models, the same on the CPU and on GPUs, small or as large as ``make nightly`` runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import jitgraph as jg
from tests.cuda.networks import Attending, LanguageModel, residual

nn, functional = jg.nn, jg.nn.functional
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Training:
    """A model, the optimizer of its parameters, and what each step is given."""

    model: nn.Module
    optimizer: Callable[[Any], Any]
    arrays: tuple[Array, ...]


def floats(*shape: int) -> Array:
    """Numbers around 0, the same each time."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def labels(classes: int, *shape: int) -> Array:
    """Numbers below ``classes``."""
    return np.random.default_rng(classes).integers(0, classes, shape)


def digits(*, large: bool) -> Training:
    """The classifier of the demo: two linear layers, a layer norm, dropout."""
    batch, width = (64, 128) if large else (12, 24)
    model = nn.Sequential(nn.Linear(64, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 10))
    return Training(model, lambda p: jg.optim.Adam(p, lr=2e-3), (floats(batch, 64), labels(10, batch)))


def cnn(*, large: bool) -> Training:
    """Two convolutions, a batch norm, poolings."""
    batch, side, width = (16, 16, 8) if large else (4, 8, 4)
    model = nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * (side // 4) ** 2, 10),
    )
    arrays = floats(batch, 1, side, side), labels(10, batch)
    return Training(model, lambda p: jg.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True), arrays)


ENCODER_RATE = 1e-3


class Encoder(nn.Module):
    """Words and places embedded, one layer of attention and two linear ones, and a head for each word."""

    def __init__(self, words: int, length: int, width: int, heads: int, compute: Any) -> None:
        super().__init__()
        self.heads, self.compute = heads, compute
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.first, self.second, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, words)

    def product(self, layer: Any, x: Any) -> Any:
        """A linear layer in the precision of products: parameters and what is added stay in float32."""
        result = functional.linear(x.astype(self.compute), layer.weight.astype(self.compute))
        return result.astype(jg.float32) + layer.bias

    def forward(self, words: Any) -> Any:
        x = self.words(words) + self.places(jg.arange(words.shape[1], device=words.device))
        batch, length, width = x.shape
        together = self.product(self.together, self.first(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = (jg.permute_dims(together[:, :, i], (0, 2, 1, 3)).astype(self.compute) for i in range(3))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.product(self.out, jg.permute_dims(seen, (0, 2, 1, 3)).reshape(batch, length, width))
        x = x + self.product(self.down, functional.gelu(self.product(self.up, self.second(x))))
        return self.product(self.head, self.last(x)).reshape(batch * length, -1)


def encoder(*, large: bool, compute: Any = jg.float32) -> Training:
    """An encoder layer with AdamW."""
    batch, length, width, heads, words = (4, 32, 64, 4, 65) if large else (2, 6, 16, 2, 11)
    model = Encoder(words, length, width, heads, compute)
    arrays = labels(words, batch, length), labels(words, batch * length)
    return Training(model, lambda p: jg.optim.AdamW(p, lr=ENCODER_RATE, weight_decay=0.01), arrays)


class Lstm(nn.Module):
    """A cell's steps one after another, in a loop of Python's or by ``jg.scan``, and a head."""

    def __init__(self, width: int, *, scans: bool) -> None:
        super().__init__()
        self.width, self.scans = width, scans
        self.gates, self.head = nn.Linear(2 * width, 4 * width), nn.Linear(width, 5)

    def cell(self, state: tuple[Any, Any], x: Any) -> tuple[tuple[Any, Any], Any]:
        hidden, cell = state
        gates = self.gates(jg.concat([x, hidden], axis=1))
        i, f, g, o = (gates[:, n * self.width : (n + 1) * self.width] for n in range(4))
        cell = jg.sigmoid(f) * cell + jg.sigmoid(i) * jg.tanh(g)
        hidden = jg.sigmoid(o) * jg.tanh(cell)
        return (hidden, cell), hidden

    def forward(self, x: Any) -> Any:
        zeros = jg.zeros_like(x[0])
        state = zeros, zeros
        if self.scans:
            state, _ = jg.scan(self.cell, state, x)
        else:
            for step in range(x.shape[0]):
                state, _ = self.cell(state, x[step])
        return self.head(state[0])


def lstm(*, large: bool, scans: bool = False) -> Training:
    """A recurrent network with Adam."""
    batch, steps, width = (16, 16, 32) if large else (3, 4, 8)
    arrays = floats(steps, batch, width), labels(5, batch)
    return Training(Lstm(width, scans=scans), lambda p: jg.optim.Adam(p, lr=1e-2), arrays)


NETWORK_KINDS = ("gpt", "classifier", "resnet", "words")

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: jg.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: jg.optim.Adam(p, lr=1e-2),
}


def network(kind: str, optimizer: str, *, large: bool) -> Training:
    """A GPT, a classifier of sequences, a residual network or a language model by LSTM, with either optimizer."""
    batch, length, width, words = (4, 16, 32, 65) if large else (2, 5, 8, 11)
    if kind == "resnet":
        batch, side = (8, 32) if large else (3, 12)
        return Training(residual(width // 2), OPTIMIZERS[optimizer], (floats(batch, 3, side, side), labels(5, batch)))
    inputs = labels(words, batch, length)
    if kind == "classifier":
        model: nn.Module = Attending(words, length, width, 5, causal=False)
        return Training(model, OPTIMIZERS[optimizer], (inputs, labels(5, batch)))
    model = LanguageModel(words, width) if kind == "words" else Attending(words, length, width, words, causal=True)
    return Training(model, OPTIMIZERS[optimizer], (inputs, labels(words, batch * length)))


MODELS: dict[str, Callable[..., Training]] = {
    "digits": digits,
    "cnn": cnn,
    "encoder": encoder,
    "encoder_bfloat16": lambda *, large: encoder(large=large, compute=jg.bfloat16),
    "lstm": lstm,
    "lstm_scan": lambda *, large: lstm(large=large, scans=True),
    **{f"{kind}_{optimizer}": partial(network, kind, optimizer) for kind in NETWORK_KINDS for optimizer in OPTIMIZERS},
}


def trained(name: str, device: str, *, traced: bool, steps: int, large: bool = False) -> list[Array]:
    """The losses of some steps on a device, and then all parameters and buffers there, as arrays."""
    jg.random.seed(7)
    training = MODELS[name](large=large)
    model = training.model.to(device)
    optimizer = training.optimizer(model.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jg.trace(step) if traced else step
    operands = [jg.asarray(array, device=device) for array in training.arrays]
    results = [run(*operands) for _ in range(steps)]
    kept = [*model.parameters(), *model.buffers()]
    assert {x.device.split(":")[0] for x in (*results, *kept)} == {device.split(":")[0]}
    return [x.detach().cpu().numpy() for x in (*results, *kept)]
