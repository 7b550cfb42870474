"""Families of array functions, one table: values by NumPy or by hand, eager, traced and as methods, dtypes kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import stubs

NAN, INF = np.nan, np.inf
X = np.array([[1.5, -2.5, NAN], [0.0, -0.0, 7.25]])
ODD = np.array([NAN, INF, -INF, -0.0, 5e-324, 1e308, -7.5])
INTS = np.array([12, -18, 0, 7, -128], np.int8)
M = np.arange(12.0).reshape(3, 4)
I = np.array([[0, 2, 2, 1], [1, 0, 2, 0]])  # noqa: E741


def _scattered(x: Any, index: Any, values: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Along axis 0, one element after the other."""
    result = x.copy()
    for position in np.ndindex(index.shape):
        target = (index[position], position[1])
        result[target] = combine(result[target], values[position])
    return result


W = np.array([[0.5, -1.0, 20.0, 3.0], [2.0, 4.0, -3.0, NAN]])

Table = dict[str, tuple[Callable[[], Any], Any]]


@np.errstate(all="ignore")
def _table() -> Table:
    """Each call, and what it gives: a tuple where there are several tensors."""
    return {
        "lerp": (lambda: jg.lerp(np.array([0.1, 1e16]), np.array([0.3, 1.0]), 1.0), np.array([0.3, 1.0])),
        "addcmul": (lambda: jg.addcmul(INTS, INTS, INTS, value=2), (INTS + 2 * INTS * INTS).astype(np.int8)),
        "addcdiv": (lambda: jg.addcdiv(M, M, M + 1, value=0.5), M + 0.5 * M / (M + 1)),
        "heaviside": (lambda: jg.heaviside(X, 0.25), np.heaviside(X, 0.25)),
        "frac": (lambda: jg.frac(X), X - np.trunc(X)),
        "fmod": (lambda: jg.fmod(ODD, 2.25), np.fmod(ODD, 2.25)),
        "fmod by infinity": (lambda: jg.fmod(-3.5, np.array([INF, -INF, 0.0, NAN])), np.array([-3.5, -3.5, NAN, NAN])),
        "fmod int": (
            lambda: jg.fmod(INTS[:, None], np.array([5, -5, -128, 0], np.int8)),
            np.array([[2, 2, 12, 0], [-3, -3, -18, 0], [0, 0, 0, 0], [2, 2, 7, 0], [-3, -3, 0, 0]], np.int8),
        ),
        "fmax": (lambda: jg.fmax(X, 0.5), np.fmax(X, 0.5)),
        "fmin": (lambda: jg.fmin(NAN, X), np.fmin(NAN, X)),
        "deg2rad": (lambda: jg.deg2rad(M), np.deg2rad(M)),
        "rad2deg": (lambda: jg.rad2deg(M), np.rad2deg(M)),
        "float_power": (lambda: jg.float_power(np.float32(3), INTS), np.float_power(np.float32(3), INTS)),
        "frexp": (lambda: jg.frexp(ODD), np.frexp(ODD)),
        "frexp float32": (lambda: jg.frexp(ODD[[3, 6]].astype(np.float32)), np.frexp(np.float32([-0.0, -7.5]))),
        "ldexp": (
            lambda: jg.ldexp(ODD, np.array([1, 1, 1, 1, 1074, -2098, 3])),
            np.ldexp(ODD, [1, 1, 1, 1, 1074, -2098, 3]),
        ),
        "ldexp float32": (
            lambda: jg.ldexp(np.float32([3, 1.75, 1]), np.array([-150, -149, 500])),
            np.ldexp(np.float32([3, 1.75, 1]), [-150, -149, 500]),
        ),
        "gcd": (
            lambda: jg.gcd(INTS, np.array([8, 27, 0, 0, 96], np.int8)),
            np.gcd(INTS, np.array([8, 27, 0, 0, 96], np.int8)),
        ),
        "gcd 0-d": (lambda: jg.gcd(1071, 462), np.int64(21)),
        "lcm": (lambda: jg.lcm(np.array([4, 0, -6]), np.array([6, 5, 4])), np.array([12, 0, 12])),
        "nan_to_num": (lambda: jg.nan_to_num(ODD), np.nan_to_num(ODD)),
        "nan_to_num given": (lambda: jg.nan_to_num(ODD, 1, 2, 3), np.nan_to_num(ODD, nan=1, posinf=2, neginf=3)),
        "isclose": (lambda: jg.isclose(ODD, ODD + 1e-9, equal_nan=True), np.isclose(ODD, ODD + 1e-9, equal_nan=True)),
        "isclose infinite": (lambda: jg.isclose(1.0, np.array([INF, NAN])), np.array([False, False])),
        "allclose": (lambda: jg.allclose(M, M + 1e-9), np.True_),
        "array_equal": (
            lambda: (jg.array_equal(ODD, ODD), jg.array_equal(ODD, ODD, True), jg.array_equal(M, M[0])),
            (False, True, False),
        ),
        "nansum": (lambda: jg.nansum(X, 1), np.nansum(X, 1)),
        "nanmean": (lambda: jg.nanmean(X, 0, keepdims=True), np.nanmean(X, 0, keepdims=True)),
        "nanmean of none": (lambda: jg.nanmean(np.array([[NAN], [1.0]]), 1), np.array([NAN, 1.0])),
        "nanvar": (lambda: jg.nanvar(X, 1, correction=1), np.nanvar(X, 1, ddof=1)),
        "nanstd": (lambda: jg.nanstd(X), np.nanstd(X)),
        "nanmax": (lambda: jg.nanmax(np.array([[NAN, -INF], [NAN, NAN], [1.0, 2.0]]), 1), np.array([-INF, NAN, 2.0])),
        "nanmin": (lambda: jg.nanmin(X, 0), np.nanmin(X, 0)),
        "nanargmax": (lambda: jg.nanargmax(np.array([[NAN, -INF], [3.0, NAN]]), 1), np.array([1, 0])),
        "nanargmin": (lambda: jg.nanargmin(X), np.int64(1)),
        "aminmax": (lambda: jg.aminmax(M, 0), (M.min(0), M.max(0))),
        "ptp": (lambda: jg.ptp(M, 1), np.ptp(M, 1)),
        "average": (lambda: jg.average(M, 0, np.array([1.0, 2.0, 3.0])), np.average(M, 0, [1.0, 2.0, 3.0])),
        "std_mean": (lambda: jg.std_mean(M, 1, correction=1), (M.std(1, ddof=1), M.mean(1))),
        "var_mean": (lambda: jg.var_mean(M), (M.var(), M.mean())),
        "rot90": (lambda: tuple(jg.rot90(M, k) for k in (-1, 0, 2, 5)), tuple(np.rot90(M, k) for k in (-1, 0, 2, 5))),
        "fliplr, flipud": (lambda: (jg.fliplr(M), jg.flipud(M)), (np.fliplr(M), np.flipud(M))),
        "rollaxis": (lambda: jg.rollaxis(M[None], 2, 1), np.rollaxis(M[None], 2, 1)),
        "narrow": (lambda: jg.narrow(M, 1, -3, 2), M[:, 1:3]),
        "unflatten": (lambda: jg.unflatten(M, 1, (2, -1)), M.reshape(3, 2, 2)),
        "unfold": (lambda: jg.unfold(M, 1, 3, 1), np.lib.stride_tricks.sliding_window_view(M, 3, 1)),
        "tensor_split": (lambda: tuple(jg.tensor_split(M, (1, -1, 9), 1)), tuple(np.array_split(M, (1, -1, 9), 1))),
        "tensor_split, more than there are": (lambda: tuple(jg.tensor_split(M, 5)), tuple(np.array_split(M, 5))),
        "stacks": (
            lambda: (
                jg.hstack([M[0], M[1]]),
                jg.vstack([M[0], M]),
                jg.dstack([M[0], M[:1]]),
                jg.column_stack([M[:, 0], M]),
            ),
            (np.hstack([M[0], M[1]]), np.vstack([M[0], M]), np.dstack([M[0], M[:1]]), np.column_stack([M[:, 0], M])),
        ),
        "atleast": (
            lambda: (jg.atleast_1d(2.0), *jg.atleast_3d(M, M[0])),
            (np.float32([2.0]), *np.atleast_3d(M, M[0])),
        ),
        "diagonal_scatter": (
            lambda: jg.diagonal_scatter(M, np.array([-1.0, -2.0]), -1),
            M + np.eye(3, 4, -1) * [[0], [-5], [-11]] * [1, 1, 0, 0],
        ),
        "gather": (lambda: jg.gather(M, 0, I), np.take_along_axis(M, I, 0)),
        "gather, smaller": (lambda: jg.gather(M, 1, I[:, :2]), np.take_along_axis(M[:2], I[:, :2], 1)),
        "scatter": (lambda: jg.scatter(M, 0, I, W), _scattered(M, I, W, lambda old, new: new)),
        "scatter_add": (lambda: jg.scatter_add(M, 0, I, W), _scattered(M, I, W, np.add)),
        "amax": (lambda: jg.scatter_reduce(M, 0, I, W, "amax"), _scattered(M, I, W, np.maximum)),
        "amin": (lambda: jg.scatter_reduce(M, 0, I, W, "amin"), _scattered(M, I, W, np.minimum)),
        "prod": (lambda: jg.scatter_reduce(M, 0, I, W, "prod"), _scattered(M, I, W, np.multiply)),
        "amin_beside_nan": (
            lambda: jg.scatter_reduce(np.array([5.0, 9.0]), 0, np.array([0, 0, 1]), np.array([NAN, 1.0, 2.0]), "amin"),
            np.array([NAN, 2.0]),
        ),
        "amin int": (
            lambda: jg.scatter_reduce(
                np.array([5, 5, 5]), 0, np.array([0, 1, 0]), np.array([7, -2, 3]), "amin", include_self=False
            ),
            np.array([3, -2, 5]),
        ),
        "mean int": (
            lambda: jg.scatter_reduce(np.array([5, 5, 5]), 0, np.array([0, 1, 0]), np.array([7, -2, -3]), "mean"),
            np.array([3, 1, 5]),
        ),
        "put_along_axis": (
            lambda: jg.put_along_axis(M, np.array([[0], [-1], [2]]), -1.0, 1),
            M * (1 - np.eye(4)[[0, 3, 2]]) - np.eye(4)[[0, 3, 2]],
        ),
        "index_copy": (
            lambda: jg.index_copy(M, 0, np.array([2, 0]), M[:2] + 50),
            np.stack([M[1] + 50, M[1], M[0] + 50]),
        ),
        "index_fill": (lambda: jg.index_fill(M, 1, np.array([1, 1]), 9), np.where(np.arange(4) == 1, 9.0, M)),
        "index_put": (lambda: jg.index_put(M[0], (np.array([1, 1, -1]),), 5.0, accumulate=True), M[0] + [0, 10, 0, 5]),
        "segment_sum": (lambda: jg.segment_sum(M, np.array([1, 0, 1]), 3), np.stack([M[1], M[0] + M[2], 0 * M[0]])),
        "masked_scatter": (lambda: jg.masked_scatter(M, M % 3 == 1, -M), np.where(M % 3 == 1, -((M - 1) // 3), M)),
        "dynamic_slice": (lambda: jg.dynamic_slice(M, (2, 1), (2, 2)), M[1:, 1:3]),
        "dynamic_update_slice": (
            lambda: jg.dynamic_update_slice(M, np.array([[7]]), (-5, 9)),
            M + np.eye(3, 4)[:, ::-1] * [[4], [0], [0]],
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
            np.testing.assert_allclose(actual.numpy(), wanted, rtol=1e-15 if wanted.dtype == np.float64 else 1e-7)
            if wanted.dtype.kind == "f":
                assert (np.signbit(actual.numpy()) == np.signbit(wanted))[~np.isnan(wanted)].all()


STUB = stubs.of("jitgraph.tensor.functions")


def test_methods_are_the_functions_that_the_stub_marks() -> None:
    """Those that a module gives Tensor when it is loaded, and no others, are there before it is."""
    for name, (module, _) in STUB.homes.items():
        function = getattr(jg, name)
        assert function.__wrapped__.__module__ == module, name
        assert (vars(jg.Tensor).get(name) is function) == (name in STUB.marked("method")), name
    assert {*STUB.marked("method")} <= {*dir(jg.Tensor)}


def test_a_method_is_there_before_its_module_is_loaded() -> None:
    text = """if True:
        import sys
        import jitgraph as jg
        x = jg.asarray([3.0, 4.0])
        assert "jitgraph.tensor.functions.ordering" not in sys.modules
        assert "topk" in dir(x) and hasattr(jg.Tensor, "topk") and x.topk(1)[0].item() == 4
        assert jg.Tensor.topk is jg.topk and jg.Tensor.cumsum is jg.cumsum
    """
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_a_method_in_a_trace_is_recorded_once() -> None:
    traced = jg.trace(lambda x: x.fmod(2.0))
    for value in (1.5, -3.5):
        assert traced(jg.asarray([value])).item() == np.fmod(value, 2.0)
    assert traced.cache_info().misses == 1


GRADIENTS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {  # of the sum, where a rule has a choice
    "amax shares among equal ones": (
        lambda x: jg.scatter_reduce(x[:2], 0, np.array([0, 0, 1]), x[2:], "amax"), [3.0, 9.0, 3.0, 3.0, 1.0],
        [1 / 3, 1.0, 1 / 3, 1 / 3, 0.0],
    ),
    "prod_one_zero": (
        lambda x: jg.scatter_reduce(x[:1], 0, np.array([0, 0]), x[1:], "prod"), [2.0, 0.0, 5.0], [0.0, 10.0, 0.0],
    ),
    "prod_two_zeros": (
        lambda x: jg.scatter_reduce(x[:1], 0, np.array([0, 0]), x[1:], "prod"), [2.0, 0.0, 0.0], [0.0, 0.0, 0.0],
    ),
    "scatter overwrites": (lambda x: jg.scatter(x[:2], 0, np.array([0, 0]), x[2:]), [1.0, 2, 3, 4], [0.0, 1, 0, 1]),
    "nanmean passes over": (lambda x: jg.nanmean(x), [1.0, NAN, 3.0], [0.5, 0.0, 0.5]),
    "nanstd of equal ones": (lambda x: jg.nanstd(x), [2.0, 2.0, NAN], [0.0, 0.0, 0.0]),
    "fmax passes over": (lambda x: jg.fmax(x, np.array([NAN, 5.0])), [1.0, NAN], [1.0, 0.0]),
    "fmod at 0": (lambda x: jg.fmod(x, 2.0), [0.0, -3.0], [1.0, 1.0]),
    "ldexp": (lambda x: jg.ldexp(x, np.array([-2, 3])), [1.0, 1.0], [0.25, 8.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    function, at, expected = GRADIENTS[name]
    result = jg.grad(lambda x: function(x).sum())(jg.asarray(np.array(at)))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: jg.gather(M, 0, I + 1), IndexError, "gather: an index is out of range for axis 0"),
        (lambda: jg.scatter_add(M, 0, I - 1, W), IndexError, "out of range"),
        (lambda: jg.gather(M, 0, np.zeros((1, 5), int)), jg.ShapeError, "5 indices along axis 1"),
        (lambda: jg.scatter(M, 0, I, W[:1]), jg.ShapeError, "2 indices along axis 0, where the source has 1"),
        (lambda: jg.gather(M, 0, W), jg.DTypeError, "indices are integers"),
        (lambda: jg.scatter_reduce(M, 0, I, W, "max"), jg.JitgraphError, "none of sum, prod, mean, amax, amin"),
        (lambda: jg.masked_scatter(M, M > 1, W), ValueError, "more than"),
        (lambda: jg.masked_select(M, W), jg.DTypeError, "a mask is bool"),
        (lambda: jg.nanargmax(np.array([NAN])), ValueError, "all NaN"),
        (lambda: jg.ldexp(M, 0.5), jg.DTypeError, "integers as exponents"),
        (lambda: jg.gcd(M, 2), jg.DTypeError, "gcd takes integers"),
        (lambda: jg.narrow(M, 0, 2, 2), jg.ShapeError, "do not lie within the 3"),
        (lambda: jg.hsplit(M, 3), jg.ShapeError, "not 3 equal pieces"),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
    with pytest.raises(kind, match=words):
        jg.trace(call)()


def test_named_sizes() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}, "i": {0: "n"}})
    def run(x: Any, i: Any) -> Any:
        return jg.gather(x, 0, i), jg.scatter_reduce(x, 0, i, x, "prod"), jg.nanmean(x), jg.fmod(x, 2.0)

    for n in (3, 7):
        x, i = np.arange(1.0, n + 1), np.arange(n) // 2
        result = run(x, i)
        assert (result[0].numpy() == x[i]).all()
        wanted = x.copy()
        np.multiply.at(wanted, i, x)
        assert (result[1].numpy() == wanted).all()
        assert (result[2].item(), result[3][1].item()) == (x.mean(), 0.0)
    assert run.cache_info().misses == 1


def test_diagonals_of_named_sizes() -> None:
    """One recording serves every shape, with the elements that NumPy takes; so does jg.linalg's."""
    sizes = {"x": {1: "n", 2: "m"}}
    for offset in (-1, 0, 2):
        first = jg.trace(lambda x, k=offset: jg.diagonal(x, k, 1, 2), dynamic_shapes=sizes)
        second = jg.trace(lambda x, k=offset: jg.linalg.diagonal(x, offset=k), dynamic_shapes=sizes)
        for shape in ((2, 4, 4), (2, 5, 5), (2, 9, 9)):
            x = np.arange(float(np.prod(shape))).reshape(shape)
            wanted = np.diagonal(x, offset, 1, 2)
            assert first(x).tolist() == second(x).tolist() == wanted.tolist()
        assert first.cache_info().misses == 1


def test_the_greatest_of_no_elements_is_a_norm_of_0() -> None:
    """As for every other order, and as PyTorch has it."""
    none, rows = np.zeros((2, 0)), np.zeros((3, 0))
    for p in (0.0, 1.0, 2.0, 2.5, np.inf):
        assert jg.cdist(none, rows, p).tolist() == [[0.0] * 3] * 2
    assert jg.linalg.vector_norm(none, axis=1, ord=np.inf).tolist() == [0.0, 0.0]
