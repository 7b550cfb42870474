"""What ``@jg.trace(...)`` is given, and how the arguments of a call are brought to the parameters."""

from __future__ import annotations

import functools
import inspect
from functools import partial
from typing import Any

import pytest

from jitgraph.errors import TraceError
from jitgraph.tracing.call.arguments import OMITTED, Binding, Static, called
from jitgraph.tracing.call.options import bytes_of


@pytest.mark.parametrize(
    ("text", "count"),
    [(None, None), (7, 7), ("12", 12), ("12B", 12), ("3 KB", 3072), (" 64mb ", 64 << 20), ("2GB", 2 << 30)],
)
def test_bytes_are_read(text: Any, count: int | None) -> None:
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "KB", "1.5MB", "-1", "3 TB", "3K"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match="no number of bytes"):
        bytes_of(text)


def sample(a: Any, /, b: Any = 1, *rest: Any, c: Any, d: Any = 2, **more: Any) -> None:
    """Has every kind of parameter."""


class Adder:
    def __call__(self, a: Any) -> None:
        """Takes one argument."""

    def method(self, a: Any, b: Any = 3) -> None:
        """Takes one or two."""


@pytest.mark.parametrize(
    ("function", "args", "named"),
    [
        (sample, (), {"c": 1}),
        (sample, (1,), {}),
        (sample, (1,), {"c": 1, "a": 2, "b": 3, "d": 4}),
        (sample, (1, 2), {"c": 1, "b": 3}),
        (Adder().method, (), {}),
        (Adder().method, (1, 2, 3), {}),
        (Adder(), (1, 2), {}),
        (functools.partial(sample, 1), (2,), {}),
        (functools.partial(Adder().method, 1), (2, 3), {}),
    ],
)
def test_arguments_that_do_not_fit_raise_as_in_python(function: Any, args: Any, named: Any) -> None:
    def raised(call: Any) -> str | None:
        try:
            call()
        except TypeError as error:
            return str(error)
        return None

    due = raised(lambda: function(*args, **named))
    assert raised(lambda: Binding(function, (), Static)(args, named)) == due


def test_a_module_has_the_parameters_of_its_forward() -> None:
    from jitgraph import nn

    assert called(sample) is sample
    assert called(nn.Linear(2, 2)).__name__ == "forward"


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
            inputs = set(bound.arguments)
            bound.apply_defaults()
            if isinstance(function, partial):  # what it calls has the defaults
                bound.arguments |= {
                    n: OMITTED for n, p in signature.parameters.items() if p.default is not p.empty and n not in inputs
                }
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
