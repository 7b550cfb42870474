"""A graph convolutional network: parameters of its own layer, a normalised adjacency matrix, masks of nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn, F = torch.nn, torch.nn.functional

    class GraphConvolution(nn.Module):
        def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.FloatTensor(in_features, out_features))
            if bias:
                self.bias = nn.Parameter(torch.FloatTensor(out_features))
            else:
                self.register_parameter("bias", None)
            self.reset_parameters()

        def reset_parameters(self) -> None:
            stdv = 1.0 / math.sqrt(self.weight.size(1))
            self.weight.data.uniform_(-stdv, stdv)
            if self.bias is not None:
                self.bias.data.uniform_(-stdv, stdv)

        def forward(self, input: Any, adj: Any) -> Any:
            output = torch.mm(adj, torch.mm(input, self.weight))
            return output + self.bias if self.bias is not None else output

    class GCN(nn.Module):
        def __init__(self, features: int, hidden: int, classes: int) -> None:
            super().__init__()
            self.gc1 = GraphConvolution(features, hidden)
            self.gc2 = GraphConvolution(hidden, classes)

        def forward(self, x: Any, adj: Any) -> Any:
            x = F.relu(self.gc1(x, adj))
            x = F.dropout(x, 0.0, training=self.training)
            return F.log_softmax(self.gc2(x, adj), dim=1)

    rng = np.random.default_rng(0)
    labels = torch.from_numpy(np.arange(24) % 3)
    features = torch.from_numpy(rng.random((24, 6)).astype(np.float32))
    features[torch.arange(24), labels] += 1
    adj = torch.eye(24)
    for i in range(24):
        adj[i, (i + 3) % 24] = adj[(i + 3) % 24, i] = 1
    d_inv_sqrt = adj.sum(1).pow(-0.5)
    d_inv_sqrt[torch.isinf(d_inv_sqrt)] = 0.0
    adj = torch.diag(d_inv_sqrt) @ adj @ torch.diag(d_inv_sqrt)
    idx_train, idx_val = torch.arange(12), torch.LongTensor(range(12, 24))
    model = GCN(6, 8, 3)
    fill(torch, model)
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    losses = []
    for _ in range(20):
        model.train()
        optimizer.zero_grad()
        output = net(features, adj)
        loss_train = F.nll_loss(output[idx_train], labels[idx_train])
        loss_train.backward()
        optimizer.step()
        preds = output[idx_val].max(1)[1].type_as(labels)
        correct = preds.eq(labels[idx_val]).double().sum()
        losses += [loss_train.item(), (correct / len(idx_val)).item()]
    return losses
