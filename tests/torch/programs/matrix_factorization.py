"""Ratings by embeddings of users and items: products of rows, a bias for each, a parameter group for the biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    class MatrixFactorization(nn.Module):
        def __init__(self, users: int, items: int, factors: int = 6) -> None:
            super().__init__()
            self.user_factors = nn.Embedding(users, factors)
            self.item_factors = nn.Embedding(items, factors)
            self.user_biases = nn.Embedding(users, 1)
            self.item_biases = nn.Embedding(items, 1)

        def forward(self, user: Any, item: Any) -> Any:
            pred = self.user_biases(user) + self.item_biases(item)
            pred += (self.user_factors(user) * self.item_factors(item)).sum(dim=1, keepdim=True)
            return pred.squeeze()

    rng = np.random.default_rng(0)
    users, items = torch.from_numpy(rng.integers(0, 10, 120)), torch.from_numpy(rng.integers(0, 12, 120))
    ratings = ((users % 3 == items % 3).float() * 4 + 1).clamp(min=1, max=5)
    model = MatrixFactorization(10, 12)
    fill(torch, model)
    net = compile(model)
    biases = [p for name, p in model.named_parameters() if "biases" in name]
    factors = [p for name, p in model.named_parameters() if "factors" in name]
    optimizer = torch.optim.SGD([{"params": factors, "weight_decay": 1e-3}, {"params": biases, "lr": 0.5}], lr=1.0)
    loss_fn = nn.MSELoss()
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = loss_fn(net(users, items), ratings)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    top = torch.topk(model.user_factors.weight[0] @ model.item_factors.weight.T, k=3)
    return losses + top.values.tolist() + [float(i) for i in top.indices]
