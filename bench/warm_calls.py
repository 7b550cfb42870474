"""What a warm call costs beside its kernels: past Python, by Python, and in NumPy, Numba, JAX and PyTorch.

All candidates take turns in one process; a line gives the median and the quartiles over the rounds, and the ratio to
NumPy's two calls in the same rounds. An argument and a guard cost a sixteenth of what 16 more of them take.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import types
from collections.abc import Callable

import numpy as np

from bench.timing import ROUNDS, interleaved, ratio

CALLS = int(os.environ.get("CALLS", "2000"))
Run = Callable[[], object]


def _arrays(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(i).standard_normal(16).astype(np.float32) for i in range(count)]


def _served(run: Run) -> Run:
    """``run`` after the calls that Python serves first."""
    for _ in range(8):
        run()
    return run


def ours() -> dict[str, Run]:
    """Our calls, each of a function of its own."""
    import jitgraph as jg

    arrays = _arrays(16)
    tensors = [jg.asarray(array) for array in arrays]
    x, y, z = tensors[:3]
    a, b, c = arrays[:3]

    class Model:
        def __init__(self) -> None:
            self.weight = jg.asarray(b)

        @jg.trace
        def update(self, x: jg.Tensor) -> None:
            self.weight += x

        @jg.trace
        def apply(self, x: jg.Tensor) -> jg.Tensor:
            return x * self.weight

    def chain(x: jg.Tensor, y: jg.Tensor, z: jg.Tensor) -> jg.Tensor:
        return x * y + z

    def first(*many: jg.Tensor) -> jg.Tensor:
        return many[0] * 2.0

    settings = types.SimpleNamespace(**{f"s{number}": number for number in range(17)})

    def guarded(count: int) -> Callable[[jg.Tensor], jg.Tensor]:
        names = [f"s{number}" for number in range(count)]
        lines = "".join(f"    settings.{name}\n" for name in names)
        namespace = {"settings": settings}
        exec(f"def guarded(x):\n{lines}    return x * 2.0", namespace)
        return namespace["guarded"]  # type: ignore[return-value]

    model = Model()
    three, by_arrays, one, sixteen = jg.trace(chain), jg.trace(chain), jg.trace(first), jg.trace(first)
    few, many = jg.trace(guarded(1)), jg.trace(guarded(17))
    results = jg.trace(lambda x, y: {"sum": x + y, "product": x * y})
    return {
        "three tensors": lambda: three(x, y, z),
        "three arrays": lambda: by_arrays(a, b, c),
        "one tensor": lambda: one(x),
        "17 tensors": lambda: sixteen(*tensors, x),
        "one guard": lambda: few(x),
        "17 guards": lambda: many(x),
        "method with a weight": lambda: model.apply(x),
        "state in place": lambda: model.update(x),
        "dict of two results": lambda: results(x, y),
    }


def peers() -> dict[str, Run]:
    """``x * y + z`` on 16 floats by those that are installed; PyTorch's compiler needs one for C++."""
    a, b, c = _arrays(3)
    outputs: dict[str, Run] = {"NumPy": lambda: a * b + c}
    if importlib.util.find_spec("numba"):
        import numba

        compiled = numba.njit(lambda x, y, z: x * y + z)
        outputs["Numba"] = lambda: compiled(a, b, c)
    if importlib.util.find_spec("jax"):
        import jax

        jitted, inputs = jax.jit(lambda x, y, z: x * y + z), [jax.numpy.asarray(array) for array in (a, b, c)]
        outputs["JAX"] = lambda: jitted(*inputs)
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        x, y, z = (torch.from_numpy(array) for array in (a, b, c))
        outputs["PyTorch"] = lambda: x * y + z
        made = torch.compile(lambda x, y, z: x * y + z)
        try:
            made(x, y, z)
        except Exception as error:
            print(f"torch.compile is left out: {type(error).__name__}")
        else:
            outputs["torch.compile"] = lambda: made(x, y, z)
    return outputs


def main() -> None:
    """Print all lines."""
    os.environ["JITGRAPH_DISPATCH"] = "1"
    native = {name: _served(run) for name, run in ours().items()}
    os.environ["JITGRAPH_DISPATCH"] = "0"
    by_python = {f"{name}, by Python": _served(run) for name, run in ours().items()}
    empty: Run = lambda: None
    candidates = {"an empty function": empty, **{k: _served(v) for k, v in peers().items()}, **native, **by_python}
    times = interleaved({name: _many(run) for name, run in candidates.items()}, rounds=ROUNDS)
    times = {name: taken / CALLS for name, taken in times.items()}
    for name, taken in times.items():
        low, median, high = 1e9 * np.percentile(taken, [25, 50, 75])
        print(f"{name:34} {median:9.0f} ns  ({low:.0f} to {high:.0f})  {ratio(taken, times['NumPy'])} of NumPy's")
    for what in ("tensor", "guard"):
        each = (times[f"17 {what}s"] - times[f"one {what}"]) / 16
        print(f"each {what:29} {1e9 * np.median(each):9.1f} ns")


def _many(run: Run) -> Run:
    """``run`` many times, with as little around it as Python can."""

    def repeated() -> None:
        for _ in itertools.repeat(None, CALLS):
            run()

    return repeated


if __name__ == "__main__":
    main()
