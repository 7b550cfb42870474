"""Numbers that a dtype does not hold: compared exactly, refused where they would be wrapped, rounded by floats."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes

INTEGERS = [d for d in dtypes.DTYPES if dtypes.is_integer(d)]
FLOATS = [d for d in dtypes.DTYPES if dtypes.is_float(d)]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
FUNCTIONS = [jg.equal, jg.not_equal, jg.less, jg.less_equal, jg.greater, jg.greater_equal]


def edges(dtype: Any) -> np.ndarray[Any, Any]:
    limits = np.iinfo(dtype)
    numbers = {0, 1, 2, 100, limits.max // 2, limits.max - 1, limits.max, limits.min, limits.min + 1}
    numbers |= {-1, -2, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1}
    return np.array(sorted(n for n in numbers if limits.min <= n <= limits.max), dtype)


def everywhere(function: Callable[..., Any], *arrays: Any) -> list[list[np.ndarray[Any, Any]]]:
    """The results eager, traced, and traced with named sizes."""
    names = {name: {0: name} for name in "xy"[: len(arrays)]}
    parameters = ", ".join(names)
    named = eval(f"lambda {parameters}: function({parameters})", {"function": function})
    calls = [lambda *a: function(*map(jg.asarray, a)), jg.trace(function), jg.trace(dynamic_shapes=names)(named)]
    return [[np.asarray(result) for result in call(*arrays)] for call in calls]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(INTEGERS, repeat=2)), ids=str)
def test_integers_of_any_dtypes_are_compared_exactly(a: Any, b: Any) -> None:
    x, y = edges(a), edges(b)
    due = [[[compare(int(p), int(q)) for q in y] for p in x] for compare in COMPARISONS]

    def compared(x: Any, y: Any) -> list[Any]:
        return [f(x[:, None], y[None, :]) for f in (*COMPARISONS, *FUNCTIONS)]

    for actual in everywhere(compared, x, y):
        for mine, expected in zip(actual, [*due, *due], strict=True):
            assert mine.dtype == bool
            np.testing.assert_array_equal(mine, expected)
    for compare in COMPARISONS:  # a NumPy array on the left
        np.testing.assert_array_equal(np.asarray(compare(x[:, None], jg.asarray(y))), compare(x[:, None], y))


@pytest.mark.parametrize(("a", "b"), list(itertools.product(dtypes.DTYPES, repeat=2)), ids=str)
def test_integers_promote_as_in_numpy(a: Any, b: Any) -> None:
    if dtypes.is_float(a) or dtypes.is_float(b):
        floats = [d for d in (a, b) if dtypes.is_float(d)]
        halves = {dtypes.float16, dtypes.bfloat16}
        widest = dtypes.float32 if set(floats) == halves else max(floats, key=lambda d: d.itemsize)
        assert dtypes.promote(a, b) == widest
    else:
        assert dtypes.promote(a, b) == np.promote_types(a, b)
    for c in dtypes.DTYPES:
        assert len({dtypes.promote(*order) for order in itertools.permutations((a, b, c))}) == 1


def test_signed_integers_with_uint64_are_computed_in_float64() -> None:
    x, y = np.array([-(2**63), -1, 0, 2**53 + 1]), np.array([1, 2**64 - 1, 2**63, 3], np.uint64)

    def computed(x: Any, y: Any) -> list[Any]:
        extremes = [jg.maximum(x, y), jg.minimum(y, x), jg.where(x < y, x, y), jg.clip(x, y, y)]
        return [x + y, y - x, x * y, x / y, *extremes, jg.concat([x, y]), jg.stack([y, x])]

    due = [x + y, y - x, x * y, x / y, np.maximum(x, y), np.minimum(x, y), np.where(x < y.astype(float), x, y)]
    due += [y.astype(float), np.concatenate([x, y]), np.stack([y, x])]
    for actual in everywhere(computed, x, y):
        for mine, expected in zip(actual, due, strict=True):
            assert mine.dtype == expected.dtype == np.float64
            np.testing.assert_array_equal(mine, expected)
    with pytest.raises(jg.DTypeError, match="would turn int64 into float64"):
        total = jg.asarray(x)
        total += jg.asarray(y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bounds_beyond_a_dtype_hold_nothing_back(dtype: Any) -> None:
    x = edges(dtype)
    for low, high in ((-(2**70), 2**70), (None, 2**64), (-(2**64), 5), (1, 2**64)):
        due = [max(low if low is not None else int(p), min(int(p), high)) for p in x]
        for (actual,) in everywhere(lambda x, low=low, high=high: [jg.clip(x, low, high)], x):
            assert actual.dtype == dtype
            np.testing.assert_array_equal(actual, due)


@pytest.mark.parametrize("f", [
    lambda x: jg.clip(x, 2**64, None),
    lambda x: jg.clip(x, -(2**70), 2**70),
    lambda x: jg.nn.functional.hardtanh(x, -(2**64), 2**65),
    lambda x: jg.nn.functional.huber_loss(x, 2 * x, delta=2**64),
    lambda x: jg.var(x, correction=-(2**64)),
    lambda x: jg.std(x, correction=1e30),
])  # fmt: skip
def test_graphs_with_long_integers_beside_floats_are_read_back(f: Any) -> None:
    x = jg.asarray([1.0, 2.0, 3.0])
    graph = jg.trace(f).lower(x).graph
    assert jg.ir.parse(str(graph)) == graph
    for (actual,) in everywhere(lambda x: [f(x)], x.numpy()):
        np.testing.assert_allclose(actual, f(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [*INTEGERS, dtypes.bool_], ids=str)
def test_integers_are_compared_exactly_with_python_ints(dtype: Any) -> None:
    x = np.array([False, True]) if dtype == dtypes.bool_ else edges(dtype)
    limits = np.iinfo(np.int64 if dtype == dtypes.bool_ else dtype)
    numbers = [0, -1, 5, limits.max, limits.max + 1, limits.min, limits.min - 1, 2**70, -(2**70)]

    def compared(x: Any) -> list[Any]:
        return [r for n in numbers for f in COMPARISONS for r in (f(x, n), f(n, x))]

    due = [[f(*pair) for pair in pairs] for n in numbers for f in COMPARISONS for pairs in _both(x, n)]
    for actual in everywhere(compared, x):
        for mine, expected in zip(actual, due, strict=True):
            np.testing.assert_array_equal(mine, expected)


def _both(x: np.ndarray[Any, Any], n: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return [(int(p), n) for p in x], [(n, int(p)) for p in x]


@pytest.mark.parametrize("compare", COMPARISONS)
def test_a_number_that_varies_is_compared_exactly(compare: Callable[[Any, Any], Any]) -> None:
    @jg.trace
    def f(x: Any, y: Any, n: int) -> tuple[Any, ...]:
        return compare(x, n), compare(n, x), compare(y, n)

    x, y = np.array([-128, 0, 5, 127], np.int8), np.array([0, 2**63, 2**64 - 1], np.uint64)
    for n in (1, 5, 300, -1, -500, 2**40):
        due = ([compare(int(p), n) for p in x], [compare(n, int(p)) for p in x], [compare(int(p), n) for p in y])
        assert tuple(r.tolist() for r in f(x, y, n)) == due


@pytest.mark.parametrize("compare", COMPARISONS)
def test_a_size_is_compared_exactly(compare: Callable[[Any, Any], Any]) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any, y: Any) -> tuple[Any, Any]:
        return compare(y, x.shape[0]), compare(x.shape[0], y)

    y = np.array([-128, 0, 44, 127], np.int8)
    for size in (3, 44, 300):
        left, right = f(np.ones(size), y)
        assert left.tolist() == [compare(int(p), size) for p in y]
        assert right.tolist() == [compare(size, int(p)) for p in y]


def uses(number: int) -> dict[str, Callable[[Any], Any]]:
    """The places where an int meets a tensor x and takes its dtype."""
    return {
        "operator": lambda x: x + number,
        "reflected": lambda x: number - x,
        "function": lambda x: jg.maximum(x, number),
        "where": lambda x: jg.where(x == 1, number, x),
        "clip": lambda x: x.clip(number, None) if number > 0 else x.clip(None, number),
        "full": lambda x: jg.full((2,), number, dtype=x.dtype),
        "full_like": lambda x: jg.full_like(x, number),
        "asarray": lambda x: jg.asarray(number, dtype=x.dtype),
        "list": lambda x: jg.asarray([1, number], dtype=x.dtype),
        "pad": lambda x: jg.pad(x, [(1, 1)], number),
        "fill": lambda x: jg.masked_fill(x, x == 1, number),
        "item": lambda x: _written(x, number),
        "items": lambda x: _written(x, [number, 1]),
    }


def _written(x: Any, value: Any) -> Any:
    y = x * 1
    y[:2] = value
    return y


@pytest.mark.parametrize("use", uses(0))
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_an_int_is_never_wrapped(use: str, dtype: Any) -> None:
    x = jg.ones((2,), dtype=dtype)
    greatest = int(np.iinfo(dtype).max)
    for number in (greatest + 1, 2**70, 10**400, int(np.iinfo(dtype).min) - 1):
        for call in (uses(number)[use], jg.trace(uses(number)[use]), jg.script(uses(number)[use])):
            with pytest.raises(jg.NumberError, match=rf"does not fit {dtype.name}|does not fit u?int64") as caught:
                call(x)
            assert "test_numbers.py" in str(caught.value)
    eager, traced = uses(greatest)[use](x), jg.trace(uses(greatest)[use])(x)
    assert eager.dtype == traced.dtype == dtype
    np.testing.assert_array_equal(eager.numpy(), traced.numpy())


ROUNDED: Final = [
    *(2**bits + more for bits in (8, 11, 24, 53, 63, 64) for more in (1, 3)),
    *((2**25 + 1) * 2**53 + 1, (2**24 + 1) * 2**100 + 1),  # where a float64 between rounds twice
    *(70_000, -26999999999997000000, 10**38, -(10**40), 2**1024 - 2**970 - 1),
]


@pytest.mark.parametrize("use", uses(0))
@pytest.mark.parametrize("dtype", [jg.float16, jg.bfloat16, jg.float32, jg.float64, jg.complex64], ids=str)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_floats_round_an_int_of_any_length_as_numpy_does(use: str, dtype: Any) -> None:
    ordered = use not in ("function", "clip")  # complex numbers have no order
    if dtypes.is_complex(dtype) and not ordered:
        return
    x, one = jg.ones((2,), dtype=dtype), np.ones((), dtype)
    with np.errstate(all="ignore"):
        held = [np.asarray(float(number)).astype(dtype)[()] for number in ROUNDED]
        of_use = {"operator": lambda h: one + h, "reflected": lambda h: h - one, "function": lambda h: max(one, h)}
        expected = [of_use.get(use, lambda h: h)(h) for h in held]

    def all_of(x: Any) -> Any:
        return tuple([uses(number)[use](x) for number in ROUNDED])

    for call in (all_of, jg.trace(all_of), jg.script(all_of)):
        for number, result, rounded in zip(ROUNDED, call(x), expected, strict=True):
            assert result.dtype == dtype
            assert np.isin(rounded, result.numpy()), number
    for call in (uses(10**400)[use], jg.trace(uses(10**400)[use])):
        with pytest.raises(jg.NumberError, match="1329 bits is too large for a float") as caught:
            call(x)
        assert "test_numbers.py" in str(caught.value)


def test_lists_of_floats_and_ints_of_any_length_are_floats() -> None:
    for dtype in (None, jg.float64, jg.float16):
        actual = jg.asarray([[1.5, 2**70], [True, -(10**25)]], dtype=dtype)
        expected = np.asarray([[1.5, 2.0**70], [1.0, -1e25]])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(actual.numpy(), expected.astype(actual.dtype))
    added = jg.add([2**70, 1.5], jg.ones((2,), dtype=jg.float64))
    assert added.tolist() == [2.0**70, 2.5]
    with pytest.raises(jg.NumberError, match="too large for a float"):
        jg.asarray([1.5, 10**400])


def test_a_float_is_compared_with_an_int_after_rounding_it() -> None:
    x = jg.full((2,), 16777216.0)
    for f in COMPARISONS:
        assert f(x, 16777217).tolist() == f(x.numpy(), 16777217).tolist()
    assert (x.astype(jg.float64) < 16777217).all()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("number", [-1, 300, 70_000, -(2**32), 2**40, 2**63, -(2**63), 2**130])
def test_the_dtype_that_the_error_advises_has_room_for_the_number(dtype: Any, number: int) -> None:
    x = jg.zeros((2,), dtype=dtype)
    try:
        actual = x + number
    except jg.NumberError as error:
        advised = re.search(r"\.astype\(jg\.(\w+)\)", str(error))
        if advised is None:
            assert number == 2**130
            return
        wider = x.astype(getattr(jg, advised[1]))
        actual = wider + number
        assert actual.dtype == wider.dtype
    assert actual.tolist() == [pytest.approx(number, rel=2**-8)] * 2


@pytest.mark.parametrize("dtype", [jg.int8, jg.uint8, jg.float32, jg.float64], ids=str)
def test_a_number_that_varies_is_refused_when_it_does_not_fit(dtype: Any) -> None:
    f = jg.trace(lambda x, n: x + n)
    x = jg.ones((2,), dtype=dtype)
    bad = {"int8": 128, "uint8": 256}.get(dtype.name, 2**1024)
    for n in (1, 2, 3):
        assert f(x, n).tolist() == [n + 1, n + 1]
    for _ in range(2):
        with pytest.raises(jg.NumberError, match=str(bad) if bad < 2**64 else "1025 bits"):
            f(x, bad)
    twice = 2**60 + 2**36 + 1  # which float64 takes to the middle of two float32
    for n in (2**24 + 1, 2**53 + 1, twice, 2**63 + 2**10 + 1, 2**100) if dtypes.is_float(dtype) else ():
        assert f(x, n).tolist() == (x + n).tolist() == (x.numpy() + n).tolist()
    assert f(x, 7).tolist() == [8, 8]


def test_sizes_and_counts_are_rounded_by_floats_and_held_by_integers() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any, y: Any) -> Any:
        return y + x.shape[0]

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def g(x: Any) -> Any:
        return jg.arange(x.shape[0], dtype=jg.int8)

    small = jg.ones((1,), dtype=jg.int8)
    assert f(np.ones(100), small).tolist() == [101]
    assert g(np.ones(128)).tolist() == list(range(128))
    for call in (lambda: f(np.ones(128), small), lambda: g(np.ones(129))):
        with pytest.raises(jg.JitgraphError, match="int8"):
            call()
    wide = np.broadcast_to(np.int8(1), (2**24 + 1,))
    assert f(wide, jg.zeros((1,))).tolist() == [2.0**24]
    x = jg.asarray(wide)
    assert (jg.ones((1,)) * x.size).tolist() == [2.0**24]


def test_ranges_end_within_their_dtype() -> None:
    assert jg.arange(-128, 128, dtype=jg.int8).tolist() == list(range(-128, 128))
    assert jg.arange(0, 0, dtype=jg.int8).tolist() == []
    for make in (
        lambda: jg.arange(0, 129, dtype=jg.int8),
        lambda: jg.arange(-1, 5, dtype=jg.uint8),
        lambda: jg.linspace(0, 300, 4, dtype=jg.int8),
    ):
        with pytest.raises(jg.NumberError, match="does not fit"):
            make()
