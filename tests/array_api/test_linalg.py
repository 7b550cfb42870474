"""The linalg extension of the Array API 2024.12: parameters, values and dtypes against array_api_strict."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

strict = pytest.importorskip("array_api_strict", reason="array_api_strict is the oracle; the dev extra brings it")

DTYPES = ("float32", "float64", "complex64", "complex128")


def _array(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(len(shape) + sum(shape))
    x = rng.normal(size=shape) + 2 * np.eye(*shape[-2:]) if len(shape) > 1 else rng.normal(size=shape)
    return (x + 0.5j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def _definite(dtype: str, *shape: int) -> Any:
    x = _array(dtype, *shape)
    return x @ x.swapaxes(-1, -2).conj() + np.eye(shape[-1], dtype=dtype)


def _size(xp: Any, x: Any) -> Any:
    """Magnitudes, as signs and phases of vectors are free."""
    return xp.abs(x)


Call = Callable[..., Any]
SQUARE = ((3, 3), (2, 3, 3), (0, 0), (0, 2, 2))
ANY = ((3, 3), (2, 4, 3), (2, 3, 4), (0, 3, 2))
CALLS: dict[str, list[tuple[Call, tuple[Any, ...]]]] = {
    "cholesky": [
        (lambda xp, x, upper=upper: xp.linalg.cholesky(x, upper=upper), (_definite, shape))
        for shape in SQUARE
        for upper in (False, True)
    ],
    "cross": [
        (lambda xp, x: xp.linalg.cross(x, x[::-1, ...] + 1), (_array, (4, 3))),
        (lambda xp, x: xp.linalg.cross(x, x[:, ::-1], axis=-2), (_array, (3, 2))),
    ],
    "det": [(lambda xp, x: xp.linalg.det(x), (_array, shape)) for shape in SQUARE],
    "diagonal": [
        (lambda xp, x, k=k: xp.linalg.diagonal(x, offset=k), (_array, shape)) for shape in ANY for k in (-1, 0, 2)
    ],
    "eigh": [
        (
            lambda xp, x: (lambda found: (found.eigenvalues, _size(xp, found.eigenvectors)))(xp.linalg.eigh(x)),
            (_definite, s),
        )
        for s in SQUARE
    ],
    "eigvalsh": [(lambda xp, x: xp.linalg.eigvalsh(x), (_definite, shape)) for shape in SQUARE],
    "inv": [(lambda xp, x: xp.linalg.inv(x), (_array, shape)) for shape in SQUARE],
    "matmul": [(lambda xp, x: xp.linalg.matmul(x, xp.matrix_transpose(x)), (_array, shape)) for shape in ANY],
    "matrix_norm": [
        (lambda xp, x, p=p, keep=keep: xp.linalg.matrix_norm(x, ord=p, keepdims=keep), (_array, shape))
        for shape in ANY
        for p in ("fro", "nuc", 1, 2, -1, -2, jg.inf, -jg.inf)
        for keep in (False, True)
    ],
    "matrix_power": [
        (lambda xp, x, n=n: xp.linalg.matrix_power(x, n), (_array, s)) for s in SQUARE for n in (0, 1, 5, -2)
    ],
    "matrix_rank": [
        (lambda xp, x: xp.linalg.matrix_rank(x), (_array, (2, 4, 3))),
        (lambda xp, x: xp.linalg.matrix_rank(x * 0), (_array, (2, 4, 3))),
        (lambda xp, x: xp.linalg.matrix_rank(x, rtol=0.5), (_array, (2, 4, 3))),
        (
            lambda xp, x: xp.linalg.matrix_rank(x, rtol=xp.asarray([0.1, 0.9], dtype=xp.abs(x).dtype)),
            (_array, (2, 4, 3)),
        ),
    ],
    "matrix_transpose": [(lambda xp, x: xp.linalg.matrix_transpose(x), (_array, shape)) for shape in ANY],
    "outer": [(lambda xp, x: xp.linalg.outer(x, x[:2]), (_array, (3,)))],
    "pinv": [
        *((lambda xp, x: xp.linalg.pinv(x), (_array, shape)) for shape in ANY),
        (lambda xp, x: xp.linalg.pinv(x, rtol=0.4), (_array, (3, 3))),
        (lambda xp, x: xp.linalg.pinv(x, rtol=xp.asarray([0.1, 0.6], dtype=xp.abs(x).dtype)), (_array, (2, 3, 3))),
    ],
    "qr": [
        (lambda xp, x, mode=mode: tuple(_size(xp, y) for y in xp.linalg.qr(x, mode=mode)), (_array, shape))
        for shape in ANY
        for mode in ("reduced", "complete")
    ],
    "slogdet": [(lambda xp, x: tuple(xp.linalg.slogdet(x)), (_array, shape)) for shape in SQUARE],
    "solve": [
        (lambda xp, x: xp.linalg.solve(x, x[..., :2]), (_array, (2, 3, 3))),
        (lambda xp, x: xp.linalg.solve(x, x[0, 0, :]), (_array, (2, 3, 3))),
        (lambda xp, x: xp.linalg.solve(x[0, ...], x), (_array, (2, 3, 3))),
        (lambda xp, x: xp.linalg.solve(x, x), (_array, (0, 2, 2))),
    ],
    "svd": [
        (
            lambda xp, x, full=full: (lambda u, d, v: (_size(xp, u[..., :2]), d, _size(xp, v)))(
                *xp.linalg.svd(x, full_matrices=full)
            ),
            (_array, s),
        )
        for s in ((3, 3), (2, 4, 3), (0, 3, 2))
        for full in (False, True)
    ],
    "svdvals": [(lambda xp, x: xp.linalg.svdvals(x), (_array, shape)) for shape in ANY],
    "tensordot": [(lambda xp, x: xp.linalg.tensordot(x, xp.matrix_transpose(x), axes=((1,), (0,))), (_array, (3, 4)))],
    "trace": [(lambda xp, x, k=k: xp.linalg.trace(x, offset=k), (_array, shape)) for shape in ANY for k in (-1, 0, 2)],
    "vecdot": [(lambda xp, x: xp.linalg.vecdot(x, x[::-1, ...]), (_array, (3, 4)))],
    "vector_norm": [
        (
            lambda xp, x, p=p, axis=axis: xp.linalg.vector_norm(x, ord=p, axis=axis, keepdims=axis == 1),
            (_array, (2, 4, 3)),
        )
        for p in (0, 1, 2, 2.5, -1, jg.inf, -jg.inf)
        for axis in (None, 1, (0, 2))
    ],
}


def test_every_function_of_the_extension_is_tried() -> None:
    assert sorted(CALLS) == sorted(strict.linalg.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_parameters_are_the_standard_s(name: str) -> None:
    wanted = inspect.signature(getattr(strict.linalg, name)).parameters
    actual = inspect.signature(getattr(jg.linalg, name)).parameters
    for parameter in wanted.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            continue
        assert parameter.name in actual, parameter.name
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is not inspect.Parameter.empty:
            assert actual[parameter.name].default == parameter.default, parameter.name


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_the_extension(name: str) -> None:
    for number, (call, (make, shape)) in enumerate(CALLS[name]):
        for dtype in DTYPES:
            x = make(dtype, *shape)
            actual, wanted = call(jg, jg.asarray(x)), call(strict, strict.asarray(x))
            pairs = zip(actual, wanted, strict=True) if isinstance(actual, tuple) else [(actual, wanted)]
            for ours, theirs in pairs:
                a, b = ours.numpy(), np.asarray(theirs)
                what = f"{name}, case {number}, {dtype}"
                assert (a.dtype, a.shape) == (b.dtype, b.shape), what
                tolerance = 2e-4 if dtype in ("float32", "complex64") else 1e-11
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_have_products_diagonals_and_powers(dtype: str) -> None:
    x = np.array([[1, 2, 0], [3, 4, 5], [100, 0, 2]], dtype)  # of which narrow integers do not hold the products
    for call in (
        lambda xp, x: xp.linalg.cross(x, x[::-1, ...]),
        lambda xp, x: xp.linalg.diagonal(x, offset=1),
        lambda xp, x: xp.linalg.trace(x),
        lambda xp, x: xp.linalg.outer(x[0, :], x[1, :]),
        lambda xp, x: xp.linalg.matmul(x, x),
        lambda xp, x: xp.linalg.tensordot(x, x, axes=1),
        lambda xp, x: xp.linalg.vecdot(x, x),
        lambda xp, x: xp.linalg.vecdot(x, x, axis=-2),
        lambda xp, x: xp.linalg.vecdot(x[:, :0], x[:, :0]),
        lambda xp, x: xp.linalg.matrix_transpose(x),
    ):
        wanted = np.asarray(call(strict, strict.asarray(x)))
        for actual in (call(jg, jg.asarray(x)), jg.trace(lambda x, call=call: call(jg, x))(x)):
            assert actual.dtype == wanted.dtype and np.array_equal(actual.numpy(), wanted)


@pytest.mark.parametrize("lengths", [((1,), (3,)), ((3,), (2, 1)), ((2, 4), (3,)), ((0,), (1,)), ((), (3,))])
def test_vectors_of_other_lengths_have_no_vecdot(lengths: Any) -> None:
    """Their other axes broadcast, but not they themselves."""
    left, right = (np.ones(shape) for shape in lengths)
    for run in (jg.vecdot, jg.linalg.vecdot, jg.trace(jg.vecdot)):
        with pytest.raises(jg.ShapeError, match="differ in length"):
            run(jg.asarray(left), jg.asarray(right))
    with pytest.raises(jg.JitgraphError, match="vecdot: axis 2"):
        jg.vecdot(jg.ones(3), jg.ones((2, 3)), axis=2)
    assert jg.vecdot(jg.ones((4, 1, 3)), jg.ones((2, 3))).shape == (4, 2)
