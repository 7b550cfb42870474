"""A variational autoencoder: a sampled code, a loss of two terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(64, 32)
            self.fc21 = nn.Linear(32, 4)
            self.fc22 = nn.Linear(32, 4)
            self.fc3 = nn.Linear(4, 32)
            self.fc4 = nn.Linear(32, 64)

        def encode(self, x: Any) -> Any:
            h = F.relu(self.fc1(x))
            return self.fc21(h), self.fc22(h)

        def reparameterize(self, mu: Any, logvar: Any, eps: Any) -> Any:
            std = torch.exp(0.5 * logvar)
            return mu + eps.expand_as(std) * std

        def decode(self, z: Any) -> Any:
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x: Any, eps: Any) -> Any:
            mu, logvar = self.encode(x.view(-1, 64))
            z = self.reparameterize(mu, logvar, eps)
            return self.decode(z), mu, logvar

    def loss_function(recon_x: Any, x: Any, mu: Any, logvar: Any) -> Any:
        bce = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return bce + kld

    rng = np.random.default_rng(1)
    data = torch.from_numpy(digits(64)[0])
    model = VAE()
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(20):
        eps = torch.from_numpy(rng.standard_normal((64, 4)).astype(np.float32))
        optimizer.zero_grad()
        recon, mu, logvar = net(data, eps)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(data))
    with torch.no_grad():
        sample = model.decode(torch.zeros(1, 4)).cpu()
        losses.append(float(sample.view(1, 1, 8, 8).mean()))
    return losses
