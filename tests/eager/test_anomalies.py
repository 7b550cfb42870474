"""Anomalies in gradients name the op that is differentiated, its line and the index, however the forward ran."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import jitgraph as jg

Function = Callable[[jg.Tensor], jg.Tensor]
X = [1.0, 0.0, 4.0]


def straight(x: jg.Tensor) -> jg.Tensor:
    return (jg.sqrt(x) * 2.0).sum()  # here


def scanned(x: jg.Tensor) -> jg.Tensor:
    def body(carry: jg.Tensor, _: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        return jg.sqrt(carry), carry  # here

    return jg.scan(body, x, jg.arange(3))[0].sum()


def looped(x: jg.Tensor) -> jg.Tensor:
    def body(state: tuple[jg.Tensor, jg.Tensor]) -> tuple[jg.Tensor, jg.Tensor]:
        return state[0] + 1, jg.sqrt(state[1])  # here

    return jg.while_loop(lambda state: state[0] < 3, body, (jg.asarray(0), x))[1].sum()


def branched(x: jg.Tensor) -> jg.Tensor:
    def root(x: jg.Tensor) -> jg.Tensor:
        return jg.sqrt(x)  # here

    return jg.cond(x.sum() > 0, root, lambda x: x, x).sum()


def checkpointed(x: jg.Tensor) -> jg.Tensor:
    def root(x: jg.Tensor) -> jg.Tensor:
        return jg.sqrt(x)  # here

    return jg.checkpoint(root)(x).sum()


@jg.script
def scripted(x: jg.Tensor) -> jg.Tensor:
    i = jg.asarray(0)
    while i < 3:
        x = jg.sqrt(x)  # here
        i = i + 1
    return x.sum()


FUNCTIONS = [straight, scanned, looped, branched, checkpointed, scripted]


def line_of(function: Function) -> str:
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    (offset,) = [i for i, line in enumerate(lines) if "# here" in line]
    return rf"test_anomalies\.py:{first + offset}\b"


def leaf(data: list[float]) -> jg.Tensor:
    return jg.asarray(data).requires_grad_()


def refused(function: Function) -> pytest.RaisesExc[jg.AnomalyError]:
    where = line_of(function)
    return pytest.raises(jg.AnomalyError, match=rf"gave inf at index \(1,\), in the backward of sqrt at .*{where}")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_gradient_names_the_op_that_is_differentiated(function: Function) -> None:
    with jg.detect_anomaly(), refused(function):
        function(leaf(X)).backward()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_gradient_of_what_ran_before_the_block(function: Function) -> None:
    for ran in (function, jg.trace(lambda x: function(x))):
        y = ran(leaf(X))
        with jg.detect_anomaly(), refused(function):
            y.backward()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_traced_step_names_it(function: Function) -> None:
    @jg.trace
    def step(x: jg.Tensor) -> jg.Tensor:
        return jg.grad(function)(x)

    assert np.isinf(step(jg.asarray(X)).numpy()[1])
    with jg.detect_anomaly(), refused(function):
        step(jg.asarray(X))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("again", [False, True])
def test_sound_gradients_are_the_same_in_the_block(function: Function, again: bool) -> None:
    data = [1.0, 0.5, 4.0]

    def slopes(x: jg.Tensor, y: jg.Tensor) -> list[jg.Tensor]:
        (first,) = jg.autograd.grad(y, x, create_graph=again)
        return [first, jg.autograd.grad(first.sum(), x)[0]] if again else [first]

    for ran in (function, jg.trace(lambda x: function(x))):
        (x, z) = (leaf(data), leaf(data))
        expected = slopes(x, ran(x))
        y = ran(z)
        with jg.detect_anomaly():
            result = slopes(z, y)
        for have, want in zip(result, expected, strict=True):
            np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=1e-6)
            assert have.requires_grad == want.requires_grad


def test_an_anomaly_of_a_compiled_forward_is_named_by_its_own_line() -> None:
    def shifted(x: jg.Tensor) -> jg.Tensor:
        return jg.log(x - 3.0).sum()  # here

    y = jg.trace(shifted)(leaf(X))
    with (
        jg.detect_anomaly(),
        pytest.raises(jg.AnomalyError, match=rf"log gave nan at index \(0,\)\n  at .*{line_of(shifted)}"),
    ):
        y.backward()


def test_a_composite_is_named_with_the_line_of_its_call() -> None:
    def scaled(x: jg.Tensor) -> jg.Tensor:
        return (jg.nn.functional.softmax(x, dim=0) * 1e38).sum()  # here

    y = scaled(leaf(X))
    with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match=rf"in the backward of \w+ at .*{line_of(scaled)}"):
        y.backward(jg.asarray(1e38))


def test_a_rule_of_the_users_is_named_with_the_line_that_failed_in_it() -> None:
    @jg.custom_vjp
    def root(x: jg.Tensor) -> jg.Tensor:
        return jg.sqrt(x)

    def back(saved: jg.Tensor, ct: jg.Tensor) -> tuple[jg.Tensor]:
        return (ct / saved,)

    root.defvjp(lambda x: (jg.sqrt(x), jg.sqrt(x)), back)
    y = root(leaf(X)).sum()
    line = back.__code__.co_firstlineno + 1
    with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match=rf"in the backward of root at .*\n  at .*:{line}\b"):
        y.backward()


def test_16_bits_and_complex_numbers_are_watched() -> None:
    for dtype in (jg.float16, jg.bfloat16, jg.complex64):
        x = jg.asarray([1.0, 0.0], dtype=dtype)
        with jg.detect_anomaly(), pytest.raises(jg.AnomalyError, match=r"gave .* at index \(1,\)"):
            x / x


def test_what_was_not_finite_before_is_let_through() -> None:
    x = jg.asarray([np.inf, np.nan, -0.0, 1e38])
    with jg.detect_anomaly():
        assert np.isnan((x * 2).numpy()[1])
        assert (jg.zeros((0,)) / 0.0).shape == (0,)
        with pytest.raises(jg.AnomalyError, match=r"div gave inf at index \(\)"):
            jg.asarray(1.0) / 0.0
