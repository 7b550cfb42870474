"""The interpreter: sizes bound from shapes, assumptions checked, effects in order, errors with the user's line."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from jitgraph import ops
from jitgraph.dtypes import bool_, float32, int64
from jitgraph.errors import ArgumentError, DTypeError, GraphError, ShapeError
from jitgraph.ir import interpret, parse
from jitgraph.ir.builder import build
from jitgraph.ir.constraints import SizeConstraint, bind_sizes
from jitgraph.ir.dims import Dim
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from tests.graphs import t

N, M = Dim.name("n"), Dim.name("m")


def test_sizes_are_bound_from_shapes() -> None:
    assert bind_sizes([t(N, 4), t(2 * M + 1)], [(0, 4), (7,)]) == {"n": 0, "m": 3}
    assert bind_sizes([t(N * M), t(N)], [(12,), (4,)]) == {"n": 4, "m": 3}
    assert bind_sizes([t(N + M, N)], [(5, 2)], [SizeConstraint(N, ">=", 2)]) == {"n": 2, "m": 3}


@pytest.mark.parametrize(
    ("types", "shapes", "message"),
    [
        ([t(N), t(N)], [(3,), (4,)], "argument 1 has size 4 where n is expected"),
        ([t(N, 4)], [(3, 5)], "argument 0 has size 5 where 4 is expected"),
        ([t(N)], [(3, 1)], r"argument 0 has shape \(3, 1\); expected f32\[n\]"),
        ([t(2 * N)], [(5,)], "no value for the names in 2"),
        ([t(N + 5)], [(3,)], "cannot be that with n >= 0"),
        ([t(N * M)], [(6,)], "no value for the names"),
    ],
)
def test_shapes_that_do_not_fit(types: list[TensorType], shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        bind_sizes(types, shapes)


def test_broken_assumptions() -> None:
    graph = build(lambda a, b: ops.add(a, b), [t(N), t(M)])
    (out,) = interpret(graph, [np.ones(2, np.float32), np.ones(2, np.float32)])
    assert out.tolist() == [2, 2]
    with pytest.raises(ShapeError, match="n = 2, m = 3 break n == m"):
        interpret(graph, [np.ones(2, np.float32), np.ones(3, np.float32)])
    with pytest.raises(DTypeError, match="float64"):
        interpret(graph, [np.ones(2), np.ones(2)])
    with pytest.raises(ArgumentError, match="1 arguments for 2 inputs"):
        interpret(graph, [np.ones(2, np.float32)])


LOOP = """graph @newton(%x: f32[n], %steps: i64[]) -> f32[n], i64[] {
  %guess: f32[n] = full() {dtype=f32, shape=[n], value=1.0}
  %zero: i64[] = full() {dtype=i64, shape=[], value=0}
  %y: f32[n], %i: i64[] = while(%guess, %zero, %x, %steps) {num_carries=2} [
    graph @condition(%y: f32[n], %i: i64[], %x: f32[n], %steps: i64[]) -> bool[] {
      %0: bool[] = lt(%i, %steps)
      return %0
    }
    graph @body(%y: f32[n], %i: i64[], %x: f32[n], %steps: i64[]) -> f32[n], i64[] {
      %0: f32[n] = div(%x, %y)
      %1: f32[n] = add(%y, %0)
      %half: f32[n] = full() {dtype=f32, shape=[n], value=0.5}
      %2: f32[n] = mul(%1, %half)
      %one: i64[] = full() {dtype=i64, shape=[], value=1}
      %3: i64[] = add(%i, %one)
      return %2, %3
    }
  ]
  return %y, %i
}"""


def test_while() -> None:
    graph = parse(LOOP)
    for size in (0, 1, 3):
        x = np.arange(1, size + 1, dtype=np.float32)
        y, steps = interpret(graph, [x, np.array(8)])
        np.testing.assert_allclose(y, np.sqrt(x), rtol=1e-6)
        assert steps == 8
    assert interpret(graph, [np.float32([4]), np.array(0)])[0].tolist() == [1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan(length: int, reverse: bool) -> None:
    step = build(lambda c, x: (ops.add(c, x), c), [t(), t()], "body")
    graph = build(
        lambda c, x: ops.scan(c, x, regions=(step,), num_carries=1, num_xs=1, length=N, reverse=reverse),
        [t(), t(N)],
    )
    x = np.arange(1, length + 1, dtype=np.float32)
    total, before = interpret(graph, [np.float32(10), x])
    assert total == 10 + x.sum()
    order = x[::-1] if reverse else x
    expected = 10 + np.concatenate([[0], np.cumsum(order)])[:length]
    np.testing.assert_array_equal(before, (expected[::-1] if reverse else expected).astype(np.float32))


def test_checks_raise_with_the_line() -> None:
    text = 'graph(%ok: bool[]) -> () {\n  check(%ok) {kind="IndexError", message="too far"}  # model.py:7\n  return\n}'
    graph = parse(text)
    assert interpret(graph, [np.array(True)]) == ()
    with pytest.raises(IndexError, match="too far") as caught:
        interpret(graph, [np.array(False)])
    assert caught.value.__notes__ == ["in check at model.py:7"]


def test_prints_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: object) -> object:
        first = ops.print_(ops.token(), x, format="x = {}")
        return ops.print_(first, format="and then")

    interpret(build(program, [t(dtype=int64)]), [np.array(3)])
    assert capsys.readouterr().out == "x = 3\nand then\n"


def test_stacks() -> None:
    def program(x: object, y: object) -> tuple[object, ...]:
        stack = ops.stack_push(ops.stack_push(ops.stack_new(shape=(N,), dtype=float32), x), y)
        stack, last = ops.stack_pop(stack)
        return ops.stack_pop(stack)[1], last

    x, y = np.float32([1, 2]), np.float32([3, 4])
    actual = interpret(build(program, [t(N), t(N)]), [x, y])
    assert [array.tolist() for array in actual] == [[1, 2], [3, 4]]


def test_an_evaluation_that_breaks_its_rule_is_an_error() -> None:
    wrong = Op(name="wrong", kind="other", infer=lambda x: t(2), evaluate=lambda x: np.zeros(3, np.float32))
    graph = build(lambda x: wrong(x), [t()])
    with pytest.raises(GraphError, match=r"wrong evaluated to f32\[3\]; its rule says f32\[2\]"):
        interpret(graph, [np.float32(0)])


def test_gradients_must_be_expanded_first() -> None:
    graph = build(lambda y, ct, x: ops.grad(y, ct, x, num_outputs=1), [t()] * 3)
    with pytest.raises(GraphError, match="grad cannot be evaluated"):
        interpret(graph, [np.float32(0)] * 3)


def test_dead_values_are_freed() -> None:
    alive: list[weakref.ref[np.ndarray]] = []  # type: ignore[type-arg]

    def evaluate(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        gc.collect()
        most.append(sum(ref() is not None for ref in alive))
        result = x + 1
        alive.append(weakref.ref(result))
        return result

    most: list[int] = []
    step = Op(name="step", kind="other", infer=lambda x: x, evaluate=evaluate)
    graph = build(lambda x: step(step(step(step(step(x))))), [t(3)])
    interpret(graph, [np.zeros(3, np.float32)])
    assert max(most) == 1


def test_no_sizes_without_inputs() -> None:
    assert interpret(build(lambda: ops.full(shape=(2,), value=True, dtype=bool_), []), [])[0].tolist() == [True, True]
