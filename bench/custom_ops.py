"""Ops that users write for single numbers beside the built-in ones, in a fused chain and with their gradients."""

from __future__ import annotations

import importlib.util
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
    compilers = ("jitgraph", "numba") if importlib.util.find_spec("numba") else ("jitgraph",)
    for function, built_in in BUILT_IN.items():
        own = {compiler: jg.elementwise(function, compiler=compiler) for compiler in compilers}
        for what, chain in (("forward", _chain), ("gradient", _gradient)):
            calls = {name: chain(op) for name, op in {**own, "built-in": built_in}.items()}
            times = interleaved({name: lambda call=call: call(x) for name, call in calls.items()})
            for name in compilers:
                medians = f"{median_us(times[name])}, built-in {median_us(times['built-in'])}"
                print(f"{function.__name__:5} {what:9} {name:9} {medians}, {ratio(times[name], times['built-in'])}")
    points = [draw.uniform(low, high, 100_000) for low, high in ((-2.0, 1.0), (-1.0, 1.0))]
    for compiler in compilers:
        op = jg.elementwise(orbit, compiler=compiler)
        times = interleaved({"own": lambda op=op: op(*points)}, rounds=5)
        print(f"orbit of 100,000 points {compiler:9} {median_us(times['own'])}")


def _chain(op: Callable[..., Any]) -> Any:
    return jg.trace(lambda x: op(x * 2 + 0.5) * 3 - x)


def _gradient(op: Callable[..., Any]) -> Any:
    return jg.trace(jg.grad(lambda x: op(x * 2 + 0.5).sum()))


if __name__ == "__main__":
    main()
