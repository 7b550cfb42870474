"""What ``@jg.trace(...)`` is given, and how the arguments of a call are brought to the parameters."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from jitgraph.errors import TraceError
from jitgraph.tracing.binding import called, defaults_of, raise_as_python, same_defaults
from jitgraph.tracing.options import bytes_of


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


def test_defaults_are_those_of_the_function_behind() -> None:
    assert defaults_of(sample) == (1, "d", 2)
    assert defaults_of(Adder().method) == (3,)
    assert defaults_of(len) == ()
    assert defaults_of(functools.wraps(sample)(lambda *args: None)) == (1, "d", 2)


def test_defaults_are_the_same_where_they_are_the_same_objects() -> None:
    value = [1]
    assert same_defaults((value, "k"), (value, "k"))
    assert not same_defaults((value,), ([1],)) and not same_defaults((value,), (value, "k"))


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
    assert raised(lambda: raise_as_python(function, args, named)) == due


def test_a_module_has_the_parameters_of_its_forward() -> None:
    from jitgraph import nn

    assert called(sample) is sample
    assert called(nn.Linear(2, 2)).__name__ == "forward"
