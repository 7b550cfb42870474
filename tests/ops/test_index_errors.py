"""An index out of range is an IndexError and a JitgraphError however the code runs, and no unsigned one wraps round."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

X = np.arange(12, dtype=np.float32).reshape(3, 4)
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "index": lambda x, i: x[i],
    "second axis": lambda x, i: x[:, i],
    "two indices": lambda x, i: x[i, i],
    "put": lambda x, i: _put(x, i),
    "take": lambda x, i: jg.take(x, i, axis=0),
    "take_along_axis": lambda x, i: jg.take_along_axis(x, i.reshape((1, -1)), axis=0),
    "index_select": lambda x, i: jg.index_select(x, 0, i),
    "index_add": lambda x, i: jg.index_add(x, 0, i, jg.ones((1, 4))),
    "embedding": lambda x, i: jg.nn.functional.embedding(i, x),
    "one_hot": lambda x, i: jg.nn.functional.one_hot(i, 3),
    "cross_entropy": lambda x, i: jg.nn.functional.cross_entropy(x[:1], i),
}
RUNS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda f: f,
    "compiled": jg.trace,
    "script": jg.script,
}


def _put(x: Any, i: Any) -> Any:
    x = x + 0
    x[i] = 1.0
    return x


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("way", WAYS)
def test_an_index_out_of_range_raises_one_kind_of_error(
    way: str, run: str, interpret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if interpret:
        monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    function = WAYS[way]

    def apply(x: Any, i: Any) -> Any:
        return function(x, i)

    called = RUNS[run](apply)
    for index in (4, -5):
        with pytest.raises(IndexError) as caught:
            called(jg.asarray(X), jg.asarray(np.array([index])))
        assert isinstance(caught.value, jg.JitgraphError)


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("run", ["eager", "compiled"])
@pytest.mark.parametrize("way", WAYS)
def test_the_greatest_of_an_unsigned_dtype_is_no_negative_index(way: str, run: str, dtype: str) -> None:
    function = WAYS[way]

    def apply(x: Any, i: Any) -> Any:
        return function(x, i)

    called = RUNS[run](apply)
    called(jg.asarray(X), jg.asarray(np.array([2], dtype)))
    for number in (np.iinfo(dtype).max, np.iinfo(dtype).max - 1, np.iinfo(dtype).max // 2 + 1):
        with pytest.raises(IndexError) as caught:
            called(jg.asarray(X), jg.asarray(np.array([number], dtype)))
        assert isinstance(caught.value, jg.JitgraphError)


@pytest.mark.parametrize("run", ["eager", "compiled"])
@pytest.mark.parametrize("index", [2**64 - 1, 2**64, -(2**64), np.uint64(2**64 - 1), [2**64 - 1], (0, 2**64 - 1)])
def test_python_integers_beyond_the_axis(index: Any, run: str) -> None:
    with pytest.raises(IndexError, match="out of range") as caught:
        RUNS[run](lambda x: x[index])(jg.asarray(X))
    assert isinstance(caught.value, jg.JitgraphError)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("way", ["index", "put", "index_add"])
def test_an_index_into_rows_without_elements_is_checked(way: str, run: str) -> None:
    """Nothing is read or written there, but a gather or scatter with the index is wrong all the same."""
    function = WAYS[way] if way != "index_add" else lambda x, i: jg.index_add(x, 0, i, jg.ones((1, 0)))
    with pytest.raises(IndexError, match="out of range"):
        RUNS[run](function)(jg.asarray(X[:, :0]), jg.asarray([7]))


def test_slices_with_unsigned_bounds_are_those_of_numpy() -> None:
    x = jg.asarray(X)
    for bound in (np.uint64(2**64 - 1), np.uint8(255), np.uint32(2)):
        np.testing.assert_array_equal(x[:bound].numpy(), X[:bound])
        np.testing.assert_array_equal(x[bound:].numpy(), X[bound:])


def test_eager_and_compiled_code_say_the_same() -> None:
    messages = []
    for called in (lambda x, i: jg.take(x, i, axis=0), jg.trace(lambda x, i: jg.take(x, i, axis=0))):
        with pytest.raises(jg.IndexingError.__bases__[1]) as caught:  # the class that compiled code raises
            called(jg.asarray(X), jg.asarray([7]))
        messages.append(str(caught.value).splitlines()[0])
    assert messages == ["gather: index 7 is out of range for an axis of 3 elements"] * 2


def test_malformed_indices_are_errors_of_both_kinds() -> None:
    x = jg.asarray(X)
    for index in (1.5, (0, 0, 0), (..., ...), "a", jg.asarray([1.5])):
        with pytest.raises(IndexError) as caught:
            x[index]
        assert isinstance(caught.value, jg.JitgraphError), index


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", [*WAYS, "pow"])
def test_a_failed_check_names_the_line_and_comes_back_from_a_pickle(name: str, run: str) -> None:
    way = WAYS.get(name, lambda x, i: i ** (-i))
    with pytest.raises((IndexError, ValueError)) as caught:
        RUNS[run](way)(jg.asarray(X), jg.asarray([7]))
    assert re.search(r"\n  at \S*test_index_errors\.py:\d+", str(caught.value))
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
