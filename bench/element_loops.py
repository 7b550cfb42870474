"""Six loops that write elements, as Numba's users write them: one source, for NumPy's arrays and for tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph.records import NamedTuple


def programs(zeros: Callable[..., Any], int64: Any) -> dict[str, Callable[..., Any]]:
    """The six, with ``zeros`` and ``int64`` of NumPy, or of jitgraph."""

    def doubled(x: Any) -> Any:
        out = zeros(x.shape[0])
        for i in range(x.shape[0]):
            out[i] = x[i] * 2.0
        return out

    def cached_rows(row: Any) -> Any:
        kv = zeros((4096, 512))
        for i in range(4096):
            kv[i] = row
        return kv

    def mandelbrot(xs: Any, ys: Any) -> Any:
        out = zeros((400, 400), int64)
        for i in range(400):
            for j in range(400):
                a = xs[j]
                b = ys[i]
                n = 0
                while n < 200 and a * a + b * b < 4.0:
                    a, b = a * a - b * b + xs[j], 2.0 * a * b + ys[i]
                    n = n + 1
                out[i, j] = n
        return out

    def edit_distance(a: Any, b: Any) -> Any:
        d = zeros((a.shape[0] + 1, b.shape[0] + 1), int64)
        for i in range(a.shape[0] + 1):
            d[i, 0] = i
        for j in range(b.shape[0] + 1):
            d[0, j] = j
        for i in range(1, a.shape[0] + 1):
            for j in range(1, b.shape[0] + 1):
                if a[i - 1] == b[j - 1]:
                    cost = 0
                else:
                    cost = 1
                d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
        return d[a.shape[0], b.shape[0]]

    def ising(spins: Any, chances: Any, draws: Any) -> Any:
        n = spins.shape[0]
        s = spins * 1
        for sweep in range(draws.shape[0]):
            for i in range(n):
                for j in range(n):
                    here = s[i, j]
                    around = s[(i + 1) % n, j] + s[(i - 1) % n, j] + s[i, (j + 1) % n] + s[i, (j - 1) % n]
                    if draws[sweep, i, j] < chances[here * around + 4]:
                        s[i, j] = -here
        return s

    def ping_pong(draws: Any) -> Any:
        a = zeros(100_000)
        b = zeros(100_000)
        for i in range(draws.shape[0]):
            b[i] = a[i + 1] + draws[i]
            a, b = b, a
        return a

    return {one.__name__: one for one in (doubled, cached_rows, mandelbrot, edit_distance, ising, ping_pong)}


class ElementLoop(NamedTuple):
    """A program by name, what it does, its arguments, and its seconds when a write still copied the array."""

    name: str
    text: str
    arguments: tuple[np.ndarray, ...]
    before: float


def element_loops() -> list[ElementLoop]:
    """The six, of the sizes that the figures are of; flips of Ising have a chance by their cost, and a draw each."""
    rng = np.random.default_rng(0)
    letters = rng.integers(0, 4, (2, 256))
    size, sweeps = 64, 200
    spins = rng.choice(np.array([-1, 1]), (size, size))
    chances = np.exp(-0.8 * np.arange(-4.0, 5.0)).clip(max=1.0)
    lines = np.linspace(-2.0, 0.5, 400), np.linspace(-1.25, 1.25, 400)
    return [
        ElementLoop("doubled", "out[i] = x[i] * 2, 80,000 float64", (rng.random(80_000),), 11.0),
        ElementLoop("cached_rows", "kv[i] = row, 4,096 rows of 512 float64", (rng.random(512),), 67.0),
        ElementLoop("mandelbrot", "Mandelbrot, 400 x 400, 200 turns at most", lines, 32.0),
        ElementLoop("edit_distance", "edit distance, 256 x 256", tuple(letters), 3.0),
        ElementLoop("ising", "Ising, 200 sweeps of 64 x 64", (spins, chances, rng.random((sweeps, size, size))), 4.5),
        ElementLoop("ping_pong", "2,000 exchanges of two arrays of 100,000", (rng.random(2000),), 0.084),
    ]
