"""Views in staged loops and branches mean what they mean in plain Python, or the line is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch


def rebound(x: Any, n: Any) -> Any:
    h = x[0]
    for i in range(n):
        h = h * 2 + x[i % 3]
    return h, x


def rows_are_written(x: Any, n: Any) -> Any:
    for row in x:
        row.mul_(2)
        row[0] = n
    return x


def rows_are_read_and_the_tensor_is_written(x: Any, n: Any) -> Any:
    total = x[0] * 0
    for row in x:
        total = total + row
        x[2] = total
    return total, x


def rows_of_two(x: Any, n: Any) -> Any:
    y = x * 2
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        a.add_(b)
        b.mul_(i)
        x[2].add_(1)
    return x, y


def rows_of_a_view(x: Any, n: Any) -> Any:
    for column in x.t():
        if column.sum() > 3:
            column.neg_()
    return x


def written_in_place_alone(x: Any, n: Any) -> Any:
    h = x[0]
    for i in range(n):
        h.add_(i)
        x[1].mul_(2)
    return h, x


def views_of_a_changing_row(x: Any, n: Any) -> Any:
    i = n * 0
    while i < n:
        row = x[i % 3]
        row[1:].add_(row[:1])
        x.t()[0].add_(1)
        i = i + 1
    return x


def in_a_branch(x: Any, n: Any) -> Any:
    if x.sum() > 0:
        x[0].mul_(2)
    else:
        x.view(-1)[3:].zero_()
    return x


def a_list_of_views(x: Any, n: Any) -> Any:
    rows = [x[0], x[1]]
    for i in range(n):
        for row in rows:
            row.add_(i)
    return rows[0], rows[1], x


def parameters(x: Any, n: Any) -> Any:
    for p in [x, x * 1]:
        for _ in range(n):
            p.data.add_(1)
    return x


def read_behind_the_loop(x: Any, n: Any) -> Any:
    h = x[0]
    for i in range(n):
        h = x[i % 3]
    return h * 2, x


def a_view_of_what_a_branch_makes(x: Any, n: Any) -> Any:
    y = x.clone()
    if n > 1:
        y = (y * 2).permute(0, 1)
    y.add_(1)
    return x, y


def views_of_what_both_branches_make(x: Any, n: Any) -> Any:
    if n > 1:
        y = x * 2
        z = y.t()
        y.mul_(n)
    else:
        y = x + 1
        z = y.t()
        z[0] = n
    return x, y + 0, z + 0


def a_view_of_what_a_loop_in_a_branch_makes(x: Any, n: Any) -> Any:
    z, w = x + 1, x[0]
    if n > 1:
        for _ in range(n):
            z = z + z
        z = z.movedim(0, 0)
        w.add_(1)
    return x, z, w


def a_view_of_what_a_turn_makes(x: Any, n: Any) -> Any:
    y = x * 1
    for i in range(n):
        if i % 2 == 0:
            y = (y * 2).narrow(0, 0, 3)
        else:
            y = (y + i)[:]
        y.sub_(1)
    return x, y


def two_views_of_what_a_body_makes_are_read(x: Any, n: Any) -> Any:
    y, z, v = x + 0, x + 0, x + 0
    for _ in range(n):
        w = y + 1
        y, z = w[...], w[...] * 2
    if n > 1:
        w = y + 1
        y, v = w[...], w[...]
    z.mul_(2)
    return y, z, v


AGREEING: tuple[Callable[..., Any], ...] = (
    rebound,
    rows_are_written,
    rows_are_read_and_the_tensor_is_written,
    rows_of_two,
    rows_of_a_view,
    written_in_place_alone,
    views_of_a_changing_row,
    in_a_branch,
    a_list_of_views,
    parameters,
    read_behind_the_loop,
    a_view_of_what_a_branch_makes,
    views_of_what_both_branches_make,
    a_view_of_what_a_loop_in_a_branch_makes,
    a_view_of_what_a_turn_makes,
    two_views_of_what_a_body_makes_are_read,
)


def written_behind_a_loop(x: Any, n: Any) -> Any:
    h = x[0]
    for i in range(n):
        h = x[i % 3]
    h.add_(1)  # here
    return x


def written_in_the_next_turn(x: Any, n: Any) -> Any:
    h = x[0]
    for i in range(n):
        h.add_(1)  # here
        h = x[i % 3]
    return x


def read_behind_a_write(x: Any, n: Any) -> Any:
    h = x[0]
    for i in range(n):
        h = x[i % 3]
    x.add_(1)
    return h + 0  # here


def read_in_the_turn_behind_a_write(x: Any, n: Any) -> Any:
    if n > 2:
        h = x[0]
    else:
        h = x[1]
    for _ in range(n):
        x[0].add_(h)  # here
    return x


def one_of_two(x: Any, n: Any) -> Any:
    h = x[0] if n > 2 else x[1]
    h.mul_(2)  # here
    return x


def a_view_of_one_of_two(x: Any, n: Any) -> Any:
    if n > 2:
        h = x[0]
    else:
        h = x[0] * 2
    h[1:].mul_(2)  # here
    return x


def one_of_a_list(x: Any, n: Any) -> Any:
    rows = [x[0], x[1], x[2]]
    rows[int(n) % 3].add_(1)  # here
    return x


def appended(x: Any, n: Any) -> Any:
    rows = []
    for i in range(40):
        rows.append(x[i % 3])  # noqa: PERF401
    rows[0].add_(1)  # here
    return x


def a_view_of_what_changes_too(x: Any, n: Any) -> Any:
    y, h = x * 1, x[0]
    for i in range(n):
        y = y + i
        h = y[0]
    y.add_(1)
    return h + 0  # here


def two_views_of_what_a_turn_makes(x: Any, n: Any) -> Any:
    y, z = x + 0, x + 0
    for _ in range(n):
        w = y + 1
        y, z = w[...], w[...]
    y.mul_(2)  # here
    return y, z


def a_view_that_a_turn_leaves_to_the_next(x: Any, n: Any) -> Any:
    y, z = x + 0, x[0] + 0
    for _ in range(n):
        z.mul_(2)  # here
        w = y + 1
        y, z = w[...], w[0]
    return y, z


def two_views_of_what_a_branch_makes(x: Any, n: Any) -> Any:
    y, z = x + 0, x + 0
    if n > 1:
        w = y + 1
        y, z = w[...], w.view((3, 2))
    z[0] = 5  # here
    return y, z


REFUSED: tuple[Callable[..., Any], ...] = (
    written_behind_a_loop,
    written_in_the_next_turn,
    read_behind_a_write,
    read_in_the_turn_behind_a_write,
    one_of_two,
    a_view_of_one_of_two,
    one_of_a_list,
    appended,
    a_view_of_what_changes_too,
    two_views_of_what_a_turn_makes,
    a_view_that_a_turn_leaves_to_the_next,
    two_views_of_what_a_branch_makes,
)


def outcome(function: Callable[..., Any], n: Any) -> list[Any]:
    x = torch.tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    result = function(x, n)
    return [y.tolist() for y in (x, *(result if isinstance(result, tuple) else (result,)))]


@pytest.mark.parametrize("function", AGREEING, ids=lambda function: function.__name__)
def test_views_mean_what_they_mean_in_python(function: Callable[..., Any]) -> None:
    scripted = jg.script(function)
    for n in (4, 0, 1):
        assert outcome(scripted, torch.tensor(n)) == outcome(function, n)


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_what_no_graph_can_say_is_refused_at_its_line(function: Callable[..., Any]) -> None:
    code = function.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    line = next(number for number in range(code.co_firstlineno, len(lines)) if lines[number - 1].endswith("# here"))
    with pytest.raises(jg.ScriptError, match="view") as raised:
        outcome(jg.script(function), torch.tensor(4))
    assert f"test_views_in_loops.py:{line}\n" in str(raised.value)


@pytest.mark.parametrize("kind", [jg.asarray, torch.tensor])
def test_a_loop_along_a_tensor_sees_what_its_turns_write(kind: Callable[..., Any]) -> None:
    def along(x: Any) -> Any:
        total = x[0] * 0
        for row in x:
            total = total + row
            x[1] = total
        for i, (a, b) in enumerate(zip(x, x, strict=True)):
            x[2] = a
            total = total + b * i
        return total, x

    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    for mine, due in zip(jg.script(along)(kind(array)), along(kind(array)), strict=True):
        np.testing.assert_array_equal(mine.numpy(), due.numpy())
