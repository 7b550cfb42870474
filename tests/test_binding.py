"""Arguments are bound as Python itself would, with the defaults of the time of the call."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest

from jitgraph.tracing.arguments import Static
from jitgraph.tracing.binding import Binding


def test_arguments_are_bound_as_python_binds_them() -> None:
    def plain(x: Any, /, wrap: Any = 1, *rest: Any, key: Any = 2, **more: Any) -> None: ...

    class Owner:
        def method(self, x: Any, y: Any = 3, *, z: Any = 4) -> None: ...

    for function in (plain, Owner().method, partial(plain, key=5), lambda *, a=1: None):
        binding, signature = Binding(function, {"key", "x"}, Static), inspect.signature(function)
        for args, kwargs in [
            ((1,), {}),
            ((1, 2, 3), {"key": 4, "other": 5}),
            ((1,), {"z": 6}),
            ((), {"a": 7}),
            ((), {}),
        ]:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                with pytest.raises(TypeError):
                    binding(args, kwargs)
                continue
            bound.apply_defaults()
            named = bound.arguments.items()
            expected = tuple([Static(value) if name in ("key", "x") else value for name, value in named])
            assert binding(args, kwargs) == expected


def test_defaults_are_those_of_the_time_of_the_call() -> None:
    def function(a: int, b: int = 1, *, c: int = 2) -> None: ...

    binding = Binding(function, (), Static)
    assert binding((0,), {}) == (0, 1, 2)
    function.__defaults__ = (3,)
    assert binding((0,), {}) == (0, 3, 2)
    function.__kwdefaults__["c"] = 4  # type: ignore[index]
    assert binding((0,), {}) == (0, 3, 4)
    function.__kwdefaults__ = {"c": 5}
    function.__defaults__ = (6, 7)
    assert binding((), {}) == (6, 7, 5)
    function.__kwdefaults__.clear()
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'c'"):
        binding((), {})
