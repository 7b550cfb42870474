"""A flow of affine couplings with masks: log-determinants, a density of the normal distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class Coupling(nn.Module):
        def __init__(self, mask: list[float]) -> None:
            super().__init__()
            self.register_buffer("mask", torch.tensor(mask))
            self.s = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
            self.t = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2))

        def forward(self, x: Any) -> Any:
            kept = x * self.mask
            s = self.s(kept) * (1 - self.mask)
            t = self.t(kept) * (1 - self.mask)
            return kept + (1 - self.mask) * ((x - t) * torch.exp(-s)), -s.sum(dim=1)

        def inverse(self, z: Any) -> Any:
            kept = z * self.mask
            s, t = self.s(kept), self.t(kept)
            return kept + (1 - self.mask) * (z * s.exp() + t)

    class RealNVP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Coupling([0.0, 1.0]), Coupling([1.0, 0.0]), Coupling([0.0, 1.0])])

        def forward(self, x: Any) -> Any:
            log_det = x.new_zeros(x.shape[0])
            for layer in reversed(self.layers):
                x, ld = layer(x)
                log_det += ld
            log_prob = -0.5 * (x**2).sum(-1) - math.log(2 * math.pi)
            return log_prob + log_det

        @torch.no_grad()
        def sample(self, z: Any) -> Any:
            for layer in self.layers:
                z = layer.inverse(z)
            return z

    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 64)
    moons = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * rng.standard_normal((64, 2))
    x = torch.tensor(moons, dtype=torch.float32)
    model = RealNVP()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        loss = -net(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + model.sample(torch.ones(1, 2)).squeeze(0).tolist()
