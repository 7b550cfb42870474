"""custom_vjp, custom_jvp, autograd.Function and checkpoint: eager, traced, of second order, batched and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.transforms.modes import Mode, close, each_mode, tensor, values


@jg.custom_vjp
def wave(x: Any, k: float) -> Any:
    return jg.sin(x) * k


def _wave_forward(x: Any, k: float) -> Any:
    return wave(x, k), (x, k)


# twice the true gradient, so that it is seen whose rule is followed
wave.defvjp(_wave_forward, lambda saved, ct: (2 * ct * jg.cos(saved[0]) * saved[1], None))


class Power(jg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, n: int) -> Any:
        ctx.save_for_backward(x)
        ctx.n = n
        return x**n

    @staticmethod
    def backward(ctx: Any, ct: Any) -> Any:
        (x,) = ctx.saved_tensors
        return ct * 7 * ctx.n * x ** (ctx.n - 1), None


class Split(jg.autograd.Function):
    """PyTorch's other form, with two results, of which one has no gradient."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2, x.sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, ct: Any, of_sum: Any) -> Any:
        assert of_sum is None
        return ct * 3


@each_mode
def test_the_rule_is_what_gradients_follow(mode: Mode) -> None:
    x = tensor(4)
    cos = values(jg.cos(x))
    close(mode(lambda x: wave(x, 3.0))(x), 3 * np.sin(values(x)))
    close(mode(jg.grad(lambda x: wave(x, 3.0).sum()))(x), 6 * cos)
    close(mode(jg.grad(lambda x: jg.grad(lambda x: wave(x, 3.0).sum())(x).sum()))(x), -6 * np.sin(values(x)))
    close(mode(jg.vmap(jg.grad(lambda x: wave(x, 3.0))))(x), 6 * cos)
    close(mode(jg.grad(lambda x: jg.vmap(lambda x: wave(x, 3.0))(x).sum()))(x), 6 * cos)
    shared = jg.grad(lambda a: jg.vmap(lambda x, a: wave(x + a, 3.0), in_axes=(0, None))(x, a).sum())
    close(mode(shared)(jg.asarray(1.0)), (6 * np.cos(1 + values(x))).sum())
    close(mode(jg.grad(lambda x: Power.apply(x, 3).sum()))(x), 21 * values(x) ** 2)
    close(mode(jg.vmap(jg.grad(lambda x: Power.apply(x, 3))))(x), 21 * values(x) ** 2)
    close(mode(jg.grad(lambda x: Split.apply(x)[0].sum() + Split.apply(x)[1]))(x), np.full(4, 3.0))


@each_mode
def test_rules_of_trees_and_fixed_arguments(mode: Mode) -> None:
    @jg.custom_vjp(nondiff_argnums=(0,))
    def applied(f: Any, tree: Any) -> Any:
        return {"y": f(tree["a"]) + tree["b"][0]}

    applied.defvjp(
        lambda f, tree: (applied(f, tree), tree["a"]),
        lambda f, a, ct: ({"a": f(a) * ct["y"], "b": [None, None]},),
    )
    tree = {"a": tensor(3), "b": [tensor(3, seed=1), 4]}
    result = mode(jg.grad(lambda a: (applied(jg.exp, {**tree, "a": a})["y"] * 2).sum()))(tree["a"])
    close(result, 2 * np.exp(values(tree["a"])))

    @jg.custom_jvp
    def product(x: Any, y: Any) -> Any:
        return x * y

    @product.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return product(*primals), 10 * tangents[0] * primals[1] + tangents[1] * primals[0]

    x, y = tensor(3), tensor(3, seed=1)
    of_x, of_y = mode(jg.grad(lambda x, y: product(x, y).sum(), argnums=(0, 1)))(x, y)
    close(of_x, 10 * values(y))
    close(of_y, values(x))
    close(mode(lambda x: jg.jvp(lambda x: product(x, x), x, jg.ones((3,)))[1])(x), 11 * values(x))
    close(mode(jg.vmap(jg.grad(product)))(x, y), 10 * values(y))
    shared = jg.grad(lambda a: jg.vmap(product, in_axes=(0, None))(x, a).sum())
    close(mode(shared)(jg.asarray(2.0)), values(x).sum())


@each_mode
def test_rules_in_loops(mode: Mode) -> None:
    def f(x: Any) -> Any:
        return jg.scan(lambda c, _: (wave(c, 1.0), None), x, None, length=2)[0].sum()

    x = tensor(3)
    close(mode(jg.grad(f))(x), 4 * np.cos(values(x)) * np.cos(np.sin(values(x))))


def test_backward_and_plain_python_outside_of_traces() -> None:
    class Sum(jg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.shape = x.shape
            return jg.asarray(x.numpy().sum())

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return jg.full(ctx.shape, ct.item() * 5)

    x = tensor(3).requires_grad_()
    Sum.apply(x * 2).backward()
    assert x.grad is not None
    close(x.grad, np.full(3, 10.0))


def test_rules_are_saved(tmp_path: Path) -> None:
    x = tensor(4)
    jg.save(jg.trace(lambda x: wave(x, 3.0)), tmp_path / "f.jg", example_inputs=(x,))
    loaded = jg.load(tmp_path / "f.jg")
    close(loaded(x), 3 * np.sin(values(x)))
    y = tensor(4).requires_grad_()
    loaded(y).sum().backward()
    assert y.grad is not None
    close(y.grad, 6 * np.cos(values(x)))


def _no_rule(x: Any) -> Any:
    return jg.custom_vjp(lambda x: x)(x)


def _wrong(back: Any) -> Any:
    def call(x: Any) -> Any:
        f = jg.custom_vjp(lambda x: x * 1)
        f.defvjp(lambda x: (x * 1, None), back)
        return jg.grad(lambda x: f(x).sum())(x)

    return call


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (_no_rule, "has no gradient rule yet"),
        (_wrong(lambda saved, ct: ct), "backward gives a Tensor for 1 arguments"),
        (_wrong(lambda saved, ct: (ct, ct)), "backward gives 2 for 1 arguments"),
        (_wrong(lambda saved, ct: (ct[:1],)), r"a cotangent of shape \(1,\)"),
        (lambda x: Power(), "Power.apply"),
    ],
)
def test_errors(call: Any, message: str, traced: bool) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        (jg.trace(call) if traced else call)(tensor(3))


# --- checkpoint -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
def test_checkpoint_has_the_gradients_of_the_function(traced: bool) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.Tanh(), jg.nn.Dropout(0.5), jg.nn.Linear(8, 1))
    x = tensor(6, 4)

    def step(layers: Any) -> Any:
        loss = layers(x).sum()
        model.zero_grad()
        loss.backward()
        return loss

    results = []
    for layers in (model, jg.checkpoint(model)):
        jg.random.seed(1)
        run = jg.trace(lambda layers=layers: step(layers)) if traced else (lambda layers=layers: step(layers))
        loss = values(run())
        results.append([loss, *(values(p.grad) for p in model.parameters()), values(jg.random.get_state())])
    for wanted, other in zip(*results, strict=True):
        np.testing.assert_array_equal(other, wanted)


@each_mode
def test_checkpoint_of_second_order_and_batched(mode: Mode) -> None:
    def f(x: Any) -> Any:
        return jg.sin(x) * x

    x, kept = tensor(4), jg.checkpoint(f)
    second = [jg.grad(lambda x, g=g: jg.grad(lambda x: g(x).sum())(x).sum()) for g in (f, kept)]
    close(mode(second[1])(x), second[0](x))
    close(mode(jg.vmap(jg.grad(kept)))(x), jg.grad(lambda x: f(x).sum())(x))
    close(mode(jg.grad(lambda x: jg.vmap(kept)(x).sum()))(x), jg.grad(lambda x: f(x).sum())(x))


def test_checkpoint_computes_twice_and_prints_once(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        jg.debug.print("x")
        return jg.tanh(jg.exp(x)).sum()

    x = tensor(4)
    lowered = jg.trace(jg.grad(jg.checkpoint(f))).lower(x)
    assert str(lowered.graph).count("recompute") == 1
    for run in (jg.grad(jg.checkpoint(f)), jg.trace(jg.grad(jg.checkpoint(f)))):
        close(run(x), jg.grad(lambda x: jg.tanh(jg.exp(x)).sum())(x))
        assert capfd.readouterr().out == "x\n"


def test_a_recomputed_graph_keeps_less() -> None:
    """The chain's values are not kept for the way back: the arena of a deep one is smaller."""

    def deep(x: Any) -> Any:
        for _ in range(12):
            x = jg.sin(x @ x)
        return x

    def whole(block: Any) -> Any:
        def loss(x: Any) -> Any:
            for _ in range(4):
                x = block(x)
            return x.sum()

        return jg.trace(jg.grad(loss)).lower(tensor(64, 64)).memory_plan.arena_bytes

    assert whole(jg.checkpoint(deep)) < whole(deep)


@each_mode
def test_a_forward_that_prints_and_draws(mode: Mode, capfd: pytest.CaptureFixture[str]) -> None:
    """The way back sees the numbers that it drew, of second order as well, for which Python runs once more."""

    @jg.custom_vjp
    def noisy(x: Any) -> Any:
        return x

    def forward(x: Any) -> Any:
        jg.debug.print("forward")
        scale = jg.random.normal(())
        return x * scale, (x, scale)

    noisy.defvjp(forward, lambda saved, ct: (ct * saved[0] * saved[1],))
    x = tensor(3)
    jg.random.seed(5)
    scale = jg.random.normal(()).item()
    after = values(jg.random.get_state())
    for order, (function, wanted) in enumerate(
        (
            (jg.grad(lambda x: noisy(x).sum()), values(x) * scale),
            (jg.grad(lambda x: jg.grad(lambda x: noisy(x).sum())(x).sum()), np.full(3, scale)),
        )
    ):
        jg.random.seed(5)
        capfd.readouterr()
        close(mode(function)(x), wanted)
        assert capfd.readouterr().out == "forward\n" * (1 if mode is jg.trace else 1 + order)
        np.testing.assert_array_equal(values(jg.random.get_state()), after)
