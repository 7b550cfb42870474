"""Random eager programs give the same bits past Python and by Python: numbers, parts, broadcasting, the tape."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.dispatch import start
from jitgraph.ir import context
from tests.graphs import needs_native

pytestmark = [
    needs_native,
    pytest.mark.skipif(bool(start.lacking()), reason="no native calls here"),
    pytest.mark.usefixtures("rules_of_their_own"),
]
PROGRAMS: Final = int(os.environ.get("DISPATCH_PROGRAMS", "12"))
ROUNDS: Final = 40  # after which every call of a program that can be native is

Step = Callable[..., Any]
NUMBERS: Final = (2, -1, 0, 3, 0.5, 2.0, -0.0, 0.0, 1e-3, 1e30, float("nan"), float("inf"), 100000, -7)
NUMBER_OPS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": lambda x, n: x + n,
    "added": lambda x, n: n + x,
    "sub": lambda x, n: x - n,
    "subtracted": lambda x, n: n - x,
    "mul": lambda x, n: x * n,
    "truediv": lambda x, n: x / n,
    "divided": lambda x, n: n / x,
    "pow": lambda x, n: abs(x) ** n,
    "less": lambda x, n: jg.where(x < n, x, n),
    "equal": lambda x, n: (x == n).astype(x.dtype) + x,
    "where": lambda x, n: jg.where(x > 0, n, x),
    "clip": lambda x, n: x.clip(n),
    "maximum": lambda x, n: jg.maximum(x, n),
}
PARTS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "row": lambda x, i: x[i],
    "last": lambda x, i: x[..., -1],
    "rows": lambda x, i: x[1:],
    "column": lambda x, i: x[:, i],
    "block": lambda x, i: x[:2, i : i + 2],
    "steps": lambda x, i: x[::2],
    "back": lambda x, i: x[::-1],
    "new axis": lambda x, i: x[None, :, i],
    "transposed": lambda x, i: x.mT,
    "flat": lambda x, i: x.reshape(-1),
    "flattened": lambda x, i: x.flatten(),
    "squeezed": lambda x, i: x[:, None].squeeze(1),
    "unsqueezed": lambda x, i: x.unsqueeze(i),
    "reversed": lambda x, i: x.transpose(),
    "pieces": lambda x, i: x.split(2)[0] * 3,
    "joined": lambda x, i: jg.concat([x, x], 0),
    "stacked": lambda x, i: jg.stack([x, x], i),
}
OTHERS: Final[dict[str, Callable[[Any], Any]]] = {
    "mean": lambda x: x.mean(-1, keepdims=True) + x,
    "sum": lambda x: x - x.sum(0, keepdims=True),
    "max": lambda x: x / x.max(-1, keepdims=True),
    "var": lambda x: x * x.var(),
    "first": lambda x: x * x[:1],
    "outer": lambda x: x.unsqueeze(-1) - x.unsqueeze(-2),
    "tanh": lambda x: x.tanh(),
}


def program(rng: np.random.Generator, rank: int) -> list[tuple[str, Step]]:
    """Steps from a tensor to a tensor, which may not fit: such a step is left out when it raises."""
    steps: list[tuple[str, Step]] = []
    for _ in range(int(rng.integers(3, 7))):
        kind = rng.integers(3)
        if kind == 0:
            name, number = rng.choice(list(NUMBER_OPS)), NUMBERS[rng.integers(len(NUMBERS))]
            steps.append((f"{name} {number!r}", lambda x, f=NUMBER_OPS[name], n=number: f(x, n)))
        elif kind == 1:
            name, device = rng.choice(list(PARTS)), int(rng.integers(-1, 3))
            steps.append((f"{name} {device}", lambda x, f=PARTS[name], i=device: f(x, i)))
        else:
            name = rng.choice(list(OTHERS))
            steps.append((name, OTHERS[name]))
    return steps


def bits(x: Any) -> Any:
    """What it is bit for bit, but for which NaN an element is."""
    array = x.detach().numpy()
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.full_like(array, np.nan), array)
    return str(array.dtype), array.shape, array.tobytes()


def run(steps: list[tuple[str, Step]], leaf: Any) -> list[Any]:
    """The bits of every step, the errors of those that do not fit, and the gradient of the sum of the last one."""
    results: list[Any] = []
    x = leaf
    for _, step in steps:
        try:
            after = step(x)
        except jg.errors.JitgraphError as error:
            results.append(str(error))
            continue
        if after.size > 4096:
            continue
        x = after
        results.append((bits(x), x.requires_grad))
    if x.requires_grad:
        leaf.grad = None
        x.sum().backward()
        results.append(bits(leaf.grad))
    return results


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_have_the_same_bits_past_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    dtype = [np.float32, np.float64, np.int64, np.int32, np.float32][seed % 5]
    array = (rng.standard_normal(shape) * 3).astype(dtype)
    steps = program(rng, len(shape))
    leaf = jg.asarray(array)
    if np.dtype(dtype).kind == "f" and seed % 2:
        leaf.requires_grad_()
    for _ in range(ROUNDS):
        run(steps, leaf)
    assert start._START.runtime is not None
    before = start._START.runtime.clock
    result = run(steps, leaf)
    served = start._START.runtime.clock - before
    monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    with context.using(device="cpu"):  # a context of which no table knows
        expected = run(steps, leaf)
    assert result == expected, [name for name, _ in steps]
    is_empty = any(len(step) == 2 and 0 in step[0][1] for step in result)
    assert served > 0 or is_empty, [name for name, _ in steps]
