"""Kernels whose threads do not wait for each other: values, bounds, alignment, freed memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jitgraph.errors import UnsupportedOp
from jitgraph_testing.simulator.device_memory import DeviceMemory
from jitgraph_testing.simulator.faults import AlignmentError, BoundsError, DamageError, SimulationError
from jitgraph_testing.simulator.module import SimulatedModule
from tests.simulator.assembling import assembled
from tests.simulator.running import SEEDS, Bench, f32, i32
from tests.simulator.texts import KernelText

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
    inputs = bench.put(x, "x"), bench.put(x, "y"), f32(2), i32(1001)
    with pytest.raises(BoundsError, match=r"axpy, block \(7, 0, 0\), thread \(104, 0, 0\) reads 4 bytes .*end of x"):
        bench.run("axpy", (8,), (128,), *inputs)


def test_freed_memory_is_named() -> None:
    bench = Bench(AXPY)
    x = np.zeros(64, np.float32)
    inputs = bench.put(x, "x"), bench.put(x, "y"), f32(2), i32(64)
    bench.module.memory.free(int.from_bytes(inputs[0], "little"))
    with pytest.raises(BoundsError, match="byte 0 of freed x"):
        bench.run("axpy", (1,), (64,), *inputs)


def test_bytes_around_a_buffer_are_watched() -> None:
    """Where accesses are not looked at, what a thread too many wrote is still found."""
    bench = Bench(AXPY, checks=False)
    x = np.zeros(1000, np.float32)
    inputs = bench.put(np.ones(1001, np.float32)), bench.put(x, "y"), f32(2), i32(1001)
    with pytest.raises(DamageError, match="bytes behind y of 4000 bytes were overwritten by axpy, at byte 400"):
        bench.run("axpy", (8,), (128,), *inputs)


def test_new_and_freed_memory_is_poisoned() -> None:
    memory = DeviceMemory()
    address = memory.allocate(64)
    view = memory.bytes_at(address, 64)
    assert np.isnan(view.view(np.float64)).all()
    view[:] = 0
    memory.free(address)
    assert np.isnan(view.view(np.float64)).all()
    with pytest.raises(SimulationError, match=r"no buffer of device memory begins at .* byte 0 of freed buffer 1"):
        memory.free(address)
    with pytest.raises(SimulationError, match="are not device memory: it is byte 0 of freed buffer 1"):
        memory.bytes_at(address, 64)


def test_a_module_of_several_kernels(tmp_path: Path) -> None:
    """With a function that both call; launches find kernels by name."""
    shared = "define internal float @twice(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n"
    kernels = "".join(
        f"define ptx_kernel void @{name}(ptr addrspace(1) %x) {{\n  %v = load float, ptr addrspace(1) %x\n"
        f"  %w = call float @twice(float %v)\n{more}  store float %w{end}, ptr addrspace(1) %x\n  ret void\n}}\n"
        for name, more, end in (("two", "", ""), ("four", "  %w2 = call float @twice(float %w)\n", "2"))
    )
    bench, x = Bench(shared + kernels), np.array([3], np.float32)
    at = bench.put(x)
    assert bench.module.kernels == ("two", "four")
    bench.run("two", (1,), (1,), at)
    bench.run("four", (1,), (1,), at)
    assert bench.get(at, x)[0] == 24
    with pytest.raises(SimulationError, match="no kernel 'six'; it has two, four"):
        bench.run("six", (1,), (1,), at)
    assembled(shared + kernels, tmp_path)
    assembled(AXPY, tmp_path)


def test_grids_of_three_extents() -> None:
    kernel = KernelText("ptr addrspace(1) %x")
    location, more = "0", 1
    for name in ("tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z"):
        location = kernel.i32("add", location, kernel.i32("mul", kernel.sreg(name), more))
        more *= 2 if name.startswith("tid") else 3
    result = kernel.let(f"atomicrmw add ptr addrspace(1) {kernel.at('i32', '%x', location)}, i32 1 monotonic")
    assert result
    bench, x = Bench(kernel.text), np.zeros(8 * 27, np.int32)
    at = bench.put(x)
    bench.run("k", (3, 3, 3), (2, 2, 2), at, seed=3)
    assert (bench.get(at, x) == 1).all()
    for grid, block in (((0,), (1,)), ((1, 70000), (1,)), ((1,), (1, 1, 65)), ((1,), (33, 32)), ((1,), ())):
        with pytest.raises(SimulationError, match=r"is not 1 to 3 numbers|more threads"):
            bench.run("k", grid, block, at)


def test_a_vector_must_be_aligned() -> None:
    text = AXPY.replace("%v = load float, ptr addrspace(1) %p", "%v = load float, ptr addrspace(1) %p, align 16")
    bench = Bench(text)
    x = np.zeros(64, np.float32)
    with pytest.raises(AlignmentError, match=r"thread \(1, 0, 0\) reads 4 bytes"):
        bench.run("axpy", (1,), (64,), bench.put(x), bench.put(x), f32(2), i32(64))


def test_what_is_not_simulated_is_refused_by_name() -> None:
    name = "llvm.nvvm.nothing.known"
    text = f"declare i32 @{name}()\ndefine ptx_kernel void @k() {{\n  %x = call i32 @{name}()\n  ret void\n}}\n"
    with pytest.raises(UnsupportedOp, match=r"LLVM knows no intrinsic llvm\.nvvm\.nothing\.known"):
        _ = SimulatedModule(text).kernels


@pytest.mark.parametrize(
    ("before", "line", "named"),
    [
        ("", 'call void asm sideeffect "bar.sync 0;", ""()', "inline assembly"),
        ("@v = addrspace(1) global i32 0", "store i32 1, ptr addrspace(1) @v", "@v"),
        ("declare void @other()", "call void @other()", "function other"),
        (
            "declare i16 @llvm.nvvm.ff.to.e4m3x2.rn(float, float)",
            "%x = call i16 @llvm.nvvm.ff.to.e4m3x2.rn(float 1.0, float 1.0)",
            "does not know the intrinsic llvm.nvvm.ff.to.e4m3x2.rn",
        ),
        ("%t = type { i32 }", "%x = load %t, ptr null", "size of the type '%t'"),
        (
            "@s = internal addrspace(3) global [50000 x i8] poison",
            "store i8 1, ptr addrspace(3) @s",
            "50000 bytes of static shared memory",
        ),
    ],
)
def test_more_that_is_refused_by_name(before: str, line: str, named: str) -> None:
    text = f"{before}\ndefine ptx_kernel void @k() {{\n  {line}\n  ret void\n}}\n"
    with pytest.raises(UnsupportedOp, match=named):
        _ = SimulatedModule(text).kernels


def test_arguments_are_held_to_the_parameters() -> None:
    bench = Bench(AXPY)
    with pytest.raises(SimulationError, match="takes 4 arguments, 1 are given"):
        bench.run("axpy", (1,), (1,), i32(1))
    with pytest.raises(SimulationError, match=r"argument 0 of axpy is ptr addrspace\(1\) of 8 bytes, 4 are given"):
        bench.run("axpy", (1,), (1,), i32(1), i32(1), i32(1), i32(1))
