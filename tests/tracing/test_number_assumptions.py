"""What is asked about numbers that vary, as conditions and for people; which arithmetic stays open."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any

import pytest

from jitgraph.tracing.guards.plain import same_float
from jitgraph.tracing.guards.source import Source
from jitgraph.tracing.symbolic.number import (
    BINARY,
    NEVER_RAISE,
    NumberAssumption,
    Origin,
    kind_of,
    literal,
    shown,
    shown_assumption,
    source_of,
)
from jitgraph.tracing.symbolic.numbers import numbers_in, takes_numbers

NUMBERS = [0, 1, -3, 2**70, 0.0, -0.0, 0.5, -2.5, math.inf, -math.inf, math.nan]
ORIGINS = [Origin(0, None, 0, "rate", float), Origin(1, None, 1, "sizes.shape[1]", int, axis=1)]


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (same_float(a, b) if type(a) is float else a == b)


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_literal_is_the_number_in_any_expression(number: Any) -> None:
    assert same(eval(literal(number)), number)
    assert same(eval(f"-{literal(number)}"), -number)
    assert same(eval(f"{literal(number)} + 0.0"), number + 0.0)


@pytest.mark.parametrize(
    "answer", [True, False, int, float, 0, -7, 2**70, 0.0, -0.0, 0.1, math.inf, math.nan], ids=repr
)
def test_a_condition_holds_for_the_same_answer_alone(answer: Any) -> None:
    text, names = "n0", {"same_float": same_float}
    condition = NumberAssumption(text, answer, "", None).condition()
    for other in (*NUMBERS, 0.1, 7, -7):
        if isinstance(answer, bool):
            due = bool(other) is answer
        else:
            due = type(other) is answer if isinstance(answer, type) else same(other, answer)
            if type(answer) is int and type(other) is float:
                due = other == answer  # what an int is compared with is known to be one
        assert bool(eval(condition, {**names, "n0": other})) == due, (condition, other)


def test_texts_have_the_names_that_the_user_knows() -> None:
    assert shown("(n0 * n1 + n2)", ORIGINS) == "(rate * sizes.shape[1] + n2)"
    assert shown_assumption(NumberAssumption("n0 > 1", False, "", None), ORIGINS) == "not rate > 1"
    assert shown_assumption(NumberAssumption("n1", 3, "", None), ORIGINS) == "sizes.shape[1] == 3"
    assert shown_assumption(NumberAssumption("n0", float, "", None), ORIGINS) == "rate is float"


def test_a_size_is_found_at_its_axis() -> None:
    leaves = (Source("argument", 0, "rate"), Source("argument", 1, "sizes"))
    assert source_of(ORIGINS[0], leaves) == leaves[0]
    assert source_of(ORIGINS[1], leaves).text == "sizes.shape[1]"


@pytest.mark.parametrize("symbol", BINARY)
def test_kinds_are_those_that_python_gives(symbol: str) -> None:
    function = getattr(operator, f"__{BINARY[symbol]}__")
    for a, b in itertools.product([0, 1, 3, -2, 0.5, -1.5], repeat=2):
        try:
            due = type(function(a, b))
        except (ArithmeticError, TypeError, ValueError):
            continue
        if due is complex or (symbol == "**" and due is float and type(a) is type(b) is int):
            continue  # these are asked about when they are computed
        assert kind_of(function, [a, b], [type(a), type(b)]) is due, (symbol, a, b)
    assert kind_of(operator.add, [None, 1], [int, int]) is None


def test_what_never_raises_does_not_raise() -> None:
    integers = [0, 1, -1, 2**70]
    for function in NEVER_RAISE:
        count = 1 if function in (operator.neg, operator.invert, abs) else 2
        for inputs in itertools.product(integers, repeat=count):
            assert type(function(*inputs)) is int


def test_callables_that_ask_the_methods_of_a_number_take_one() -> None:
    def own(x: Any) -> Any:
        return x

    for function in (
        own,
        max,
        [].append,
        {}.get,
        functools.partial(own, 1),
        operator.itemgetter(0),
        object.__setattr__,
    ):
        assert takes_numbers(function, ()), function
    for function in (math.sqrt, math.gcd, int.from_bytes, functools.partial(math.sqrt)):
        assert not takes_numbers(function, ()), function
    assert numbers_in([1, {"a": (2.0, slice(1))}]) == []
