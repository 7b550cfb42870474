"""Programs of control flow as users write them: what each gives, or raises, is what the plain function does."""

from __future__ import annotations

import dataclasses
import enum
import functools
import traceback
from collections import UserList
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.ir.printer import canonical_text
from tests.tracing.script.test_script_control import agree

X = np.array([0.5, -0.25, 1.0])
FLOATS = tuple((X * scale,) for scale in (1.0, -1.0, 4.0, 40.0))


# --- loops that end by return ---------------------------------------------------------------------------------------


def endless_until_return(x: Any) -> Any:
    while True:
        x = x * 0.5 + 0.01
        if x.sum() < 0.1:
            return x, x.sum()


def endless_with_two_ends(x: Any) -> Any:  # noqa: RET503 - it has no end
    steps = 0
    while 1:
        steps += 1
        if x.sum() > 20:
            return x
        if steps > 12:
            return x * 0
        x = x + 0.5 * steps


def converged(x: Any) -> Any:
    for _ in range(100):
        y = x * 0.5 + 1
        if abs(y - x).sum() < 1e-3:
            return y
        x = y
    return x * 100


def return_behind_a_loop_in_a_branch(x: Any) -> Any:
    if x.sum() > 2:
        while True:
            x = x - 1
            if x.sum() < 0:
                return x
    for i in range(12):
        if x.sum() > i:
            return x * 2
    return x


def nested_exits(x: Any) -> Any:
    for i in range(12):
        for j in range(10):
            x = x * 0.9 + j * 0.01
            if x.sum() > 3:
                break
            if x.sum() < -2:
                return x
            if j > i:
                continue
            x = x + 0.125
        else:
            continue
        while True:
            x = x * 0.5
            if x.sum() < 1:
                break
    return x + 1


def exits_in_with_and_finally(x: Any) -> Any:
    count = 0
    for i in range(3):
        with jg.no_grad():
            while True:
                x = x + 1
                if x.sum() > 30:
                    return x, count
                if x[0] > i:
                    break
        try:
            while True:
                count += 1
                x = x * 1.5
                if x[0] > 20:
                    return x + 1, count
                if count > i:
                    break
        finally:
            x = x + 1
    return x, count


def else_of_loops(x: Any) -> Any:
    for i in range(12):
        if x.sum() > 10 + i:
            break
        x = x + 0.5
    else:
        x = x - 100
    while x.sum() < 3:
        x = x + 1
        if x[1] > 2:
            break
    else:
        x = x * 2
    return x


# --- names ----------------------------------------------------------------------------------------------------------


def first_set_in_a_loop(x: Any) -> Any:
    while x.sum() > 0.5:
        x = x * 0.5
        y = x + 1
    return y


def first_set_in_one_branch(x: Any) -> Any:
    if x.sum() > 2:
        y = x * 2
        word = "large"
    return y, len(word)


def first_set_in_a_branch_of_a_loop(x: Any) -> Any:
    for i in range(12):
        if x.sum() > 3:
            y = x * 2
        if i > 5 and x.sum() > 3:
            z = y + 1
        x = x + 0.25
    return z


def set_before_a_break(x: Any) -> Any:
    while True:
        if x.sum() > 5:
            actual = x
            break
        x = x + 1
        if x.sum() < -100:
            return x
    return actual


def deleted_in_bodies(x: Any) -> Any:
    y = x * 2
    while x.sum() < 100:
        t = x + 1
        x = abs(t)
        del t
    if x.sum() > 120:
        del y
    return y


def star_and_swap(x: Any) -> Any:
    first, *rest = x * 1, x * 2, x * 3
    while first.sum() < 20:
        first, *rest = rest[0] + 1, first, rest[1]
        (a, *_), b = rest, first
        first = first + a * 0.5 + b * 0.5 + 1
    return first, rest


def walrus(x: Any) -> Any:
    n = 0
    while (total := x.sum()) > 0.5 and (half := total * 0.5) > 0.1 and n < 10:
        x = x * 0.8 - half * 0.01
        n += 1
    return x, n, total


# --- functions ------------------------------------------------------------------------------------------------------


def counted_by_a_closure(x: Any) -> Any:
    hits, state = 0, x * 0

    def visit(value: Any) -> Any:
        nonlocal hits, state
        if value.sum() > 1:
            hits += 1
            state = state + value
        return value * 0.75

    while x.sum() > 0.25:
        x = visit(x)
    return x, hits, state


def rebound_by_a_statement_and_by_a_closure_in_it(x: Any) -> Any:
    k, state = 0, x * 0

    def visit(value: Any) -> Any:
        nonlocal k, state
        k += 1
        state = state + value
        return value * 0.75

    while x.sum() > 0.25:
        k = k + 2
        x = visit(x)
        for i in range(12):
            k, state = k + i % 3, state * 0.5
            x = visit(x)
    if x.sum() > 9:
        x = x + 1
    else:
        k, state = k * 2, state - x
        x = visit(x)
    if x.sum() < 9 and (k := k + 3) > 1 and visit(x).sum() < 9:
        k = k - 1
    return x, k, state


def another_type_on_one_side_that_is_not_read_later(x: Any) -> Any:
    rows = [x]
    for i in range(40):
        rows.append(rows[-1] * 0.5 + i)
    total = jg.stack(rows).sum()
    if total > 3:
        rows = [x * 2]
        for i in range(12):
            rows.append(x - i)
        total = total - jg.stack(rows).sum()
    else:
        rows = "none"
    late = 1
    if total > -1000:
        late = total * 0.5
    return total, (lambda: late)()


def read_by_the_next_turn_or_by_a_function_before_it(x: Any) -> Any:
    def read() -> Any:
        return last * 2

    last, seen, k = x.sum(), x * 0, 0
    while k < 5:
        seen = seen + last
        if k % 2 == 0 and x.sum() < 99:
            last = last * 0.5 + k
        x = x + read()
        k += 1
    if x.sum() > 1:
        last = last + 1
    return x, seen, read()


def defined_again_where_a_turn_may_not(x: Any) -> Any:
    def step(value: Any) -> Any:
        return value * 2

    x, extra, k = step(x), x + 1, 0
    while x.sum() > 0.25 and k < 9:
        for _ in range(k % 3):

            def step(value: Any) -> Any:
                return value * 0.5 - 0.125

            x = step(x)
        if k > 2:
            extra = x * 0.25
            x = x - extra
            del extra
        k += 1
    return x, k


def closures_made_in_a_loop(x: Any) -> Any:
    def counter() -> Any:
        n = 0

        def add(k: Any) -> Any:
            nonlocal n
            n += k
            return n

        return add

    outer, total = counter(), x * 0
    for i in range(12):
        inner = counter()
        total = total + outer(i) + inner(2) + inner(1)
        if total.sum() > 50:
            outer(5)
    return total, outer(0)


def lambdas_and_generators(x: Any) -> Any:
    scale = lambda v: v * 0.5 if v.sum() > 1 else v + 1
    for _ in range(10):
        x = scale(x)
        assert x.sum() < 100, "too large"
        x = x + sum(v * 0.1 for v in x if True) + (1 if any(v > 2 for v in x) else 0)
    return x, all(v > -5 for v in x)


# --- match ----------------------------------------------------------------------------------------------------------


def match_on_numbers(x: Any) -> Any:
    for _ in range(12):
        match x.sum():
            case 1.25 | 5.0:
                x = x + 2
            case s if s > 30:
                return x
            case s if s > 3:
                x = x + s * 0.5
                continue
            case _:
                x = x + 1
        x = x + 0.25
    return x


def match_by_truth(x: Any, n: Any) -> Any:
    """Only the truth of a guard matters, whatever kinds of values its operands are."""
    u = 0
    if x.sum() > 0:
        u = n + 1
    match u:
        case q if q > 3 and (n):
            return q * 2
        case q if q and 5:
            return q
    return -1


def test_guards_of_cases_are_asked_for_their_truth() -> None:
    script = jg.script(match_by_truth)
    for x in (1.0, -1.0):
        for n in (-1, 0, 1, 4):
            args = jg.asarray(x), jg.asarray(n)
            assert int(script(*args)) == int(match_by_truth(*args))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any


def match_on_structures(x: Any) -> Any:
    total = x.sum()
    pairs = (Pair(1, 2), Pair(total, 2), Pair(total, 100))
    for value in ([], (x, x), [x, x * 2, x, x], {"k": 1, "z": 3}, {"k": total}, *pairs, 3, Color.BLUE, None):
        match value:
            case [a, b, *rest] if a.sum() > 1:
                x = x + b * len(rest)
            case (a, _):
                x = x - a
            case {"k": 1, **others}:
                x = x + len(others)
            case {"k": v}:
                x = x + v
            case Pair(second=2, first=q) if q != 0:
                x = x * q
            case Pair(u, w) if u > w:
                x = x + u
            case int(n) | float(n):
                x = x * n
            case Color.BLUE as c:
                x = x + c.value
            case None | []:
                x = x - 1
    return x


PROGRAMS = (
    endless_until_return, endless_with_two_ends, converged, return_behind_a_loop_in_a_branch, nested_exits,
    exits_in_with_and_finally, else_of_loops, first_set_in_a_loop, first_set_in_one_branch,
    first_set_in_a_branch_of_a_loop, set_before_a_break, deleted_in_bodies, star_and_swap, walrus, counted_by_a_closure,
    rebound_by_a_statement_and_by_a_closure_in_it, another_type_on_one_side_that_is_not_read_later,
    read_by_the_next_turn_or_by_a_function_before_it, defined_again_where_a_turn_may_not, closures_made_in_a_loop,
    lambdas_and_generators, match_on_numbers, match_on_structures,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_does_what_it_does_in_python(program: Any) -> None:
    agree(program, FLOATS)


def read_before_alone(x: Any, limit: Any) -> Any:
    row = jg.ones(7)
    count = row.sum()
    while x.sum() < limit:
        if x[0] > 2:
            row = x * 2
        x = x + 1
    return x * count


def test_a_variable_that_is_read_before_a_statement_alone_is_no_result_of_it() -> None:
    text = canonical_text(jg.script(read_before_alone).lower(jg.ones(3), jg.asarray(30.0)).graph)
    assert "while(" in text and "cond(" in text and "= cond(" not in text


# --- recursion ------------------------------------------------------------------------------------------------------


def halved(x: Any) -> Any:
    if x.sum() < 0.1:
        return x
    return halved(x * 0.5)


def ping(x: Any) -> Any:
    return x if x.sum() < 0.1 else pong(x * 0.5)


def pong(x: Any) -> Any:
    return x if x.sum() < 0.1 else ping(x * 0.5)


@jg.script
def scripted(x: Any) -> Any:
    if x.sum() < 0.1:
        return x
    return scripted(x * 0.5)


def in_a_loop(x: Any) -> Any:
    if x.sum() < 0.1:
        return x
    for i in range(20):
        x = in_a_loop(x * 0.5) + i
    return x


def twice(n: Any) -> Any:
    if n.sum() < 2:
        return n
    return twice(n - 1) + twice(n - 2)


def inside(x: Any) -> Any:
    def go(v: Any) -> Any:
        if v.sum() < 0.1:
            return v
        return go(v * 0.5)

    return go(x)


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


@_wrapping
def wrapped(x: Any) -> Any:
    if x.sum() < 0.1:
        return x
    return wrapped(x * 0.5)


class Steps:
    def step(self, x: Any) -> Any:
        if x.sum() < 0.1:
            return x
        return self.step(x * 0.5)

    def __call__(self, x: Any) -> Any:
        return x if x.sum() < 0.1 else self(x * 0.5)


by_lambda = lambda x: x if x.sum() < 0.1 else by_lambda(x * 0.5)
RECURSIVE = (halved, ping, scripted, in_a_loop, twice, inside, wrapped, Steps().step, Steps(), by_lambda)


@pytest.mark.parametrize("function", RECURSIVE, ids=lambda f: getattr(f, "__name__", "object"))
def test_recursion_that_a_tensor_ends_is_one_error(function: Any) -> None:
    with pytest.raises(jg.ScriptError, match="calls itself under a condition on a tensor") as error:
        (function if function is scripted else jg.script(function))(jg.asarray(X))
    assert "test_script_flow.py:" in str(error.value)
    assert "hint: write a while loop" in str(error.value)
    assert len("".join(traceback.format_exception(error.value)).splitlines()) < 60


def test_recursion_that_python_ends_is_unrolled() -> None:
    def power(x: Any, n: int) -> Any:
        if n == 0:
            return x * 0 + 1
        half = power(x, n // 2)
        if half.sum() > 1e3:
            half = half * 1e-3
        return half * half * (x if n % 2 else 1)

    def hanoi(n: int, a: Any, b: Any, c: Any) -> Any:
        return a if n == 0 else hanoi(n - 1, a, c, b) + hanoi(n - 1, c, b, a) * 0.5

    x = jg.asarray(X)
    for n in (0, 3, 40):
        np.testing.assert_array_equal(jg.script(power)(x, n).numpy(), power(x, n).numpy())
    np.testing.assert_array_equal(jg.script(hanoi)(4, x, x + 1, x + 2).numpy(), hanoi(4, x, x + 1, x + 2).numpy())


class Held:
    """What patterns take apart: an attribute, and a sequence and a mapping of the standard library."""

    __match_args__ = ("v",)

    def __init__(self, v: Any) -> None:
        self.v = v


HELD = Held(2)


def by_attribute(x: Any) -> Any:
    match HELD:
        case Held(v=int(r)):
            return x * r
        case Held(r):
            return x * sum(r)
    return x


def by_elements(x: Any) -> Any:
    match HELD.v:
        case [first, *rest]:
            return x * sum(map(abs, rest)) + first
        case {"k": [first, _], **rest}:
            return x * first * len(rest)
    return x


@pytest.mark.parametrize(
    ("function", "value", "change"),
    [
        (by_attribute, 2, lambda v: 5),
        (by_attribute, [1, 2], lambda v: v.append(3)),
        (by_attribute, UserList([1, 2]), lambda v: v.append(3)),
        (by_elements, [1, 2], lambda v: v.append(3)),
        (by_elements, UserList([1, 2]), lambda v: v.append(3)),
        (by_elements, {"k": [1, 2]}, lambda v: v.update(j=1)),
        (by_elements, {"k": [1, 2], "j": 0}, lambda v: v["k"].__setitem__(0, 7)),
    ],
)
def test_what_patterns_read_is_read_at_each_call(function: Any, value: Any, change: Any) -> None:
    HELD.v = value
    scripted = jg.script(function)
    for _ in range(3):
        assert scripted(jg.ones(())).item() == function(jg.ones(())).item()
        HELD.v = changed if (changed := change(value)) is not None else value
