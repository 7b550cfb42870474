"""The text and the slow executor of kernels and schedules, on hand-written kernels of each construct."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel_text import print_kernel, print_schedule
from jitgraph.codegen.kernels.schedule import (
    Branch,
    CheckSite,
    Launch,
    MemoryPlan,
    Pop,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
)
from jitgraph.errors import ArgumentError, GraphError
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim
from jitgraph.ir.types import Constant, TensorType
from jitgraph.ops.ordered_product import fma32, fma64
from jitgraph.ops.scalar_numpy import NumpyScalars
from jitgraph_testing.kernels.executor import CheckFailedError, execute_kernel
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.kernels import kernel_samples

BOTH = pytest.mark.parametrize("vectorise", [True, False])


def run(text: str, vectorise: bool = True, **buffers: Any) -> None:
    sizes = {name: value for name, value in buffers.items() if isinstance(value, int)}
    execute_kernel(parse_kernel(text), {n: v for n, v in buffers.items() if n not in sizes}, sizes, vectorise=vectorise)


@pytest.mark.parametrize("text", kernel_samples.ALL.values(), ids=kernel_samples.ALL)
def test_text_round_trips(text: str) -> None:
    kernel = parse_kernel(text)
    assert print_kernel(kernel) == text.strip()
    assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("kernel @k() {\n  _v0: f32 = frob frob frob\n}", "line 2"),
        ("kernel @k() {\n  _v0: f33 = const 1.0\n}", "not a dtype"),
        ("kernel @k() {\n  _v1: f32 = neg(_v0)\n}", "_v0 is not defined"),
        ("kernel @k() {\n", "ends too early"),
        ("kernel @k() {\n}\n}", "after the kernel's end"),
        ("", "kernel"),
    ],
)
def test_parser_says_what_it_does_not_understand(bad: str, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        parse_kernel(bad)


@BOTH
def test_elementwise_and_empty(vectorise: bool) -> None:
    x = np.array([1.0, -0.0, np.nan], np.float32)
    y = np.empty(3, np.float32)
    run(kernel_samples.SCALE, vectorise, x=x, y=y, n=3)
    np.testing.assert_array_equal(y, x * np.float32(1.5))
    run(kernel_samples.SCALE, vectorise, x=x[:0], y=y[:0], n=0)


@BOTH
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 11])
def test_reduce_adds_in_the_order_of_its_slots(n: int, vectorise: bool) -> None:
    x = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32) * np.float32(1e4)
    y = np.empty(3, np.float32)
    run(kernel_samples.ROW_SUM, vectorise, x=x.reshape(-1), y=y, m=3, n=n)
    slots = np.zeros((3, 4), np.float32)
    for k in range(n):
        slots[:, k % 4] += x[:, k]
    expected = (slots[:, 0] + slots[:, 2]) + (slots[:, 1] + slots[:, 3])
    assert y.tobytes() == expected.tobytes()


@BOTH
def test_tuple_accumulator(vectorise: bool) -> None:
    x = np.array([1.0, 5.0, 2.0, 5.0, 5.0, 0.0, 5.0, 1.0, 2.0])
    y = np.empty(1, np.int64)
    run(kernel_samples.ARGMAX, vectorise, x=x, y=y)
    assert y[0] == 1


@BOTH
def test_carried_values_wrap(vectorise: bool) -> None:
    x = np.array([2**31 - 1, 1, 5, 6, 7, 8], np.int32)
    y = np.empty(6, np.int32)
    run(kernel_samples.SCAN, vectorise, x=x, y=y, n=2)
    np.testing.assert_array_equal(y, [2**31 - 1, -(2**31), 5, 11, 7, 15])


@BOTH
def test_gather_checks_before_it_reads(vectorise: bool) -> None:
    x, y = np.arange(5, dtype=np.float32), np.full(3, 9, np.float32)
    run(kernel_samples.GATHER, vectorise, x=x, i=np.array([4, 0, 4]), y=y, n=3)
    np.testing.assert_array_equal(y, [4, 0, 4])
    with pytest.raises(CheckFailedError) as failed:
        run(kernel_samples.GATHER, vectorise, x=x, i=np.array([4, 7, 8]), y=y, n=3)
    assert (failed.value.check, failed.value.value, failed.value.bound) == (0, 7, 5)


@BOTH
@pytest.mark.parametrize("shape", [(3, 10, 5), (1, 1, 1), (2, 4, 2), (2, 0, 2), (0, 3, 2)])
def test_contract_sums_in_blocks(shape: tuple[int, int, int], vectorise: bool) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (n,)))
    y = np.empty(m * n, np.float32)
    run(kernel_samples.MATMUL, vectorise, a=a.ravel(), b=b.ravel(), c=c, y=y, m=m, k=k, n=n)
    expected = np.empty((m, n), np.float32)
    for i in range(m):
        for j in range(n):
            blocks = []
            for start in range(0, k, 4):
                p = np.float32(0)
                for q in range(start, min(start + 4, k)):
                    p = np.float32(_round32(Fraction(float(a[i, q])) * Fraction(float(b[q, j])) + Fraction(float(p))))
                blocks.append(p)
            total = blocks[0] if blocks else np.float32(0)
            for block in blocks[1:]:
                total = total + block
            expected[i, j] = total + c[j]
    assert y.tobytes() == expected.tobytes()


def _round32(exact: Fraction) -> float:
    """Round once to float32, by comparing with the neighbours of a first guess."""
    guess = np.float32(float(exact))
    near = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]
    return float(min(near, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1)))


@BOTH
def test_locals_belong_to_an_iteration(vectorise: bool) -> None:
    x, y = np.arange(12, dtype=np.float32), np.empty(12, np.float32)
    run(kernel_samples.REVERSE_TILE, vectorise, x=x, y=y, n=3)
    np.testing.assert_array_equal(y, x.reshape(3, 4)[:, ::-1].ravel())


@BOTH
def test_masked_load_reads_nothing_and_gives_zero(vectorise: bool) -> None:
    x, y = np.arange(1, 5, dtype=np.float32), np.empty(4, np.float32)
    run(kernel_samples.SHIFT, vectorise, x=x, y=y, n=4)
    np.testing.assert_array_equal(y, [0, 1, 2, 3])


@BOTH
def test_accesses_out_of_bounds_are_found(vectorise: bool) -> None:
    x, y = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    with pytest.raises(GraphError, match="index 4 is outside of x") as failed:
        run(kernel_samples.SCALE.replace("load x[_i0]", "load x[_i0 + 1]"), vectorise, x=x, y=y, n=4)
    assert "_v0: f32 = load x[_i0 + 1]" in str(failed.value)
    with pytest.raises(GraphError, match="index -1 is outside of x"):
        run(kernel_samples.SHIFT.replace(" if _v2", ""), vectorise, x=x, y=y, n=4)


@pytest.mark.parametrize("vectorise", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 16, 37])
def test_a_block_exchanges_elements_in_its_local_memory(rows: int, vectorise: bool) -> None:
    """Kernels as a target with shared memory has them: a transposition by tiles, and column sums in two levels."""
    x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)
    y = np.full(40 * rows, np.nan, np.float32)
    run(kernel_samples.TILED_TRANSPOSE, vectorise, x=x.ravel(), y=y, rows=rows)
    np.testing.assert_array_equal(y.reshape(40, rows), x.T)
    total = np.full(24, np.nan, np.float32)
    run(kernel_samples.TWO_LEVEL_COLUMNS, vectorise, x=x[:, :24].ravel(), y=total, rows=rows)
    parts = [np.float32(-0.0) + sum((row for row in x[start::4, :24]), np.float32(-0.0)) for start in range(4)]
    np.testing.assert_array_equal(total, np.broadcast_to(parts[0] + parts[1] + parts[2] + parts[3], 24))


def test_races_wrong_stores_and_shared_memory_are_found() -> None:
    x, y = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    with pytest.raises(GraphError, match="two iterations"):
        run(kernel_samples.SCALE.replace("store y[_i0]", "store y[_i0 // 2]"), x=x, y=y, n=4)
    with pytest.raises(GraphError, match="only read"):
        run(kernel_samples.SCALE.replace("write y", "read y"), x=x, y=y, n=4)
    with pytest.raises(GraphError, match="share memory"):
        run(kernel_samples.SCALE, x=x, y=x, n=4)
    with pytest.raises(GraphError, match="should be 5 elements"):
        run(kernel_samples.SCALE, x=x, y=y, n=5)


def test_paired_params_may_share_memory() -> None:
    x = np.array([0.0, -np.inf], np.float32)
    run(kernel_samples.IN_PLACE, x=x, z=x, n=2)
    np.testing.assert_array_equal(x, [1.0, np.inf])


def test_scalar_ops_are_total() -> None:
    with np.errstate(all="ignore"):
        s: Any = NumpyScalars(dtypes.int8)
        x = np.array([-128, -128, 7, -7, 7], np.int8)
        y = np.array([-1, 0, -2, 2, 0], np.int8)
        np.testing.assert_array_equal(s.div(x, y), np.array([-128, 0, -4, -4, 0]))
        np.testing.assert_array_equal(s.rem(x, y), np.array([0, 0, -1, 1, 0]))
        counts = np.array([-1, 0, 7, 8, 100], np.int8)
        np.testing.assert_array_equal(s.shl(np.full(5, -3, np.int8), counts), np.array([0, -3, -128, 0, 0]))
        np.testing.assert_array_equal(s.shr(np.full(5, -3, np.int8), counts), np.array([-1, -3, -1, -1, -1]))
        floats = np.array([np.nan, np.inf, -np.inf, 3e9, -1.9, 300.7], np.float32)
        np.testing.assert_array_equal(s.cast(floats, dtypes.int8), np.array([0, 127, -128, 127, -1, 127]))
        np.testing.assert_array_equal(s.cast(floats, dtypes.uint32), np.array([0, 2**32 - 1, 0, 3 * 10**9, 0, 300]))
        np.testing.assert_array_equal(
            s.cast(floats, dtypes.int64), np.array([0, 2**63 - 1, -(2**63), 3 * 10**9, -1, 300])
        )
        zeros = np.array([-0.0, 0.0, np.nan, 1.0])
        other = np.array([0.0, -0.0, 1.0, np.nan])
        assert list(np.signbit(s.min(zeros, other)[:2])) == [True, False]
        assert np.isnan(s.max(zeros, other)[2:]).all()


def test_halves_round_after_every_scalar_op() -> None:
    s: Any = NumpyScalars(dtypes.float16)
    x = np.array([2048.0], np.float16)
    one = s.const(1.0)
    assert s.sub(s.add(x, one), x)[0] == 0.0
    b: Any = NumpyScalars(dtypes.bfloat16)
    assert float(b.add(b.const(256.0), b.const(1.0))) == 256.0


def test_fma32_is_exact() -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, (3, 4000), dtype=np.uint64).astype(np.uint32)
    bits[2, :2000] = (bits[2, :2000] & 0x007FFFFF) | ((bits[0, :2000] >> 23 & 0xFF) << 23)
    bits[1, :2000] = (bits[1, :2000] & 0x007FFFFF) | 0x3F800000  # half of them: x * y about as large as z
    x, y, z = (row.view(np.float32) for row in bits)
    with np.errstate(all="ignore"):
        got = fma32(x, y, z)
    tried = 0
    for a, b, c, r in zip(*(v.tolist() for v in (x, y, z)), got, strict=True):
        if all(map(math.isfinite, (a, b, c))) and np.isfinite(r):
            assert float(r) == _round32(Fraction(a) * Fraction(b) + Fraction(c))
            tried += 1
    assert tried > 2000


def test_fma64_is_exact() -> None:
    rng = np.random.default_rng(2)
    count = 3000
    exponents = rng.integers(-40, 40, (3, count)).astype(np.float64)
    exponents[:, : count // 4] *= 25  # towards overflow and underflow
    x, y, z = rng.uniform(-2, 2, (3, count)) * 2.0**exponents
    near = (np.abs(exponents[0] + exponents[1]) < 1000) & (np.arange(count) % 3 == 0)
    z[near] = -(x[near] * y[near]) * (1 + rng.integers(-3, 3, int(near.sum())) * 2.0**-52)
    with np.errstate(all="ignore"):
        got = fma64(x, y, z)
    assert np.isfinite([x, y, z]).all(axis=0).sum() > 2000
    for a, b, c, r in zip(x.tolist(), y.tolist(), z.tolist(), got.tolist(), strict=True):
        if all(map(math.isfinite, (a, b, c))):
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            try:
                assert r == exact.numerator / exact.denominator
            except OverflowError:
                assert math.isinf(r)


def test_fma_of_special_values() -> None:
    with np.errstate(all="ignore"):
        for fma, dtype in ((fma32, np.float32), (fma64, np.float64)):
            inf, zero = dtype(np.inf), dtype(0.0)
            assert np.isnan(fma(inf, zero, dtype(1)))
            assert np.isnan(fma(inf, dtype(1), -inf))
            assert fma(dtype(2), dtype(3), inf) == np.inf
            assert np.signbit(fma(-zero, dtype(1), -zero))
            assert not np.signbit(fma(dtype(1), dtype(1), dtype(-1)))


# schedules

F = TensorType(dtypes.float32, (Dim.name("n"),))
FLAG = TensorType(dtypes.bool_, ())
COUNT = TensorType(dtypes.int64, ())


def schedule(steps: tuple[Step, ...], **changes: Any) -> Schedule:
    fields: dict[str, Any] = {
        "name": "sample",
        "buffers": (
            ScheduleBuffer("x", F, "input"),
            ScheduleBuffer("t", F, "temporary"),
            ScheduleBuffer("u", F, "temporary"),
            ScheduleBuffer("y", F, "output"),
        ),
        "steps": steps,
        "sizes": ("n",),
    }
    return Schedule(**(fields | changes))


SCALE = parse_kernel(kernel_samples.SCALE)
THREE = (Launch(SCALE, ("x", "t")), Launch(SCALE, ("t", "u")), Launch(SCALE, ("u", "y")))
X = np.arange(3, dtype=np.float32)


def test_schedule_with_and_without_a_plan() -> None:
    expected = X * np.float32(3.375)
    (y,) = execute_schedule(schedule(THREE), [X])
    np.testing.assert_array_equal(y, expected)
    plan = MemoryPlan({"t": 0, "u": 64}, 128, 24, {"y": "x"})
    for donate in (False, True):
        (y,) = execute_schedule(schedule(THREE, plan=plan), [X], donate=donate)
        np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(X, [0, 1, 2])


def test_wrong_live_range_shows() -> None:
    overlap = MemoryPlan({"t": 0, "u": 0}, 64, 24)
    with pytest.raises(GraphError, match="share memory"):
        execute_schedule(schedule(THREE, plan=overlap), [X])
    late = (*THREE[:2], Launch(SCALE, ("x", "v")), Launch(SCALE, ("u", "y")))
    buffers = (*schedule(THREE).buffers, ScheduleBuffer("v", F, "temporary"))
    wrong = schedule(late, buffers=buffers, plan=MemoryPlan({"t": 64, "u": 0, "v": 0}, 128, 36))
    assert not np.array_equal(execute_schedule(wrong, [X])[0], X * np.float32(3.375))
    stale = schedule(
        (*THREE, Launch(SCALE, ("v", "y"))), buffers=buffers, plan=MemoryPlan({"t": 64, "u": 0, "v": 0}, 128, 36)
    )
    (y,) = execute_schedule(stale, [X])  # v is read but never written: it sees poison, not what u left
    assert not np.array_equal(y, X * np.float32(3.375))
    with pytest.raises(GraphError, match="no place of 64-byte"):
        execute_schedule(schedule(THREE, plan=MemoryPlan({"t": 0, "u": 32}, 128, 24)), [X])


STEP_DOWN = parse_kernel(
    """
kernel @step_down(read c: i64[1], write d: i64[1]) {
  _v0: i64 = load c[0]
  _v1: i64 = const 1
  _v2: i64 = sub(_v0, _v1)
  store d[0] = _v2
}
"""
)
POSITIVE = parse_kernel(
    """
kernel @positive(read c: i64[1], write p: bool[1]) {
  _v0: i64 = load c[0]
  _v1: i64 = const 0
  _v2: bool = cmp gt(_v0, _v1)
  store p[0] = _v2
}
"""
)


def control(steps: tuple[Step, ...], outputs: tuple[str, ...]) -> Schedule:
    names = [("c", COUNT), ("d", COUNT), ("p", FLAG)]
    buffers = (
        ScheduleBuffer("given", COUNT, "input"),
        *(ScheduleBuffer(name, type, "temporary") for name, type in names if name not in outputs),
        *(ScheduleBuffer(name, type, "output", i) for i, (name, type) in enumerate(names) if name in outputs),
        ScheduleBuffer("seven", COUNT, "constant", value=Constant(np.array(7))),
    )
    return Schedule("control", buffers, steps, stacks=("s",))


def test_while_push_and_pop() -> None:
    loop = While(
        (Launch(POSITIVE, ("c", "p")),),
        "p",
        (Push("s", "c"), Launch(STEP_DOWN, ("c", "d")), Push("s", "d"), Pop("s", "c")),
    )
    first = Launch(STEP_DOWN, ("given", "c"))
    c, p = execute_schedule(control((first, loop, Pop("s", "c")), ("c", "p")), [np.array(4)])
    assert c == 1 and not p
    (p,) = execute_schedule(control((first, loop), ("p",)), [np.array(-3)])
    assert not p
    with pytest.raises(GraphError, match="empty"):
        execute_schedule(control((Pop("s", "c"),), ("c",)), [np.array(4)])


def test_branch() -> None:
    steps = (
        Launch(POSITIVE, ("given", "p")),
        Branch("p", (Launch(STEP_DOWN, ("given", "c")),), (Launch(STEP_DOWN, ("seven", "c")),)),
    )
    assert execute_schedule(control(steps, ("c",)), [np.array(4)])[0] == 3
    assert execute_schedule(control(steps, ("c",)), [np.array(-4)])[0] == 6


def test_schedule_checks_and_arguments() -> None:
    gather = parse_kernel(kernel_samples.GATHER)
    five = TensorType(dtypes.float32, (5,))
    indices = TensorType(dtypes.int64, (Dim.name("n"),))
    lookup = Schedule(
        "lookup",
        (
            ScheduleBuffer("x", five, "input"),
            ScheduleBuffer("i", indices, "input", 1),
            ScheduleBuffer("y", F, "output"),
        ),
        (Launch(gather, ("x", "i", "y")),),
        ("n",),
        (SizeConstraint(Dim.name("n"), ">=", 2),),
        (CheckSite("IndexError", "index {index} is out of range for {bound}"),),
    )
    x = np.arange(5, dtype=np.float32)
    with pytest.raises(IndexError, match="index 9 is out of range for 5"):
        execute_schedule(lookup, [x, np.array([0, 9])])
    with pytest.raises(ArgumentError, match="n >= 2"):
        execute_schedule(lookup, [x, np.array([0])])
    with pytest.raises(ArgumentError, match="should be f32"):
        execute_schedule(lookup, [x.astype(np.float64), np.array([0, 1])])
    with pytest.raises(ArgumentError, match="takes 2 inputs"):
        execute_schedule(lookup, [x])


def test_schedule_text() -> None:
    plan = MemoryPlan({"t": 0, "u": 64}, 128, 24, {"y": "x"})
    text = print_schedule(schedule(THREE, plan=plan, checks=(CheckSite("ValueError", "no"),)))
    assert text.startswith(
        """schedule @sample(n) {
  input x: f32[n]
  temporary t: f32[n] at 0
  temporary u: f32[n] at 64
  output y: f32[n]
  check 0: ValueError 'no'
  arena 128 bytes, 24 without the plan
  donate x for y
  launch @scale(x, t)
  launch @scale(t, u)
  launch @scale(u, y)
}

kernel @scale(read x: f32[n]"""
    )
    assert text.count("kernel @scale") == 1
