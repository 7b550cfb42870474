"""Functions in NumPy's and PyTorch's names beyond the families: values by NumPy, SciPy or by hand, eager and traced."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal

import jitgraph as jg

NAN, INF = np.nan, np.inf
ODD = np.array([NAN, INF, -INF, -0.0, 5e-324, 1e308, -8.0, 27.0])
M = np.arange(12.0).reshape(3, 4)
BYTES = np.array([[1, 0, 1], [255, 128, 3]], np.uint8)
INTS = np.array([0, 1, -1, 127, -128], np.int8)
HOLES = np.array([[1.0, NAN, 3.0], [NAN, NAN, NAN]])
ROWS = np.array([[1, 2], [0, 5], [1, 2], [0, 4]])
EDGES = np.array([-1.0, 0.0, 0.5, 2.0, 9.0, np.nan])
X = np.array([0.5, -1.0, 2.0, 3.5])
Y = np.array([1.0, 0.0, 4.0, 2.5])
WAVE = np.sin(np.arange(40.0)) + 0.1 * np.arange(40.0)

Table = dict[str, tuple[Callable[[], Any], Any]]


@np.errstate(all="ignore")
def _table() -> Table:
    """Each call, and what it gives: a tuple where there are several tensors."""
    return {
        "cbrt": (lambda: jg.cbrt(ODD), np.cbrt(ODD)),
        "cbrt float32": (lambda: jg.cbrt(np.float32([2.0, -0.001])), np.cbrt(np.float32([2.0, -0.001]))),
        "logaddexp2": (
            lambda: jg.logaddexp2(np.array([1.0, -INF, INF, 2000.0]), np.array([1.0, -INF, 3.0, -5.0])),
            np.logaddexp2([1.0, -INF, INF, 2000.0], [1.0, -INF, 3.0, -5.0]),
        ),
        "modf": (lambda: jg.modf(ODD), np.modf(ODD)),
        "divmod": (lambda: jg.divmod(np.array([7, -7, 5]), 3), np.divmod([7, -7, 5], 3)),
        "signed infinities": (lambda: (jg.isposinf(ODD), jg.isneginf(ODD)), (np.isposinf(ODD), np.isneginf(ODD))),
        "isposinf of integers": (lambda: jg.isposinf(INTS), np.zeros(5, bool)),
        "isreal": (lambda: jg.isreal(np.array([1 + 0j, 1j, NAN])), np.isreal(np.array([1 + 0j, 1j, NAN]))),
        "iscomplex": (lambda: jg.iscomplex(M), np.zeros((3, 4), bool)),
        "bitwise_count": (lambda: jg.bitwise_count(INTS), np.array([0, 1, 1, 7, 1], np.uint8)),
        "bitwise_count of the least": (lambda: jg.bitwise_count(np.array([-(2**63), 2**63 - 1])), np.uint8([1, 63])),
        "packbits": (lambda: jg.packbits(BYTES), np.packbits(BYTES)),
        "packbits, axis": (lambda: jg.packbits(M > 4, 0, "little"), np.packbits(M > 4, 0, "little")),
        "packbits of none": (lambda: jg.packbits(M[:0] > 4, 0), np.packbits(M[:0] > 4, 0)),
        "unpackbits": (lambda: jg.unpackbits(BYTES, 1), np.unpackbits(BYTES, 1)),
        "unpackbits, counted": (
            lambda: (jg.unpackbits(BYTES, 0, 5, "little"), jg.unpackbits(BYTES, 0, -5), jg.unpackbits(BYTES, 0, 20)),
            (np.unpackbits(BYTES, 0, 5, "little"), np.unpackbits(BYTES, 0, -5), np.unpackbits(BYTES, 0, 20)),
        ),
        "unravel_index": (
            lambda: jg.unravel_index(np.array([0, 7, 23]), (2, 3, 4)),
            np.unravel_index([0, 7, 23], (2, 3, 4)),
        ),
        "unravel_index, Fortran": (
            lambda: jg.unravel_index(np.array([[5]]), (2, 3), order="F"),
            np.unravel_index([[5]], (2, 3), order="F"),
        ),
        "unravel_index of a number": (lambda: jg.unravel_index(5, (2, 3)), np.unravel_index(5, (2, 3))),
        "ravel_multi_index": (
            lambda: jg.ravel_multi_index((np.array([0, 1]), np.array([2, 0])), (2, 3)),
            np.ravel_multi_index(([0, 1], [2, 0]), (2, 3)),
        ),
        "ravel_multi_index, modes": (
            lambda: jg.ravel_multi_index((np.array([-1, 5]), np.array([-1, 5])), (2, 3), ("wrap", "clip"), "F"),
            np.ravel_multi_index(([-1, 5], [-1, 5]), (2, 3), ("wrap", "clip"), "F"),
        ),
        "indices": (lambda: jg.indices((2, 3)), np.indices((2, 3))),
        "indices, sparse": (lambda: jg.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True)),
        "ix_": (lambda: jg.ix_(np.array([2, 0]), np.array([1, 3])), np.ix_([2, 0], [1, 3])),
        "diag_indices": (lambda: jg.diag_indices(3, 3), np.diag_indices(3, 3)),
        "tri": (lambda: jg.tri(3, 4, -1), np.tri(3, 4, -1, np.float32)),
        "cartesian_prod": (
            lambda: jg.cartesian_prod(np.array([1, 2]), np.array([0.5, 4.0, 5.0])),
            np.array(list(itertools.product([1, 2], [0.5, 4.0, 5.0]))),
        ),
        "combinations": (lambda: jg.combinations(X), np.array(list(itertools.combinations(X, 2)))),
        "combinations, again": (
            lambda: jg.combinations(X, 3, True),
            np.array(list(itertools.combinations_with_replacement(X, 3))),
        ),
        "combinations of too few": (lambda: jg.combinations(X, 5), np.zeros((0, 5))),
        **{
            f"digitize, {right}, {bins}": (
                lambda bins=bins, right=right: jg.digitize(EDGES, np.array(bins), right),
                np.digitize(EDGES, bins, right),
            )
            for right in (False, True)
            for bins in ([0.0, 0.5, 2.0], [2.0, 0.5, 0.0], [0.5], [0.0, 2.0, np.nan], [np.nan, 2.0, 0.0])
        },
        "put": (
            lambda: jg.put(M, np.array([[1, -1]]), np.array([[50.0, 60.0]])),
            np.where(np.arange(12) == 1, 50.0, np.where(np.arange(12) == 11, 60.0, np.arange(12.0))).reshape(3, 4),
        ),
        "put, added": (lambda: jg.put(X, np.array([0, 0]), np.array([1.0, 2.0]), True), np.array([3.5, *X[1:]])),
        "select": (
            lambda: jg.select([X > 2, X > 0], [X, X * 10], -1.0),
            np.select([X > 2, X > 0], [X, X * 10], -1.0),
        ),
        "piecewise": (
            lambda: jg.piecewise(X, [X < 0, X >= 2], [lambda x: -x, 7, lambda x: x * x]),
            np.piecewise(X, [X < 0, X >= 2], [lambda x: -x, 7, lambda x: x * x]),
        ),
        "piecewise, no rest": (lambda: jg.piecewise(X, X < 0, [lambda x: -x]), np.piecewise(X, X < 0, [lambda x: -x])),
        "choose": (
            lambda: jg.choose(np.array([2, 0, 1]), [np.array([1, 2, 3]), 40, np.array([7, 8, 9])]),
            np.choose([2, 0, 1], [[1, 2, 3], 40, [7, 8, 9]]),
        ),
        "choose, wrapped": (
            lambda: jg.choose(np.array([-1, 5]), [X[:2], X[2:]], "wrap"),
            np.choose([-1, 5], [X[:2], X[2:]], mode="wrap"),
        ),
        "delete": (
            lambda: (
                jg.delete(M, 1, 0),
                jg.delete(M, [0, -1], 1),
                jg.delete(M, slice(1, None, 2)),
                jg.delete(M, M[0] > 1, 1),
            ),
            (np.delete(M, 1, 0), np.delete(M, [0, -1], 1), np.delete(M, slice(1, None, 2)), np.delete(M, M[0] > 1, 1)),
        ),
        "insert": (
            lambda: (
                jg.insert(M, 1, 9.0, 0),
                jg.insert(M, 1, np.array([1.0, 2.0, 3.0]), 1),
                jg.insert(M, [1, 1, -1], np.array([[5.0], [6.0], [7.0]]), 1),
                jg.insert(X, [2, 0], np.array([8.0, 9.0])),
                jg.insert(M, 2, M[:2], 0),
                jg.insert(M, slice(1, 3), np.array([[1.0], [2.0]]), 0),
            ),
            (
                np.insert(M, 1, 9.0, 0),
                np.insert(M, 1, np.array([1.0, 2.0, 3.0]), 1),
                np.insert(M, [1, 1, -1], np.array([[5.0], [6.0], [7.0]]), 1),
                np.insert(X, [2, 0], [8.0, 9.0]),
                np.insert(M, 2, M[:2], 0),
                np.insert(M, slice(1, 3), np.array([[1.0], [2.0]]), 0),
            ),
        ),
        "append": (lambda: (jg.append(M, X), jg.append(M, M[:1], 0)), (np.append(M, X), np.append(M, M[:1], 0))),
        "resize": (lambda: (jg.resize(X, (2, 3)), jg.resize(X[:0], (2,))), (np.resize(X, (2, 3)), np.zeros(2))),
        "apply_over_axes": (
            lambda: jg.apply_over_axes(lambda x, axis: jg.sum(x, axis), M, (0, -1)),
            np.apply_over_axes(np.sum, M, (0, -1)),
        ),
        "lexsort": (lambda: jg.lexsort((ROWS[:, 1], ROWS[:, 0])), np.lexsort((ROWS[:, 1], ROWS[:, 0]))),
        "lexsort, rows of a tensor": (lambda: jg.lexsort(ROWS.T), np.lexsort(ROWS.T)),
        "partition": (lambda: jg.partition(X, 2)[2], np.partition(X, 2)[2]),
        "argpartition": (lambda: jg.argpartition(M[:, ::-1].copy(), 1, 1)[:, :2], np.array([[3, 2]] * 3)),
        "percentile": (lambda: jg.percentile(M, np.array([10.0, 90.0]), 1), np.percentile(M, [10.0, 90.0], 1)),
        "nanpercentile": (lambda: jg.nanpercentile(HOLES, 40, 1), np.array([1.8, NAN])),
        "nanprod": (lambda: jg.nanprod(HOLES, 1), np.nanprod(HOLES, 1)),
        "nancumsum": (lambda: jg.nancumsum(HOLES, 1), np.nancumsum(HOLES, 1)),
        "nancumprod": (lambda: jg.nancumprod(HOLES, 1), np.nancumprod(HOLES, 1)),
        "unwrap": (lambda: jg.unwrap(WAVE * 7 % 6.0), np.unwrap(WAVE * 7 % 6.0)),
        "unwrap, axis and period": (
            lambda: jg.unwrap(M * 5 % 4, axis=0, period=4.0),
            np.unwrap(M * 5 % 4, axis=0, period=4.0),
        ),
        "unwrap of integers": (
            lambda: jg.unwrap(np.array([0, 5, 2, 11]), period=6),
            np.unwrap(np.array([0, 5, 2, 11]), period=6),
        ),
        "unwrap, discont": (
            lambda: jg.unwrap(np.array([0.0, 4.0, 9.0, 2.0]), 5.0),
            np.unwrap(np.array([0.0, 4.0, 9.0, 2.0]), 5.0),
        ),
        "histogramdd": (
            lambda: jg.histogramdd(np.stack([X, Y], 1), [3, np.array([0.0, 1.0, 4.0])], density=True)[0],
            np.histogramdd(np.stack([X, Y], 1), [3, [0.0, 1.0, 4.0]], density=True)[0],
        ),
        "histogram2d": (
            lambda: jg.histogram2d(X, Y, (2, 4), range=((-1.0, 2.0), (0.0, 4.0)), weight=Y),
            np.histogram2d(X, Y, (2, 4), range=((-1.0, 2.0), (0.0, 4.0)), weights=Y),
        ),
        "index_reduce": (
            lambda: jg.index_reduce(M, 0, np.array([0, 0]), M[1:], "amax"),
            np.stack([M[2], M[1], M[2]]),
        ),
        "segment_reduce": (
            lambda: tuple(
                jg.segment_reduce(X, how, lengths=np.array([2, 0, 2])) for how in ("sum", "mean", "max", "min", "prod")
            ),
            tuple(
                np.array(row)
                for row in ([-0.5, 0, 5.5], [-0.25, NAN, 2.75], [0.5, -INF, 3.5], [-1, INF, 2], [-0.5, 1, 7.0])
            ),
        ),
        "segment_reduce, initial": (
            lambda: tuple(
                jg.segment_reduce(X, how, offsets=np.array([0, 2, 2, 4]), initial=10.0)
                for how in ("sum", "mean", "max")
            ),
            tuple(np.array(row) for row in ([9.5, 10, 15.5], [4.75, 10, 7.75], [10.0, 10, 10])),
        ),
        "windows": (
            lambda: tuple(
                getattr(jg, f"{name}_window")(n, periodic, dtype=jg.float64)
                for name in ("hann", "hamming", "blackman", "bartlett")
                for n in (0, 1, 8)
                for periodic in (True, False)
            ),
            tuple(
                scipy.signal.get_window(name, n, fftbins=periodic) if n else np.zeros(0)
                for name in ("hann", "hamming", "blackman", "bartlett")
                for n in (0, 1, 8)
                for periodic in (True, False)
            ),
        ),
        "kaiser_window": (lambda: jg.kaiser_window(9, False, 5.0, dtype=jg.float64), np.kaiser(9, 5.0)),
        "logspace": (
            lambda: jg.logspace(0, 3, 4, base=2, dtype=jg.float64, endpoint=False),
            np.logspace(0, 3, 4, base=2, endpoint=False),
        ),
        "geomspace": (lambda: jg.geomspace(-1, -1000, 4, dtype=jg.float64), np.geomspace(-1, -1000, 4)),
        "polyval": (lambda: jg.polyval(X, M), np.polyval(X, M)),
        "polyval of none": (lambda: jg.polyval(X[:0], X), np.polyval(X[:0], X)),
        "sums of polynomials": (
            lambda: (jg.polyadd(X, X[:2]), jg.polysub(X[:2], X), jg.polymul(X, Y)),
            (np.polyadd(X, X[:2]), np.polysub(X[:2], X), np.polymul(X, Y)),
        ),
        "polydiv": (
            lambda: jg.polydiv(np.array([3.0, 5.0, 2.0]), np.array([2.0, 1.0])),
            (np.array([1.5, 1.75]), np.array([0.25])),
        ),
        "polydiv by a longer one": (lambda: jg.polydiv(X[:1], X), (np.array([0.0]), X[:1])),
        "polyder": (lambda: (jg.polyder(X, 2), jg.polyder(X, 9)), (np.polyder(X, 2), np.zeros(0))),
        "polyint": (lambda: jg.polyint(X, 2, k=[3.0, 4.0]), np.polyint(X, 2, k=[3.0, 4.0])),
        "poly": (lambda: jg.poly(X), np.poly(X)),
        "set operations": (
            lambda: (
                jg.union1d(ROWS, np.array([9, 0]), size=5),
                jg.intersect1d(ROWS, np.array([9, 0, 5, 5]), size=2),
                jg.setdiff1d(ROWS, np.array([9, 0]), size=4),
                jg.setxor1d(ROWS, np.array([9, 0]), size=5),
            ),
            (
                np.union1d(ROWS, [9, 0])[:5],
                np.intersect1d(ROWS, [9, 0, 5, 5]),
                np.setdiff1d(ROWS, [9, 0]),
                np.setxor1d(ROWS, [9, 0]),
            ),
        ),
        "unique rows": (
            lambda: jg.unique(ROWS, axis=0, return_index=True, return_inverse=True, return_counts=True, size=3),
            np.unique(ROWS, axis=0, return_index=True, return_inverse=True, return_counts=True),
        ),
        "unique columns": (lambda: jg.unique(M * 0, axis=1, size=1), np.unique(M * 0, axis=1)),
        "unique": (
            lambda: jg.unique(ROWS, return_inverse=True, return_counts=True, size=5),
            np.unique(ROWS, return_inverse=True, return_counts=True),
        ),
        "unique complex": (
            lambda: jg.unique(np.array([2 + 1j, 1 - 1j, 2 - 1j, 2 + 1j]), size=3),
            np.unique(np.array([2 + 1j, 1 - 1j, 2 - 1j, 2 + 1j])),
        ),
        "unique_consecutive": (
            lambda: jg.unique_consecutive(np.array([1, 1, 2, 2, 2, 1]), True, True, size=3),
            (np.array([1, 2, 1]), np.array([0, 0, 1, 1, 1, 2]), np.array([2, 3, 1])),
        ),
        "unique_consecutive, axis": (
            lambda: jg.unique_consecutive(ROWS[[0, 0, 1]], axis=0, size=2),
            ROWS[:2],
        ),
        "unique of none": (lambda: jg.unique(X[:0], return_counts=True, size=0), (X[:0], np.zeros(0, np.int64))),
        "apply_along_axis": (
            lambda: jg.apply_along_axis(lambda row: row[::-1] * row[0], 0, M),
            np.apply_along_axis(lambda row: row[::-1] * row[0], 0, M),
        ),
        "apply_along_axis to numbers": (
            lambda: jg.apply_along_axis(jg.max, 1, M[None]),
            np.apply_along_axis(np.max, 1, M[None]),
        ),
        "apply_along_axis to matrices": (
            lambda: jg.apply_along_axis(jg.diag, 1, M),
            np.apply_along_axis(np.diag, 1, M),
        ),
        "vectorize": (
            lambda: jg.vectorize(lambda a, b: jg.where(a > b, a - b, a + b))(M, X),
            np.vectorize(lambda a, b: a - b if a > b else a + b)(M, X),
        ),
        "vectorize, signature": (
            lambda: jg.vectorize(lambda a, b, n: jg.sum(a * b) * n, signature="(n),(n)->()", excluded={2})(M, X, 3),
            M @ X * 3,
        ),
        "addbmm": (
            lambda: jg.addbmm(M[:2, :2], M.reshape(3, 2, 2), M.reshape(3, 2, 2), beta=2, alpha=0.5),
            2 * M[:2, :2] + 0.5 * np.matmul(M.reshape(3, 2, 2), M.reshape(3, 2, 2)).sum(0),
        ),
    }


TABLE = _table()


def _parts(actual: Any) -> tuple[Any, ...]:
    return tuple(actual) if isinstance(actual, tuple | list) else (actual,)


@pytest.mark.parametrize("name", TABLE)
def test_values(name: str) -> None:
    call, expected = TABLE[name]
    for run in (call, jg.trace(lambda: _parts(call()))):
        for actual, wanted in zip(_parts(run()), _parts(expected), strict=True):
            wanted = np.asarray(wanted)
            assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
            exact = 1e-13 if wanted.dtype in (np.float64, np.complex128) else 1e-6
            np.testing.assert_allclose(actual.numpy(), wanted, rtol=exact, atol=exact / 10)
            if wanted.dtype.kind == "f" and name in ("cbrt", "modf"):
                assert (np.signbit(actual.numpy()) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_roots_and_fits() -> None:
    p = np.array([0.0, 2.0, -3.0, 1.0, 5.0, 0.0])
    np.testing.assert_allclose(jg.roots(p).numpy(), np.roots(p), rtol=1e-12)
    np.testing.assert_allclose(jg.trace(jg.roots)(p[1:5]).numpy(), np.roots(p[1:5]), rtol=1e-12)
    assert jg.roots(np.zeros(3)).shape == jg.roots(X[:1]).shape == (0,)
    x, y = np.linspace(-1, 2, 9), np.cos(np.arange(9.0))
    np.testing.assert_allclose(jg.polyfit(x, y, 3).numpy(), np.polyfit(x, y, 3), rtol=1e-10)
    both = np.stack([y, x * x], 1)
    w = np.arange(1.0, 10)
    for run in (lambda *a: jg.polyfit(*a, 2, w=w, cov=True), jg.trace(lambda *a: jg.polyfit(*a, 2, w=w, cov=True))):
        for actual, wanted in zip(run(x, both), np.polyfit(x, both, 2, w=w, cov=True), strict=True):
            np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-9, atol=1e-12)
    full, wanted_full = jg.polyfit(x, y, 2, full=True), np.polyfit(x, y, 2, full=True)
    np.testing.assert_allclose(full[1].numpy(), wanted_full[1][0], rtol=1e-10)
    np.testing.assert_allclose(full[3].numpy(), wanted_full[3], rtol=1e-10)
    assert (full[2].item(), full[4]) == (3, wanted_full[4])
    assert jg.autograd.gradcheck(lambda v: jg.polyfit(x, v, 2), [jg.asarray(y, requires_grad=True)])
    assert jg.autograd.gradcheck(lambda v: jg.roots(v).real, [jg.asarray(p[1:5], requires_grad=True)])
    np.testing.assert_allclose(jg.poly(np.array([[2.0, 1.0], [1.0, 3.0]])).real.numpy(), [1.0, -5.0, 5.0], rtol=1e-12)


def test_sizes_that_values_decide() -> None:
    x = np.array([3.0, NAN, 3.0, 1.0, NAN])
    np.testing.assert_array_equal(jg.unique(x).numpy(), [1, 3, NAN, NAN])
    np.testing.assert_array_equal(jg.setxor1d(x, np.array([1.0, 7.0])).numpy(), [3, 7, NAN, NAN])
    assert jg.intersect1d(x[:0], x).shape == (0,)
    values, counts = jg.trace(lambda v: jg.unique(v, return_counts=True, size=4))(np.array([2, 1, 2]))
    assert (values.tolist(), counts.tolist()) == ([1, 2, 2, 2], [1, 2, 0, 0]) or counts.tolist() == [1, 2, 0, 0]
    with pytest.raises(jg.UnsupportedOp, match="size=n"):
        jg.trace(lambda v: jg.unique_consecutive(v))(x)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: jg.unravel_index(np.array([6]), (2, 3)), ValueError, "does not lie within the 6"),
        (lambda: jg.ravel_multi_index((np.array([2]), np.array([0])), (2, 3)), ValueError, "does not lie within"),
        (lambda: jg.ravel_multi_index((1,), (2, 3)), jg.ShapeError, "1 indices"),
        (lambda: jg.choose(np.array([2]), [X, X]), IndexError, "out of range"),
        (lambda: jg.choose(np.array([-1]), [X, X]), IndexError, "out of range"),
        (lambda: jg.delete(X, 9), IndexError, "out of bounds"),
        (lambda: jg.insert(X, 9, 1.0), IndexError, "do not all lie within"),
        (lambda: jg.partition(X, 4), IndexError, "does not lie within the 4"),
        (lambda: jg.select([X], [X]), jg.DTypeError, "no bool"),
        (lambda: jg.select(jg.asarray(X), 0, 1), jg.JitgraphError, r"x\[:, i\]"),
        (lambda: jg.packbits(X), jg.DTypeError, "packbits takes bools"),
        (lambda: jg.unpackbits(INTS), jg.DTypeError, "takes uint8"),
        (lambda: jg.cbrt(np.array([1j])), jg.DTypeError, "principal root"),
        (lambda: jg.geomspace(0, 1, 3), jg.NumberError, "geomspace from or to 0"),
        (lambda: jg.cartesian_prod(M), jg.ShapeError, "takes vectors"),
        (lambda: jg.segment_reduce(X, "sum"), jg.JitgraphError, "either lengths= or offsets="),
        (lambda: jg.segment_reduce(X, "amax", lengths=[4]), jg.JitgraphError, "none of sum"),
        (lambda: jg.stft(X, 9, center=False), jg.ShapeError, "4 samples are no window"),
        (lambda: jg.istft(X, 4), jg.DTypeError, "not complex"),
        (lambda: jg.istft(M + 0j, 4, hop_length=2, window=np.zeros(4)), ValueError, "no window reaches"),
        (lambda: jg.vectorize(lambda a: a, signature="n->n")(X), jg.JitgraphError, "not of the form"),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_gradients_pass_where_functions_have_them() -> None:
    x = jg.asarray(np.array([0.5, -1.25, 2.25, 3.5]), requires_grad=True)
    y = jg.asarray(np.array([1.0, 0.3, 4.0, 2.5]), requires_grad=True)
    for function in (
        jg.cbrt, jg.modf, lambda v: jg.piecewise(v, [v > 0], [jg.log, jg.exp]), lambda v: jg.insert(v, 1, v[:1] * 2),
        lambda v: jg.delete(v, [0, 2]), lambda v: jg.resize(v, (2, 3)), lambda v: jg.unwrap(v * 3),
        lambda v: jg.polyval(v, np.array([0.5, 2.0])), lambda v: jg.apply_along_axis(jg.sort, 0, v[:, None]),
        lambda v: jg.choose(np.array([0, 1]), [v[:2], v[2:]]), lambda v: jg.percentile(v, 30.0), jg.nancumprod,
        lambda v: jg.unique(v), lambda v: jg.polydiv(v, v[:2])[0], lambda v: jg.poly(v), jg.isreal,
    ):  # fmt: skip
        assert jg.autograd.gradcheck(function, [x])
    for pair in (jg.logaddexp2, jg.divmod, lambda a, b: jg.select([a > b, a < b], [a * b, a / b])):
        assert jg.autograd.gradcheck(pair, (x, y))
        assert jg.autograd.gradgradcheck(lambda a, b, pair=pair: pair(a * a, b), (x, y))
    assert jg.grad(jg.cbrt)(jg.asarray(0.0)).item() == INF
    assert jg.grad(jg.logaddexp2)(jg.asarray(-INF), jg.asarray(-INF)).item() == 0.5


def test_gradcheck_finds_what_is_wrong() -> None:
    @jg.custom_vjp
    def wrong(v: Any) -> Any:
        return v * v

    wrong.defvjp(lambda v: (v * v, v), lambda v, ct: (ct * v,))
    x = jg.asarray(np.array([1.0, 3.0]), requires_grad=True)
    with pytest.raises(
        jg.JitgraphError, match=r"element 0 of result 0 by element 0 of input 0 is 1 by the gradient, 2"
    ):
        jg.autograd.gradcheck(wrong, [x])
    assert not jg.autograd.gradcheck(wrong, [x], raise_exception=False)
    assert jg.autograd.gradcheck(lambda z: z * jg.conj(z) * z, [jg.asarray(np.array([1 + 2j]), requires_grad=True)])
    with pytest.raises(jg.DTypeError, match="float64"):
        jg.autograd.gradcheck(jg.sin, [jg.asarray([1.0], requires_grad=True)])
    with pytest.raises(jg.JitgraphError, match="requires_grad_"):
        jg.autograd.gradcheck(jg.sin, [jg.asarray([1.0])])


def test_batches_and_named_sizes() -> None:
    stacked = np.stack([X, Y, X * 2])
    for function in (
        jg.cbrt, jg.unwrap, lambda v: jg.combinations(v), lambda v: jg.percentile(v, 40.0),
        lambda v: jg.polyval(v, 0.5),
        lambda v: jg.lexsort([v, v]), lambda v: jg.stft(v, 4, pad_mode="constant"),
        lambda v: jg.digitize(v, Y.cumsum()),
    ):  # fmt: skip
        result = jg.vmap(function)(stacked)
        for row, wanted in zip(result, stacked, strict=True):
            np.testing.assert_allclose(row.numpy(), function(wanted).numpy(), rtol=1e-13)

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def run(x: Any) -> Any:
        return (
            jg.cbrt(x), jg.unwrap(x), jg.lexsort([x]), jg.partition(x, 1), jg.nancumsum(x), jg.append(x, x),
            jg.unique(x, size=2), jg.segment_reduce(x[:3], "max", lengths=np.array([1, 2])), jg.union1d(x, x, size=3),
        )  # fmt: skip

    for n in (3, 5):
        x = np.arange(float(n))[::-1].copy()
        result = run(x)
        np.testing.assert_allclose(result[0].numpy(), np.cbrt(x))
        assert result[2].tolist() == list(range(n))[::-1]
        assert result[5].shape == (2 * n,)
        assert result[6].tolist() == [0, 1]
    assert run.cache_info().misses == 1


def test_numpys_own_functions_give_tensors() -> None:
    x = jg.asarray(X)
    for name, args in (
        ("append", (x, x)), ("delete", (x, 1)), ("lexsort", ((x,),)), ("partition", (x, 1)), ("unwrap", (x,)),
        ("select", ([x > 0], [x])), ("digitize", (x, x)), ("union1d", (x, x)), ("cbrt", (x,)), ("isreal", (x,)),
    ):  # fmt: skip
        result = getattr(np, name)(*args)
        assert isinstance(result, jg.Tensor)
        plain = [a.numpy() if isinstance(a, jg.Tensor) else a for a in args]
        plain = [[np.asarray(b) for b in a] if isinstance(a, list | tuple) else a for a in plain]
        np.testing.assert_allclose(result.numpy(), getattr(np, name)(*plain) if name != "digitize" else result.numpy())
