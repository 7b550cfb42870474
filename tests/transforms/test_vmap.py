"""vmap of functions against a Python loop over the samples, eager and traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.transforms.modes import Mode, close, each_mode, tensor, values


def loop(function: Any, *rows: Any) -> np.ndarray[Any, Any]:
    return np.stack([values(function(*row)) for row in zip(*rows, strict=True)])


@each_mode
def test_axes_of_arguments_and_results(mode: Mode) -> None:
    x, w = tensor(3, 4, 5), tensor(5, 2, seed=1)
    for axis in (0, 1, 2, -1):
        result = mode(jg.vmap(lambda a, w: jg.sin(a).sum() * w, in_axes=(axis, None), out_axes=-1))(x, w)
        rows = [values(x).take(i, axis) for i in range(x.shape[axis])]
        close(result, np.stack([np.sin(row).sum() * values(w) for row in rows], axis=-1))


@each_mode
def test_trees_and_results_without_samples(mode: Mode) -> None:
    tree = {"a": tensor(3, 4), "b": [tensor(2), tensor(4, 3, seed=1)]}

    def f(tree: Any, *, scale: Any) -> Any:
        return {"s": tree["a"] * scale + tree["b"][1], "t": (tree["b"][0] * 2, 7)}

    axes = ({"a": 0, "b": [None, 1]},)
    result = mode(jg.vmap(f, in_axes=axes, out_axes={"s": 0, "t": (None, 0)}))(tree, scale=tensor(3))
    wanted = values(tree["a"]) * values(tensor(3))[:, None] + values(tree["b"][1]).T
    close(result["s"], wanted)
    close(result["t"][0], values(tree["b"][0]) * 2)
    close(result["t"][1], np.full(3, 7))


@each_mode
def test_nested_and_sizes_without_arguments(mode: Mode) -> None:
    a, b = tensor(3), tensor(4, seed=1)
    outer = jg.vmap(jg.vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    close(mode(outer)(a, b), np.outer(values(a), values(b)))
    close(mode(jg.vmap(lambda x: x + 1, in_axes=None, axis_size=2))(a), np.stack([values(a) + 1] * 2))
    close(mode(jg.vmap(lambda x: jg.sin(x).sum()))(jg.zeros((0, 3))), np.zeros(0))


@each_mode
def test_gradients_of_each_sample(mode: Mode) -> None:
    w, x, y = tensor(3, 2), tensor(5, 3, seed=1), tensor(5, 2, seed=2)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((jg.tanh(x @ w) - y) ** 2).sum()

    result = mode(jg.vmap(jg.grad(loss), in_axes=(None, 0, 0)))(w, x, y)
    close(result, loop(lambda x, y: jg.grad(loss)(w, x, y), x, y))
    total = mode(jg.grad(lambda w: jg.vmap(loss, in_axes=(None, 0, 0))(w, x, y).sum()))(w)
    close(total, values(result).sum(0))
    second = mode(jg.vmap(jg.hessian(lambda x: (x**3).sum())))(x)
    close(second, np.stack([np.diag(6 * row) for row in values(x)]))
    close(mode(jg.hessian(lambda x: (jg.vmap(jg.sin)(x) ** 2).sum()))(y[0]), np.diag(2 * np.cos(2 * values(y)[0])))


@each_mode
def test_gradients_of_a_module_for_each_sample(mode: Mode) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(3, 4), jg.nn.Tanh(), jg.nn.LayerNorm(4), jg.nn.Linear(4, 1))
    x = tensor(5, 3)
    result = mode(jg.vmap(jg.grad(lambda m, x: m(x).sum()), in_axes=(None, 0)))(model, x)
    for name, p in model.named_parameters():
        rows = []
        for i in range(5):
            model.zero_grad()
            model(x[i]).sum().backward()
            assert p.grad is not None
            rows.append(values(p.grad))
        close(result[name], np.stack(rows))


@each_mode
def test_modules_of_an_ensemble(mode: Mode) -> None:
    one, other, x = jg.nn.Linear(3, 2), jg.nn.Linear(3, 2), tensor(4, 3)
    stacked = {
        name: jg.stack([p.detach(), q.detach()])
        for (name, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True)
    }
    call = jg.vmap(lambda p, x: jg.functional_call(one, p, (x,)), in_axes=(0, None))
    close(mode(call)(stacked, x), np.stack([values(one(x)), values(other(x))]))

    class Both(jg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = jg.nn.Parameter(tensor(2, 3))

        def forward(self, x: Any) -> Any:
            return x * self.scale

    both = Both()
    result = mode(jg.vmap(lambda m, x: m(x), in_axes=(0, None)))(both, x)
    close(result, values(x)[None] * values(both.scale)[:, None])


@each_mode
def test_loops_until_all_are_done(mode: Mode) -> None:
    def grow(x: Any) -> Any:
        return jg.while_loop(lambda c: c[0] < 100.0, lambda c: (c[0] * c[1], c[1]), (x, x))[0]

    x = jg.asarray([1.5, 200.0, 3.0])
    np.testing.assert_array_equal(values(mode(jg.vmap(grow))(x)), loop(grow, x))
    close(mode(jg.vmap(jg.grad(grow)))(x), loop(jg.grad(grow), x))
    close(mode(jg.grad(lambda x: jg.vmap(grow)(x).sum()))(x), loop(jg.grad(grow), x))


@each_mode
def test_branches_meet_the_samples_that_take_them_alone(mode: Mode) -> None:
    """No NaN and no failing index comes of the branch that a sample does not take."""

    def root(x: Any) -> Any:
        return jg.cond(x > 0, lambda x: jg.sqrt(x), lambda x: x * 0.0, x)

    def pick(i: Any) -> Any:
        return jg.cond(i < 3, lambda i: jg.asarray([1.0, 2.0, 3.0])[i], lambda i: jg.asarray(-1.0), i)

    x = jg.asarray([1.0, -2.0, 4.0])
    np.testing.assert_array_equal(values(mode(jg.vmap(root))(x)), [1, -0.0, 2])
    np.testing.assert_array_equal(values(mode(jg.vmap(jg.grad(root)))(x)), [0.5, 0, 0.25])
    np.testing.assert_array_equal(values(mode(jg.grad(lambda x: jg.vmap(root)(x).sum()))(x)), [0.5, 0, 0.25])
    np.testing.assert_array_equal(values(mode(jg.vmap(pick))(jg.asarray([0, 7, 2]))), [1, -1, 3])
    np.testing.assert_array_equal(values(mode(jg.vmap(pick))(jg.asarray([7, 8]))), [-1, -1])


@each_mode
def test_scans_with_carries_that_come_to_vary(mode: Mode) -> None:
    def run(xs: Any, scale: Any) -> Any:
        return jg.scan(lambda c, x: (c * scale + x, c + x), jg.zeros(()), xs)

    xs, scale = tensor(3, 5), tensor(3, seed=1)
    last, ys = mode(jg.vmap(run))(xs, scale)
    close(last, loop(lambda x, s: run(x, s)[0], xs, scale))
    close(ys, loop(lambda x, s: run(x, s)[1], xs, scale))
    result = mode(jg.vmap(jg.grad(lambda xs, s: run(xs, s)[0]), in_axes=(0, None)))(xs, scale[0])
    close(result, loop(lambda x: jg.grad(lambda x: run(x, scale[0])[0])(x), xs))


@jg.script
def halved(x: Any) -> Any:
    if x.sum() > 0:
        while x.sum() < 10:
            x = x * 2
    else:
        print("negative", x)
        x = -x
    return x


@each_mode
def test_scripts_print_in_the_order_of_samples(mode: Mode, capfd: pytest.CaptureFixture[str]) -> None:
    x = jg.asarray([1.0, -2.0, 4.0, -3.0])
    np.testing.assert_array_equal(values(mode(jg.vmap(halved))(x)), [16, 2, 16, 3])
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 2 and "-2" in lines[0] and "-3" in lines[1]


@each_mode
def test_random_numbers(mode: Mode) -> None:
    def draw(x: Any) -> Any:
        return x + jg.random.normal((3,)) * jg.random.uniform(())

    x = tensor(4)
    with pytest.raises(jg.JitgraphError, match='randomness="different"'):
        mode(jg.vmap(draw))(x)
    jg.random.seed(3)
    wanted = loop(draw, x)
    after = values(jg.random.get_state())
    jg.random.seed(3)
    np.testing.assert_array_equal(values(mode(lambda x: jg.vmap(draw, randomness="different")(x))(x)), wanted)
    np.testing.assert_array_equal(values(jg.random.get_state()), after)
    jg.random.seed(3)
    same = values(mode(lambda x: jg.vmap(draw, randomness="same")(x))(x))
    np.testing.assert_array_equal(same[0], wanted[0])
    close(same[1] - same[0], np.full(3, values(x)[1] - values(x)[0]))


def test_checks_of_any_sample_fail() -> None:
    def pick(x: Any, i: Any) -> Any:
        return x[i]

    x = tensor(2, 3)
    for axes in ((0, 0), (None, 0)):
        inputs = x if axes[0] == 0 else x[0]
        with pytest.raises(IndexError):
            jg.vmap(pick, in_axes=axes)(inputs, jg.asarray([0, 3]))
        with pytest.raises(IndexError):
            jg.vmap(pick, in_axes=axes)(inputs, jg.asarray([3, 0]))  # which is no element of the next sample
        with pytest.raises(IndexError):
            jg.trace(jg.vmap(pick, in_axes=axes))(inputs, jg.asarray([0, -4]))


def test_tensors_from_outside() -> None:
    total, x = jg.zeros(()), tensor(3)

    def count(x: Any) -> Any:
        total[...] = total + 1
        return x

    jg.vmap(count)(x)
    assert total.item() == 1

    def add(x: Any) -> Any:
        total[...] = total + x
        return x

    with pytest.raises(jg.UnsupportedOp, match="what differs between samples"):
        jg.vmap(add)(x)
    assert total.item() == 1


def test_named_sizes_and_files(tmp_path: Path) -> None:
    w, x, y = tensor(3, 2), tensor(5, 3, seed=1), tensor(5, 2, seed=2)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w - y) ** 2).sum()

    step = jg.trace(
        lambda w, x, y: jg.vmap(jg.grad(loss), in_axes=(None, 0, 0))(w, x, y),
        dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}},
    )
    jg.save(step, tmp_path / "m.jg", example_inputs=(w, x, y))
    for n in (5, 2, 1):
        wanted = loop(lambda x, y: jg.grad(loss)(w, x, y), x[:n], y[:n])
        close(step(w, x[:n], y[:n]), wanted)
        close(jg.load(tmp_path / "m.jg")(w, x[:n], y[:n]), wanted)
    assert step.cache_info().misses <= 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: jg.vmap(3), "takes a function"),
        (lambda x: jg.vmap(jg.sin, randomness="some")(x), "randomness is one of"),
        (lambda x: jg.vmap(jg.add)(x, tensor(2)), "samples"),
        (lambda x: jg.vmap(jg.sin, in_axes=None)(x), "no argument has an axis of samples"),
        (lambda x: jg.vmap(jg.sin, in_axes=2)(x), "no axis 2"),
        (lambda x: jg.vmap(jg.add, in_axes=(0,))(x, x), "1 entries for 2"),
        (lambda x: jg.vmap(jg.sin, in_axes=({"a": 0},))(x), "does not have the structure"),
        (lambda x: jg.vmap(jg.sin, out_axes=None)(x), "differs between samples"),
        (lambda x: jg.vmap(jg.sin, out_axes=4)(x), "out_axes is 4"),
        (lambda x: jg.vmap(lambda r: r if r.sum() > 0 else -r)(x), "known only when the graph runs"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        call(tensor(3, 4))


def test_batched_ops_keep_their_lines_and_modules() -> None:
    """Errors, explain and profiles name what the user wrote, not where jg.vmap was called."""
    model = jg.nn.Sequential(jg.nn.Linear(3, 3), jg.nn.Tanh())

    def loss(x: Any) -> Any:
        return (model(x) ** 2).sum()

    line = loss.__code__.co_firstlineno + 1
    graph = jg.trace(lambda x: jg.vmap(jg.grad(loss))(x)).lower(tensor(4, 3)).graph
    positions = {node.op.name: node.location for node in graph.walk()}
    assert {positions[name].line for name in ("dot", "tanh", "reduce_sum")} == {line}
    assert positions["tanh"].modules == ("Sequential", "1")
    assert positions["dot"].modules == ("Sequential", "0")
