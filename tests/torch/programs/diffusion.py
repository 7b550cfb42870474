"""A denoising diffusion model: schedules by cumulative products, steps embedded by sines, an average of weights."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class SinusoidalPositionEmbeddings(nn.Module):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.dim = dim

        def forward(self, time: Any) -> Any:
            half = self.dim // 2
            embeddings = torch.exp(torch.arange(half, device=time.device) * -(math.log(10000) / (half - 1)))
            embeddings = time[:, None] * embeddings[None, :]
            return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time_mlp = nn.Sequential(SinusoidalPositionEmbeddings(8), nn.Linear(8, 16), nn.SiLU())
            self.inner, self.middle, self.outer = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 2)
            self.norm = nn.GroupNorm(4, 16)

        def forward(self, x: Any, t: Any) -> Any:
            h = self.inner(x) + self.time_mlp(t)
            h = F.silu(self.norm(self.middle(h))) + h
            return self.outer(h)

    timesteps = 20
    betas = torch.linspace(0.0001, 0.2, timesteps)
    alphas = 1.0 - betas
    alphas_cumprod = torch.cumprod(alphas, dim=0)
    alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
    posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)

    def extract(a: Any, t: Any, x_shape: Any) -> Any:
        out = a.gather(-1, t.cpu())
        return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1))).to(t.device)

    def q_sample(x_start: Any, t: Any, noise: Any) -> Any:
        return (
            extract(torch.sqrt(alphas_cumprod), t, x_start.shape) * x_start
            + extract(torch.sqrt(1.0 - alphas_cumprod), t, x_start.shape) * noise
        )

    rng = np.random.default_rng(0)

    def randn(*shape: int) -> Any:
        return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))

    model = Denoiser()
    fill(torch, model)
    ema = copy.deepcopy(model).requires_grad_(False)
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(20):
        x = F.normalize(randn(32, 2), dim=1)
        t = torch.from_numpy(rng.integers(0, timesteps, (32,))).long()
        noise = randn(32, 2)
        loss = F.smooth_l1_loss(net(q_sample(x, t, noise), t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for averaged, p in zip(ema.parameters(), model.parameters(), strict=True):
                averaged.mul_(0.9).add_(p, alpha=0.1)
        losses.append(loss.item())
    ema.eval()
    img = randn(4, 2)
    with torch.no_grad():
        for i in reversed(range(timesteps)):
            t = torch.full((4,), i, dtype=torch.long)
            mean = torch.rsqrt(extract(alphas, t, img.shape)) * (
                img - extract(betas, t, img.shape) * ema(img, t) / extract((1 - alphas_cumprod).sqrt(), t, img.shape)
            )
            img = mean if i == 0 else mean + torch.sqrt(extract(posterior_variance, t, img.shape)) * randn(4, 2)
    return [*losses, img.abs().mean().item()]
