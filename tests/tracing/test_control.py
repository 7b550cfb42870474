"""cond, while_loop and scan mean the same eager and traced, with pytrees, captures, rebinding and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


X = jg.asarray(np.arange(6, dtype=np.float32).reshape(3, 2) / 4)
W = jg.asarray(np.array([[0.5, -0.25], [1.0, 0.75]], np.float32))


def agree(function: Any, *args: Any) -> Any:
    """Eager and traced (twice) give the same structure and values."""
    expected = function(*args)
    traced = jg.trace(function)
    leaves, structure = tree.flatten(expected)
    for _ in range(2):
        actual, shape = tree.flatten(traced(*args))
        assert shape == structure
        for a, b in zip(actual, leaves, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert traced.cache_info().misses == 1
    return expected


@pytest.mark.parametrize("limit", [-1.0, 100.0])
def test_cond(limit: float) -> None:
    def f(x: Any, limit: float) -> Any:
        return jg.cond(
            x.sum() > limit, lambda a, k: {"y": a @ W, "n": 1.0 * k}, lambda a, k: {"y": a - W[0], "n": 2.0}, x, 3.0
        )

    agree(f, X, limit)


def test_cond_on_python_bools_and_numbers() -> None:
    assert jg.cond(True, lambda: 1, lambda: 2) == 1
    assert jg.cond(jg.asarray(0), lambda: 1, lambda: 2).item() == 2
    with pytest.raises(jg.ShapeError, match="0-d"):
        jg.cond(jg.ones(2), lambda: 1, lambda: 2)


def test_cond_rebinds_in_one_branch() -> None:
    def run(function: Any) -> list[float]:
        state = jg.asarray(0.0)

        def f(x: Any) -> None:
            def add() -> None:
                state.__iadd__(x)

            jg.cond(x > 1, add, lambda: None)

        g = function(f)
        for value in (2.0, 0.5, 3.0):
            g(jg.asarray(value))
        return [state.item()]

    assert run(lambda f: f) == run(jg.trace) == [5.0]


def test_cond_branches_must_agree() -> None:
    with pytest.raises(jg.ShapeError, match="true_fn gives"):
        jg.trace(lambda x: jg.cond(x.sum() > 0, lambda: x, lambda: x[0]))(X)
    with pytest.raises(jg.TraceError, match="structure"):
        jg.trace(lambda x: jg.cond(x.sum() > 0, lambda: (x, x), lambda: x))(X)


def test_while_loop() -> None:
    def f(x: Any) -> Any:
        return jg.while_loop(
            lambda c: jg.logical_and(c["i"] < 5, jg.max(c["x"]) < 50), lambda c: {"i": c["i"] + 1, "x": c["x"] @ W + 1},
            {"i": 0, "x": x},
        )  # fmt: skip

    agree(f, X)
    agree(lambda x: jg.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, c[1]), (0, x)), X)


def test_while_loop_carries_a_rebound_handle() -> None:
    def run(function: Any) -> list[Any]:
        total = jg.asarray(0.0)

        def f(x: Any) -> Any:
            def body(i: Any) -> Any:
                total.__iadd__(x)
                return i + 1

            return jg.while_loop(lambda i: total < 4, body, 0)

        g = function(f)
        return [g(jg.asarray(1.5)).item(), total.item(), g(jg.asarray(1.5)).item(), total.item()]

    assert run(lambda f: f) == run(jg.trace) == [3, 4.5, 0, 4.5]


def test_a_carry_keeps_its_type() -> None:
    for function in (lambda f: f, jg.trace):
        with pytest.raises(jg.ShapeError, match=r"carry\[1\] starts as f32\[3, 2\] and becomes f32\[2\]"):
            function(lambda x: jg.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1][0]), (0, x)))(X)
        with pytest.raises(jg.TraceError, match="becomes"):
            function(lambda x: jg.while_loop(lambda c: c < 2, lambda c: (c, c), 0))(X)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    def f(x: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            h, n = carry
            h = jg.tanh(h + row["a"] @ W + row["b"])
            return (h, n + 1), {"h": h, "n": n}

        return jg.scan(body, (jg.zeros(2), 0), {"a": x, "b": x[:, ::-1]}, reverse=reverse)

    agree(f, X)


def test_scan_without_xs_and_of_no_steps() -> None:
    agree(lambda x: jg.scan(lambda c, _: (c * 2, c.sum()), x, None, length=4), X)
    carry, ys = agree(lambda x: jg.scan(lambda c, row: (c + row.sum(), row * c), 1.0, x[:0]), X)
    assert carry.item() == 1 and ys.shape == (0, 2)
    with pytest.raises(jg.ShapeError, match="length"):
        jg.scan(lambda c, x: (c, x), 0.0, None)
    with pytest.raises(jg.ShapeError, match="first axis"):
        jg.scan(lambda c, x: (c, x), 0.0, (jg.ones(2), jg.ones(3)))


def test_scan_over_a_named_size() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any) -> Any:
        return jg.scan(lambda c, row: (c + row.sum(), c), 0.0, x)

    for n in (1, 3, 5):
        carry, ys = f(jg.ones((n, 2)))
        assert carry.item() == 2 * n and ys.shape == (n,)
    assert f.cache_info().misses == 1


def test_what_bodies_write_into_their_arguments_changes_nothing_outside() -> None:
    """They get handles of their own, in each turn, eager and traced: rows of a scan are not written by later turns."""

    def branch(x: Any) -> Any:
        def write(x: Any) -> Any:
            x[0] = 9.0
            return x

        return jg.cond(x.sum() > -100, write, lambda x: x, x), jg.cond(True, write, lambda x: x, x), x

    def loop(x: Any) -> Any:
        def test(carry: Any) -> Any:
            return carry[1] < 3

        def turn(carry: Any) -> Any:
            a, i = carry
            a[i] = 5.0
            return a, i + 1

        return jg.while_loop(test, turn, (x, 0)), x

    def rows(x: Any) -> Any:
        def turn(carry: Any, i: Any) -> Any:
            carry[i] = carry[i] + 1.0
            return carry, carry

        return jg.scan(turn, x, jg.arange(3)), x

    for function in (branch, loop, rows):
        value = jg.asarray(np.arange(3, dtype=np.float32))
        leaves, _ = tree.flatten(agree(function, value))
        np.testing.assert_array_equal(leaves[-1].numpy(), [0, 1, 2])
    (_, stacked), _ = rows(jg.zeros(3))
    np.testing.assert_array_equal(stacked.numpy(), np.tri(3))
    w = jg.asarray(np.ones(3, np.float32), requires_grad=True)
    (loop(w * 1)[0][0].sum() + branch(w)[0].sum()).backward()
    np.testing.assert_array_equal(w.grad.numpy(), [0, 1, 1])


def test_nested_control_flow_reads_from_two_floors_up() -> None:
    def f(x: Any) -> Any:
        k = x.sum() * 0.1

        def body(c: Any, row: Any) -> Any:
            inner = jg.while_loop(
                lambda i: i < 3, lambda i: i + jg.cond(k > 0, lambda: k * 0 + 1.0, lambda: k + row[0]), 0.0
            )
            return c + inner * k, row * k

        return jg.scan(body, 0.0, x)

    agree(f, X)


def test_random_numbers_in_a_loop_go_on() -> None:
    def draw(function: Any) -> list[Any]:
        jg.random.seed(3)
        f = function(lambda: jg.scan(lambda c, _: (c, jg.random.uniform((2,))), 0.0, None, length=3)[1])
        return [f().numpy().copy(), f().numpy().copy()]

    eager, traced = draw(lambda f: f), draw(jg.trace)
    np.testing.assert_array_equal(eager, traced)
    assert not np.array_equal(eager[0], eager[1])


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, w: jg.cond(x.sum() > 0, lambda: (x @ w).sum(), lambda: (x * x).sum()),
        lambda x, w: jg.scan(lambda c, row: (jg.tanh(c + row @ w), None), jg.zeros(2), x)[0].sum(),
        lambda x, w: (jg.scan(lambda c, row: (c * 0.5 + row @ w, c), jg.zeros(2), x)[1] ** 2).sum(),
        lambda x, w: jg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jg.tanh(c[1] @ w)), (0, x))[1].sum(),
    ],
)
def test_gradients(loss: Any) -> None:
    result = agree(lambda x, w: jg.grad(loss, argnums=(0, 1))(x, w), X, W)
    eps = 1e-2
    for number, gradient in enumerate(result):
        arrays = [X.numpy().astype(np.float64), W.numpy().astype(np.float64)]
        for index in [(0, 0), (1, 1)]:
            values = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[number][index] += sign * eps
                values.append(loss(*(jg.asarray(a.astype(np.float32)) for a in moved)).item())
            np.testing.assert_allclose(
                gradient[index].item(), (values[0] - values[1]) / (2 * eps), rtol=2e-2, atol=2e-3
            )


def test_backward_inside_a_body_must_clean_up() -> None:
    w = jg.asarray([1.0, 2.0], requires_grad=True)

    def body(c: Any, row: Any) -> Any:
        (w * row).sum().backward()
        return c, row

    with pytest.raises(jg.TraceError, match=r"\.grad"):
        jg.trace(lambda x: jg.scan(body, 0.0, x))(X)

    def train(c: Any, row: Any) -> Any:
        loss = ((w - row) ** 2).sum()
        (gradient,) = jg.autograd.grad(loss, w)
        with jg.no_grad():
            w.__isub__(gradient * 0.25)
        return c, loss.detach()

    start = w.detach()
    _, losses = jg.trace(lambda x: jg.scan(train, 0.0, x))(X)
    after = w.detach().numpy().copy()
    with jg.no_grad():
        w.__imul__(0).__iadd__(start)
    _, expected = jg.scan(train, 0.0, X)
    np.testing.assert_allclose(losses.numpy(), expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(after, w.detach().numpy(), rtol=1e-5)
