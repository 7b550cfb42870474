"""Bytes, sectors and transactions of launches, where they can be told by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jitgraph_testing.simulator.counts import SharedUse
from tests.simulator.assembling import assembled
from tests.simulator.running import Bench, f32, i32
from tests.simulator.test_pipelines import TEXT, A, B, K, M, N
from tests.simulator.test_pointwise import AXPY
from tests.simulator.texts import KernelText


def test_dense_accesses_touch_the_least_sectors() -> None:
    bench, x = Bench(AXPY), np.zeros(256, np.float32)
    result = bench.counts("axpy", (4,), (64,), bench.put(x), bench.put(x), f32(1), i32(250))
    assert (result.threads, result.bytes_loaded, result.bytes_stored) == (256, 2000, 1000)
    assert result.sectors_loaded == result.least_sectors_loaded == 2 * 32
    assert result.instructions == 256 * 7 + 250 * 8 + 256
    assert result.shared == SharedUse(0, 0, 0) and result.atomics == 0


def test_strided_accesses_touch_a_sector_each() -> None:
    text = AXPY.replace("ptr addrspace(1) %x, i32 %i", "ptr addrspace(1) %x, i32 %far").replace(
        "go:\n", "go:\n  %far = mul i32 %i, 8\n"
    )
    bench = Bench(text)
    inputs = bench.put(np.zeros(512, np.float32)), bench.put(np.zeros(64, np.float32))
    result = bench.counts("axpy", (1,), (64,), *inputs, f32(1), i32(64))
    assert (result.sectors_loaded, result.least_sectors_loaded) == (64 + 8, 8 + 8)


def transposed(width: int) -> str:
    """A square of 32 is written by rows to shared memory, whose rows are ``width`` long, and read by columns."""
    kernel = KernelText(
        "ptr addrspace(1) %x, ptr addrspace(1) %y",
        variables=f"@s = internal addrspace(3) global [{32 * width} x float] poison, align 16",
    )
    column, row = kernel.sreg("tid.x"), kernel.sreg("tid.y")
    here = kernel.i32("add", kernel.i32("mul", row, 32), column)
    kernel.store(
        "float", kernel.load("float", "%x", here), "@s", kernel.i32("add", kernel.i32("mul", row, width), column), 3
    )
    kernel.barrier()
    other = kernel.i32("add", kernel.i32("mul", column, width), row)
    kernel.store("float", kernel.load("float", "@s", other, 3), "%y", here)
    return kernel.text


@pytest.mark.parametrize(("width", "turns"), [(32, 32), (33, 1), (34, 2), (40, 8)])
def test_columns_of_shared_memory_take_turns(width: int, turns: int, tmp_path: Path) -> None:
    assembled(transposed(width), tmp_path)
    bench, x = Bench(transposed(width)), np.arange(1024, dtype=np.float32).reshape(32, 32)
    at = bench.put(x)
    result = bench.counts("k", (1,), (32, 32), bench.put(x), at)
    np.testing.assert_array_equal(bench.get(at, x), x.T)
    assert result.shared == SharedUse(64, 32 + 32 * turns, 64)
    (load,) = [use for line, use in result.shared_by_site.items() if " = load " in line]
    assert load == SharedUse(32, 32 * turns, 32)


@pytest.mark.parametrize(("swizzle", "more"), [("lshr i32 %v4, 2", 1.0), ("lshr i32 %v4, 9", 1.5)])
def test_a_swizzle_spares_turns(swizzle: str, more: float) -> None:
    """Rows of matrices are 32 bytes apart: without a swizzle two of eight want the same banks."""
    text = TEXT.replace("lshr i32 %v4, 2", swizzle)
    if more > 1:
        text = "\n".join(
            line.replace(", 2", ", 9") if " = lshr i32" in line and line.endswith(", 2") else line
            for line in text.splitlines()
        )
    bench, c = Bench(text), np.zeros((M, N), np.float32)
    result = bench.counts("k", (1,), (64,), bench.put(A), bench.put(B), bench.put(c), i32(K))
    moves = [use for line, use in result.shared_by_site.items() if "ldmatrix" in line]
    assert sum(use.transactions for use in moves) >= more * sum(use.least for use in moves)
    assert (sum(use.transactions for use in moves) == sum(use.least for use in moves)) == (more == 1)
    assert result.bytes_loaded == A.nbytes + B.nbytes and result.bytes_stored == c.nbytes
