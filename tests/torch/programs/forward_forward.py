"""The forward-forward algorithm: each layer trained by itself, labels written over the first pixels."""

from __future__ import annotations

import itertools
from typing import Any

from tests.torch.programs import Compile, digits, eagerly, fill


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    nn = torch.nn

    def overlay_y_on_x(x: Any, y: Any) -> Any:
        x_ = x.clone()
        x_[:, :10] *= 0.0
        x_[range(x.shape[0]), y] = x.max()
        return x_

    losses: list[float] = []

    class Layer(nn.Linear):
        def __init__(self, in_features: int, out_features: int) -> None:
            super().__init__(in_features, out_features)
            self.relu = torch.nn.ReLU()
            self.opt = torch.optim.Adam(self.parameters(), lr=0.03)
            self.threshold = 2.0

        def forward(self, x: Any) -> Any:
            x_direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
            return self.relu(torch.mm(x_direction, self.weight.T) + self.bias.unsqueeze(0))

        def train_layer(self, x_pos: Any, x_neg: Any, step: Any) -> Any:
            for _ in range(10):
                g_pos = step(x_pos).pow(2).mean(1)
                g_neg = step(x_neg).pow(2).mean(1)
                loss = torch.log(1 + torch.exp(torch.cat([-g_pos + self.threshold, g_neg - self.threshold]))).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
            return self.forward(x_pos).detach(), self.forward(x_neg).detach()

    class Net(nn.Module):
        def __init__(self, dims: list[int]) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer(a, b) for a, b in itertools.pairwise(dims))

        def predict(self, x: Any) -> Any:
            goodness_per_label = []
            for label in range(10):
                h = overlay_y_on_x(x, torch.full((x.shape[0],), label, dtype=torch.long))
                goodness = []
                for layer in self.layers:
                    h = layer(h)
                    goodness = [*goodness, h.pow(2).mean(1)]
                goodness_per_label += [sum(goodness).unsqueeze(1)]
            return torch.cat(goodness_per_label, 1).argmax(1)

    pictures, labels = digits(40)
    x, y = torch.from_numpy(pictures).flatten(1), torch.from_numpy(labels)
    net = Net([64, 24, 24])
    fill(torch, net)
    h_pos, h_neg = overlay_y_on_x(x, y), overlay_y_on_x(x, y.roll(1))
    for layer in net.layers:
        h_pos, h_neg = layer.train_layer(h_pos, h_neg, compile(layer))
    losses.append(1.0 - net.predict(x).eq(y).float().mean().item())
    return losses
