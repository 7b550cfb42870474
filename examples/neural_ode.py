"""A neural ordinary differential equation learns the swings of a damped pendulum and continues them.

The state is integrated by Runge-Kutta steps in `jg.scan`, and the gradient goes back through them (Chen et al., 2018).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from tqdm import trange

import jitgraph as jg

STEP, SEEN, ALL = 0.1, 60, 120


def integrate(derivative: Callable[[jg.Tensor], jg.Tensor], start: jg.Tensor, steps: int) -> jg.Tensor:
    """The states after each of so many steps of the classical Runge-Kutta method."""

    def advance(y: jg.Tensor, _: None) -> tuple[jg.Tensor, jg.Tensor]:
        k1 = derivative(y)
        k2 = derivative(y + STEP / 2 * k1)
        k3 = derivative(y + STEP / 2 * k2)
        k4 = derivative(y + STEP * k3)
        y = y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return jg.scan(advance, start, None, length=steps)[1]  # type: ignore[no-any-return]


def pendulum(y: jg.Tensor) -> jg.Tensor:
    return jg.stack([y[..., 1], -2 * jg.sin(y[..., 0]) - 0.2 * y[..., 1]], axis=-1)


def main(quick: bool = False) -> float:
    jg.random.seed(0)
    net = jg.nn.Sequential(jg.nn.Linear(2, 32), jg.nn.Tanh(), jg.nn.Linear(32, 2))
    rounds = 20 if quick else 2000
    optimizer = jg.optim.Adam(net.parameters(), lr=1e-2)
    schedule = jg.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=rounds, eta_min=1e-4)
    starts = 3 * jg.random.uniform((32, 2)) - 1.5
    truth = integrate(pendulum, starts, ALL)
    noisy = truth + 0.01 * jg.random.normal(truth.shape)

    @jg.trace
    def step(start: jg.Tensor, wanted: jg.Tensor) -> jg.Tensor:
        loss = jg.mean((integrate(net, start, 10) - wanted) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    for _ in trange(rounds, unit="step"):
        begin = int(rng.integers(0, SEEN - 10))
        step(noisy[begin], noisy[begin + 1 : begin + 11])
        schedule.step()
    with jg.no_grad():
        guess = integrate(net, starts, ALL)
    errors = jg.sqrt(jg.mean((guess - truth) ** 2, axis=(1, 2))).numpy()
    print("time   angle   learned   root mean square error of all")
    for i in range(19, ALL, 20):
        print(f"{STEP * (i + 1):4.0f}   {truth[i, 0, 0].item():5.2f}   {guess[i, 0, 0].item():7.2f}   {errors[i]:.3f}")
    return float(errors[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
