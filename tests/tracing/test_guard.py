"""Guards: each predicate holds for what it says and nothing else, plainly and in the code that is written for it."""

from __future__ import annotations

import enum
import math
import pickle
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph.location import Location
from jitgraph.tracing.guards.guard import (
    Absent,
    Distinct,
    EqualsObject,
    Exactly,
    Extent,
    Guard,
    HasContents,
    Is,
    IsTensor,
    Objects,
    Predicate,
    Same,
    brief,
)
from jitgraph.tracing.guards.plain import mark, plain_of, same_float
from jitgraph.tracing.guards.source import Source
from tests.tracing.plans import check_of

ARGUMENT = Source("argument", 0, "x")
OTHER = Source("argument", 1, "y")


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


class Sub(int):
    pass


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf]),
    st.floats(), st.text(max_size=2), st.binary(max_size=2), st.complex_numbers(max_magnitude=2, allow_nan=False),
    st.sampled_from([Mode.TRAIN, Mode.EVAL, int, len, np.dtype("f4"), np.float32(1), np.int64(1), np.float64("nan")]),
    st.sampled_from([..., Sub(1), range(3), range(0, 3, 2), slice(1, 2), slice(1, 2, None)]),
    st.sampled_from([array("i", [1]), bytearray(b"a")]),
)  # fmt: skip
VALUES = st.one_of(SCALARS, st.frozensets(st.sampled_from([0, False, 1, True, "a"]), max_size=3))


def same_value(a: Any, b: Any) -> bool:
    """Whether two values are one, said plainly: the same object, or the same type, and equal to the last bit."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, Sub | enum.Enum):
        return False
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes() or (a != a and b != b)
    if isinstance(a, complex):
        return same_value(a.real, b.real) and same_value(a.imag, b.imag)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, frozenset):
        return {(type(e), e) for e in a} == {(type(e), e) for e in b}
    return bool(a == b)


def holds(predicate: Predicate, objects: Objects) -> Callable[[Any], bool]:
    """The predicate by its plain meaning and by the code for it, which agree."""
    check = check_of([Guard(ARGUMENT, predicate)], objects)

    def both(value: Any) -> bool:
        result = predicate.holds(value, objects.values)
        assert result == check(value)
        return result

    return both


@given(VALUES, st.lists(VALUES, max_size=4))
def test_a_value_is_told_from_all_others(value: Any, others: list[Any]) -> None:
    objects = Objects()
    check = holds(objects.value(value), objects)
    assert check(value)
    for other in others:
        assert check(other) == same_value(value, other), (value, other)


@given(VALUES)
def test_plain_data_gives_the_value_again(value: Any) -> None:
    plain = plain_of(value)
    if plain is None:
        assert mark(value) == id(value)
        return
    assert same_value(plain.value, value) and plain_of(plain.value) == plain
    assert pickle.loads(pickle.dumps(plain)) == plain and hash(plain) == hash(plain_of(plain.value))


def test_plain_data_of_different_values_differs() -> None:
    values = [1, True, 1.0, 1 + 0j, np.float32(1), np.float64(1), 0.0, -0.0, 0, False, "1", b"1", (1,), (True,), None]
    results = [plain_of(value) for value in values]
    assert len(set(results)) == len(values) and None not in results
    assert plain_of(Sub(1)) is None and plain_of((1, object())) is None
    assert same_float(math.nan, float("nan")) and not same_float(math.nan, -math.nan) and not same_float(0.0, -0.0)


CONTAINERS = st.one_of(
    st.lists(SCALARS, max_size=3),
    st.lists(SCALARS, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", 1, True, 1.0, Mode.TRAIN]), st.integers(), max_size=3),
    st.sets(st.sampled_from(["a", 1, True, 2.0, Mode.EVAL]), max_size=3),
)


@given(CONTAINERS, CONTAINERS)
def test_an_extent_is_the_length_the_keys_or_the_members(one: Any, two: Any) -> None:
    def typed(values: Any) -> list[Any]:
        return [(type(value), value) for value in values]

    objects = Objects()
    check = holds(objects.extent(one), objects)
    assert check(one)
    if isinstance(one, dict) and isinstance(two, dict):
        assert check(two) == (typed(one) == typed(two))
    elif isinstance(one, set) and isinstance(two, set):
        assert check(two) == (set(typed(one)) == set(typed(two)))
    elif isinstance(one, list | tuple) and isinstance(two, list | tuple):
        assert check(two) == (len(one) == len(two))


class Equal:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: Any) -> bool:
        return bool(self.n == other.n)

    __hash__ = None  # type: ignore[assignment]


BOX = object()
ARRAY = np.array([1.0, 2.0], np.float32)
KINDS: list[tuple[Callable[[Objects], Predicate], list[Any], list[Any], str]] = [
    (lambda o: o.same(BOX), [BOX], [object(), None], "is this object"),
    (lambda o: o.same(None), [None], [0, False], "is None"),
    (lambda o: o.same(True), [True], [1, 1.0], "is True"),
    (lambda o: o.kind(int), [1, 2], [True, 1.0, Sub(1)], "is a int"),
    (lambda o: o.equal(Equal(1)), [Equal(1)], [Equal(2), 1], "== this Equal"),
    (lambda o: o.value(jg.ones(2)), [jg.ones(3)], [ARRAY, 1], "is a tensor"),
    (
        lambda o: HasContents.of(ARRAY),
        [ARRAY, ARRAY.copy()],
        [ARRAY + 1, ARRAY.astype("f8"), ARRAY[:1], ARRAY.reshape(1, 2), [1.0, 2.0]],
        "is an array of float32 [2] with these values",
    ),
    (lambda o: o.extent([1, 2]), [[3, 4], (5, 6)], [[1], 1], "has these 2 elements"),
    (lambda o: Absent(), [], [1, None], "is not there"),
]


@pytest.mark.parametrize(("make", "fits", "others", "text"), KINDS, ids=lambda v: v if isinstance(v, str) else "")
def test_each_predicate(make: Callable[[Objects], Predicate], fits: list[Any], others: list[Any], text: str) -> None:
    objects = Objects()
    predicate = make(objects)
    assert str(predicate) == text and str(Guard(ARGUMENT, predicate)) == f"x {text}"
    for value, due in [(value, True) for value in fits] + [(value, False) for value in others]:
        assert predicate.holds(value, objects.values) == due, value
        if not isinstance(predicate, Absent):
            assert check_of([Guard(ARGUMENT, predicate)], objects)(value) == due, value
        if not due:
            assert predicate.mismatch(value)
    assert pickle.loads(pickle.dumps(Guard(ARGUMENT, predicate))) == Guard(ARGUMENT, predicate)


def test_predicates_of_different_kinds_differ() -> None:
    same = [
        Is(0, "x"),
        Exactly(0, "x"),
        EqualsObject(0, "x"),
        IsTensor(),
        Absent(),
        Extent("length", 0),
    ]
    assert len(set(same)) == len(same)


def test_identities_of_several_sources() -> None:
    objects, a, b = Objects(), object(), object()
    same = check_of([Guard(OTHER, Same(ARGUMENT))], objects)
    assert same(a, a) and not same(a, b)
    apart = check_of([Guard(None, Distinct((ARGUMENT, OTHER)))], objects)
    assert apart(a, b) and not apart(a, a)
    assert str(Guard(OTHER, Same(ARGUMENT))) == "y is the same object as x"
    assert "different objects" in str(Guard(None, Distinct((ARGUMENT, OTHER))))


def test_nothing_is_absent_and_only_that() -> None:
    objects, box, table = Objects(), type("Box", (), {})(), {"k": 1}
    attribute = check_of(
        [Guard(Source("object", objects.number(box), "box").then("attribute", "n"), Absent())], objects
    )
    item = check_of([Guard(Source("object", objects.number(table), "t").then("item", "n"), Absent())], objects)
    assert attribute() and item()
    box.n, table["n"] = None, 0
    assert not attribute() and not item()


def test_short_texts() -> None:
    assert [brief(x) for x in (1, "a", None, len, Mode.TRAIN, np)] == [
        "1",
        "'a'",
        "None",
        "len",
        "<Mode.TRAIN: 1>",
        "module numpy",
    ]
    assert len(brief("a" * 100)) == 60 and brief([]) == "this list"


def test_a_retrace_says_what_was_expected_and_what_is_there() -> None:
    """Also of an object that another with the same description has replaced."""

    def scaled(factor: float) -> Callable[[Any], Any]:
        def scale(x: Any) -> Any:
            return x * factor

        return scale

    traced = jg.trace(lambda x, function: x)
    for function in (len, abs, scaled(1.0), scaled(2.0)):
        traced(ARRAY, function)
    name = scaled(1.0).__qualname__
    expected = ["function is len, but now it is abs", f"function is abs, but now it is {name}"]
    assert [line.reason for line in traced.ledger[1:]] == [*expected, f"function is {name}, but now it is another"]


def test_a_retrace_for_other_code_of_a_function_names_a_line_where_one_read_it() -> None:
    def other(x: Any) -> Any:
        return x * 3

    def called(x: Any) -> Any:
        return x * 2

    def calling(x: Any) -> Any:
        return called(x)

    line = calling.__code__.co_firstlineno + 1
    for function, where in ((calling, f" (read at {Location(__file__, line)})"), (called, "")):
        traced = jg.trace(function)
        traced(ARRAY)
        code, called.__code__ = called.__code__, other.__code__
        traced(ARRAY)
        called.__code__ = code
        assert traced.ledger[-1].reason == f"called.__code__ is this code{where}, but now it is another"
