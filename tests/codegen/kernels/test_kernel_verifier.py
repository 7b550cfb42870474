"""The verifiers of kernels and schedules: every rule has a kernel that breaks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jitgraph import dtypes
from jitgraph.codegen.kernels.bounds import is_inside
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.codegen.kernels.schedule import Branch, CheckSite, Launch, Pop, Schedule, ScheduleBuffer, Step
from jitgraph.codegen.kernels.schedule_verifier import verify_schedule
from jitgraph.errors import GraphError
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim, parse_dim
from jitgraph.ir.types import TensorType
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.codegen.kernels import kernel_samples


@pytest.mark.parametrize("text", kernel_samples.ALL.values(), ids=kernel_samples.ALL)
def test_sound_kernels_pass(text: str) -> None:
    verify_kernel(parse_kernel(text))


S = kernel_samples
BROKEN = [
    (
        S.TWO_LEVEL_COLUMNS,
        "  parallel _i0 < 2 {\n    local partial: f32[64]\n",
        "  local partial: f32[64]\n  parallel _i0 < 2 {\n",
        "partial stands outside of the parallel loops",
    ),
    (
        S.TILED_TRANSPOSE,
        "store tile[(_i2 % 16) + 17*(_i2 // 16)] = _v7",
        "store tile[(_i2 % 16) + 17*(_i2 // 16)] = _v7\n_v20: f32 = load tile[_i2]",
        "may be what another lane stores in the same loop",
    ),
    # what is changed in which kernel, and what the error says
    (S.SCALE, "_v1: f32 = const 1.5", "_v1: f32 = const 1.5\n_v0: f32 = const 1.5", "_v0 is defined twice"),
    (S.SCALE, "sizes(n)", "sizes(m)", "n in n is no size"),
    (S.SCALE, "store y[_i0] = _v2", "store y[_i0] = _v1\n    }\n    parallel _i0 < n {", "_i0 is defined twice"),
    (S.SCALE, "_v1: f32 = const 1.5", "_v1: f32 = const true", "True is no float32"),
    (S.SCALE, "mul(_v0, _v1)", "mul(_v0)", "mul takes 2 arguments"),
    (S.SCALE, "mul(_v0, _v1)", "frob(_v0, _v1)", "no scalar op"),
    (S.SCALE, "mul(_v0, _v1)", "and_(_v0, _v1)", "integers and bools"),
    (S.SCALE, "mul(_v0, _v1)", "shl(_v0, _v1)", "integers"),
    (S.SCALE, "mul(_v0, _v1)", "call frob(_v0, _v1)", "no math function frob"),
    (S.SCALE, "mul(_v0, _v1)", "call exp(_v0, _v1)", "exp takes 1"),
    (S.SCALE, "_v2: f32 = mul", "_v2: f64 = mul", "one dtype"),
    (S.SCALE, "_v2: f32 = mul(_v0, _v1)", "_v2: f64 = bitcast(_v0)", "keeps the width"),
    (S.SCALE, "_v2: f32 = mul(_v0, _v1)", "_v2: f32 = select(_v0, _v1, _v1)", "select takes a bool"),
    (S.SCALE, "_v2: f32 = mul(_v0, _v1)", "_v2: bool = cmp xx(_v0, _v1)", "no relation xx"),
    (S.SCALE, "_v0: f32 = load", "_v0: f64 = load", "x holds float32"),
    (S.SCALE, "store y[_i0] = _v2", "store x[_i0] = _v2", "x is only read"),
    (S.SCALE, "load x", "load y", "y is only written"),
    (S.SCALE, "load x", "load z", "no buffer z"),
    (S.SCALE, "load x[_i0]", "load x[_i0] if _v9", "not defined"),
    (S.SCALE, "load x[_i0]", "load x[_i0 + 1]", "outside of"),
    (S.SCALE, "load x[_i0]", "load x[-_i0]", "outside of"),
    (S.SCALE, "parallel _i0 < n {", "parallel _i0 < n + 1 {", "outside of"),
    (S.SCALE, "parallel", "vector _i7 < 2 {\n parallel", "only outermost"),
    (S.SCALE, "store y[_i0] = _v2", "vector _i1 < 2 {\n vector _i2 < 2 {\n }\n }", "inside of lanes"),
    (S.ROW_SUM, "lanes 4", "lanes 3", "power of two"),
    (S.ROW_SUM, "parallel", "vector", "no lanes of its own"),
    (S.ROW_SUM, "reduce _i1 < n lanes 4", "serial _i1 < n", "only a reduce loop"),
    (S.ROW_SUM, "next _v2", "next _v1", "_v1 is not defined here"),
    (S.ROW_SUM, "add(_v3, _v4)", "add(_v3, _v0)", "_v0 is not defined here"),
    (S.ROW_SUM, "_v4: f32)", "_v4: f64)", "one for one"),
    (S.ROW_SUM, "store y[_i0] = _v7", "store y[_i0] = _v2", "_v2 is not defined here"),
    (S.ROW_SUM, "reduce _i1 < n", "reduce _i1 < m", "outside of"),
    (S.SCAN, "serial _i1 < n", "serial _i1 < _i0", "differs between lanes"),
    (S.GATHER, "load x[_v0]", "load x[_i0]", "outside of"),
    (S.GATHER, "check 0 _v5", "check 0 _v0", "should be bool"),
    (S.GATHER, "read i: i64[n]", "read i: i32[n]", "i holds int32"),
    (S.GATHER, "_v1: i64 = const 5", "_v1: u8 = const 300", "300 is no uint8"),
    (S.MATMUL, "by 4", "by 0", "block_k"),
    (S.MATMUL, "next _v0", "store y[0] = _v0\n next _v0", "stores nothing"),
    (S.MATMUL, "_v2: f32 = contract", "_v2: f64 = contract", "not accumulated"),
    (S.MATMUL, "load b[_i2*n + _i1]", "load b[_i0*n + _i1]", "_i0 in"),
    (S.MATMUL, "load a[_i0*k + _i2]", "load a[_i0*m + _i2]", "outside of"),
    (S.REVERSE_TILE, "local t: f32[4]", "local x: f32[4]", "x is defined twice"),
    (S.REVERSE_TILE, "load t[-_i2 + 3]", "load t[-_i2 + 4]", "outside of 4"),
    (S.SHIFT, " if _v2", "", "index -1 is outside of"),
    (S.IN_PLACE, "aliases(x = z)", "aliases(z = x)", "first is written"),
    (S.IN_PLACE, "read z: f32[n]", "read z: f64[n]", "different size"),
    (S.IN_PLACE, "read z", "read _z", "underscore"),
]


@pytest.mark.parametrize(
    ("text", "old", "new", "says"), BROKEN, ids=[f"{says}-{i}" for i, (*_, says) in enumerate(BROKEN)]
)
def test_broken_kernels_are_refused(text: str, old: str, new: str, says: str) -> None:
    assert old in text
    broken = text.replace(old, new)
    with pytest.raises(GraphError, match=says):
        closing = broken.count("{") - broken.count("}")
        verify_kernel(_parse_unchecked(broken.rstrip() + "\n}" * closing))


def _parse_unchecked(text: str) -> Any:
    """The parser refuses unknown scalars by itself: then its error is the one that is looked for."""
    try:
        return parse_kernel(text)
    except GraphError as error:
        message = str(error)
        raise GraphError(message.replace("is not defined above", "is not defined here")) from None


def test_the_error_points_at_the_line() -> None:
    with pytest.raises(GraphError) as error:
        verify_kernel(parse_kernel(S.SCALE.replace("load x[_i0]", "load x[_i0 + 1]")))
    assert "  > " in str(error.value)
    (line,) = [line for line in str(error.value).splitlines() if line.startswith("  > ")]
    assert line.strip("> ") == "_v0: f32 = load x[_i0 + 1]"


AXES = {"_i0": Dim.name("m"), "_i1": Dim.name("n"), "_i2": 4}


@pytest.mark.parametrize(
    ("index", "size", "inside"),
    [
        ("_i0*n + _i1", "m*n", True),
        ("_i0*n + _i1 + 1", "m*n", False),
        ("-_i0*n + m*n - n + _i1", "m*n", True),
        ("_i1*m + _i0", "m*n", True),
        ("(4*_i0 + _i2) // 4", "m", True),
        ("(4*_i0 + _i2) % 3", "3", True),
        ("(4*_i0 + _i2) % 3", "2", False),
        ("_i2 // 2", "2", True),
        ("_i2 // 2", "1", False),
        ("(_i0*n + _i1) // n", "m", True),
        ("_i0*_i0", "m*m", True),
        ("_i0 + _i1", "m + n - 1", True),
        ("_i0 + _i1", "m + n - 2", False),
        ("0", "m", True),
        ("_i2 - 1", "4", False),
    ],
)
def test_bounds(index: str, size: str, inside: bool) -> None:
    assert (is_inside(parse_dim(index), parse_dim(size), AXES) is None) == inside


def test_bounds_under_constraints() -> None:
    axes: dict[str, Any] = {"_i0": Dim.name("n") - 2}
    assert is_inside(Dim.name("_i0") + 2, Dim.name("n"), axes) is None
    assert is_inside(Dim.name("_i0"), Dim.name("m"), axes) is not None
    assert is_inside(Dim.name("_i0"), Dim.name("m"), axes, [SizeConstraint(Dim.name("m"), ">=", Dim.name("n"))]) is None


F = TensorType(dtypes.float32, (Dim.name("n"),))
FLAG = TensorType(dtypes.bool_, ())
SCALE = parse_kernel(S.SCALE)
GATHER = parse_kernel(S.GATHER)
X, T, Y = ScheduleBuffer("x", F, "input"), ScheduleBuffer("t", F, "temporary"), ScheduleBuffer("y", F, "output")
GOOD = Schedule("sample", (X, T, Y), (Launch(SCALE, ("x", "t")), Launch(SCALE, ("t", "y"))), ("n",))


def test_sound_schedule_passes() -> None:
    verify_schedule(GOOD)
    five = TensorType(dtypes.float32, (5,))
    index = TensorType(dtypes.int64, (Dim.name("n"),))
    buffers = (ScheduleBuffer("x", five, "input"), ScheduleBuffer("i", index, "input", 1), Y)
    checks = (CheckSite("IndexError", "no"),)
    verify_schedule(Schedule("lookup", buffers, (Launch(GATHER, ("x", "i", "y")),), ("n",), checks=checks))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": GOOD.steps[::-1]}, "t is read before"),
        ({"steps": GOOD.steps[:1]}, "output y is never written"),
        ({"steps": (Launch(SCALE, ("x", "z")),)}, "no buffer z"),
        ({"steps": (Launch(SCALE, ("x",)),)}, "takes 2 buffers, not 1"),
        ({"steps": (Launch(SCALE, ("x", "y")), Launch(SCALE, ("y", "x")))}, "x is input and not to be written"),
        ({"steps": (Branch("x", (), ()),)}, "should be bool"),
        ({"steps": (Pop("s", "y"),)}, "no stack s"),
        ({"buffers": (X, T, Y, T)}, "one name"),
        ({"buffers": (replace(X, position=1), T, Y)}, "positions of the inputs"),
        ({"buffers": (replace(X, role="constant"), T, Y)}, "constants have a value"),
        (
            {"buffers": (X, ScheduleBuffer("t", TensorType(dtypes.float64, (Dim.name("n"),)), "temporary"), Y)},
            "t is f64",
        ),
        ({"buffers": (X, ScheduleBuffer("t", TensorType(dtypes.float32, (4,)), "temporary"), Y)}, "t is f32"),
        ({"sizes": ()}, "which is not among"),
        ({"checks": (CheckSite("OSError", "no"),)}, "a check raises OSError"),
        ({"steps": (Launch(replace(SCALE, sizes=("n", "k")), ("x", "y")),)}, "has sizes k"),
        ({"steps": (Launch(parse_kernel(S.SCALE.replace("load x[_i0]", "load x[_i0 + 1]")), ("x", "y")),)}, "outside"),
    ],
)
def test_broken_schedules_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        verify_schedule(replace(GOOD, **changes))


def test_a_branch_must_write_on_both_sides() -> None:
    flag = ScheduleBuffer("p", FLAG, "input", 1)
    launch: tuple[Step, ...] = (Launch(SCALE, ("x", "t")),)
    steps = (Branch("p", launch, ()), Launch(SCALE, ("t", "y")))
    with pytest.raises(GraphError, match="t is read before"):
        verify_schedule(replace(GOOD, buffers=(X, flag, T, Y), steps=steps))
    verify_schedule(replace(GOOD, buffers=(X, flag, T, Y), steps=(Branch("p", launch, launch), steps[1])))


def test_checks_must_be_in_the_table() -> None:
    five = TensorType(dtypes.float32, (5,))
    index = TensorType(dtypes.int64, (Dim.name("n"),))
    buffers = (ScheduleBuffer("x", five, "input"), ScheduleBuffer("i", index, "input", 1), Y)
    with pytest.raises(GraphError, match="has check 0"):
        verify_schedule(Schedule("lookup", buffers, (Launch(GATHER, ("x", "i", "y")),), ("n",)))
