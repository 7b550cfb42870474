"""Warps that a multiprocessor holds at a time, by the rules of CUDA's occupancy calculator.

The rules are those of ``cuda_occupancy.h`` (CUDA 13.0): registers are given to warps, 256 at a time, by the four parts
of a multiprocessor; shared memory to blocks, 128 bytes at a time, of which the system takes 1 KB for each block. Sizes
of the generations are those of the table of compute capabilities in the CUDA C++ programming guide.
``tests/codegen/cuda/test_static_figures.py`` holds this against the header, where that is found.
"""

from __future__ import annotations

from typing import NamedTuple

WARP = 32
_PARTS, _REGISTER_UNIT, _SHARED_UNIT, _OF_THE_SYSTEM = 4, 256, 128, 1024


class Multiprocessor(NamedTuple):
    """What a multiprocessor of a generation has for blocks: warps, blocks, registers, bytes of shared memory."""

    warps: int
    blocks: int
    registers: int
    shared_bytes: int


MULTIPROCESSORS = {
    80: Multiprocessor(64, 32, 1 << 16, 164 << 10),
    86: Multiprocessor(48, 16, 1 << 16, 100 << 10),
    89: Multiprocessor(48, 24, 1 << 16, 100 << 10),
    90: Multiprocessor(64, 32, 1 << 16, 228 << 10),
    100: Multiprocessor(64, 32, 1 << 16, 228 << 10),
    120: Multiprocessor(48, 24, 1 << 16, 100 << 10),
}
"""By compute capability, ten times its number."""


class Occupancy(NamedTuple):
    """Blocks on a multiprocessor, the share of its warps that they are, and what keeps more away."""

    blocks: int
    share: float
    limit: str


def occupancy(sm: int, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """The occupancy of blocks of ``threads`` with so many registers a thread and so much shared memory a block."""
    of = MULTIPROCESSORS[sm]
    warps = -(-threads // WARP)
    of_a_warp = _up(registers * WARP, _REGISTER_UNIT)
    in_registers = of.registers // _PARTS // max(of_a_warp, 1) * _PARTS // warps
    in_shared = of.shared_bytes // _up(shared_bytes + _OF_THE_SYSTEM, _SHARED_UNIT)
    limits = {"warps": of.warps // warps, "blocks": of.blocks, "registers": in_registers, "shared memory": in_shared}
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limit], limits[limit] * warps / of.warps, limit)


def _up(x: int, unit: int) -> int:
    return -(-x // unit) * unit
