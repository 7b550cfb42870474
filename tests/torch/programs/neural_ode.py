"""An ordinary differential equation with a learnt right side, by Runge-Kutta steps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class ODEFunc(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
            for m in self.net.modules():
                if isinstance(m, nn.Linear):
                    nn.init.normal_(m.weight, mean=0, std=0.1)
                    nn.init.constant_(m.bias, val=0)

        def forward(self, t: Any, y: Any) -> Any:
            return self.net(y**3) * torch.cos(t)

    def odeint(func: Any, y0: Any, t: Any) -> Any:
        solution = [y0]
        for t0, t1 in itertools.pairwise(t):
            dt, y = t1 - t0, solution[-1]
            k1 = func(t0, y)
            k2 = func(t0 + dt / 2, y + dt * k1 / 2)
            k3 = func(t0 + dt / 2, y + dt * k2 / 2)
            k4 = func(t1, y + dt * k3)
            solution.append(y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6)
        return torch.stack(solution)

    true_a = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    t = torch.linspace(0.0, 1.0, 5)
    y0 = torch.tensor([[2.0, 0.0]])
    with torch.no_grad():
        true_y = odeint(lambda t, y: torch.mm(y**3, true_a) * 0.1, y0, t)
    func = ODEFunc()
    fill(torch, func)
    solve = compile(lambda y: odeint(func, y, t))
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-2)
    losses = []
    for i in range(20):
        optimizer.zero_grad()
        pred_y = solve(y0 + 0.01 * float(np.sin(i)))
        loss = torch.mean(torch.abs(pred_y - true_y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
