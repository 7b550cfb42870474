"""NumPy arrays and builtin sequences that a script indexes by what a graph computes, against Python on NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

TABLE = np.arange(12.0).reshape(4, 3) * 2
ROW = np.arange(5)
NUMBERS = [10, 20, 30]


def by_argument(i: Any) -> Any:
    return TABLE[i], TABLE[i, 1], TABLE[i][2], TABLE[:, 1][i], ROW[i] * 2


def by_counter(n: Any) -> Any:
    total = 0.0
    for i in range(n):
        total = total + TABLE[i, i % 3] + TABLE[-1 - i][0] + ROW[i : i + 2].sum()
    return total


def by_while(n: Any) -> Any:
    i, total = 0, 0
    while i < n:
        total = total + ROW[i]
        i += 1
    return total


def of_own(n: Any) -> Any:
    own, total = np.zeros(3), 0.0
    for i in range(n):
        total = total + own[i]
    own[0] = 5.0
    for i in range(n):
        total = total + own[i]
    return total


def in_branch(i: Any) -> Any:
    return TABLE[i, 0] if i > 1 else TABLE[0, i]


@pytest.mark.parametrize("function", [by_argument, by_counter, by_while, of_own, in_branch])
@pytest.mark.parametrize("i", [0, 2, 3])
def test_arrays_are_gathered_from(function: Callable[[Any], Any], i: int) -> None:
    actual, expected = jg.script(function)(jg.asarray(i)), function(i)
    assert np.asarray(jg.tree.flatten(actual)[0][0]).dtype == np.asarray(jg.tree.flatten(expected)[0][0]).dtype
    for one, other in zip(jg.tree.flatten(actual)[0], jg.tree.flatten(expected)[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_indices_with_axes_and_in_tuples() -> None:
    indices = np.array([[0, 3], [2, 1]])

    def taken(i: Any) -> Any:
        return TABLE[i], TABLE[i, 0], TABLE[i, i % 3], TABLE[..., i % 3], TABLE[None, i]

    for actual, expected in zip(jg.script(taken)(indices), taken(indices), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_under_vmap_and_grad() -> None:
    np.testing.assert_array_equal(jg.vmap(jg.script(lambda i: TABLE[i]))(jg.asarray([1, 3])), TABLE[[1, 3]])
    inside = jg.script(lambda i: jg.vmap(lambda one: TABLE[one, 2])(i))
    np.testing.assert_array_equal(inside(jg.asarray([1, 3])), TABLE[[1, 3], 2])
    slope = jg.trace(jg.grad(jg.script(lambda x, i: (TABLE[i] * x).sum())))
    np.testing.assert_array_equal(slope(jg.ones(3, dtype=jg.float64), jg.asarray(2)), TABLE[2])


def test_arrays_are_read_at_each_call() -> None:
    for size in (4, 20_000):  # a constant of the graph, and an input
        array = np.arange(float(size))

        @jg.script
        def element(i: Any, array: Any = array) -> Any:
            return array[i]

        i = jg.asarray(1)
        assert element(i).item() == 1
        array[1] = 100
        assert element(i).item() == 100


def test_an_index_out_of_range_raises() -> None:
    element = jg.script(lambda i: ROW[i])
    assert element(jg.asarray(-1)).item() == 4
    for i in (5, -6):
        with pytest.raises(IndexError):
            element(jg.asarray(i))


def test_sequences_take_integer_tensors_as_indices() -> None:
    tensors = [jg.ones(2), jg.zeros(2)]

    @jg.script
    def elements(i: Any) -> Any:
        return NUMBERS[i], (1.5, 2.5)[i], range(5, 9)[i], tensors[i]

    for i in (0, 1, -1, -2):
        numbers = elements(jg.asarray(i))
        assert numbers[:3] == (NUMBERS[i], (1.5, 2.5)[i], range(5, 9)[i])
        np.testing.assert_array_equal(numbers[3], tensors[i])
    with pytest.raises(IndexError):
        elements(jg.asarray(2))


def test_a_write_to_an_array_names_the_line_and_the_way_out() -> None:
    def by_value(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]  # here
        return out

    def by_place(x: Any) -> Any:
        out = np.zeros(3)
        for i in range(jg.asarray(2)):
            out[i] = 1.0  # here
        return out

    for function in (by_value, by_place):
        with pytest.raises(jg.ScriptError, match=r"out = jg\.zeros\(shape\) in place of np\.zeros\(shape\)") as caught:
            jg.script(function)(jg.ones(3))
        assert caught.value.location is not None
        with open(__file__) as file:
            assert "# here" in file.read().split("\n")[caught.value.location.line - 1]
