"""Meta-learning: steps on copies of the parameters, differentiated through."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    fill(torch, model)

    def net(x: Any, weights: Any) -> Any:
        x = torch.tanh(F.linear(x, weights[0], weights[1]))
        return F.linear(x, weights[2], weights[3])

    net = compile(net)
    rng = np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        meta_loss = torch.tensor(0.0)
        for _task in range(2):
            amplitude, phase = rng.uniform(0.5, 2), rng.uniform(0, 3)
            x = torch.from_numpy(rng.uniform(-3, 3, (16, 1)).astype(np.float32))
            y = amplitude * torch.sin(x + phase)
            fast = list(model.parameters())
            for _ in range(2):
                loss = F.mse_loss(net(x[:8], fast), y[:8])
                grads = torch.autograd.grad(loss, fast, create_graph=True)
                fast = [w - 0.05 * g for w, g in zip(fast, grads, strict=True)]
            meta_loss = meta_loss + F.mse_loss(net(x[8:], fast), y[8:])
        optimizer.zero_grad()
        (meta_loss / 2).backward()
        optimizer.step()
        losses.append(meta_loss.item())
    return losses
