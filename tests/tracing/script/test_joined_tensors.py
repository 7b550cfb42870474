"""Names that a loop on a tensor rebinds, and that are written in place."""

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import ScriptError


def written_choice(a, b, n):
    c = a
    if n > 2:
        c = b
    c[0] = 9.0
    return a, b


def written_in_a_branch(a, b, n):
    if n > 0:
        c = a
        if n > 2:
            c = b
        c += 1
    return a, b


def exchanged_and_read_by_old_names(a, b, n):
    first, second = a, b
    i = jg.asarray(0)
    while i < n:
        b[0] = b[0] + 1
        a, b = b, a
        i = i + 1
    return first, second


def one_of_both_from_the_second_turn(a, b, n):
    best = b
    i = jg.asarray(0)
    while i < n:
        a[i] = a[i] - 2
        if a.sum() < best.sum():
            best = a
        i = i + 1
    return best


def elements_of_lists_exchanged(a, b, n):
    pair = [a, b]
    i = jg.asarray(0)
    while i < n:
        pair[0][0] = pair[0][0] + 1
        pair[0], pair[1] = pair[1], pair[0]
        i = i + 1
    return a, b


def old_name_after_a_loop(a, b, n):
    x = a
    i = jg.asarray(0)
    while i < n:
        x = x * 2
        i = i + 1
    x[0] = 5.0
    return a


REFUSED = [
    exchanged_and_read_by_old_names,
    one_of_both_from_the_second_turn,
    elements_of_lists_exchanged,
    old_name_after_a_loop,
]


def fresh_or_new(a, b, n):
    if n > 2:
        a = a * 2
    a[0] = 1.0
    a += b
    return a


def two_buffers(a, b, n):
    for i in range(4):
        if n > i:
            b[:] = a * 2 + b
            a, b = b, a
        else:
            a[i] = 7.0
    return a, b


def exchanged(a, b, n):
    i = jg.asarray(0)
    while i < n:
        b[i] = a[i] + a[(i + 1) % 5]
        a, b = b, a
        i = i + 1
    return a, b


def best_copied(a, b, n):
    best = b
    i = jg.asarray(0)
    while i < n:
        a[i] = a[i] - 2
        if a.sum() < best.sum():
            best = a.clone()
        i = i + 1
    return best, a


def new_in_each_turn(a, b, n):
    x = a
    for i in range(3):
        x = x * 0.5
        x[i] = 1.0
        if x[i + 1] > 2:
            x = x - n
    x[0] = 1.0
    return x, a


RIGHT = [written_choice, written_in_a_branch, fresh_or_new, two_buffers, exchanged, best_copied, new_in_each_turn]


def of_copies(function):
    """``function`` of copies, whose writes no caller sees."""
    return lambda a, b, n: function(a.clone(), b.clone(), n)


def operands(n):
    return jg.asarray(np.arange(5.0)), jg.asarray(np.arange(5.0) * 10), jg.asarray(n)


@pytest.mark.parametrize("function", REFUSED)
def test_use_after_a_write_through_another_name_is_refused(function):
    with pytest.raises(ScriptError, match="written in place that may be another one"):
        jg.script(of_copies(function))(*operands(3))


@pytest.mark.parametrize("function", [old_name_after_a_loop, exchanged_and_read_by_old_names])
def test_writes_into_the_caller_s_tensors_are_refused(function):
    a, b, n = operands(3)
    with pytest.raises(ScriptError, match="written in place that may be another one"):
        jg.script(function)(a, b, n)
    assert a.tolist() == np.arange(5.0).tolist()


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("function", RIGHT)
def test_writes_that_no_other_name_sees_are_python_s(function, n):
    found = jg.script(of_copies(function))(*operands(n))
    want = of_copies(function)(*operands(n))
    for x, y in zip(found, want, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())
