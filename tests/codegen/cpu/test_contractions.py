"""Products of known extents: every way of computing them (packed, narrow, few rows, one column) gives the same bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jitgraph import ops
from jitgraph.codegen.cpu import contract as packed
from jitgraph.codegen.cpu.backend import emit_module
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower import contraction
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.compiler import compile
from jitgraph.dtypes import BY_SHORT_NAME
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.passes.fuse import fuse
from jitgraph.runtime.executable import Executable
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests import ROOT
from tests.codegen.cpu.test_native_kernels import Guarded
from tests.codegen.native_kernels import Native

BLOCK = 12  # steps of k in a block, so that short products have several

SHAPES = [
    (1, 300, 100),  # one row
    (3, 130, 49),  # few rows
    (8, 1100, 13),  # few rows of several units
    (70, 1, 100),  # one column
    (67, 3, 50),  # few columns
    (5, 33, 130),
    (13, 10, 48),
    (31, 16, 97),  # one vector of columns
    (30, 49, 30),  # the last rows and columns are few
    (64, 128, 64),
]


def _select(graph: Graph) -> Schedule:
    """The kernels of ``graph`` with short blocks of k."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction, "BLOCK_STEPS", BLOCK)
        return select(graph, CPU)


def _check(m: int, n: int, k: int, across: tuple[bool, bool], short: str, level: str) -> None:
    dtype = BY_SHORT_NAME[short]
    target = Target.named(level)
    generator = np.random.default_rng(m + n + k)
    shapes = ((k, m) if across[0] else (m, k), (n, k) if across[1] else (k, n))
    arrays = [(4 * generator.standard_normal(shape)).astype(dtype) for shape in shapes]
    contract = ((0 if across[0] else 1,), (1 if across[1] else 0,))

    def program(x: object, y: object) -> object:
        product = ops.dot(x, y, batch=((), ()), contract=contract)
        return ops.maximum(product, ops.full(shape=(m, n), value=0, dtype=dtype))

    graph = build(program, [TensorType(dtype, shape) for shape in shapes])
    schedule = _select(graph)
    guard = 64
    memory = np.full(m * n + guard, 7, dtype)
    Native(schedule, target)([arrays[0].ctypes.data, arrays[1].ctypes.data, memory.ctypes.data], {})
    (expected,) = execute_schedule(schedule, arrays)
    assert memory[: m * n].tobytes() == expected.tobytes()
    assert (memory[m * n :] == np.asarray(7, dtype)).all()
    wide = np.float64 if short not in ("i32",) else np.int64
    a, b = (x.astype(wide).T if turned else x.astype(wide) for x, turned in zip(arrays, across, strict=True))
    precision = 0 if short == "i32" else float(ml_dtypes.finfo(dtype).eps)
    bound = precision * (k + 2) * (np.abs(a) @ np.abs(b))
    assert (np.abs(expected.reshape(m, n).astype(wide) - np.maximum(a @ b, 0)) <= bound).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("across", [(False, False), (False, True), (True, False)], ids=["plain", "right", "left"])
def test_products_by_shape(shape: tuple[int, int, int], across: tuple[bool, bool]) -> None:
    _check(*shape, across, "f32", Target.host().name)


@pytest.mark.parametrize("shape", [(15, 520, 49), (300, 150, 97), (600, 40, 100), (200, 300, 40)], ids=str)
def test_products_in_small_blocks(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "RIGHT_SHARE", 0.0)
    monkeypatch.setattr(packed, "SUM_BYTES", 1 << 14)
    monkeypatch.setattr(packed, "SHARE_WORK", 1 << 16)
    _check(*shape, (False, True), "f32", Target.host().name)
    _check(*shape, (False, False), "f32", Target.host().name)


@pytest.mark.parametrize("level", sorted({"x86-64-v3", Target.host().name}))
@pytest.mark.parametrize("shape", [(6, 50, 24), (9, 300, 16), (4, 30, 64), (16, 20, 3), (50, 7, 32)], ids=str)
def test_a_factor_in_runs_of_memory(shape: tuple[int, int, int], level: str) -> None:
    def program(w: Any, x: Any) -> Any:
        return ops.dot(w, x, batch=((), ()), contract=((1,), (1,)))

    random = np.random.default_rng(0)
    w, x = (random.standard_normal(of).astype(np.float32) for of in ((40, shape[1]), shape))
    graph = build(program, [TensorType(np.dtype(np.float32), array.shape) for array in (w, x)])
    compiled = compile(graph, Target.named(level))
    assert isinstance(compiled, Executable)
    (actual,) = compiled.run([w, x])
    (expected,) = interpret(graph, [w, x])
    assert np.asarray(actual).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("short", ["f64", "f16", "bf16", "i32"])
@pytest.mark.parametrize("shape", [(3, 70, 60), (40, 1, 60), (33, 41, 60)], ids=str)
def test_products_by_dtype(shape: tuple[int, int, int], short: str) -> None:
    _check(*shape, (False, True), short, Target.host().name)
    _check(*shape, (False, False), short, Target.host().name)


@pytest.mark.parametrize("shape", [(1, 300, 100), (7, 50, 49), (70, 1, 100), (31, 37, 50)], ids=str)
def test_products_on_the_lower_level(shape: tuple[int, int, int]) -> None:
    _check(*shape, (False, True), "f32", "x86-64-v3")
    _check(*shape, (False, False), "f32", "x86-64-v3")


@pytest.mark.parametrize("level", ["x86-64-v3", Target.host().name])
@pytest.mark.parametrize("short", ["f32", "f64"])
@pytest.mark.parametrize("k", [31, 96, 1024])
def test_few_rows_by_a_matrix_along_k(k: int, short: str, level: str) -> None:
    """Whole groups of columns, a last one that moves back, ever narrower ones, and lines that are pages apart."""
    for m, n in ((1, 70), (2, 41), (3, 33), (1, 16), (2, 15), (1, 9), (3, 7), (2, 5), (3, 3)):
        _check(m, n, k, (False, True), short, level)


@pytest.mark.parametrize("turned", [False, True])
def test_a_batch_that_is_one_row_gives_the_same_bits(turned: bool) -> None:
    """Of named rows, one is computed in a way of its own, which shows in the code alone."""
    right, contract = ("[70, 100]", "[[1],[1]]") if turned else ("[100, 70]", "[[1],[0]]")
    graph = parse(f"""graph @f(%x: f32[b, 100], %y: f32{right}) -> f32[b, 70] {{
  %0: f32[b, 70] = dot(%x, %y) {{batch=[[],[]], contract={contract}}}
  return %0
}}""")
    schedule = _select(graph)
    native = Native(schedule)
    generator = np.random.default_rng(3)
    y = generator.standard_normal((70, 100) if turned else (100, 70)).astype(np.float32)
    for rows in (1, 2, 5, 0, 1):
        x = generator.standard_normal((rows, 100)).astype(np.float32)
        memory = np.full(rows * 70 + 64, 7, np.float32)
        native([x.ctypes.data, y.ctypes.data, memory.ctypes.data], {"b": rows})
        (expected,) = execute_schedule(schedule, [x, y])
        assert memory[: rows * 70].tobytes() == expected.tobytes()
        assert (memory[rows * 70 :] == 7).all()


def _touch_only_the_factors(level: str) -> None:
    """Products between pages that fault when touched; slices of matrices and batches of them, too."""
    target = Target.named(level)
    programs = [
        (f"[{m}, {k}]", f"[{k}, {n}]", f"[{n}, {k}]", "[[],[]]", f"[{m}, {n}]")
        for m, n, k in [
            *[(30, 49, 30), (15, 33, 50), (14, 32, 17), (67, 19, 16), (28, 64, 97)],
            *[(1, 37, 19), (2, 5, 53), (3, 18, 31), (1, 3, 97), (2, 16, 24)],
        ]
    ]
    programs += [("[3, 17, 35]", "[3, 35, 21]", "[3, 21, 35]", "[[0],[0]]", "[3, 17, 21]")]
    for left, plain, turned, batch, result in programs:
        for right in (plain, turned):
            axis = left.count(",")
            contract = f"[[{axis}],[{axis - (right is plain)}]]"
            text = f"""graph @f(%x: f32{left}, %y: f32{right}) -> f32{result} {{
  %0: f32{result} = dot(%x, %y) {{batch={batch}, contract={contract}}}
  return %0
}}"""
            graph = parse(text)
            native = Native(_select(graph), target)
            values = (*graph.inputs, *graph.outputs)
            for at_end in (True, False):
                memory = [Guarded(np.ones(value.shape, np.float32).reshape(-1), at_end) for value in values]
                native([part.address for part in memory], {})
                assert (memory[2].array == graph.inputs[0].shape[-1]).all()


@pytest.mark.parametrize("level", ["x86-64-v3", Target.host().name])
def test_packing_touches_the_factors_alone(level: str) -> None:
    """In a process of its own, since a stray access ends it."""
    code = f"from {__name__} import _touch_only_the_factors; _touch_only_the_factors({level!r}); print('sound')"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "sound"), done.stderr[-2000:]


def test_plain_factors_are_packed_by_functions_that_are_compiled_once() -> None:
    def lines_of(text: str) -> tuple[int, int]:
        llvm_ir = emit_module(select(parse(text), CPU), Target.host()).text()
        return llvm_ir.count("call void @jg_pack_f32_"), llvm_ir.count("call void @jg_square_f32")

    product = """graph @f(%x: f32[64, 64], %y: f32[64, 64]) -> f32[64, 64] {
  %0: f32[64, 64] = dot(%x, %y) {batch=[[],[]], contract=[[1],[1]]}
  return %0
}"""
    assert lines_of(product) == (2, 0)
    packed_calls, square_calls = lines_of(product.replace("f32", "f16"))  # which are widened on the way
    assert packed_calls == 0 < square_calls


PADDED: dict[str, Callable[[Any, Any], Any]] = {
    "an input": lambda x, one: x,
    "full": lambda x, one: ops.full(shape=(2, 3, 7, 6), value=0.5, dtype=np.dtype(np.float32)),
    "iota": lambda x, one: ops.iota(shape=(2, 3, 7, 6), axis=3, dtype=np.dtype(np.float32)),
    "a broadcast number": lambda x, one: ops.broadcast(one, shape=(2, 3, 7, 6), axes=()),
    "a broadcast row": lambda x, one: ops.broadcast(ops.reduce_max(x, axes=(0, 1, 2)), shape=(2, 3, 7, 6), axes=(3,)),
    "cos": lambda x, one: ops.cos(x),
    "flip": lambda x, one: ops.flip(x, axes=(2,)),
    "transpose": lambda x, one: ops.transpose(ops.reshape(x, shape=(2, 3, 6, 7)), permutation=(0, 1, 3, 2)),
    "pad": lambda x, one: ops.pad(x, one, low=(0, 0, 1, 0), high=(0, 0, 0, 2), interior=(0, 0, 0, 0)),
    "concat": lambda x, one: ops.concat(x, ops.cos(x), axis=2),
    "flipped iota": lambda x, one: ops.flip(PADDED["iota"](x, one), axes=(3,)),
}


@pytest.mark.parametrize("operand", PADDED)
def test_padding_is_zero_whatever_is_padded(operand: str) -> None:
    """Between the elements of a dilated operand, too: the cotangent of a sum is a constant."""
    attrs = {"padding": ((2, 1), (1, 3)), "lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "strides": (1, 1)}

    def program(x: Any, w: Any, one: Any) -> Any:
        return ops.conv(PADDED[operand](x, one), w, groups=1, **attrs)

    shapes = [(2, 3, 7, 6), (4, 3, 3, 2), ()]
    graph = build(program, [TensorType(np.dtype(np.float32), shape) for shape in shapes])
    inputs = [np.asarray(np.random.default_rng(0).standard_normal(shape), np.float32) for shape in shapes]
    compiled = compile(graph)
    assert isinstance(compiled, Executable)
    np.testing.assert_allclose(compiled.run(inputs)[0], interpret(graph, inputs)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [37, 70, 150, 300, 301, 397])
@pytest.mark.parametrize("way", ["stack", "concat", "transpose"])
def test_panels_of_computed_operands_are_filled(n: int, way: str) -> None:
    """What a panel has beyond its operand's last row or column is written, whatever lay in the scratch memory."""
    dtype = BY_SHORT_NAME["f32"]
    x = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)

    def left(x: Any) -> Any:
        one, other = ops.reshape(x, shape=(1, n, n)), ops.reshape(ops.neg(x), shape=(1, n, n))
        both = ops.concat(one, other, axis=0)
        return ops.transpose(both, permutation=(0, 2, 1)) if way == "transpose" else both

    def program(x: Any) -> Any:
        right = ops.broadcast(x, shape=(2, n, n), axes=(1, 2))
        return ops.dot(left(x), right if way != "concat" else left(x), batch=((0,), (0,)), contract=((2,), (1,)))

    graph = build(program, [TensorType(dtype, (n, n))])
    target = Target.host()
    schedule = select(fuse(graph, target), CPU)
    memory = np.full(2 * n * n, 7, dtype)
    Native(schedule, target)([x.ctypes.data, memory.ctypes.data], {})
    (expected,) = interpret(graph, [x])
    assert memory.tobytes() == expected.tobytes()
