"""A physics-informed network solves Burgers' equation u_t + u u_x = 0.1 u_xx from its equation alone.

u(x, 0) = -sin(pi x) on [-1, 1] and u(-1, t) = u(1, t) = 0. The solution is compared with finite differences.
"""

from __future__ import annotations

import argparse

import numpy as np
from tqdm import trange

import jitgraph as jg

VISCOSITY, END = 0.1, 0.5


def differences(points: int = 201, steps: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """u(x, END) by central differences and Euler's steps."""
    x = np.linspace(-1, 1, points)
    u, h, dt = -np.sin(np.pi * x), x[1] - x[0], END / steps
    for _ in range(steps):
        u_x, u_xx = (u[2:] - u[:-2]) / (2 * h), (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
        u[1:-1] += dt * (VISCOSITY * u_xx - u[1:-1] * u_x)
    return x, u


def main(quick: bool = False) -> float:
    jg.random.seed(0)
    net = jg.nn.Sequential(jg.nn.Linear(2, 32), jg.nn.Tanh(), jg.nn.Linear(32, 32), jg.nn.Tanh(), jg.nn.Linear(32, 1))
    optimizer = jg.optim.Adam(net.parameters(), lr=5e-3)
    rounds = 30 if quick else 3000
    schedule = jg.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=rounds)

    def u(x: jg.Tensor, t: jg.Tensor) -> jg.Tensor:
        """The net, shaped so that it meets the initial and the boundary values."""
        inner = net(jg.stack([x, t], axis=-1))[..., 0]
        return -jg.sin(jg.pi * x) + t * (1 - x**2) * inner

    def residual(x: jg.Tensor, t: jg.Tensor) -> jg.Tensor:
        u_x, u_t = jg.grad(u, argnums=(0, 1))(x, t)
        u_xx = jg.grad(jg.grad(u))(x, t)
        return u_t + u(x, t) * u_x - VISCOSITY * u_xx

    @jg.trace
    def step() -> jg.Tensor:
        x, t = 2 * jg.random.uniform((256,)) - 1, END * jg.random.uniform((256,))
        loss = jg.mean(jg.vmap(residual)(x, t) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    progress = trange(rounds, unit="step")
    for _ in progress:
        loss = step()
        schedule.step()
    print(f"mean square of the residual {loss.item():.1e}")
    x, wanted = differences()
    with jg.no_grad():
        got = u(jg.asarray(x, dtype=jg.float32), jg.full((len(x),), END)).numpy()
    print("    x    network   differences")
    for i in range(0, len(x), 25):
        print(f"{x[i]:5.2f}   {got[i]:8.4f}   {wanted[i]:11.4f}")
    error = float(np.abs(got - wanted).max())
    print(f"largest error {error:.4f}")
    return error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
