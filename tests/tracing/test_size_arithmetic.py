"""Arithmetic of sizes is Python's: exact at any length, rounded once by floats, refused by integers without room.

The arrays here have no elements, so that their sizes can be any.
"""

from __future__ import annotations

import operator
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.errors import CHECK_KINDS, ArgumentError
from jitgraph.ir.dims import Dim, evaluate, magnitude, product, stays_in_64_bits
from jitgraph.runtime import loader
from tests.graphs import needs_native
from tests.runtime.c_library import CError, Library

Formula = Callable[[Any, Any], Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("loader"))


FORMULAS: Final[dict[str, Formula]] = {
    "a name": lambda n, m: n,
    "a sum": lambda n, m: n + m,
    "a multiple": lambda n, m: 4 * n,
    "a product": lambda n, m: n * m,
    "a power": lambda n, m: n**3,
    "a greater power": lambda n, m: m - n**8,
    "Spearman's": lambda n, m: n * (n * n - 1),
    "pairs": lambda n, m: n * (n - 1) // 2,
    "a difference": lambda n, m: n * n - m * m,
    "minus": lambda n, m: -(n**4),
    "a quotient": lambda n, m: n**5 // (m * m + 1),
    "a quotient of less": lambda n, m: (m - n**3) // (n + 7),
    "a remainder": lambda n, m: n**5 % 1009,
    "a remainder of less": lambda n, m: (m - n**3) % (m * n + 3),
    "a divisor below 0": lambda n, m: n**3 // (-m - 1) + n**3 % (-m - 1),
    "a literal": lambda n, m: n + 2**70,
    "past the middle": lambda n, m: n * (2**53 + 1) * 2**80 + m,
}  # fmt: skip

SIZES: Final = (
    (3, 4), (2_097_151, 5), (2_097_152, 2_097_153), (4_194_304, 3_000_000_019), (2**31 + 1, 2**53 + 1), (0, 0),
    (2**60 + 2**36 + 1, 1), (2**62, 2**62 - 1),
)  # fmt: skip


def inputs(n: int, m: int, dtype: Any = np.float64) -> tuple[Any, ...]:
    return np.empty((n, 0), np.int8), np.empty((m, 0), np.int8), np.ones((), dtype)


def function_of(formulas: Sequence[Formula]) -> Callable[..., Any]:
    def numbers(x: Any, z: Any, y: Any) -> Any:
        return tuple([formula(x.shape[0], z.shape[0]) * y for formula in formulas])

    return numbers


NAMED: Final = {"x": {0: "n"}, "z": {0: "m"}}


def expected(formulas: Sequence[Formula], n: int, m: int, dtype: Any) -> list[Any]:
    with np.errstate(over="ignore"):
        return [np.asarray(float(formula(n, m))).astype(dtype) for formula in formulas]


def require(actual: Sequence[Any], formulas: Sequence[Formula], n: int, m: int, dtype: Any) -> None:
    for result, number in zip(actual, expected(formulas, n, m, dtype), strict=True):
        np.testing.assert_array_equal(np.asarray(result).real, number.real, err_msg=f"n = {n}, m = {m}")


@pytest.mark.parametrize(
    ("how", "dtype"),
    [
        *(("declared", dtype) for dtype in (jg.float64, jg.float32, jg.float16, jg.bfloat16, jg.complex64)),
        *((how, jg.float32) for how in ("promoted", "without a dispatcher", "interpreted")),
    ],
    ids=str,
)
def test_a_float_takes_the_nearest_number(how: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "without a dispatcher":
        monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    if how == "interpreted":
        monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    formulas = tuple(FORMULAS.values())
    f = jg.trace(function_of(formulas), dynamic_shapes=None if how == "promoted" else NAMED)
    for n, m in SIZES * 2:
        require(f(*inputs(n, m, dtype)), formulas, n, m, dtype)
    assert f.cache_info().misses <= 4


@needs_native
def test_saved_files_take_the_nearest_number_in_both_loaders(tmp_path: Path, library: Library) -> None:
    formulas = tuple(FORMULAS.values())
    file = tmp_path / "numbers.jg"
    f = jg.trace(function_of(formulas), dynamic_shapes=NAMED)
    jg.save(f, file, example_inputs=inputs(3, 4))
    again, alone, in_c = jg.load(file), loader.load(file), library.load(file)
    for n, m in SIZES:
        for call in (again, alone, in_c):
            require(call(*inputs(n, m)), formulas, n, m, np.float64)


@pytest.mark.parametrize("dtype", [jg.int8, jg.int64, jg.uint64], ids=str)
def test_an_integer_refuses_what_it_has_no_room_for(dtype: Any, tmp_path: Path) -> None:
    least, greatest = dtypes.LIMITS[dtype]
    for name in ("a multiple", "a power", "minus", "a difference", "a quotient", "a remainder of less"):
        formula = FORMULAS[name]
        f = jg.trace(function_of([formula]), dynamic_shapes=NAMED)
        g = jg.trace(function_of([formula]))
        file = tmp_path / "number.jg"
        alone = None
        if dtype != jg.uint64 or name != "minus":
            jg.save(f, file, example_inputs=inputs(3, 2, dtype))
            alone = loader.load(file)
        for n, m in SIZES:
            number = formula(n, m)
            for call in (f, g, alone):
                if call is None:
                    continue
                if least <= number <= greatest:
                    assert [int(np.asarray(r)) for r in call(*inputs(n, m, dtype))] == [number]
                else:
                    with pytest.raises(
                        (jg.NumberError, ArgumentError), match=r"fit|must satisfy|leaves 64 bits"
                    ) as error:
                        call(*inputs(n, m, dtype))
                    assert call is alone or "test_size_arithmetic.py" in str(error.value)


def test_comparisons_of_sizes_are_exact_at_any_length(tmp_path: Path, library: Library) -> None:
    def f(x: Any, z: Any, y: Any) -> Any:
        return y if x.shape[0] ** 4 - z.shape[0] > 2**70 else -y

    g, h = jg.trace(f), jg.trace(f, dynamic_shapes=NAMED)
    for n, m in SIZES * 2:
        answer = f(*inputs(n, m))
        for call in (g, h):
            assert call(*inputs(n, m)).item() == answer.item()
    for large in (False, True):
        file = tmp_path / f"{large}.jg"
        jg.save(h, file, example_inputs=inputs(2**20 if large else 3, 4))
        for n, m in SIZES:
            answer = f(*inputs(n, m)).item()
            for call in (loader.load(file), library.load(file)):
                if (answer == 1) == large:
                    (result,) = [call(*inputs(n, m))] if isinstance(call, loader.Model) else call(*inputs(n, m))
                    assert np.asarray(result).item() == answer
                else:
                    with pytest.raises((ArgumentError, CError), match="must satisfy"):
                        call(*inputs(n, m))


LONG: Final[dict[str, Callable[[Any], Any]]] = {
    "first": lambda n: jg.arange(4 * n)[:3],
    "last": lambda n: jg.arange(4 * n)[-3:],
    "flipped": lambda n: jg.flip(jg.arange(2 * n + n))[:2],
    "broadcast": lambda n: jg.broadcast_to(jg.ones(()), (n, 4)).reshape(-1)[:2],
    "taken": lambda n: jg.take(jg.arange(4 * n), jg.asarray([1, 2])),
    "sum": lambda n: jg.arange(4 * n).sum(),
    "any": lambda n: (jg.arange(n * n) > 5).any(),
    "turns": lambda n: jg.scan(lambda c, _: (c + 1, None), jg.zeros(()), None, length=4 * n)[0],
    "empty": lambda n: jg.full((4 * n, 0), 1.0).sum(axis=1)[:2],
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_extents_that_leave_64_bits_are_refused(name: str) -> None:
    f = jg.trace(lambda x: LONG[name](x.shape[0]), dynamic_shapes={"x": {0: "n"}})
    for n in (3, 2**62, 5, 2**62 + 2**40):
        if n < 9:
            np.testing.assert_array_equal(f(np.empty((n, 0), np.int8)).numpy(), LONG[name](n).numpy())
        else:
            with pytest.raises(ArgumentError, match=r"leaves? 64 bits"):
                f(np.empty((n, 0), np.int8))


def test_a_division_by_a_size_of_0_is_refused(tmp_path: Path) -> None:
    formula: Formula
    for formula in (lambda n, m: n // m, lambda n, m: n % m, lambda n, m: n**5 // (m * m)):
        f = jg.trace(function_of([formula]), dynamic_shapes=NAMED)
        jg.save(f, tmp_path / "divided.jg", example_inputs=inputs(3, 4))
        assert f(*inputs(7, 2))[0].item() == formula(7, 2)
        with pytest.raises(ZeroDivisionError):
            f(*inputs(3, 0))
        with pytest.raises(ArgumentError):
            loader.load(tmp_path / "divided.jg")(*inputs(3, 0))


def test_more_than_a_float_holds_is_refused_as_python_refuses_it() -> None:
    def f(x: Any, y: Any) -> Any:
        return y * (x.shape[0] ** 8) ** 8

    g = jg.trace(f)
    for n in (2, 3, 4, 5, 2**15):
        x = np.empty((n, 0), np.int8)
        assert g(x, np.ones(())).item() == f(x, jg.ones((), dtype=jg.float64)).item()
    for _ in range(2):
        with pytest.raises(jg.NumberError, match="too large for a float") as error:
            g(np.empty((2**16, 0), np.int8), np.ones(()))
        assert "test_size_arithmetic.py" in str(error.value)


def random_formula(source: random.Random, depth: int) -> str:
    """A formula over n, m and ints; ``power`` takes a number and a small int."""
    if depth == 0 or source.random() < 0.15:
        return str(source.choice(["n", "m", source.randint(-9, 9), source.choice([2**31, 2**63, -(2**64), 10**20])]))
    if source.random() < 0.15:
        return f"power({random_formula(source, depth - 1)}, {source.randint(0, 4)})"
    chosen = source.choice(["+", "-", "*", "//", "%"])
    return f"({random_formula(source, depth - 1)} {chosen} {random_formula(source, depth - 1)})"


def formula_of(text: str, power: Any = operator.pow) -> Formula:
    return eval(f"lambda n, m: {text}", {"power": power})  # type: ignore[no-any-return]


def dim_of(text: str) -> Any:
    """The formula as a dim over the names n and m."""
    return formula_of(text, lambda number, power: product([number] * power))(Dim.name("n"), Dim.name("m"))


def random_formulas(source: random.Random, sizes: Sequence[tuple[int, int]]) -> Iterator[Formula]:
    while True:
        text = random_formula(source, 3)
        try:
            numbers = [formula_of(text)(n, m) for n, m in sizes]
            bound = magnitude(dim_of(text))
        except (ArithmeticError, jg.GraphError):
            continue
        if max(map(abs, numbers)) < 2**1000 and bound < 2**1000:
            yield formula_of(text)


def test_random_formulas(tmp_path: Path) -> None:
    """``SIZE_FORMULAS`` says how many."""
    source = random.Random(int(os.environ.get("SIZE_FORMULAS_SEED", "0")))
    sizes = [(source.randint(1, 2**bits), source.randint(1, 2**bits)) for bits in (3, 16, 22, 33, 62, 62)]
    left = int(os.environ.get("SIZE_FORMULAS", "24"))
    stream = random_formulas(source, sizes)
    file = tmp_path / "random.jg"
    while left > 0:
        formulas = [next(stream) for _ in range(min(left, 12))]
        left -= len(formulas)
        f = jg.trace(function_of(formulas), dynamic_shapes=NAMED)
        jg.save(f, file, example_inputs=inputs(*sizes[0]))
        for n, m in sizes:
            for call in (f, loader.load(file)):
                require(call(*inputs(n, m)), formulas, n, m, np.float64)


def test_the_bounds_of_sizes_hold() -> None:
    source = random.Random(1)
    sizes = [(0, 0), (0, 2**63 - 1), (2**63 - 1, 2**63 - 1), (1, 2**62), (12345, 2**40)]
    bounded = 0
    for _ in range(400):
        try:
            dim = dim_of(random_formula(source, 3))
        except (ArithmeticError, jg.GraphError):  # a division by 0
            continue
        for n, m in sizes:
            try:
                number = evaluate(dim, {"n": n, "m": m})
            except jg.GraphError:
                assert not stays_in_64_bits(dim)
                continue
            assert abs(number) <= magnitude(dim)
            assert -(2**63) <= number < 2**63 or not stays_in_64_bits(dim)
        bounded += stays_in_64_bits(dim)
    assert bounded > 20


def test_an_int_that_varies_is_exact_beside_tensors() -> None:
    """Promoted arguments, attributes and globals are evaluated by Python at each call."""

    class Counter:
        k = 3

    counter: Any = Counter()
    formulas = (
        lambda k: k**4, lambda k: k * (k * k - 1), lambda k: k << 40, lambda k: k**5 // 7, lambda k: k**7 % 1009,
        lambda k: k**4 / (k**3 + 1), lambda k: -(k**3), lambda k: 10**25 - k, lambda k: k**2 * 0.5,
    )  # fmt: skip

    def f(y: Any, k: int) -> Any:
        return tuple([formula(number) * y for number in (k, counter.k) for formula in formulas])

    g = jg.trace(f)
    for dtype in (np.float64, np.float32):
        y = np.ones((), dtype)
        for k in (2, 3, 5, 2_097_152, 2**40 + 1, 2**60 + 2**36 + 1, 2**70 + 1, -(2**65)):
            counter.k = k + 1
            for _ in range(2):
                for actual, number in zip(g(y, k), f(jg.asarray(y), k), strict=True):
                    assert actual.item() == number.item()
    with pytest.raises((OverflowError, CHECK_KINDS["OverflowError"], jg.NumberError)):
        g(np.ones((), np.int64), 2**40)
