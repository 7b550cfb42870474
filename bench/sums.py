"""Sums along rows, down columns and over all of an array, beside NumPy's and the speed at which memory is read.

A sum reads 4 bytes an element and writes next to nothing, so the limit is the bandwidth of reading.
``python -m bench.against CHECKOUT sums`` times the same sums in another checkout, turn by turn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, ratio

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "1e7, all": ((10_000_000,), (0,)),
    "3000 x 3000, all": ((3000, 3000), (0, 1)),
    "1e6 x 10, all": ((1_000_000, 10), (0, 1)),
    "10000 x 1000, rows": ((10_000, 1000), (1,)),
    "1e6 x 10, rows": ((1_000_000, 10), (1,)),
    "1e6 x 10, columns": ((1_000_000, 10), (0,)),
    "150000 x 64, columns": ((150_000, 64), (0,)),
    "10000 x 1000, columns": ((10_000, 1000), (0,)),
    "1000 x 10000, columns": ((1000, 10_000), (0,)),
    "64 x 32 x 4900, channels": ((64, 32, 70, 70), (0, 2, 3)),
    "16 x 16384 in cache, rows": ((16, 16_384), (1,)),
    "65536 in cache, all": ((65_536,), (0,)),
    "256 x 256 in cache, columns": ((256, 256), (0,)),
    "64 x 100, rows": ((64, 100), (1,)),
}


def data(shape: tuple[int, ...]) -> np.ndarray:
    """The operand: numbers of both signs."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def case(name: str) -> Callable[[], object]:
    """The compiled sum of a case, ready to be called."""
    shape, axes = CASES[name]
    x = jg.asarray(data(shape))
    compiled = jg.trace(lambda x: x.sum(axis=axes))
    compiled(x)
    return lambda: compiled(x)


def main() -> None:
    for name, (shape, axes) in CASES.items():
        x = data(shape)
        calls = max(1, 2_000_000 // x.size)
        flat = x.reshape(-1)
        times = interleaved(
            {
                "compiled": case(name),
                "numpy": lambda x=x, axes=axes: x.sum(axis=axes),  # type: ignore[misc]
                "reading": lambda flat=flat: np.max(flat),  # type: ignore[misc]
            },
            calls=calls,
        )
        speed = x.nbytes / float(np.median(times["compiled"])) / 1e9
        print(
            f"{name:28} {1e6 * float(np.median(times['compiled'])):9.1f} us {speed:6.1f} GB/s; NumPy takes "
            f"{ratio(times['numpy'], times['compiled'])} times that, "
            f"its max of all elements {ratio(times['reading'], times['compiled'])}"
        )


if __name__ == "__main__":
    main()
