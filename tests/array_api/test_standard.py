"""The Python Array API 2024.12: each function against array_api_strict, on the special values of every dtype."""

from __future__ import annotations

import inspect
import types
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.ops.sampling import edges
from tests.array_api.table import ALL, FAMILIES, FLOATS, INTEGERS, NUMBERS, Case

strict = pytest.importorskip("array_api_strict", reason="array_api_strict is the oracle; the dev extra brings it")

CASES = {name: cases for family in FAMILIES.values() for name, cases in family.items()}
PRODUCTS = {"matmul", "matrix_transpose", "tensordot", "vecdot", "linalg", "fft"}
CREATION = {
    *("arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "ones"),
    *("ones_like", "zeros", "zeros_like"),
}
OF_DTYPES = {"broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"}
FUNCTIONS = sorted(
    name
    for name, value in vars(strict).items()
    if isinstance(value, types.FunctionType) and not name.startswith("_") and "flags" not in name
)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def hold(actual: Any, wanted: Any, case: Case, what: str) -> None:
    """The same dtypes, shapes and numbers, NaNs and the signs of zeros included."""
    for have, want in zip(leaves(actual), leaves(wanted), strict=True):
        a, b = np.asarray(have), np.asarray(want)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), what
        if case.tolerance:
            np.testing.assert_allclose(a, b, rtol=case.tolerance if a.dtype == np.float32 else 1e-13, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)
        if a.dtype.kind == "f" and case.zeros:
            zeros = (a == 0) & (b == 0)
            np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]), err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_the_standard(name: str) -> None:
    for number, case in enumerate(CASES[name]):
        for dtype in case.dtypes:
            inputs = case.inputs(dtype)
            wanted = case.call(strict, *map(strict.asarray, inputs))
            actual = case.call(jg, *map(jg.asarray, inputs))
            hold(actual, wanted, case, f"{name}, case {number}, {dtype}")


FIRMER = {"std", "var", "correction"}  # complex numbers have them here and in NumPy, though not in the standard


def _complex(array: Any, dtype: str) -> Any:
    """Small complex numbers made from an array of floats; other arrays as they are."""
    if array.dtype.kind != "f":
        return array
    real = np.where(np.isfinite(array) & (np.abs(array) < 1e3), array, 2.5)
    return (real + 1j * (np.roll(real.ravel(), 1).reshape(real.shape) - 1)).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", [name for name, cases in CASES.items() if any("float64" in c.dtypes for c in cases)])
def test_a_function_of_complex_numbers(name: str, dtype: str) -> None:
    """What the standard defines for them is the same, and what it does not is refused."""
    tolerance = 1e-12 if dtype == "complex128" else 1e-4
    for case in CASES[name]:
        if "float64" not in case.dtypes or name == "dtype= of reductions":  # which asks for real results
            continue
        inputs = [_complex(array, dtype) for array in case.inputs("float64")]
        try:
            wanted = leaves(case.call(strict, *map(strict.asarray, inputs)))
        except TypeError:
            if name not in FIRMER:
                with pytest.raises((TypeError, jg.DTypeError)):
                    case.call(jg, *map(jg.asarray, inputs))
            continue
        for have, want in zip(leaves(case.call(jg, *map(jg.asarray, inputs))), wanted, strict=True):
            a, b = np.asarray(have), np.asarray(want)
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


WITH_SIZES_OF_VALUES = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values", "__getitem__"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32"])
def test_traced_functions_give_the_same(family: str, dtype: str) -> None:
    """All of a family in one trace, with no difference in a bit from what they give eagerly."""
    cases = [
        case
        for name, cases in FAMILIES[family].items()
        for case in cases
        if dtype in case.dtypes and name not in WITH_SIZES_OF_VALUES
    ]
    inputs = [tuple(map(jg.asarray, case.inputs(dtype))) for case in cases]

    def every(groups: Any) -> Any:
        return [leaves(case.call(jg, *group)) for case, group in zip(cases, groups, strict=True)]

    for actual, wanted in zip(jg.trace(every)(inputs), every(inputs), strict=True):
        for a, b in zip(actual, wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_sizes_that_depend_on_values_are_given_in_a_trace() -> None:
    x = jg.asarray([[3, 0, 3], [1, 0, 3]])
    for name in sorted(WITH_SIZES_OF_VALUES - {"__getitem__"}):
        function = getattr(jg, name)
        eager = leaves(function(x))
        longer = leaves(jg.trace(lambda x, f=function: f(x, size=5))(x))
        shorter = leaves(jg.trace(lambda x, f=function: f(x, size=2))(x))
        for i, (a, b, c) in enumerate(zip(eager, longer, shorter, strict=True)):
            if a.shape == x.shape:
                assert a.tolist() == b.tolist() == c.tolist()
                continue
            assert b.tolist() == a.tolist() + [0] * (5 - len(a)), (name, i)
            assert c.tolist() == a.tolist()[:2], (name, i)
        with pytest.raises(jg.UnsupportedOp, match=rf"jg\.{name}\(\.\.\., size=n\)"):
            jg.trace(lambda x, f=function: f(x))(x)
    assert jg.nonzero(x, size=6, fill_value=-1)[1].tolist() == [0, 2, 0, 2, -1, -1]


def test_members_of_floats() -> None:
    for x in (edges(jg.float64), edges(jg.float32)):
        for of in (x[:3], np.tile(x, 9), x[:0]):
            np.testing.assert_array_equal(jg.isin(x, of).numpy(), np.isin(x, of))
            np.testing.assert_array_equal(jg.isin(x, of, invert=True).numpy(), np.isin(x, of, invert=True))
    assert jg.isin(jg.asarray(2**63, dtype=jg.uint64), jg.asarray([-1, 2**63 - 1] * 20)).item() is False


def test_repeat_by_a_vector() -> None:
    x, counts = jg.asarray([[1, 2], [3, 4], [5, 6]]), jg.asarray([2, 0, 1])
    wanted = np.repeat(x.numpy(), counts.numpy(), axis=0).tolist()
    assert jg.repeat(x, counts, axis=0).tolist() == wanted
    assert jg.trace(lambda x, c: jg.repeat(x, c, axis=0, size=3))(x, counts).tolist() == wanted
    assert jg.repeat(x, np.array([1]), axis=1).tolist() == x.tolist()
    with pytest.raises(jg.UnsupportedOp, match="size=n"):
        jg.trace(lambda x, c: jg.repeat(x, c, axis=0))(x, counts)
    for call in (
        lambda: jg.trace(lambda x, c: jg.repeat(x, c, axis=0, size=4))(x, counts),
        lambda: jg.repeat(x, jg.asarray([1, -1, 1]), axis=0),
    ):
        with pytest.raises(ValueError, match="repeat: "):
            call()
    for bad in (jg.asarray([1, 2]), jg.asarray([1.0, 2.0, 3.0])):
        with pytest.raises(jg.JitgraphError, match="repeat: repeats"):
            jg.repeat(x, bad, axis=0)


def test_named_sizes() -> None:
    """Places in a sorted vector whose size is a name, by merging; and what is made from them."""
    f = jg.trace(
        lambda row, x: (jg.searchsorted(row, x), jg.searchsorted(row, x, side="right"), jg.isin(x, row)),
        dynamic_shapes={"row": {0: "n"}, "x": {0: "m"}},
    )
    rng = np.random.default_rng(0)
    for n, m in ((1, 3), (40, 7), (5, 64)):
        row = np.sort(np.append(rng.integers(0, 9, n).astype("f4"), np.float32("nan")))
        x = np.append(rng.integers(-1, 10, m).astype("f4"), np.float32("nan"))
        left, right, member = f(row, x)
        np.testing.assert_array_equal(left.numpy(), np.searchsorted(row, x))
        np.testing.assert_array_equal(right.numpy(), np.searchsorted(row, x, side="right"))
        np.testing.assert_array_equal(member.numpy(), np.isin(x, row))
    g = jg.trace(lambda x: jg.unique_counts(x, size=4), dynamic_shapes={"x": {0: "n"}})
    for n in (2, 5, 9):
        x = rng.integers(0, 3, n)
        values, counts = np.unique(x, return_counts=True)
        actual = g(x)
        assert actual.values.tolist()[: len(values)] == values.tolist()
        assert actual.counts.tolist() == counts.tolist() + [0] * (4 - len(values))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_there_with_its_parameters(name: str) -> None:
    """What the standard has by position comes by position, the rest by its name, with its default."""
    wanted = inspect.signature(getattr(strict, name)).parameters.values()
    actual = inspect.signature(getattr(jg, name)).parameters
    own = [p for p in actual.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    spread = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in own)
    for position, parameter in enumerate(wanted):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            assert parameter.name in actual
            if type(parameter.default) in (int, bool, str, type(None)):
                assert actual[parameter.name].default == parameter.default
        else:
            assert position < len(own) or spread
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
                assert parameter.name in actual


def test_the_table_has_every_function() -> None:
    assert set(FUNCTIONS) - set(CASES) - PRODUCTS - CREATION - OF_DTYPES == set()


METHODS = [
    name
    for name in dir(strict.asarray([1.0]))
    if not name.startswith("_")
    or (name.startswith("__") and name in "__and__ __rand__ __or__ __ror__ __xor__ __rxor__")
]


def test_methods_and_constants() -> None:
    x = jg.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert not [name for name in METHODS if not hasattr(x, name)]
    assert all(getattr(jg, name) is not None for name in ("e", "pi", "inf", "nan")) and jg.newaxis is None
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is jg
    assert jg.__array_api_version__ == "2024.12"
    with pytest.raises(jg.JitgraphError, match=r"version '1999\.12'[\s\S]*2024\.12"):
        x.__array_namespace__(api_version="1999.12")
    assert x.to_device("cpu") is x and x.mT.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert x.astype(jg.float32, copy=False) is x and x.astype(jg.float32) is not x
    assert jg.astype(x, jg.int8, device="cpu").dtype == jg.int8
    assert jg.asarray(x, dtype=jg.float32, device="cpu", copy=False) is x  # so that a write to one is one to the other
    for copy in (None, True):
        assert jg.asarray(x, copy=copy) is not x
    assert jg.asarray(x, copy=False, requires_grad=True) is not x and not x.requires_grad
    assert complex(jg.asarray(2.0)) == 2 and complex(jg.asarray([3])) == 3
    mask = np.array([True, False])
    assert [
        (mask & jg.asarray(mask)).tolist(),
        (mask | ~jg.asarray(mask)).tolist(),
        (mask ^ jg.asarray(mask)).tolist(),
    ] == [
        [True, False],
        [True, True],
        [False, False],
    ]


@pytest.mark.parametrize("k", [2**62, 2**63 - 1, 2**63, 2**64])
def test_diagonals_have_any_number(k: int) -> None:
    x = jg.ones((2, 3))
    for far in (k, -k):
        assert not jg.eye(2, 3, k=far).any() and jg.eye(0, k=far).shape == (0, 0)
        below, above = (x, 0 * x) if far > 0 else (0 * x, x)
        for run in (lambda f: f, jg.trace):
            assert run(lambda x, far=far: jg.tril(x, k=far))(x).tolist() == below.tolist()
            assert run(lambda x, far=far: jg.triu(x, k=far))(x).tolist() == above.tolist()


AXES: dict[str, Any] = {
    "expand_dims": lambda x: jg.expand_dims(x, axis=3),
    "expand_dims, negative": lambda x: jg.expand_dims(x, axis=-4),
    "sum": lambda x: jg.sum(x, axis=(0, 2)),
    "concat": lambda x: jg.concat([x, x], axis=2),
    "stack": lambda x: jg.stack([x, x], axis=3),
    "sort": lambda x: jg.sort(x, axis=-3),
    "take": lambda x: jg.take(x, jg.asarray([0]), axis=2),
    "moveaxis": lambda x: jg.moveaxis(x, 2, 0),
    "fft": lambda x: jg.fft.fft(x, axis=2),
    "vector_norm": lambda x: jg.linalg.vector_norm(x, axis=2),
}


@pytest.mark.parametrize("name", AXES)
def test_an_axis_out_of_range_is_an_index_error(name: str) -> None:
    for run in (AXES[name], jg.trace(AXES[name])):
        with pytest.raises(IndexError, match=r"axis -?\d is out of range for a tensor of rank"):
            run(jg.ones((2, 3)))
    with pytest.raises(ValueError, match="names an axis twice"):
        jg.sum(jg.ones((2, 3)), axis=(1, -1))


def test_the_sign_of_a_complex_zero_is_zero_without_signs() -> None:
    """Whatever the signs of its parts, as the standard has it; its gradient there is none."""
    x = np.array([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)])
    for actual in (jg.sign(x), jg.trace(jg.sign)(x)):
        assert not np.signbit(actual.numpy().view(np.float64)).any() and not actual.numpy().any()
    assert jg.grad(lambda z: jg.real(jg.sign(z)).sum())(jg.asarray(x)).tolist() == [0, 0, 0, 0]


CREATIONS: list[Any] = [
    lambda xp, d: xp.arange(5, dtype=d),
    lambda xp, d: xp.arange(1, 9, 3, dtype=d),
    lambda xp, d: xp.linspace(0, 8, 5, dtype=d),
    lambda xp, d: xp.full((2, 3), 3, dtype=d),
    lambda xp, d: xp.eye(3, 4, k=1, dtype=d),
    lambda xp, d: xp.ones((2,), dtype=d),
    lambda xp, d: xp.zeros(3, dtype=d),
    lambda xp, d: xp.full_like(xp.ones((2,)), 2, dtype=d),
    lambda xp, d: xp.ones_like(xp.zeros((2, 0)), dtype=d),
    lambda xp, d: xp.zeros_like(xp.zeros((2, 1)), dtype=d),
    lambda xp, d: xp.empty_like(xp.zeros((0, 1)), dtype=d),
    lambda xp, d: xp.empty((0, 2), dtype=d),
    lambda xp, d: xp.asarray([[1, 0], [0, 1]], dtype=d),
    lambda xp, d: xp.linspace(0, 1, 1, dtype=d, endpoint=False),
]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_creation(dtype: str) -> None:
    for call in CREATIONS:
        actual, wanted = call(jg, getattr(jg, dtype)), call(strict, getattr(strict, dtype))
        hold(actual, wanted, Case(call, (), tuple), dtype)


def test_exchange_by_dlpack() -> None:
    x = np.arange(6.0).reshape(2, 3)
    copied, borrowed = jg.from_dlpack(x), jg.from_dlpack(x, copy=False)
    x[0, 0] = 9
    assert copied.tolist()[0][0] == 0 and borrowed.tolist()[0][0] == 9
    assert np.from_dlpack(copied).tolist() == copied.tolist()
    assert jg.from_dlpack(copied, device="cpu").dtype == jg.float64
    with pytest.raises(BufferError, match="read-only without a copy"):
        copied.__dlpack__(copy=False)
    assert type(copied.__dlpack__(copy=False, max_version=(1, 0))).__name__ == "PyCapsule"


def test_dtype_rules() -> None:
    """Promotion, kinds and ranges: those of the standard; what it leaves open is this package's table."""
    for a in ALL:
        for b in ALL:
            try:
                wanted = strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                continue
            actual = jg.result_type(getattr(jg, a), jg.zeros((1,), dtype=getattr(jg, b)))
            assert actual.name == str(wanted).rpartition(".")[2], (a, b)
            assert jg.can_cast(getattr(jg, a), getattr(jg, b)) == (actual.name == b)
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric"):
            assert jg.isdtype(getattr(jg, a), kind) == strict.isdtype(getattr(strict, a), kind)
        assert jg.isdtype(getattr(jg, a), (jg.bool, "integral")) == (a not in FLOATS)
    assert jg.result_type(jg.int8, 1) == jg.int8 and jg.result_type(jg.float64, 1.0, True) == jg.float64
    assert jg.result_type(jg.int32, 1.0) == jg.float32 and jg.result_type(jg.zeros(2), jg.float16) == jg.float32
    for name in INTEGERS:
        have, want = jg.iinfo(getattr(jg, name)), np.iinfo(np.dtype(name))
        assert (have.bits, have.max, have.min, have.dtype) == (want.bits, want.max, want.min, want.dtype)
    for name in (*FLOATS, "float16", "bfloat16"):
        limits = jg.finfo(jg.zeros(1, dtype=getattr(jg, name)))
        one = jg.asarray(1.0, dtype=limits.dtype)
        assert limits.dtype == getattr(jg, name) and limits.bits == limits.dtype.itemsize * 8
        assert jg.nextafter(one, jg.asarray(2.0, dtype=limits.dtype)).item() - 1 == limits.eps
        assert jg.isinf(jg.asarray(limits.max, dtype=limits.dtype) * 2).item() and limits.min == -limits.max
        assert type(limits.eps) is type(limits.smallest_normal) is float
    for call, error in (
        (lambda: jg.iinfo(jg.float32), jg.DTypeError),
        (lambda: jg.finfo(jg.bool), jg.DTypeError),
        (lambda: jg.isdtype(jg.bool, "floating"), jg.JitgraphError),
        (lambda: jg.result_type(), jg.JitgraphError),
    ):
        with pytest.raises(error):
            call()


def test_inspection() -> None:
    info = jg.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] and info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == jg.asarray(1.0).dtype == jg.float32
    assert info.default_dtypes()["indexing"] == jg.argmax(jg.zeros(1)).dtype
    assert set(info.dtypes(kind="integral")) == set(INTEGERS) and info.dtypes(kind="bool") == {"bool": jg.bool}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", *FLOATS} <= set(info.dtypes())
    assert jg.broadcast_shapes((2, 1), (3,), ()) == (2, 3)

    @jg.trace
    def inside(x: Any) -> Any:
        xp = x.__array_namespace__()
        flags = xp.__array_namespace_info__().capabilities()
        return xp.sum(x) if not flags["data-dependent shapes"] else x

    assert inside(jg.asarray([1.0, 2.0])).item() == 3
