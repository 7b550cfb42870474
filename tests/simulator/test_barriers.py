"""Barriers and shared memory: sums of blocks, parts of blocks that wait for each other, and what planted faults do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from jitgraph_testing.simulator.faults import BoundsError, DivergenceError, SimulationError
from tests.simulator.assembling import assembled
from tests.simulator.running import SEEDS, Bench, i32
from tests.simulator.texts import KernelText

THREADS, BLOCKS = 128, 3
X = np.random.default_rng(1).integers(-100, 100, (BLOCKS, THREADS)).astype(np.float32)
BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"


def block_sum(variables: str = f"@s = internal addrspace(3) global [{THREADS} x float] poison, align 16") -> str:
    """Each block adds its elements by halves, in shared memory."""
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y", variables=variables, threads=THREADS)
    thread, block = kernel.sreg("tid.x"), kernel.sreg("ctaid.x")
    kernel.store(
        "float",
        kernel.load("float", "%x", kernel.i32("add", kernel.i32("mul", block, THREADS), thread)),
        "@s",
        thread,
        3,
    )
    kernel.do("br label %loop")
    kernel.label("loop")
    kernel.do(f"%half = phi i32 [ {THREADS // 2}, %entry ], [ %next, %after ]")
    kernel.barrier()
    kernel.do(f"%adds = icmp ult i32 {thread}, %half")
    kernel.do("br i1 %adds, label %add, label %after")
    kernel.label("add")
    other = kernel.load("float", "@s", kernel.i32("add", thread, "%half"), 3)
    mine = kernel.load("float", "@s", thread, 3)
    kernel.store("float", kernel.let(f"fadd float {mine}, {other}"), "@s", thread, 3)
    kernel.do("br label %after")
    kernel.label("after")
    kernel.do("%next = lshr i32 %half, 1")
    kernel.do("%more = icmp ne i32 %next, 0")
    kernel.do("br i1 %more, label %loop, label %last")
    kernel.label("last")
    kernel.do(f"%first = icmp eq i32 {thread}, 0")
    kernel.do("br i1 %first, label %put, label %end")
    kernel.label("put")
    kernel.store("float", kernel.load("float", "@s", 0, 3), "%y", block)
    kernel.do("br label %end")
    kernel.label("end")
    return kernel.text


def sums(text: str, seed: int | None, shared: int = 0) -> np.ndarray:
    bench = Bench(text)
    at_x, at_y = bench.put(X, "x"), bench.put(X[:, 0], "y")
    bench.run("k", (BLOCKS,), (THREADS,), at_x, at_y, shared=shared, seed=seed)
    return bench.get(at_y, X[:, 0])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sum_of_a_block(seed: int | None) -> None:
    np.testing.assert_array_equal(sums(block_sum(), seed), X.sum(axis=1))


DYNAMIC = "@s = external addrspace(3) global [0 x float], align 16"


def test_dynamic_shared_memory() -> None:
    np.testing.assert_array_equal(sums(block_sum(DYNAMIC), 1, shared=4 * THREADS), X.sum(axis=1))
    with pytest.raises(BoundsError, match=r"thread \(127, 0, 0\) writes 4 bytes .* byte 508 of shared memory @s"):
        sums(block_sum(DYNAMIC), None, shared=4 * THREADS - 4)


def test_it_assembles(tmp_path: Path) -> None:
    assembled(block_sum(), tmp_path)
    assembled(block_sum(DYNAMIC), tmp_path)


def test_a_dropped_barrier_gives_another_sum() -> None:
    text = block_sum().replace(BARRIER, "", 1)
    for seed in SEEDS:
        with np.errstate(all="ignore"):
            assert not np.array_equal(sums(text, seed), X.sum(axis=1))


def test_a_barrier_in_divergent_code() -> None:
    text = block_sum().replace(BARRIER, "", 1).replace("add:\n", "add:\n" + BARRIER, 1)
    with pytest.raises(
        DivergenceError, match=r"block \(.*no thread of the block can go on: waiting are threads 0, 1, "
    ):
        sums(text, 2)


def test_two_barriers_for_one_warp() -> None:
    """All threads wait, but those of a warp at different instructions."""
    text = block_sum().replace(BARRIER, "", 1).replace("add:\n", "add:\n" + BARRIER, 1)
    text = text.replace(
        "label %add, label %after\n", "label %add, label %skip\nskip:\n" + BARRIER + "  br label %after\n"
    )
    text = text.replace("[ %next, %after ]", "[ %next, %after ]").replace("lshr i32 %half, 1", "lshr i32 %half, 7")
    text = text.replace(f"phi i32 [ {THREADS // 2}, %entry ]", "phi i32 [ 20, %entry ]")
    with pytest.raises(DivergenceError, match="wait at barrier 0 at different instructions"):
        sums(text, None)


def reversed_by(threads: int) -> str:
    """Threads exchange their numbers through shared memory."""
    kernel = KernelText("ptr addrspace(1) %y", variables=f"@s = internal addrspace(3) global [{threads} x i32] poison")
    thread = kernel.sreg("tid.x")
    kernel.store("i32", thread, "@s", thread, 3)
    kernel.barrier()
    kernel.store("i32", kernel.load("i32", "@s", kernel.i32("sub", threads - 1, thread), 3), "%y", thread)
    return kernel.text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [1, 31, 33, 95, 1024])
def test_blocks_of_any_size(threads: int, seed: int | None) -> None:
    bench, y = Bench(reversed_by(threads)), np.zeros(threads, np.int32)
    at = bench.put(y)
    bench.run("k", (1,), (threads,), at, seed=seed, races=True)
    np.testing.assert_array_equal(bench.get(at, y), np.arange(threads)[::-1])


def test_launches_of_several_threads_take_turns() -> None:
    bench, y = Bench(reversed_by(64)), np.zeros(64, np.int32)

    def launch(seed: int) -> np.ndarray:
        at = bench.put(y)
        for _ in range(5):
            bench.run("k", (3,), (64,), at, seed=seed)
        return bench.get(at, y)

    with ThreadPoolExecutor(3) as pool:
        for actual in pool.map(launch, range(6)):
            np.testing.assert_array_equal(actual, np.arange(64)[::-1])


def halves(count: int = 64) -> str:
    """The first half of a block gives numbers to the second, by a barrier at which it does not wait."""
    kernel = KernelText(
        "ptr addrspace(1) %y", variables="@s = internal addrspace(3) global [32 x i32] poison", threads=64
    )
    thread = kernel.sreg("tid.x")
    lane = kernel.i32("and", thread, 31)
    kernel.do(f"%gives = icmp ult i32 {thread}, 32")
    kernel.do("br i1 %gives, label %give, label %take")
    kernel.label("give")
    kernel.store("i32", kernel.i32("mul", thread, 3), "@s", lane, 3)
    kernel.nvvm("void", "barrier.cta.arrive.aligned.count", "i32 1", f"i32 {count}")
    kernel.do("br label %end")
    kernel.label("take")
    kernel.nvvm("void", "barrier.cta.sync.aligned.count", "i32 1", "i32 64")
    kernel.store("i32", kernel.load("i32", "@s", lane, 3), "%y", lane)
    kernel.do("br label %end")
    kernel.label("end")
    return kernel.text


@pytest.mark.parametrize("seed", SEEDS)
def test_one_half_waits_for_the_other(seed: int | None) -> None:
    bench = Bench(halves())
    at = bench.put(np.zeros(32, np.int32))
    bench.run("k", (1,), (64,), at, seed=seed)
    np.testing.assert_array_equal(bench.get(at, np.zeros(32, np.int32)), 3 * np.arange(32))


def test_a_half_that_nobody_comes_to() -> None:
    """One warp is missing of the two that the barrier is for."""
    lines = [line for line in halves().splitlines() if "call void @llvm.nvvm.barrier.cta.arrive" not in line]
    bench = Bench("\n".join(lines))
    with pytest.raises(DivergenceError, match=r"waiting are threads 32, 33.* 32 of 64 threads have ended"):
        bench.run("k", (1,), (64,), bench.put(np.zeros(32, np.int32)))


def test_they_must_agree_on_how_many(tmp_path: Path) -> None:
    assembled(halves(), tmp_path)
    bench = Bench(halves(96))
    with pytest.raises(DivergenceError, match="others for"):
        bench.run("k", (1,), (64,), bench.put(np.zeros(32, np.int32)))


@pytest.mark.parametrize(("kind", "expected"), [("popc", 10), ("or", 1), ("and", 0)])
def test_barriers_that_count(kind: str, expected: int, tmp_path: Path) -> None:
    result = "i32" if kind == "popc" else "i1"
    kernel = KernelText("ptr addrspace(1) %y", threads=64)
    thread = kernel.sreg("tid.x")
    few = kernel.let(f"icmp ult i32 {thread}, 10")
    actual = kernel.nvvm(result, f"barrier.cta.red.{kind}.aligned.all", "i32 0", f"i1 {few}")
    kernel.store("i32", actual if kind == "popc" else kernel.let(f"zext i1 {actual} to i32"), "%y", thread)
    bench = Bench(kernel.text)
    at = bench.put(np.zeros(64, np.int32))
    bench.run("k", (1,), (64,), at, seed=1)
    np.testing.assert_array_equal(bench.get(at, np.zeros(64, np.int32)), expected)
    assembled(kernel.text, tmp_path)


def test_the_last_block_of_a_launch(tmp_path: Path) -> None:
    """Atomic operations count blocks; the one that comes last adds what all have left."""
    kernel = KernelText("ptr addrspace(1) %parts, ptr addrspace(1) %count, ptr addrspace(1) %y, i32 %n")
    block = kernel.sreg("ctaid.x")
    kernel.store("i32", kernel.i32("mul", block, block), "%parts", block)
    kernel.nvvm("void", "membar.gl")
    before = kernel.let('atomicrmw add ptr addrspace(1) %count, i32 1 syncscope("device") monotonic')
    kernel.do(f"%last = icmp eq i32 {before}, {kernel.i32('sub', '%n', 1)}")
    kernel.do("br i1 %last, label %loop, label %end")
    kernel.label("loop")
    kernel.do("%i = phi i32 [ 0, %entry ], [ %next, %loop ]")
    kernel.do("%sum = phi i32 [ 0, %entry ], [ %total, %loop ]")
    kernel.do(f"%total = add i32 %sum, {kernel.load('i32', '%parts', '%i')}")
    kernel.do("%next = add i32 %i, 1")
    kernel.do("%more = icmp ult i32 %next, %n")
    kernel.do("br i1 %more, label %loop, label %put")
    kernel.label("put")
    kernel.store("i32", "%total", "%y")
    kernel.do("br label %end")
    kernel.label("end")
    bench, zeros = Bench(kernel.text), np.zeros(20, np.int32)
    for seed in SEEDS:
        at = [bench.put(zeros) for _ in range(3)]
        bench.run("k", (20,), (1,), *at, i32(20), seed=seed)
        assert bench.get(at[2], zeros)[0] == (np.arange(20) ** 2).sum()
    assembled(kernel.text, tmp_path)


@pytest.mark.parametrize(
    "how",
    ["cmpxchg", "load atomic i32, ptr addrspace(1) %flag monotonic", "load volatile i32, ptr addrspace(1) %flag"],
)
def test_waiting_for_a_block_that_has_not_begun(how: str) -> None:
    kernel = KernelText("ptr addrspace(1) %flag")
    kernel.do("br label %loop")
    kernel.label("loop")
    if how == "cmpxchg":
        actual = kernel.let("cmpxchg ptr addrspace(1) %flag, i32 1, i32 2 monotonic monotonic")
        done = kernel.let(f"extractvalue {{ i32, i1 }} {actual}, 1")
    else:
        done = kernel.let(f"icmp ne i32 {kernel.let(f'{how}, align 4')}, 0")
    kernel.do(f"br i1 {done}, label %end, label %loop")
    kernel.label("end")
    bench = Bench(kernel.text)
    with pytest.raises(DivergenceError, match="waits for another one by atomic or volatile operations, in vain"):
        bench.run("k", (2,), (1,), bench.put(np.zeros(1, np.int32)))


def test_kernels_of_a_module_have_their_own_shared_memory() -> None:
    """Together more than one may have; each is told of its own, and may touch no other's."""
    variables = "\n".join(f"@s{i} = internal addrspace(3) global [9000 x i32] poison, align 1024" for i in (0, 1))
    kernels = []
    for i in (0, 1):
        kernel = KernelText("ptr addrspace(1) %y, i32 %at", name=f"k{i}")
        kernel.store("i32", "%at", f"@s{i}", "%at", 3)
        kernel.store("i32", kernel.load("i32", f"@s{i}", "%at", 3), "%y")
        kernels.append(kernel.text)
    bench, y = Bench(variables + "".join(kernels)), np.zeros(1, np.int32)
    at = bench.put(y)
    for i in (0, 1):
        assert bench.module.static_shared_bytes(f"k{i}") == 36000
        bench.run(f"k{i}", (1,), (1,), at, i32(8999))
        assert bench.get(at, y)[0] == 8999
        with pytest.raises(BoundsError, match=f"byte 36000 of shared memory @s{i}"):
            bench.run(f"k{i}", (1,), (1,), at, i32(9000))


def test_shared_memory_begins_poisoned() -> None:
    """Each block finds what it did not write: a NaN, or with odd seeds a large number; never what another left."""
    kernel = KernelText("ptr addrspace(1) %y", variables="@s = internal addrspace(3) global [4 x float] poison")
    block = kernel.sreg("ctaid.x")
    kernel.store("float", kernel.load("float", "@s", 0, 3), "%y", block)
    kernel.barrier()
    kernel.store("float", "1.0", "@s", 0, 3)
    bench, y = Bench(kernel.text), np.zeros(5, np.float32)
    for seed in SEEDS:
        at = bench.put(y)
        bench.run("k", (5,), (1,), at, seed=seed)
        actual = bench.get(at, y)
        assert (actual > 1e37).all() if seed and seed % 2 else np.isnan(actual).all()


def test_a_trap() -> None:
    text = "declare void @llvm.trap()\ndefine ptx_kernel void @k() {\n  call void @llvm.trap()\n  unreachable\n}\n"
    with pytest.raises(SimulationError, match=r"k, block \(0, 0, 0\), thread \(0, 0, 0\) stopped at a trap"):
        Bench(text).run("k", (1,), (1,))
