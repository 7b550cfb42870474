"""Derivatives with respect to trees, modules and named arguments, and functions of a module's tensors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.transforms.modes import Mode, close, each_mode, tensor, values


@each_mode
def test_gradients_by_name(mode: Mode) -> None:
    a, b = tensor(3), tensor(3, seed=1)

    def f(a: Any, b: Any) -> Any:
        return (a * b).sum()

    close(mode(jg.grad(f, argnames="b"))(a, b), values(a))
    close(mode(lambda a, b: jg.grad(f, argnames="b")(a, b=b))(a, b), values(a))
    actual = mode(jg.grad(f, argnums=0, argnames=("b",)))(a, b)
    close(actual[0], values(b))
    close(actual[1]["b"], values(a))
    (value, aux), gradients = mode(
        jg.value_and_grad(lambda a, b: (f(a, b), {"a": a * 2}), argnames=("a", "b"), has_aux=True)
    )(a, b)
    close(value, (values(a) * values(b)).sum())
    close(aux["a"], 2 * values(a))
    close(gradients["b"], values(a))


@each_mode
def test_gradients_of_a_module(mode: Mode) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(3, 4), jg.nn.Tanh(), jg.nn.Linear(4, 1))
    model[2].bias.requires_grad_(False)
    x = tensor(5, 3)
    before = {name: p.value for name, p in model.named_parameters()}
    value, actual = mode(jg.value_and_grad(lambda m, x: m(x).sum()))(model, x)
    assert list(actual) == ["0.weight", "0.bias", "2.weight"]
    assert not value.requires_grad and not any(g.requires_grad for g in actual.values())
    assert all(p.grad is None and p.value is before[name] for name, p in model.named_parameters())
    assert model[0].weight.requires_grad and model[0].weight.is_leaf
    model(x).sum().backward()
    for name, p in model.named_parameters():
        if name in actual:
            close(actual[name], p.grad)
    pair = mode(jg.grad(lambda t: t["m"](t["x"]).sum()))({"m": model, "x": x})
    close(pair["m"]["0.bias"], actual["0.bias"])
    assert pair["x"].shape == (5, 3)
    twice = jg.grad(lambda m: sum((g**2).sum() for g in jg.grad(lambda m: m(x).sum())(m).values()))
    eager, again = twice(model), mode(twice)(model)
    for name in actual:
        close(again[name], eager[name])


@each_mode
def test_functional_call(mode: Mode) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(3, 2), jg.nn.BatchNorm1d(2))
    x = tensor(4, 3)
    inputs = {name: p.detach() * 2 for name, p in model.named_parameters()}
    kept = values(model[1].running_mean).copy()
    buffers = {"1.running_mean": jg.zeros((2,)), "1.running_var": jg.ones((2,))}

    def loss(argument: Any) -> Any:
        return (jg.functional_call(model, (argument, buffers), x) ** 2).sum()

    actual = mode(jg.grad(loss))(inputs)
    other = jg.nn.Sequential(jg.nn.Linear(3, 2), jg.nn.BatchNorm1d(2))
    other.load_state_dict({**other.state_dict(), **{name: values(p) for name, p in inputs.items()}})
    (other(x) ** 2).sum().backward()
    for name, p in other.named_parameters():
        close(actual[name], p.grad, 1e-4)
    np.testing.assert_array_equal(values(model[1].running_mean), kept)


@each_mode
def test_jacobians_of_trees(mode: Mode) -> None:
    tree = {"a": tensor(2), "b": tensor(2, 3, seed=1)}

    def f(tree: Any) -> Any:
        return {"y": tree["a"] * 2 + tree["b"].sum(axis=1) ** 2}, tree["a"].sum() ** 2

    for transform in (jg.jacobian, jg.jacrev, jg.jacfwd):
        y, s = mode(transform(f))(tree)
        close(y["y"]["a"], 2 * np.eye(2))
        wanted = np.zeros((2, 2, 3), np.float32)
        for i in range(2):
            wanted[i, i] = 2 * values(tree["b"])[i].sum()
        close(y["y"]["b"], wanted)
        close(s["a"], np.full(2, 2 * values(tree["a"]).sum()))
        close(s["b"], np.zeros((2, 3)))
    actual, aux = mode(jg.jacfwd(lambda x: (x**2, x + 1), has_aux=True))(tree["a"])
    close(actual, np.diag(2 * values(tree["a"])))
    close(aux, values(tree["a"]) + 1)
    second = mode(jg.hessian(lambda t: (t["a"] ** 3).sum()))(tree)
    close(second["a"]["a"], np.diag(6 * values(tree["a"])))
    close(second["b"]["a"], np.zeros((2, 3, 2)))


@each_mode
def test_linearize(mode: Mode) -> None:
    def both(x: Any, v: Any) -> Any:
        y, push = jg.linearize(lambda x: jg.sin(x) * x, x)
        return y, push(v), push(v * 2)

    x, v = tensor(3), tensor(3, seed=1)
    y, once, twice = mode(both)(x, v)
    close(y, np.sin(values(x)) * values(x))
    close(once, (np.cos(values(x)) * values(x) + np.sin(values(x))) * values(v))
    close(twice, 2 * values(once))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: jg.grad(lambda a: a.sum(), argnames="b")(x), "no argument of the call"),
        (lambda x: jg.grad(lambda a: a.sum(), argnums=0, argnames="a")(x), "named twice"),
        (lambda x: jg.grad(lambda a: a.sum(), argnames=3)(x), "argnames is a str"),
        (lambda x: jg.jacobian(lambda a: a > 0)(x), "only floats have derivatives"),
        (lambda x: jg.functional_call(x, {}, ()), "takes a module first"),
        (lambda x: jg.functional_call(jg.nn.Linear(3, 1), {"w": x}, x), "has no tensor 'w'"),
        (lambda x: jg.functional_call(jg.nn.Linear(3, 1), {"weight": x}, x), "has the shape"),
        (lambda x: jg.linearize(jg.sin, x)[1](x, x), "2 tangents for 1"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        call(tensor(3))


# --- whole derivatives in a trace -----------------------------------------------------------------------------------


def _of_two(x: Any, y: Any) -> Any:
    return {"p": jg.tanh(x) * y.sum(), "q": (x[:2, None] * y).mean(axis=0), "r": jg.sin(x).sum()}


@pytest.mark.parametrize("whole", [jg.jacobian, jg.jacfwd], ids=["reverse", "forward"])
def test_whole_derivatives_of_trees_are_those_of_rows(whole: Any) -> None:
    x, y = tensor(3), tensor(4, seed=1)
    eager, traced = whole(_of_two, argnums=(0, 1)), jg.trace(whole(_of_two, argnums=(0, 1)))
    rows, batched = eager(x, y), traced(x, y)
    for name in ("p", "q", "r"):
        for mine, due in zip(batched[name], rows[name], strict=True):
            assert mine.shape == due.shape and mine.dtype == due.dtype
            close(mine, due)


@pytest.mark.parametrize("whole", [jg.jacobian, jg.jacfwd], ids=["reverse", "forward"])
def test_the_graph_does_not_grow_with_the_directions(whole: Any) -> None:
    w = tensor(50, 50)
    counts = []
    for size in (3, 40):
        lowered = jg.trace(whole(lambda x: jg.tanh(w[:size, :size] @ x) * x.sum())).lower(tensor(size))  # noqa: B023
        counts.append(len(lowered.graph.nodes))
    assert counts[0] == counts[1] < 60


@pytest.mark.parametrize("whole", [jg.jacobian, jg.jacfwd], ids=["reverse", "forward"])
def test_a_function_is_run_once_for_its_whole_derivative(whole: Any) -> None:
    count, calls = jg.asarray(0), []

    def f(x: Any) -> Any:
        nonlocal count
        calls.append(1)
        count += 1
        noisy = x * jg.random.normal(shape=(4,))
        return noisy * x, noisy

    def run(mode: Any) -> Any:
        nonlocal count
        jg.random.seed(3)
        count = jg.asarray(0)
        actual, aux = mode(whole(f, has_aux=True))(jg.asarray(values(x)))
        return actual, aux, count.item(), jg.random.normal(shape=(2,))

    x = tensor(4)
    for mine, due in zip(run(jg.trace), run(lambda g: g), strict=True):
        close(jg.asarray(mine), jg.asarray(due))
    assert len(calls) == 2


@each_mode
def test_whole_derivatives_of_modules_and_of_nothing(mode: Mode) -> None:
    model, x = jg.nn.Linear(3, 2), tensor(3)
    actual = mode(jg.jacobian(lambda m, x: m(x), argnums=(0, 1)))(model, x)
    assert actual[0]["weight"].shape == (2, 2, 3) and actual[0]["bias"].shape == (2, 2)
    close(actual[1], model.weight.detach())
    close(actual[0]["bias"], np.eye(2))
    forward = mode(jg.jacfwd(lambda m, x: m(x), argnums=(0, 1)))(model, x)
    close(forward[0]["weight"], actual[0]["weight"])
    for full in (jg.jacobian, jg.jacfwd):
        assert mode(full(lambda x: x[:0] * 2))(x).shape == (0, 3)
        assert mode(full(lambda x: x.sum()))(x[:0]).shape == (0,)
        close(mode(full(lambda x: jg.ones(2)))(x), np.zeros((2, 3)))
        close(mode(full(lambda x: x * 2.0))(jg.asarray(3.0)), 2.0)


@each_mode
def test_whole_derivatives_through_loops_and_conditions(mode: Mode) -> None:
    def f(x: Any) -> Any:
        y = jg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jg.sin(s[1]) * x), (jg.asarray(0), x))[1]
        z = jg.scan(lambda c, v: (c * v, c + v), jg.ones(()), x)[1]
        return jg.cond(x.sum() > 0, lambda: y * z, lambda: y + z)

    for inputs in (tensor(3), -tensor(3, seed=2)):
        reverse, forward = mode(jg.jacobian(f))(inputs), mode(jg.jacfwd(f))(inputs)
        close(reverse, forward)
        close(reverse, jg.jacobian(f)(inputs))
    g = lambda x: (jg.scan(lambda c, v: (c * jg.sin(v), c), jg.ones(()), x)[1] ** 2).sum()
    close(mode(jg.hessian(g))(tensor(3)), jg.hessian(g)(tensor(3)))


def test_whole_derivatives_inside_of_other_transforms() -> None:
    x = tensor(5, 3)
    f = lambda row: jg.tanh(row) * row.sum()
    single = np.stack([values(jg.jacobian(f)(row)) for row in x])
    for mode in (jg.trace, lambda g: g):
        close(mode(jg.vmap(jg.jacobian(f)))(x), single)
        close(mode(jg.vmap(jg.jacfwd(f)))(x), single)
        third = mode(jg.jacobian(jg.hessian(lambda v: (v**4).sum())))(x[0])
        close(third, np.einsum("i,ij,ik->ijk", 24 * values(x[0]), np.eye(3), np.eye(3)))
    loss = lambda w: (jg.jacobian(f)(w) ** 2).sum()
    close(jg.trace(jg.grad(loss))(x[0]), jg.grad(loss)(x[0]))


def _nested(w: Any) -> list[Any]:
    """First derivatives and what else the transforms give of a function of constants and ``w``."""
    x = jg.asarray([1.0, 2.0, 3.0])
    total, cubes = (lambda x: (x * x * w).sum()), (lambda x: x * x * x * w)

    def pair(x: Any) -> Any:
        return total(x), cubes(x)

    y, pull = jg.vjp(cubes, x)
    z, push = jg.linearize(cubes, x)
    rows, aux = jg.jacobian(pair, has_aux=True)(x)
    columns, other = jg.jacfwd(pair, has_aux=True)(x)
    return [
        *jg.grad(pair, has_aux=True)(x),
        *jg.value_and_grad(total)(x),
        *jg.jvp(cubes, (x,), (x,)),
        *(y, *pull(x), z, push(x), rows, aux, columns, other),
        jg.hessian(lambda x: cubes(x).sum())(x),
    ]


@each_mode
def test_gradients_of_nested_transforms_depend_on_no_variable_of_theirs(mode: Mode) -> None:
    w = jg.asarray(2.0)
    count = len(_nested(w))
    for number in range(count):
        outer = jg.grad(lambda w, number=number: _nested(w)[number].sum())
        actual = mode(outer)(w)
        assert not actual.requires_grad, number
        np.testing.assert_allclose(actual.numpy(), float(_nested(w)[number].sum()) / 2, rtol=1e-6)
    learned = jg.asarray(2.0).requires_grad_()
    assert all(part.requires_grad for part in _nested(learned)), "a leaf of the user's stays open"


@each_mode
def test_a_variable_that_a_transform_gives_back_requires_no_gradient(mode: Mode) -> None:
    def same(x: Any) -> Any:
        return x

    def given(x: Any) -> Any:
        (_, aux), _ = jg.value_and_grad(lambda a: ((a * a).sum(), a), has_aux=True)(x)
        return [aux, jg.vjp(same, x)[0], jg.jvp(same, x, x)[0], jg.linearize(same, x)[0]]

    x = tensor(3)
    for number, actual in enumerate(mode(given)(x)):
        close(actual, values(x))
        assert not actual.requires_grad, number
    gradient = mode(jg.grad(lambda x: sum((part * part).sum() for part in given(x))))(x)
    close(gradient, 8 * values(x))
    learned = jg.asarray(values(x)).requires_grad_()
    assert all(part.requires_grad for part in mode(given)(learned)), "a leaf of the user's stays open"


@each_mode
def test_a_result_that_is_no_float_does_not_vary(mode: Mode) -> None:
    def f(x: Any) -> Any:
        return x * 2, {"place": jg.argmax(x), "large": x > 0}

    def moved(x: Any) -> Any:
        value, push = jg.linearize(f, x)
        return [jg.jvp(f, x, x), (value, push(x))]

    x = tensor(3)
    for result, (first, rest) in mode(moved)(x):
        close(result[0], 2 * values(x))
        close(first, 2 * values(x))
        assert result[1]["place"].item() == int(values(x).argmax())
        assert rest["place"].dtype == jg.int64 and rest["place"].item() == 0
        assert rest["large"].dtype == jg.bool and rest["large"].tolist() == [False] * 3
    fixed = mode(lambda x: jg.jvp(jg.argmax, x, x)[1])(x)
    assert fixed.dtype == jg.int64 and fixed.item() == 0
    twice = mode(jg.grad(lambda x: jg.jvp(lambda a: (a**3, a > 0), x, x)[1][0].sum()))(x)
    close(twice, 9 * values(x) ** 2)
    with pytest.raises(jg.DTypeError, match="only floats have derivatives, not a result of bool"):
        mode(jg.jacfwd(lambda a: a > 0))(x)


@pytest.mark.parametrize("transform", [jg.grad, jg.value_and_grad, jg.hessian, jg.checkpoint])
def test_transforms_keep_the_signature(transform: Any) -> None:
    def f(x: Any, scale: float = 2.0) -> Any:
        """The sum of what is scaled."""
        return (x * x * x).sum() * scale

    actual = transform(f)
    assert inspect.signature(actual) == inspect.signature(f)
    assert actual.__doc__ == f.__doc__ and inspect.unwrap(actual) is f
    traced = jg.trace(actual, dynamic_shapes={"x": {0: "n"}})
    for count in (3, 5):
        x = tensor(count)
        for output, due in zip(jg.tree.flatten(traced(x))[0], jg.tree.flatten(actual(x))[0], strict=True):
            close(output, due)
    assert traced.cache_info().misses == 1


def _one(x: Any) -> Any:
    return jg.sin(x) * x.sum()


def _several(x: Any, y: Any) -> Any:
    return x * y.sum(), y[:2] * x.sum()


@pytest.mark.parametrize("transform", [jg.jacobian, jg.jacfwd])
@pytest.mark.parametrize("several", [False, True])
def test_jacobians_of_named_sizes(transform: Any, several: bool) -> None:
    actual = transform(_several, argnums=(0, 1)) if several else transform(_one)
    traced = jg.trace(actual, dynamic_shapes={"x": {0: "n"}, "y": {0: "m"}} if several else {"x": {0: "n"}})
    for sizes in ((3, 4), (4, 2), (1, 2)):
        inputs = [tensor(size, seed=size) for size in sizes[: 1 + several]]
        output, due = (jg.tree.flatten(call(*inputs))[0] for call in (traced, actual))
        for one, other in zip(output, due, strict=True):
            assert one.shape == other.shape
            close(one, other)
    assert traced.cache_info().misses == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * jg.square(x),
        lambda x: jg.square(x) + x * jg.square(x),
        lambda x: x**3,
        lambda x: x * jg.nn.functional.silu(x) + x * jg.nn.functional.gelu(x),
        lambda x: (x + x) * jg.softmax(x * x, 0),
    ],
)
def test_gradients_of_operands_used_twice_have_the_same_bits_in_traces(function: Any) -> None:
    x, weights = tensor(40, 9), tensor(40, 9, seed=1)

    def gradient(x: Any, weights: Any) -> Any:
        return jg.grad(lambda x: (function(x) * weights).sum())(x)

    leaf = x.detach().requires_grad_()
    (function(leaf) * weights).sum().backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), jg.trace(gradient)(x, weights).numpy())
    np.testing.assert_array_equal(leaf.grad.numpy(), gradient(x, weights).numpy())
