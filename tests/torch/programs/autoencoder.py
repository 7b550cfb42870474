"""A denoising autoencoder: noise written through a mask, a hook on a layer, exponential decay of the rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn
    encoder = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 3, stride=2, padding=1))
    decoder = nn.Sequential(
        nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
        nn.ReLU(),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.Conv2d(4, 1, 3, padding=1),
        nn.Sigmoid(),
    )
    model = nn.Sequential(encoder, decoder)
    fill(torch, model)
    pictures = torch.from_numpy(digits(16)[0])
    noisy = pictures.clone()
    mask = torch.from_numpy(np.random.default_rng(0).random((16, 1, 8, 8)) < 0.2)
    noisy[mask] = 0
    noisy[:, :, 0, :].fill_(0.5)
    codes: dict[str, Any] = {}
    handle = encoder.register_forward_hook(lambda module, inputs, output: codes.update(code=output.detach()))
    model(noisy)
    handle.remove()
    net = compile(model)
    criterion = nn.L1Loss()
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = criterion(net(noisy), pictures)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return [*losses, float(codes["code"].std())]
