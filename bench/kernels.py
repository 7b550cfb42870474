"""Each kernel of a compiled function alone: its time on one thread beside what arithmetic and memory allow.

``report(traced.lower(*args))`` prints the table for any function; run as a measurement it shows a training step of the
digits classifier and some products and rows. The limits: multiply-adds at the measured peak of one core, other scalar
ops at half of it (a math function counts as 20 ops, a division as 32), and a copy of as many bytes as the kernel's
buffers hold, by NumPy and as warm in the caches. A kernel's share is the largest of them over its time.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jitgraph.codegen.cpu import entry as inlining
from jitgraph.codegen.cpu.backend import build_image
from jitgraph.codegen.kernels.kernel import Body, Contract, Kernel, Let, Loop
from jitgraph.codegen.kernels.schedule import Launch, Schedule, ScheduleBuffer
from jitgraph.dtypes import is_float
from jitgraph.ir import dims
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader

REPEATS = 16  # launches in one call, so that the call itself does not count
ROUNDS = 15
ROUND_SECONDS = 2e-3

_WEIGHTS = {"const": 0.0, "cast": 1.0, "call": 20.0, "div": 32.0, "sqrt": 40.0, "rem": 40.0}


class Cost(NamedTuple):
    """What one launch of a kernel takes: multiply-adds, other scalar ops, and bytes of its buffers."""

    multiply_adds: float
    ops: float
    bytes: float


def cost_of(kernel: Kernel, sizes: Mapping[str, int]) -> Cost:
    """The cost of a kernel where its graph's sizes are ``sizes``."""
    multiply_adds, ops = _body_cost(kernel.body, sizes, 1.0)
    total = sum(int(dims.substitute(param.size, sizes)) * param.dtype.itemsize for param in kernel.params)
    return Cost(multiply_adds, ops, float(total))


def _body_cost(body: Body, sizes: Mapping[str, int], times: float) -> tuple[float, float]:
    multiply_adds = ops = 0.0
    for statement in body:
        match statement:
            case Let(op=op):
                ops += times * _WEIGHTS.get(op, 1.0)
            case Loop(extent=extent):
                inner = _body_cost(statement.body, sizes, times * _extent(extent, sizes))
                multiply_adds, ops = multiply_adds + inner[0], ops + inner[1]
            case Contract(extents=extents):
                m, n, k = (_extent(extent, sizes) for extent in extents)
                multiply_adds += times * m * n * k
                ops += _body_cost(statement.epilogue, sizes, times * m * n)[1]
    return multiply_adds, ops


def _extent(extent: dims.DimLike, sizes: Mapping[str, int]) -> float:
    known = dims.substitute(extent, sizes)
    return float(known) if isinstance(known, int) else 1.0  # an extent that a kernel finds out itself


def time_kernel(kernel: Kernel, sizes: Mapping[str, int], target: Target | None = None) -> float:
    """The least CPU seconds of one launch: floats are between 0.5 and 1.5, everything else is zero."""
    arrays: list[np.ndarray[Any, Any]] = []
    for param in kernel.params:
        size = int(dims.substitute(param.size, sizes))
        filled = np.random.default_rng(len(arrays)).random(size) + 0.5
        arrays.append(filled.astype(param.dtype) if is_float(param.dtype) else np.zeros(size, param.dtype))
    buffers = tuple(
        ScheduleBuffer(f"b{position}", TensorType(param.dtype, (param.size,)), "input", position)
        for position, param in enumerate(kernel.params)
    )
    launch = Launch(kernel, tuple(buffer.name for buffer in buffers))
    schedule = Schedule("alone", buffers, (launch,) * REPEATS, tuple(sizes))
    image = loader.Image(build_image(schedule, target or Target.host()))
    loader.process_runtime.attach(image)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(image.export("entry"))
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
    values = (ctypes.c_int64 * max(1, len(sizes)))(*sizes.values())
    needed = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(image.export("arena_bytes"))(values)
    arena = np.empty(needed + loader.ALIGNMENT, np.uint8)
    call = loader.Call(arena=-(-arena.ctypes.data // loader.ALIGNMENT) * loader.ALIGNMENT, arena_bytes=needed)
    arguments = (ctypes.byref(loader.process_runtime.host), ctypes.byref(call), pointers, values)
    return _least(lambda: entry(*arguments)) / REPEATS


@cache
def _copy_seconds(size: int) -> float:
    source, target = np.ones(max(1, size // 2), np.uint8), np.empty(max(1, size // 2), np.uint8)
    return _least(lambda: np.copyto(target, source))


def _least(run: Any) -> float:
    run()
    started = time.thread_time()
    run()
    calls = max(1, int(ROUND_SECONDS / max(1e-7, time.thread_time() - started)))
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(calls):
            run()
        best = min(best, (time.thread_time() - started) / calls)
    return best


def report_kernels(launches: Sequence[Launch], sizes: Mapping[str, int] | None = None) -> None:
    """Print one line a kernel, the slowest in sum first."""
    from bench.peak import fma_flops

    peak, sizes = fma_flops(), sizes or {}
    counts: dict[Kernel, int] = {}
    for launch in launches:
        kernel = replace(launch.kernel, name="")
        counts[kernel] = counts.get(kernel, 0) + 1
    names = {replace(launch.kernel, name=""): launch.kernel.name for launch in launches}
    rows = []
    for kernel, count in counts.items():
        cost, seconds = cost_of(kernel, sizes), time_kernel(kernel, sizes)
        limits = {
            "fma": 2 * cost.multiply_adds / peak,
            "ops": cost.ops / (peak / 2),
            "bytes": _copy_seconds(int(cost.bytes)),
        }
        rows.append((count * seconds, count, seconds, cost, limits, names[kernel]))
    print(f"fma peak of one core {peak / 1e9:.0f} GFLOP/s")
    print(f"{'us':>9} {'times':>5} {'kflop':>8} {'GFLOP/s':>8} {'kops':>8} {'kB':>8} {'limit us':>9} share  kernel")
    for _, count, seconds, cost, limits, name in sorted(rows, key=lambda row: -row[0]):
        which = max(limits, key=lambda key: limits[key])
        print(
            f"{1e6 * seconds:9.2f} {count:5} {2e-3 * cost.multiply_adds:8.0f}"
            f" {2e-9 * cost.multiply_adds / seconds:8.1f} {1e-3 * cost.ops:8.1f} {1e-3 * cost.bytes:8.1f}"
            f" {1e6 * limits[which]:9.2f} {100 * limits[which] / seconds:4.0f} %  {name} ({which})"
        )
    print(f"{1e6 * sum(row[0] for row in rows):9.2f} us in all")


def report(lowered: Any) -> None:
    """The table of a lowered function whose sizes are all known."""
    report_kernels(inlining.launches(lowered.stages.schedule.steps))


def measure() -> None:
    import jitgraph as jg
    from bench.digits_step import BATCH, jitgraph_step

    generator = np.random.default_rng(0)
    x = jg.asarray(generator.random((BATCH, 64), dtype=np.float32))
    y = jg.asarray(generator.integers(0, 10, BATCH))
    print("a training step of the digits classifier")
    report(jg.trace(jitgraph_step()).lower(x, y))
    print("products")
    shapes = [(64, 128, 64), (256, 256, 256), (1024, 1024, 1024), (512, 10, 128), (1, 1024, 1024), (8, 1024, 1024)]
    launches = []
    for transposed in (False, True):
        for m, n, k in shapes:
            a, b = jg.zeros((m, k)), jg.zeros((n, k) if transposed else (k, n))
            product = jg.trace(lambda a, b, t=transposed: a @ (b.T if t else b))
            (launch,) = inlining.launches(product.lower(a, b).stages.schedule.steps)
            name = f"{m} x {n} x {k}{' transposed' if transposed else ''}"
            launches.append(replace(launch, kernel=replace(launch.kernel, name=name)))
    report_kernels(launches)
    print("rows and chains")
    launches = []
    for m, n in ((64, 128), (1024, 1024), (4096, 4096)):
        a, w = jg.zeros((m, n)), jg.zeros((n,))
        for name, function in {
            "softmax": lambda a, w: jg.softmax(a, axis=-1),
            "layer_norm": lambda a, w: jg.nn.functional.layer_norm(a, (a.shape[-1],), w, w),
            "row sum": lambda a, w: a.sum(axis=1),
            "column sum": lambda a, w: a.sum(axis=0),
            "chain": lambda a, w: (a * w + a) * 0.5 + w,
            "gelu": lambda a, w: jg.nn.functional.gelu(a),
        }.items():
            for launch in inlining.launches(jg.trace(function).lower(a, w).stages.schedule.steps):
                launches.append(replace(launch, kernel=replace(launch.kernel, name=f"{name} {m} x {n}")))
    report_kernels(launches)


def main() -> None:
    code = "from bench.kernels import measure; measure()"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "JITGRAPH_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
