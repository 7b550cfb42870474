"""Training in mixed precision beside float32: where it ends, memory and time of a step. Three models of the digits.

The data are the 1,797 images of 8 x 8 pixels that come with scikit-learn; every fifth is kept for testing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, median_us, ratio

EPOCHS, BATCH = 20, 64
MODES = {"float32": None, "bfloat16": jg.bfloat16, "float16 and GradScaler": jg.float16}


def mlp() -> jg.nn.Module:
    """64 - 256 - 256 - 10."""
    layers = jg.nn
    hidden = [layers.Linear(64, 256), layers.LayerNorm(256), layers.GELU(), layers.Linear(256, 256), layers.GELU()]
    return layers.Sequential(*hidden, layers.Linear(256, 10))


class Convolutions(jg.nn.Module):
    """Two convolutions with batch normalisation, a pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = jg.nn.Conv2d(1, 32, 3, padding=1), jg.nn.Conv2d(32, 64, 3, padding=1)
        self.norm, self.other_norm = jg.nn.BatchNorm2d(32), jg.nn.BatchNorm2d(64)
        self.output = jg.nn.Linear(64 * 16, 10)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        functional = jg.nn.functional
        x = functional.relu(self.norm(self.first(x.reshape(-1, 1, 8, 8))))
        x = functional.max_pool2d(functional.relu(self.other_norm(self.second(x))), 2)
        return self.output(x.reshape(len(x), -1))  # type: ignore[no-any-return]


class Block(jg.nn.Module):
    """A transformer layer, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.other_norm = jg.nn.LayerNorm(width), jg.nn.LayerNorm(width)
        self.enter, self.leave = jg.nn.Linear(width, 3 * width), jg.nn.Linear(width, width)
        self.wide, self.narrow = jg.nn.Linear(width, 4 * width), jg.nn.Linear(4 * width, width)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        rows, length, width = x.shape
        parts = self.enter(self.norm(x)).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute_dims((2, 0, 3, 1, 4))
        seen = jg.nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.leave(seen.permute_dims((0, 2, 1, 3)).reshape(rows, length, width))
        return x + self.narrow(jg.nn.functional.gelu(self.wide(self.other_norm(x))))


class Transformer(jg.nn.Module):
    """Two layers over the eight rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.output = jg.nn.Linear(8, 64), jg.nn.Linear(64, 10)
        self.places = jg.nn.Parameter(0.02 * jg.random.normal((8, 64)))
        self.blocks = jg.nn.Sequential(Block(64, 4), Block(64, 4))

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        return self.output(self.blocks(self.enter(x.reshape(-1, 8, 8)) + self.places).mean(axis=1))  # type: ignore[no-any-return]


MODELS: dict[str, Callable[[], jg.nn.Module]] = {"MLP": mlp, "CNN": Convolutions, "transformer": Transformer}


@dataclass
class Training:
    """A model with its traced step in one mode."""

    model: jg.nn.Module
    step: Any
    dtype: Any

    def predicted(self, x: np.ndarray) -> np.ndarray:
        """The digits that it sees."""
        with jg.no_grad(), mode(self.dtype):
            return self.model.eval()(jg.asarray(x)).argmax(axis=1).numpy()  # type: ignore[no-any-return]


def mode(dtype: Any) -> Any:
    """Autocast in a dtype; nothing for None."""
    return nullcontext() if dtype is None else jg.amp.autocast("cpu", dtype=dtype)


def training(name: str, dtype: Any) -> Training:
    """The model, of the same first weights in each mode."""
    jg.random.seed(0)
    model = MODELS[name]()
    optimizer = jg.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = jg.amp.GradScaler(init_scale=2.0**16, growth_interval=200, enabled=dtype == jg.float16)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        with mode(dtype):
            loss = jg.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return Training(model, step, dtype)


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images between 0 and 1, their digits, and which are for testing."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels, np.arange(len(labels)) % 5 == 0


def trained(name: str, dtype: Any, epochs: int = EPOCHS) -> tuple[float, float, Training]:
    """The mean loss of the last epoch, the share of test images that are right, and the training."""
    images, labels, test = data()
    run, order = training(name, dtype), np.random.default_rng(0)
    numbers, losses = np.flatnonzero(~test), []
    for _ in range(epochs):
        shuffled = order.permutation(numbers)[: len(numbers) // BATCH * BATCH].reshape(-1, BATCH)
        losses = [run.step(images[batch], labels[batch]) for batch in shuffled]
    loss = float(np.mean([loss.item() for loss in losses]))
    return loss, float((run.predicted(images[test]) == labels[test]).mean()), run


def main() -> None:
    images, labels, _ = data()
    x, y = jg.asarray(images[:BATCH]), jg.asarray(labels[:BATCH])
    for name in MODELS:
        runs = {}
        for title, dtype in MODES.items():
            loss, right, run = trained(name, dtype)
            plan = run.step.lower(x, y).memory_plan
            runs[title] = run.step
            memory = f"arena {plan.arena_bytes / 1e6:.2f} MB"
            print(f"{name:12} {title:24} loss {loss:.4f}, right {100 * right:.1f} %, {memory}")
        times = interleaved({title: (lambda step=step: step(x, y)) for title, step in runs.items()}, calls=5)
        for title, values in times.items():
            print(
                f"{name:12} {title:24} {median_us(values):>12} a step, {ratio(values, times['float32'])} times float32"
            )


if __name__ == "__main__":
    main()
