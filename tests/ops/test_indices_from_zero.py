"""Where PyTorch counts from 0 and never from the end: embeddings, class numbers and index_add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.nn import functional

TABLE = jg.asarray(np.arange(12.0, dtype=np.float32).reshape(4, 3))
SCORES = jg.asarray(np.arange(8.0, dtype=np.float32).reshape(2, 4))
LAYER = jg.nn.Embedding(4, 3)

CHOOSING: dict[str, Callable[[Any], Any]] = {
    "embedding": lambda i: functional.embedding(i, TABLE),
    "embedding of one": lambda i: functional.embedding(i[1], TABLE),
    "Embedding": lambda i: LAYER(i),
    "Embedding with padding": lambda i: functional.embedding(i, TABLE, padding_idx=0),
    "embedding of no columns": lambda i: functional.embedding(i, TABLE[:, :0]),
    "index_add": lambda i: jg.index_add(TABLE, 0, i, jg.ones((2, 3))),
    "one_hot": lambda i: functional.one_hot(i, 4),
    "cross_entropy": lambda i: functional.cross_entropy(SCORES, i),
    "nll_loss": lambda i: functional.nll_loss(SCORES, i),
    "cross_entropy with weights": lambda i: functional.cross_entropy(SCORES, i, weight=TABLE[:, 0]),
}
NAMED = [name for name in CHOOSING if name.lower().startswith(("embedding", "index"))]  # the index is in the message


@pytest.mark.parametrize("index", [-1, -4, 4, 2**62, -(2**63)])
@pytest.mark.parametrize("name", CHOOSING)
def test_an_index_that_is_none_raises(name: str, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function = CHOOSING[name]
    good, bad = jg.asarray([3, 0]), jg.asarray([0, index])
    says = rf"index {index} is out of range for an axis of 4 elements" if name in NAMED else "4 classes"
    traced = jg.trace(function)
    traced(good)
    with pytest.raises(IndexError, match=says):
        function(bad)
    with pytest.raises(IndexError, match=says) as caught:
        traced(bad)
    assert isinstance(caught.value, jg.JitgraphError)
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    with pytest.raises(IndexError, match=says):
        jg.trace(function)(bad)


@pytest.mark.parametrize("name", CHOOSING)
def test_a_good_index_gives_the_same_everywhere(name: str) -> None:
    function, good = CHOOSING[name], jg.asarray([3, 0])
    np.testing.assert_allclose(jg.trace(function)(good).detach().numpy(), function(good).detach().numpy(), rtol=1e-6)


def test_the_gradient_of_an_embedding_raises_too() -> None:
    loss = lambda table, i: functional.embedding(i, table).sum()
    for run in (jg.grad(loss), jg.trace(jg.grad(loss))):
        result = run(TABLE, jg.asarray([1, 1]))
        np.testing.assert_array_equal(result.numpy(), [[0] * 3, [2] * 3, [0] * 3, [0] * 3])
    with pytest.raises(IndexError, match="index -1"):
        jg.grad(loss)(TABLE, jg.asarray([1, -1]))


def test_a_negative_row_of_padding_counts_from_the_end() -> None:
    """padding_idx is a number in the program, and PyTorch counts it from the end."""
    gradient = jg.grad(lambda table: functional.embedding(jg.asarray([3, 1]), table, padding_idx=-1).sum())(TABLE)
    np.testing.assert_array_equal(gradient.numpy(), [[0] * 3, [1] * 3, [0] * 3, [0] * 3])


def test_indexing_and_take_count_from_the_end_as_in_numpy() -> None:
    last = TABLE.numpy()[-1]
    for function in (lambda i: TABLE[i], lambda i: jg.take(TABLE, i, axis=0), lambda i: TABLE.index_select(0, i)):
        for run in (function, jg.trace(function)):
            np.testing.assert_array_equal(run(jg.asarray([-1])).numpy()[0], last)
