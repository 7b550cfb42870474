"""Single ops and training steps outside of traces, beside NumPy and PyTorch where they are installed.

``python -m bench.eager [NAME ...]`` runs the cases whose names begin so. All candidates of a case take turns in one
process, each on one thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("JITGRAPH_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import jitgraph as jg
from bench import eager_models
from bench.timing import interleaved

Run = Callable[[], object]
HAS_TORCH = find_spec("torch") is not None


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _torch() -> Any:
    import torch

    torch.set_num_threads(1)
    return torch


def _case(
    arrays: list[np.ndarray],
    ours: Callable[..., object],
    numpy: Callable[..., object] | None = None,
    torch: Callable[..., object] | None = None,
) -> dict[str, Run]:
    tensors = [jg.asarray(array) for array in arrays]
    results: dict[str, Run] = {"jitgraph": lambda: ours(*tensors)}
    if numpy is not None:
        results["numpy"] = lambda: numpy(*arrays)
    if torch is not None and HAS_TORCH:
        _torch()
        theirs = [torch_tensor(array) for array in arrays]
        results["torch"] = lambda: torch(*theirs)
    return results


def torch_tensor(array: np.ndarray) -> Any:
    """A copy of an array as a tensor of PyTorch."""
    return _torch().from_numpy(array.copy())


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _functional() -> Any:
    return _torch().nn.functional if HAS_TORCH else None


def _backward(nodes: int, library: str) -> Run:
    """A chain of products on the tape, and back."""
    if library == "torch":
        x: Any = torch_tensor(_draw(16)).requires_grad_()
        one: Any = torch_tensor(_draw(16))
    else:
        x, one = jg.asarray(_draw(16)).requires_grad_(), jg.asarray(_draw(16))

    def run() -> object:
        y = x
        for _ in range(nodes):
            y = y * one
        y.sum().backward()
        x.grad = None
        return None

    return run


def _cases() -> dict[str, Callable[[], dict[str, Run]]]:
    nn = jg.nn.functional
    small, large, square = _draw(16), _draw(1_000_000), _draw(8, 8)
    big = _draw(256, 256)
    rows, gain = _draw(8, 64), _draw(64)
    image, filters = _draw(4, 3, 16, 16), _draw(8, 3, 3, 3)
    return {
        "add 16": lambda: _case([small, small], lambda x, y: x + y, np.add, lambda x, y: x + y),
        "add scalar 16": lambda: _case([small], lambda x: x + 1.5, lambda x: x + 1.5, lambda x: x + 1.5),
        "power 16": lambda: _case([small], lambda x: x**2.5, lambda x: x**2.5, lambda x: x**2.5),
        "where 16": lambda: _case(
            [small, small],
            lambda x, y: jg.where(x < y, x, 0.0),
            lambda x, y: np.where(x < y, x, np.float32(0)),
            lambda x, y: _torch().where(x < y, x, 0.0),
        ),
        "clip 16": lambda: _case([small], lambda x: jg.clip(x, 0.0, 1.0), lambda x: np.clip(x, 0.0, 1.0)),
        "cast 16": lambda: _case([small], lambda x: x.astype(jg.float64), lambda x: x.astype(np.float64)),
        "mean of rows": lambda: _case([rows], *[lambda x: x.mean(1, keepdims=True)] * 2),
        "argmax": lambda: _case([rows], *[lambda x: x.argmax()] * 2),
        "stack": lambda: _case([small, small], lambda x, y: jg.stack([x, y]), lambda x, y: np.stack([x, y])),
        "linear": lambda: _case([rows, _draw(32, 64), _draw(32)], nn.linear),
        "add 1e6": lambda: _case([large, large], lambda x, y: x + y, np.add, lambda x, y: x + y),
        "exp 16": lambda: _case([small], jg.exp, np.exp, lambda x: x.exp()),
        "sum 16": lambda: _case([small], lambda x: x.sum(), lambda x: x.sum(), lambda x: x.sum()),
        "sum 1e6": lambda: _case([large], lambda x: x.sum(), lambda x: x.sum(), lambda x: x.sum()),
        "max 16": lambda: _case([small], lambda x: x.max(), lambda x: x.max(), lambda x: x.max()),
        "matmul 8x8": lambda: _case([square, square], lambda x, y: x @ y, np.matmul, lambda x, y: x @ y),
        "matmul 256": lambda: _case([big, big], lambda x, y: x @ y, np.matmul, lambda x, y: x @ y),
        "reshape": lambda: _case([square], *[lambda x: x.reshape(4, 16)] * 3),
        "transpose": lambda: _case([square], *[lambda x: x.T] * 3),
        "getitem": lambda: _case([square], *[lambda x: x[2]] * 3),
        "getitem slice": lambda: _case([square], *[lambda x: x[:, 1:5]] * 3),
        "softmax 8x64": lambda: _case([rows], lambda x: x.softmax(-1), _softmax, lambda x: x.softmax(-1)),
        "layer_norm 8x64": lambda: _case(
            [rows, gain, gain],
            lambda x, w, b: nn.layer_norm(x, (64,), w, b),
            None,
            lambda x, w, b: _functional().layer_norm(x, (64,), w, b),
        ),
        "gelu 8x64": lambda: _case([rows], nn.gelu, None, lambda x: _functional().gelu(x)),
        "conv2d": lambda: _case([image, filters], nn.conv2d, None, lambda x, w: _functional().conv2d(x, w)),
        "tape 100 nodes": lambda: {
            "jitgraph": _backward(100, "jitgraph"),
            **({"torch": _backward(100, "torch")} if HAS_TORCH else {}),
        },
        **{f"step {name}": make for name, make in eager_models.STEPS.items()},
    }


CASES = _cases()


def case(name: str) -> Run:
    """Our run of a case, for ``bench.against``: what comes back often has its tables."""
    run = CASES[name]()["jitgraph"]
    for _ in range(300 if not name.startswith("step") else 20):
        run()
    return run


def main() -> int:
    wanted = tuple(sys.argv[1:]) if sys.argv[0].endswith("eager.py") else ()
    for name, make in CASES.items():
        if wanted and not name.startswith(wanted):
            continue
        candidates = make()
        for run in candidates.values():
            run()
        first = interleaved(candidates, rounds=3)
        calls = max(1, int(2e-3 / min(float(np.min(times)) for times in first.values())))
        result = interleaved(candidates, rounds=21 if calls > 1 else 11, calls=calls)
        texts = [f"{which} {_spread(times)}" for which, times in result.items()]
        print(f"{name:18} {'; '.join(texts)}", flush=True)
    return 0


def _spread(times: np.ndarray) -> str:
    low, middle, high = (1e6 * float(np.percentile(times, each)) for each in (25, 50, 75))
    return f"{middle:.2f} us ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    sys.exit(main())
