"""A Wasserstein critic with a gradient penalty: derivatives of a gradient's norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn
    generator = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))
    fill(torch, generator, 1)
    fill(torch, critic, 2)
    score = compile(critic)
    rng = np.random.default_rng(0)

    def draw(f: Any, *shape: int) -> Any:
        return torch.from_numpy(f(size=shape).astype(np.float32))

    def gradient_penalty(real: Any, fake: Any) -> Any:
        alpha = draw(rng.random, real.size(0), 1)
        interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        d_interpolates = score(interpolates)
        gradients = torch.autograd.grad(
            outputs=d_interpolates,
            inputs=interpolates,
            grad_outputs=torch.ones_like(d_interpolates),
            create_graph=True,
            retain_graph=True,
        )[0]
        gradients = gradients.view(gradients.size(0), -1)
        return ((gradients.norm(2, dim=1) - 1) ** 2).mean()

    optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizer_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    losses = []
    for i in range(16):
        real = draw(rng.standard_normal, 16, 2) + 2
        fake = generator(draw(rng.standard_normal, 16, 3)).detach()
        optimizer_d.zero_grad()
        d_loss = -torch.mean(score(real)) + torch.mean(score(fake)) + 10 * gradient_penalty(real.data, fake.data)
        d_loss.backward()
        optimizer_d.step()
        losses.append(d_loss.item())
        if i % 4 == 0:
            optimizer_g.zero_grad()
            g_loss = -torch.mean(score(generator(draw(rng.standard_normal, 16, 3))))
            g_loss.backward()
            optimizer_g.step()
            losses.append(g_loss.item())
    return losses
