"""``register_hook``: functions that see a gradient, in order, eager and traced, until they are removed."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jitgraph as jg

each_mode = pytest.mark.parametrize("mode", [lambda f: f, jg.trace], ids=["eager", "traced"])
Mode = Callable[[Callable[..., Any]], Callable[..., Any]]


def leaf(*numbers: float) -> jg.Tensor:
    return jg.asarray(list(numbers) or [1.0, 2.0], requires_grad=True)


# what registers hooks on a leaf a and on y = 2 a, and the gradient of sum(y * y) by a = (1, 2), which is (8, 16)
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], list[float]]] = {
    "none": (lambda a, y: None, [8.0, 16.0]),
    "leaf": (lambda a, y: a.register_hook(lambda g: g * 10), [80.0, 160.0]),
    "result": (lambda a, y: y.register_hook(lambda g: g + 1), [10.0, 18.0]),
    "both": (lambda a, y: (a.register_hook(lambda g: g + 1), y.register_hook(lambda g: g * 3)), [25.0, 49.0]),
    "in order": (lambda a, y: (a.register_hook(lambda g: g + 1), a.register_hook(lambda g: g * 2)), [18.0, 34.0]),
    "in order at a result": (
        lambda a, y: (y.register_hook(lambda g: g + 1), y.register_hook(lambda g: g * 2)),
        [20.0, 36.0],
    ),
    "nothing given": (lambda a, y: (a.register_hook(lambda g: None), y.register_hook(lambda g: None)), [8.0, 16.0]),
    "removed": (lambda a, y: a.register_hook(lambda g: g * 10).remove(), [8.0, 16.0]),
}


@each_mode
@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_change_the_gradient(name: str, mode: Mode) -> None:
    register, expected = PROGRAMS[name]

    def run(a: Any) -> None:
        y = a * 2
        register(a, y)
        (y * y).sum().backward()

    a = leaf()
    mode(run)(a)
    assert a.grad is not None and a.grad.tolist() == expected


@each_mode
def test_a_hook_sees_the_whole_gradient_and_grad_asks_it_too(mode: Mode) -> None:
    a = leaf()
    a.register_hook(lambda g: g * 10)
    assert mode(lambda a: jg.autograd.grad((a * a).sum() + a.sum(), a)[0])(a).tolist() == [30.0, 50.0]
    b = leaf()
    c = b * 2
    z = c * c + c
    c.register_hook(lambda g: g * 10)  # eager: also after c is used
    z.sum().backward()
    assert b.grad is not None and b.grad.tolist() == [100.0, 180.0]


def test_traces_are_recorded_anew_where_hooks_of_leaves_change() -> None:
    a = leaf()

    @jg.trace
    def step(a: Any) -> None:
        (a * 3).sum().backward()

    def gradient() -> Any:
        a.grad = None
        step(a)
        return a.grad.tolist()  # type: ignore[union-attr]

    assert gradient() == [3.0, 3.0]
    with a.register_hook(lambda g: g * 10):
        assert gradient() == gradient() == [30.0, 30.0]
        second = a.register_hook(lambda g: g + 1)
        assert gradient() == [31.0, 31.0]
    assert gradient() == [4.0, 4.0]
    second.remove()
    second.remove()
    assert gradient() == [3.0, 3.0]


def test_warm_calls_and_files_of_traces_know_of_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path))
    a = leaf()

    @jg.trace
    def step(a: Any) -> None:
        (a * 3).sum().backward()

    @jg.trace
    def doubled(x: Any) -> Any:
        return x * 2

    def gradient() -> Any:
        a.grad = None
        step(a)
        return a.grad.tolist()  # type: ignore[union-attr]

    x = jg.asarray([1.0])
    for _ in range(3):
        assert gradient() == [3.0, 3.0]
        doubled(x)
    with a.register_hook(lambda g: g * 10):
        for _ in range(3):
            assert gradient() == [30.0, 30.0]
            doubled(x)
        with jg.no_grad(), jg.enable_grad():
            second = a.register_hook(lambda g: g + 1)
        assert gradient() == [31.0, 31.0]
    second.remove()
    assert gradient() == [3.0, 3.0]
    assert doubled.cache_info().misses == 1 and doubled.native.hits > 0, "no tensor of it has a hook"
    recorded = step.cache_info().misses
    assert gradient() == [3.0, 3.0] and step.cache_info().misses == recorded, "the trace of before is there"
    a.register_hook(lambda g: g * 2)
    before = step.native.hits
    assert [gradient() for _ in range(4)] == [[6.0, 6.0]] * 4 and step.native.hits > before


def test_a_trace_without_a_gradient_serves_leaves_with_hooks() -> None:
    a, forward = leaf(), jg.trace(lambda a: (a * 3).sum())
    forward(a).backward()
    a.register_hook(lambda g: g * 10)
    forward(a).backward()
    assert forward.cache_info().misses == 1 and a.grad is not None and a.grad.tolist() == [33.0, 33.0]


def test_hooks_see_gradients_of_higher_order_and_go_with_their_tensors() -> None:
    seen: list[Any] = []
    a = leaf(3.0)
    y = a * a
    y.register_hook(lambda g: seen.append(g.tolist()))
    (first,) = jg.autograd.grad((y * y).sum(), a, create_graph=True)
    first.sum().backward()
    assert seen[0] == [18.0] and a.grad is not None and a.grad.tolist() == [108.0]


def test_mistakes_are_refused() -> None:
    with pytest.raises(jg.JitgraphError, match="requires no gradient"):
        jg.ones(2).register_hook(lambda g: g)
    with pytest.raises(jg.JitgraphError, match="a hook is a function"):
        leaf().register_hook(3)
    for hook, error in ((lambda g: 3, jg.JitgraphError), (lambda g: g[:1], jg.ShapeError)):
        a = leaf()
        a.register_hook(hook)
        with pytest.raises(error, match="a hook gives"):
            (a * a).sum().backward()

    @jg.trace
    def late(a: Any) -> None:
        y = a * 2
        z = y * y
        y.register_hook(lambda g: g)
        z.sum().backward()

    with pytest.raises(jg.TraceError, match="something was computed already"):
        late(leaf())


# what gives a tensor a hook that refers to the tensor itself
SELF_REFERRING: dict[str, Callable[[Any], Any]] = {
    "leaf": lambda a: (a, a.register_hook(lambda g: g * (a is not None))),
    "parameter": lambda a: (p := jg.nn.Parameter(a.detach()), p.register_hook(lambda g: p.detach())),
    "result": lambda a: (y := a * 2, y.register_hook(lambda g: y.detach())),
    "removed and registered": lambda a: (
        a.register_hook(lambda g: g).remove(),
        a.register_hook(lambda g: a.detach()),
        a,
    )[1:][::-1],
}


@pytest.mark.parametrize("name", SELF_REFERRING)
def test_a_hook_that_refers_to_its_tensor_keeps_nothing_alive(name: str) -> None:
    def program() -> tuple[Any, Any]:
        watched, handle = SELF_REFERRING[name](leaf())
        watched.sum().backward()
        return weakref.ref(watched), handle

    gone, handle = program()
    gc.collect()
    assert gone() is None
    handle.remove()  # of what is gone


@pytest.mark.parametrize("native", ["0", "1"])
def test_hooks_end_with_their_tensor(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", native)
    double = jg.trace(lambda x: x * 2)
    for _ in range(3):
        double(jg.ones(2))

    def hook(g: Any) -> None:
        return None

    a = double(jg.ones(2)).requires_grad_()
    a.register_hook(lambda g, hook=hook: hook(g))
    (a * 2).sum().backward()
    gone, hook = weakref.ref(hook), None  # type: ignore[assignment]
    assert gone() is not None
    del a
    assert gone() is None, "without the collector"


def test_a_leaf_passes_hooks_as_long_as_a_result_needs_it() -> None:
    seen: list[Any] = []

    def result() -> Any:
        a = leaf()
        a.register_hook(lambda g: seen.append(g.tolist()))
        return (a * 3).sum()

    result().backward()
    assert seen == [[3.0, 3.0]]


def test_hooks_come_and_go_while_they_run() -> None:
    a, seen = leaf(), []

    def first(g: Any) -> None:
        seen.append("first")
        handles.pop().remove()
        a.register_hook(lambda g: seen.append("second"))

    handles = [a.register_hook(first)]
    for _ in range(2):
        (a * 3).sum().backward()
    assert seen == ["first", "second"]


def test_a_trace_that_removes_a_hook_is_not_that_of_calls_without_it() -> None:
    a = leaf()

    @jg.trace
    def step(a: Any) -> None:
        (a * 3).sum().backward()

    def once(g: Any) -> Any:
        handle.remove()
        return g * 10

    handle = a.register_hook(once)
    with pytest.warns(RuntimeWarning, match="the hooks of a"):
        step(a)
    step(a)
    assert a.grad is not None and a.grad.tolist() == [33.0, 33.0]


def test_copies_have_no_hooks() -> None:
    a, seen = leaf(), []
    a.register_hook(seen.append)
    for copied in (copy.deepcopy(a), copy.copy(a).detach().requires_grad_(), pickle.loads(pickle.dumps(a))):
        (copied * 2).sum().backward()
        assert copied.grad is not None and not seen
    a.requires_grad_(False)
    a.requires_grad_()
    (a * 2).sum().backward()
    assert len(seen) == 1


def test_threads_register_and_remove_at_once() -> None:
    a, calls = leaf(), []

    def work() -> None:
        for _ in range(200):
            a.register_hook(lambda g: calls.append(1)).remove()
        a.register_hook(lambda g: calls.append(2))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        (a * 2).sum().backward()
        thread.join()
    calls.clear()
    (a * 2).sum().backward()
    assert calls == [2] * 4
