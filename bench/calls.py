"""What a warm call costs, what recording costs and what compiling costs: ``python -m bench.against CHECKOUT calls``.

A warm call finds a specialisation that fits and runs kernels that do next to nothing. Recording runs a function once on
symbols and yields its graph; compiling takes a recorded graph to native code.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

import jitgraph as jg
from bench.digits_step import BATCH, jitgraph_step
from bench.timing import interleaved

nn = jg.nn
Run = Callable[[], object]


class Block(nn.Module):
    """One layer of an encoder: attention with one head and a feed-forward network, each with its residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: jg.Tensor) -> jg.Tensor:
        h = self.first(x)
        x = x + nn.functional.scaled_dot_product_attention(self.query(h), self.key(h), self.value(h))
        return x + self.down(self.act(self.up(self.second(x))))


def _tensors(count: int) -> list[jg.Tensor]:
    return [jg.asarray(np.random.default_rng(i).standard_normal(16).astype(np.float32)) for i in range(count)]


def _small() -> Run:
    x, y, z = _tensors(3)
    compiled = jg.trace(lambda x, y, z: x * y + z)
    return lambda: compiled(x, y, z)


def _arrays() -> Run:
    x, y, z = (t.numpy().copy() for t in _tensors(3))
    compiled = jg.trace(lambda x, y, z: x * y + z)
    return lambda: compiled(x, y, z)


def _sixteen() -> Run:
    tensors = _tensors(16)
    compiled = jg.trace(lambda *many: many[0] * many[15] + many[7])
    return lambda: compiled(*tensors)


def _captures() -> Run:
    x, weight = _tensors(2)
    state = {"scale": 2.0, "names": ["a", "b"], "weight": weight}
    compiled = jg.trace(lambda x: x * state["scale"] + state["weight"] * len(state["names"]))
    return lambda: compiled(x)


def _digits() -> tuple[jg.Tensor, jg.Tensor]:
    generator = np.random.default_rng(0)
    images, labels = generator.random((BATCH, 64), dtype=np.float32), generator.integers(0, 10, BATCH)
    return jg.asarray(images), jg.asarray(labels)


def _digits_call() -> Run:
    x, y = _digits()
    compiled = jg.trace(jitgraph_step())
    return lambda: compiled(x, y)


def _digits_recording() -> Run:
    x, y = _digits()
    step = jitgraph_step()
    return lambda: jg.trace(step).lower(x, y)


def _encoder() -> tuple[nn.Module, jg.Tensor]:
    return nn.Sequential(*(Block(32) for _ in range(6))), jg.asarray(np.ones((2, 8, 32), np.float32))


def _encoder_recording() -> Run:
    model, x = _encoder()
    return lambda: jg.trace(lambda x: model(x)).lower(x)


class Schedule:
    """State of Python's own beside a tensor: attributes, a property, a dict and a list that grows."""

    def __init__(self) -> None:
        self.rates = {f"layer{i}": 0.1 * i for i in range(40)}
        self.names = list(self.rates)
        self.history: list[float] = []
        self._scale = 2.0

    @property
    def scale(self) -> float:
        return self._scale

    def rate(self, name: str) -> float:
        return self.rates[name] * self.scale if name in self.rates else 0.0

    def advance(self) -> float:
        total = 0.0
        for name in self.names:
            total += self.rate(name)
        for other in sorted(self.rates.values()):
            total += getattr(self, "offset", other)
        self.history.append(total)
        return total


def _state_recording() -> Run:
    x, schedule = jg.ones((4,)), Schedule()
    return lambda: jg.trace(lambda x: x * schedule.advance()).lower(x)


def _encoder_compiling() -> Run:
    model, x = _encoder()
    return lambda: jg.trace(lambda x: model(x)).lower(x).compile()


def _digits_compiling() -> Run:
    x, y = _digits()
    step = jitgraph_step()
    return lambda: jg.trace(step).lower(x, y).compile()


CASES: dict[str, Callable[[], Run]] = {
    "call, x*y+z of 16 floats": _small,
    "call, the same with arrays": _arrays,
    "call, 16 tensors": _sixteen,
    "call, captured dict and list": _captures,
    "call, digits step": _digits_call,
    "recording, digits step": _digits_recording,
    "recording, 6-layer encoder": _encoder_recording,
    "recording, state of Python": _state_recording,
    "record+compile, digits step": _digits_compiling,
    "record+compile, encoder": _encoder_compiling,
}


def case(name: str) -> Run:
    """The run of a case, ready to be timed: what it needs once has been done."""
    run = CASES[name]()
    run()
    return run


def main() -> None:
    os.environ["JITGRAPH_DISPATCH"] = "1"  # the native code of calls is made at once, not once there were many
    for name in CASES:
        times = interleaved({name: case(name)}, calls=1000 if name.startswith("call,") else 1, rounds=10)
        print(f"{name:30} {1e6 * float(np.median(times[name])):10.1f} us")


if __name__ == "__main__":
    main()
