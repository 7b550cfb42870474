"""Denoising diffusion of points in the plane: noise becomes scikit-learn's two moons (Ho et al., 2020)."""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import make_moons
from tqdm import trange

import jitgraph as jg

STEPS = 50
BETAS = jg.linspace(1e-4, 0.2, STEPS)
KEPT = jg.cumprod(1 - BETAS, axis=0)  # of the point's variance, after each step


class Denoiser(jg.nn.Module):
    """The noise in x after ``time`` steps."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.time = jg.nn.Embedding(STEPS, width)
        self.point = jg.nn.Linear(2, width)
        self.net = jg.nn.Sequential(
            jg.nn.SiLU(), jg.nn.Linear(width, width), jg.nn.SiLU(), jg.nn.Linear(width, width), jg.nn.SiLU()
        )
        self.out = jg.nn.Linear(width, 2)

    def forward(self, x: jg.Tensor, time: jg.Tensor) -> jg.Tensor:
        return self.out(self.net(self.point(x) + self.time(time)))  # type: ignore[no-any-return]


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The energy distance of two clouds of points: 0 where they have one distribution (Szekely and Rizzo, 2013)."""

    def mean(p: np.ndarray, q: np.ndarray) -> float:
        return float(np.sqrt(((p[:, None] - q[None]) ** 2).sum(-1)).mean())

    return 2 * mean(a, b) - mean(a, a) - mean(b, b)


def main(quick: bool = False) -> float:
    points = make_moons(2000, noise=0.05, random_state=0)[0].astype(np.float32) - np.array([0.5, 0.25], np.float32)
    jg.random.seed(0)
    model, rounds = Denoiser(), 300 if quick else 4000
    optimizer = jg.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = jg.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=rounds)

    @jg.trace
    def step(x: jg.Tensor) -> jg.Tensor:
        time = jg.random.randint(0, STEPS, (x.shape[0],))
        noise = jg.random.normal(x.shape)
        kept = KEPT[time][:, None]
        guess = model(jg.sqrt(kept) * x + jg.sqrt(1 - kept) * noise, time)
        loss = jg.mean((guess - noise) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    @jg.script
    def sample(x: jg.Tensor) -> jg.Tensor:
        for i in range(STEPS):
            t = STEPS - 1 - i
            guess = model(x, jg.full((x.shape[0],), t, dtype=jg.int64))
            x = (x - BETAS[t] / jg.sqrt(1 - KEPT[t]) * guess) / jg.sqrt(1 - BETAS[t])
            if t > 0:
                x = x + jg.sqrt(BETAS[t]) * jg.random.normal(x.shape)
        return x

    rng = np.random.default_rng(0)
    for _ in trange(rounds, unit="step"):
        loss = step(points[rng.integers(0, len(points), 256)])
        schedule.step()
    with jg.no_grad():
        made = sample(jg.random.normal((500, 2))).numpy()
    start = distance(rng.normal(size=(500, 2)), points)
    end = distance(made, points)
    print(f"loss {loss.item():.3f}")
    print(f"energy distance from the moons: noise {start:.3f}, made {end:.4f}, another sample of them", end=" ")
    print(f"{distance(points[:500], points[500:]):.4f}")
    seen = np.histogram2d(made[:, 1], made[:, 0], bins=(12, 36), range=((-1, 1), (-1.7, 1.7)))[0]
    for row in seen[::-1]:
        print("".join(" .:*#"[min(int(count), 4)] for count in row).rstrip())
    return end


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps, as the tests take it")
    main(**vars(parser.parse_args()))
