"""Hyperparameters of a Gaussian process by the marginal likelihood: Cholesky factors, triangular solves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class ExactGP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.raw_lengthscale = nn.Parameter(torch.zeros(1, dtype=torch.double))
            self.raw_noise = nn.Parameter(torch.zeros(1, dtype=torch.double))
            self.mean = nn.Parameter(torch.zeros(1, dtype=torch.double))

        def kernel(self, a: Any, b: Any) -> Any:
            return torch.exp(-0.5 * torch.cdist(a, b).pow(2) / F.softplus(self.raw_lengthscale) ** 2)

        def forward(self, x: Any, y: Any) -> Any:
            k = self.kernel(x, x) + F.softplus(self.raw_noise) * torch.eye(len(x), dtype=x.dtype)
            chol = torch.linalg.cholesky(k)
            alpha = torch.cholesky_solve((y - self.mean).unsqueeze(1), chol)
            fit = 0.5 * ((y - self.mean) @ alpha).squeeze()
            return fit + chol.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.sort(rng.uniform(0, 4, (20, 1)), axis=0))
    y = torch.sin(2 * x).squeeze(-1) + 0.1 * torch.from_numpy(rng.standard_normal(20))
    model = ExactGP()
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = net(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [p.item() for p in model.parameters()]
