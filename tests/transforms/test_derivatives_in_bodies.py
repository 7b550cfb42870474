"""Pullbacks and pushes of jg.vjp and jg.linearize that are called in bodies: batched, in loops and recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.transforms.modes import Mode, close, each_mode, tensor, values

F = jg.nn.functional
WEIGHTS = tensor(3, 3, seed=1, dtype=np.float64)
LAYERS = jg.nn.Sequential(jg.nn.Linear(3, 4), jg.nn.LayerNorm(4), jg.nn.GELU(), jg.nn.Linear(4, 3)).double()


@jg.trace
def compiled(x: Any) -> Any:
    return (x @ WEIGHTS).tanh() * x


@jg.custom_vjp
def doubled(x: Any) -> Any:
    return x.sin()


doubled.defvjp(lambda x: (x.sin(), x), lambda x, ct: (ct * x.cos() * 2,))

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "compiled": compiled,
    "custom rule": doubled,
    "layers": LAYERS,
    "scan": lambda x: jg.scan(lambda c, row: (c * row.sin() + x, c), x, jg.stack([x, x * 2]))[0],
    "while": lambda x: jg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x.cos()), (0, x))[1],
    "cond": lambda x: jg.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * x, x),
    "checkpoint": lambda x: jg.checkpoint(lambda x: (x.sin() * x).cumsum(0))(x),
    "indices": lambda x: x[1:].sum() * jg.concat([x, x])[:3].flip(0),
    "softmax": lambda x: F.softmax(x, -1) * jg.linalg.norm(x),
    "solve": lambda x: jg.linalg.solve(jg.outer(x, x) + jg.eye(3, dtype=jg.float64), x),
    "gradient": lambda x: jg.grad(lambda z: (z**3).sum() * z[0])(x),
    "gradient of compiled": lambda x: jg.grad(lambda z: compiled(z).sum())(x),
    "convolution": lambda x: F.conv1d(x.reshape(1, 1, 3), WEIGHTS.reshape(3, 3)[:1, None], padding=1).reshape(3),
    "dropout": lambda x: F.dropout(x, 0.5, True) * x,
}


def by_pullback(function: Callable[[Any], Any], x: Any) -> Any:
    _, pull = jg.vjp(function, x)
    return jg.vmap(pull)(jg.eye(3, dtype=jg.float64))[0]


def by_push(function: Callable[[Any], Any], x: Any) -> Any:
    _, push = jg.linearize(function, x)
    return jg.vmap(push, out_axes=1)(jg.eye(3, dtype=jg.float64))


@each_mode
@pytest.mark.parametrize("way", [by_pullback, by_push])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_directions_are_batched(mode: Mode, way: Callable[..., Any], name: str) -> None:
    """The derivative along every direction at once is the jacobian, and so is what is differentiated in turn."""
    function, x = FUNCTIONS[name], tensor(3, dtype=np.float64)

    def again(x: Any) -> Any:
        return jg.grad(lambda x: (way(function, x) ** 2).sum())(x)

    jg.random.seed(3)
    wanted = jg.jacobian(function)(x)
    jg.random.seed(3)
    result = mode(lambda x: way(function, x))(x)
    assert not (mode is not jg.trace and name != "layers" and result.requires_grad)  # layers have parameters
    close(result, wanted, 1e-12)
    jg.random.seed(3)
    second = jg.grad(lambda x: (jg.jacobian(function)(x) ** 2).sum())(x)
    jg.random.seed(3)
    close(mode(again)(x), second, 1e-10)


@each_mode
def test_directions_in_loops_and_checkpoints(mode: Mode) -> None:
    x, rows = tensor(3), jg.eye(3)

    def looped(x: Any) -> Any:
        _, pull = jg.vjp(jg.sin, x)
        return jg.scan(lambda carry, row: (carry, pull(row)[0]), jg.asarray(0.0), rows)[1]

    close(mode(looped)(x), np.diag(np.cos(values(x))))

    def recomputed(x: Any) -> Any:
        _, push = jg.linearize(jg.sin, x)
        return jg.checkpoint(push)(rows[0])

    close(mode(recomputed)(x), [np.cos(values(x))[0], 0, 0])


@each_mode
def test_nested_batches(mode: Mode) -> None:
    """A pullback that was made for each sample of one batch is batched over directions inside of it."""

    def jacobian(x: Any) -> Any:
        _, pull = jg.vjp(lambda x: x * x.sum(), x)
        return jg.vmap(lambda v: pull(v)[0])(jg.eye(3))

    x = tensor(4, 3)
    wanted = np.stack([values(jg.jacobian(lambda x: x * x.sum())(row)) for row in x])
    close(mode(jg.vmap(jacobian))(x), wanted)


def test_parameters_get_the_gradient_of_a_batched_pullback() -> None:
    """What the function closes over keeps its place on the tape, or in the trace."""
    layer = jg.nn.Linear(3, 3)
    x = tensor(3)

    def penalty(x: Any) -> Any:
        _, pull = jg.vjp(lambda x: layer(x).tanh(), x)
        return (jg.vmap(pull)(jg.eye(3))[0] ** 2).sum()

    (jg.jacobian(lambda x: layer(x).tanh())(x) ** 2).sum().backward()
    wanted = values(layer.weight.grad)
    for mode in (lambda f: f, jg.trace):
        layer.weight.grad = None
        mode(penalty)(x).backward()
        close(layer.weight.grad, wanted)


def test_a_batched_pullback_draws_no_new_numbers() -> None:
    """The mask that a dropout drew when jg.vjp was called is the one of every direction."""
    x = jg.ones((64,))

    def masks(x: Any) -> Any:
        y, pull = jg.vjp(lambda x: F.dropout(x, 0.5, True), x)
        return y, jg.vmap(pull)(jg.ones((2, 64)))[0]

    for mode in (lambda f: f, jg.trace):
        y, pulled = mode(masks)(x)
        close(pulled, np.stack([values(y)] * 2))


@pytest.mark.parametrize("made", ["vjp", "linearize"])
def test_a_traced_function_refuses_derivatives_from_outside(made: str) -> None:
    """What was called before the trace has no place in it, where gradients would be constants."""
    x, v = tensor(3), jg.eye(3)
    _, used = getattr(jg, made)(jg.sin, x)
    for function in (used, jg.vmap(used)):
        with pytest.raises(jg.JitgraphError, match=f"jg.{made} was called outside"):
            jg.trace(lambda v, function=function: function(v))(v if function is not used else v[0])


@pytest.mark.parametrize("made", ["vjp", "linearize"])
def test_a_derivative_does_not_leave_its_body(made: str) -> None:
    kept: list[Any] = []

    def body(row: Any) -> Any:
        kept.append(getattr(jg, made)(jg.sin, row)[1])
        return row

    jg.vmap(body)(tensor(3, 3))
    for call in (kept[-1], jg.vmap(lambda v: kept[-1](v))):
        with pytest.raises(jg.JitgraphError, match="outside"):
            call(tensor(3, 3)[0] if call is kept[-1] else tensor(3, 3))
