"""Regression by hand: tensors that require gradients, updates in place under no_grad, gradients set to zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.torch.programs import Compile, eagerly


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((40, 3)), dtype=torch.float32)
    y = x @ torch.tensor([[2.0], [-3.4], [1.0]]) + 4.2
    w = torch.from_numpy(rng.standard_normal((3, 1)).astype("float32")).requires_grad_()
    b = torch.zeros(1, requires_grad=True)

    @compile
    def net(x: Any, w: Any, b: Any) -> Any:
        return torch.matmul(x, w) + b

    def squared_loss(y_hat: Any, y: Any) -> Any:
        return (y_hat - y.reshape(y_hat.shape)) ** 2 / 2

    def sgd(params: list[Any], lr: float, batch_size: int) -> None:
        with torch.no_grad():
            for param in params:
                param -= lr * param.grad / batch_size
                param.grad.zero_()

    losses = []
    for step in range(20):
        rows = torch.arange(10 * (step % 4), 10 * (step % 4) + 10)
        loss = squared_loss(net(x[rows], w, b), y[rows])
        loss.sum().backward()
        sgd([w, b], 0.3, 10)
        with torch.no_grad():
            losses.append(float(squared_loss(net(x, w, b), y).mean()))
    t = torch.zeros(4, 4)
    t[1:3, 1:3] += 1
    t.t()[0].add_(2)
    t.view(-1)[::5].mul_(3)
    t.diagonal().sub_(1)
    return losses + t.sum(0).tolist()
