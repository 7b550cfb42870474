"""Graph attention: scores broadcast over pairs, a mask by where, heads in a list that the class registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class GraphAttentionLayer(nn.Module):
        def __init__(self, in_features: int, out_features: int, alpha: float, concat: bool = True) -> None:
            super().__init__()
            self.out_features, self.concat = out_features, concat
            self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
            nn.init.xavier_uniform_(self.W.data, gain=1.414)
            self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
            nn.init.xavier_uniform_(self.a.data, gain=1.414)
            self.leakyrelu = nn.LeakyReLU(alpha)

        def forward(self, h: Any, adj: Any) -> Any:
            wh = torch.mm(h, self.W)
            wh1 = torch.matmul(wh, self.a[: self.out_features, :])
            wh2 = torch.matmul(wh, self.a[self.out_features :, :])
            e = self.leakyrelu(wh1 + wh2.T)
            attention = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
            h_prime = torch.matmul(F.softmax(attention, dim=1), wh)
            return F.elu(h_prime) if self.concat else h_prime

    class GAT(nn.Module):
        def __init__(self, features: int, hidden: int, classes: int, heads: int) -> None:
            super().__init__()
            self.attentions = [GraphAttentionLayer(features, hidden, 0.2) for _ in range(heads)]
            for i, attention in enumerate(self.attentions):
                self.add_module(f"attention_{i}", attention)
            self.out_att = GraphAttentionLayer(hidden * heads, classes, 0.2, concat=False)

        def forward(self, x: Any, adj: Any) -> Any:
            x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
            return F.log_softmax(F.elu(self.out_att(x, adj)), dim=1)

    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((16, 5))).float()
    labels = torch.arange(16).remainder(2)
    x[labels.bool(), 0] += 1
    adj = torch.from_numpy((rng.random((16, 16)) < 0.3).astype(np.float32))
    adj.fill_diagonal_(1)
    model = GAT(5, 4, 2, 2)
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.2, t0=5)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.nll_loss(net(x, adj), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
