"""One training step of the digits classifier (forward, backward, Adam): eager against compiled, and PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, median_us, ratio

BATCH, HIDDEN = 64, 128


def jitgraph_step() -> Callable[..., jg.Tensor]:
    """The step as an eager function."""
    layers = jg.nn
    model = layers.Sequential(
        layers.Linear(64, HIDDEN), layers.LayerNorm(HIDDEN), layers.GELU(), layers.Linear(HIDDEN, 10)
    )
    optimizer = jg.optim.Adam(model.parameters(), lr=2e-3)

    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = layers.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def torch_step(x: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """The same step in PyTorch, eager."""
    import torch

    layers = torch.nn
    model = layers.Sequential(
        layers.Linear(64, HIDDEN), layers.LayerNorm(HIDDEN), layers.GELU(), layers.Linear(HIDDEN, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    images, labels = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> object:
        loss = layers.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def main() -> None:
    generator = np.random.default_rng(0)
    images, labels = generator.random((BATCH, 64), dtype=np.float32), generator.integers(0, 10, BATCH)
    x, y = jg.asarray(images), jg.asarray(labels)
    eager, compiled = jitgraph_step(), jg.trace(jitgraph_step())
    candidates = {"compiled": lambda: compiled(x, y), "eager": lambda: eager(x, y)}
    if importlib.util.find_spec("torch"):
        candidates["pytorch eager"] = torch_step(images, labels)
    times = interleaved(candidates, calls=20)
    for name, values in times.items():
        against = ratio(values, times["compiled"])
        print(f"{name:14} {median_us(values):>12}  {against} times the compiled step")


if __name__ == "__main__":
    main()
