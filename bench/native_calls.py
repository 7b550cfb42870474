"""What a call of a compiled function costs inside of numba's njit: ``python -m bench native_calls``.

Beside it stands a plain njit function that computes the same. A loop in njit makes the calls, so that the time of one
is the loop's by their number. Needs numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg
from bench.timing import interleaved

CALLS = 20_000
ROUNDS = 30


def _looped(numba: Any, function: Any) -> Callable[..., Any]:
    @numba.njit
    def loop(n: int, *args: Any) -> Any:
        total = 0.0
        for _ in range(n):
            total += function(*args)
        return total

    return loop  # type: ignore[no-any-return]


def _looped_arrays(numba: Any, function: Any) -> Callable[..., Any]:
    @numba.njit
    def loop(n: int, *args: Any) -> Any:
        total = 0.0
        for _ in range(n):
            total += function(*args)[0]
        return total

    return loop  # type: ignore[no-any-return]


def main() -> None:
    try:
        import numba
    except ModuleNotFoundError:
        print("numba is not installed: pip install jitgraph[numba]")
        return
    number = jg.TensorSpec((), jg.float64)
    x = np.random.default_rng(0).standard_normal(16)
    long = np.random.default_rng(0).standard_normal(4096)
    cases: dict[str, tuple[Any, Any, tuple[Any, ...], Any]] = {
        "a sum of two numbers": (lambda t: t + 1.0, lambda t: t + 1.0, (0.5,), _looped),
        "a sine": (lambda t: jg.sin(t), np.sin, (0.5,), _looped),
        "x * 2, 16 elements": (lambda x: x * 2.0, lambda x: x * 2.0, (x,), _looped_arrays),
        "tanh(x) * 2, 4096 elements": (lambda x: jg.tanh(x) * 2.0, lambda x: np.tanh(x) * 2.0, (long,), _looped_arrays),
    }
    print(f"{'of one call, in ns':30} {'jitgraph':>10} {'plain njit':>10}")
    for name, (ours, theirs, args, looped) in cases.items():
        native = jg.native_function(ours, *(number if isinstance(arg, float) else arg for arg in args))
        plain = numba.njit(theirs) if callable(theirs) and not isinstance(theirs, np.ufunc) else _sine(numba)
        loops = {"jitgraph": looped(numba, native), "plain njit": looped(numba, plain)}
        count = CALLS if args[0] is not long else CALLS // 100
        for loop in loops.values():
            loop(2, *args)
        runs = {title: functools.partial(loop, count, *args) for title, loop in loops.items()}
        times = interleaved(runs, rounds=ROUNDS)
        print(f"{name:30} " + " ".join(f"{np.median(times[title]) / count * 1e9:10.1f}" for title in loops))


def _sine(numba: Any) -> Any:
    @numba.njit
    def sine(t: Any) -> Any:
        return np.sin(t)

    return sine


if __name__ == "__main__":
    main()
