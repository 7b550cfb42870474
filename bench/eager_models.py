"""Training steps of small models for ``bench/eager.py``: ours outside of traces, ours compiled, and PyTorch's.

A model is written once, over a module that has ``nn``, and its functions; only what the two libraries name in other
ways is passed in.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import jitgraph as jg

Run = Callable[[], object]
Model = tuple[Any, list[np.ndarray]]


class Library:
    """What a model needs of a library."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "torch":
            import torch

            torch.set_num_threads(int(os.environ.get("JITGRAPH_NUM_THREADS", "1")))
            self.nn: Any = torch.nn
            self.functional: Any = torch.nn.functional
            self.optim: Any = torch.optim
            self.arange: Any = torch.arange
            self.cat: Any = torch.cat
            self.zeros: Any = torch.zeros
            self.permute: Any = torch.permute
            self.tanh: Any = torch.tanh
            self.sigmoid: Any = torch.sigmoid
        else:
            self.nn, self.functional, self.optim = jg.nn, jg.nn.functional, jg.optim
            self.arange, self.zeros = jg.arange, jg.zeros
            self.cat = lambda tensors, axis: jg.concat(tensors, axis=axis)
            self.permute, self.tanh, self.sigmoid = jg.permute_dims, jg.tanh, jg.sigmoid

    def tensor(self, array: np.ndarray) -> Any:
        """A copy of the array."""
        if self.name == "torch":
            import torch

            return torch.from_numpy(array.copy())
        return jg.asarray(array)


def draw(*shape: int) -> np.ndarray:
    """Normal float32 numbers, the same each time."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def labels(classes: int, *shape: int) -> np.ndarray:
    """Integers below ``classes``, the same each time."""
    return np.random.default_rng(classes).integers(0, classes, shape)


def _mlp(lib: Library) -> Model:
    nn = lib.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, [draw(32, 64), labels(10, 32)]


def _cnn(lib: Library) -> Model:
    nn = lib.nn
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )
    return model, [draw(16, 1, 16, 16), labels(10, 16)]


def gpt(lib: Library, width: int = 48, heads: int = 4, layers: int = 4, vocabulary: int = 65) -> Model:
    """A decoder of 64 places, norms first, its query, key and value by one product; eight sequences of words."""
    nn, positions = lib.nn, 64

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            h = self.together(self.first(x))
            q, k, v = (
                lib.permute(
                    h[:, :, i * width : (i + 1) * width].reshape(batch, length, heads, width // heads), (0, 2, 1, 3)
                )
                for i in range(3)
            )
            seen = lib.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(lib.permute(seen, (0, 2, 1, 3)).reshape(batch, length, width))
            return x + self.down(lib.functional.gelu(self.up(self.second(x))))

    class Gpt(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, words: Any) -> Any:
            x = self.words(words) + self.places(lib.arange(words.shape[1]))
            return self.head(self.last(self.blocks(x))).reshape(-1, vocabulary)

    return Gpt(), [labels(vocabulary, 8, positions), labels(vocabulary, 8 * positions)]


def _lstm(lib: Library, width: int = 32, steps: int = 16) -> Model:
    nn = lib.nn

    class Lstm(nn.Module):  # type: ignore[misc, name-defined]
        """Gates by one product a step, as a user writes it."""

        def __init__(self) -> None:
            super().__init__()
            self.gates, self.head = nn.Linear(2 * width, 4 * width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            hidden = cell = lib.zeros((x.shape[0], width))
            for step in range(steps):
                gates = self.gates(lib.cat([x[:, step], hidden], 1))
                i, f, g, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
                cell = lib.sigmoid(f) * cell + lib.sigmoid(i) * lib.tanh(g)
                hidden = lib.sigmoid(o) * lib.tanh(cell)
            return self.head(hidden)

    return Lstm(), [draw(16, steps, width), labels(10, 16)]


def _step(make: Callable[[Library], Model], lib: Library) -> Callable[..., Any]:
    model, _ = make(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = lib.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _candidates(make: Callable[[Library], Model]) -> dict[str, Run]:
    ours = Library("jitgraph")
    operands = [ours.tensor(array) for array in make(ours)[1]]
    eager, compiled = _step(make, ours), jg.trace(_step(make, ours))
    results: dict[str, Run] = {"jitgraph": lambda: eager(*operands), "compiled": lambda: compiled(*operands)}
    if find_spec("torch") is not None:
        lib = Library("torch")
        theirs = [lib.tensor(array) for array in make(lib)[1]]
        step = _step(make, lib)
        results["torch"] = lambda: step(*theirs)
    return results


MODELS: dict[str, Callable[[Library], Model]] = {"mlp": _mlp, "cnn": _cnn, "gpt": gpt, "lstm": _lstm}
STEPS: dict[str, Callable[[], dict[str, Run]]] = {name: partial(_candidates, make) for name, make in MODELS.items()}
