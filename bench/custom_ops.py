"""Ops that users write for single numbers beside the built-in ones, in a fused chain and with their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, median_us, ratio


def gelu(x: float) -> Any:
    return 0.5 * x * (1 + math.erf(x * 0.7071067811865476))


def silu(x: float) -> Any:
    return x / (1 + math.exp(-x))


def relu(x: float) -> Any:
    return x if x > 0 else 0.0


def orbit(a: float, b: float) -> Any:
    """Turns until a point of the Mandelbrot set leaves."""
    x, y, count = a, b, 0
    while count < 200 and x * x + y * y < 4.0:
        x, y = x * x - y * y + a, 2.0 * x * y + b
        count += 1
    return count


BUILT_IN: dict[Callable[..., Any], Callable[..., Any]] = {
    gelu: jg.nn.functional.gelu,
    silu: jg.nn.functional.silu,
    relu: jg.nn.functional.relu,
}


def main() -> None:
    draw = np.random.default_rng(0)
    x = jg.asarray(draw.standard_normal(1 << 20).astype(np.float32))
    for function, built_in in BUILT_IN.items():
        own = jg.elementwise(function)
        for what, chain in (("forward", _chain), ("gradient", _gradient)):
            calls = {"own": chain(own), "built-in": chain(built_in)}
            times = interleaved({name: lambda call=call: call(x) for name, call in calls.items()})
            medians = ", ".join(f"{name} {median_us(of)}" for name, of in times.items())
            print(f"{function.__name__:5} {what:9} {medians}, ratio {ratio(times['own'], times['built-in'])}")
    points = [draw.uniform(low, high, 100_000) for low, high in ((-2.0, 1.0), (-1.0, 1.0))]
    staged = jg.elementwise(orbit)
    print(f"orbit of 100,000 points: {median_us(interleaved({'own': lambda: staged(*points)}, rounds=5)['own'])}")


def _chain(op: Callable[..., Any]) -> Any:
    return jg.trace(lambda x: op(x * 2 + 0.5) * 3 - x)


def _gradient(op: Callable[..., Any]) -> Any:
    return jg.trace(jg.grad(lambda x: op(x * 2 + 0.5).sum()))


if __name__ == "__main__":
    main()
