"""Python ints that a script turned into tensors keep their values, or the graph raises OverflowError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

MANTISSA = 1 << 24


def ops_in(graph: Any) -> set[str]:
    actual, pending = set(), [graph]
    while pending:
        for node in pending.pop().nodes:
            actual.add(node.op.name)
            pending += node.regions
    return actual


def agree(function: Callable[..., Any], *args: Any) -> None:
    """The script gives what the function gives, or both raise OverflowError; an int that leaves int64 raises."""
    inputs = [jg.asarray(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    try:
        due = function(*inputs)
    except OverflowError:
        due = None
    if due is None or (type(due) is int and not -(2**63) <= due < 2**63):
        with pytest.raises(OverflowError, match="a Python int of this loop or branch"):
            jg.script(function)(*inputs)
        return
    mine = jg.script(function)(*inputs)
    assert type(mine) is type(due)
    if isinstance(due, jg.Tensor):
        assert mine.dtype == due.dtype
        mine, due = mine.numpy(), due.numpy()
    np.testing.assert_array_equal(mine, due)


def counted(start: int, step: int, n: Any) -> Any:
    k = start
    for _ in range(n):
        k = k + step
    return k


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_an_int_that_meets_a_tensor_is_held_or_raises(n: int) -> None:
    for dtype, start, step in (
        ("float32", MANTISSA, 1),
        ("float32", -MANTISSA, -1),
        ("float64", 1 << 53, 1),
        ("float16", 60000, 3000),
        ("int8", 100, 13),
        ("uint8", 10, -5),
        ("uint64", 1, -1),
        ("int32", 2**31 - 2, 1),
    ):
        x = np.ones(2, dtype)

        def add(x: Any, n: Any, start: int = start, step: int = step) -> Any:
            return x + counted(start, step, n)

        agree(add, x, np.array(n))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 38, 39, 40, 60])
def test_ints_that_leave_int64_raise(n: int) -> None:
    def times(n: Any) -> Any:
        k = 1
        for _ in range(n):
            k = k * 3
        return k

    def product(n: Any) -> Any:
        k = 1
        for i in range(n):
            k = k * (i + 1 - 2 * i)
        return k

    def sums(n: Any) -> Any:
        k, least, down = 2**63 - 3, -(2**63) + 2, 0
        for _ in range(n):
            k = k + 1
            least = least - 1
            down = -5 - down
        return k

    def doubled(n: Any) -> Any:
        k = 1 << 40
        for i in range(n):
            k = k + k
            k = k - i
        return k

    for function in (times, product, sums, doubled):
        agree(function, np.array(n))


def test_arithmetic_of_numbers_alone_is_that_of_python() -> None:
    def f(n: Any) -> Any:
        k, mixed = 1, [1, 2.5, 3]
        for _ in range(n):
            k = k * 3
            mixed[0], mixed[1], mixed[2] = mixed[0] + 1, mixed[1] + mixed[0], mixed[2] * 2
        return [k / 7, float(k) * 0.5, k // 5 - k % 7, *mixed]

    scripted = jg.script(f)
    for n in (0, 3, 39):
        mine, due = scripted(jg.asarray(n)), f(jg.asarray(n))
        assert mine == due and list(map(type, mine)) == list(map(type, due))


def test_the_number_of_a_step_is_not_checked_where_it_always_fits() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(100):
            x = x + i * 2 + (i + 1)
        for j in range(n):
            x = x - j
        return x

    x = jg.ones(2)
    assert "check" not in ops_in(jg.script(lambda x: f(x, 3)).lower(x).graph)
    assert "check" not in ops_in(jg.script(f).lower(x, jg.asarray(3)).graph)  # a float tensor rounds every int
    assert "check" in ops_in(jg.script(f).lower(x.astype(jg.int8), jg.asarray(3)).graph)

    def g(x: Any, n: Any) -> Any:
        for j in range(n):
            x = x * 0 + (j + (MANTISSA - 2))
        return x

    for n in (0, 3, 4, 5):
        agree(g, np.ones(2, np.float32), np.array(n))
