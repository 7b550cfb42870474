"""A Gaussian process learns its length scale, size and noise; a file of it predicts without jitgraph."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from tqdm import trange

import jitgraph as jg
from jitgraph.runtime import loader  # in a program of its own: `python -m jitgraph loader .`, and `import loader`

L = jg.linalg


def wave(x: np.ndarray) -> np.ndarray:
    """What the points are taken from."""
    return np.sin(3 * x) + 0.5 * x


def similarity(x: jg.Tensor, y: jg.Tensor, logs: jg.Tensor) -> jg.Tensor:
    """The covariance of places x and y, for the logarithms of the length scale, the size and the noise."""
    distance = (x[:, None] - y[None, :]) / jg.exp(logs[0])
    return jg.exp(2 * logs[1] - 0.5 * distance**2)


def factor(x: jg.Tensor, logs: jg.Tensor) -> jg.Tensor:
    """The Cholesky factor of the covariance of measurements at x."""
    return L.cholesky(similarity(x, x, logs) + jg.exp(2 * logs[2]) * jg.eye(x.shape[0], dtype=x.dtype))


def surprise(logs: jg.Tensor, x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
    """Minus the logarithm of the marginal likelihood: Rasmussen and Williams (2006), algorithm 2.1."""
    lower = factor(x, logs)
    white = L.solve_triangular(lower, y, upper=False)
    constant = 0.5 * np.log(2 * np.pi) * x.shape[0]
    return 0.5 * (white * white).sum() + jg.log(L.diagonal(lower)).sum() + constant


def predict(logs: jg.Tensor, x: jg.Tensor, y: jg.Tensor, at: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
    """The mean and the standard deviation of the function at the places ``at``."""
    lower = factor(x, logs)
    across = similarity(x, at, logs)
    white = L.solve_triangular(lower, across, upper=False)
    variance = jg.exp(2 * logs[1]) - (white * white).sum(axis=0)
    return across.mT @ L.cholesky_solve(y, lower), jg.sqrt(jg.maximum(variance, 0.0))


def main(quick: bool = False) -> float:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 60))
    y = wave(x) + 0.2 * rng.normal(size=60)
    logs = jg.asarray(np.zeros(3), requires_grad=True)
    optimizer = jg.optim.Adam([logs], lr=0.1)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = surprise(logs, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in trange(20 if quick else 100, unit="step"):
        loss = step(x, y)
    length, size, noise = np.exp(logs.detach().numpy())
    print(f"minus log likelihood {loss.item():.2f}")
    print(f"length scale {length:.3f}, size {size:.3f}, noise {noise:.3f} (true 0.200)\n")

    sizes = {"x": {0: "points"}, "y": {0: "points"}, "at": {0: "places"}}
    at = np.linspace(-3, 3, 9)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "process.jg"
        jg.save(jg.trace(predict, dynamic_shapes=sizes), path, example_inputs=(logs.detach(), x, y, at))
        mean, deviation = loader.load(path)(logs.detach().numpy(), x, y, at)
    print(f"{'place':>6} {'true':>7} {'mean':>7} {'deviation':>10}")
    for row in zip(at, wave(at), mean, deviation, strict=True):
        print("{:6.2f} {:7.3f} {:7.3f} {:10.3f}".format(*row))
    return float(np.sqrt(np.mean((mean - wave(at)) ** 2)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
