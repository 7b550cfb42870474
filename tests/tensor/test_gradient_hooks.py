"""``register_hook``: functions that see a gradient, in order, eager and traced, until they are removed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jitgraph as jg
from jitgraph.eager import tape
from jitgraph.ir import context

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
        assert doubled.cache_info().misses == 2
        with jg.no_grad(), jg.enable_grad():
            second = a.register_hook(lambda g: g + 1)
        assert gradient() == [31.0, 31.0]
    second.remove()
    assert gradient() == [3.0, 3.0]


def test_hooks_see_gradients_of_higher_order_and_go_with_their_tensors() -> None:
    seen: list[Any] = []
    a = leaf(3.0)
    y = a * a
    y.register_hook(lambda g: seen.append(g.tolist()))
    (first,) = jg.autograd.grad((y * y).sum(), a, create_graph=True)
    first.sum().backward()
    assert seen[0] == [18.0] and a.grad is not None and a.grad.tolist() == [108.0]
    del a, y, first
    gc.collect()
    assert not tape.HOOKS


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


def test_hooks_of_a_leaf_that_is_gone_are_no_part_of_the_context() -> None:
    """Else no trace of the process would be stored any more."""
    leaf, other = jg.asarray([1.0, 2.0], requires_grad=True), jg.asarray([3.0], requires_grad=True)
    before = context.current().hooks
    leaf.register_hook(lambda gradient: gradient * 2)
    other.register_hook(lambda gradient: gradient)
    number = context.current().hooks
    assert number is not None and number != before
    del leaf
    gc.collect()
    assert context.current().hooks == number, "the other one has its hook"
    del other
    gc.collect()
    assert context.current().hooks is None
