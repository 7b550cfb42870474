"""jg.script means what plain Python means on eager tensors, stages what depends on tensors, and says what it cannot."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph import tree
from tests.tracing.script import scripts

X = np.array([[1.0, 2.0], [-3.0, 0.5], [4.0, -1.0]])
SCALE = 2.0


def plain(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, jg.Tensor) else np.asarray(x)


def agree(function: Any, *args: Any) -> Any:
    """The script gives what the function gives on eager tensors; returns the script."""
    scripted = jg.script(function)
    expected, structure = tree.flatten(function(*(jg.asarray(a) if isinstance(a, np.ndarray) else a for a in args)))
    actual, shape = tree.flatten(scripted(*(jg.asarray(a) if isinstance(a, np.ndarray) else a for a in args)))
    assert shape == structure
    for mine, due in zip(actual, expected, strict=True):
        assert plain(mine).dtype == plain(due).dtype
        np.testing.assert_allclose(plain(mine), plain(due), rtol=1e-12)
    return scripted


def ops_of(scripted: Any, *args: Any) -> set[str]:
    actual: set[str] = set()
    pending = [scripted.lower(*args).graph]
    while pending:
        for node in pending.pop().nodes:
            actual.add(node.op.name)
            pending += node.regions
    return actual


def line_of(function: Any, text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"test_script.py:{first + next(i for i, line in enumerate(lines) if text in line)}"


def refused(function: Any, *args: Any, text: str, at: str) -> None:
    with pytest.raises(jg.ScriptError, match=text) as error:
        jg.script(function)(*args)
    assert line_of(function, at) in str(error.value) and "hint:" in str(error.value)


# --- programs -------------------------------------------------------------------------------------------------------


def newton(x: Any, tol: Any) -> Any:
    while jg.max(jg.abs(x * x - 2)) > tol:
        x = (x + 2 / x) / 2
    return x


def collatz(n: Any) -> Any:
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def first_large(x: Any, limit: Any) -> Any:
    for i, row in enumerate(x):
        if row[0] < 0:
            continue
        for value in row:
            if value > limit:
                return i, value
            if value == 0:
                break
        else:
            limit = limit - 1
    return -1, x[0, 0]


def test_newton() -> None:
    scripted = agree(newton, np.array([1.0, 3.0]), 1e-9)
    assert "while" in ops_of(scripted, np.array([1.0, 3.0]), 1e-9)
    again = scripted(jg.asarray(np.array([5.0, 0.1])), 1e-3)
    assert float(jg.max(jg.abs(again * again - 2))) <= 1e-3 and scripted.cache_info().misses == 1


def test_collatz_on_a_tensor_and_on_an_int() -> None:
    scripted = jg.script(collatz)
    for n in (27, 1, 6):
        assert scripted(jg.asarray(n)) == collatz(n) and type(scripted(jg.asarray(n))) is int
    assert scripted.cache_info().misses == 1
    assert scripted(27) == 111  # on Python numbers it is Python


@pytest.mark.parametrize("limit", [0.0, 3.0, 9.0])
def test_nested_loops_with_break_continue_and_early_return(limit: float) -> None:
    agree(first_large, X, np.array(limit))


def test_rows_of_a_tensor_become_a_scan() -> None:
    def f(x: Any) -> Any:
        total, best = 0.0, x[0]
        for row, back in zip(x, x[::-1], strict=True):
            total += row.sum() * SCALE
            best = row if row.sum() > best.sum() else best + back * 0
        return total, best

    assert {"scan", "cond"} <= ops_of(agree(f, X), X)


def test_ranges() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(n):
            x = x + i
        for i in range(2, 3 * n, 3):
            x = x - i * 0.5
        for i in reversed(range(n)):
            x = x * 0.5 + i / 3
        return x, n

    for n in (0, 1, 4, 12):
        assert "while" in ops_of(agree(f, X, np.array(n)), X, np.array(n))
    assert "scan" in ops_of(agree(f, X, 12), X, 12)  # of known length
    assert not {"scan", "while"} & ops_of(jg.script(f), X, 2)  # short enough to be written out


def test_what_needs_python_ints_is_unrolled() -> None:
    def f(x: Any) -> Any:
        layers = [lambda t, k=k: t * 0.5 + k for k in range(12)]
        parts = []
        for i in range(12):
            x = layers[i](x)
            parts.append(x[0])
        return jg.stack(parts), x

    agree(f, X)

    def g(x: Any, n: Any) -> Any:
        for i in range(n):
            x = x.reshape((3, 2)[i % 2], -1)
        return x

    refused(g, jg.asarray(X), jg.asarray(3), text="Python number", at="x.reshape")


def test_dynamic_sizes() -> None:
    @jg.script(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any) -> Any:
        total = jg.zeros(2, dtype=x.dtype)
        for i in range(x.shape[0]):
            total = total + x[i] * i
        for row in x:
            total = total * 0.5 + row
        return total

    for n in (2, 5):
        x = jg.asarray(np.arange(2.0 * n).reshape(n, 2))
        np.testing.assert_allclose(plain(f(x)), plain(f.__wrapped__(x)))
    assert f.cache_info().misses == 1


def test_logic_is_lazy_where_it_matters() -> None:
    def f(x: Any, i: Any) -> Any:
        while i < x.shape[0] and x[i, 0] > -9:  # x[3] would be out of range
            i = i + 1
        inside = 0 <= i < 3 or not x.sum() > 0
        return i, inside, (i or 7), (x if inside else -x)

    for start in (0, 2, 3):
        agree(f, X, np.array(start))


def test_an_index_behind_its_bound_is_not_looked_at() -> None:
    def below(x: Any) -> Any:
        i = 0
        while i < 3 and x[i] < 2:
            i += 1
        return i

    def there(x: Any, i: Any) -> Any:
        return i < 3 and x[i] < 2

    for x in (np.zeros(3), np.array([0.0, 5.0, 0.0])):
        assert int(agree(below, x)(x)) == below(x)
    for i in (1, 3):
        assert agree(there, np.zeros(3), np.array(i))(np.zeros(3), np.array(i)).tolist() is (i < 3)


def test_python_numbers_stay_weak() -> None:
    def f(x: Any) -> Any:
        scale, count, seen = 0.1, 0, False
        while x.sum() < 20:
            if x[0] > 2:
                scale, seen = scale / 2, True
            count += 1
            x = x + scale * count + count / 3
        return x, scale, count, seen

    for dtype in (np.float32, np.float64):
        x = np.array([0.5, 0.25], dtype)
        mine, due = jg.script(f)(jg.asarray(x)), f(jg.asarray(x))
        assert mine[0].dtype == due[0].dtype
        np.testing.assert_allclose(plain(mine[0]), plain(due[0]), rtol=1e-5)
        assert mine[1:3] == due[1:3] and type(mine[1]) is float and type(mine[2]) is int and bool(mine[3]) == due[3]


def test_writes_in_place_reach_the_caller() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(n):
            x[i % 3] = x[(i + 1) % 3] + i
        if x.sum() > 3:
            x += 1
        return x.sum()

    eager, mine = jg.asarray(X), jg.asarray(X)
    assert f(eager, jg.asarray(5)).item() == jg.script(f)(mine, jg.asarray(5)).item() == 28
    np.testing.assert_array_equal(plain(mine), plain(eager))


def test_trees_as_carries() -> None:
    def f(x: Any) -> Any:
        state = {"h": x[0], "n": 0}
        for row in x:
            h = state["h"] * 0.5 + row
            state = {"h": h, "n": state["n"] + 1}
        return state

    agree(f, X)


def test_random_programs() -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(scripts.programs, st.sampled_from([-1.0, 0.5, 2.0]), st.sampled_from([0.25, 3.0]), st.integers(-2, 5))
    def run(source: str, a: float, b: float, n: int) -> None:
        program = scripts.define(source)
        scripted = jg.script(program)
        rows = np.array([0.5, -1.0, 2.0])
        for m in (1, 3):
            args = (np.array(a), np.array(b), np.array(n), np.array(m), rows, np.array(True))
            with np.errstate(all="ignore"):
                due, mine = program(*map(jg.asarray, args)), scripted(*map(jg.asarray, args))
            for x, y in zip(mine, due, strict=True):
                np.testing.assert_array_equal(plain(x), plain(y))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JITGRAPH_INTERPRET", "1")
        run()


# --- functions, methods, state --------------------------------------------------------------------------------------


def halve(x: Any) -> Any:
    if x.sum() > 1:
        return halve_all(x, times=3)
    return x


def halve_all(x: Any, *, times: int) -> Any:
    return halve(x * 0.5) if times == 0 else halve_all(x * 0.5, times=times - 1)


class Gate(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = jg.nn.Linear(2, 2)
        self.__limit = 0.0

    def forward(self, x: Any) -> Any:
        if x.sum() > self.__limit:
            return self.inner(x)
        return self.shrink(x)

    def shrink(self, x: Any) -> Any:
        while jg.abs(x).sum() > 1:
            x = x / 2
        return x


class Louder(Gate):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


def test_helpers_and_modules_are_rewritten() -> None:
    model = jg.nn.Sequential(Louder(), jg.nn.ReLU())
    scripted = jg.script(lambda x: model(x))
    for x in (jg.ones(2), -3 * jg.ones(2)):
        np.testing.assert_allclose(plain(scripted(x)), plain(model(x)), rtol=1e-6)

    def through_library(x: Any) -> Any:
        pairs = sorted([x, x + 1], key=lambda t: t.ndim)
        return jg.grad(lambda t: steep(t).sum())(x), [*map(steep, pairs)]

    agree(through_library, X)


def steep(x: Any) -> Any:
    return x * x if x.sum() > 0 else x


def test_recursion_on_tensors_is_refused() -> None:
    with pytest.raises(jg.ScriptError, match="calls itself under a condition on a tensor"):
        jg.script(halve)(jg.ones(2))


def test_guards_see_through_the_rewriting() -> None:
    factor = 3.0

    def change(value: float) -> None:
        nonlocal factor
        factor = value

    @jg.script
    def f(x: Any) -> Any:
        if x.sum() > 0:
            x = x * factor * SCALE
        return x

    assert f(jg.ones(1)).item() == 6
    change(5.0)
    assert f(jg.ones(1)).item() == 10
    global SCALE
    SCALE = 4.0
    assert f(jg.ones(1)).item() == 20
    SCALE = 2.0


def test_gradients() -> None:
    def f(x: Any, w: Any) -> Any:
        total = 0.0
        for row in x:
            if row.sum() > 0:
                total = total + (row @ w).sum()
            else:
                total = total + (row * row).sum() * w.sum()
        for i in range(10):
            total = total + w[0, 0] * i * total / 100
        while jg.abs(total) > 3:
            total = total / 2
        return total

    w = np.array([[0.5, -0.25], [1.0, 0.75]])
    x, w = jg.asarray(X), jg.asarray(w)
    expected = jg.grad(f, argnums=(0, 1))(x, w)
    scripted = jg.script(f)
    for actual in (jg.grad(scripted, argnums=(0, 1))(x, w), jg.trace(jg.grad(scripted, argnums=(0, 1)))(x, w)):
        for mine, due in zip(actual, expected, strict=True):
            np.testing.assert_allclose(plain(mine), plain(due), rtol=1e-10)
    np.testing.assert_allclose(plain(jg.hessian(scripted)(x, w)), plain(jg.hessian(f)(x, w)), rtol=1e-9, atol=1e-12)


def test_a_training_step() -> None:
    model = Gate()

    @jg.script
    def step(x: Any) -> Any:
        loss = (model(x) ** 2).sum()
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        return loss

    loss = step(jg.ones(2))
    weight = model.inner.weight
    mine = weight.grad.numpy().copy()
    weight.grad = None
    due = (model(jg.ones(2)) ** 2).sum()
    due.backward()
    assert loss.item() == pytest.approx(due.item())
    np.testing.assert_allclose(mine, weight.grad.numpy(), rtol=1e-6)


def test_checks() -> None:
    @jg.script
    def f(x: Any) -> Any:
        assert x.sum() > 0, "not positive"
        for row in x:
            if row > 5:
                raise ValueError("too large")
        return x

    assert f(jg.ones(2)).shape == (2,)
    with pytest.raises(AssertionError, match="not positive"):
        f(-jg.ones(2))
    with pytest.raises(ValueError, match="too large"):
        f(jg.asarray([1.0, 6.0]))


def test_plain_python_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISABLE_JIT", "1")
    assert jg.script(collatz)(jg.asarray(6)) == 8


def test_verify_compares_with_eager() -> None:
    number, value = jg.script(first_large, verify=True)(jg.asarray(X), jg.asarray(3.0))
    assert (int(number), value.item()) == (2, 4.0)


# --- errors ---------------------------------------------------------------------------------------------------------


def test_variables_that_one_side_defines() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            y = x
        return y

    unbound = "cannot access local variable 'y' where it is not associated with a value"
    assert jg.script(f)(jg.ones(2)).sum() == 2
    with pytest.raises(UnboundLocalError, match=unbound):
        jg.script(f)(-jg.ones(2))

    def g(x: Any) -> Any:
        while x.sum() > 0:
            y = x = x - 1
        return y

    assert jg.script(g)(jg.ones(2)).sum() == 0
    with pytest.raises(UnboundLocalError, match=unbound):
        jg.script(g)(-jg.ones(2))


def test_types_that_differ() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:  # here
            y = x
        else:
            y = x.astype(jg.float64)
        return y

    refused(f, jg.ones(2), text=r"'y' is f32\[2\] in the if branch and f64\[2\] in the else branch", at="# here")

    def g(x: Any) -> Any:
        y = jg.zeros(2)
        while x.sum() > 0:  # here
            y = jg.concat([y, x])
            x = x - 1
        return y

    refused(g, jg.ones(2), text=r"'y' is f32\[2\] when the loop starts and becomes f32\[4\]", at="# here")

    def h(x: Any) -> Any:  # noqa: RET503 - that is what is refused
        if x.sum() > 0:  # here
            return x

    refused(h, jg.ones(2), text=r"the returned value is f32\[2\] in the if branch and None", at="# here")


def test_python_objects_are_not_changed_under_a_tensor_condition() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        mine = [x]
        if x.sum() > 0:
            mine.append(x)  # here
        return mine[-1]

    refused(f, jg.ones(2), text="a list from outside is changed", at="# here")

    def g(x: Any) -> Any:
        if x.sum() > 0:
            kept[:] = [1]  # here
        return x

    refused(g, jg.ones(2), text="a list from outside is changed", at="# here")
    assert kept == []

    def fine(x: Any) -> Any:
        if x.sum() > 0:
            mine = [x]
            mine.append(x + 1)
            x = mine[1]
        return x

    agree(fine, X)


def test_what_cannot_be_captured() -> None:
    def tried(x: Any) -> Any:
        try:
            if x.sum() > 0:  # here
                x = x + 1
        except ValueError:
            pass
        return x

    refused(tried, jg.ones(2), text="inside the try statement", at="# here")

    def outer(x: Any) -> Any:
        global of_the_module
        if x.sum() > 0:
            of_the_module = 1  # here
        return x

    refused(outer, jg.ones(2), text="an assignment to the global of_the_module", at="# here")

    def concrete(x: Any) -> Any:
        parts = [x[0], x[1]]
        parts.sort()  # here
        return parts

    refused(concrete, jg.ones(2), text="needs the value of a traced tensor", at="# here")

    def generator(x: Any) -> Any:
        yield x

    refused(generator, jg.ones(2), text="is a generator", at="def generator")

    def named(x: Any) -> Any:
        return (lambda t: t if t.sum() > 0 else (y := t) + y)(x)  # here

    refused(named, jg.ones(2), text="an assignment inside an expression", at="# here")
    with pytest.raises(jg.ScriptError, match="takes a function"):
        jg.script(3)
    with pytest.raises(jg.ScriptError, match="source"):
        jg.script(eval("lambda x: x"))
