"""Stacks in schedules: what branches make is one stack after them, and loops go on with the stack they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.compiler import compile
from jitgraph.dtypes import bool_, float64, int64
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import StackType, TensorType, Type
from jitgraph.ops import add, cond, full, lt, mul, stack_new, stack_pop, stack_push, while_
from jitgraph_testing.kernels.schedule_executor import execute_schedule

FLAG, NUMBER, COUNT = TensorType(bool_, ()), TensorType(float64, ()), TensorType(int64, ())
STACK = StackType(NUMBER)


def region(types: Sequence[Type], body: Callable[..., Any]) -> Graph:
    return build(body, types)


def empty() -> Any:
    return stack_new(shape=(), dtype=float64)


def filled(x: Any, factor: float) -> Any:
    """A new stack of two numbers."""
    scaled = mul(x, full(shape=(), value=factor, dtype=float64))
    return stack_push(stack_push(empty(), scaled), add(scaled, x))


def drained(stack: Any) -> Any:
    stack, last = stack_pop(stack)
    _, first = stack_pop(stack)
    return add(mul(last, last), first)


def made_in_branches(flag: Any, x: Any) -> Any:
    return drained(cond(flag, x, regions=[region([NUMBER], lambda x, k=k: filled(x, k)) for k in (3.0, 5.0)]))


def made_in_a_branch_of_a_branch(flag: Any, x: Any) -> Any:
    """The stacks are used inside branches and loops of the second side."""

    def looped(x: Any) -> Any:
        def turn(i: Any, stack: Any, x: Any) -> Any:
            return add(i, full(shape=(), value=1, dtype=int64)), stack_push(stack, mul(x, x)), x

        types = [COUNT, STACK, NUMBER]
        goes_on = region(types, lambda i, stack, x: lt(i, full(shape=(), value=2, dtype=int64)))
        start = full(shape=(), value=0, dtype=int64)
        return while_(start, empty(), x, regions=[goes_on, region(types, turn)], num_carries=3)[1]

    def inner(x: Any) -> Any:
        return cond(
            lt(x, full(shape=(), value=9.0, dtype=float64)),
            x,
            regions=[region([NUMBER], looped), region([NUMBER], lambda x: filled(x, 7.0))],
        )

    sides = [region([NUMBER], lambda x: filled(x, 2.0)), region([NUMBER], inner)]
    return drained(cond(flag, x, regions=sides))


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("x", [0.5, 10.0])
@pytest.mark.parametrize("program", [made_in_branches, made_in_a_branch_of_a_branch])
def test_branches_that_make_a_stack_each(program: Any, x: float, flag: bool) -> None:
    graph = build(program, [FLAG, NUMBER])
    arrays = [np.asarray(flag), np.asarray(x)]
    (wanted,) = interpret(graph, arrays)
    schedule = select(graph, CPU)
    assert len(schedule.stacks) == 1
    assert execute_schedule(schedule, arrays)[0] == wanted
    assert compile(graph).run(arrays)[0] == wanted


def test_a_stack_from_outside_and_another_are_not_one() -> None:
    def program(flag: Any, x: Any) -> Any:
        inputs = filled(x, 2.0)
        kept = region([NUMBER, STACK], lambda x, stack: stack)
        result = region([NUMBER, STACK], lambda x, stack: filled(x, 3.0))
        return drained(cond(flag, x, inputs, regions=[kept, result]))

    with pytest.raises(UnsupportedOp, match="one branch goes on with a stack that it is given") as caught:
        select(build(program, [FLAG, NUMBER]), CPU)
    assert "hint: make the stack before the branch" in str(caught.value)


def test_a_loop_goes_on_with_its_stack() -> None:
    def program(x: Any) -> Any:
        def turn(i: Any, stack: Any, x: Any) -> Any:
            return add(i, full(shape=(), value=1, dtype=int64)), filled(x, 3.0), x

        types = [COUNT, STACK, NUMBER]
        goes_on = region(types, lambda i, stack, x: lt(i, full(shape=(), value=2, dtype=int64)))
        start = full(shape=(), value=0, dtype=int64)
        return drained(while_(start, filled(x, 2.0), x, regions=[goes_on, region(types, turn)], num_carries=3)[1])

    with pytest.raises(UnsupportedOp, match="a loop goes on with another stack"):
        select(build(program, [NUMBER]), CPU)
