"""Products of tiles against NumPy, with the fragments as the tables of the PTX ISA give them, element by element."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from jitgraph.errors import UnsupportedOp
from tests.simulator.assembling import assembled
from tests.simulator.running import SEEDS, Bench
from tests.simulator.texts import KernelText

Place = Callable[[int, int, int], tuple[int, int]]
"""Group (lane // 4), place in it (lane % 4) and number of the element: its row and column."""

# PTX ISA 9.0, tables "Matrix Fragments for mma..."
A16: Place = lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, 2 * t + (i & 1) + (8 if i >= 4 else 0))
B16: Place = lambda g, t, i: (2 * t + (i & 1) + (8 if i >= 2 else 0), g)
A16K8: Place = lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1))
B16K8: Place = lambda g, t, i: (2 * t + i, g)
C16: Place = lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1))
A8K32: Place = lambda g, t, i: (
    g if i < 4 or 8 <= i < 12 else g + 8,
    4 * t + (i & 3) + (16 if i >= 8 else 0),
)
B8K32: Place = lambda g, t, i: (4 * t + (i & 3) + (16 if i >= 4 else 0), g)
A8K16: Place = lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3))
B8K16: Place = lambda g, t, i: (4 * t + i, g)
A32K8: Place = lambda g, t, i: ((g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4))[i]
B32K8: Place = lambda g, t, i: (t + 4 * i, g)
A32K4: Place = lambda g, t, i: (g + 8 * i, t)
A64: Place = lambda g, t, i: (g, t)
C64: Place = lambda g, t, i: (g, 2 * t + i)
A64K16: Place = lambda g, t, i: (g + 8 * (i % 2), 4 * (i // 2) + t)

F32, F64, I32 = ("float", np.float32, 1), ("double", np.float64, 1), ("i32", np.int32, 1)
BF16, F16 = ("i32", ml_dtypes.bfloat16, 2), ("<2 x half>", np.float16, 2)
S8, U8, TF32 = ("i32", np.int8, 4), ("i32", np.uint8, 4), ("i32", np.float32, 1)
E4M3 = ("i32", ml_dtypes.float8_e4m3fn, 4)

SHAPES = {  # name: m, n, k, the type of a register of A, of B, of C and D, with their places
    "m16n8k16.row.col.bf16": (16, 8, 16, BF16, A16, BF16, B16, F32, C16),
    "m16n8k16.row.col.f32.f32": (16, 8, 16, F16, A16, F16, B16, F32, C16),
    "m16n8k16.row.col.f16.f16": (16, 8, 16, F16, A16, F16, B16, F16, C16),
    "m16n8k8.row.col.bf16": (16, 8, 8, BF16, A16K8, BF16, B16K8, F32, C16),
    "m16n8k8.row.col.f32.f32": (16, 8, 8, F16, A16K8, F16, B16K8, F32, C16),
    "m16n8k8.row.col.tf32": (16, 8, 8, TF32, A32K8, TF32, B32K8, F32, C16),
    "m16n8k4.row.col.tf32": (16, 8, 4, TF32, A32K4, TF32, B32K8, F32, C16),
    "m16n8k32.row.col.s8": (16, 8, 32, S8, A8K32, S8, B8K32, I32, C16),
    "m16n8k32.row.col.u8": (16, 8, 32, U8, A8K32, U8, B8K32, I32, C16),
    "m16n8k32.row.col.s8.u8": (16, 8, 32, S8, A8K32, U8, B8K32, I32, C16),
    "m16n8k16.row.col.satfinite.s8": (16, 8, 16, S8, A8K16, S8, B8K16, I32, C16),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (16, 8, 32, E4M3, A8K32, E4M3, B8K32, F32, C16),
    "m8n8k4.row.col.f64": (8, 8, 4, F64, A64, F64, B32K8, F64, C64),
    "m16n8k4.row.col.f64": (16, 8, 4, F64, A32K4, F64, B32K8, F64, C16),
    "m16n8k8.row.col.f64": (16, 8, 8, F64, A64K16, F64, B32K8, F64, C16),
    "m16n8k16.row.col.f64": (16, 8, 16, F64, A64K16, F64, B32K8, F64, C16),
}


def product_text(name: str) -> str:
    """A warp loads its registers, multiplies once, and stores what it gets."""
    m, n, k, left, _, right, _, total, _ = SHAPES[name]
    counts = m * k // 32 // left[2], k * n // 32 // right[2], m * n // 32 // total[2]
    kernel = KernelText(
        "ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, ptr addrspace(1) %d", threads=32
    )
    lane = kernel.sreg("tid.x")
    arguments = []
    for pointer, (kind, _, _), count in zip(("%a", "%b", "%c"), (left, right, total), counts, strict=True):
        first = kernel.i32("mul", lane, count)
        arguments += [f"{kind} {kernel.load(kind, pointer, kernel.i32('add', first, i))}" for i in range(count)]
    result = "{ " + ", ".join([total[0]] * counts[2]) + " }"
    full = kernel.nvvm(result, f"mma.{name}", *arguments)
    first = kernel.i32("mul", lane, counts[2])
    for i in range(counts[2]):
        kernel.store(total[0], kernel.let(f"extractvalue {result} {full}, {i}"), "%d", kernel.i32("add", first, i))
    return kernel.text


def fragments(matrix: NDArray, position: Place) -> NDArray:
    """The elements that each lane has, one lane after another."""
    per_lane = matrix.size // 32
    return np.array(
        [matrix[position(lane // 4, lane % 4, i)] for lane in range(32) for i in range(per_lane)], matrix.dtype
    )


def matrix_of(elements: NDArray, position: Place, shape: tuple[int, int]) -> NDArray:
    out = np.empty(shape, elements.dtype)
    per_lane = out.size // 32
    for number, element in enumerate(elements):
        lane, i = divmod(number, per_lane)
        out[position(lane // 4, lane % 4, i)] = element
    return out


@pytest.mark.parametrize("name", SHAPES)
def test_products(name: str) -> None:
    m, n, k, (_, a_type, _), a_place, (_, b_type, _), b_place, (_, c_type, _), c_place = SHAPES[name]
    draw = np.random.default_rng(len(name))
    low = 0 if a_type is np.uint8 else -8
    a, b = (
        draw.integers(low, 8, (m, k)).astype(a_type),
        draw.integers(-8 if b_type is not np.uint8 else 0, 8, (k, n)).astype(b_type),
    )
    c = draw.integers(-100, 100, (m, n)).astype(c_type)
    bench = Bench(product_text(name))
    inputs = [bench.put(fragments(each, p)) for each, p in ((a, a_place), (b, b_place), (c, c_place))]
    out = np.zeros(m * n, c_type)
    at = bench.put(out)
    bench.run("k", (1,), (32,), *inputs, at, seed=1)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    np.testing.assert_array_equal(matrix_of(bench.get(at, out), c_place, (m, n)), exact.astype(c_type))


@pytest.mark.parametrize("name", SHAPES)
def test_products_assemble(name: str, tmp_path: Path) -> None:
    assembled(product_text(name), tmp_path)


def test_saturation() -> None:
    a, b = np.full((16, 16), 127, np.int8), np.full((16, 8), 127, np.int8)
    c, out = np.full((16, 8), 2**31 - 5, np.int32), np.zeros(128, np.int32)
    bench = Bench(product_text("m16n8k16.row.col.satfinite.s8"))
    at = bench.put(out)
    bench.run("k", (1,), (32,), bench.put(a), bench.put(b), bench.put(c), at)
    assert (bench.get(at, out) == 2**31 - 1).all()


def test_tf32_reads_ten_bits() -> None:
    """What stands below them is not part of the number, for hardware as here."""
    m, n, k, _, a_place, _, b_place, _, c_place = SHAPES["m16n8k8.row.col.tf32"]
    a, b, out = np.full((m, k), 1 + 2.0**-12, np.float32), np.eye(k, n, dtype=np.float32), np.zeros(m * n, np.float32)
    bench = Bench(product_text("m16n8k8.row.col.tf32"))
    at = bench.put(out)
    bench.run("k", (1,), (32,), bench.put(fragments(a, a_place)), bench.put(fragments(b, b_place)), bench.put(out), at)
    assert (matrix_of(bench.get(at, out), c_place, (m, n)) == 1).all()


def test_products_that_are_not_simulated() -> None:
    name = "llvm.nvvm.mma.m8n8k4.row.col.f32.f32"
    halves = ", ".join(["<2 x half>"] * 4 + ["float"] * 8)
    result = "{ " + ", ".join(["float"] * 8) + " }"
    values = ", ".join(["<2 x half> zeroinitializer"] * 4 + ["float 0.0"] * 8)
    body = f"  %r = call {result} @{name}({values})\n  ret void\n"
    text = f"declare {result} @{name}({halves})\ndefine ptx_kernel void @k() {{\n{body}}}\n"
    with pytest.raises(UnsupportedOp, match="m8n8k4"):
        _ = Bench(text).module.kernels


def moved(count: int, transposed: bool) -> str:
    """A warp stores rows to shared memory, loads them as matrices, stores those to other rows, and writes both out."""
    kernel = KernelText(
        "ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z",
        variables="@s = internal addrspace(3) global [512 x i8] poison, align 16\n"
        "@r = internal addrspace(3) global [512 x i8] poison, align 16",
        threads=32,
    )
    lane, tail = kernel.sreg("tid.x"), ".trans" if transposed else ""
    row = kernel.load("<4 x i32>", "%x", lane)
    kernel.store("<4 x i32>", row, "@s", lane, 3)
    kernel.nvvm("void", "bar.warp.sync", ALL_LANES)
    source, target = (kernel.at("<4 x i32>", name, lane, 3) for name in ("@s", "@r"))
    result = "i32" if count == 1 else "{ " + ", ".join(["i32"] * count) + " }"
    shape = f"matrix.sync.aligned.m8n8.x{count}{tail}.b16.p3"
    actual = kernel.nvvm(result, f"ld{shape}", f"ptr addrspace(3) {source}")
    parts = [actual] if count == 1 else [kernel.let(f"extractvalue {result} {actual}, {i}") for i in range(count)]
    for i, part in enumerate(parts):
        kernel.store("i32", part, "%y", kernel.i32("add", lane, 32 * i))
    kernel.nvvm("void", f"st{shape}", f"ptr addrspace(3) {target}", *[f"i32 {part}" for part in parts])
    kernel.nvvm("void", "bar.warp.sync", ALL_LANES)
    few = kernel.let(f"icmp ult i32 {lane}, {8 * count}")
    kernel.do(f"br i1 {few}, label %put, label %end")
    kernel.label("put")
    kernel.store("<4 x i32>", kernel.load("<4 x i32>", "@r", lane, 3), "%z", lane)
    kernel.do("br label %end")
    kernel.label("end")
    return kernel.text


ALL_LANES = "i32 -1"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_move(count: int, transposed: bool, seed: int | None, tmp_path: Path) -> None:
    x = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    bench = Bench(moved(count, transposed))
    y, z = np.zeros((count, 32, 2), np.uint16), np.zeros((count, 8, 8), np.uint16)
    at_y, at_z = bench.put(y), bench.put(z)
    bench.run("k", (1,), (32,), bench.put(x), at_y, at_z, seed=seed)
    rows = x[:count].transpose(0, 2, 1) if transposed else x[:count]
    np.testing.assert_array_equal(bench.get(at_y, y), rows.reshape(count, 32, 2))  # lane 4 r + c: elements 2c, 2c + 1
    np.testing.assert_array_equal(bench.get(at_z, z), x[:count])
    if seed is None:
        assembled(moved(count, transposed), tmp_path)
