"""LLVM IR as numba writes it, run on elements: blocks, branches, loops and instructions. numba itself is not needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.transforms.llvm_programs import LlvmRunner
from jitgraph.transforms.numba_functions import parsed

X = np.asarray([0.0, -0.5, 0.75, 2.0, -3.25, 17.0])


def run(text: str, *arguments: Any, results: Any = ((None, 0),), floating: Any = dtypes.float64) -> Any:
    """What the blocks of a function give for each element, by the ops of a trace."""

    def origin() -> None: ...

    kinds = ", ".join(
        f"{'i64' if np.asarray(x).dtype.kind == 'i' else 'double'} %{name}"
        for name, x in zip("abc", arguments, strict=False)
    )
    head = f"define i32 @f(ptr noalias %retptr, ptr noalias readnone captures(none) %excinfo, {kinds}) #0 {{\n"
    runner = LlvmRunner(parsed(origin, head + text + "\n}\n", results), floating)

    def function(*numbers: Any) -> Any:
        values = runner.run(numbers)
        return values if len(values) > 1 else values[0]

    return jg.trace(jg.vectorize(function))(*map(jg.asarray, arguments))


COLLATZ = """entry:
  br label %loop
loop:                                             ; preds = %next, %entry
  %n = phi i64 [ %a, %entry ], [ %m, %next ]
  %count = phi i64 [ 0, %entry ], [ %more, %next ]
  %done = icmp slt i64 %n, 2
  br i1 %done, label %end, label %step
step:                                             ; preds = %loop
  %bit = and i64 %n, 1
  %odd = icmp eq i64 %bit, 1
  br i1 %odd, label %up, label %down
up:                                               ; preds = %step
  %three = mul nsw i64 %n, 3
  %u = add nsw i64 %three, 1
  br label %next
down:                                             ; preds = %step
  %d = ashr exact i64 %n, 1
  br label %next
next:                                             ; preds = %down, %up
  %m = phi i64 [ %u, %up ], [ %d, %down ]
  %more = add nuw i64 %count, 1
  %much = icmp ugt i64 %more, 60
  br i1 %much, label %end, label %loop
end:                                              ; preds = %next, %loop
  %r = phi i64 [ -1, %next ], [ %count, %loop ]
  store i64 %r, ptr %retptr, align 8
  ret i32 0"""


def collatz(n: int) -> int:
    count = 0
    while n >= 2:
        n = 3 * n + 1 if n % 2 else n // 2
        count += 1
        if count > 60:
            return -1
    return count


def test_loops_that_are_left_in_several_places() -> None:
    n = np.arange(-2, 30)
    got = run(COLLATZ, n, results=((dtypes.int64, 0),))
    assert got.tolist() == [collatz(int(k)) for k in n]
    assert -1 in got.tolist()


def test_loops_over_known_integers_leave_no_loop() -> None:
    text = """entry:
  br label %loop
loop:
  %r = phi double [ %next, %loop ], [ 1.000000e+00, %entry ]
  %i = phi i64 [ %j, %loop ], [ 0, %entry ]
  %next = fmul double %r, %a
  %j = add nuw nsw i64 %i, 1
  %again = icmp samesign ult i64 %j, 5
  br i1 %again, label %loop, label %end
end:
  store double %next, ptr %retptr, align 8
  ret i32 0"""
    np.testing.assert_allclose(run(text, X), X**5, rtol=1e-14)
    definition = f"define i32 @f(ptr %retptr, ptr %excinfo, double %a) {{\n{text}\n}}\n"
    program = parsed(collatz, definition, ((None, 0),))  # type: ignore[arg-type]
    graph = jg.trace(lambda x: LlvmRunner(program, dtypes.float32).run((x,))[0]).lower(jg.asarray(1.0)).graph
    assert "while" not in str(graph) and str(graph).count(" mul(") == 5


def test_switches_and_branches_that_meet_late() -> None:
    text = """entry:
  switch i64 %b, label %other [
    i64 0, label %zero
    i64 1, label %one
    i64 7, label %zero
  ]
zero:
  %z = fneg double %a
  br label %end
one:
  %positive = fcmp ogt double %a, 0.000000e+00
  br i1 %positive, label %end, label %negative
negative:
  %s = fmul double %a, %a
  br label %end
other:
  br label %end
end:
  %r = phi double [ %z, %zero ], [ %s, %negative ], [ %a, %one ], [ 1.000000e+02, %other ]
  store double %r, ptr %retptr, align 8
  ret i32 0"""
    a, b = np.asarray([2.0, 2.0, -3.0, 2.0, 2.0]), np.asarray([0, 1, 1, 7, 5])
    np.testing.assert_array_equal(run(text, a, b), [-2.0, 2.0, 9.0, -2.0, 100.0])


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("sdiv i64 %a, %b", lambda a, b: int(a / b)),
        ("srem i64 %a, %b", math.fmod),
        ("udiv i64 %a, %b", lambda a, b: ((a % 2**64) // (b % 2**64) + 2**63) % 2**64 - 2**63),
        ("lshr i64 %a, 60", lambda a, b: (a % 2**64) >> 60),
        ("ashr i64 %a, 1", lambda a, b: a >> 1),
        ("shl i64 %a, 2", lambda a, b: a << 2),
        ("xor i64 %a, -1", lambda a, b: ~a),
        ("tail call i64 @llvm.abs.i64(i64 %a, i1 false)", lambda a, b: abs(a)),
        ("call i64 @llvm.umin.i64(i64 %a, i64 %b)", lambda a, b: min(a, b, key=lambda n: n % 2**64)),
        ("select i1 true, i64 %a, i64 %b", lambda a, b: a),
    ],
)
def test_integers(instruction: str, expected: Any) -> None:
    a, b = np.asarray([-7, 7, -7, 6, 0]), np.asarray([2, -2, -2, 3, 5])
    text = f"entry:\n  %r = {instruction}\n  store i64 %r, ptr %retptr, align 8\n  ret i32 0"
    got = run(text, a, b, results=((dtypes.int64, 0),))
    assert got.tolist() == [int(expected(int(x), int(y))) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("oeq", lambda a, b: a == b),
        ("one", lambda a, b: (a < b) | (a > b)),
        ("une", lambda a, b: a != b),
        ("ueq", lambda a, b: (a == b) | np.isnan(a) | np.isnan(b)),
        ("ult", lambda a, b: ~(a >= b)),
        ("oge", lambda a, b: a >= b),
        ("uno", lambda a, b: np.isnan(a) | np.isnan(b)),
        ("ord", lambda a, b: ~(np.isnan(a) | np.isnan(b))),
    ],
)
def test_comparisons_of_floats(predicate: str, expected: Any) -> None:
    a, b = (x.ravel() for x in np.meshgrid([0.0, -0.0, 1.0, np.inf, np.nan], [0.0, 2.0, np.inf, np.nan]))
    text = f"entry:\n  %t = fcmp {predicate} double %a, %b\n  %r = zext i1 %t to i8\n"
    text += "  store i8 %r, ptr %retptr, align 1\n  ret i32 0"
    np.testing.assert_array_equal(run(text, a, b, results=((dtypes.bool_, 0),)), expected(a, b))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("tail call double @tanh(double %a)", np.tanh),
        ("tail call double @llvm.sin.f64(double noundef %a)", np.sin),
        ("call double @llvm.copysign.f64(double 2.0, double %a)", lambda x: np.copysign(2.0, x)),
        ("call double @llvm.round.f64(double %a)", lambda x: np.trunc(x + np.copysign(0.5, x))),
        ("call double @llvm.pow.f64(double %a, double 2.000000e+00)", lambda x: x**2),
        ("call double @llvm.powi.f64.i32(double %a, i32 3)", lambda x: x**3),
        ("frem double %a, 2.000000e+00", lambda x: np.fmod(x, 2)),
        ("fmul double %a, 0x3FE988453365DE00", lambda x: x * 0.7978845599999993),
    ],
)
@pytest.mark.parametrize("floating", [dtypes.float32, dtypes.float64])
def test_floats_have_the_dtype_of_the_op(call: str, expected: Any, floating: Any) -> None:
    text = f"entry:\n  %r = {call}\n  store double %r, ptr %retptr, align 8\n  ret i32 0"
    got = run(text, X.astype(floating), floating=floating)
    assert got.dtype == floating
    np.testing.assert_allclose(got, expected(X), rtol=1e-6 if floating == dtypes.float32 else 1e-12, atol=1e-7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entry:\n  ret i32 1", "may raise"),
        ("entry:\n  store ptr @x, ptr %excinfo, align 8\n  ret i32 0", "may raise"),
        ("entry:\n  %p = alloca double, align 8\n  ret i32 0", "'alloca'"),
        ("entry:\n  %r = load double, ptr %a, align 8\n  ret i32 0", "'load'"),
        ("entry:\n  %r = call double @unknown(double %a)\n  ret i32 0", "calls unknown"),
        ("entry:\n  store double %a, ptr %p, align 8\n  ret i32 0", "uses memory"),
    ],
)
def test_what_is_no_arithmetic_is_refused_and_names_the_line(text: str, message: str) -> None:
    with pytest.raises(jg.errors.UnsupportedOp, match=message) as failure:
        run(text, X)
    assert "test_llvm_programs.py:" in str(failure.value)


def test_results_that_are_stored_together() -> None:
    text = """entry:
  %t = insertvalue { double, i64 } { double 5.000000e-01, i64 undef }, i64 %b, 1
  store { double, i64 } %t, ptr %retptr, align 8
  ret i32 0"""
    half, number = run(text, X, np.arange(6), results=((None, 0), (dtypes.int64, 8)))
    assert half.tolist() == [0.5] * 6 and number.tolist() == [*range(6)]
    text = """entry:
  %t = insertvalue [2 x double] poison, double %a, 0
  %u = insertvalue [2 x double] %t, double 1.000000e+00, 1
  store [2 x double] %u, ptr %retptr, align 8
  ret i32 0"""
    first, second = run(text, X, results=((None, 0), (None, 8)))
    np.testing.assert_array_equal(first, X)
    assert second.tolist() == [1.0] * 6
    text = "entry:\n  store { double, i64 } { double 2.500000e-01, i64 -3 }, ptr %retptr, align 8\n  ret i32 0"
    quarter, number = run(text, X, results=((None, 0), (dtypes.int64, 8)))
    assert float(quarter.min()) == float(quarter.max()) == 0.25 and int(number.min()) == -3
