"""A Kalman filter follows a target in the plane; its noise levels are learned from the measurements' likelihood."""

from __future__ import annotations

import argparse

import numpy as np
from tqdm import trange

import jitgraph as jg

MOVE = jg.asarray([[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=jg.float32)
SEES = jg.asarray([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=jg.float32)


def simulate(steps: int, push: float, blur: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of a target whose velocity gets random pushes, and blurred measurements of them."""
    rng = np.random.default_rng(seed)
    places = np.cumsum(np.cumsum(push * rng.normal(size=(steps, 2)), axis=0), axis=0)
    return places.astype(np.float32), (places + blur * rng.normal(size=places.shape)).astype(np.float32)


def filtered(measured: jg.Tensor, push: jg.Tensor, blur: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
    """The estimated states, and the log likelihood of the measurements."""
    noise = push**2 * jg.asarray([0.0, 0.0, 1.0, 1.0]) * jg.eye(4) + 1e-6 * jg.eye(4)
    start = jg.zeros((4,)), 10.0 * jg.eye(4)

    def update(carry: tuple[jg.Tensor, jg.Tensor], z: jg.Tensor) -> tuple[tuple[jg.Tensor, jg.Tensor], object]:
        mean, spread = carry
        mean, spread = MOVE @ mean, MOVE @ spread @ MOVE.T + noise
        surprise = z - SEES @ mean
        seen = SEES @ spread @ SEES.T + blur**2 * jg.eye(2)
        gain = jg.linalg.solve(seen, SEES @ spread).T
        misfit = surprise @ jg.linalg.solve(seen, surprise)
        likely = -0.5 * (misfit + jg.linalg.slogdet(seen)[1] + 2 * np.log(2 * np.pi))
        mean, spread = mean + gain @ surprise, spread - gain @ SEES @ spread
        return (mean, spread), (mean, likely)

    _, (means, likely) = jg.scan(update, start, measured)
    return means, jg.sum(likely)


def main(quick: bool = False) -> float:
    places, measured = simulate(300, push=0.1, blur=1.0, seed=0)
    logs = jg.asarray([0.0, 1.0], requires_grad=True)  # logarithms of push and blur
    optimizer = jg.optim.Adam([logs], lr=0.1)

    @jg.trace
    def step(z: jg.Tensor) -> jg.Tensor:
        push, blur = jg.exp(logs)
        loss = -filtered(z, push, blur)[1] / z.shape[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in trange(3 if quick else 60, unit="step"):
        loss = step(measured)
    push, blur = jg.exp(logs.detach())
    means, _ = jg.trace(filtered)(measured, push, blur)
    error = float(np.sqrt(((means[:, :2].numpy() - places) ** 2).sum(1).mean()))
    raw = float(np.sqrt(((measured - places) ** 2).sum(1).mean()))
    print(f"minus log likelihood of a measurement {loss.item():.3f}")
    print(f"push {push.item():.3f} (true 0.100), blur {blur.item():.3f} (true 1.000)")
    print(f"root mean square error: measured {raw:.3f}, filtered {error:.3f}\n")
    print(f"time {'true place':>15} {'measured':>15} {'filtered':>15}")
    for time in range(49, 300, 50):
        shown = (f"{x:7.2f} {y:7.2f}" for x, y in (places[time], measured[time], means.numpy()[time, :2]))
        print(f"{time:4} {' '.join(shown)}")
    return error / raw


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
