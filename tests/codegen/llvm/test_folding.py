"""Scalar ops on literals: what is evaluated while it is written, against what the machine would have found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgraph.codegen.cpu.backend import emit_module
from jitgraph.codegen.kernels.kernel import Kernel, Let, Load, Loop, LoopKind, Param, Statement, Store, Var
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule
from jitgraph.codegen.llvm.scalars import LIBRARY_LINES, _defined, math_function
from jitgraph.codegen.lower.statements import constant_of
from jitgraph.dtypes import SHORT_NAMES, DType, bool_, float32, float64
from jitgraph.ir.dims import Dim
from jitgraph.ir.target import Target
from jitgraph.ops.math_functions.functions import FUNCTIONS
from tests.bits import same_bits
from tests.codegen.llvm.test_scalar_ops import FLOATS, INTEGERS, Case, edge_values
from tests.codegen.native_kernels import Array, run_native, schedule_of

OPS = ("add", "sub", "mul", "and_", "or_", "xor", "shl", "shr", "min", "max")
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def pairs_of(dtype: DType, count: int) -> list[tuple[Any, Any]]:
    values = edge_values(dtype)
    chosen = np.random.default_rng(3).integers(0, values.size, (count, 2))
    return [(values[i], values[j]) for i, j in chosen]


def constant_kernel(cases: list[tuple[Case, tuple[Any, ...]]], result: DType) -> Kernel:
    """``out[i] = op(literal, ...)`` for the i-th case."""
    body: list[Statement] = []
    number = 0
    for position, (case, values) in enumerate(cases):
        args = [Var(f"_v{number + i}", dtype) for i, dtype in enumerate(case.args)]
        body += [Let(arg, "const", (), constant_of(value, arg.dtype)) for arg, value in zip(args, values, strict=True)]
        number += len(args)
        var = Var(f"_v{number}", case.result)
        number += 1
        body += [case.let(var, tuple(args)), Store("out", position, var)]
    return Kernel("constants", (Param("out", result, len(cases), "write"),), tuple(body))


def check_constants(cases: list[tuple[Case, tuple[Any, ...]]], result: DType) -> None:
    out = np.zeros(len(cases), result)
    run_native(constant_kernel(cases, result), {"out": out}, {})
    with np.errstate(all="ignore"):
        expected = [case.expected([np.array(v, d) for v, d in zip(vs, case.args, strict=True)]) for case, vs in cases]
    wrong = np.flatnonzero(~same_bits(out, np.array(expected, result)))
    assert wrong.size == 0, [(cases[i], out[i], expected[i]) for i in wrong[:3]]


@pytest.mark.parametrize("dtype", INTEGERS, ids=SHORT_NAMES.get)
def test_integer_ops_of_literals(dtype: DType) -> None:
    pairs = pairs_of(dtype, 40)
    check_constants([(Case(op, (dtype, dtype), dtype), pair) for op in OPS for pair in pairs], dtype)
    check_constants([(Case("cmp", (dtype, dtype), bool_, name), pair) for name in RELATIONS for pair in pairs], bool_)


@pytest.mark.parametrize("dtype", FLOATS, ids=SHORT_NAMES.get)
def test_bits_and_sign_of_float_literals(dtype: DType) -> None:
    finite = [value for value in edge_values(dtype) if value == value]
    for other in INTEGERS:
        if other.itemsize == dtype.itemsize:
            check_constants([(Case("bitcast", (dtype,), other), (value,)) for value in finite], other)
    check_constants([(Case("neg", (dtype,), dtype), (value,)) for value in finite], dtype)


def one_sided_kernel(op: str, dtype: DType, values: list[Any], kind: LoopKind) -> Kernel:
    """``out[2i, j] = op(x[j], values[i])`` and ``out[2i + 1, j] = op(values[i], x[j])``."""
    n, axis = Dim.name("n"), Dim.name("_i0")
    x = Var("_v0", dtype)
    body: list[Statement] = [Load(x, "x", axis)]
    number = 1
    for position, value in enumerate(values):
        constant, left, right = (Var(f"_v{number + i}", dtype) for i in range(3))
        number += 3
        body += [
            Let(constant, "const", (), constant_of(value, dtype)),
            Let(left, op, (x, constant)),
            Let(right, op, (constant, x)),
            Store("out", 2 * position * n + axis, left),
            Store("out", (2 * position + 1) * n + axis, right),
        ]
    params = (Param("x", dtype, n, "read"), Param("out", dtype, 2 * len(values) * n, "write"))
    return Kernel("sides", params, (Loop("_i0", n, kind, tuple(body)),), ("n",))


@pytest.mark.parametrize("kind", ["vector", "serial"])
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=SHORT_NAMES.get)
def test_minimum_and_maximum_with_a_literal(dtype: DType, kind: LoopKind) -> None:
    x = np.ascontiguousarray(edge_values(dtype))
    values = [value for value in edge_values(dtype)[::3] if value == value]
    for op in ("min", "max"):
        actual: Array = np.zeros((len(values), 2, x.size), dtype)
        run_native(one_sided_kernel(op, dtype, values, kind), {"x": x, "out": actual.reshape(-1)}, {"n": x.size})
        case = Case(op, (dtype, dtype), dtype)
        for value, (left, right) in zip(values, actual, strict=True):
            many = np.full(x.size, value, dtype)
            with np.errstate(all="ignore"):
                assert same_bits(left, case.expected([x, many])).all(), (op, value)
                assert same_bits(right, case.expected([many, x])).all(), (op, value)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "lanes"), [(float32, 16), (float64, 8), (float32, 1), (float64, 1)])
def test_math_functions_have_no_instruction_on_literals_alone(name: str, dtype: DType, lanes: int) -> None:
    module = LlvmModule("")
    math_function(module, name, (dtype,) * (2 if name in ("pow", "atan2", "hypot") else 1), lanes)
    assert [library for library, *_ in module.required] == ([] if module.functions else ["math"])
    called = [_defined(*details, 1, inlined=False) for _, *details in module.required]
    for text in (function.text() for function in (*module.functions, *called)):
        assert (text.count("\n") < LIBRARY_LINES) is not bool(called) or lanes > 1
        for line in text.splitlines()[2:-1]:
            _, equals, instruction = line.partition(" = ")
            assert not equals or "%" in instruction, line


def test_a_long_function_of_single_numbers_is_called() -> None:
    x, y, out = Var("_v0", float64), Var("_v1", float64), Var("_v2", float64)
    axis = Dim.name("_i0")
    body = (Load(x, "x", axis), Load(y, "y", axis), Let(out, "call", (x, y), "pow"), Store("out", axis, out))
    params = (Param("x", float64, 5, "read"), Param("y", float64, 5, "read"), Param("out", float64, 5, "write"))
    kernel = Kernel("power", params, (Loop("_i0", 5, "serial", body),))
    arrays = {
        "x": np.array([2.0, 3.0, -2.0, 0.5, np.nan]),
        "y": np.array([0.5, -1.0, 3.0, 9.0, 0.0]),
        "out": np.zeros(5),
    }
    run_native(kernel, arrays, {})
    np.testing.assert_allclose(arrays["out"], arrays["x"] ** arrays["y"], rtol=1e-15)
    text = emit_module(schedule_of(kernel), Target.host()).text()
    assert "declare hidden double @m_pow_f64_f64_1(double, double)" in text
    assert "define internal double @m_pow" not in text


def test_equal_instructions_are_written_once_where_one_follows_the_other() -> None:
    module = LlvmModule("")
    function = LlvmFunction(module, "f", "void")
    x = function.argument("i64")
    first = function.emit("i64", f"add {x}, 1")
    assert function.emit("i64", f"add {x}, 1") == first
    loaded = function.emit("i64", "load i64, ptr %p, align 8")
    assert function.emit("i64", "load i64, ptr %p, align 8") != loaded
    outside, inner, other = function.known, function.label("inner"), function.label("other")
    function.start_block(inner, outside)
    assert function.emit("i64", f"add {x}, 1") == first
    second = function.emit("i64", f"add {x}, 2")
    function.start_block(other, outside)
    assert function.emit("i64", f"add {x}, 2") != second
    function.start_block(function.label("apart"))
    assert function.emit("i64", f"add {x}, 1") != first
