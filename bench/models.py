"""Training steps of four models, eager and compiled, beside PyTorch's eager and ``torch.compile``.

``python -m bench.models [NAME ...]`` measures with one thread and with two, each model in a process of its own, in
which the candidates take turns; ``--short`` takes small sizes and few rounds, without ``torch.compile``, as a
rehearsal. The models of a process begin with the weights of the first, and their first losses must agree to rounding
before anything is timed. A step is forward, loss, backward and optimiser, on one batch. ``torch.compile`` gets the loss
and the optimiser's step, which is what its documentation compiles; it is left out where no C++ compiler is found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import jitgraph as jg
from bench.eager_models import Library, Run
from bench.timing import interleaved, ratio
from bench.training_models import MODELS, OPTIMIZERS

ROUNDS, SHORT_ROUNDS = 15, 3
TOLERANCE = 1e-5
"""What first losses may differ by, relative; they are sums of float32 in other orders."""


def _torch_copy(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array.copy())


class Training:
    """One candidate: a model with given weights, its optimiser, and the batch that each step takes."""

    def __init__(self, name: str, library: str, state: dict[str, np.ndarray] | None, *, short: bool) -> None:
        self.lib = Library(library)
        self.model, arrays = MODELS[name](self.lib, short=short)
        self.batch = [self.lib.tensor(array) for array in arrays]
        if state is not None:
            ours = library == "jitgraph"
            self.model.load_state_dict(state if ours else {key: _torch_copy(x) for key, x in state.items()})
        kind, options = OPTIMIZERS[name]
        self.optimizer = getattr(self.lib.optim, kind)(self.model.parameters(), **options)

    def loss(self, x: Any, y: Any) -> Any:
        """Cross entropy of the model's scores."""
        return self.lib.functional.cross_entropy(self.model(x), y)

    def step(self, compiled: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None) -> Callable[[], Any]:
        """A training step; ``compiled`` makes another function of the loss and of the update."""
        loss_of, update = self.loss, self.optimizer.step
        if compiled is not None:
            loss_of, update = compiled(loss_of), compiled(update)

        def run() -> Any:
            self.optimizer.zero_grad()
            loss = loss_of(*self.batch)
            loss.backward()
            update()
            return loss

        return run


def candidates(name: str, *, short: bool) -> dict[str, Run]:
    """The training steps by name, each of a model of its own with the weights of the first."""
    jg.random.seed(0)
    eager = Training(name, "jitgraph", None, short=short)
    state = eager.model.state_dict()
    traced = Training(name, "jitgraph", state, short=short)
    results: dict[str, Run] = {"eager": eager.step(), "compiled": jg.trace(traced.step())}
    if find_spec("torch") is not None:
        import torch

        results["torch"] = Training(name, "torch", state, short=short).step()
        if not short and (shutil.which("c++") or shutil.which("g++")):
            results["torch.compile"] = Training(name, "torch", state, short=short).step(torch.compile)
    return results


def require_same_losses(steps: dict[str, Run]) -> dict[str, float]:
    """The seconds of each first step; AssertionError where a first loss is not the first candidate's to rounding."""
    seconds: dict[str, float] = {}
    losses: dict[str, float] = {}
    for which, step in steps.items():
        started = time.perf_counter()
        loss: Any = step()
        losses[which] = float(loss.item())
        seconds[which] = time.perf_counter() - started
    expected = next(iter(losses.values()))
    wrong = {which: x for which, x in losses.items() if not abs(x - expected) <= TOLERANCE * abs(expected)}
    assert not wrong, f"first losses differ: {wrong}, where the first is {expected}"
    return seconds


def _busy(step: Run) -> float:
    """Processors that a step keeps at work: its processor time by the clock's."""
    clock, processor = time.perf_counter(), time.process_time()
    for _ in range(3):
        step()
    return (time.process_time() - processor) / (time.perf_counter() - clock)


def measure(name: str, *, short: bool) -> None:
    """Print what a model's steps take in this process."""
    threads = os.environ["JITGRAPH_NUM_THREADS"]
    steps = candidates(name, short=short)
    first = require_same_losses(steps)
    busy = {which: _busy(step) for which, step in steps.items()}
    if find_spec("torch") is not None:
        import torch

        assert torch.get_num_threads() == int(threads), f"PyTorch has {torch.get_num_threads()} threads, not {threads}"
    times = interleaved(steps, rounds=SHORT_ROUNDS if short else ROUNDS)
    for which, values in times.items():
        low, median, high = 1e3 * np.percentile(values, [25, 50, 75])
        beside = f", {ratio(values, times['torch'])} times torch" if "torch" in times and which != "torch" else ""
        actual = (
            f"{median:8.1f} ms ({low:.1f} to {high:.1f}), {busy[which]:.2f} busy, first {first[which]:.2f} s{beside}"
        )
        print(f"{name:8} {threads} threads {which:14} {actual}", flush=True)


def main() -> None:
    inputs = sys.argv[1:] if sys.argv[0].endswith("models.py") else []
    short = "--short" in inputs
    wanted = [name for name in inputs if name != "--short"] or list(MODELS)
    if unknown := set(wanted) - set(MODELS):
        sys.exit(f"no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; median, and quartiles between parentheses")
    for name in wanted:
        for threads in ("1", "2"):
            limits = dict.fromkeys(("JITGRAPH_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
            code = f"from bench.models import measure; measure({name!r}, short={short})"
            subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **limits})


if __name__ == "__main__":
    main()
