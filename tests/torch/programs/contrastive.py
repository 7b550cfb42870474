"""Contrastive learning of two views: normalised features, a diagonal masked with minus infinity."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional
    encoder = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ELU(), nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16)
    )
    fill(torch, encoder)
    net = compile(encoder)
    pictures = torch.from_numpy(digits(8)[0])
    rng = np.random.default_rng(0)

    def info_nce_loss(features: Any, views: int, temperature: float) -> Any:
        batch = features.shape[0] // views
        labels = torch.cat([torch.arange(batch) for _ in range(views)], dim=0)
        labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
        features = F.normalize(features, dim=1)
        similarity = torch.matmul(features, features.T)
        mask = torch.eye(labels.shape[0], dtype=torch.bool)
        labels = labels[~mask].view(labels.shape[0], -1)
        similarity = similarity[~mask].view(similarity.shape[0], -1)
        positives = similarity[labels.bool()].view(labels.shape[0], -1)
        negatives = similarity[~labels.bool()].view(similarity.shape[0], -1)
        logits = torch.cat([positives, negatives], dim=1)
        return logits / temperature, torch.zeros(logits.shape[0], dtype=torch.long)

    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(20):
        noise = torch.from_numpy(0.1 * rng.standard_normal((16, 1, 8, 8)).astype(np.float32))
        images = torch.cat([pictures, pictures.flip(-1)], dim=0).add_(noise)
        logits, labels = info_nce_loss(net(images), 2, 0.5)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
