"""Variables for which a graph has no value after a branch or loop: only reading them raises, also where a later
statement may bind them again; what is bound again before it is read means what it means in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg


def lists_of_other_lengths(x, n, m):
    if n > 1:
        out = [x, x]
    else:
        out = [x, x * 2, x]
    out = [x * 3]
    return out  # noqa: RET504


def lists_of_other_lengths_in_a_loop(x, n, m):
    total = x * 0
    for i in range(n):
        if i % 2 == 0:
            out = [x]
            for j in range(3):
                out.append(x * j)  # noqa: PERF401 - a list that grows
        elif m > 0:
            out = [x, x + 1]
        else:
            out = [total]
        out = [total, x]
        total = out[0] + out[-1]
    return total


def a_type_of_one_branch(x, n, m):
    y = x
    if n > 1:
        y = "text"
    z = x + 1
    y = z * 2
    return y  # noqa: RET504


def another_function_on_each_side(x, n, m):
    def twice(v):
        return v * 2

    def half(v):
        return v * 0.5

    if n > 1:
        f = twice
        y = f(x)
    else:
        f = half
        y = f(x) + 1
    f = twice
    return f(y)


def a_list_before_the_loop(x, n, m):
    y = [x]
    i = jg.asarray(0)
    while i < n:
        y = x * 2
        i = i + 1
    y = x + i
    return y  # noqa: RET504


def dropped_before_a_loop(x, n, m):
    if n > 1:
        y = [x]
    else:
        y = (x, x)
    z = x
    for i in range(m):
        y = z + i
        z = y * 0.5
    return z


def dropped_in_a_body(x, n, m):
    z = x
    y = z
    for i in range(m):
        if i > n:
            y = [x]
        else:
            y = {"a": x}
        y = z + i
        z = y * 0.5
    return z


SET_AGAIN = [
    lists_of_other_lengths, lists_of_other_lengths_in_a_loop, a_type_of_one_branch, another_function_on_each_side,
    a_list_before_the_loop, dropped_before_a_loop, dropped_in_a_body,
]  # fmt: skip


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


def operands(n: int, m: int) -> tuple[Any, ...]:
    return jg.asarray(np.arange(3.0)), jg.asarray(n), jg.asarray(m)


@pytest.mark.parametrize("function", SET_AGAIN)
def test_a_variable_that_is_set_again_is_python_s(function: Callable[..., Any]) -> None:
    scripted = jg.script(function)
    for n, m in ((0, 0), (0, 4), (3, 0), (3, 5)):
        mine, due = scripted(*operands(n, m)), function(*operands(n, m))
        assert jg.tree.map_leaves(lambda leaf: leaf.tolist(), mine) == jg.tree.map_leaves(
            lambda leaf: leaf.tolist(), due
        )


def read_after_a_branch(x, n, m):
    if n > 1:  # statement
        out = [x]
    else:
        out = [x, x]
    y = x + 1
    return y + out[0]  # read


def rebound_in_one_branch(x, n, m):
    if n > 1:  # statement
        out = [x]
    else:
        out = [x, x]
    if m > 1:
        out = [x * 2]
    return out[0]  # read


def rebound_in_a_branch_after_functions(x, n, m):
    def first(v):
        return v

    def second(v):
        return v * 2

    if n > 1:  # statement
        f = first
    else:
        f = second
    if m > 1:
        f = x
    return f  # read


def rebound_in_a_branch_after_a_loop(x, n, m):
    y = [x]
    for i in range(n):  # statement
        y = x * i
    if m > 1:
        y = x + 1
    return y  # read


def rebound_in_a_loop(x, n, m):
    if n > 1:  # statement
        y = [x]
    else:
        y = x
    for i in range(m):
        y = x * i
    return y  # read


def read_by_a_later_turn(x, n, m):
    z = x
    y = x
    for i in range(m):
        z = z + y  # read
        if i > n:  # statement
            y = x
        else:
            y = [x]
    return z


def dropped_in_an_endless_loop(x, n, m):
    i = jg.asarray(0)
    while True:
        y = None
        i = i + 1
        if i > n:
            break
    if m > 1:  # statement
        y = x
    return y  # read


def dropped_by_an_operand(x, n, m):
    if n > 1:
        if m > 0:  # statement
            y = [x]
        else:
            y = x
    else:
        y = x
    return y  # read


def dropped_where_the_other_side_raises(x, n, m):
    if m > 5:
        raise ValueError("too large")
    else:  # noqa: RET506 - the side that does not raise
        if n > 1:  # statement
            y = [x]
        else:
            y = x
    return y  # read


READ = [
    read_after_a_branch, rebound_in_one_branch, rebound_in_a_branch_after_functions, rebound_in_a_branch_after_a_loop,
    rebound_in_a_loop, read_by_a_later_turn, dropped_in_an_endless_loop, dropped_by_an_operand,
    dropped_where_the_other_side_raises,
]  # fmt: skip


@pytest.mark.parametrize("function", READ)
def test_reading_it_names_the_line_and_the_statement(function: Callable[..., Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    positions = [f"test_dropped_variables.py:{first + i}" for i, line in enumerate(lines) if "# read" in line]
    with pytest.raises(jg.ScriptError, match=r"the variable '(out|f|y)' ") as error:
        jg.script(function)(*operands(0, 0))
    (statement,) = (first + i for i, line in enumerate(lines) if "# statement" in line)
    text = str(error.value)
    assert "hint:" in text and all(position in text for position in positions)
    assert f"test_dropped_variables.py:{statement}" in text
