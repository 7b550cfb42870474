"""A generative adversarial network: two optimisers, labels refilled in place, detached fakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, optim = torch.nn, torch.optim

    class Generator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(True),
                nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False),
                nn.Tanh(),
            )

        def forward(self, z: Any) -> Any:
            return self.main(z)

    class Discriminator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(1, 8, 4, 2, 1, bias=False),
                nn.BatchNorm2d(8),
                nn.LeakyReLU(0.2, inplace=True),
                nn.Conv2d(8, 1, 4, 1, 0, bias=False),
                nn.Sigmoid(),
            )

        def forward(self, x: Any) -> Any:
            return self.main(x).view(-1, 1).squeeze(1)

    def weights_init(m: Any) -> None:
        classname = m.__class__.__name__
        if classname.find("BatchNorm") != -1:
            nn.init.ones_(m.weight)
            m.bias.data.fill_(0)

    generator, discriminator = Generator(), Discriminator()
    fill(torch, generator, 1)
    fill(torch, discriminator, 2)
    generator.apply(weights_init)
    discriminator.apply(weights_init)
    net_g, net_d = compile(generator), compile(discriminator)
    criterion = nn.BCELoss()
    optimizer_d = optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizer_g = optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    real = torch.from_numpy(digits(16)[0]).mul_(2).sub_(1)
    label = torch.full((16,), 1, dtype=real.dtype)
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(10):
        discriminator.zero_grad()
        label.fill_(1)
        err_real = criterion(net_d(real), label)
        err_real.backward()
        noise = torch.from_numpy(rng.standard_normal((16, 6, 1, 1)).astype(np.float32))
        fake = net_g(noise)
        label.fill_(0)
        err_fake = criterion(net_d(fake.detach()), label)
        err_fake.backward()
        optimizer_d.step()
        generator.zero_grad()
        label.fill_(1)
        err_g = criterion(net_d(fake), label)
        err_g.backward()
        optimizer_g.step()
        losses += [(err_real + err_fake).item(), err_g.item()]
    return losses
