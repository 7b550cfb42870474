"""Compiled functions are called with other views than those with which they were recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch


def grid() -> Any:
    return torch.arange(9.0).view(3, 3)


def test_views_of_views_that_are_arguments_are_those_of_the_call() -> None:
    @torch.compile
    def f(v: Any) -> Any:
        return v[1:] * 2, v.detach() * 3, v.unbind(0)[0] + 0, v.view(3, 1)[2]

    a = grid()
    for v in (a[0], a[1], a[:, 1], a.t()[2], torch.ones(3)):
        numbers = np.array(v.tolist())
        expected = [numbers[1:] * 2, numbers * 3, numbers[0], numbers[2:]]
        for result, due in zip(f(v), expected, strict=True):
            np.testing.assert_array_equal(result.numpy(), due)


def test_views_of_gradients_are_those_of_the_call() -> None:
    @torch.compile
    def f(w: Any) -> Any:
        return w.grad[1:] * 1, w.grad.detach() + 1

    w, a = torch.ones(3, requires_grad=True), grid()
    for gradient in (a[0], torch.ones(3), a[2]):
        w.grad = gradient
        part, more = f(w)
        assert part.tolist() == gradient[1:].tolist()
        assert more.tolist() == [x + 1 for x in gradient.tolist()]


def test_another_view_in_a_container_is_seen() -> None:
    a = grid()
    state = {"v": a[0]}

    @torch.compile
    def f() -> Any:
        return state["v"] * 2, state["v"][1:] + 0, state["v"].detach() + 0

    for v in (a[0], a[1], torch.arange(6.0)[::2], torch.ones(3), a[:, 1]):
        state["v"] = v
        for _ in range(2):
            double, part, same = f()
            assert double.tolist() == [2 * x for x in v.tolist()]
            assert part.tolist() == v.tolist()[1:]
            assert same.tolist() == v.tolist()
            a.mul_(2)


def test_another_view_in_an_attribute_is_written() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = torch.zeros(4)
            self.part = self.whole[1:3]

        def forward(self, x: Any) -> Any:
            self.part.add_(x)
            return self.part * 1

    counter = Counter()
    step = torch.compile(counter)
    assert step(torch.ones(2)).tolist() == [1, 1]
    assert step(torch.ones(2)).tolist() == [2, 2]
    counter.part = torch.zeros(2)
    assert step(torch.ones(2)).tolist() == [1, 1]
    assert step(torch.ones(2)).tolist() == [2, 2]
    assert counter.part.tolist() == [2, 2]
    assert counter.whole.tolist() == [0, 2, 2, 0]


def test_arguments_may_share_elements_that_are_only_read() -> None:
    """Batches and targets that are slices of one tensor, in a step that writes its weight."""
    corpus, weight = torch.arange(12.0), torch.zeros(3)

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        weight.add_(x * y)
        return weight.sum()

    step(corpus[0:3], corpus[1:4])
    step(corpus[4:7], corpus[5:8].reshape(-1))
    step(torch.ones(3), torch.ones(3))
    assert weight.tolist() == [0 + 20 + 1, 2 + 30 + 1, 6 + 42 + 1]
    assert step.cache_info().misses == 1


def test_what_is_written_shares_no_elements_with_another_argument() -> None:
    a, seen = torch.arange(6.0), torch.zeros(3)

    @torch.compile
    def step(w: Any, x: Any) -> Any:
        w.add_(x)
        return w * x

    step(seen, a[:3])
    assert seen.tolist() == [0.0, 1.0, 2.0]
    for pair in ((a[:3], a[1:4]), (a, a[:]), (a[1:4], a[1:4])):
        with pytest.raises(jg.TraceError, match="w and x share elements, and the function writes to one of them"):
            step(*pair)
    assert a.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
