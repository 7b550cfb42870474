"""A mixture density network: logarithms of sums of exponentials, a distribution, gradients clipped by their norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class MDN(nn.Module):
        def __init__(self, hidden: int, mixtures: int) -> None:
            super().__init__()
            self.z_h = nn.Sequential(nn.Linear(1, hidden), nn.Softplus())
            self.z_pi, self.z_sigma, self.z_mu = (nn.Linear(hidden, mixtures) for _ in range(3))

        def forward(self, x: Any) -> Any:
            z_h = self.z_h(x)
            return F.log_softmax(self.z_pi(z_h), -1), torch.exp(self.z_sigma(z_h)), self.z_mu(z_h)

    def mdn_loss(log_pi: Any, sigma: Any, mu: Any, y: Any) -> Any:
        m = torch.distributions.Normal(loc=mu, scale=sigma)
        return -torch.logsumexp(log_pi + m.log_prob(y), dim=1).mean()

    rng = np.random.default_rng(0)
    y = rng.uniform(-1, 1, (48, 1)).astype(np.float32)
    x = torch.from_numpy(y + 0.3 * np.sin(6 * y))
    y_data = torch.from_numpy(y)
    model = MDN(12, 3)
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        log_pi, sigma, mu = net(x)
        loss = mdn_loss(log_pi, sigma, mu, y_data)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses += [loss.item(), norm.item()]
    return losses
