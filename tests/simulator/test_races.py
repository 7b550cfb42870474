"""Accesses that nothing orders are found whatever the values are; those that a barrier orders are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jitgraph_testing.simulator.faults import RaceError
from tests.simulator import test_barriers, test_pipelines
from tests.simulator.assembling import assembled
from tests.simulator.running import SEEDS, Bench, f32, i32
from tests.simulator.test_barriers import BARRIER, BLOCKS, THREADS, block_sum, halves
from tests.simulator.test_matrices import moved
from tests.simulator.test_pointwise import AXPY
from tests.simulator.texts import KernelText


def run_sum(text: str, seed: int | None) -> None:
    bench, x = Bench(text), test_barriers.X
    bench.run("k", (BLOCKS,), (THREADS,), bench.put(x), bench.put(x[:, 0]), seed=seed, races=True)


def run_halves(text: str, seed: int | None) -> None:
    bench = Bench(text)
    bench.run("k", (1,), (64,), bench.put(np.zeros(32, np.int32)), seed=seed, races=True)


def run_product(text: str, seed: int | None) -> None:
    bench, c = Bench(text), np.zeros((test_pipelines.M, test_pipelines.N), np.float32)
    inputs = bench.put(test_pipelines.A), bench.put(test_pipelines.B), bench.put(c), i32(test_pipelines.K)
    bench.run("k", (1,), (64,), *inputs, seed=seed, races=True)


def run_moved(text: str, seed: int | None) -> None:
    bench, x = Bench(text), np.zeros(1024, np.uint16)
    bench.run("k", (1,), (32,), bench.put(x), bench.put(x), bench.put(x), seed=seed, races=True)


def run_axpy(text: str, seed: int | None) -> None:
    bench, x = Bench(text), np.zeros(256, np.float32)
    bench.run("axpy", (4,), (64,), bench.put(x), bench.put(x), f32(1), i32(256), seed=seed, races=True)


def neighbours() -> str:
    """Each lane reads what its neighbour wrote to shared memory."""
    kernel = KernelText("ptr addrspace(1) %y", variables="@s = internal addrspace(3) global [32 x i32] poison")
    lane = kernel.sreg("tid.x")
    kernel.store("i32", lane, "@s", lane, 3)
    kernel.nvvm("void", "bar.warp.sync", "i32 -1")
    kernel.store("i32", kernel.load("i32", "@s", kernel.i32("xor", lane, 1), 3), "%y", lane)
    return kernel.text


def run_neighbours(text: str, seed: int | None) -> None:
    bench = Bench(text)
    bench.run("k", (1,), (32,), bench.put(np.zeros(32, np.int32)), seed=seed, races=True)


WARP_BARRIER = "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n"
SOUND = {
    "sum": (run_sum, block_sum()),
    "halves": (run_halves, halves()),
    "product": (run_product, test_pipelines.TEXT),
    "neighbours": (run_neighbours, neighbours()),
    "matrices": (run_moved, moved(4, False)),
    "axpy": (run_axpy, AXPY),
}
RACING = {  # each without something that orders accesses, or with accesses to a common place
    "sum": BARRIER,
    "product": test_pipelines.BARRIER,
    "neighbours": WARP_BARRIER,
    "axpy": "getelementptr float, ptr addrspace(1) %y, i32 %i",
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SOUND)
def test_ordered_accesses_are_no_race(name: str, seed: int | None) -> None:
    run, text = SOUND[name]
    run(text, seed)


@pytest.mark.parametrize("name", SOUND)
def test_they_assemble(name: str, tmp_path: Path) -> None:
    assembled(SOUND[name][1], tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", RACING)
def test_unordered_accesses_are_a_race(name: str, seed: int | None) -> None:
    run, text = SOUND[name]
    assert RACING[name] in text
    with pytest.raises(RaceError, match=r"thread \d+ of block \d+ \w+ \(.* the same memory"):
        run(text.replace(RACING[name], RACING[name].replace("%i", "%t") if name == "axpy" else ""), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_barriers_of_warps_do_not_order_warps(seed: int | None) -> None:
    """A warp has passed a barrier of its own when it reads what another wrote."""
    kernel = KernelText("ptr addrspace(1) %y", variables="@s = internal addrspace(3) global [32 x i32] poison")
    thread = kernel.sreg("tid.x")
    lane = kernel.i32("and", thread, 31)
    kernel.do(f"%gives = icmp ult i32 {thread}, 32")
    kernel.do("br i1 %gives, label %give, label %take")
    kernel.label("give")
    kernel.store("i32", thread, "@s", lane, 3)
    kernel.do("br label %end")
    kernel.label("take")
    kernel.nvvm("void", "bar.warp.sync", "i32 -1")
    kernel.store("i32", kernel.load("i32", "@s", lane, 3), "%y", lane)
    kernel.do("br label %end")
    kernel.label("end")
    bench = Bench(kernel.text)
    with pytest.raises(RaceError, match="nothing orders them within the block"):
        bench.run("k", (1,), (64,), bench.put(np.zeros(32, np.int32)), seed=seed, races=True)


def test_blocks_are_named() -> None:
    text = AXPY.replace(
        "getelementptr float, ptr addrspace(1) %y, i32 %i", "getelementptr float, ptr addrspace(1) %y, i32 %t"
    )
    with pytest.raises(RaceError, match=r"of block 0 writes .* of block 1 reads .* byte 0 of .*nothing orders blocks"):
        run_axpy(text, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_atomic_operations_are_no_race(seed: int | None) -> None:
    kernel = KernelText("ptr addrspace(1) %y")
    thread = kernel.sreg("tid.x")
    kernel.let(f"atomicrmw add ptr addrspace(1) %y, i32 {thread} monotonic")
    bench, y = Bench(kernel.text), np.zeros(1, np.int32)
    at = bench.put(y)
    bench.run("k", (3,), (64,), at, seed=seed, races=True)
    assert bench.get(at, y)[0] == 3 * 63 * 32


@pytest.mark.parametrize("counts", [True, False])
def test_atomic_operations_order_blocks(counts: bool) -> None:
    """The block that comes last reads what the others wrote; without the count nothing says that it is the last."""
    kernel = KernelText("ptr addrspace(1) %parts, ptr addrspace(1) %count, ptr addrspace(1) %y")
    block = kernel.sreg("ctaid.x")
    kernel.store("i32", block, "%parts", block)
    if counts:
        before = kernel.let("atomicrmw add ptr addrspace(1) %count, i32 1 monotonic")
    else:
        before = block
    kernel.do(f"%last = icmp eq i32 {before}, 2")
    kernel.do("br i1 %last, label %add, label %end")
    kernel.label("add")
    parts = [kernel.load("i32", "%parts", i) for i in range(3)]
    kernel.store("i32", kernel.i32("add", kernel.i32("add", parts[0], parts[1]), parts[2]), "%y")
    kernel.do("br label %end")
    kernel.label("end")
    bench, zeros = Bench(kernel.text), np.zeros(3, np.int32)
    at = [bench.put(zeros) for _ in range(3)]
    if counts:
        bench.run("k", (3,), (1,), *at, races=True)
        assert bench.get(at[2], zeros)[0] == 3
    else:
        with pytest.raises(RaceError, match="nothing orders blocks"):
            bench.run("k", (3,), (1,), *at, races=True)
