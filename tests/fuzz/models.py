"""The sound models that the fuzzer begins with: small ones that together hold everything a file can hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import jitgraph as jg
from jitgraph import ops
from jitgraph.ir.types import Constant
from jitgraph.tensor import wrap


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _windows(path: Path) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n", 1: "m"}})
    def f(x: jg.Tensor) -> object:
        first = x[1:3] * 2 + x[-1]
        return {"first": first, "rest": [x[2:] - x[:-2], x.reshape(-1), None, 3]}

    jg.save(f, path, example_inputs=(_normal(6, 4),), targets=["x86-64-v3"], metadata={"author": "nobody"})


def _layers(path: Path) -> None:
    jg.random.seed(0)
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.ReLU(), jg.nn.LayerNorm(8), jg.nn.Linear(8, 3))
    f = jg.trace(lambda x: jg.softmax(model(x)), dynamic_shapes={"x": {0: "batch"}})
    jg.save(f, path, example_inputs=(_normal(5, 4),), targets=["x86-64-v3", "sm_80"])


def _pictures(path: Path) -> None:
    weight = jg.asarray(_normal(2, 1, 3, 3))
    layers = jg.nn.functional
    f = jg.trace(lambda x: layers.max_pool2d(layers.conv2d(x, weight), 2), dynamic_shapes={"x": {2: "h", 3: "w"}})
    jg.save(f, path, example_inputs=(_normal(1, 1, 9, 8),), targets=["x86-64-v3"])


def _training(path: Path) -> None:
    weight = jg.nn.Parameter(jg.asarray(_normal(4, 3)))
    optimizer = jg.optim.SGD([weight], lr=0.1, momentum=0.9)

    @jg.trace(dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = ((x @ weight - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    jg.save(step, path, example_inputs=(_normal(6, 4), _normal(6, 3)), targets=["x86-64-v3", "sm_80"])


def _lookups(path: Path) -> None:
    table = _normal(40, 3)

    @jg.trace(dynamic_shapes={"i": {0: "n"}})
    def f(i: jg.Tensor, flag: jg.Tensor) -> object:
        rows = jg.take(wrap(ops.constant(value=Constant(table))), i, axis=0)
        return rows.sum(axis=1), jg.where(flag, rows.max(), 0.0), jg.sort(rows, axis=0), jg.argmax(rows, axis=1)

    example = (np.arange(5), np.array(True))
    jg.save(f, path, example_inputs=example, targets=["x86-64-v3", "sm_90"])


def _loops(path: Path) -> None:
    def f(x: jg.Tensor, limit: jg.Tensor) -> object:
        total, sums = jg.scan(lambda carry, row: (carry + row, carry.sum()), jg.zeros((3,)), x)
        count = jg.while_loop(lambda i: i < limit, lambda i: i * 2 + 1, limit * 0)
        return jg.cond(count > 3, lambda a: a * 2, lambda a: a - 1, total), sums, count

    traced = jg.trace(f, dynamic_shapes={"x": {0: "n"}})
    jg.save(traced, path, example_inputs=(_normal(4, 3), np.array(5)), targets=["x86-64-v3", "sm_80"])


MODELS: dict[str, Callable[[Path], None]] = {
    "windows": _windows,
    "layers": _layers,
    "pictures": _pictures,
    "training": _training,
    "lookups": _lookups,
    "loops": _loops,
}


def save_all(folder: Path) -> dict[str, bytes]:
    """The bytes of every model."""
    results = {}
    for name, save in MODELS.items():
        path = folder / f"{name}.jg"
        save(path)
        results[name] = path.read_bytes()
    return results
