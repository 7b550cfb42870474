"""Indices with tensors and arrays outside of traces: what NumPy applies at once is what the general way gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tensor import direct_indexing, indexing


def _index(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A random index of ints, slices, arrays with places named twice and from the end, masks, None and ``...``."""
    items: list[Any] = []
    axis = 0
    while axis < len(shape):
        size, kind = shape[axis], rng.integers(0, 7)
        if kind == 0:
            items.append(slice(*(None if rng.random() < 0.4 else int(rng.integers(-size - 1, size + 2)) for _ in "ab")))
        elif kind == 1:
            items.append(int(rng.integers(-size, size)))
        elif kind in (2, 3):
            picks = rng.integers(-size, size, tuple(rng.integers(1, 4, rng.integers(1, 3))))
            items.append(picks if rng.random() < 0.7 else np.asfortranarray(picks))
        elif kind == 4:
            items.append(rng.random(size) < 0.5)
        elif kind == 5 and axis + 2 <= len(shape):
            items.append(rng.random(shape[axis : axis + 2]) < 0.5)
            axis += 1
        else:
            items.append(None)
            continue
        axis += 1
        if rng.random() < 0.2:
            break
    return tuple(jg.asarray(item) if isinstance(item, np.ndarray) and rng.random() < 0.5 else item for item in items)


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_general_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    taken = 0
    for _ in range(20):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
        array = rng.standard_normal(shape).astype(rng.choice(["f4", "i8", "c8"]))
        index = _index(rng, shape)
        x = jg.asarray(array if rng.random() < 0.7 else np.asfortranarray(array))
        try:
            with monkeypatch.context() as patch:
                patch.setattr(direct_indexing, "get", lambda x, index: None)
                expected = indexing.get(x.value, index).array
        except (IndexError, jg.ShapeError):  # arrays that do not broadcast
            with pytest.raises((IndexError, jg.ShapeError)):
                x[index]
            continue
        result = direct_indexing.get(x, index)
        if result is not None:
            taken += 1
            assert result.array.flags.c_contiguous
            np.testing.assert_array_equal(result.array, expected, strict=True)
        np.testing.assert_array_equal(x[index].numpy(), expected, strict=True)
        new = np.asarray(rng.standard_normal(expected.shape if rng.random() < 0.7 else ()))
        _write_both_ways(x, index, new.astype(array.dtype), monkeypatch)
    assert taken > 5


def _write_both_ways(x: jg.Tensor, index: Any, new: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    before, by_numpy, generally = x.numpy().copy(), x.clone(), x.clone()
    by_numpy[index] = new
    with monkeypatch.context() as patch:
        patch.setattr(direct_indexing, "put", lambda value, index, filler: None)
        generally[index] = new
    np.testing.assert_array_equal(by_numpy.numpy(), generally.numpy(), strict=True)
    np.testing.assert_array_equal(x.numpy(), before)


def test_the_last_of_several_writes_stays() -> None:
    rng = np.random.default_rng(3)
    for shape in [(1000,), (40, 25), (10, 10, 10)]:
        for order in "CF":
            picks = np.asarray(rng.integers(0, 50, shape), order=order)
            for rows in ((), (3,), (64,)):
                new = np.asarray(rng.standard_normal((*shape, *rows)), order="F")
                x = jg.zeros((50, *rows), dtype=jg.float64)
                x[picks] = new
                expected = np.zeros((50, *rows))
                for position in np.ndindex(shape):
                    expected[picks[position]] = new[position]
                np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize(
    "index", [np.array([2**64 - 1], np.uint64), np.array([5]), np.array([-6]), np.array([[True]]), np.array([0.0])]
)
def test_what_numpy_takes_otherwise_is_refused(index: Any) -> None:
    x = jg.arange(5)
    with pytest.raises(IndexError):
        x[index]
    with pytest.raises(IndexError):
        x[index] = 1
    np.testing.assert_array_equal(x.numpy(), np.arange(5))


def test_gradients_go_the_general_way() -> None:
    x = jg.asarray([1.0, 2.0, 3.0], requires_grad=True)
    (x[np.array([0, 0, 2])] * jg.asarray([1.0, 2.0, 4.0])).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 0.0, 4.0])
    y = jg.zeros(3)
    y[jg.asarray([True, False, True])] = x[1:]
    assert y.requires_grad


def test_the_result_is_memory_of_its_own() -> None:
    array = np.arange(6.0)
    x = jg.asarray(array, copy=False)
    y = x[np.array([1, 2])]
    kept = y.numpy().copy()
    array[:] = -1.0
    np.testing.assert_array_equal(y.numpy(), kept)
