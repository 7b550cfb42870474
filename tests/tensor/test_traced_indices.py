"""Indices of a trace that depend on values: masked assignment, slices with traced starts; NumPy is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader

X = np.array([[1.0, -2.0, 3.0, 0.5], [-1.0, 4.0, -0.25, 2.0], [0.0, 9.0, -3.0, 1.0]])
ROWS = np.array([True, False, True])
COLUMNS = np.array([False, True, True, False])
OTHER = np.arange(12.0).reshape(3, 4)


def changed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = x * 1
        result = change(y)
        return y if result is None else result

    return function


def _minus(y: Any) -> None:
    y[y < 0] -= 1


def _scaled_by_vector(y: Any) -> None:
    y[ROWS] *= np.array([1.0, 2.0, 3.0, 4.0])


def _own_elements(y: Any) -> None:
    y[y > 0] = y[y > 0] * 2 - 1


def _of_two_selections(y: Any) -> None:
    mask = y > 0.75
    y[mask] = y[mask] * y[mask] + 3 - y[mask] / 2


def _several(y: Any) -> None:
    mask = y > 1
    y[mask] += 1
    y[~mask] = -y[~mask]
    y[mask] //= 2


def _kept(y: Any) -> None:
    mask = y > 1
    part = y[mask]
    part -= 1
    part *= 3
    y[mask] = part


def _number(y: Any) -> None:
    y[y > 1] = 7


def _row(y: Any) -> None:
    y[ROWS] = np.array([1.0, 2.0, 3.0, 4.0])


def _rows(y: Any) -> None:
    y[ROWS] = OTHER[:2]


def _vector(y: Any) -> None:
    y[y < 0] = np.array([10.0, 20.0, 30.0, 40.0])


def _one(y: Any) -> None:
    y[y < 0] = np.array([5.0])


def _beside(y: Any) -> None:
    y[1, COLUMNS] = 5
    y[:, COLUMNS] = 6
    y[ROWS, 0] = 7
    y[..., COLUMNS] = 8
    y[ROWS, 1:3] = 9
    y[ROWS, ...] = 10


CHANGES = [
    *(
        _minus,
        _scaled_by_vector,
        _own_elements,
        _of_two_selections,
        _several,
        _kept,
        _number,
        _row,
        _rows,
        _vector,
        _one,
    ),
    _beside,
]


@pytest.mark.parametrize("change", CHANGES)
def test_masked_assignment(change: Callable[[Any], Any]) -> None:
    function = changed(change)
    wanted = function(X)
    np.testing.assert_array_equal(function(jg.asarray(X)).numpy(), wanted)
    np.testing.assert_array_equal(jg.trace(function)(jg.asarray(X)).numpy(), wanted)


def test_masks_of_named_sizes_and_in_loops() -> None:
    f = jg.trace(changed(_several), dynamic_shapes={"x": {0: "n"}})
    for n in (3, 1, 2):
        np.testing.assert_array_equal(f(jg.asarray(X[:n])).numpy(), changed(_several)(X[:n]))

    @jg.script
    def rounds(x: Any, n: Any) -> Any:
        y = x * 1
        for _ in range(n):
            y[y > 1] -= 1
        return y

    result = rounds(jg.asarray(X), jg.asarray(4)).numpy()
    wanted = X.copy()
    for _ in range(4):
        wanted[wanted > 1] -= 1
    np.testing.assert_array_equal(result, wanted)


def test_what_is_not_selected_is_not_computed() -> None:
    """Neither a NaN in a gradient nor a value comes from places where the mask does not hold."""

    def loss(x: Any, w: Any) -> Any:
        y = x * 1
        y[y > 0] = jg.sqrt(y[y > 0] - w)
        return jg.sum(y)

    x, w = jg.asarray([4.0, -1.0, 9.0, 0.0]), jg.asarray(1.0)
    wanted = [[0.5 / np.sqrt(3), 1.0, 0.5 / np.sqrt(8), 1.0], -0.5 / np.sqrt(3) - 0.5 / np.sqrt(8)]
    for of in (jg.grad(loss, argnums=(0, 1)), jg.trace(jg.grad(loss, argnums=(0, 1)))):
        for actual, want in zip(of(x, w), wanted, strict=True):
            np.testing.assert_allclose(actual.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[x > 2],
        lambda x: x[x > 2].var(),
        lambda x: x[jg.asarray(ROWS)].sum(1),
        lambda x: jg.sort(x[x > 2]),
        lambda x: x[x > 2].shape,
        lambda x: x[x > 2] + x,
        lambda x: x[x > 2] * x[x > 1],
        lambda x: x[0, x[0] > 2],
        lambda x: [x[x > 2]],
        lambda x: changed(lambda y: y.__setitem__(y > 1, y[y > 2]))(x),
        lambda x: changed(lambda y: y.__setitem__((y[:, 0] > 1, 0), y[0, :3]))(x),
    ],
)
def test_what_needs_the_size_of_a_selection_is_refused(use: Callable[[Any], Any]) -> None:
    with pytest.raises(jg.UnsupportedOp, match=r"a size that [\s\S]*test_traced_indices\.py"):
        jg.trace(use)(jg.asarray(X))


def test_masks_that_do_not_fit() -> None:
    x = jg.asarray(X)
    with pytest.raises(IndexError, match=r"a mask of shape \(2,\) does not fit axes of shape \(3,\)"):
        jg.trace(changed(lambda y: y.__setitem__(jg.asarray([True, False]), 1)))(x)
    f = jg.trace(lambda x, v: changed(lambda y: y.__setitem__(y < 0, v))(x))
    assert f(x, jg.asarray([1.0, 2.0, 3.0, 4.0], dtype=jg.float64)).shape == (3, 4)
    with pytest.raises(ValueError, match="as many elements as are written"):
        f(x, jg.asarray([1.0, 2.0, 3.0], dtype=jg.float64))
    with pytest.raises(jg.ShapeError, match="cannot write"):
        f(x, jg.ones((4, 4, 4), dtype=jg.float64))
    with pytest.raises(jg.DTypeError, match="in-place would turn int64 into float"):
        jg.trace(changed(lambda y: y.__setitem__(y > 0, y[y > 0].__itruediv__(2))))(jg.arange(3))


SLICES: list[Callable[[Any, Any], Any]] = [
    lambda x, i: x[i : i + 2],
    lambda x, i: x[:, i : i + 3],
    lambda x, i: x[i + 1 : i + 2, i : i + 2],
    lambda x, i: x[i : 2 + i, ::-1],
    lambda x, i: x[0, i : i + 3 : 2],
    lambda x, i: x[:, i * 2 : 2 * i + 1],
    lambda x, i: x[..., None, i : i + 1],
    lambda x, i: x[i:i],
    lambda x, i: x[[2, 0], i : i + 2],
    lambda x, i: x[:, i - 0 : 2 * i - (i - 1)],
]


@pytest.mark.parametrize("number", range(len(SLICES)))
def test_slices_with_traced_starts(number: int) -> None:
    cut = SLICES[number]

    def put(x: Any, i: Any) -> Any:
        y = x * 1
        if number == 2:
            y[i + 1 : i + 2, i : i + 2] = -1.0
        elif number == 4:
            y[0, i : i + 3 : 2] += 5
        elif number == 1:
            y[:, i : i + 3] = y[:, :3] * 2
        else:
            y[i : i + 2] -= 1
        return y

    traced, traced_put = jg.trace(cut), jg.trace(put)
    for i in (0, 1):
        index = jg.asarray(i, dtype=jg.int32 if number % 2 else jg.int64)
        np.testing.assert_array_equal(traced(jg.asarray(X), index).numpy(), cut(X, i))
        np.testing.assert_array_equal(cut(jg.asarray(X), index).numpy(), cut(X, i))
        np.testing.assert_array_equal(traced_put(jg.asarray(X), index).numpy(), put(X, i))


def test_windows_in_a_loop_have_gradients() -> None:
    @jg.script
    def smooth(x: Any) -> Any:
        y = jg.zeros((4,), dtype=jg.float64)
        for i in range(jg.asarray(4)):
            y[i] = jg.sum(x[i : i + 3] * x[i : i + 3])
        return jg.sum(y)

    x = np.arange(6.0)
    assert smooth(jg.asarray(x)).item() == sum((x[i : i + 3] ** 2).sum() for i in range(4))
    np.testing.assert_array_equal(jg.grad(smooth)(jg.asarray(x)).numpy(), 2 * x * [1, 2, 3, 3, 2, 1])


def test_slices_that_are_refused() -> None:
    x, i = jg.asarray(X), jg.asarray(1)
    for cut in (
        lambda x, i: x[i:],
        lambda x, i: x[:i],
        lambda x, i: x[i : i * i],
        lambda x, i: x[i:3],
        lambda x, i: x[i + 2 : i : -1],
    ):
        with pytest.raises(jg.UndecidedError, match=r"hint: x\[i:i \+ n\]"):
            jg.trace(cut)(x, i)
    with pytest.raises(IndexError, match="a slice's bound must be an integer"):
        jg.trace(lambda x, i: x[i * 0.5 : i])(x, i)
    f = jg.trace(lambda x, i: x[:, i : i + 3])
    assert f(x, i).shape == (3, 3)
    for outside in (2, -1):
        with pytest.raises(IndexError, match=r"3 elements lies outside axis 1 with size 4[\s\S]*test_traced_indices"):
            f(x, jg.asarray(outside))


@pytest.mark.parametrize("wrap", [lambda f: f, jg.trace], ids=["eager", "trace"])
def test_bools_as_indices(wrap: Any) -> None:
    uses: list[Callable[[Any], Any]] = [
        *(lambda x: x[True], lambda x: x[False], lambda x: x[True, 0], lambda x: x[0, True], lambda x: x[:, False]),
        *(lambda x: x[True, None], lambda x: x[[0, 1], True], lambda x: x[..., np.True_], lambda x: x[True, ..., 0]),
    ]
    for use in uses:
        np.testing.assert_array_equal(wrap(use)(jg.asarray(X)).numpy(), use(X))


def test_masks_of_no_axes() -> None:
    x, yes, no = jg.asarray(X), jg.asarray(True), jg.asarray(False)
    assert x[yes].shape == (1, 3, 4) and x[no].shape == (0, 3, 4)
    scalar = jg.asarray(3.0)
    scalar[scalar > 2] = 5.0
    assert scalar.item() == 5 and scalar[scalar > 9].shape == (0,)
    f = jg.trace(changed(lambda y: y.__setitem__(y > 2, 5.0)))
    assert [f(jg.asarray(v)).item() for v in (3.0, 1.0)] == [5.0, 1.0]
    g = jg.trace(changed(lambda y: y.__setitem__(jg.sum(y) > 0, 5.0)))
    assert [g(jg.asarray([v, 1.0])).tolist() for v in (3.0, -4.0)] == [[5.0, 5.0], [-4.0, 1.0]]
    with pytest.raises(jg.UnsupportedOp, match="a size that depends on values"):
        jg.trace(lambda x: x[jg.sum(x) > 0])(x)


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda y: y.sum(),
    "sum of rows": lambda y: y.sum(0),
    "sum of computed": lambda y: (y * y - 1).sum(),
    "sum in float64": lambda y: jg.sum(y, dtype=jg.float64),
    "mean": lambda y: y.mean(),
    "mean of rows": lambda y: jg.mean(y, 0, keepdims=True),
    "prod": lambda y: (y * 0.5 + 1).prod(),
    "max": lambda y: y.max(),
    "min of rows": lambda y: jg.min(y, axis=0),
    "any": lambda y: (y > 1.5).any(),
    "all": lambda y: jg.all(y > -3, keepdims=True),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
def test_a_reduction_of_a_selection_has_eagers_bits(dtype: str) -> None:
    """Of vectors, of elements and rows of matrices, of many and of few, by names for sizes too."""
    rng = np.random.default_rng(0)

    def reduced(x: Any, mask: Any) -> Any:
        return {name: function(x[mask]) for name, function in REDUCTIONS.items()}

    f = jg.trace(reduced, dynamic_shapes={"x": {0: "n"}, "mask": {0: "n"}})
    for shape, rank in (((7,), 1), ((3000,), 1), ((41, 5), 2), ((700, 3), 1)):
        x = (rng.standard_normal(shape) * 2).astype(dtype)
        for mask in (rng.random(shape[:rank]) < 0.6, np.arange(np.prod(shape[:rank])).reshape(shape[:rank]) == 4):
            expected, actual = reduced(jg.asarray(x), jg.asarray(mask)), f(x, mask)
            for name in REDUCTIONS:
                assert (actual[name].dtype, actual[name].shape) == (expected[name].dtype, expected[name].shape)
                np.testing.assert_array_equal(actual[name].numpy(), expected[name].numpy(), err_msg=name)


def test_a_selection_of_nothing() -> None:
    x, none = jg.asarray(X.astype(np.float32)), np.zeros(X.shape, bool)

    def reduced(x: Any, mask: Any) -> Any:
        return [REDUCTIONS[name](x[mask]) for name in ("sum", "mean", "prod", "any", "all")]

    for own, expected in zip(jg.trace(reduced)(x, none), reduced(x, jg.asarray(none)), strict=True):
        np.testing.assert_array_equal(own.numpy(), expected.numpy())
    assert not np.signbit(jg.trace(reduced)(x, none)[0].numpy())
    with pytest.raises(ValueError, match="max of no elements: the mask selects none"):
        jg.trace(lambda x, mask: x[mask].max())(x, none)


def test_gradients_and_files_of_reduced_selections(tmp_path: Path) -> None:
    def loss(x: Any, y: Any) -> Any:
        return jg.mean(jg.square(jg.sqrt(x)[x > 0.75] - 2)) + y[x > 1].sum() + jg.masked_select(x, y > 2).max()

    x, y = X.astype(np.float32), OTHER.astype(np.float32)
    eager = jg.grad(loss, argnums=(0, 1))(jg.asarray(x), jg.asarray(y))
    traced = jg.trace(jg.grad(loss, argnums=(0, 1)))(x, y)
    for own, expected in zip(traced, eager, strict=True):
        np.testing.assert_array_equal(own.numpy(), expected.numpy())  # NaN of what is not selected nowhere, too
    jg.save(jg.trace(loss), tmp_path / "loss.jg", example_inputs=(x, y))
    saved = loader.load(tmp_path / "loss.jg")
    np.testing.assert_array_equal(saved(x, y), np.asarray(loss(jg.asarray(x), jg.asarray(y))))


def test_the_line_that_selects_is_named() -> None:
    def later(x: Any) -> Any:
        chosen = x[x > 2]
        return jg.sort(chosen)

    line = later.__code__.co_firstlineno + 1
    named = rf"\(x\[mask\] at .*test_traced_indices\.py:{line}\)"
    with pytest.raises(jg.UnsupportedOp, match=rf"{named}[\s\S]*x\[mask\]\.sum\(\)"):
        jg.trace(later)(jg.asarray(X))
