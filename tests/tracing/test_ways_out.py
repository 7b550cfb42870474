"""What a refusal of Python or NumPy on traced tensors says: the line, and what to write there instead."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

TABLE = np.arange(10.0)


def write(x: Any) -> Any:
    out = np.zeros(5)
    out[0] = x[0]  # here
    return out


def write_slice(x: Any) -> Any:
    out = np.zeros(5)
    out[:3] = x  # here
    return out


def add_in_place(x: Any) -> Any:
    out = np.zeros(5)
    out[1] += x[0]  # here
    return out


def write_and_swallow(x: Any) -> Any:
    out = np.zeros(5)
    try:
        out[0] = x[0]  # here
    except ValueError:
        raise RuntimeError("swallowed") from None
    return out


def read(x: Any) -> Any:
    return TABLE[x.astype(jg.int64)]  # here


def read_one(x: Any) -> Any:
    return TABLE[x[0].astype(jg.int64)]  # here


def read_list(x: Any) -> Any:
    return [1, 2, 3][x[0].astype(jg.int64)]  # here


def array_of_list(x: Any) -> Any:
    return np.array([x[0], 1.0])  # here


def text_of_error(x: Any) -> Any:
    raise ValueError(f"bad: {x[0]}")  # here


def text_of_assertion(x: Any) -> Any:
    assert x.shape == (4,), f"bad: {x}"  # here


def text(x: Any) -> Any:
    return f"{x[0]}"  # here


def number(x: Any) -> Any:
    return float(x[0])  # here


def values(x: Any) -> Any:
    return x.numpy()  # here


WRITE = "out = jg.zeros(shape) in place of np.zeros(shape)"
READ = "jg.asarray(array)[i] in place of array[i]"
TEXT = "exceptions of fixed texts"


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (write, WRITE),
        (write_slice, WRITE),
        (add_in_place, WRITE),
        (write_and_swallow, WRITE),
        (read, READ),
        (read_one, READ),
        (read_list, READ),
        (array_of_list, "jg.asarray([x, 1.0]) or jg.stack([x, y]) for np.array([x, 1.0])"),
        (text_of_error, TEXT),
        (text_of_assertion, TEXT),
        (text, 'print("loss", loss), not print(f"loss {loss}")'),
        (number, "jg.exp for math.exp"),
        (values, "call numpy() outside"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_refusals_name_the_line_and_the_replacement(function: Any, hint: str) -> None:
    with pytest.raises(jg.TraceError) as caught:
        jg.trace(function)(jg.ones(3))
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert caught.value.location is not None
    assert "# here" in linecache.getline(__file__, caught.value.location.line)


def test_an_error_of_the_users_own_is_raised_as_it_is() -> None:
    @jg.trace
    def failing(x: Any) -> Any:
        try:
            x[7]
        except IndexError:
            raise RuntimeError("of the user") from None

    with pytest.raises(RuntimeError, match="of the user"):
        failing(jg.ones(3))


def test_functions_of_numpys_namespaces_are_named_in_full() -> None:
    with pytest.raises(jg.TraceError, match=r"np\.linalg\.norm needs the values[\s\S]*write jg\.linalg\.norm"):
        jg.trace(lambda x: np.linalg.norm(x))(jg.ones(3))
