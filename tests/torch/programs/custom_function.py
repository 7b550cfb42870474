"""A function with its own derivative: Legendre polynomials that fit a sine."""

from __future__ import annotations

import math
from typing import Any

from tests.torch.programs import Compile, eagerly


def run(torch: Any, compile: Compile = eagerly) -> list[float]:
    class LegendrePolynomial3(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, input: Any) -> Any:
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    x = torch.linspace(-math.pi, math.pi, 100)
    y = torch.sin(x)
    a = torch.full((), 0.0, requires_grad=True)
    b = torch.full((), -1.0, requires_grad=True)
    c = torch.full((), 0.0, requires_grad=True)
    d = torch.full((), 0.3, requires_grad=True)
    p3 = LegendrePolynomial3.apply

    @compile
    def predict(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a + b * p3(c + d * x)

    losses = []
    for _ in range(20):
        loss = (predict(a, b, c, d) - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= 5e-4 * p.grad
                p.grad = None
        losses.append(loss.item())
    return [*losses, a.item(), b.item(), c.item(), d.item()]
