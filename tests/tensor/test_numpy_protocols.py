"""Code written for NumPy runs on tensors, eagerly and traced, and gives NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tensor.functions.numpy_functions import FORMS

X = np.array([[0.5, -1.25, 3.0, 0.0], [2.0, 0.25, -0.5, 1.0], [1.5, 1.5, 4.0, -2.0]])
V = np.array([2.0, -1.0, 0.5, 3.0])
PLACES = np.array([[3, 1, 2], [0, 5, 2]])

UFUNCS: dict[str, Callable[..., Any]] = {
    "unary": lambda x: [
        *(np.sin(x), np.exp(x), np.abs(x), np.fabs(x), np.negative(x), np.rint(x), np.floor(x), np.sign(x)),
        *(np.arctan(x), np.tanh(x), np.square(x), np.isnan(x), np.isfinite(x), np.signbit(x), np.log1p(np.abs(x))),
        *(np.logical_not(x), np.reciprocal(x + 9), np.sqrt(np.abs(x)), np.arcsinh(x), np.positive(x), np.expm1(x)),
    ],
    "binary": lambda x: [
        *(np.add(x, V), np.add(V, x), np.maximum(x, 0.5), np.minimum(V, x), np.power(np.abs(x), 2.0)),
        *(np.arctan2(x, V), np.hypot(V, x), np.logaddexp(x, x), np.copysign(x, V), np.greater(x, V), np.divide(x, V)),
        *(np.logical_and(x, V), np.float64(2) * x, V @ x.T, np.subtract(1, x), np.true_divide(x, 4), np.mod(x, 2)),
    ],
    "methods": lambda x: [
        *(np.add.reduce(x), np.add.reduce(x, axis=1, keepdims=True), np.multiply.reduce(x, axis=None)),
        *(np.maximum.reduce(x, axis=-1), np.logical_and.reduce(x), np.add.accumulate(x), np.maximum.accumulate(x, 1)),
        *(np.subtract.outer(x[0], V), np.multiply.accumulate(x, axis=-1), np.minimum.reduce(x, axis=(0, 1))),
    ],
    "dtype": lambda x: [
        np.add(x, 1, dtype=np.float32),
        np.add.reduce(np.asarray(PLACES), dtype=np.int16) * np.sign(x[:2, :3]),
    ],
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "reductions": lambda x: [
        *(np.sum(x), np.sum(x, 0), np.sum(x, axis=1, keepdims=True), np.prod(x, axis=1), np.mean(x, (0, 1))),
        *(np.std(x), np.std(x, axis=0, ddof=1), np.var(x, 1, ddof=0), np.max(x), np.min(x, axis=1), np.amax(x, 0)),
        *(np.all(x, axis=0), np.any(x, 1, keepdims=True), np.argmax(x), np.argmin(x, axis=1), np.mean(x, dtype="f4")),
        *(np.cumsum(x), np.cumsum(x, axis=1), np.cumprod(x, axis=0), np.count_nonzero(x, axis=0)),
    ],
    "shapes": lambda x: [
        *(np.reshape(x, (4, 3)), np.reshape(x, -1), np.ravel(x), np.transpose(x), np.transpose(x, (0, 1))),
        *(np.expand_dims(x, 0), np.expand_dims(x, (0, 3)), np.squeeze(x[:, None]), np.swapaxes(x, 0, 1)),
        *(np.moveaxis(x, 0, 1), np.broadcast_to(x, (2, 3, 4)), np.flip(x, 1), np.roll(x, 1, axis=0), np.tile(x, 2)),
        *(np.repeat(x, 2, axis=1), np.copy(x), np.tril(x), np.triu(x, 1), np.pad(x, 1), np.pad(x, ((0, 1), (2, 0)))),
        *np.broadcast_arrays(x, V),
        np.pad(x, 2, constant_values=7.0),
    ],
    "joining": lambda x: [
        *(np.concatenate([x, x]), np.concatenate((x, X), axis=1), np.stack([x, x], axis=-1), np.vstack([x, V])),
        *(np.hstack([x, X]), np.hstack([x[0], V]), np.vstack([x[0], V]), np.concatenate([x, x], axis=None)),
        *(*np.split(x, 3), *np.split(x, [1, 3], axis=1), *np.array_split(x, 3, axis=1), *np.split(x, 2, 1)),
    ],
    "choosing": lambda x: [
        *(np.where(x > 0, x, 0.0), np.where(X > 0, x, V), np.clip(x, 0, 1), np.clip(x, None, 1)),
        np.clip(x, a_min=0, a_max=2),
        *(np.take(x, [0, 2], axis=1), np.take(x, PLACES), np.round(x, 1), np.around(x), np.round(x * 100, -1)),
        *(np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None), np.argsort(x, axis=1, kind="stable"), np.diff(x)),
        *(np.diff(x, axis=0, n=2), np.isin(x, [0.5, 4.0]), np.searchsorted(np.sort(V), x)),
        np.take_along_axis(x, np.argsort(X), 1),
    ],
    "families": lambda x: [
        *(np.atleast_1d(x[0, 0]), np.atleast_2d(x[0]), np.atleast_3d(x), np.column_stack([x[0], V]), np.dstack([x, X])),
        *(np.convolve(x[0], V), np.fliplr(x), np.flipud(x), np.rot90(x), np.rollaxis(x, 1), np.trapezoid(x, dx=0.5)),
        *(np.interp(x[0], np.sort(V), V), np.isclose(x, X + 1e-9), *np.hsplit(x, 2)),
        *(*np.gradient(x), *np.vsplit(x, 3)),
        *(*np.dsplit(x[None], [1, 2]), np.nanmax(x, axis=0), np.nanmin(x), np.nansum(x, 1), np.ptp(x, 0)),
        *(np.nanmean(x), np.nanstd(x, axis=0, ddof=1), np.nanvar(x)),
    ],
    "making": lambda x: [
        *(np.zeros_like(x), np.ones_like(x, dtype=np.int64), np.full_like(x, 2.5), np.full_like(x, fill_value=1)),
        *(np.zeros_like(x, shape=(2,)), np.dot(x, V), np.dot(x.T, x), np.dot(2.0, x), np.outer(V, x[0])),
        *(np.tensordot(x, X, axes=((0,), (0,))), np.dot(X[None], x.T), x * np.size(x), x * np.size(x, 1)),
    ],
}  # fmt: skip


def hold(actual: Any, wanted: Any) -> None:
    for number, (have, want) in enumerate(zip(actual, wanted, strict=True)):
        assert isinstance(have, jg.Tensor), number
        assert have.shape == np.shape(want), number
        assert have.dtype.kind == np.asarray(want).dtype.kind, number
        np.testing.assert_allclose(
            have.numpy(), want, rtol=1e-6 if have.dtype == jg.float32 else 1e-13, err_msg=str(number)
        )


@pytest.mark.parametrize("name", [*UFUNCS, *FUNCTIONS])
def test_numpys_functions_of_tensors(name: str) -> None:
    call = {**UFUNCS, **FUNCTIONS}[name]
    with np.errstate(all="ignore"):
        wanted = call(X)
    hold(call(jg.asarray(X)), wanted)
    hold(jg.trace(call)(jg.asarray(X)), wanted)


def test_functions_whose_results_have_sizes_of_values() -> None:
    x = jg.asarray(X)
    hold(
        [*np.nonzero(x), np.flatnonzero(x > 1), *np.where(x > 1)],
        [*np.nonzero(X), np.flatnonzero(X > 1), *np.where(X > 1)],
    )
    hold(list(np.unique_counts(x)), list(np.unique_counts(X)))
    with pytest.raises(jg.UnsupportedOp, match="size=n"):
        jg.trace(lambda x: np.nonzero(x))(x)


def test_results_written_to_tensors() -> None:
    x: Any = jg.asarray(X)
    y: Any = jg.zeros((3, 4), dtype=jg.float64)
    assert np.add(x, 1, out=y) is y and y.tolist() == (X + 1).tolist()
    np.multiply(x, 2, out=y, where=x > 1)
    assert y.tolist() == np.where(X > 1, X * 2, X + 1).tolist()
    total: Any = jg.zeros((), dtype=jg.float64)
    assert np.sum(x, out=total) is total and total.item() == X.sum()

    def traced(x: Any, y: Any) -> Any:
        np.subtract(x, 1, out=y)
        return y.sum()

    assert jg.trace(traced)(x, y).item() == (X - 1).sum() and y.tolist() == (X - 1).tolist()


def softmax_of_layer(x: Any, w: Any, b: Any) -> Any:
    """As NumPy's users write it."""
    hidden = np.maximum(np.dot(x, w) + b, 0)
    e = np.exp(hidden - np.max(hidden, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def test_a_program_written_for_numpy() -> None:
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    wanted = softmax_of_layer(x, w, b)
    tensors = [jg.asarray(a) for a in (x, w, b)]
    np.testing.assert_allclose(softmax_of_layer(*tensors).numpy(), wanted, rtol=1e-13)
    traced = jg.trace(softmax_of_layer, dynamic_shapes={"x": {0: "n"}})
    np.testing.assert_allclose(traced(*tensors).numpy(), wanted, rtol=1e-13)
    np.testing.assert_allclose(traced(x[:2], w, b).numpy(), wanted[:2], rtol=1e-13)
    weights = tensors[1].clone().requires_grad_()
    loss = np.sum(np.square(softmax_of_layer(tensors[0], weights, tensors[2])))
    loss.backward()
    step = np.zeros_like(w)
    step[1, 2] = 1e-6
    slope = (np.sum(softmax_of_layer(x, w + step, b) ** 2) - np.sum(softmax_of_layer(x, w - step, b) ** 2)) / 2e-6
    assert weights.grad is not None
    np.testing.assert_allclose(weights.grad[1, 2].item(), slope, rtol=1e-6)


def test_every_form_is_called_here() -> None:
    """Each function of NumPy that has a form stands in some program above."""
    text = Path(__file__).read_text()
    elsewhere = {"unique_all", "unique_inverse", "unique_values", "meshgrid", "unstack", "matrix_transpose", "astype"}
    elsewhere |= {"permute_dims", "empty_like", "concat", "amin"}
    names = {function.__name__ for function in FORMS} - elsewhere
    assert not [name for name in sorted(names) if f"np.{name}(" not in text]


def test_places_of_nan() -> None:
    """NaN is the greatest in a sorted vector, as for NumPy."""
    row, wanted = np.array([1.0, 2.0, np.inf, np.nan, np.nan]), np.array([np.nan, np.inf, 0.0, 2.0])
    for side in ("left", "right"):
        result = np.searchsorted(jg.asarray(row), jg.asarray(wanted), side=side)
        np.testing.assert_array_equal(np.asarray(result), np.searchsorted(row, wanted, side=side))


M, V, NUMBERS = np.arange(12.0).reshape(3, 4), np.array([3.0, -1.0, 2.0, 2.5]), np.array([1, 0, 2])
BYTES = np.array([3, 200], np.uint8)
FURTHER: dict[str, Any] = {
    "append": lambda a: np.append(a(M), a(V)),
    "apply_over_axes": lambda a: np.apply_over_axes(np.sum, a(M), [0]),
    "argpartition": lambda a: np.sort(np.argpartition(a(V), 2)[:2]),
    "delete": lambda a: np.delete(a(V), 1),
    "digitize": lambda a: np.digitize(a(V), a(np.array([0.0, 2.0, 4.0]))),
    "insert": lambda a: np.insert(a(V), 1, 9.0),
    "intersect1d": lambda a: np.intersect1d(a(NUMBERS), a(np.array([2, 5, 1]))),
    "iscomplex": lambda a: np.iscomplex(a(V)),
    "isreal": lambda a: np.isreal(a(V)),
    "ix_": lambda a: np.ix_(a(NUMBERS), a(NUMBERS)),
    "lexsort": lambda a: np.lexsort((a(V), a(np.array([1, 0, 1, 0])))),
    "packbits": lambda a: np.packbits(a(BYTES > 5)),
    "partition": lambda a: np.sort(np.partition(a(V), 2)[:2]),
    "piecewise": lambda a: np.piecewise(a(V), [a(V) > 0], [1.0, -1.0]),
    "ravel_multi_index": lambda a: np.ravel_multi_index((a(NUMBERS), a(NUMBERS)), (3, 4)),
    "resize": lambda a: np.resize(a(V), (2, 3)),
    "select": lambda a: np.select([a(V) > 2], [a(V)], 7.0),
    "setdiff1d": lambda a: np.setdiff1d(a(NUMBERS), a(np.array([0]))),
    "setxor1d": lambda a: np.setxor1d(a(NUMBERS), a(np.array([0, 9]))),
    "union1d": lambda a: np.union1d(a(NUMBERS), a(np.array([0, 9]))),
    "unpackbits": lambda a: np.unpackbits(a(BYTES)),
    "unravel_index": lambda a: np.unravel_index(a(NUMBERS), (3, 4)),
    "unwrap": lambda a: np.unwrap(a(V * 3)),
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_functions_of_numpy_give_tensors(name: str) -> None:
    actual, wanted = FURTHER[name](jg.asarray), FURTHER[name](np.asarray)
    several = isinstance(wanted, tuple)
    for x, y in zip(actual if several else [actual], wanted if several else [wanted], strict=True):
        assert isinstance(x, jg.Tensor)
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-12)
