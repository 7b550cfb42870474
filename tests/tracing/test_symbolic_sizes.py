"""A size that is a name stands for an int wherever a program compares or computes with it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.ir import dims
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.dims import parse_dim, without_quotients
from jitgraph.runtime import loader

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("compare", COMPARISONS)
def test_a_tensor_against_a_size_gives_a_tensor(compare: Callable[[Any, Any], Any]) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        indices = jg.arange(x.shape[0])
        return compare(indices, x.shape[0] - 1), compare(x.shape[0], x)

    for size in (1, 3, 8):
        x = np.linspace(0, 8, size)
        left, right = f(x)
        np.testing.assert_array_equal(left.numpy(), compare(np.arange(size), size - 1))
        np.testing.assert_array_equal(right.numpy(), compare(size, x))


def test_a_size_that_turns_out_to_vary_changes_no_comparison() -> None:
    @jg.trace
    def last(x: jg.Tensor) -> jg.Tensor:
        return jg.where(jg.arange(x.shape[0]) == x.shape[0] - 1, x, 0)

    for size in (2, 3, 5):
        assert last(np.ones(size, np.float32)).tolist() == [0.0] * (size - 1) + [1.0]


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("number", [2.5, 3.0, -0.5, float("inf"), float("-inf"), float("nan")])
def test_a_size_against_a_float_is_a_guard(compare: Callable[[Any, Any], Any], number: float) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        n = x.shape[0]
        return x if compare(n, number) else -x, x if compare(number, n) else -x

    for size in (2, 3, 4, 0):
        left, right = f(jg.ones(size))
        assert left.tolist() == [1.0 if compare(size, number) else -1.0] * size
        assert right.tolist() == [1.0 if compare(number, size) else -1.0] * size


def test_the_magnitude_of_a_size() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: jg.Tensor) -> jg.Tensor:
        return x[: abs(x.shape[0] - 3)]

    assert [f(jg.ones(size)).shape for size in (2, 3, 5)] == [(1,), (0,), (2,)]


def test_a_return_among_rows_of_any_number() -> None:
    @jg.script
    def found(rows: jg.Tensor, wanted: jg.Tensor) -> Any:
        for row in rows:  # noqa: SIM110 - the loop is what is tested
            if row == wanted:
                return True
        return False

    for rows, wanted in (([3, 1, 2], 2), ([5, 5], 5), ([1], 9), ([4, 4, 4, 4], 3)):
        assert bool(found(jg.asarray(rows), jg.asarray(wanted))) is (wanted in rows)


def test_code_that_takes_no_name_for_a_size_gets_the_size() -> None:
    @jg.trace
    def positions(x: jg.Tensor) -> jg.Tensor:
        return x + jg.arange(0, 2 * x.shape[0], 2, dtype=jg.float32)  # a range with a step has no named end

    for size in (3, 4, 5, 3, 4, 5):
        assert positions(jg.ones(size)).tolist() == [1.0 + 2 * i for i in range(size)]
    assert positions.cache_info().misses == 3

    @jg.trace
    def grown(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        return x + y

    grown(jg.ones(3), jg.ones(3))
    for _ in range(2):
        with pytest.raises(jg.ShapeError, match="sizes 4 and 5 meet"):
            grown(jg.ones(4), jg.ones(5))
    for size in (4, 5, 6):
        assert grown(jg.ones(size), jg.ones(size)).shape == (size,)
    assert grown.cache_info().misses == 2  # the call that failed pins nothing


def test_a_size_is_an_operand_like_an_int() -> None:
    def f(x: Any, i: Any) -> tuple[Any, ...]:
        n = x.shape[0]
        y = x * 1
        y[0] = n
        half = x.astype(jg.float16)
        return (
            y,
            jg.where(i < n, i, n),
            jg.minimum(i, n - 1),
            jg.clip(i, 0, n),
            jg.full((2,), n),
            jg.sqrt(n),
            half * n,
            half / jg.sqrt(n),
            i.astype(jg.int8) + n,
        )

    traced = jg.trace(dynamic_shapes={"x": {0: "n"}})(f)
    for size in (1, 4, 9):
        x, i = jg.ones(size, dtype=jg.float64), jg.asarray([0, 5, 20])
        for mine, due in zip(traced(x, i), f(x, i), strict=True):
            assert mine.dtype == due.dtype
            np.testing.assert_allclose(mine.numpy(), due.numpy(), rtol=1e-6)
    assert traced.cache_info().misses == 1


def test_layers_take_sizes_that_are_names() -> None:
    functional = jg.nn.functional

    def f(x: Any, w: Any, labels: Any) -> tuple[Any, ...]:
        return (
            functional.layer_norm(x, x.shape[1:]),
            functional.layer_norm(x, (x.shape[-1],), w),
            functional.rms_norm(x, x.shape[-1], w),
            functional.one_hot(labels, x.shape[1]),
        )

    traced = jg.trace(dynamic_shapes={"x": {0: "n", 1: "m"}, "w": {0: "m"}})(f)
    for n, m in ((2, 3), (1, 5), (4, 1)):
        x, w, labels = np.arange(n * m, dtype=np.float64).reshape(n, m), np.ones(m), np.arange(n) % m
        for mine, due in zip(traced(x, w, labels), f(jg.asarray(x), jg.asarray(w), labels), strict=True):
            assert mine.dtype == due.dtype
            np.testing.assert_allclose(mine.numpy(), due.numpy(), rtol=1e-12)
    with pytest.raises(IndexError, match="one_hot"):
        traced(np.ones((2, 3)), np.ones(3), np.array([3, 0]))
    fixed = jg.trace(dynamic_shapes={"x": {1: "m"}})(lambda x, w: functional.layer_norm(x, x.shape[1:], w))
    assert fixed(np.ones((2, 3)), np.ones(3)).shape == (2, 3)  # the weight holds m to 3
    with pytest.raises(jg.JitgraphError, match="layer_norm takes a weight of shape"):
        fixed(np.ones((2, 4)), np.ones(3))


def test_the_mean_of_images_of_any_size() -> None:
    pooled = jg.trace(dynamic_shapes={"x": {0: "n", 2: "h", 3: "w"}})(
        lambda x: jg.nn.functional.adaptive_avg_pool2d(x, 1)
    )
    for shape in ((2, 3, 4, 5), (1, 3, 7, 2)):
        x = np.random.default_rng(0).standard_normal(shape)
        np.testing.assert_allclose(pooled(x).numpy(), x.mean(axis=(2, 3), keepdims=True), rtol=1e-12)
    assert pooled.cache_info().misses == 1
    with pytest.raises(jg.TraceError, match="n used as a Python int"):
        jg.trace(dynamic_shapes={"x": {0: "n"}})(lambda x: jg.nn.functional.pad(x, (0, x.shape[0])))(jg.ones(3))


functional = jg.nn.functional
CONDITIONS: dict[str, tuple[Callable[[Any], Any], str, tuple[int, ...], tuple[int, ...]]] = {
    # what is computed, what it assumes, sizes that fit and sizes that do not
    "reshape with a hole": (lambda x: x.reshape(-1, 4, 6), "n % 4 == 0", (8, 4, 0), (6, 1)),
    "a hole for other axes": (lambda x: x.reshape(4, -1), "n % 2 == 0", (8, 2, 0), (3, 1)),
    "quotient by name": (lambda x: x.reshape(x.shape[0] // 4, 24) + 1, "n % 4 == 0", (8, 4, 0), (6, 1)),
    "quotient inside": (lambda x: x.reshape(4, x.shape[0] // 4, 3, 2) * 2, "n % 4 == 0", (8, 4, 0), (5, 2)),
    "there and back": (lambda x: (x.reshape(-1, 4, 6) * 2).reshape(x.shape[0], 6) + x, "n % 4 == 0", (8, 4, 0), (6,)),
    "twice": (
        lambda x: x.reshape(-1, 8, 6).sum(1).reshape(-1, 6) + x.reshape(-1, 8, 6)[:, 0],
        "n % 8 == 0",
        (16,),
        (4,),
    ),
    "chunk": (lambda x: x.chunk(2), "n % 2 == 0", (8, 2), (3, 0)),
    "split by a quotient": (lambda x: x.split(x.shape[0] // 2), "n % 2 == 0", (8, 2), (1, 0)),
    "split by a list": (lambda x: x.split([2, x.shape[0] - 2]), "n >= 2", (8, 2), (1, 0)),
    "repeat undone": (lambda x: x.repeat(2, 0).reshape(x.shape[0], 12), "", (3, 0), ()),
    "groups": (lambda x: functional.group_norm(x.reshape(1, x.shape[0], 6), 2), "n % 2 == 0", (8, 2), (3,)),
    "convolution groups": (
        lambda x: functional.conv1d(jg.ones((1, 4, 8)), x[:, :2].reshape(x.shape[0], 2, 1), groups=2),
        "n % 2 == 0",
        (8, 2),
        (3,),
    ),
    "a constraint of a composite": (
        lambda x: functional.avg_pool2d(x.reshape(1, 1, x.shape[0], 6), 2),
        "n >= 2",
        (8, 2, 3),
        (1, 0),
    ),
    "roll": (lambda x: jg.roll(x, 2, 0) - jg.roll(x, -1, 0), "n >= 1", (8, 2, 1), (0,)),
    "max": (lambda x: x.max(0), "n >= 1", (3, 1), (0,)),
    "min of all": (lambda x: x.min(), "n >= 1", (3, 1), (0,)),
    "argmax": (lambda x: x.argmax(0), "n >= 1", (3, 1), (0,)),
    "argmin of all": (lambda x: x.argmin(), "n >= 1", (3, 1), (0,)),
    "topk": (lambda x: jg.topk(x, 2, 0), "n >= 2", (3, 2), (1, 0)),
    "mean": (lambda x: x.mean(0), "", (3, 0), ()),
    "logsumexp": (lambda x: jg.logsumexp(x, 1), "", (3, 0), ()),
}


GUARDED_MORE = ("chunk", "roll")  # a program of other sizes has another form


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_a_size_must_be_is_a_constraint(name: str, tmp_path: Path) -> None:
    function, condition, fitting, unfitting = CONDITIONS[name]
    traced = jg.trace(dynamic_shapes={"x": {0: "n"}})(function)
    varying = jg.trace(function)
    for size in fitting:
        x = np.arange(6 * size, dtype=np.float32).reshape(size, 6)
        due = leaves_of(function(jg.asarray(x)))
        for call in (traced, varying):
            actual = leaves_of(call(x))
            assert [a.shape for a in actual] == [a.shape for a in due]
            for mine, expected in zip(actual, due, strict=True):
                np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)
    (graph,) = [program.graph for program in traced.plans]
    assert condition in map(str, graph.constraints) if condition else not graph.constraints
    assert jg.ir.parse(str(graph)).constraints == graph.constraints
    jg.save(traced, tmp_path / "f.jg", example_inputs=(np.ones((fitting[0], 6), np.float32),))
    model = loader.load(tmp_path / "f.jg")
    for size in fitting:
        model(np.ones((size, 6), np.float32))
    for size in unfitting:
        x = np.ones((size, 6), np.float32)
        for call in (traced,) if name in GUARDED_MORE else (function, traced, varying):
            with pytest.raises(jg.ShapeError, match=r"test_symbolic_sizes\.py:"):
                call(jg.asarray(x))
        if name in GUARDED_MORE:  # a size that no name is asked for is traced as it is
            assert [a.shape for a in leaves_of(varying(x))] == [a.shape for a in leaves_of(function(jg.asarray(x)))]
        with pytest.raises(loader.ArgumentError, match="the sizes must satisfy"):
            model(x)
    if name != "split by a quotient":  # how many pieces there are takes a size
        assert jg.trace(function).lower(jg.TensorSpec(("n", 6))).graph.constraints == graph.constraints


def leaves_of(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in (result if isinstance(result, tuple | list) else [result])]


def test_gradients_through_sizes_that_divide() -> None:
    def loss(x: Any) -> Any:
        first, second = (x.reshape(-1, 4, 3).max(1) * 2).chunk(2)
        return (first * second).sum()

    traced = jg.trace(dynamic_shapes={"x": {0: "n"}})(lambda x: jg.grad(loss)(x))
    for size in (8, 16, 24):
        x = jg.random.normal((size, 3))
        np.testing.assert_allclose(traced(x).numpy(), jg.grad(loss)(x).numpy(), rtol=1e-6)
    with pytest.raises(jg.ShapeError, match="do not divide by 2"):
        traced(jg.ones((12, 3)))
    assert traced.cache_info().misses == 1


def test_sizes_are_simplified_to_equal_numbers() -> None:
    """Random expressions: their normal form, the form without quotients and what shows them natural are true."""
    rng = np.random.default_rng(0)

    def expression(depth: int) -> str:
        if depth == 0:
            return str(rng.choice(["n", "m", "k", "1", "2", "3", "6", "4"]))
        operator = rng.choice(["+", "-", "*", "//", "%"])
        return f"({expression(depth - 1)} {operator} {expression(depth - 1)})"

    checked = 0
    for _ in range(3000):
        text = expression(int(rng.integers(1, 4)))
        try:
            dim = parse_dim(text)
        except jg.GraphError:
            continue  # divided by 0
        assert parse_dim(str(dim)) == dim
        for values in ({"n": 0, "m": 1, "k": 5}, {"n": 12, "m": 7, "k": 2}, {"n": 3, "m": 2, "k": 0}):
            try:
                due = eval(text, dict(values))
            except ZeroDivisionError:
                continue
            checked += 1
            assert dims.evaluate(dim, values) == due, (text, dim)
            assert dims.evaluate(without_quotients(dim), values) == due, (text, dim)
            assert due >= 0 or not dims.is_natural(dim), (text, dim)
    assert checked > 5000


def test_a_quotient_of_a_negative_size_is_not_taken_for_natural() -> None:
    known = Constraints(frozen=True)
    assert not known.at_least(parse_dim("(2 - n) // 2"), 0)
    assert known.at_least(parse_dim("(n + 2) // 2"), 1)
    assert not known.same(parse_dim("4*(n // 4)"), parse_dim("n"))
    inputs = Constraints([SizeConstraint.parse("n % 8 == 0")], frozen=True)
    assert inputs.same(parse_dim("4*(n // 4)"), parse_dim("n"))
    assert inputs.same(parse_dim("3*m*(n % 2)"), 0)
    assert not inputs.same(parse_dim("16*(n // 16)"), parse_dim("n"))


TABLE = np.arange(40, dtype=np.float32).reshape(10, 4)


def _written(table: Any, n: int, x: Any) -> Any:
    rows = table + 0
    rows[:n] = x[0]
    rows[:n, 1:3] *= 2
    return rows


CUTS: dict[str, Callable[[Any, int, Any], Any]] = {
    "to n": lambda table, n, x: table[:n],
    "from n": lambda table, n, x: table[n:],
    "the last n": lambda table, n, x: table[-n:],
    "without the last n": lambda table, n, x: table[:-n],
    "between sizes": lambda table, n, x: table[n : 2 * n],
    "from a number": lambda table, n, x: table[2:n],
    "to a number": lambda table, n, x: table[n:7],
    "to an offset": lambda table, n, x: table[: n - 4],
    "by steps": lambda table, n, x: table[1:n:2],
    "two axes": lambda table, n, x: table[:n, :n],
    "a named size by a number": lambda table, n, x: x[:6],
    "a named size between numbers": lambda table, n, x: x[3:9:2],
    "a named size without its last numbers": lambda table, n, x: x[4:-3],
    "a named size from behind": lambda table, n, x: x[-9:-4],
    "written": _written,
}


@pytest.mark.parametrize("name", CUTS)
def test_a_slice_of_a_known_extent_by_a_named_size_is_pythons(name: str) -> None:
    """Beyond the extent, and on the other side of 0, another recording serves."""
    f = jg.trace(lambda table, x: CUTS[name](table, x.shape[0], x), dynamic_shapes={"x": {0: "n"}})
    for size in (6, 3, 10, 1, 5, 14, 11, 7):
        x = np.linspace(-1, 1, 4 * size, dtype=np.float32).reshape(size, 4)
        np.testing.assert_array_equal(f(TABLE, x).numpy(), CUTS[name](TABLE.copy(), size, x), err_msg=str(size))
    assert f.cache_info().misses <= 4


def test_a_table_of_positions_is_cut_to_the_length(tmp_path: Path) -> None:
    """In values, in gradients and in files, which check the length at entry."""
    table = jg.nn.Parameter(TABLE)

    @jg.trace(dynamic_shapes={"x": {1: "length"}})
    def f(x: jg.Tensor) -> jg.Tensor:
        return x + table[None, : x.shape[1]]

    gradient = jg.trace(jg.grad(lambda t, x: jg.sum(t[: x.shape[0]] * x)), dynamic_shapes={"x": {0: "length"}})
    jg.save(f, tmp_path / "f.jg", example_inputs=(np.zeros((2, 4, 4), np.float32),))
    saved = loader.load(tmp_path / "f.jg")
    for length in (4, 10, 1, 7):
        x = np.linspace(0, 1, 8 * length, dtype=np.float32).reshape(2, length, 4)
        np.testing.assert_array_equal(f(x).detach().numpy(), x + TABLE[:length])
        np.testing.assert_array_equal(saved(x), x + TABLE[:length])
        expected = np.concatenate([x[0], np.zeros((10 - length, 4), np.float32)])
        np.testing.assert_array_equal(gradient(TABLE, x[0]).numpy(), expected)
    assert f.cache_info().misses == gradient.cache_info().misses == 1
    with pytest.raises(Exception, match="10 >= length"):
        saved(np.zeros((2, 11, 4), np.float32))
    with pytest.raises(jg.ShapeError, match="sizes length and 10"):
        f(np.zeros((2, 11, 4), np.float32))
    graph = f.lower(jg.TensorSpec((2, "length", 4), jg.float32)).graph
    assert "10 >= length" in str(graph)
