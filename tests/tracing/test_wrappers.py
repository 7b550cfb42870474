"""Traced wrappers and partials: what a call leaves out is left to the function behind, as in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg


def scaled(x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
    return x * scale + shift


@pytest.fixture
def x() -> jg.Tensor:
    return jg.asarray(np.arange(6.0).reshape(3, 2))


def noting(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A wrapper, and the counts and names of the arguments that each of its calls got."""
    calls: list[Any] = []

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        calls.append((len(args), *sorted(kwargs)))
        return function(*args, **kwargs)

    return wrapper, calls


def test_a_wrapper_gets_the_arguments_that_are_given(x: jg.Tensor) -> None:
    wrapper, eager = noting(scaled)
    for call in (wrapper, functools.partial(wrapper)):
        call(x), call(x, 3.0), call(x, shift=4.0), call(scale=5.0, x=x)
    assert eager == 2 * [(1,), (2,), (1, "shift"), (0, "scale", "x")]
    wrapper, traced = noting(scaled)
    function = jg.trace(wrapper)
    for call in (function, function):
        results = call(x), call(x, 3.0), call(x, shift=4.0), call(scale=5.0, x=x)
        for y, (scale, shift) in zip(results, [(2, 1), (3, 1), (2, 4), (5, 1)], strict=True):
            np.testing.assert_array_equal(y.numpy(), x.numpy() * scale + shift)
    assert set(traced) == {(1,), (2,), (1, "shift")}  # what may be given by position is


def test_batched_functions_keep_their_defaults(x: jg.Tensor) -> None:
    for mode in (lambda f: f, jg.trace):
        np.testing.assert_array_equal(mode(jg.vmap(scaled))(x).numpy(), x.numpy() * 2 + 1)
        np.testing.assert_array_equal(mode(jg.vmap(scaled, in_axes=(0, None)))(x, 3.0).numpy(), x.numpy() * 3 + 1)
        with pytest.raises(jg.ShapeError, match="no axis 0"):
            mode(jg.vmap(scaled))(x, 3.0)


def test_an_argument_behind_one_that_is_left_out(x: jg.Tensor) -> None:
    def function(x: Any, scale: float = 2.0, shift: float = 1.0) -> Any:
        return x * scale + shift

    traced = jg.trace(noting(function)[0])
    np.testing.assert_array_equal(traced(x, shift=7.0).numpy(), x.numpy() * 2 + 7)
    static = jg.trace(noting(function)[0], static_argnames=("scale",))
    np.testing.assert_array_equal(static(x, shift=7.0).numpy(), x.numpy() * 2 + 7)
    np.testing.assert_array_equal(static(x, scale=3, shift=7.0).numpy(), x.numpy() * 3 + 7)


def test_errors_are_those_of_the_function_behind(x: jg.Tensor) -> None:
    traced = jg.trace(noting(scaled)[0])
    with pytest.raises(TypeError, match=r"^scaled\(\) missing 1 required positional argument: 'x'"):
        traced()
    with pytest.raises(TypeError, match=r"^scaled\(\) got an unexpected keyword argument 'other'"):
        traced(x, other=1)


class Scaled(jg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = jg.nn.Parameter(jg.ones((2,)))

    def forward(self, x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * self.weight * scale + shift


def kinds() -> dict[str, Callable[..., Any]]:
    def own(x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * scale + shift

    module = Scaled()
    return {
        "function": own,
        "wrapper": noting(own)[0],
        "partial": functools.partial(own),
        "partial with a keyword": functools.partial(own, shift=3.0),
        "module": module,
        "method": module.forward,
    }


@pytest.mark.parametrize("kind", kinds())
def test_calls_that_leave_arguments_out_go_around_python(
    kind: str, x: jg.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    function, x = kinds()[kind], x.astype(jg.float32)
    traced = jg.trace(function)
    for _ in range(40):
        result = traced(x)
    np.testing.assert_array_equal(result.detach().numpy(), function(x).detach().numpy())
    assert traced.native.hits > 30, traced.native.reasons


EDITS: dict[str, Callable[[Any, Any], None]] = {
    "defaults": lambda f, partial: setattr(f, "__defaults__", (7.0,)),
    "an entry of the defaults by name": lambda f, partial: f.__kwdefaults__.update(shift=5.0),
    "defaults by name": lambda f, partial: setattr(f, "__kwdefaults__", {"shift": 6.0}),
    "a keyword": lambda f, partial: partial.keywords.update(shift=8.0),
    "another keyword": lambda f, partial: partial.keywords.update(scale=9.0),
    "no keyword": lambda f, partial: partial.keywords.clear(),
    "the whole state": lambda f, partial: partial.__setstate__((f, (), {"shift": 11.0}, {})),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", ["wrapper", "partial", "function"])
@pytest.mark.parametrize("dispatch", ["0", "1"])
def test_what_is_left_out_is_not_frozen(
    kind: str, edit: str, dispatch: str, x: jg.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", dispatch)

    def own(x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * scale + shift

    partial = functools.partial(own, shift=3.0)
    function = {"wrapper": noting(own)[0], "partial": partial, "function": own}[kind]
    traced = jg.trace(function)
    for change in (None, EDITS[edit]):
        if change is not None:
            change(own, partial)
        for _ in range(20):
            np.testing.assert_array_equal(traced(x).numpy(), function(x).numpy())
