"""Values that Python calls equal, or prints alike, and that a program can tell: no call is served what another gave."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.tracing.cache.worlds import outcome

pytestmark = pytest.mark.filterwarnings("ignore:.*was compiled for more than")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


class Name(str):
    pass


class Letter(enum.StrEnum):
    A = "a"


class Equal:
    """Equal to all of its class and to a text, with another weight."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) or other == "a"

    def __hash__(self) -> int:
        return hash("a")


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    weight: float = dataclasses.field(default=1.0, compare=False)


class One(int):
    pass


class Unit(enum.IntEnum):
    ONE = 1


NAN = float("nan")
KINDS = {str: 2.0, Name: 3.0, Letter: 4.0, Equal: 5.0, int: 6.0, bool: 7.0, float: 8.0, One: 9.0, Unit: 10.0}
KEYS = ["a", Name("a"), Letter.A, Equal(1.0), 1, True, 1.0, One(1), Unit.ONE]
F4 = np.dtype("f4")


def folded(values: Any, x: Any) -> Any:
    return functools.reduce(lambda total, each: total * 2.0 + each, values, x)


def kinds(value: Any, x: Any) -> Any:
    return x * sum(KINDS[type(each)] for each in value)


def weights(value: Any, x: Any) -> Any:
    return x * sum(each.weight for each in value)


def metadata(value: Any, x: Any) -> Any:
    return x * (value.metadata or {"k": 0.0})["k"]


CASES: dict[str, tuple[Callable[[Any, Any], Any], list[Any]]] = {
    "signs of zero and NaN": (lambda v, x: x * math.copysign(1.0, v), [0.0, -0.0, NAN, -NAN]),
    "signs inside": (lambda v, x: x * math.copysign(1.0, v[0]), [(0.0,), (-0.0,), (NAN,), (-NAN,)]),
    "signs of imaginary parts": (lambda v, x: x * math.copysign(1.0, v.imag), [complex(1, NAN), complex(1, -NAN)]),
    "keys of other classes": (kinds, [{key: 1} for key in KEYS]),
    "members of other classes": (kinds, [{key} for key in KEYS]),
    "frozen members of other classes": (kinds, [frozenset([key]) for key in KEYS]),
    "equal keys": (weights, [{Equal(1.0): 1}, {Equal(2.0): 1}, {Part("p", 3.0): 1}, {Part("p", 4.0): 1}]),
    "equal members": (weights, [{Equal(1.0)}, {Equal(2.0)}, {Part("p", 3.0)}, {Part("p", 4.0)}]),
    "orders of members": (folded, [{8, 0}, {0, 8}, {16, 8, 0}, {0, 8, 16}]),
    "orders of frozen members": (folded, [frozenset([8, 0]), frozenset([0, 8])]),
    "what a dtype says besides": (metadata, [np.dtype(F4, metadata={"k": 1.0}), F4, np.dtype(F4, metadata={"k": 2.0})]),
    "sizes of dtypes": (lambda v, x: x * v.itemsize, [F4, np.dtype("f8"), np.dtype("S3"), np.dtype([("a", "f4")])]),
    "empty texts of NumPy's": (lambda v, x: x * len(v), [np.str_(""), np.str_("ab"), np.bytes_(b""), np.bytes_(b"a")]),
    "ints of many digits": (lambda v, x: x * (v % 97), [10**5000, 10**5000 + 1, 3, -(2**64)]),
    "slices": (lambda v, x: x[v], [slice(0, 2), slice(1, 3), slice(None, 2)]),
}
PLACES = ["element", "default", "argument"]
NOT_ARGUMENTS = {"empty texts of NumPy's", "members of other classes", "orders of members"}
LIST: list[Any] = [None]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES)
def test_a_value_that_is_equal_is_another(case: str, place: str) -> None:
    function, values = CASES[case]
    if place == "argument" and case in NOT_ARGUMENTS:
        pytest.skip("is no argument, or one whose inside is not guarded")

    def with_default(x: Any, value: Any = None) -> Any:
        return function(value, x)

    readers: dict[str, Callable[..., Any]] = {
        "element": lambda x: function(LIST[0], x),
        "default": lambda x: with_default(x),
        "argument": lambda x, value: function(value, x),
    }
    program = readers[place]
    traced, x = jg.trace(program), jg.asarray(np.array([1.0, 2.0, 3.0], np.float32))
    for value in [*values, *reversed(values)]:
        LIST[0] = value
        with_default.__defaults__ = (value,)
        arguments = (x, value) if place == "argument" else (x,)
        expected = program(*arguments)
        for _ in range(2):
            assert traced(*arguments).numpy().tolist() == expected.numpy().tolist(), value


def test_a_set_that_is_filled_anew_in_another_order_is_another() -> None:
    members: set[Any] = {8, 0}
    traced = jg.trace(lambda x: folded(members, x))
    x = jg.asarray(np.ones(2, np.float32))
    for order in [(8, 0), (0, 8), (8, 0), (16, 8, 0), (0, 16, 8)]:
        members.clear()
        members.update(order)
        assert traced(x).tolist() == folded(members, x).tolist()


def test_what_an_import_gives_may_be_any_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Any) -> Any:
        import stands_in  # type: ignore[import-not-found]

        return x * stands_in.factor

    def module(name: str, factor: float) -> Any:
        made = types.ModuleType(name)
        made.__dict__["factor"] = factor
        return made

    traced, x = jg.trace(program), jg.asarray(np.ones(2, np.float32))
    standing = [
        types.SimpleNamespace(factor=2.0), module("stands_in", 3.0), types.SimpleNamespace(factor=4.0),
        module("of_another_name", 5.0), module("stands_in", 6.0), types.SimpleNamespace(factor=7.0),
    ]  # fmt: skip
    for each in standing * 2:
        monkeypatch.setitem(sys.modules, "stands_in", each)
        assert [traced(x).tolist(), traced(x).tolist()] == [[each.factor] * 2] * 2


SET = """\
import functools

MEMBERS = {}


def program(x):
    return functools.reduce(lambda total, each: total * 2.0 + each, MEMBERS, x)
"""


def test_a_stored_trace_knows_the_order_of_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    results = []
    for members in "{8, 0}", "{0, 8}", "frozenset([8, 0])", "frozenset([0, 8])":
        files = {"main": SET.replace("{}", members)}
        results.append(outcome(tmp_path, files).result)
        again = outcome(tmp_path, files)
        assert again.found and again.result == results[-1]
    assert results[0] == results[2] != results[1] == results[3]
