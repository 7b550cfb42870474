"""Kernels and schedules in native code: bit for bit what the slow executors say, and no byte beside the buffers."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.cpu.backend import emit_module
from jitgraph.codegen.kernels.kernel import Kernel, map_dims
from jitgraph.codegen.llvm import machine
from jitgraph.dtypes import BY_SHORT_NAME, DType
from jitgraph.errors import CompileError
from jitgraph.ir import dims
from jitgraph.ir.target import Target
from jitgraph.runtime.loader.abi import libc
from jitgraph_testing.kernels.executor import CheckFailedError, execute_kernel
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.bits import same_bits
from tests.codegen.cpu import llvm_samples
from tests.codegen.llvm.test_scalar_ops import TARGETS, edge_values
from tests.codegen.native_kernels import Array, Native, NativeCheckError, run_native, schedule_of
from tests.processes import in_child

EACH_TARGET = pytest.mark.parametrize("target", TARGETS)


def on_targets(*shorts: str) -> pytest.MarkDecorator:
    """All these dtypes on the host's level, and on the level below those that differ there in kind."""
    pairs = [(short, TARGETS[-1]) for short in shorts]
    pairs += [(short, target) for target in TARGETS[:-1] for short in shorts if short in ("i8", "f16", "f32")]
    return pytest.mark.parametrize(("short", "target"), pairs)


def sample(text: str, **words: str) -> Kernel:
    """The kernel of a sample, with the words in capitals replaced."""
    for name, word in words.items():
        text = text.replace(f": {name}", f": {word}").replace(f"{name}(_", f"{word}(_").replace(f" {name}", f" {word}")
    return parse_kernel(text)


def filled(dtype: DType, size: int, rng: np.random.Generator) -> Array:
    """Random edge values."""
    return rng.choice(edge_values(dtype), size)


def memory_of(kernel: Kernel, sizes: dict[str, int], rng: np.random.Generator) -> dict[str, Array]:
    results = {}
    for param in kernel.params:
        size = dims.evaluate(param.size, sizes)
        if param.dtype == dtypes.int64 and param.name == "i":
            results[param.name] = rng.permutation(size).astype(np.int64)
        else:
            results[param.name] = filled(param.dtype, size, rng)
    if "m" in results and results["m"].size == 1:
        results["m"][:] = False
    return results


def compare(kernel: Kernel, got: dict[str, Array], expected: dict[str, Array], what: object) -> None:
    for param in kernel.params:
        wrong = np.flatnonzero(~same_bits(got[param.name], expected[param.name]))
        assert wrong.size == 0, (
            f"{what} {param.name}: {got[param.name][wrong[:4]]} at {wrong[:4]}, not {expected[param.name][wrong[:4]]}"
        )


def lengths(dtype: DType, target: str) -> Iterator[int]:
    """Every length to two vectors and one more, but for the many lanes of narrow dtypes only those near vectors."""
    lanes = Target.named(target).lanes(dtype.itemsize)
    return iter([n for n in range(2 * lanes + 2) if n < 18 or n % lanes in (0, 1, lanes - 1)])


def check_everywhere(kernel: Kernel, target: str, cases: Iterable[int | dict[str, int]], what: object) -> None:
    """``kernel`` natively and in the executor for each n, or for each set of sizes."""
    native = Native(schedule_of(kernel), Target.named(target))
    rng = np.random.default_rng(3)
    for case in cases:
        sizes = {"n": case} if isinstance(case, int) else case
        expected = memory_of(kernel, sizes, rng)
        actual = {name: array.copy() for name, array in expected.items()}
        execute_kernel(kernel, expected, sizes)
        native([actual[param.name].ctypes.data for param in kernel.params], sizes)
        compare(kernel, actual, expected, (what, sizes))


@on_targets("bool", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
def test_access(short: str, target: str) -> None:
    dtype = BY_SHORT_NAME[short]
    for name, text in llvm_samples.ACCESS.items():
        check_everywhere(sample(text, T=short), target, lengths(dtype, target), (name, short))


@pytest.mark.parametrize("n", [0, 1, 3, 17, 32])
def test_static_extents(n: int) -> None:
    for name, text in llvm_samples.ACCESS.items():
        if n == 0 and name == "divided":
            continue  # an index is divided by n
        named = sample(text, T="f32")
        known = {"n": n}
        kernel = replace(
            named,
            params=tuple(replace(p, size=dims.substitute(p.size, known)) for p in named.params),
            body=tuple(map_dims(s, lambda dim: dims.substitute(dim, known)) for s in named.body),  # noqa: B023
            sizes=(),
        )
        expected = memory_of(kernel, {}, np.random.default_rng(n))
        actual = {key: array.copy() for key, array in expected.items()}
        execute_kernel(kernel, expected, {})
        run_native(kernel, actual, {})
        compare(kernel, actual, expected, (name, n))


@on_targets("i8", "i16", "u32", "i64", "f16", "bf16", "f32", "f64")
def test_reductions_by_slots(short: str, target: str) -> None:
    for lanes, op, text in (
        (1, "add", llvm_samples.SUM),
        (2, "max", llvm_samples.ROWS),
        (8, "mul", llvm_samples.SUM),
        (64, "add", llvm_samples.SUM),
        (64, "add", llvm_samples.ROWS),
    ):
        start = "1" if short[0] in "iu" else "1.0"
        kernel = sample(text.replace("lanes L ", f"lanes {lanes} " if lanes > 1 else ""), T=short, C=start, W=op)
        check_everywhere(kernel, target, [0, 1, 3, 7, 8, 63, 64, 65, 130], (short, lanes, op))


@EACH_TARGET
def test_tuple_accumulators(target: str) -> None:
    check_everywhere(parse_kernel(llvm_samples.ARGMAX), target, list(range(20)), "argmax")


@EACH_TARGET
def test_long_bodies(target: str) -> None:
    check_everywhere(parse_kernel(llvm_samples.LONG), target, [0, 1, 15, 16, 17, 63, 64, 65, 200], "long")


@on_targets("f16", "bf16", "f32", "f64", "i32", "u8", "i64")
def test_contractions(short: str, target: str) -> None:
    acc = "f32" if short in ("f16", "bf16") else short
    kernel = sample(llvm_samples.MATMUL, T=short, A=acc)
    shapes = [(1, 1, 3), (3, 16, 4), (4, 0, 5), (5, 2, 0), (9, 33, 13), (0, 3, 2), (7, 21, 8)]
    check_everywhere(kernel, target, [{"m": m, "n": n, "k": k} for m, n, k in shapes], short)


def test_a_failed_check_reports_the_first_lane_and_touches_nothing() -> None:
    kernel = sample(llvm_samples.ACCESS["indirect"], T="f32")
    x, index, y = np.arange(40, dtype=np.float32), np.arange(40), np.zeros(40, np.float32)
    index[[21, 19, 38]] = 40, -7, 2**62
    expected = y.copy()
    with pytest.raises(CheckFailedError):
        execute_kernel(kernel, {"x": x, "i": index, "y": expected}, {"n": 40})
    with pytest.raises(NativeCheckError) as failed:
        run_native(kernel, {"x": x, "i": index, "y": y}, {"n": 40})
    assert (failed.value.check, failed.value.value, failed.value.bound) == (3, -7, 40)
    assert np.array_equal(y[:16], x[:16])
    assert not y[16:].any()


# --- memory beside the buffers ---


class Guarded:
    """A copy of an array in pages of its own whose neighbours fault when touched, at one end of them."""

    def __init__(self, array: Array, at_end: bool) -> None:
        page = mmap.PAGESIZE
        pages = -(-array.nbytes // page)
        self.map = mmap.mmap(-1, (pages + 2) * page)
        base = np.frombuffer(self.map, np.uint8).ctypes.data
        protect = libc.mprotect
        assert protect(base, page, 0) == 0
        assert protect(base + (pages + 1) * page, page, 0) == 0
        start = page + (pages * page - array.nbytes if at_end else 0)
        self.array = np.frombuffer(self.map, array.dtype, array.size, start)
        self.array[...] = array
        self.address = base + start


def touch_only_the_buffers(target: str, short: str) -> None:
    """Run all access samples between guard pages; a fault ends the process."""
    rng = np.random.default_rng(5)
    for text in llvm_samples.ACCESS.values():
        kernel = sample(text, T=short)
        native = Native(schedule_of(kernel), Target.named(target))
        for n in (0, 1, 7, 17, 31, 65):
            sizes = {"n": n}
            arrays = memory_of(kernel, sizes, rng)
            for at_end in (True, False):
                guarded = [Guarded(arrays[param.name], at_end) for param in kernel.params]
                native([part.address for part in guarded], sizes)


@EACH_TARGET
def test_nothing_beside_the_buffers_is_touched(target: str) -> None:
    """In a process of its own, since a stray access ends it."""
    code = (
        f"import faulthandler; faulthandler.enable(); from {__name__} import touch_only_the_buffers;"
        f"[touch_only_the_buffers({target!r}, t) for t in ('i8', 'f32')]; print('sound')"
    )
    assert in_child(code, timeout=300) == "sound\n"


# --- threads ---

BIG = """
kernel @big(read x: f32[m*n], read i: i64[m], write y: f32[m*n], write z: f32[m*n]) sizes(m, n) {
  parallel _i0 < m {
    vector _i1 < n {
      _v0: f32 = load x[_i0*n + _i1]
      _v1: f32 = sqrt(_v0)
      _v2: f32 = div(_v0, _v1)
      store y[_i0*n + _i1] = _v2
    }
  }
  vector _i2 < m*n {
    _v3: f32 = load x[_i2]
    _v4: f32 = add(_v3, _v3)
    store z[_i2] = _v4
  }
  parallel _i3 < m {
    _v5: i64 = load i[_i3]
    _v6: i64 = const 0
    _v7: bool = cmp ge(_v5, _v6)
    check 1 _v7 value _v5
    _v8: f32 = load z[_i3*n + _v5]
    store z[_i3*n] = _v8
  }
}
"""


@pytest.mark.parametrize(("m", "n"), [(1, 300_000), (300_000, 1), (700, 900), (0, 50), (3, 0)])
def test_ranges_on_threads(m: int, n: int) -> None:
    kernel = parse_kernel(BIG)
    rng = np.random.default_rng(0)
    x = rng.random(m * n, dtype=np.float32)
    memory = {"x": x, "i": np.zeros(m if n else 0, np.int64), "y": np.zeros_like(x), "z": np.zeros_like(x)}
    if n == 0:
        kernel = replace(kernel, body=kernel.body[:2])
        memory["i"] = np.zeros(m, np.int64)
    actual = {name: array.copy() for name, array in memory.items()}
    execute_kernel(kernel, memory, {"m": m, "n": n})
    run_native(kernel, actual, {"m": m, "n": n})
    compare(kernel, actual, memory, (m, n))


def test_the_first_failure_is_reported_whatever_thread_finds_it() -> None:
    kernel = parse_kernel(BIG)
    m, n = 200_000, 2
    native = Native(schedule_of(kernel))
    x = np.ones(m * n, np.float32)
    index = np.zeros(m, np.int64)
    index[70_000::777] = -np.arange(index[70_000::777].size) - 1
    y, z = x.copy(), x.copy()
    for _ in range(5):
        with pytest.raises(NativeCheckError) as failed:
            native([array.ctypes.data for array in (x, index, y, z)], {"m": m, "n": n})
        assert (failed.value.check, failed.value.value) == (1, -1)


# --- code ---


@EACH_TARGET
def test_no_library_call_and_nothing_writable(target: str) -> None:
    """The linker refuses both; every access of every dtype passes it, and so do its assembly's calls."""
    for short in BY_SHORT_NAME:
        kernels = [replace(sample(text, T=short), name=name) for name, text in llvm_samples.ACCESS.items()]
        text = machine.asm(emit_module(schedule_of(*kernels[:3]), Target.named(target)).text(), Target.named(target))
        called = {line.split()[1] for line in text.splitlines() if line.strip().startswith("call") and "*" not in line}
        assert called and all(name.startswith(("k_", "jg_", "mem")) for name in called), (short, called)


def test_equal_kernels_are_emitted_once() -> None:
    kernel = parse_kernel(llvm_samples.ARGMAX)
    ir = emit_module(schedule_of(kernel, replace(kernel, name="twin")), Target.host()).text()
    assert ir.count("define internal i32 @k_") == 1
    assert ir.count("call i32 @k_k(") == 2


def test_a_level_without_fma_is_refused() -> None:
    with pytest.raises(CompileError, match="x86-64-v2"):
        emit_module(schedule_of(parse_kernel(llvm_samples.ARGMAX)), Target.named("x86-64-v2"))
