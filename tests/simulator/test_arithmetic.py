"""What one thread computes: NVVM's arithmetic, 16-bit floats, functions of libm, constants, local arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from jitgraph.errors import UnsupportedOp
from jitgraph_testing.simulator.faults import BoundsError, SimulationError
from tests.simulator.assembling import assembled
from tests.simulator.running import Bench
from tests.simulator.texts import KernelText

N = 64
X = np.exp(np.random.default_rng(5).uniform(-3, 3, N)).astype(np.float32)
Y = np.random.default_rng(6).uniform(-4, 4, N).astype(np.float32)
F32: dict[str, tuple[int, Callable[..., NDArray]]] = {  # operands and what they give
    "ex2.approx.f32": (1, np.exp2),
    "ex2.approx.ftz.f32": (1, np.exp2),
    "lg2.approx.f": (1, np.log2),
    "sin.approx.f": (1, np.sin),
    "cos.approx.ftz.f": (1, np.cos),
    "sqrt.rn.f": (1, np.sqrt),
    "sqrt.approx.f": (1, np.sqrt),
    "rsqrt.approx.f": (1, lambda x: 1 / np.sqrt(x)),
    "rcp.rn.f": (1, lambda x: 1 / x),
    "div.rn.f": (2, np.divide),
    "div.full": (2, np.divide),
    "add.rn.f": (2, np.add),
    "mul.rn.f": (2, np.multiply),
    "fmin.f": (2, np.fmin),
    "fmax.nan.f": (2, np.maximum),
    "fma.rn.f": (3, lambda x, y, z: (x.astype(np.float64) * y + z).astype(np.float32)),
    "fabs.f32": (1, np.abs),
}


def unsigned(x: NDArray) -> NDArray:
    return x.view(np.uint32)


INTEGERS = {
    "mulhi.i": lambda x, y: (x.astype(np.int64) * y >> 32).astype(np.int32),
    "mulhi.ui": lambda x, y: (
        (x.view(np.uint32).astype(np.uint64) * y.view(np.uint32) >> 32).astype(np.uint32).view(np.int32)
    ),
}


def of_each(kind: str, name: str, count: int) -> str:
    """Each thread applies an intrinsic to its elements of x, y and x."""
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z")
    thread = kernel.sreg("tid.x")
    x, y = kernel.load(kind, "%x", thread), kernel.load(kind, "%y", thread)
    result = kernel.nvvm(kind, name, *[f"{kind} {each}" for each in (x, y, x)[:count]])
    kernel.store(kind, result, "%z", thread)
    return kernel.text


def run(text: str, x: NDArray, y: NDArray, like: NDArray) -> NDArray:
    bench = Bench(text)
    at = bench.put(like)
    bench.run("k", (1,), (N,), bench.put(x, "x"), bench.put(y, "y"), at)
    return bench.get(at, like)


@pytest.mark.parametrize("name", F32)
def test_float32(name: str, tmp_path: Path) -> None:
    count, expected = F32[name]
    text = of_each("float", name, count)
    np.testing.assert_allclose(run(text, X, Y, X), expected(*(X, Y, X)[:count]), rtol=3e-7, atol=1e-7)
    assembled(text, tmp_path)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str, tmp_path: Path) -> None:
    x, y = np.random.default_rng(7).integers(-(2**31), 2**31, (2, N)).astype(np.int32)
    np.testing.assert_array_equal(run(of_each("i32", name, 2), x, y, x), INTEGERS[name](x, y))
    assembled(of_each("i32", name, 2), tmp_path)


def test_bytes_are_permuted(tmp_path: Path) -> None:
    text = of_each("i32", "prmt", 3)
    x, y = np.random.default_rng(8).integers(0, 2**31, (2, N)).astype(np.uint32)
    eight = np.stack([x, y], axis=1).view(np.uint8).reshape(N, 8)
    digits = x[:, None] >> (4 * np.arange(4)) & 15
    chosen = np.take_along_axis(eight, (digits & 7).astype(np.int64), axis=1)
    signs = (chosen.view(np.int8) >> 7).view(np.uint8)
    expected = np.where(digits & 8, signs, chosen).astype(np.uint8)
    np.testing.assert_array_equal(run(text, x, y, x), np.ascontiguousarray(expected).view(np.uint32)[:, 0])
    assembled(text, tmp_path)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, 1e-30], np.float32)
ROUNDED = np.concatenate([SPECIAL, np.random.default_rng(9).standard_normal(N - len(SPECIAL)).astype(np.float32)])


@pytest.mark.parametrize(("kind", "dtype"), [("bfloat", ml_dtypes.bfloat16), ("half", np.float16)])
@pytest.mark.parametrize("source", ["float", "double"])
def test_rounding_to_16_bits(kind: str, dtype: type, source: str, tmp_path: Path) -> None:
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z")
    thread = kernel.sreg("tid.x")
    kernel.store(kind, kernel.let(f"fptrunc {source} {kernel.load(source, '%x', thread)} to {kind}"), "%z", thread)
    x = ROUNDED.astype(np.float32 if source == "float" else np.float64)
    if source == "double":
        x[-8:] = 1 + 2.0 ** -np.arange(8, 16) + 2.0**-40  # rounding twice would give another number
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16) if kind == "half" else to_bfloat(x)
        result = run(kernel.text, x, x, expected.astype(dtype))
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))
    if source == "float":
        assembled(kernel.text, tmp_path)


def to_bfloat(x: NDArray) -> NDArray:
    """Rounded once to 8 bits, ties to even; ml_dtypes rounds a double twice."""
    part, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(part * 256) / 256, exponent).astype(np.float32)


def test_packed_bfloats(tmp_path: Path) -> None:
    """The first operand is the upper half."""
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z")
    thread = kernel.sreg("tid.x")
    x, y = kernel.load("float", "%x", thread), kernel.load("float", "%y", thread)
    result = kernel.nvvm("<2 x bfloat>", "ff2bf16x2.rn", f"float {x}", f"float {y}")
    kernel.store("<2 x bfloat>", result, "%z", thread)
    z = np.stack([Y, X], axis=1).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(kernel.text, X, Y, z), z)
    assembled(kernel.text, tmp_path)


def test_functions_of_libm() -> None:
    """LLVM's own, which PTX has as approximations or not at all."""
    names = "exp2", "log2", "sin", "tanh", "floor", "rint", "round", "sqrt", "fabs"
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z")
    thread = kernel.sreg("tid.x")
    x = kernel.load("float", "%x", thread)
    for i, name in enumerate(names):
        result = kernel.let(f"call float @llvm.{name}.f32(float {x})")
        kernel.store("float", result, "%z", kernel.i32("add", thread, N * i))
    text = "".join(f"declare float @llvm.{name}.f32(float)\n" for name in names) + kernel.text
    result = run(text, X, Y, np.zeros((len(names), N), np.float32))
    for row, name in zip(result, names, strict=True):
        np.testing.assert_allclose(row, getattr(np, name)(X), rtol=2e-7)


def test_constants_are_read_alone(tmp_path: Path) -> None:
    table = "@t = internal addrspace(4) constant [4 x i32] [i32 5, i32 6, i32 7, i32 8]"
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z", variables=table)
    thread = kernel.sreg("tid.x")
    kernel.store("i32", kernel.load("i32", "@t", kernel.i32("and", thread, 3), 4), "%z", thread)
    zeros = np.zeros(N, np.int32)
    np.testing.assert_array_equal(run(kernel.text, zeros, zeros, zeros), 5 + np.arange(N) % 4)
    assembled(kernel.text, tmp_path)
    with pytest.raises(BoundsError, match="not its memory"):
        run(kernel.text.replace(", 3\n", ", 31\n"), zeros, zeros, zeros)


def test_local_arrays_are_the_threads_own() -> None:
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z")
    thread = kernel.sreg("tid.x")
    kernel.do("%a = alloca [16 x i32]")
    location = kernel.i32("and", thread, 15)
    kernel.do(f"%p = getelementptr [16 x i32], ptr %a, i32 0, i32 {location}")
    kernel.do(f"store i32 {thread}, ptr %p")
    kernel.store("i32", kernel.let("load i32, ptr %p"), "%z", thread)
    zeros = np.zeros(N, np.int32)
    np.testing.assert_array_equal(run(kernel.text, zeros, zeros, zeros), np.arange(N))
    with pytest.raises(UnsupportedOp, match="bytes of local arrays"):
        run(kernel.text.replace("16 x i32", "65536 x i32"), zeros, zeros, zeros)


@pytest.mark.parametrize(("operation", "left", "right"), [("udiv", 5, 0), ("srem", 5, 0), ("sdiv", -(2**31), -1)])
def test_a_division_that_has_no_result(operation: str, left: int, right: int) -> None:
    kernel = KernelText("ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z")
    thread = kernel.sreg("tid.x")
    x, y = kernel.load("i32", "%x", thread), kernel.load("i32", "%y", thread)
    kernel.store("i32", kernel.i32(operation, x, y), "%z", thread)
    ones = np.ones(N, np.int32)
    np.testing.assert_array_equal(run(kernel.text, 6 * ones, 2 * ones, ones), 0 if operation == "srem" else 3)
    with pytest.raises(SimulationError, match=r"divides by zero, or .* \(`.*%v"):
        run(kernel.text, left * ones, right * ones, ones)


def test_bytes_are_copied_within_bounds() -> None:
    text = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.memcpy.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), i64, i1)
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z) {
  call void @llvm.memcpy.p1.p1.i64(ptr addrspace(1) align 4 %z, ptr addrspace(1) align 4 %x, i64 256, i1 false)
  ret void
}
"""
    np.testing.assert_array_equal(run(text, X, Y, X * 0), X)
    with pytest.raises(BoundsError, match=r"reads 260 bytes .* byte 0 of x"):
        run(text.replace("i64 256", "i64 260"), X, Y, np.zeros(65, np.float32))
