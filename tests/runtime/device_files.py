"""Simulated GPUs for the standalone loaders: a library in the place of ``libcuda.so.1`` whose launches are simulated.

The library goes by another name, so that nothing else in the process takes it for a driver of this machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph import compiler
from jitgraph.ir.target import Target
from jitgraph.runtime.loader.artifact import Artifact
from jitgraph_testing.simulator.calls.devices import ATTRIBUTES
from jitgraph_testing.simulator.driver import FakeDriver
from tests.runtime.cuda import stub_library
from tests.runtime.cuda.machines import leaks

NAME = "libjgstub.so"
BOTH = ("x86-64-v3", "cuda")


_known: dict[bytes, str] = {}
_saved: dict[tuple[Any, ...], tuple[bytes, Any]] = {}


def saved_once(save: Callable[..., Any]) -> Callable[..., Any]:
    """``save(path, targets=...)`` that compiles once for each choice of targets."""

    def again(path: Path, *, targets: Any = None) -> Any:
        key = save.__name__, targets
        if key not in _saved:
            inputs = save(path, targets=targets)
            _saved[key] = path.read_bytes(), inputs
        path.write_bytes(_saved[key][0])
        return _saved[key][1]

    return again


class Stub:
    """The library, with a driver behind it that tests replace."""

    def __init__(self, folder: Path) -> None:
        self.path = stub_library.build(folder, (), NAME)
        self._library: ctypes.CDLL | None = None

    def serve(self, fake: FakeDriver) -> None:
        """Let the library's functions be those of this driver."""
        self._library = stub_library.loaded(self.path, fake.addresses)


@contextmanager
def serving(stub: Stub) -> Iterator[Callable[..., FakeDriver]]:
    """What puts simulated devices that know files in this machine's place; at the end nothing may be left on them."""
    results: list[FakeDriver] = []

    def begin(*paths: Path) -> FakeDriver:
        results.append(driver_for(*paths))
        stub.serve(results[-1])
        return results[-1]

    yield begin
    assert [leaks(fake) for fake in results] == [{}] * len(results)


def driver_for(*paths: Path, devices: int = 2) -> FakeDriver:
    """A simulated driver that knows what the PTX in these files was made of, which is what is made of their graphs."""
    fake = FakeDriver(devices)
    for path in paths:
        artifact = Artifact(path)
        for code in artifact.device_codes("forward", artifact.signatures()["forward"], artifact.weights()):
            ptx = bytes(artifact.read(code.ptx))
            if ptx not in _known:
                compiled: Any = compiler.compile(jg.load(path).graph, Target.named(code.generation))
                assert compiled.parts.ptx == ptx
                _known[ptx] = compiled.llvm_ir
            fake.register(ptx, _known[ptx])
    return fake


def set_capability(monkeypatch: Any, major: int, minor: int) -> None:
    """Let simulated devices be of another generation."""
    monkeypatch.setitem(ATTRIBUTES, 75, major)
    monkeypatch.setitem(ATTRIBUTES, 76, minor)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@saved_once
def mlp(path: Path, **options: Any) -> None:
    jg.random.seed(0)
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.ReLU(), jg.nn.LayerNorm(8), jg.nn.Linear(8, 3))
    f = jg.trace(lambda x: {"p": jg.softmax(model(x)), "n": 3}, dynamic_shapes={"x": {0: "batch"}})
    jg.save(f, path, example_inputs=(normal(5, 4),), **options)


@saved_once
def step(path: Path, **options: Any) -> tuple[Any, Any]:
    """A training step with its optimiser's state; arguments for it."""
    weight = jg.nn.Parameter(jg.asarray(normal(4, 3)))
    optimizer = jg.optim.Adam([weight], lr=0.05)

    @jg.trace(dynamic_shapes={"x": {0: "n"}, "y": {0: "n"}})
    def step(x: Any, y: Any) -> Any:
        loss = ((x @ weight - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x, y = normal(8, 4, seed=1), normal(8, 3, seed=2)
    jg.save(step, path, example_inputs=(x, y), **options)
    return x, y


@saved_once
def counting_rows(path: Path, **options: Any) -> Any:
    """Rows of a table, which is given, and how many calls there were: a check that may fail, and state."""
    table, count = jg.asarray(normal(5, 2)), jg.zeros(())

    @jg.trace(dynamic_shapes={"i": {0: "n"}})
    def f(i: Any) -> Any:
        nonlocal count
        count += 1
        return jg.take(table, i, axis=0), count + 0

    jg.save(f, path, example_inputs=(np.arange(3),), **options)
    return table.numpy()


@saved_once
def newton(path: Path, **options: Any) -> None:
    """A loop whose length the device alone knows, a branch, a scan with a gradient, and a print."""

    def f(x: Any) -> Any:
        root, turns = jg.while_loop(
            lambda carry: jg.max(jg.abs(carry[0] * carry[0] - x)) > 1e-5 * jg.max(x),
            lambda carry: ((carry[0] + x / carry[0]) / 2, carry[1] + 1),
            (x + 1, jg.zeros((), dtype=jg.int64)),
        )
        jg.debug.print("{} turns", turns)
        loss = lambda z: jg.scan(lambda c, row: (jg.tanh(c + row), c), jg.zeros(()), z)[0]
        return root, jg.cond(turns > 5, lambda a: a * 2, lambda a: a - 1, x), jg.grad(loss)(x)

    jg.save(jg.trace(f, dynamic_shapes={"x": {0: "n"}}), path, example_inputs=(normal(4) ** 2 + 1,), **options)
