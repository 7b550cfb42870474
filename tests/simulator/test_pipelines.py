"""A product with asynchronous copies in a ring, swizzled shared memory and mma; what each planted fault does to it."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from jitgraph_testing.simulator.faults import AlignmentError, BoundsError, RaceError
from tests.simulator.assembling import assembled
from tests.simulator.running import SEEDS, Bench, i32
from tests.simulator.texts import KernelText

M, N, K, STAGES = 32, 16, 80, 3
QUAD = "{ i32, i32, i32, i32 }"
FLOATS = "{ float, float, float, float }"
A_BYTES, B_BYTES = M * 32, 16 * N * 2  # of a stage: 16 steps along k


def product() -> str:
    """(32, k) times (k, 16) in bfloat16 by two warps; k is a multiple of 16 and at least 32."""
    kernel = KernelText(
        "ptr addrspace(1) readonly %a, ptr addrspace(1) readonly %b, ptr addrspace(1) %c, i32 %k",
        variables=f"@sa = internal addrspace(3) global [{STAGES * A_BYTES} x i8] poison, align 128\n"
        f"@sb = internal addrspace(3) global [{STAGES * B_BYTES} x i8] poison, align 128",
        threads=64,
    )
    i32 = kernel.i32
    thread = kernel.sreg("tid.x")
    lane, warp = i32("and", thread, 31), i32("lshr", thread, 5)
    row, chunk = i32("lshr", thread, 1), i32("and", thread, 1)  # rows of 32 bytes are two chunks, changed every 4 rows
    swizzle = i32("and", i32("lshr", row, 2), 1)
    location = i32("add", i32("mul", row, 32), i32("mul", i32("xor", chunk, swizzle), 16))
    a_at = i32("add", i32("mul", row, "%k"), i32("mul", chunk, 8))
    b_at = i32("add", i32("mul", row, N), i32("mul", chunk, 8))
    kernel.do(f"%loads.b = icmp ult i32 {thread}, 32")

    def copy(step: str, stage: str, name: str) -> None:
        from_a = kernel.at("bfloat", "%a", i32("add", a_at, i32("mul", step, 16)))
        to_a = kernel.at("i8", "@sa", i32("add", location, i32("mul", stage, A_BYTES)), 3)
        kernel.nvvm("void", "cp.async.cg.shared.global.16", f"ptr addrspace(3) {to_a}", f"ptr addrspace(1) {from_a}")
        kernel.do(f"br i1 %loads.b, label %b.{name}, label %copied.{name}")
        kernel.label(f"b.{name}")
        from_b = kernel.at("bfloat", "%b", i32("add", b_at, i32("mul", step, 16 * N)))
        to_b = kernel.at("i8", "@sb", i32("add", location, i32("mul", stage, B_BYTES)), 3)
        kernel.nvvm("void", "cp.async.cg.shared.global.16", f"ptr addrspace(3) {to_b}", f"ptr addrspace(1) {from_b}")
        kernel.do(f"br label %copied.{name}")
        kernel.label(f"copied.{name}")

    for stage in range(STAGES - 1):
        copy(str(stage), str(stage), str(stage))
        kernel.nvvm("void", "cp.async.commit.group")
    steps = i32("lshr", "%k", 4)
    kernel.do("br label %loop")
    kernel.label("loop")
    before = f"copied.{STAGES - 2}"
    kernel.do(f"%step = phi i32 [ 0, %{before} ], [ %step.next, %compute ]")
    kernel.do(f"%sums = phi <8 x float> [ zeroinitializer, %{before} ], [ %sums.next, %compute ]")
    kernel.nvvm("void", "cp.async.wait.group", f"i32 {STAGES - 2}")
    kernel.barrier()
    ahead = i32("add", "%step", STAGES - 1)
    kernel.do(f"%more = icmp ult i32 {ahead}, {steps}")
    kernel.do("br i1 %more, label %fetch, label %fetched")
    kernel.label("fetch")
    copy(ahead, i32("urem", ahead, STAGES), "ahead")
    kernel.do("br label %fetched")
    kernel.label("fetched")
    kernel.nvvm("void", "cp.async.commit.group")
    kernel.do("br label %compute")
    kernel.label("compute")
    stage = i32("urem", "%step", STAGES)
    low, half = i32("and", lane, 15), i32("lshr", lane, 4)

    def matrices(name: str, first_row: str, size: int, tail: str) -> list[str]:
        its_row = i32("add", first_row, low)
        its_swizzle = i32("and", i32("lshr", its_row, 2), 1)
        offset = i32("add", i32("mul", its_row, 32), i32("mul", i32("xor", half, its_swizzle), 16))
        at = kernel.at("i8", name, i32("add", offset, i32("mul", stage, size)), 3)
        result = kernel.nvvm(QUAD, f"ldmatrix.sync.aligned.m8n8.x4{tail}.b16.p3", f"ptr addrspace(3) {at}")
        return [kernel.let(f"extractvalue {QUAD} {result}, {i}") for i in range(4)]

    a_parts = matrices("@sa", i32("mul", warp, 16), A_BYTES, "")
    b_parts = matrices("@sb", "0", B_BYTES, ".trans")
    sums = "%sums"
    for half_n in range(2):
        held = [kernel.let(f"extractelement <8 x float> %sums, i32 {4 * half_n + i}") for i in range(4)]
        operands = [f"i32 {part}" for part in (*a_parts, *b_parts[2 * half_n : 2 * half_n + 2])]
        result = kernel.nvvm(FLOATS, "mma.m16n8k16.row.col.bf16", *operands, *[f"float {each}" for each in held])
        for i in range(4):
            part = kernel.let(f"extractvalue {FLOATS} {result}, {i}")
            into = f"insertelement <8 x float> {sums}, float {part}, i32 {4 * half_n + i}"
            if (half_n, i) == (1, 3):
                kernel.do(f"%sums.next = {into}")
            else:
                sums = kernel.let(into)
    kernel.do("%step.next = add i32 %step, 1")
    kernel.do(f"%again = icmp ult i32 %step.next, {steps}")
    kernel.do("br i1 %again, label %loop, label %out")
    kernel.label("out")
    its_row = i32("add", i32("mul", warp, 16), i32("lshr", lane, 2))
    its_column = i32("mul", i32("and", lane, 3), 2)
    for i in range(8):
        at = i32(
            "add", i32("mul", i32("add", its_row, 8 * (i // 2 % 2)), N), i32("add", its_column, 8 * (i // 4) + i % 2)
        )
        kernel.store("float", kernel.let(f"extractelement <8 x float> %sums.next, i32 {i}"), "%c", at)
    return kernel.text


TEXT = product()
DRAW = np.random.default_rng(3)
A = DRAW.integers(-4, 5, (M, K)).astype(ml_dtypes.bfloat16)
B = DRAW.integers(-4, 5, (K, N)).astype(ml_dtypes.bfloat16)
EXPECTED = A.astype(np.float32) @ B.astype(np.float32)


def run(text: str, seed: int | None, a: np.ndarray = A) -> np.ndarray:
    bench = Bench(text)
    c = np.zeros((M, N), np.float32)
    at = bench.put(c, "c")
    bench.run("k", (1,), (64,), bench.put(a, "a"), bench.put(B, "b"), at, i32(K), seed=seed)
    return bench.get(at, c)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_product(seed: int | None) -> None:
    np.testing.assert_array_equal(run(TEXT, seed), EXPECTED)


def test_it_assembles(tmp_path: Path) -> None:
    assembled(TEXT, tmp_path)


BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
FAULTS = {  # each an edit of the text: what stands there, what is put in its place
    "no barrier": (BARRIER, ""),
    "wait for one group less": (f"wait.group(i32 {STAGES - 2})", f"wait.group(i32 {STAGES - 1})"),
    "no commit": ("fetched:\n  call void @llvm.nvvm.cp.async.commit.group()\n", "fetched:\n"),
    "swizzle of one side": ("lshr i32 %v4, 2", "lshr i32 %v4, 1"),
    "stages too few": (f", {STAGES}\n", f", {STAGES - 1}\n"),
    "matrix not transposed": ("x4.trans.b16", "x4.b16"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in TEXT
    text = TEXT.replace(old, new)
    if fault == "matrix not transposed":  # is declared already
        declared = re.compile(r"declare [^@]*@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3.*\n")
        text = declared.sub("", text, count=1)
    for seed in SEEDS:
        with np.errstate(all="ignore"):
            assert not np.array_equal(run(text, seed), EXPECTED), f"seed {seed}"


def test_copies_are_held_to_memory() -> None:
    text = TEXT.replace(f"mul i32 %v4, {N}", "mul i32 %v4, 17")
    assert text != TEXT
    with pytest.raises(AlignmentError, match=r"reads 16 bytes .* of b"):
        run(text, None)
    with pytest.raises(BoundsError, match=r"thread \(62, 0, 0\) reads 16 bytes .* behind the end of a"):
        run(TEXT, None, A[:-1])


@pytest.mark.parametrize(("level", "size"), [("cg", 16), ("ca", 16), ("ca", 8), ("ca", 4)])
def test_fewer_bytes_and_zeros(level: str, size: int, tmp_path: Path) -> None:
    """A copy that reads some of its bytes and fills the rest with zeros, and one of all."""
    element = f"<{size} x i8>"
    kernel = KernelText(
        "ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z",
        variables="@s = internal addrspace(3) global [512 x i8] poison, align 16\n"
        "@r = internal addrspace(3) global [512 x i8] poison, align 16",
        threads=32,
    )
    lane = kernel.sreg("tid.x")
    read = kernel.i32("and", lane, size - 1)
    source = f"ptr addrspace(1) {kernel.at(element, '%x', lane)}"
    name = f"cp.async.{level}.shared.global.{size}"
    kernel.nvvm("void", f"{name}.s", f"ptr addrspace(3) {kernel.at(element, '@s', lane, 3)}", source, f"i32 {read}")
    kernel.nvvm("void", name, f"ptr addrspace(3) {kernel.at(element, '@r', lane, 3)}", source)
    kernel.nvvm("void", "cp.async.wait.all")
    for variable, out in (("@s", "%y"), ("@r", "%z")):
        kernel.store(element, kernel.load(element, variable, lane, 3), out, lane)
    x = np.arange(1, 32 * size + 1, dtype=np.uint16).astype(np.uint8).reshape(32, size)
    bench = Bench(kernel.text)
    at_y, at_z = bench.put(x), bench.put(x)
    bench.run("k", (1,), (32,), bench.put(x), at_y, at_z)
    keep = np.arange(size)[None, :] < (np.arange(32) % size)[:, None]
    np.testing.assert_array_equal(bench.get(at_y, x), np.where(keep, x, 0))
    np.testing.assert_array_equal(bench.get(at_z, x), x)
    assembled(kernel.text, tmp_path)


def alone() -> str:
    """Each thread copies an element past registers, and reads what it has copied itself."""
    kernel = KernelText(
        "ptr addrspace(1) readonly %x, ptr addrspace(1) %y",
        variables="@s = internal addrspace(3) global [256 x i8] poison, align 16",
        threads=64,
    )
    thread = kernel.sreg("tid.x")
    source, target = kernel.at("i32", "%x", thread), kernel.at("i32", "@s", thread, 3)
    kernel.nvvm("void", "cp.async.ca.shared.global.4", f"ptr addrspace(3) {target}", f"ptr addrspace(1) {source}")
    kernel.nvvm("void", "cp.async.commit.group")
    kernel.nvvm("void", "cp.async.wait.group", "i32 0")
    kernel.do(f"%value = load i32, ptr addrspace(3) {target}")
    kernel.do(f"store i32 %value, ptr addrspace(1) {kernel.at('i32', '%y', thread)}")
    return kernel.text


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_threads_that_wait_for_nobody(seed: int | None) -> None:
    bench = Bench(alone())
    x = np.arange(64, dtype=np.int32)
    inputs, actual = bench.put(x), bench.put(np.zeros_like(x))
    bench.run("k", (3,), (64,), inputs, actual, seed=seed)
    np.testing.assert_array_equal(bench.get(actual, x), x)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_another_thread_copied_needs_a_barrier(seed: int | None) -> None:
    """Also in a kernel without any, where each thread waits for its own copies."""
    read = re.compile(r"load i32, ptr addrspace\(3\) %v(\d+)")
    text = read.sub("load i32, ptr addrspace(3) @s", alone())
    x = np.arange(64, dtype=np.int32)
    for checked, barrier in ((True, ""), (False, BARRIER)):
        bench = Bench(text.replace("  %value", f"{barrier}  %value"))
        inputs, actual = bench.put(x), bench.put(np.ones_like(x))
        if checked:
            with pytest.raises(RaceError, match=r"cp\.async.* the same memory.*nothing orders them within the block"):
                bench.run("k", (1,), (64,), inputs, actual, seed=seed, races=True)
        else:
            bench.run("k", (1,), (64,), inputs, actual, seed=seed, races=True)
            assert not bench.get(actual, x).any()


def test_a_copy_that_nobody_waits_for_does_not_arrive() -> None:
    bench = Bench(re.sub(r".*call void @llvm.nvvm.cp.async.wait.group.*\n", "", alone()))
    x = np.arange(64, dtype=np.int32)
    inputs, actual = bench.put(x), bench.put(np.zeros_like(x))
    bench.run("k", (40,), (64,), inputs, actual)  # more copies than one thread may have under way
    assert (bench.get(actual, x) != x).all()
