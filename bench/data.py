"""Loading by worker processes beside loading in this one: waiting that overlaps with compute, and the cost of a batch.

An item takes 1 ms of waiting, as one that is read from a disk, and a step 20 ms of waiting for a device; a batch has 16
items. Without workers a turn takes the sum, 36 ms; with workers that load ahead the longer of both, 20 ms.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import jitgraph as jg

BATCHES = 40


class _Waiting(jg.data.Dataset):
    def __getitem__(self, index: int) -> Any:
        time.sleep(0.001)
        return np.zeros((3, 64, 64), np.float32), index

    def __len__(self) -> int:
        return BATCHES * 16


def _turn(workers: int, step: float) -> float:
    """Milliseconds of a turn, without the first ones, in which workers begin."""
    began = 0.0
    for number, _ in enumerate(jg.data.DataLoader(_Waiting(), 16, num_workers=workers)):
        if number == 5:
            began = time.perf_counter()
        time.sleep(step)
    return 1e3 * (time.perf_counter() - began) / (BATCHES - 5)


def _size(workers: int, floats: int) -> float:
    """Milliseconds for a batch of one array, which no dataset waits for."""
    data = jg.data.TensorDataset(np.zeros((50, floats), np.float32))
    loader = jg.data.DataLoader(data, num_workers=workers, persistent_workers=workers > 0)
    list(loader)
    began = time.perf_counter()
    list(loader)
    return 1e3 * (time.perf_counter() - began) / 50


def main() -> None:
    for workers in (0, 1, 2):
        print(f"{workers} workers: {_turn(workers, 0.02):6.1f} ms a turn (loading 16 ms, the step 20 ms)")
    for floats in (1_000, 1_000_000):
        print(
            f"a batch of {4 * floats / 1e6:g} MB: here {_size(0, floats):.2f} ms, by a worker {_size(1, floats):.2f} ms"
        )


if __name__ == "__main__":
    main()
