"""Names that a loop on a tensor rebinds: writes in place through them change the tensor that Python would change."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import jitgraph as jg
from jitgraph import tree
from tests.programs import rebindings
from tests.tracing.script.scripts import define

COUNT = int(os.environ.get("REBINDING_PROGRAMS", "20"))
SHARE = 1000  # programs of one test, so that processes share them
START = np.array([[1, 5, 3], [6, 2, 4], [7, 7, 0], [3, 8, 2], [2, 9, 6]])


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


def written_after_a_loop(a, b, n):
    while n > 0:
        a = a * 2
        n = n - 1
    a += 1
    return a


def the_one_before(a, b, n):
    before, now = b, a
    i = jg.asarray(0)
    while i < n:
        before, now = now, now * 0.5
        before[0] = 7.0
        i = i + 1
    before += 1
    return before, now


def three_in_a_row(a, b, n):
    c = a + b
    first = c
    i = jg.asarray(0)
    while i < n:
        a, b, c = b, c, a
        a[i % 5] = b[0] + i
        i = i + 1
    c *= 2
    return a, b, c, first


def nested(a, b, n):
    x = a
    for i in range(n):
        y = b
        k = jg.asarray(0)
        while k < i:
            if x[0] > y[0]:
                x = y
            else:
                x, y = y, x * 1
            y[k] = 20.0
            k = k + 1
        y += i
    x -= 1
    return x


def left_early(a, b, n):
    x = a
    for i in range(5):
        if i >= n:
            break
        if x[i] > 20:
            return x
        x = b if i % 2 == 0 else a
        x[i] = x[i] + 10
    x[4] = -1.0
    return x


def a_list_rebound(a, b, n):
    rows, others = [a, b], [b + 1, a + 1]
    row = rows
    while n > 0:
        row, others = others, row
        n = n - 1
    row[0] = row[1] * 2
    row[1] += 1
    return rows, row, others


def a_tuple_and_an_attribute(a, b, n):
    point = Point(a)
    pair = a, b
    i = jg.asarray(0)
    while i < n:
        pair = pair[1], point.total
        point.total = pair[0]
        i = i + 1
    point.total += 1
    pair[1][2] = 9.0
    return pair, point.total


class Point:
    def __init__(self, total):
        self.total = total


def a_row_in_a_tuple_that_branches_make(a, b, n):
    row = [a, b]
    pair = (a * 2, row) if n > 1 else (b * 2, row)
    pair[1][0] = a + 5
    return pair, row


def chosen_in_a_branch_of_what_it_made(a, b, n):
    if n > 0:
        x, y = a * 1, b * 1
        if n > 1:
            y = x
    else:
        x, y = a, b
    x += 1
    return x, y


def copies_that_the_body_makes(a, b, n):
    rows = [a, b]
    row = rows
    i = jg.asarray(0)
    while i < n:
        row = list(rows)
        row[0] = row[0] + 1
        i = i + 1
    row[1] += 1
    return row, rows


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


def an_element_set_in_the_list_that_a_branch_chooses(a, b, n):
    z = a + b
    box, spare = [a, z], [b, b * 10]
    if n < 2:
        spare[1] = z
        box = spare
    box[0] = box[1]
    spare[0] += 5
    return z, box, spare


def an_item_replaced_on_one_side_and_changed_on_the_other(a, b, n):
    state = {"x": [a]}
    row = state["x"]
    if n > 1:
        state["x"] = [b]
    else:
        row[0] = a + b
    state["x"][0] += 10
    row[0] -= 2
    return state, row


def an_item_changed_and_replaced_by_each_turn(a, b, n):
    box = [a, b]
    state = {"rows": [b * 2, a]}
    first = state["rows"]
    for i in range(n):
        state["rows"][0] = b + i
        b = state["rows"][0]
        state["rows"] = box
    return b, box, state, first


def a_list_bound_by_each_turn_for_the_next(a, b, n):
    box = [a, b]
    row = first = [b * 2, a]
    nested = {"box": box}
    for i in range(n):
        row[0] = b + 100 + i
        row = nested["box"]
    return box, row, first, nested


def an_attribute_replaced_on_one_side_and_changed_on_the_other(a, b, n):
    point = Point([a, [b]])
    if n > 1:
        point.total[1][0] = a
    else:
        point.total = [b, [a]]
    point.total[1][0] *= 2
    return point.total


PROGRAMS = [
    exchanged_and_read_by_old_names, one_of_both_from_the_second_turn, elements_of_lists_exchanged,
    old_name_after_a_loop, written_after_a_loop, the_one_before, three_in_a_row, nested, left_early, a_list_rebound,
    a_tuple_and_an_attribute, a_row_in_a_tuple_that_branches_make, chosen_in_a_branch_of_what_it_made,
    copies_that_the_body_makes, written_choice, written_in_a_branch, fresh_or_new, two_buffers, exchanged, best_copied,
    new_in_each_turn, an_element_set_in_the_list_that_a_branch_chooses,
    a_list_bound_by_each_turn_for_the_next, an_item_changed_and_replaced_by_each_turn,
    an_item_replaced_on_one_side_and_changed_on_the_other,
    an_attribute_replaced_on_one_side_and_changed_on_the_other,
]  # fmt: skip


def operands(n: int) -> tuple[Any, ...]:
    return jg.asarray(np.arange(5.0)), jg.asarray(np.arange(5.0) * 10), jg.asarray(n)


def numbers(value: Any) -> list[Any]:
    return [leaf.tolist() for leaf in tree.flatten(value)[0]]


@pytest.mark.parametrize("function", PROGRAMS)
def test_results_and_arguments_are_python_s(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    scripted = jg.script(function)
    for n in (0, 1, 2, 3):
        mine, due = operands(n), operands(n)
        assert numbers((scripted(*mine), mine)) == numbers((function(*due), due))


def test_one_tensor_as_two_arguments() -> None:
    scripted = jg.script(exchanged)
    for n in (0, 1, 3):
        results = []
        for function in (scripted, exchanged):
            a = jg.asarray(np.arange(5.0))
            results.append(numbers((function(a, a, jg.asarray(n)), a)))
        assert results[0] == results[1]


def test_a_saved_file_writes_what_the_loop_chose(tmp_path: Path) -> None:
    mine, due = jg.asarray(np.arange(5.0)), jg.asarray(np.arange(5.0))

    def update(n: Any) -> Any:
        x = mine
        while n > 0:
            x = x * 2
            n = n - 1
        x += 1
        return x

    jg.save(jg.script(update), tmp_path / "model.jg", example_inputs=(jg.asarray(2),))
    loaded = jg.load(tmp_path / "model.jg")
    for n in (0, 2, 0):
        want = written_after_a_loop(due, None, jg.asarray(n))
        np.testing.assert_array_equal(loaded(jg.asarray(n)), want.numpy())


def test_gradients_flow_through_what_the_loop_chose() -> None:
    def loss(a: Any, b: Any, n: Any) -> Any:
        a, b = a * 1, b * 1
        first, second = a, b
        i = jg.asarray(0)
        while i < n:
            b *= a + 1
            a, b = b, a
            i = i + 1
        a[0] = 2.0
        return (first * 3).sum() + (second * second).sum()

    for n in (0, 1, 2):
        outputs = []
        for function in (jg.script(loss), loss):
            a, b = (x.requires_grad_() for x in operands(n)[:2])
            function(a, b, jg.asarray(n)).backward()
            outputs.append(numbers((a.grad, b.grad)))
        assert outputs[0] == outputs[1]


def new_and_written(a, b, n):
    x = a
    while n > 0:
        x = x * 0.5
        x[0] = 1.0
        n = n - 1
    return x


@pytest.mark.parametrize("function", [exchanged, new_and_written, best_copied, the_one_before])
def test_a_loop_whose_old_tensors_nobody_reads_copies_nothing(function: Any) -> None:
    def of_copies(a: Any, b: Any, n: Any) -> Any:
        return function(a.clone(), b.clone(), n)

    text = str(jg.script(of_copies).lower(*operands(3)).optimized)
    (loop,) = (line for line in text.splitlines() if "= while(" in line)
    assert loop.count(": bool[]") == 1  # whether it goes on
    assert "select" not in text


def run_programs(count: int, part: int) -> Counter[str]:
    """Run so many programs both ways; how often they agreed or were refused."""
    covered: Counter[str] = Counter()

    @seed(part)
    @settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=tuple(Phase) if "SCRIPT_SHRINK" in os.environ else (Phase.generate,),
    )
    @given(rebindings.programs)
    def run(source: str) -> None:
        program = define(source)
        scripted = jg.script(program)
        for n in (0, 1, 3):
            outcomes = []
            for function in (program, scripted):
                tensors = [jg.asarray(row) for row in START]
                program.__globals__["first"], program.__globals__["last"] = tensors[3:]
                outcomes.append(numbers((function(*tensors[:3], jg.asarray(n)), tensors)))
            assert outcomes[0] == outcomes[1]
            covered["calls"] += 1
        covered.update(word for word in ("for", "while", "if", "break", "return", "+=") if word + " " in source)

    run()
    return covered


@pytest.mark.parametrize("part", range(-(-COUNT // SHARE)))
def test_random_programs_write_what_python_writes(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    count = min(SHARE, COUNT - part * SHARE)
    covered = run_programs(count, part)
    print(", ".join(f"{part} {number}" for part, number in covered.most_common()))
    assert covered["for"] and covered["while"] and covered["+="]
