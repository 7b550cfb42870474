"""The eager tape and the derivatives of functions."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

X = np.array([0.5, 1.0, 2.0])


def leaf(array: Any = X) -> jg.Tensor:
    return jg.asarray(np.asarray(array, np.float64), requires_grad=True)


def values(x: jg.Tensor | None) -> list[Any]:
    assert x is not None
    return x.tolist()


# --- backward -------------------------------------------------------------------------------------------------------


def test_backward_accumulates() -> None:
    x = leaf()
    (x * x).sum().backward()
    assert values(x.grad) == [1.0, 2.0, 4.0]
    before = x.grad
    (3 * x).sum().backward()
    assert values(x.grad) == [4.0, 5.0, 7.0] and values(before) == [1.0, 2.0, 4.0]
    x.grad = None
    x.prod().backward(jg.asarray(2.0, dtype=jg.float64))
    assert values(x.grad) == [4.0, 2.0, 1.0]


def test_an_operand_used_twice_and_branches_that_meet() -> None:
    x = leaf()
    y = x * 2
    (y * y + y + x).sum().backward()
    np.testing.assert_allclose(values(x.grad), 8 * X + 3)


def test_backward_of_what_is_no_scalar_needs_a_cotangent() -> None:
    x = leaf()
    with pytest.raises(jg.ShapeError, match=r"needs a scalar; the shape is \(3,\)\n.*\n  hint: reduce first"):
        (x * 2).backward()
    with pytest.raises(jg.ShapeError, match="the cotangent is"):
        (x * 2).backward(jg.ones(2))
    (x * 2).backward(jg.asarray([1.0, 2.0, 3.0], dtype=jg.float64))
    assert values(x.grad) == [2.0, 4.0, 6.0]
    with pytest.raises(jg.JitgraphError, match="depends on nothing"):
        jg.ones(()).backward()


def test_backward_twice_needs_the_graph() -> None:
    x = leaf()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [2.0, 4.0, 8.0]
    with pytest.raises(jg.JitgraphError, match=r"a second time.*\n.*retain_graph=True"):
        y.backward()


def test_freed_with_the_last_value() -> None:
    x = leaf()
    y = x * 2
    inner = weakref.ref(y.value)
    record = weakref.ref(y.value.record)
    z = (y * y).sum()
    del y
    gc.disable()
    try:
        assert record() is not None
        z.backward()
        assert inner() is None and record() is None, "values are freed by backward, without the collector"
        w = (x * 2).sum()
        record = weakref.ref(w.value.record)
        del w
        assert record() is None, "a tape that nobody follows dies with its last value"
    finally:
        gc.enable()


def test_modes() -> None:
    x = leaf()
    with jg.no_grad():
        y = x * 2
        with jg.enable_grad():
            z = x * 2
    assert not y.requires_grad and z.requires_grad
    assert not (x.detach() * 2).requires_grad and x.detach().is_leaf

    @jg.no_grad()
    def double(t: jg.Tensor) -> jg.Tensor:
        return t * 2

    assert not double(x).requires_grad and (x * 2).requires_grad


def test_leaves() -> None:
    x = leaf()
    y = x * 2
    assert x.is_leaf and x.grad_fn is None and not y.is_leaf and y.grad_fn is not None
    assert "mul" in repr(y.grad_fn) and "test_tape.py" in repr(y.grad_fn)
    with pytest.raises(jg.DTypeError, match="only floats have gradients"):
        jg.arange(3).requires_grad_()
    with pytest.raises(jg.JitgraphError, match="leaf only"):
        y.requires_grad_(False)
    with pytest.raises(jg.JitgraphError, match=r"with jg\.no_grad"):
        x += 1
    with pytest.raises(jg.JitgraphError, match=r"x\.detach\(\)\.numpy\(\)"):
        x.numpy()
    with pytest.raises(jg.JitgraphError, match="requires a gradient"):
        np.asarray(y)
    with pytest.raises(jg.ShapeError, match="grad is"):
        x.grad = jg.ones(2)
    assert not x.requires_grad_(False).requires_grad


def test_a_leaf_stays_one_when_it_is_written() -> None:
    x, y = leaf(), leaf([1.0, 1.0, 1.0])
    with jg.no_grad():
        x += 1
        x[:] = y  # a value that the tape knows
    (x * 3).sum().backward()
    assert values(x.grad) == [3.0] * 3 and y.grad is None


def test_writes_in_place_are_differentiated() -> None:
    x = leaf()
    y = x * 1
    before = y * y
    y *= x
    y[0] = 7.0
    (y + before).sum().backward()
    np.testing.assert_allclose(values(x.grad), [1.0, 4.0, 8.0])


def test_integers_carry_no_gradient() -> None:
    x = leaf()
    for y in (x.argsort(), x.astype(jg.int64), x > 1, x.argmax()):
        assert not y.requires_grad
    values_of, positions = x.topk(2)
    assert values_of.requires_grad and not positions.requires_grad


def test_the_grad_of_a_backward_is_no_tape() -> None:
    x = leaf()
    cotangent = leaf([1.0, 1.0, 1.0])
    (x + 0).backward(cotangent)
    assert x.grad is not None and not x.grad.requires_grad


# --- grad -----------------------------------------------------------------------------------------------------------


def test_grad_leaves_grad_alone() -> None:
    x, y = leaf(), leaf()
    dx, dy = jg.autograd.grad((x * x * y).sum(), [x, y])
    np.testing.assert_allclose(values(dx), 2 * X * X)
    np.testing.assert_allclose(values(dy), X * X)
    assert x.grad is None
    with pytest.raises(jg.JitgraphError, match=r"do not depend on input 1.*\n.*allow_unused"):
        jg.autograd.grad((x * 2).sum(), [x, y])
    assert jg.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None
    with pytest.raises(jg.JitgraphError, match="requires_grad_"):
        jg.autograd.grad((x * 2).sum(), jg.ones(3))


def test_grad_of_an_intermediate_keeps_what_lies_below() -> None:
    x = leaf()
    y = x * x
    (dy,) = jg.autograd.grad((y * y).sum(), y)
    np.testing.assert_allclose(values(dy), 2 * X * X)
    y.sum().backward()  # nothing below y was visited, so nothing was freed
    np.testing.assert_allclose(values(x.grad), 2 * X)


def test_several_outputs_and_weights() -> None:
    x = leaf()
    (dx,) = jg.autograd.grad([x * 2, x * x], x, [jg.ones(3, dtype=jg.float64), jg.asarray(X)])
    np.testing.assert_allclose(values(dx), 2 + 2 * X * X)


def test_second_and_third_order() -> None:
    x = leaf()
    (first,) = jg.autograd.grad(jg.sin(x).sum(), x, create_graph=True)
    (second,) = jg.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = jg.autograd.grad(second.sum(), x)
    np.testing.assert_allclose(values(second), -np.sin(X))
    np.testing.assert_allclose(values(third), -np.cos(X))
    loss = (x**3).sum()
    loss.backward(create_graph=True)
    assert x.grad is not None and x.grad.requires_grad


def test_anomalies_are_named() -> None:
    x = leaf([1.0, 0.0])
    with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match=r"div gave inf at index \(1,\)"):
        1 / x


# --- derivatives of functions ---------------------------------------------------------------------------------------


def test_grad_of_functions() -> None:
    x, y = jg.asarray(X), jg.asarray(X[::-1].copy())
    assert values(jg.grad(lambda a, b: (a * b).sum())(x, y)) == y.tolist()
    both = jg.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y)
    assert isinstance(both, tuple) and [values(g) for g in both] == [y.tolist(), x.tolist()]
    tree = jg.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x, "b": [y]})
    assert values(tree["a"]) == y.tolist() and values(tree["b"][0]) == x.tolist()
    (value, aux), gradient = jg.value_and_grad(lambda a: ((a * a).sum(), {"twice": a * 2}), has_aux=True)(x)
    assert value.item() == (X * X).sum() and not value.requires_grad and not gradient.requires_grad
    assert values(aux["twice"]) == (2 * X).tolist() and not aux["twice"].requires_grad
    assert values(jg.grad(lambda a: jg.ones(()) * 2)(x)) == [0.0] * 3
    same = jg.grad(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, x)
    np.testing.assert_allclose(values(same[0]), 2 * X * X)
    with pytest.raises(jg.ShapeError, match="scalar"):
        jg.grad(lambda a: a)(x)
    with pytest.raises(jg.DTypeError, match="only floats"):
        jg.grad(lambda a: a.sum())(jg.arange(3))
    with pytest.raises(jg.JitgraphError, match="argument 1 of 1"):
        jg.grad(lambda a: a.sum(), argnums=1)(x)


def test_vjp_and_jvp() -> None:
    x = jg.asarray(X)
    y, pull = jg.vjp(lambda a: (jg.sin(a), a.sum()), x)
    (dx,) = pull((jg.asarray(X), jg.asarray(2.0, dtype=jg.float64)))
    np.testing.assert_allclose(values(dx), X * np.cos(X) + 2)
    (again,) = pull((jg.asarray(X), jg.asarray(0.0, dtype=jg.float64)))
    np.testing.assert_allclose(values(again), X * np.cos(X))
    assert not y[0].requires_grad
    z, dz = jg.jvp(lambda a, b: a * b, (x, x), (jg.asarray([1.0, 0, 0], dtype=jg.float64), x))
    np.testing.assert_allclose(values(z), X * X)
    np.testing.assert_allclose(values(dz), X * [1, 0, 0] + X * X)
    _, constant = jg.jvp(lambda a: jg.ones(2), x, x)
    assert values(constant) == [0.0, 0.0]
    with pytest.raises(jg.ShapeError, match="tangent"):
        jg.jvp(lambda a: a, x, jg.ones(2))


def test_jacobian_and_hessian() -> None:
    x = jg.asarray(X)
    square = lambda a: (a[:, None] * a).sum(axis=1)
    np.testing.assert_allclose(values(jg.jacobian(square)(x)), np.diag([X.sum()] * 3) + X[:, None])
    np.testing.assert_allclose(values(jg.hessian(lambda a: a.prod())(x)), [[0, 2, 1], [2, 0, 0.5], [1, 0.5, 0]])
    assert jg.jacobian(lambda a: a[:0])(x).shape == (0, 3)


def test_nested() -> None:
    x = jg.asarray(1.5, dtype=jg.float64)
    f: Any = jg.exp
    for _ in range(4):
        f = jg.grad(f)
    np.testing.assert_allclose(f(x).item(), np.exp(1.5))
    inner = jg.grad(lambda a: a * jg.grad(lambda b: a * b * b)(a))(x)  # d/da of 2 a^3
    np.testing.assert_allclose(inner.item(), 6 * 1.5**2)
    mixed = jg.grad(lambda a: jg.jvp(lambda b: b**3, a, a)[1])(x)  # d/da of 3 a^3
    np.testing.assert_allclose(mixed.item(), 9 * 1.5**2)


def test_functions_over_a_leaf_record_on_its_tape() -> None:
    w = leaf(2.0)
    g = jg.grad(lambda a: w * a * a)(jg.asarray(3.0, dtype=jg.float64))
    assert g.item() == 12.0 and g.requires_grad
    g.backward()
    assert values(w.grad) == 6.0


def test_derivatives_of_any_order_through_loops(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    x = jg.asarray([0.5, 1.5, 2.0], dtype=jg.float64)

    def scanned(x: Any) -> Any:
        return jg.scan(lambda c, v: (c * v + x.sum(), c * c), x.sum(), x)[0]

    jg.save(scanned, tmp_path / "scanned.jg", example_inputs=[x])
    loaded = jg.load(tmp_path / "scanned.jg")
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    for f in (lambda x: (jg.cumprod(x) ** 2).sum(), scanned, lambda x: jg.exp(loaded(x) / 50)):
        second = jg.hessian(f)

        def third(x: Any, second: Any = second) -> Any:
            return jg.grad(lambda x: (second(x) * second(x)).sum())(x)

        for function in (second, third):
            np.testing.assert_allclose(function(x).numpy(), jg.trace(function)(x).numpy(), rtol=1e-9)
        step = 1e-5
        for i in range(3):
            shift = jg.asarray([step if j == i else 0.0 for j in range(3)], dtype=jg.float64)
            slope = (jg.grad(f)(x + shift) - jg.grad(f)(x - shift)) / (2 * step)
            np.testing.assert_allclose(second(x).numpy()[i], slope.numpy(), rtol=1e-5)


def test_anomalies_in_a_traced_function() -> None:
    f = jg.trace(lambda x: jg.log(x - 1.0))
    assert np.isnan(f(jg.asarray([0.5])).numpy()).all()
    with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match="log gave nan"):
        f(jg.asarray([0.5]))
