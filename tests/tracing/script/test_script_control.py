"""Else clauses, loop variables, steps, ``:=``, exits out of nested loops, match, try and with: as in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree

UP = np.array([1.0, 2.0, 0.5])
INPUTS = tuple((x, n) for x in (UP, -UP, 4 * UP) for n in (0, 1, 3))


def outcome(function: Callable[..., Any], args: Any) -> Any:
    """What a call gives: its result, or the builtin kind and the text of the exception that it raises."""
    try:
        return function(*(jg.asarray(a) if isinstance(a, np.ndarray) else a for a in args))
    except (ArithmeticError, AssertionError, LookupError, NameError, TypeError, ValueError) as error:
        kind = next(k for k in type(error).__mro__ if k.__module__ == "builtins" and k is not RuntimeError)
        return kind.__name__, str(error).partition("\n")[0]


def same(mine: Any, due: Any) -> None:
    """Two trees are equal where a number and a 0-d tensor of its dtype are one."""
    (actual, shape), (expected, structure) = tree.flatten(mine), tree.flatten(due)
    assert shape == structure
    for a, b in zip(actual, expected, strict=True):
        one, other = (np.asarray(v.detach().numpy() if isinstance(v, jg.Tensor) else v) for v in (a, b))
        assert one.dtype == other.dtype, (mine, due)
        np.testing.assert_allclose(one, other, rtol=1e-12) if one.dtype.kind == "f" else None
        assert one.dtype.kind == "f" or np.array_equal(one, other), (mine, due)


def agree(function: Callable[..., Any], inputs: Any = INPUTS) -> Any:
    """The script gives, or raises, what the function does on each input; returns the script."""
    scripted = jg.script(function)
    for arguments in inputs:
        args = [np.array(a) if isinstance(a, int) else a for a in arguments]
        same(outcome(scripted, args), outcome(function, args))
    return scripted


def refused(function: Callable[..., Any], *texts: str, args: Any = (UP, 3)) -> None:
    with pytest.raises(jg.ScriptError) as error:
        jg.script(function)(*(jg.asarray(np.array(a)) for a in args))
    for text in (*texts, "hint:"):
        assert text in str(error.value)


# --- loops ----------------------------------------------------------------------------------------------------------


def test_else_clauses() -> None:
    def for_else(x: Any, n: Any) -> Any:
        for i in range(n):
            if x[i] > 1.5:
                break
            x = x + 1
        else:
            x = x * 10
        return x

    def while_else(x: Any, n: Any) -> Any:
        while n > 0:
            n = n - 1
            if x[0] > n:
                break
        else:
            n = n - 5
        return x, n

    def nested(x: Any, n: Any) -> Any:
        total = 0.0
        for row in x:
            k = 0
            while k < n:
                k += 1
                for value in x:
                    if value > row + k:
                        break
                    if value < -1.5:
                        return total - 100, k
                    total = total + value
                else:
                    total = total + 10
                    continue
                total = total * 0.5
                if total > 40:
                    break
            else:
                total = total + 1
        else:
            total = total - 0.25
        return total, n

    for function in (for_else, while_else, nested):
        agree(function)


def test_the_loop_variable_after_the_loop() -> None:
    def known(x: Any, n: Any) -> Any:
        for i in range(12):
            x = x + i
        return x, i

    def set_before(x: Any, n: Any) -> Any:
        i = -1
        for i in range(n):
            x = x + i
            i = i * 2
        return x, i

    def not_set(x: Any, n: Any) -> Any:
        for i in range(n):
            if x[i] > 1.5:
                break
        return x + i, i

    def read_where_it_is_there(x: Any, n: Any) -> Any:
        for i, value in enumerate(x[:n] if isinstance(n, int) else x):
            x = x + i * value
        for j in range(n):
            x = x - j
        if n > 0:
            j += 1
            x = x + j
        return x * i

    def in_a_nested_function(x: Any, n: Any) -> Any:
        for i in range(n):
            x = x + i

        def last() -> Any:
            return i * 2

        return x, last()

    def two_loops(x: Any, n: Any) -> Any:
        for i in range(n):
            for k in range(i):
                x = x + k
        for k in range(n - 1):
            x = x * 2 + k
        return x, k

    for function in (known, set_before, not_set, read_where_it_is_there, two_loops):
        agree(function)
    agree(in_a_nested_function, [arguments for arguments in INPUTS if arguments[1]])


def test_steps_of_ranges() -> None:
    def stepped(start: Any, stop: Any, step: Any) -> Any:
        total, count = 0, 0
        for i in range(start, stop, step):
            total += i * 2 + count
            count += 1
            if total > 90:
                break
        else:
            total = -total
        return total, count

    def backwards(start: Any, stop: Any, step: Any) -> Any:
        total = 1
        for k, i in enumerate(reversed(range(start, stop, step)), 2):
            total = total * 3 + i * k
        return total

    inputs = [(a, b, s) for a, b in ((0, 7), (7, 0), (0, 0), (-3, 20), (5, -5)) for s in (1, 2, -1, -3, 30, 0)]
    for function in (stepped, backwards):
        scripted = agree(function, inputs)
        assert scripted.cache_info().misses == 1


def test_zip_with_lengths_that_are_tensors() -> None:
    def zipped(x: Any, n: Any) -> Any:
        total = 0.0
        for i, value, k in zip(range(n), x, range(2, 20)):  # noqa: B905
            total = total + i * value - k
        for value, i in reversed_pairs(x, n):
            total = total * 0.5 + value * i
        return total

    def reversed_pairs(x: Any, n: Any) -> Any:
        return zip(x, range(n), strict=False)

    def strict(x: Any, n: Any) -> Any:
        total = 0.0
        for i, value in zip(range(n), x, strict=True):
            total = total + i * value
        return total

    agree(zipped)
    agree(strict, [(UP, 3)])
    with pytest.raises(ValueError, match=r"zip\(\) argument 2"):
        jg.script(strict)(jg.asarray(UP), jg.asarray(2))


# --- expressions ----------------------------------------------------------------------------------------------------


def test_assignments_in_operands() -> None:
    def in_a_test(x: Any, n: Any) -> Any:
        if (y := x.sum()) > 0 and (z := y * 2) > 8:
            return z
        return y

    def in_a_conditional_expression(x: Any, n: Any) -> Any:
        return x if x.sum() > 4 else (y := x) + y

    def in_a_while(x: Any, n: Any) -> Any:
        k = 0
        while k < n and (h := x[0] * k) < 2.5:
            k += 1
            x = x + h
        return x, k

    def in_both_operands(x: Any, n: Any) -> Any:
        if x.sum() > 0 and ((m := x * 2).sum() > 9 or (m := x * 3).sum() > 100):
            x = x + m
        return x

    def in_a_chain(x: Any, n: Any) -> Any:
        if 0 < (t := x.sum()) < (u := x[0] + x[1] + 1):
            return t * u
        return x[0]

    def in_a_loop(x: Any, n: Any) -> Any:
        for i in range(n):
            if x.sum() > 0 and (m := i * 2) > 1:
                x = x - m
        return x

    def in_a_while_with_break(x: Any, n: Any) -> Any:
        k = 0
        while k < 4 and (h := x[0] * k) < 2.5 and (g := h + n) > -9:
            k += 1
            if x.sum() > n + 5:
                break
            x = x + h
        return x, k, h, g

    agree(in_a_while_with_break)

    def not_always(x: Any, n: Any) -> Any:
        if x.sum() > 0 and (m := x * 2).sum() > 9:
            x = x + 1
        return x + m

    for function in (in_a_test, in_a_conditional_expression, in_a_while, in_both_operands, in_a_chain, in_a_loop):
        agree(function)
    agree(not_always)


def test_the_value_of_and_and_or_is_an_operand() -> None:
    def f(x: Any, n: Any) -> Any:
        low, high = x[0] > 0, x[1] > 3
        return (low and high), (low or high), (not high), (n or 7), (n and 2), (low and not high)

    agree(f)

    def mixed(x: Any, n: Any) -> Any:
        return n and x.sum() > 0

    refused(mixed, "the value of and is bool[] in the left side and i64[] in the right side")


# --- functions ------------------------------------------------------------------------------------------------------


def test_closures_that_read_staged_variables() -> None:
    def f(x: Any, n: Any) -> Any:
        scale, k = 2.0, 1

        def apply(t: Any) -> Any:
            if t.sum() > 0:
                return t * scale + k
            return t - n

        if x.sum() > 3:
            scale = 3.0
        while k < n:
            x = apply(x)
            k = k + 1
        later = [lambda t, j=j: apply(t) * j + k for j in range(3)]
        return later[1](x) + later[2](x)

    agree(f)


def test_recursion_with_python_bounds() -> None:
    def power(x: Any, n: int) -> Any:
        if n == 0:
            return x * 0 + 1
        half = power(x, n // 2)
        if half.sum() > 50:
            half = half - 1
        return half * half if n % 2 == 0 else half * half * x

    def f(x: Any, n: Any) -> Any:
        def tree(depth: int) -> Any:
            if depth == 0:
                return x if x.sum() > n else -x
            left, right = tree(depth - 1), tree(depth - 1)
            return left + right * depth if x[0] > 0 else left

        return power(x, 5), tree(3)

    agree(f)


# --- None, match, try, with -----------------------------------------------------------------------------------------


def test_none_on_one_side_names_both_lines() -> None:
    def assigned(x: Any, n: Any) -> Any:
        if x.sum() > 0:
            y = x
        else:
            y = None
        return y

    def returned(x: Any, n: Any) -> Any:
        if x.sum() > 0:
            return x

        return None

    def in_a_loop(x: Any, n: Any) -> Any:
        best = None
        for i in range(n):
            if best is None or x[i] > best:
                best = x[i]
        return best

    first = assigned.__code__.co_firstlineno
    where = f"(lines {first + 2} and {first + 4})"
    refused(assigned, "the variable 'y' is f64[3] in the if branch and None in the else branch", where)
    first = returned.__code__.co_firstlineno
    where = f"(lines {first + 2} and {first + 4})"
    refused(returned, "the returned value is f64[3] in the if branch and None in the else branch", where)
    refused(in_a_loop, "the variable 'best' is None when the loop starts and becomes f64[]")

    def known(x: Any, n: Any) -> Any:
        best = None
        for value in x:
            if best is None or value > best:
                best = value
        return best

    def read_on_one_side(x: Any, n: Any) -> Any:
        y = None
        if x.sum() > 0:
            y = x * 2
            x = y
        return x

    agree(known)
    agree(read_on_one_side)


def test_match_on_python_values() -> None:
    def f(x: Any, n: Any, mode: Any, pair: Any) -> Any:
        match mode:
            case "a":
                if x.sum() > 0:
                    return x
            case "b" | "c":
                for i in range(n):
                    x = x + i
                    if x.sum() > 9:
                        break
                else:
                    x = -x
            case _:
                x = x - 1
        match pair:
            case (1, k) if k > 1:
                while x.sum() < k:
                    x = x + 1
            case {"k": k}:
                return x * k
        return x

    for mode, pair in (("a", (1, 2)), ("b", (1, 0)), ("c", {"k": 3}), ("d", (1, 9))):
        agree(f, [(*arguments, mode, pair) for arguments in INPUTS])


def test_try_and_with() -> None:
    def with_(x: Any, n: Any) -> Any:
        with jg.no_grad():
            for i in range(n):
                if x.sum() > 9:
                    break
                x = x + i
            if x.sum() > 0:
                return x + 1
        return x

    def finally_(x: Any, n: Any) -> Any:
        try:
            if x.sum() > 0:
                x = x + 1
            while x.sum() < n:
                x = x + 1
        finally:
            x = x * 2
        return x

    def inside(x: Any, n: Any) -> Any:
        for i in range(n):
            try:
                x = x + i
                x = x.reshape(7)
            except jg.ShapeError:
                x = x - 0.5
        return x

    for function in (with_, finally_, inside):
        agree(function)

    def caught(x: Any, n: Any) -> Any:
        try:
            if x.sum() > 0:
                x = x + 1
        except ValueError:
            pass
        return x

    refused(caught, f"inside the try statement at line {caught.__code__.co_firstlineno + 1}")


def test_no_handler_takes_what_a_variable_without_a_value_raises_in_the_graph() -> None:
    def read(x: Any, n: Any) -> Any:
        if n > 3:
            y = x
        try:
            x = y * 2
        except NameError:
            x = -x
        return x

    refused(read, "UnboundLocalError may", f"the try statement at line {read.__code__.co_firstlineno + 3} handles")


def test_a_body_may_use_a_name_anew() -> None:
    """What the body gives another type before it reads it is another variable, whatever the name meant before."""

    def functions(x: Any, n: Any) -> Any:
        total = x.sum()
        for row in x:

            def scaled(y: Any) -> Any:
                return y * 0.5 + n

            total = total + scaled(row)
        for i in range(n % 3):

            def scaled(y: Any) -> Any:
                return y - n

            x = scaled(x) * i
        return x, total

    def shapes(x: Any, n: Any) -> Any:
        step = x.sum()
        total = step
        while n < 20:
            step = x * 2
            if n > 5:
                step = step + 1
            total = total + step.sum()
            n = n + 1
        return total

    agree(functions)
    agree(shapes)

    def read_after(x: Any, n: Any) -> Any:
        step = x.sum()
        while n < 20:
            step = x * 2
            n = n + 1
        return n + step.sum()

    def sometimes(x: Any, n: Any) -> Any:
        step = x.sum()
        while n < 20:
            if n > 5:
                step = x * 2
            n = n + 3
        return n, step

    def read_before(x: Any, n: Any) -> Any:
        step = x.sum()
        while n < 20:
            x = x + step
            step = x * 2
            n = n + 1
        return x

    refused(read_after, "the variable 'step' is read but has another type after the loop at", "than before it")
    refused(sometimes, "the variable 'step' is f64[3] in the if branch and f64[] in the else branch")
    refused(read_before, "the variable 'step' is f64[] when the loop starts and becomes f64[3]")


def test_functions_of_one_name_on_both_sides() -> None:
    def apart(x: Any, n: Any) -> Any:
        def scaled(y: Any) -> Any:
            return y * n

        x = scaled(x)
        if x.sum() > 1:
            return x

        def scaled(y: Any) -> Any:
            return y - n

        return scaled(x)

    def read_after(x: Any, n: Any) -> Any:
        if x.sum() > 1:

            def scaled(y: Any) -> Any:
                return y * n

        else:

            def scaled(y: Any) -> Any:
                return y - n

        return scaled(x)

    agree(apart)
    refused(read_after, "the variable 'scaled' is read but is another function on each side of the statement at")
