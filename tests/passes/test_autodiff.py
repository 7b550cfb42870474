"""Reverse mode through graphs: sums, zeros, composites, control flow at every depth and order, and the transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.dtypes import bool_, float64, int64
from jitgraph.errors import DTypeError, ShapeError, UnsupportedOp
from jitgraph.ir.builder import GraphBuilder, build
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op
from jitgraph.ir.types import StackType, TensorType, TokenType
from jitgraph.ir.verifier import verify
from jitgraph.location import Location
from jitgraph.ops import (
    add,
    broadcast,
    call,
    cast,
    cond,
    cos,
    dot,
    exp,
    full,
    grad,
    lt,
    mul,
    reduce_sum,
    scan,
    sin,
    stop_gradient,
    sub,
    tanh,
    while_,
)
from jitgraph.ops.composite import composite
from jitgraph.passes.autodiff import backward, expand_grads, grad_graph, jvp_graph, vjp_graph, vjp_halves
from jitgraph.tensor import lifting, wrap
from tests.differences import check

F = TensorType(float64, (3,))
S = TensorType(float64, ())
I = TensorType(int64, ())  # noqa: E741
B = TensorType(bool_, ())
X = np.array([0.3, -0.7, 1.1])
Y = np.array([0.9, 0.4, -0.2])


def int_(value: int) -> Any:
    return full(shape=(), value=value, dtype=int64)


def gradients(graph: Graph, arrays: list[Any], wrt: list[int] | None = None) -> tuple[Any, ...]:
    """The gradients of the sum of the first output."""
    summed = build(
        lambda *xs: reduce_sum(call(*xs, regions=(graph,)), axes=tuple(range(graph.outputs[0].type.ndim))),
        [value.type for value in graph.inputs],
    )
    result = grad_graph(summed, wrt)
    verify(result)
    return interpret(result, arrays)[1:]


# sums and zeros


def test_a_value_used_twice_gets_the_sum() -> None:
    graph = build(lambda x: add(mul(sin(x), x), exp(x)), [F])
    (actual,) = gradients(graph, [X])
    np.testing.assert_allclose(actual, np.cos(X) * X + np.sin(X) + np.exp(X))
    check(graph, [X])


def test_unused_and_integer_inputs_and_stopped_paths_give_zeros() -> None:
    def function(x: Any, unused: Any, number: Any) -> Any:
        return mul(stop_gradient(x), broadcast(cast(number, dtype=float64), shape=(3,), axes=()))

    graph = build(function, [F, F, I])
    builder = GraphBuilder()
    inputs = [builder.input(value.type) for value in graph.inputs]
    (output,) = builder.emit(call, inputs, {}, (graph,))
    ct = builder.input(F)
    result = interpret(builder.graph(backward(builder, [output], [ct], inputs)), [X, Y, np.int64(2), Y])
    for array, dtype in zip(result, (float64, float64, int64), strict=True):
        assert array.dtype == dtype
        assert not array.any()


def test_a_value_in_the_middle_may_be_asked_for() -> None:
    builder = GraphBuilder()
    x = builder.input(F)
    (y,) = builder.emit(sin, [x], {}, ())
    (z,) = builder.emit(exp, [y], {}, ())
    of_x, of_y = backward(builder, [z], [builder.input(F)], [x, y])
    result = interpret(builder.graph([of_x, of_y]), [X, Y])
    np.testing.assert_allclose(result[1], Y * np.exp(np.sin(X)))
    np.testing.assert_allclose(result[0], result[1] * np.cos(X))


def test_an_output_that_is_an_input() -> None:
    builder = GraphBuilder()
    x, ct = builder.input(F), builder.input(F)
    (actual,) = backward(builder, [x], [ct], [x])
    assert actual is ct


def test_an_op_without_a_rule_is_named_where_a_gradient_arrives() -> None:
    rough = Op(name="rough", kind="elementwise", infer=lambda x: x)
    with pytest.raises(UnsupportedOp, match="rough"):
        grad_graph(build(lambda x: reduce_sum(rough(x), axes=(0,)), [F]))


def test_gradient_nodes_stand_at_the_line_of_their_op() -> None:
    builder = GraphBuilder()
    x, ct = builder.input(F), builder.input(F)
    builder.location = Location("model.py", 7)
    (y,) = builder.emit(sin, [x], {}, ())
    builder.location = Location("train.py", 3)
    count = len(builder.nodes)
    backward(builder, [y], [ct], [x])
    assert {node.location for node in builder.nodes[count:]} == {Location("model.py", 7)}
    assert builder.location == Location("train.py", 3)


# composites and calls


def composite_op(body: Callable[..., Any], vjp: Callable[..., Any] | None = None) -> Op:
    return composite("made_for_this_test", body, vjp=vjp, samples=lambda dtype: ())


def test_a_composite_is_differentiated_through_its_region() -> None:
    wave = composite_op(lambda x, y: (mul(sin(x), y), add(x, y)))
    graph = build(lambda x, y: wave(mul(x, x), y), [F, F])
    check(graph, [X, Y])
    check(graph, [X, Y], order=2)


def test_a_composite_uses_its_own_rule() -> None:
    odd = composite_op(sin, vjp=lambda ct, out, x: (add(ct, ct),))
    (actual,) = gradients(build(lambda x: odd(x), [F]), [X])
    np.testing.assert_array_equal(actual, np.full(3, 2.0))


def test_a_region_that_returns_its_operand_or_a_value_twice() -> None:
    def body(x: Any, y: Any) -> Any:
        product = mul(x, y)
        return x, product, product

    graph = build(lambda x, y: composite_op(body)(x, y), [F, F])
    check(graph, [X, Y])
    inner = build(body, [F, F])
    check(build(lambda x, y: call(sin(x), y, regions=(inner,)), [F, F]), [X, Y], order=2)


# cond


def branches() -> Graph:
    then = build(lambda x, y: (mul(sin(x), y), exp(x)), [F, F])
    otherwise = build(lambda x, y: (mul(cos(mul(x, x)), exp(x)), x), [F, F])
    return build(lambda p, x, y: cond(p, x, y, regions=(then, otherwise)), [B, F, F])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("taken", [True, False])
def test_cond(taken: bool, order: int) -> None:
    check(branches(), [np.bool_(taken), X, Y], order)


def test_branches_share_the_slots_of_what_they_save() -> None:
    then = build(lambda x: sin(dot(x, x, batch=((), ()), contract=((0,), (0,)))), [F])
    otherwise = build(lambda x: exp(dot(x, cos(x), batch=((), ()), contract=((0,), (0,)))), [F])
    graph = grad_graph(build(lambda p, x: cond(p, x, regions=(then, otherwise)), [B, F]))
    verify(graph)
    forward = next(node for node in graph.nodes if node.op is cond)
    assert len(forward.outputs) == 2


# scan


def cell(h: Any, x: Any, w: Any) -> Any:
    after = tanh(add(dot(w, h, batch=((), ()), contract=((1,), (0,))), mul(x, h)))
    return after, sin(mul(after, x))


W = TensorType(float64, (3, 3))
WEIGHTS = np.random.default_rng(1).normal(size=(3, 3))


def recurrent(length: Any, backwards: bool) -> Graph:
    body = build(cell, [F, F, W])
    return build(
        lambda h, xs, w: scan(h, xs, w, regions=(body,), num_carries=1, num_xs=1, length=length, reverse=backwards),
        [F, TensorType(float64, (length, 3)), W],
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan(length: int, backwards: bool, order: int) -> None:
    xs = np.random.default_rng(2).normal(size=(length, 3))
    check(recurrent(length, backwards), [X, xs, WEIGHTS], order)


def test_scan_of_named_length() -> None:
    xs = np.random.default_rng(2).normal(size=(4, 3))
    for order in (1, 2):
        check(recurrent(Dim.name("steps"), False), [X, xs, WEIGHTS], order)


def test_a_carry_that_no_gradient_needs_is_not_carried_back() -> None:
    def body(h: Any, count: Any, idle: Any, x: Any) -> Any:
        return mul(h, x), add(count, int_(1)), mul(idle, idle), h

    region = build(body, [F, I, F, F])
    graph = build(
        lambda h, xs: reduce_sum(
            scan(
                h, int_(0), full(shape=(3,), value=0.5, dtype=float64), xs,
                regions=(region,), num_carries=3, num_xs=1, length=4, reverse=False,
            )[0],
            axes=(0,),
        ),
        [F, TensorType(float64, (4, 3))],
    )  # fmt: skip
    result = grad_graph(graph)
    verify(result)
    back = [node for node in result.nodes if node.op is scan][-1]
    assert back.attrs["num_carries"] == 1
    check(graph, [X, np.random.default_rng(0).normal(size=(4, 3))])


def test_a_scan_saves_no_more_than_its_product_and_its_carry() -> None:
    result = grad_graph(
        build(
            lambda h, xs, w: reduce_sum(call(h, xs, w, regions=(recurrent(4, False),))[1], axes=(0, 1)),
            [F, TensorType(float64, (4, 3)), W],
        )
    )
    forward = next(node for node in result.nodes if node.op is scan)
    assert len(forward.outputs) == 2 + 2


def test_what_depends_on_invariants_alone_is_not_stacked() -> None:
    def body(h: Any, w: Any) -> Any:
        product = dot(w, w, batch=((), ()), contract=((1,), (0,)))
        return (sin(dot(product, h, batch=((), ()), contract=((1,), (0,)))),)

    region = build(body, [F, W])
    graph = build(lambda h, w: scan(h, w, regions=(region,), num_carries=1, num_xs=0, length=3, reverse=False), [F, W])
    forward, _ = vjp_graph(graph)
    loop = next(node for node in forward.nodes if node.op is scan)
    assert {value.type.ndim for value in loop.outputs} == {1, 2}
    check(graph, [X, WEIGHTS])
    check(graph, [X, WEIGHTS], order=2)


# while


def powers(inner: Callable[..., Any]) -> Graph:
    """``while i < n: i, x = i + 1, inner(x, y)``."""
    condition = build(lambda i, x, n, y: lt(i, n), [I, F, I, F])
    body = build(lambda i, x, n, y: (add(i, int_(1)), inner(x, y)), [I, F, I, F])
    return build(
        lambda n, x, y: while_(int_(0), x, n, y, regions=(condition, body), num_carries=2)[1], [I, F, F], "powers"
    )


def steep(x: Any, y: Any) -> Any:
    return sin(mul(exp(mul(x, y)), x))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_while(trips: int, order: int) -> None:
    check(powers(steep), [np.int64(trips), X, Y], order)


def repeated(times: int) -> Callable[..., Any]:
    def inner(x: Any, y: Any) -> Any:
        return mul(call(int_(times), x, y, regions=(powers(steep),)), cos(x))

    return inner


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("trips", [0, 2])
def test_while_in_while(trips: int, order: int) -> None:
    check(powers(repeated(2)), [np.int64(trips), X, Y], order)


def test_the_number_of_inner_trips_may_change() -> None:
    condition = build(lambda i, x, n, y: lt(i, n), [I, F, I, F])
    inner = powers(steep)
    body = build(lambda i, x, n, y: (add(i, int_(1)), call(i, x, y, regions=(inner,))), [I, F, I, F])
    graph = build(lambda n, x, y: while_(int_(0), x, n, y, regions=(condition, body), num_carries=2)[1], [I, F, F])
    check(graph, [np.int64(4), X, Y])
    check(graph, [np.int64(3), X, Y], order=2)


@pytest.mark.parametrize("order", [1, 2])
def test_while_in_scan_and_in_cond(order: int) -> None:
    def body(h: Any, x: Any, y: Any) -> Any:
        then = build(lambda h, x, y: call(int_(2), h, mul(x, y), regions=(powers(steep),)), [F, F, F])
        otherwise = build(lambda h, x, y: mul(h, sin(x)), [F, F, F])
        total = reduce_sum(x, axes=(0,))
        after = cond(lt(total, full(shape=(), value=0.0, dtype=float64)), h, x, y, regions=(then, otherwise))
        return after, mul(after, h)

    region = build(body, [F, F, F])
    graph = build(
        lambda h, xs, y: scan(h, xs, y, regions=(region,), num_carries=1, num_xs=1, length=4, reverse=False),
        [F, TensorType(float64, (4, 3)), F],
    )
    xs = np.random.default_rng(5).normal(size=(4, 3))
    signs = np.sign(xs.sum(axis=1))
    assert set(signs) == {-1.0, 1.0}
    check(graph, [X, xs, Y], order)


@pytest.mark.parametrize("order", [1, 2])
def test_scan_in_while(order: int) -> None:
    def inner(x: Any, y: Any) -> Any:
        region = build(lambda h, y: (steep(h, y), mul(h, y)), [F, F])
        after, ys = scan(x, y, regions=(region,), num_carries=1, num_xs=0, length=2, reverse=True)
        return add(after, reduce_sum(ys, axes=(0,)))

    check(powers(inner), [np.int64(2), X, Y], order)


# grad nodes


def test_a_grad_node_and_one_through_it() -> None:
    def function(x: Any, v: Any) -> Any:
        y = reduce_sum(mul(sin(x), exp(x)), axes=(0,))
        one = full(shape=(), value=1.0, dtype=float64)
        first = grad(y, one, x, num_outputs=1)
        along = reduce_sum(mul(first, v), axes=(0,))
        return first, grad(along, one, x, num_outputs=1)

    graph = expand_grads(build(function, [F, F]))
    verify(graph)
    assert all(node.op is not grad for node in graph.walk())
    first, second = interpret(graph, [X, Y])
    np.testing.assert_allclose(first, np.exp(X) * (np.sin(X) + np.cos(X)))
    np.testing.assert_allclose(second, 2 * np.exp(X) * np.cos(X) * Y)


def test_a_grad_node_in_a_loop_is_expanded_and_differentiated_again() -> None:
    def body(x: Any) -> Any:
        y = reduce_sum(mul(sin(x), x), axes=(0,))
        step = grad(y, full(shape=(), value=0.1, dtype=float64), x, num_outputs=1)
        return (sub(x, step),)

    region = build(body, [F])
    graph = build(lambda x: scan(x, regions=(region,), num_carries=1, num_xs=0, length=3, reverse=False), [F])
    expanded = expand_grads(graph)
    verify(expanded)
    x = X
    for _ in range(3):
        x = x - 0.1 * (np.cos(x) * x + np.sin(x))
    np.testing.assert_allclose(interpret(expanded, [X])[0], x)
    check(expanded, [X])


def test_a_graph_without_grad_nodes_is_returned_as_it_is() -> None:
    graph = build(sin, [F])
    assert expand_grads(graph) is graph


# transforms


def assert_halves_agree(graph: Graph, arrays: list[Any]) -> None:
    """The two graphs of ``vjp_graph`` against the joint gradient."""
    forward, back = vjp_graph(graph)
    verify(forward)
    verify(back)
    results = interpret(forward, arrays)
    outputs, residuals = results[: len(graph.outputs)], results[len(graph.outputs) :]
    for have, want in zip(outputs, interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(have, want)
    cotangents = [np.cos(1 + y) for y in outputs if y.dtype == float64]
    builder = GraphBuilder(graph.constraints)
    inputs = [builder.input(value.type) for value in graph.inputs]
    result = builder.emit(call, inputs, {}, (graph,)) if not graph.constraints else ()
    seeds = [value for value in result if value.type.dtype == float64]
    joint = backward(builder, seeds, [builder.input(y.type) for y in seeds], [v for v in inputs if v.dtype == float64])
    wanted = interpret(builder.graph(joint), [*arrays, *cotangents])
    actual = interpret(back, [*residuals, *cotangents])
    assert len(actual) == len(wanted)
    for have, want in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-14)


def test_halves_of_a_graph_with_every_kind_of_control_flow() -> None:
    assert_halves_agree(branches(), [np.bool_(False), X, Y])
    assert_halves_agree(recurrent(3, True), [X, np.ones((3, 3)), WEIGHTS])
    assert_halves_agree(powers(steep), [np.int64(3), X, Y])
    assert_halves_agree(powers(repeated(2)), [np.int64(2), X, Y])


def test_stacks_do_not_leave_the_forward_half() -> None:
    forward, back = vjp_graph(powers(steep))
    loop = next(node for node in forward.nodes if node.op is while_)
    assert len(loop.outputs) == 2
    assert not any(isinstance(value.type, StackType) for value in (*forward.outputs, *back.inputs))


def test_checks_and_prints_stay_in_the_forward_half() -> None:
    def inner(x: Any, y: Any) -> Any:
        ok = lt(reduce_sum(x, axes=(0,)), full(shape=(), value=9.0, dtype=float64))
        ops.check(ok, kind="ValueError", message="too much")
        return steep(x, y)

    region = build(lambda h: (inner(h, h),), [F])
    graph = build(lambda x: scan(x, regions=(region,), num_carries=1, num_xs=0, length=3, reverse=False), [F])
    forward, back = vjp_graph(graph)
    assert [sum(node.op is ops.check for node in half.walk()) for half in (forward, back)] == [1, 0]
    check(powers(inner), [np.int64(3), X, Y], order=2)
    with pytest.raises(ValueError, match="too much"):
        interpret(forward, [np.full(3, 5.0)])

    types = [I, TokenType(), F]
    condition = build(lambda i, order, x: lt(i, int_(3)), types)
    body = build(lambda i, order, x: (add(i, int_(1)), ops.print_(order, format="turn"), mul(sin(x), x)), types)
    loop = build(lambda x: while_(int_(0), ops.token(), x, regions=(condition, body), num_carries=3)[2], [F])
    np.testing.assert_array_equal(
        gradients(loop, [X])[0], gradients(powers(lambda x, y: mul(sin(x), x)), [np.int64(3), X, Y])[0]
    )
    forward, back = vjp_graph(loop)  # the loop is run again in the backward half, in silence
    assert [sum(node.op is ops.print_ for node in half.walk()) for half in (forward, back)] == [1, 0]
    assert not any(isinstance(value.type, TokenType) for node in back.walk() for value in node.outputs)
    assert_halves_agree(loop, [X])


def test_an_eager_loop_is_differentiated() -> None:
    x = jg.asarray(X).requires_grad_()
    condition = build(lambda i, x: lt(i, int_(3)), [I, F])
    body = build(lambda i, x: (add(i, int_(1)), mul(sin(x), x)), [I, F])
    _, y = while_(int_(0), lifting.value_of(x), regions=(condition, body), num_carries=2)
    wrap(reduce_sum(y, axes=(0,))).backward()
    want = gradients(powers(lambda x, y: mul(sin(x), x)), [np.int64(3), X, Y])[0]
    np.testing.assert_allclose(x.grad.numpy(), want)


def test_cheap_values_are_computed_again() -> None:
    graph = build(lambda x, y: exp(sin(mul(x, y))), [F, F])
    both = vjp_halves(graph)
    assert both.forward.outputs == both.forward.outputs[:1]
    assert both.saved_inputs == (0, 1)


def test_a_backward_half_knows_its_sizes() -> None:
    batch = Dim.name("batch")
    graph = build(lambda x: reduce_sum(x, axes=(0, 1)), [TensorType(float64, (batch, 2))])
    assert_halves_agree(graph, [np.ones((5, 2))])


def test_named_sizes_in_control_flow() -> None:
    row = TensorType(float64, (Dim.name("n"),))
    then, otherwise = build(lambda x: mul(sin(x), x), [row]), build(exp, [row])
    graph = build(lambda p, x: cond(p, x, regions=(then, otherwise)), [B, row])
    for order in (1, 2):
        check(graph, [np.bool_(False), X], order)
    condition = build(lambda i, x: lt(i, int_(3)), [I, row])
    body = build(lambda i, x: (add(i, int_(1)), mul(sin(x), x)), [I, row])
    loop = build(lambda x: while_(int_(0), x, regions=(condition, body), num_carries=2)[1], [row])
    for order in (1, 2):
        check(loop, [X], order)
    check(loop, [np.zeros(0)])


@pytest.mark.parametrize(
    ("graph", "arrays"),
    [
        (build(lambda x, y: (mul(sin(x), y), add(x, y)), [F, F]), [X, Y]),
        (branches(), [np.bool_(True), X, Y]),
        (recurrent(3, False), [X, np.ones((3, 3)), WEIGHTS]),
        (powers(steep), [np.int64(3), X, Y]),
    ],
    ids=["straight", "cond", "scan", "while"],
)
def test_jvp_is_the_directional_derivative(graph: Graph, arrays: list[Any]) -> None:
    pushed = jvp_graph(graph)
    verify(pushed)
    tangents = [np.cos(np.asarray(x) * 3) for x in arrays if np.asarray(x).dtype == float64]
    results = interpret(pushed, [*arrays, *tangents])
    count = len(graph.outputs)

    def at(step: float) -> tuple[Any, ...]:
        moving = iter(tangents)
        return interpret(graph, [x + step * next(moving) if np.asarray(x).dtype == float64 else x for x in arrays])

    for have, plus, minus in zip(results[count:], at(1e-6), at(-1e-6), strict=True):
        np.testing.assert_allclose(have, (plus - minus) / 2e-6, rtol=1e-6, atol=1e-8)


def test_gradients_are_asked_of_float_scalars_for_float_inputs() -> None:
    with pytest.raises(ShapeError, match="float scalar"):
        grad_graph(build(sin, [F]))
    with pytest.raises(DTypeError, match="input 0"):
        vjp_graph(build(lambda n, x: sin(x), [I, F]), [0])
