"""Runs kernels on arrays, and has their text assembled where CUDA's assembler is at hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jitgraph_testing.simulator.counts import LaunchCounts
from jitgraph_testing.simulator.module import SimulatedModule

SEEDS = (None, 1, 2, 3)
"""In order, then three other orders of threads, warps and blocks; odd ones poison memory otherwise."""


class Bench:
    """A module with its arrays on the device."""

    def __init__(self, text: str, *, checks: bool = True) -> None:
        self.module = SimulatedModule(text, checks=checks)

    def put(self, array: NDArray, name: str = "") -> bytes:
        """The array in device memory: its address as an argument."""
        address = self.module.memory.allocate(max(array.nbytes, 1), name)
        self.module.memory.bytes_at(address, array.nbytes)[:] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        return struct.pack("<q", address)

    def get(self, argument: bytes, like: NDArray) -> NDArray:
        """What lies in device memory now, as an array like another."""
        (address,) = struct.unpack("<q", argument)
        return self.module.memory.bytes_at(address, like.nbytes).copy().view(like.dtype).reshape(like.shape)

    def run(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        *arguments: bytes,
        shared: int = 0,
        seed: int | None = None,
        races: bool = False,
    ) -> None:
        self.module.launch(kernel, grid, block, shared, arguments, seed=seed, races=races)

    def counts(self, kernel: str, grid: Sequence[int], block: Sequence[int], *arguments: bytes) -> LaunchCounts:
        result = self.module.launch(kernel, grid, block, 0, arguments, profile=True)
        assert result is not None
        return result


def i32(value: int) -> bytes:
    """An argument of 32 bits."""
    return struct.pack("<i", value)


def i64(value: int) -> bytes:
    """An argument of 64 bits."""
    return struct.pack("<q", value)


def f32(value: float) -> bytes:
    """A float32 argument."""
    return struct.pack("<f", value)
