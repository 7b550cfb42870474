"""A trace with many gradients, as a quasi-Newton method unrolled: the work for each does not grow with the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.passes import reverse
from jitgraph.tracing.record.gradients import Gradients
from jitgraph.tracing.record.trace import Trace
from jitgraph.tracing.record.values import TracedValue

x = np.linspace(-1.0, 1.0, 6)


def loss(p: Any) -> Any:
    return (100.0 * (p[1:] - p[:-1] ** 2) ** 2 + (1.0 - p[:-1]) ** 2).sum()


def lbfgs(turns: int, memory: int = 3) -> Callable[[Any], Any]:
    """Liu and Nocedal 1989 with a fixed first step, which every turn halves until the loss falls."""
    value_and_grad = jg.value_and_grad(loss)

    def minimise(p: Any) -> Any:
        history: list[Any] = []
        before, gradient = value_and_grad(p)
        for _ in range(turns):
            direction, shares = gradient, []
            for step, change, weight in reversed(history):
                shares.append(weight * (step * direction).sum())
                direction = direction - shares[-1] * change
            for (step, change, weight), share in zip(history, reversed(shares), strict=True):
                direction = direction + step * (share - weight * (change * direction).sum())
            length = jg.where((direction * gradient).sum() > 0, 1e-3, 0.0)
            step = -length * direction
            after, changed = value_and_grad(p + step)
            history = [*history, (step, changed - gradient, 1 / ((changed - gradient) * step).sum())][-memory:]
            p, before, gradient = p + step, after, changed
        return p, before

    return minimise


def walked(turns: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many values recorded gradients were followed through, and how many nodes their expansion went over."""
    values = nodes = 0
    reached, window = Gradients.reached, reverse._window

    def counted(self: Gradients, *args: Any, **kwargs: Any) -> Any:
        nonlocal values
        result = reached(self, *args, **kwargs)
        values += len(result)
        return result

    def counted_window(*args: Any) -> Any:
        nonlocal nodes
        begin, end = window(*args)
        nodes += end - begin
        return begin, end

    with monkeypatch.context() as patch:
        patch.setattr(Gradients, "reached", counted)
        patch.setattr(reverse, "_window", counted_window)
        jg.trace(lbfgs(turns))(jg.asarray(x))
    return values, nodes


def test_the_work_is_linear_in_the_number_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = walked(4, monkeypatch), walked(16, monkeypatch)
    assert 0 < many[0] <= 4.5 * few[0]
    assert 0 < many[1] <= 4.5 * few[1]


def test_values_are_those_of_eager() -> None:
    eager, traced = lbfgs(5)(jg.asarray(x)), jg.trace(lbfgs(5))(jg.asarray(x))
    for have, want in zip(traced, eager, strict=True):
        np.testing.assert_array_equal(have.numpy(), want.numpy())


def test_targets_between_outputs_and_other_targets() -> None:
    """Of values in any order, some behind what is differentiated, some that nothing depends on."""

    def grads(p: Any) -> Any:
        first = p * 2.0
        second = jg.sin(first)
        third = second * p
        unused = p.exp()
        return jg.autograd.grad(third.sum(), [third, p, second, first, unused], allow_unused=True, retain_graph=True)

    def run(p: Any) -> list[Any]:
        return [None if g is None else g.numpy() for g in grads(p)]

    p = jg.asarray(x)
    p.requires_grad_()
    want = run(p)
    function = jg.trace(lambda p: [g for g in grads(p.requires_grad_()) if g is not None])(jg.asarray(x))
    assert want[4] is None
    for have, eager in zip(function, want[:4], strict=True):
        np.testing.assert_array_equal(have.numpy(), eager)


def test_one_walk_tells_through_which_outputs_gradients_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether gradients go from an output to an input is asked for each; the trace is walked over once for all."""
    walks: list[int] = []
    dependent, is_differentiable = Gradients.dependent, Trace.is_differentiable

    def counted(self: Gradients, *args: Any) -> Any:
        walks.append(len(self._recorder.producers))
        return dependent(self, *args)

    def checked(self: Trace, value: TracedValue) -> bool:
        reached = self.gradients.reached([value.ir]) if value.requires_grad else set()
        answer = is_differentiable(self, value)
        assert answer == (any(ir in self._input_numbers for ir in reached) and value.ir not in self._released)
        answers.append(answer)
        return answer

    def many(p: Any, q: Any) -> Any:
        outputs = []
        for number in range(30):
            p = jg.tanh(p) if number % 7 else p.detach() * q
            outputs += [p, (p > 0).sum(), p * 2, q.detach() + number]
        return outputs

    answers: list[bool] = []
    monkeypatch.setattr(Gradients, "dependent", counted)
    monkeypatch.setattr(Trace, "is_differentiable", checked)
    a, b = (jg.asarray(x + number, requires_grad=True) for number in range(2))
    outputs = jg.trace(many)(a, b)
    assert len(walks) == 1 and len(answers) == len(outputs) and 0 < sum(answers) < len(answers)
    assert [y.requires_grad for y in outputs] == answers
