"""Kernels whose threads do not wait for each other: values, bounds, alignment, freed memory."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph.errors import UnsupportedOp
from jitgraph.simulator.faults import AlignmentError, BoundsError, SimulationError
from jitgraph.simulator.module import SimulatedModule
from tests.simulator.running import SEEDS, Bench, f32, i32

AXPY = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
define ptx_kernel void @axpy(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y, float %a, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %o = mul i32 %b, %d
  %i = add i32 %o, %t
  %c = icmp slt i32 %i, %n
  br i1 %c, label %go, label %end
go:
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %q = getelementptr float, ptr addrspace(1) %y, i32 %i
  %v = load float, ptr addrspace(1) %p
  %w = load float, ptr addrspace(1) %q
  %m = fmul float %v, %a
  %s = fadd float %m, %w
  store float %s, ptr addrspace(1) %q
  br label %end
end:
  ret void
}
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("checks", [True, False])
def test_axpy(seed: int | None, checks: bool) -> None:
    bench = Bench(AXPY, checks=checks)
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    at_x, at_y = bench.put(x), bench.put(y)
    bench.run("axpy", (8,), (128,), at_x, at_y, f32(2), i32(1000), seed=seed)
    np.testing.assert_array_equal(bench.get(at_y, y), 2 * x + 1)


def test_a_thread_too_many_names_buffer_and_thread() -> None:
    bench = Bench(AXPY)
    x = np.zeros(1000, np.float32)
    given = bench.put(x, "x"), bench.put(x, "y"), f32(2), i32(1001)
    with pytest.raises(BoundsError, match=r"axpy, block \(7, 0, 0\), thread \(104, 0, 0\) reads 4 bytes .*end of x"):
        bench.run("axpy", (8,), (128,), *given)


def test_freed_memory_is_named() -> None:
    bench = Bench(AXPY)
    x = np.zeros(64, np.float32)
    given = bench.put(x, "x"), bench.put(x, "y"), f32(2), i32(64)
    bench.module.memory.free(int.from_bytes(given[0], "little"))
    with pytest.raises(BoundsError, match="byte 0 of freed x"):
        bench.run("axpy", (1,), (64,), *given)


def test_a_vector_must_be_aligned() -> None:
    text = AXPY.replace("%v = load float, ptr addrspace(1) %p", "%v = load float, ptr addrspace(1) %p, align 16")
    bench = Bench(text)
    x = np.zeros(64, np.float32)
    with pytest.raises(AlignmentError, match=r"thread \(1, 0, 0\) reads 4 bytes"):
        bench.run("axpy", (1,), (64,), bench.put(x), bench.put(x), f32(2), i32(64))


def test_what_is_not_simulated_is_refused_by_name() -> None:
    name = "llvm.nvvm.nothing.known"
    text = f"declare i32 @{name}()\ndefine ptx_kernel void @k() {{\n  %x = call i32 @{name}()\n  ret void\n}}\n"
    with pytest.raises(UnsupportedOp, match=r"llvm\.nvvm\.nothing\.known"):
        _ = SimulatedModule(text).kernels


def test_arguments_are_held_to_the_parameters() -> None:
    bench = Bench(AXPY)
    with pytest.raises(SimulationError, match="takes 4 arguments, 1 are given"):
        bench.run("axpy", (1,), (1,), i32(1))
    with pytest.raises(SimulationError, match=r"argument 0 of axpy is ptr addrspace\(1\) of 8 bytes, 4 are given"):
        bench.run("axpy", (1,), (1,), i32(1), i32(1), i32(1), i32(1))
