"""Compiled functions of every kind: products, rows, columns, chains, movement, indexing, sorts, loops, training steps.

Each is called as a user calls it, so that ``python -m bench.against CHECKOUT functions`` shows whether a change of the
compiler made any kind of code slower, or its compilation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import jitgraph as jg
from bench.digits_step import BATCH, jitgraph_step
from bench.timing import interleaved, median_us
from jitgraph.nn import functional as F

Run = Callable[[], object]


def _floats(*shape: int, seed: int = 0) -> jg.Tensor:
    return jg.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


def _indices(count: int, below: int) -> jg.Tensor:
    return jg.asarray(np.random.default_rng(1).integers(0, below, count))


def _call(function: Callable[..., object], *operands: jg.Tensor) -> Run:
    compiled = jg.trace(function)
    return lambda: compiled(*operands)


def _compile(function: Callable[..., object], *operands: jg.Tensor) -> Run:
    """Compiles anew at each run, as the text is another: ints are part of the key."""
    factors = iter(range(2, 1 << 30))

    def run() -> object:
        factor = next(factors)
        return jg.trace(lambda *xs: function(xs[0] * factor, *xs[1:]))(*operands)

    return run


def _digits() -> Run:
    generator = np.random.default_rng(0)
    images, labels = generator.random((BATCH, 64), dtype=np.float32), generator.integers(0, 10, BATCH)
    return _call(jitgraph_step(), jg.asarray(images), jg.asarray(labels))


def _newton(x: jg.Tensor) -> jg.Tensor:
    return jg.while_loop(lambda y: jg.abs(y * y - x) > 1e-6, lambda y: (y + x / y) * 0.5, x)


def _running(x: jg.Tensor) -> jg.Tensor:
    return jg.scan(lambda state, row: (state * 0.9 + row,) * 2, jg.zeros(x.shape[1:]), x)[1]


def _gradients(x: jg.Tensor, w: jg.Tensor) -> jg.Tensor:
    return jg.grad(lambda w: (jg.tanh(x @ w) ** 2).mean())(w)


CASES: dict[str, Callable[[], Run]] = {
    "64 x 64 x 64 product": lambda: _call(lambda a, b: a @ b, _floats(64, 64), _floats(64, 64)),
    "512 x 512 x 512 product": lambda: _call(lambda a, b: a @ b, _floats(512, 512), _floats(512, 512)),
    "512 x 512 x 512 transposed": lambda: _call(lambda a, b: a @ b.T, _floats(512, 512), _floats(512, 512)),
    "1 x 1024 x 1024 product": lambda: _call(lambda a, b: a @ b, _floats(1, 1024), _floats(1024, 1024)),
    "32 x 128 x 128 x 64 products": lambda: _call(lambda a, b: a @ b, _floats(32, 128, 64), _floats(32, 64, 128)),
    "linear, relu": lambda: _call(
        lambda x, w, b: jg.relu(x @ w + b), _floats(256, 256), _floats(256, 256), _floats(256)
    ),
    "conv2d 8 x 16 x 32 x 32": lambda: _call(
        lambda x, w: F.conv2d(x, w, padding=1), _floats(8, 16, 32, 32), _floats(16, 16, 3, 3)
    ),
    "softmax 1024 x 1024": lambda: _call(lambda x: jg.softmax(x, axis=-1), _floats(1024, 1024)),
    "layer_norm 1024 x 1024": lambda: _call(
        lambda x, w: F.layer_norm(x, (1024,), w, w), _floats(1024, 1024), _floats(1024)
    ),
    "gelu 1024 x 1024": lambda: _call(lambda x: F.gelu(x), _floats(1024, 1024)),
    "chain 1024 x 1024": lambda: _call(lambda x, w: (x * w + x) * 0.5 + w, _floats(1024, 1024), _floats(1024)),
    "row sums 1024 x 1024": lambda: _call(lambda x: x.sum(axis=1), _floats(1024, 1024)),
    "column means 1024 x 1024": lambda: _call(lambda x: x.mean(axis=0), _floats(1024, 1024)),
    "argmax 1024 x 1024": lambda: _call(lambda x: jg.argmax(x, axis=1), _floats(1024, 1024)),
    "transposed copy 1024 x 1024": lambda: _call(lambda x: x.T + 0.0, _floats(1024, 1024)),
    "concat and pad": lambda: _call(
        lambda x, y: jg.concat([x, y[:, 1:-1]], axis=1), _floats(512, 512), _floats(512, 512)
    ),
    "gather 4096 of 10000 rows": lambda: _call(lambda x, i: x[i], _floats(10000, 64), _indices(4096, 10000)),
    "index_add 4096 to 1000 rows": lambda: _call(
        lambda x, i, y: jg.index_add(x, 0, i, y), _floats(1000, 64), _indices(4096, 1000), _floats(4096, 64)
    ),
    "sort 100000": lambda: _call(lambda x: jg.sort(x), _floats(100_000)),
    "cumulative sum 1024 x 1024": lambda: _call(lambda x: jg.cumulative_sum(x, axis=1), _floats(1024, 1024)),
    "normals 1e6": lambda: _call(lambda x: x + jg.random.normal((1_000_000,)), _floats(1)),
    "while, a Newton iteration": lambda: _call(_newton, jg.asarray(2.0)),
    "scan of 1000 rows of 64": lambda: _call(_running, _floats(1000, 64)),
    "gradient of a layer": lambda: _call(_gradients, _floats(256, 128), _floats(128, 64)),
    "digits training step": _digits,
    "compile: chain": lambda: _compile(lambda x, w: (x * w + x) * 0.5 + w, _floats(64, 64), _floats(64)),
    "compile: softmax": lambda: _compile(lambda x: jg.softmax(x, axis=-1), _floats(64, 64)),
    "compile: linear, relu": lambda: _compile(lambda x, w: jg.relu(x @ w), _floats(64, 64), _floats(64, 64)),
    "compile: column sums": lambda: _compile(lambda x: x.sum(axis=0), _floats(64, 64)),
    "compile: scan": lambda: _compile(_running, _floats(100, 64)),
    "compile: gradient of a layer": lambda: _compile(_gradients, _floats(64, 32), _floats(32, 16)),
}


def case(name: str) -> Run:
    """The run of a case, ready to be timed: what it needs once has been done."""
    run = CASES[name]()
    run()
    return run


def main() -> None:
    for name in CASES:
        times = interleaved({name: case(name)}, calls=1 if name.startswith("compile") else 20, rounds=10)
        print(f"{name:30} {median_us(times[name]):>14}")


if __name__ == "__main__":
    main()
