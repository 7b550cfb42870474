"""Programs of PyTorch by each door beside the same ones written for jitgraph: training steps, and what importing costs.

The models are an MLP, a CNN and a small GPT, with the same weights in each form: written in jitgraph's own names, in
those of ``jitgraph.torch`` under ``torch.compile``, and, where PyTorch is installed, as an exported program and as an
archive of TorchScript. Each step is forward, backward and an update by SGD, compiled as one graph. Processor time, turn
by turn, in one process.
"""

from __future__ import annotations

import importlib.util
import io
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, ratio, run_python

Model = Callable[[Any], Any]
CALLS = {"MLP": 40, "CNN": 4, "GPT": 8}


def mlp(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 10),
    )  # fmt: skip


def gpt(nn: Any) -> Any:
    """Two blocks with attention written by products, as most programs have it; x[N, T] are tokens."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.softmax, self.gelu = nn.Softmax(-1), nn.GELU()

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            qkv = self.qkv(self.ln_1(x)).reshape(n, t, 3, self.heads, c // self.heads)
            q, k, v = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))
            scores = q @ k.swapaxes(2, 3) / math.sqrt(c // self.heads)
            y = (self.softmax(scores) @ v).swapaxes(1, 2).reshape(n, t, c)
            x = x + self.out(y)
            return x + self.down(self.gelu(self.up(self.ln_2(x))))

    return nn.Sequential(nn.Embedding(64, 64), Block(64, 4), Block(64, 4), nn.LayerNorm(64), nn.Linear(64, 64))


MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int]] = {
    "MLP": (mlp, (64, 784), 10),
    "CNN": (cnn, (16, 1, 28, 28), 10),
    "GPT": (gpt, (8, 32), 64),
}


def data_of(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Inputs and labels of a model."""
    _, shape, classes = MODELS[name]
    random = np.random.default_rng(0)
    if name == "GPT":
        return random.integers(0, classes, shape), random.integers(0, classes, shape)
    return random.standard_normal(shape).astype(np.float32), random.integers(0, classes, shape[:1])


def step_of(api: Any, functional: Any, optim: Any, model: Any) -> Callable[[Any, Any], Any]:
    """A training step by the names of one API."""
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        scores = model(x)
        loss = functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return api(step)  # type: ignore[no-any-return]


def doors(name: str) -> dict[str, Callable[[], Any]]:
    """The step of a model by each door there is."""
    import jitgraph.torch as torch

    make = MODELS[name][0]
    own = make(jg.nn)
    weights = own.state_dict()
    x, y = data_of(name)
    steps: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
        "jg": (step_of(jg.script, jg.nn.functional, jg.optim, own), jg.asarray)
    }

    def add(door: str, model: Any) -> None:
        model.load_state_dict(weights)
        in_torch = isinstance(next(model.parameters()), torch.Tensor)
        api, make_tensor = (torch.compile, torch.from_numpy) if in_torch else (jg.script, jg.asarray)
        functional, optim = (torch.nn.functional, torch.optim) if in_torch else (jg.nn.functional, jg.optim)
        steps[door] = step_of(api, functional, optim, model), make_tensor

    add("jitgraph.torch", make(torch.nn))
    if importlib.util.find_spec("torch") is not None:
        import torch as pytorch

        theirs = make(pytorch.nn).train()
        example = (pytorch.from_numpy(x),)
        add("from_torch", jg.from_torch(theirs, example))
        archive = io.BytesIO()
        pytorch.jit.save(pytorch.jit.trace(theirs, example), archive)
        archive.seek(0)
        add("archive", torch.jit.load(archive))
    calls: dict[str, Callable[[], Any]] = {}
    for door, (step, make_tensor) in steps.items():
        arguments = make_tensor(x), make_tensor(y)
        calls[door] = lambda step=step, arguments=arguments: step(*arguments)  # type: ignore[misc]
    losses = {door: [float(call()) for _ in range(3)] for door, call in calls.items()}
    for door, values in losses.items():
        if not np.allclose(values, losses["jg"], rtol=1e-3):
            print(f"{name}: the losses by {door} are {values}, those of jg {losses['jg']}")
    return calls


def main() -> None:
    statements = {"jitgraph, a tensor": "import jitgraph as jg; jg.asarray([1.0])", "jitgraph.torch, a tensor":
                  "import jitgraph.torch as torch; torch.tensor([1.0])", "jitgraph": "import jitgraph"}  # fmt: skip
    times = interleaved({text: lambda s=s: run_python("-c", s) for text, s in statements.items()}, rounds=11)  # type: ignore[misc]
    for text, values in times.items():
        print(f"import {text:26} {1e3 * float(np.median(values)):6.0f} ms")
    for name in MODELS:
        calls = doors(name)
        timed = interleaved(calls, rounds=11, calls=CALLS[name], clock=time.process_time)
        for door, values in timed.items():
            text = f"{1e6 * float(np.median(values)):9.0f} us"
            print(f"{name} {door:16} {text}  of jg's time: {ratio(values, timed['jg'])}")


if __name__ == "__main__":
    main()
