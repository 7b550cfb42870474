"""Reading and writing by index, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgraph as jg

SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


@st.composite
def slices(draw: Any, size: int) -> slice:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 1, 2, 3, -1, -2])))


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index that fits the shape, of every kind of item; integer arrays and masks broadcast together."""
    common = draw(st.sampled_from([(2,), (1,), (2, 1), (3,), (0,), ()]))
    items: list[Any] = []
    axis = 0
    masked = False
    while axis < len(shape):
        size = shape[axis]
        kind = draw(st.sampled_from(["slice", "slice", "int", "array", "none", "mask", "stop"]))
        if kind == "stop":
            break
        if kind == "none":
            items.append(None)
            continue
        if kind == "mask" and not masked:
            masked = True
            kept = draw(st.lists(st.booleans(), min_size=size, max_size=size))
            if sum(kept) in (1, 2) and common in ((), (1,), (sum(kept),)):
                items.append(np.array(kept, bool))
                axis += 1
                continue
        if size and kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif size and kind == "array":
            flat = draw(st.lists(st.integers(-size, size - 1), min_size=int(np.prod(common)), max_size=4))
            items.append(np.array(flat[: int(np.prod(common))], np.int64).reshape(common))
        else:
            items.append(draw(slices(size)))
        axis += 1
    if draw(st.booleans()):
        # before or after everything: which places in between it may take depends on the axes left
        items.insert(len(items), Ellipsis)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def cases(draw: Any) -> tuple[np.ndarray, Any]:
    shape = draw(SHAPES)
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape), draw(indices(shape))


def translated(index: Any) -> Any:
    """Arrays as tensors, so that both kinds of operand are met."""
    if isinstance(index, tuple):
        return tuple(map(translated, index))
    return jg.asarray(index) if isinstance(index, np.ndarray) and index.size % 2 else index


@settings(max_examples=150)
@given(cases())
def test_get_is_that_of_numpy(case: tuple[np.ndarray, Any]) -> None:
    array, index = case
    expected = np.asarray(array[index])
    result = jg.asarray(array)[translated(index)].numpy()
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


@settings(max_examples=150)
@given(cases(), st.sampled_from(["scalar", "whole", "row"]))
def test_put_is_that_of_numpy(case: tuple[np.ndarray, Any], kind: str) -> None:
    array, index = case
    location = np.asarray(array[index])
    new: Any = -1.5
    if kind == "whole":
        new = -1 - np.arange(location.size, dtype=np.float32).reshape(location.shape)
    elif kind == "row" and location.ndim:
        new = -1 - np.arange(location.shape[-1], dtype=np.float64)[None]
        if location.ndim == 1:
            new = new[0]
    expected = array.copy()
    expected[index] = new
    x = jg.asarray(array)
    x[translated(index)] = new
    assert x.dtype == jg.float32
    if not _writes_twice(array, index):
        np.testing.assert_array_equal(x.numpy(), expected)


def _writes_twice(array: np.ndarray, index: Any) -> bool:
    """NumPy leaves open which of several writes to one place stays."""
    positions = np.asarray(np.arange(array.size).reshape(array.shape)[index])
    return len(np.unique(positions)) < positions.size


def test_ellipsis_between_integers_moves_their_axes_to_the_front() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    for index in [(0, slice(None), [1, 2]), (0, ..., [1, 2]), (slice(None), 0, [1, 2]), ([0, 1], ..., [1, 2])]:
        np.testing.assert_array_equal(jg.asarray(array)[index].numpy(), array[index])
    np.testing.assert_array_equal(jg.asarray(array[0])[0, ..., [1, 2]].numpy(), array[0][0, ..., [1, 2]])


def test_of_two_writes_to_one_place_the_last_stays() -> None:
    x = jg.zeros((3,))
    x[[1, 1, 1]] = np.array([1.0, 2.0, 3.0], np.float32)
    assert x.tolist() == [0.0, 3.0, 0.0]


def test_masks() -> None:
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = jg.asarray(array)
    np.testing.assert_array_equal(x[x > 2].numpy(), array[array > 2])
    x[x > 2] = 0.0
    assert x.sum().item() == 3.0
    x[jg.asarray([True, False])] = np.array([7.0, 8.0, 9.0])
    assert x.tolist() == [[7.0, 8.0, 9.0], [0.0, 0.0, 0.0]]
    x[jg.asarray([[True, False, True], [False] * 3])] = np.array([1.0, 2.0])
    assert x[0].tolist() == [1.0, 8.0, 2.0]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (3, "index 3 is out of range for axis 0 with size 3"),
        ((0, -5), "index -5 is out of range for axis 1"),
        (1.5, "must be an integer"),
        (np.array([0.5]), "not float64"),
        ((0, 0, 0), "3 indices for a tensor of rank 2"),
        ((..., ...), "only one"),
        ([0, 3], "index 3 is out of range"),
        (([0, 3], [0, 0]), "out of range for axis 0 with size 3"),
        (np.ones(2, bool), r"a mask of shape \(2,\) does not fit axes of shape \(3,\)"),
    ],
)
def test_what_is_no_index_is_refused(index: Any, message: str) -> None:
    x = jg.zeros((3, 4))
    with pytest.raises(IndexError, match=message):
        x[index]
    with pytest.raises(IndexError, match=message):
        x[index] = 1.0
    assert x.sum().item() == 0.0


def test_a_size_is_an_index_of_a_named_axis() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}, "y": {0: "m"}})
    def f(x: Any, y: Any) -> Any:
        return x[x.shape[0] - 1], x[y.shape[0]]

    for n, m in ((5, 3), (9, 8), (2, 0)):
        assert [value.item() for value in f(jg.arange(n), jg.zeros(m))] == [n - 1, m]
    with pytest.raises(IndexError, match="index m is out of range for axis 0 with size n"):
        f(jg.arange(5), jg.zeros(5))


@pytest.mark.parametrize("wrap", [lambda f: f, jg.trace])
def test_a_float_is_no_index_in_a_trace_either(wrap: Any) -> None:
    with pytest.raises(IndexError, match="not float"):
        wrap(lambda x: x[1.0])(jg.ones(3))


def test_what_does_not_fit_its_place_is_refused() -> None:
    x = jg.zeros((3, 4))
    with pytest.raises(jg.ShapeError, match=r"cannot write f32\[2\] to a place of shape \(4,\)"):
        x[0] = jg.zeros((2,))
    with pytest.raises(jg.ShapeError, match="cannot write"):
        x[0] = jg.zeros((2, 4))
    with pytest.raises(jg.DTypeError, match=r"1\.5 does not fit int64"):
        jg.zeros((3,), dtype=jg.int64)[0:1] = 1.5
    with pytest.raises(OverflowError, match="300 does not fit uint8"):
        jg.zeros((3,), dtype=jg.uint8)[0:1] = 300


def test_gradients_of_reading_and_writing() -> None:
    x = jg.asarray(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (x[[0, 0, 1], [1, 1, 2]] * jg.asarray([1.0, 2.0, 4.0], dtype=jg.float64)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0.0, 3.0, 0.0], [0.0, 0.0, 4.0]]
    new = jg.asarray([5.0, 6.0], dtype=jg.float64, requires_grad=True)
    for index in [(slice(None), 0), (slice(None), slice(0, 1)), ([0, 1], [0, 0])]:
        y = x.detach().requires_grad_()
        z = y * 1.0
        z[index] = new.reshape(2, 1) if isinstance(index[1], slice) else new
        result = jg.autograd.grad((z * z).sum(), [y, new])
        assert result[0] is not None and result[0].tolist() == [[0.0, 2.0, 4.0], [0.0, 8.0, 10.0]]
        assert result[1] is not None and result[1].tolist() == [10.0, 12.0]


def test_zero_dimensional_tensors_are_indices_and_bounds() -> None:
    x = jg.arange(10)
    one, four = jg.asarray(1), jg.asarray(4)
    assert x[one].item() == 1 and x[one].shape == ()
    assert x[one:four].tolist() == [1, 2, 3]
    x[four] = 0
    assert x[4].item() == 0
    assert [row.item() for row in x[:3]] == [0, 1, 2]


def test_along_an_axis_in_a_trace() -> None:
    x, at = np.arange(6.0).reshape(2, 3), np.array([[1, 0, 1], [0, 0, 1]])
    for axis, names in (0, {}), (-2, {"x": {1: "n"}, "at": {1: "n"}}), (1, {}):
        traced = jg.trace(lambda x, at, k=axis: jg.take_along_axis(x, at, axis=k), dynamic_shapes=names or None)(x, at)
        assert np.array_equal(traced.numpy(), np.take_along_axis(x, at, axis))
