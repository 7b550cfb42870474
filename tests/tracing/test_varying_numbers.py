"""Python ints and floats that vary: read again at each call, and what Python asks about them is held."""

from __future__ import annotations

import math
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgraph as jg


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


COUNT = 0
TABLE = {"step": 0, 3: "three"}
X = jg.asarray([1.0, 2.0])


class Counter(jg.nn.Module):
    kind = 0

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.rate = 0.5
        self.items = [0, 1]
        self.seen: Any = None

    def forward(self, x: Any) -> Any:
        self.n += 1
        return x * self.n


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


def count_global(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x * COUNT


def test_a_counter_compiles_once() -> None:
    model, slotted, table, cells = Counter(), Slotted(), {"n": 0}, [0]
    free = 0

    def attribute(x: Any) -> Any:
        return model(x)

    def slot(x: Any) -> Any:
        slotted.n += 1
        return x * slotted.n

    def item(x: Any) -> Any:
        table["n"] += 1
        cells[0] += 2
        return x * table["n"] + cells[0]

    def cell(x: Any) -> Any:
        nonlocal free
        free += 1
        return x * free

    def unused(x: Any) -> Any:
        model.n += 1
        return x + 1

    for function, due in ((attribute, 5), (slot, 5), (item, 15), (cell, 5), (count_global, 5), (unused, 2)):
        traced = jg.trace(function)
        for _ in range(5):
            result = traced(X)
        assert result.tolist()[0] == due
        assert traced.cache_info() == (4, 1, 1), function
    assert (model.n, slotted.n, table["n"], cells[0], free, COUNT) == (10, 5, 5, 10, 5, 5)
    assert type(model.n) is int and type(COUNT) is int
    model.n = 40
    assert jg.trace(model.forward)(X).tolist() == [41, 82]


def test_a_number_that_is_read_costs_one_compilation_more() -> None:
    box = types.SimpleNamespace(epoch=0, base=0.1)

    @jg.trace
    def f(x: Any, k: int) -> Any:
        return x * (box.base * 0.9**box.epoch) + k

    for epoch in range(12):
        box.epoch, box.base = epoch, 0.1 * (1 + epoch)
        actual = f(X, 3 * epoch).numpy()
        np.testing.assert_array_equal(actual, (X * (box.base * 0.9**epoch) + 3 * epoch).numpy())
    assert f.cache_info().misses == 2


USES: dict[str, Callable[[Any, Any], Any]] = {
    "range": lambda x, n: sum((x * i for i in range(n)), x),
    "shape": lambda x, n: jg.zeros((n, 2)) + x,
    "index of a list": lambda x, n: x * [3, 4, 5, 6, 7, 8, 9][n % 7],
    "key of a dict": lambda x, n: x * {0: 1.0, 3: 2.0}.get(n, 5.0),
    "in": lambda x, n: x * (2 if n in (1, 2, 4) else 3),
    "equal": lambda x, n: x + 1 if n == 3 else x,
    "bool": lambda x, n: x + 1 if n else x,
    "period": lambda x, n: x * n if n % 3 == 0 else x,
    "below": lambda x, n: x * min(n, 4) + max(n, 2),
    "text": lambda x, n: x * len(f"{n:03d}") + len(str(n)) + len(repr(n * 7)),
    "math": lambda x, n: x * math.cos(n) + math.floor(n / 2) + math.ceil(n / 3) + math.sqrt(abs(n)),
    "int and float": lambda x, n: x * float(n) + int(n / 2) + round(n / 3) + round(n / 3, 1),
    "arithmetic": lambda x, n: x * (n // 2 + n % 3 - (-n) ** 2 + (n << 2) + (n >> 1) + (n ^ 5) + (n & 6) + ~n),
    "division": lambda x, n: x / (n + 1) + 7 // (n + 1) + 7 % (n + 1) + 2**n + 0.5**n + n**2 + divmod(n, 4)[1],
    "power of a tensor": lambda x, n: x**n + jg.pow(x, n / 2),
    "negative power": lambda x, n: x * 2 ** (3 - n),
    "functions": lambda x, n: (
        jg.where(x > n, x, n) + jg.clip(x, 0, n) + jg.full((2,), n) + jg.maximum(jg.asarray(n), n)
    ),
    "integers": lambda x, n: x.astype(jg.int32) * n + (x.astype(jg.uint8) + n),
    "bools": lambda x, n: (x > 1) * n + jg.asarray(n, dtype=jg.bool) * 1,
    "comparison with a tensor": lambda x, n: (n < x).astype(jg.float32) + (x == n) + (n != x),
    "numpy": lambda x, n: x * np.ones(2, np.float32) * n + np.arange(3)[n % 3] + np.float32(2) * n + np.asarray(n),
    "a size": lambda x, n: x * (x.shape[0] * n) + jg.sum(x) / n if n else x,
    "type": lambda x, n: x + 1 if type(n) is int and isinstance(n, int) and not isinstance(n, jg.Tensor) else x,
    "axis and index": lambda x, n: x[n % 2] + jg.stack([x, x]).sum(axis=n % 2),
    "methods": lambda x, n: x * n.bit_length() + n.real + (n / 2).is_integer(),
    "set": lambda x, n: x * len({n, 1, 2}) + sorted([n, 3, -1])[1] + sum([n, n]),
    "cond": lambda x, n: jg.cond(jg.sum(x) > n, lambda y: y * n, lambda y: y - n, x),
    "loop": lambda x, n: jg.while_loop(lambda c: jg.sum(c) < 50 + n, lambda c: c + n + 1, x),
    "scan": lambda x, n: jg.scan(lambda c, v: (c * 1.0 + v * n, c + n), x[0] * 1.0, x)[1],
    "random": lambda x, n: x * abs(n) * jg.ones((n % 3 + 1, 2)),
    "result": lambda x, n: (x, n + 1, {"n": n, "half": n / 2, "list": [n * 2]}),
    "result set": lambda x, n: (x, {n, -5}),
    "lambda default": lambda x, n: (lambda y, k=n: y * k)(x),
    "no int": lambda x, n: x if n is None else x * n,
    "complex": lambda x, n: x * (abs((n * 1j) + 0) if n != "a" else 1),
    "many questions": lambda x, n: x * sum(1 for i in range(100) if i < n),
    "long": lambda x, n: x * float((lambda v: [v := v + n * i for i in range(200)][-1])(n)),
}


def values_of(result: Any) -> Any:
    from jitgraph import tree

    return tree.map_leaves(lambda y: (str(y.dtype), y.tolist()) if isinstance(y, jg.Tensor) else (type(y), y), result)


@pytest.mark.parametrize("as_argument", [False, True], ids=["captured", "argument"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_each_use_gives_what_eager_gives(use: Any, as_argument: bool) -> None:
    box = types.SimpleNamespace(n=0)

    def captured(x: Any) -> Any:
        return use(x, box.n)

    traced: Any = jg.trace(use) if as_argument else jg.trace(captured)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for n in (0, 1, 2, 3, 1, 4, 5, 0, 6):
            box.n = n
            try:
                due = values_of(use(X, n))
            except ZeroDivisionError:
                with pytest.raises(ZeroDivisionError):
                    traced(*((X, n) if as_argument else (X,)))
                continue
            assert values_of(traced(*((X, n) if as_argument else (X,)))) == due, n
            assert box.n == n and type(box.n) is int


NUMBERS = st.integers(-3, 9)
LEAVES = st.sampled_from(["a", "b", "f", "2", "3", "0.5", "-1"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < {t[2]} else {t[0]} + 1)"),
        inner.map(lambda t: f"abs({t})"),
        inner.map(lambda t: f"round({t})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([0.0, -0.5, 2.5])), min_size=2, max_size=5))
def test_expressions_mean_what_they_mean_in_python(text: str, states: list[tuple[int, int, float]]) -> None:
    box = types.SimpleNamespace(a=0, b=0, f=0.0)
    names: dict[str, Any] = {"box": box}
    exec(f"def use(x):\n    a, b, f = box.a, box.b, box.f\n    return x * ({text})\n", names)
    traced = jg.trace(names["use"])
    x = jg.asarray([1.0, -2.0], dtype=jg.float64)
    for box.a, box.b, box.f in states:
        try:
            due = names["use"](x)
        except (ZeroDivisionError, OverflowError) as error:
            with pytest.raises(type(error)):
                traced(x)
            continue
        np.testing.assert_array_equal(traced(x).numpy(), due.numpy())


def test_an_integer_that_does_not_fit_raises_as_in_eager() -> None:
    x = jg.asarray([1, 2], dtype=jg.int8)
    f = jg.trace(lambda x, n: x * n)
    assert f(x, 1).tolist() == [1, 2] and f(x, 2).tolist() == [2, 4] and f(x, 3).tolist() == [3, 6]
    assert f.cache_info().misses == 2
    for n in (128, -129, 2**70):
        with pytest.raises(OverflowError):
            f(x, n)
    y = jg.asarray([1.0])
    assert jg.trace(lambda y, n: y * n)(y, 2**70).item() == float(2**70)
    g = jg.trace(lambda y, n: y * n)
    assert [g(y, n).item() for n in (1, 2, 2**70, 3)] == [1, 2, float(2**70), 3]


def test_what_holds_a_number_is_named() -> None:
    box = types.SimpleNamespace(n=0)

    @jg.trace
    def f(x: Any) -> Any:
        for _ in range(box.n):
            x = x + 1
        return x

    line = sys._getframe().f_lineno - 4
    with pytest.warns(RuntimeWarning, match=rf"box.n == \d .*box.n used as a Python int.*{line}.*jg.asarray"):
        for box.n in range(12):
            assert f(X).tolist() == [1 + box.n, 2 + box.n]
    assert f.cache_info() == (0, 12, 8)
    assert "used as a Python int" in str(f.ledger[-1])


def test_numbers_that_are_read_are_listed() -> None:
    box = types.SimpleNamespace(n=0)

    @jg.trace
    def f(x: Any) -> Any:
        box.n += 1
        return x * 2 if box.n % 2 else x

    f(X)
    report = str(jg.explain(f, X))
    assert "read at each call" in report and "box.n" in report
    assert "(box.n + 1) % 2" in report


def test_an_exception_puts_the_number_back() -> None:
    box = types.SimpleNamespace(n=0)

    @jg.trace
    def f(x: Any) -> Any:
        box.n += 1
        if box.n == 3:
            raise ValueError("three")
        return x * box.n

    assert [f(X).tolist()[0] for _ in range(2)] == [1, 2]
    with pytest.raises(ValueError, match="three"):
        f(X)
    assert box.n == 2 and type(box.n) is int
    box.n = 5
    assert f(X).tolist()[0] == 6


def test_code_that_takes_no_stand_in_gets_the_number() -> None:
    box = types.SimpleNamespace(n=0)

    def strict_int(n: Any) -> int:
        kind = type
        if kind(n) is not int:
            raise TypeError("an int, please")
        return n

    f = jg.trace(lambda x: x * strict_int(box.n))
    for box.n in range(4):
        assert f(X).tolist()[0] == box.n


def test_another_thread_sees_a_plain_number() -> None:
    box = types.SimpleNamespace(n=1)
    seen: list[Any] = []

    def look() -> None:
        n = box.n
        seen.append((n + 1, f"{n}", n == 1, isinstance(n, int), [0, 1, 2][n]))

    def f(x: Any) -> Any:
        box.n += 1
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return x * box.n

    with pytest.warns(RuntimeWarning, match="what another thread does"):
        jg.trace(f)(X)
    assert seen[-1] == (3, "2", False, True, 2) and type(seen[-1][0]) is int


def test_a_number_of_a_method_is_each_object_s_own() -> None:
    class Part:
        def __init__(self, n: int) -> None:
            self.n = n

        @jg.trace
        def step(self, x: Any) -> Any:
            self.n += 1
            return x * self.n

    a, b = Part(0), Part(10)
    results = [[part.step(X).tolist()[0] for part in (a, b)] for _ in range(4)]
    assert results == [[1, 11], [2, 12], [3, 13], [4, 14]]
    assert Part.step.cache_info().misses == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: jg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5),
        lambda optimizer: jg.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4),
        lambda optimizer: jg.optim.lr_scheduler.StepLR(optimizer, step_size=2),
        lambda optimizer: jg.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 2 * epoch),
    ],
)
def test_schedulers_inside_a_step(make: Any) -> None:
    def run(wrap: Any) -> list[Any]:
        weight = jg.nn.Parameter(jg.ones((2,)))
        optimizer = jg.optim.SGD([weight], lr=0.5)
        scheduler = make(optimizer)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (weight * x).sum()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss

        function = wrap(step)
        results = [function(X).item() for _ in range(5)]
        assert wrap is not jg.trace or function.cache_info().misses <= 2
        return [*results, weight.tolist(), optimizer.param_groups[0]["lr"], scheduler.last_epoch]

    eager, traced = run(lambda f: f), run(jg.trace)
    assert traced[-2:] == eager[-2:]
    np.testing.assert_allclose(np.hstack(traced), np.hstack(eager), rtol=1e-6)


def test_a_rate_that_the_step_itself_sets() -> None:
    def run(wrap: Any) -> Any:
        weight = jg.nn.Parameter(jg.ones((2,)))
        optimizer = jg.optim.SGD([weight], lr=0.5)
        box = types.SimpleNamespace(n=0)

        def step(x: Any) -> Any:
            box.n += 1
            optimizer.param_groups[0]["lr"] = 0.1 * box.n
            optimizer.zero_grad()
            (weight * x).sum().backward()
            optimizer.step()
            return weight * 1

        function = wrap(step)
        return [function(X).tolist() for _ in range(4)]

    np.testing.assert_allclose(run(jg.trace), run(lambda f: f), rtol=1e-6)


def test_a_rate_that_user_code_reads_beside_the_optimiser() -> None:
    weight = jg.nn.Parameter(jg.ones((2,)))
    optimizer = jg.optim.SGD([weight], lr=0.5)

    @jg.trace
    def step(x: Any) -> Any:
        (weight * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return x * optimizer.param_groups[0]["lr"]

    for rate in (0.5, 0.25, 0.125, 0.0625):
        optimizer.param_groups[0]["lr"] = rate
        assert step(X).tolist()[0] == rate
    assert step.cache_info().misses == 2


def test_floats_that_are_seen_to_vary() -> None:
    model = Counter()
    f = jg.trace(lambda x: x * model.rate)
    for rate in (0.5, 0.25, -0.0, float("inf"), 3.0):
        model.rate = rate
        np.testing.assert_array_equal(f(X).numpy(), (X * rate).numpy())
    assert f.cache_info().misses == 2
    model.rate = 2  # type: ignore[assignment]
    assert f(X).tolist() == [2, 4]


def test_compiled_code_reads_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JITGRAPH_INTERPRET")
    box = types.SimpleNamespace(n=0)

    @jg.trace
    def f(x: Any, k: int) -> Any:
        box.n += 1
        return x * box.n + 0.5**box.n * k, x.astype(jg.bfloat16) * box.n, x.astype(jg.int16) * k

    for k in range(4):
        one, two, three = f(X, k)
        n = k + 1
        np.testing.assert_array_equal(one.numpy(), (X * n + 0.5**n * k).numpy())
        assert two.tolist() == (X * n).tolist() and three.tolist() == [k, 2 * k]
    assert f.cache_info().misses == 2


MADE_OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "where of a number and one that varies": lambda x, s: jg.where(x > 0, 1.0, s),
    "where of numbers that vary": lambda x, s: jg.where(x > 0, s, s * 2),
    "where with a tensor": lambda x, s: jg.where(x > 0, x, s),
    "full": lambda x, s: jg.full((2,), s),
    "full of a dtype": lambda x, s: jg.full((2,), s, dtype=jg.float64),
    "full_like": lambda x, s: jg.full_like(x, s),
    "asarray": lambda x, s: jg.asarray(s),
    "asarray of a dtype": lambda x, s: jg.asarray(s, dtype=jg.float64),
    "broadcast_to": lambda x, s: jg.broadcast_to(s, (2,)),
    "arithmetic first": lambda x, s: jg.asarray(s * 2 + 1) * x,
}


@pytest.mark.parametrize("numbers", [(0.1, 0.7, 0.3), (3, 4, 5)], ids=["floats", "ints"])
@pytest.mark.parametrize("name", MADE_OF_NUMBERS)
def test_tensors_made_of_numbers_have_the_dtype_that_they_have_outside_of_traces(name: str, numbers: Any) -> None:
    actual = MADE_OF_NUMBERS[name]
    traced = jg.trace(actual)
    for dtype in (jg.float32, jg.bfloat16, jg.float64):
        x = jg.asarray([1.0, -2.0], dtype=dtype)
        for number in numbers:
            due, output = actual(x, number), traced(x, number)
            assert output.dtype == due.dtype
            np.testing.assert_array_equal(output.numpy(), due.numpy())


@pytest.mark.parametrize(
    ("operation", "numbers"),
    [
        (lambda n: 1 << n, (-1, -2, -3, 3, 4)),
        (lambda n: 2**70 >> n, (-1, -2, 69, 68)),
        (round, (math.nan, 2.5, math.nan, math.inf)),
        (math.floor, (math.nan, 2.5)),
        (lambda n: 7 // n, (0, 2, 0, 3)),
    ],
    ids=["left shift", "right shift", "round", "floor", "division"],
)
def test_an_operation_that_raises_and_is_caught_is_asked_again(operation: Any, numbers: tuple[Any, ...]) -> None:
    def function(x: Any, n: Any) -> Any:
        try:
            actual = operation(n)
        except (ValueError, ArithmeticError):
            actual = -7
        return x * actual

    traced = jg.trace(function)
    for n in numbers:
        x = jg.asarray([1.0, 2.0])
        assert traced(x, n).tolist() == function(x, n).tolist(), n


def test_a_thread_is_started_once_for_a_call() -> None:
    done: list[int] = []

    def f(x: Any, n: Any) -> Any:
        kept = 1 if float(n).is_integer() else 2  # which needs the number itself
        thread = threading.Thread(target=lambda: done.append(1))
        thread.start()
        thread.join()
        return x * kept

    traced = jg.trace(f)
    with pytest.warns(RuntimeWarning, match="what another thread does"):
        traced(X, 2.5)
    assert done == [1]
