"""Gradients beside writes in place: under no_grad, through ``.data``, to ``.grad``, of tensors that retain theirs."""

from __future__ import annotations

import copy
import gc
import importlib
import importlib.util
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import jitgraph.torch as ours

PyTorch = importlib.util.find_spec("torch") and importlib.import_module("torch")


def write_without_grad(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    def f(w: Any) -> Any:
        a = w * 2
        with torch.no_grad():
            a.mul_(3)
            a[0] = 7
            a[1:].clamp_(max=9)
        return (a * a).sum() + w.sum()

    w = torch.arange(3.0, requires_grad=True)
    loss = compiled(f)(w)
    loss.backward()
    return loss.detach(), w.grad


def write_through_data(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    def f(w: Any) -> Any:
        a = w * 2
        a.data.clamp_(max=1.5)
        a.detach()[0] = 5
        return (a * a).sum()

    w = torch.arange(3.0, requires_grad=True)
    loss = compiled(f)(w)
    loss.backward()
    return loss.detach(), w.grad


def set_data(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    w = torch.arange(3.0, requires_grad=True)
    a = w * 2
    a.data = torch.full((3,), 9.0)
    (a * a).sum().backward()
    b = w * 2
    b.detach_()
    return a.detach(), w.grad, torch.tensor([a.requires_grad, b.requires_grad])


def accumulate(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    def f(w: Any) -> Any:
        loss = (w * w).sum()
        loss.backward()
        return loss.detach()

    step = compiled(f)
    w = torch.arange(3.0, requires_grad=True)
    step(w)
    first = w.grad
    step(w)
    step(w)
    torch.autograd.backward((w * 3).sum(), inputs=[w])
    return first, w.grad


def accumulate_into_buckets(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    def f(w: Any) -> Any:
        loss = (w * w).sum()
        loss.backward()
        return loss.detach()

    step = compiled(f)
    bucket = torch.zeros(6)
    w = torch.arange(3.0, requires_grad=True)
    w.grad = bucket[1:4]
    step(w)
    step(w)
    other = torch.ones(3)
    w.grad = other
    step(w)
    return bucket, other, w.grad


def graph_of_gradient(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    w = torch.arange(3.0, requires_grad=True)
    (w * w).sum().backward()
    first = w.grad
    with torch.enable_grad():
        (w**3).sum().backward(inputs=[w], create_graph=True)
    return first, w.grad.detach()


def zero_and_clip(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    w = torch.nn.Parameter(torch.arange(3.0))
    (w * w).sum().backward()
    known = w.grad
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    a = known.clone()
    torch.nn.utils.clip_grad_value_([w], 0.3)
    b = known.clone()
    torch.optim.SGD([w], 0.1).zero_grad(set_to_none=False)
    return a, b, known, w.grad


def retain(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    def f(w: Any) -> Any:
        a = w * 2
        a.retain_grad()
        a[0] = 5
        a.mul_(3)
        (a * a).sum().backward()
        return a.grad

    w = torch.arange(3.0, requires_grad=True)
    gradient = f(w)  # a traced function refuses retain_grad()
    b = w * 2
    b.retain_grad()
    return gradient, w.grad, torch.tensor([b.retains_grad, w.retains_grad])


def overwrite_all(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    """What was there before has the gradient zero, times what its derivative is: at 0 that of log is infinite."""

    def by_view(t: Any, w: Any) -> None:
        t.view(3)[...] = w

    def by_slice(t: Any, w: Any) -> None:
        t[0:3] = w

    def by_number(t: Any, w: Any) -> None:
        t[:] = 0.5

    def by_copy(t: Any, w: Any) -> None:
        t.copy_(w)

    def by_copy_to_a_view(t: Any, w: Any) -> None:
        t.view(3, 1).copy_(w.view(3, 1))

    def by_fill(t: Any, w: Any) -> None:
        t[0:].fill_(w.sum())

    def by_draw(t: Any, w: Any) -> None:
        t.uniform_()

    gradients = []
    for write in (by_view, by_slice, by_number, by_copy, by_copy_to_a_view, by_fill, by_draw):

        def f(w: Any, write: Callable[[Any, Any], None] = write) -> Any:
            t = w.log()
            write(t, w)
            return t.sum()

        w = torch.arange(3.0, requires_grad=True)
        compiled(f)(w).backward()
        gradients.append(w.grad)
    return gradients


def write_to_detached(torch: Any, compiled: Callable[[Any], Any]) -> Any:
    """A detached tensor depends on what is written to it; what shares its elements does not."""

    def f(w: Any) -> Any:
        x = torch.ones(3)
        h = w * 2
        a, b, c, d = x.detach(), h.data, h.detach(), x.detach()
        row = a[1:]
        a.mul_(w)
        b[1:].add_(w[1:])
        c.copy_(w)
        a.data.add_(1)
        with torch.no_grad():
            a[0] = 7
        a[1:].mul_(3)
        x.add_(1)
        flags = torch.tensor([t.requires_grad for t in (a, b, c, d, x, a.detach())])
        return a.sum() + row.sum() + 2 * b.sum() + 3 * c.sum() + (d * h).sum(), a.detach(), h.detach(), flags

    w = torch.arange(3.0, requires_grad=True)
    loss, *results = compiled(f)(w)
    loss.backward()
    return w.grad, *results


EXPECTED: dict[str, tuple[Callable[[Any, Callable[[Any], Any]], Any], Any]] = {
    "write without grad": (write_without_grad, [169.0, [29.0, 25.0, 37.0]]),
    "write through data": (write_through_data, [29.5, [20.0, 6.0, 6.0]]),
    "set data": (set_data, [[9.0, 9.0, 9.0], [36.0, 36.0, 36.0], [True, False]]),
    "accumulate": (accumulate, [[3.0, 9.0, 15.0]] * 2),
    "buckets": (accumulate_into_buckets, [[0.0, 0.0, 4.0, 8.0, 0.0, 0.0], [1.0, 3.0, 5.0], [1.0, 3.0, 5.0]]),
    "graph of a gradient": (graph_of_gradient, [[0.0, 2.0, 4.0], [0.0, 5.0, 16.0]]),
    "zero and clip": (zero_and_clip, [[0.0, 0.4472, 0.8944], [0.0, 0.3, 0.3], [0.0] * 3, [0.0] * 3]),
    "overwrite": (
        overwrite_all,
        [[math.nan, 1.0, 1.0]] * 2
        + [[math.nan, 0.0, 0.0]]
        + [[math.nan, 1.0, 1.0]] * 2
        + [[math.nan, 3.0, 3.0], [math.nan, 0.0, 0.0]],
    ),
    "detached": (write_to_detached, [[20.0, 25.0, 31.0], [8.0, 7.0, 10.0], [0.0, 1.0, 2.0], [True] * 3 + [False] * 3]),
    "retain": (retain, [[30.0, 12.0, 24.0], [0.0, 72.0, 144.0], [True, False]]),
}


@pytest.mark.parametrize("compiled", [lambda f: f, ours.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph:UserWarning")
def test_writes_and_gradients_are_those_of_pytorch(name: str, compiled: Callable[[Any], Any]) -> None:
    program, expected = EXPECTED[name]
    runs = [(ours, compiled)] + ([(PyTorch, lambda f: f)] if PyTorch else [])
    for torch, how in runs:
        results = program(torch, how)
        for result, due in zip(results, expected, strict=True):
            assert result.tolist() == pytest.approx(due, abs=1e-4, nan_ok=True), torch.__name__


def test_the_copy_of_a_detached_tensor_depends_on_what_is_written_to_it_alone() -> None:
    for torch in [ours, *([PyTorch] if PyTorch else [])]:
        w, x = torch.arange(3.0, requires_grad=True), torch.ones(3).detach()
        part, whole = x[1:], x
        copied, part = copy.deepcopy((whole, part))
        copied.add_(w)
        assert [t.requires_grad for t in (x, copied, part)] == [False, True, False], torch.__name__


def test_detached_tensors_leave_nothing_to_the_cyclic_collector() -> None:
    x = ours.ones(4, requires_grad=True)
    views = [x.detach(), x.data, x.detach()[1:]]
    views[0].add_(1)
    views[2].copy_(x[1:] * 2)
    steps = [weakref.ref(view) for view in views]
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(100):
            x.detach().size()
            x.data.size()
        assert len(gc.get_objects()) < before + 100
        views.clear()
        assert not any(step() for step in steps)
    finally:
        gc.enable()
