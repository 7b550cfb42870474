"""min, max, any and all of Python on tensors in a script: they give what they give eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

X = jg.asarray(np.array([0.5, -2.0, 3.0, 0.25], np.float32))
SPECIAL = jg.asarray([1.0, float("nan"), -2.0])


def rate_limited(x: Any, end: Any) -> Any:
    time, step = 0.0, 0.25
    while time < end:
        step = min(step, end - time)
        x = x - step * x
        time = time + step
    return x


def halved(x: Any) -> Any:
    while any(abs(v) > 0.01 for v in x):
        x = x / 2
    return x


def clipped(x: Any) -> Any:
    for i in range(jg.asarray(4)):
        x[i] = max(0.0, min(x[i], 1.0))
    return x


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x: min(x[0], x[1], x[2]), (X,)),
    (lambda x: max([x[0], x[1]]) * x, (X,)),
    (lambda x: max(v * 2 for v in x), (X,)),
    (lambda x: max(x), (X,)),
    (lambda x: max(x[0], x[1]) - min(x[2], 0), (X,)),
    (lambda x: (max(x[0], x[1]), max(x[1], x[0]), min(x[1], x[2]), min(x[2], x[1])), (SPECIAL,)),
    (lambda x: x * max(1, 2) + min([3, 4], key=lambda v: -v) + max([], default=5), (X,)),
    (lambda x: (any(v > 0 for v in x), all(v > 0 for v in x), any(list(x > 9)), all(list(x > -9))), (X,)),
    (lambda x: (any([False, x[0] > 0]), any([x[0] > 9, True]), all([True, x[0] > 9]), all([x[0] > 0, False])), (X,)),
    (lambda x: (any([]), all([]), any(iter([0, 1])), all((1, 0))), (X,)),
    (lambda x: any([print("a"), x[0] > 9, x[9 - 8] > 0]), (X,)),
    (rate_limited, (jg.ones(2, dtype=jg.float64), jg.asarray(0.6, dtype=jg.float64))),
    (halved, (X,)),
    (clipped, (X,)),
]


@pytest.mark.parametrize(("program", "arguments"), PROGRAMS)
def test_folds_give_what_they_give_eagerly(program: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    fresh = [jg.asarray(x.numpy()) for x in arguments]
    wanted, actual = program(*[x.clone() for x in fresh]), jg.script(program)(*[x.clone() for x in fresh])
    wanted, actual = (x if isinstance(x, tuple) else (x,) for x in (wanted, actual))
    for due, mine in zip(wanted, actual, strict=True):
        assert type(due) is type(mine)
        np.testing.assert_array_equal(*(np.asarray(x) for x in (due, mine)))


def test_the_gradient_goes_to_the_one_that_was_chosen() -> None:
    f = jg.script(lambda x: max(x[0], x[1]) * min(x[2], x[3]))
    np.testing.assert_array_equal(jg.grad(f)(X).numpy(), [0.25, 0, 0, 0.5])


def test_a_test_of_one_tensor_changes_nothing_of_it() -> None:
    @jg.script
    def f(x: Any) -> Any:
        positive = x[0] > 0
        return any([positive]), positive

    actual, positive = f(X)
    assert actual is True and isinstance(positive, jg.Tensor)


@pytest.mark.parametrize(
    "last", [lambda x, i: any(x[j] > 0 for j in i), lambda x, i: all(print(v) or v < 9 for v in x)]
)
def test_elements_that_eager_may_not_reach_are_refused(last: Callable[..., Any]) -> None:
    with pytest.raises(jg.ScriptError, match=r"prints or may fail[\s\S]*of a list"):
        jg.script(last)(X, jg.asarray([0, 7]))


@pytest.mark.parametrize("wrong", [lambda x: min(), lambda x: max([]), lambda x: max(x[0], 1, default=3)])
def test_errors_are_those_of_python(wrong: Callable[..., Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as mine:
        jg.script(wrong)(X)
    with pytest.raises(type(mine.value)) as due:
        wrong(X)
    assert str(mine.value) == str(due.value)
