"""Every form of an assignment's target means under jg.script what it means in Python, with staged indices too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree
from tests.tracing.script.scripts import define

HEAD = """
class Part:
    def __init__(self, total):
        self.total = total
        self.pair = [total, 1]

class Entered:
    def __init__(self, value):
        self.value = value
    def __enter__(self):
        return self.value
    def __exit__(self, *error):
        return False

def program(n, t):
    box, rows = [4, 1, 2], [[1], [1, 2, 3], [4, 5]]
    deep = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    table, parts = {0: 1, 1: 2, 2: 5}, [Part(1), Part(2), Part(3)]
    cells, mixed = [t * 1, t * 2, t * 3], (box, {0: 9, 1: 8, 2: 7})
    first, second = cells[0], cells[1]
    u, v, w = 0, 0, [0, 1]
    def same(x):
        return x
    def get():
        return box
    def bump():
        box[1] = 10
        return 1
"""
RESULT = "box, rows, deep, table, [(p.total, p.pair) for p in parts], cells, first, second, mixed, u, v, w"
STATEMENTS = (
    "box[u], u = u + 5, box[0]",
    "u, box[u] = 1, u + 5",
    "box[u], box[u - 1] = box[u - 1], box[u]",
    "(box[u], v), (u, rows[u][0]) = (7, 8), (2, 9)",
    "[box[u], [v, rows[1][u]]] = [6, [5, 4]]",
    "box[u], *w, v = 1, 2, 3, 4",
    "v, *w = box\nw[0] = 8",
    "box[u] = u = box[0] = 2",
    "box[u]: int = 3",
    "box[u] += u + 3",
    "box[u] -= 1; box[u] *= 3; box[u] //= 2; box[u] %= 5; box[u] **= 2; box[u] <<= 1; box[u] |= 4; box[u] ^= 1",
    "rows[u][1] = 7",
    "rows[u][u] = 7",
    "rows[u][u] += 7",
    "rows[u][-1], v = v, rows[u][0]",
    "deep[u % 2][1 - u % 2][u % 2] = 9",
    "deep[u % 2][1 - u % 2][u % 2] += 9",
    "deep[0][u % 2][u % 2] += 9",
    "mixed[u % 2][u % 3] = 3",
    "table[u] += u",
    "table[u % 3], v = u, table[u]",
    "get()[u] = 9",
    "get()[u] += 9",
    "rows[same(u)][same(0)] = 9",
    "rows[same(u)][same(0)] += 9",
    "box[1] += bump()",
    "box[u] += bump()",
    "parts[u].total = 7",
    "parts[u].total += u",
    "parts[u].pair[0] += u",
    "parts[u].pair[u % 2], parts[0].total = parts[u].total, u",
    "cells[u] = t * 5",
    "cells[u] += 1",
    "first += 1; cells[u] *= 2",
    "cells[u], v = cells[0] * 1, 3",
    "box[0:2], v = [5, 6], 3",
    "box[0:2] = [u, 6]",
    "with Entered(u + 4) as box[u]:\n    v = box[0]",
    "with Entered((u, 3)) as (v, box[u]):\n    v = v + 1",
    "for box[u] in (3, 4):\n    v = v + box[u]",
    "v = rows[u][1]",
    "v = rows[u][u]",
    "v = parts[u].total + parts[u].pair[u % 2]",
)  # fmt: skip
CONTEXTS = {
    "after a loop": "    for _ in range(n):\n        u = u + 1\n{}",
    "in a branch": "    for _ in range(n):\n        u = u + 1\n    if n < 5:\n    {}\n    else:\n        v = 1\n",
    "in a loop": "    k = 0\n    while k < n:\n    {}\n        k = k + 1\n        u = k\n",
    "plain": "    u = 1\n{}",
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


def program(statement: str, context: str) -> Callable[..., Any]:
    lines = statement.split("\n")
    inner = CONTEXTS[context].split("{}")[0].rpartition("\n")[2]
    text = CONTEXTS[context].format("".join(f"{inner if i else ''}    {line}\n" for i, line in enumerate(lines)))
    return define(f"{HEAD}{text}\n    return {RESULT}\n")


def result_of(function: Callable[..., Any], n: int) -> Any:
    """What a call gives, as arrays, or the kind of its error."""
    try:
        result = function(jg.asarray(np.array(n)), jg.asarray(np.array([1.0, 2.0])))
    except Exception as error:
        return error
    leaves, structure = tree.flatten(result)
    return structure, [np.asarray(x.numpy() if isinstance(x, jg.Tensor) else x) for x in leaves]


@pytest.mark.parametrize("context", CONTEXTS)
def test_each_form_of_a_target(context: str) -> None:
    wrong, errors = [], 0
    for statement in STATEMENTS:
        plain = program(statement, context)
        scripted = jg.script(plain)
        for n in (1, 0, 3):
            due, mine = result_of(plain, n), result_of(scripted, n)
            if isinstance(due, Exception) or isinstance(mine, Exception):
                errors += 1
                fits = isinstance(due, Exception) and isinstance(mine, type(due))
            else:
                fits = mine[0] == due[0] and all(map(np.array_equal, mine[1], due[1]))
            if not fits:
                wrong.append(f"{statement!r}, {n}: {mine} where Python has {due}")
    assert not wrong, "\n".join(wrong)
    assert (errors > 4) is (context != "plain")


def test_a_list_that_an_element_is_is_not_grown_in_a_branch_that_is_not_taken() -> None:
    def grow(t: Any) -> Any:
        rows = [[1], [2]]
        if t > 0:
            rows[0] += [3]
        return rows

    with pytest.raises(jg.ScriptError, match="changed in its length"):
        jg.script(grow)(jg.asarray(1.0))
    assert jg.script(lambda: grow(1.0))() == [[1, 3], [2]]


def test_a_target_that_no_graph_sets_is_refused_at_its_line() -> None:
    def sliced(t: Any) -> Any:
        box, u = [1, 2, 3], 0
        for _ in range(t):
            u = u + 1
        box[u:] = [1]
        return box

    class Watched:
        def __setitem__(self, key: int, value: Any) -> None:
            raise KeyError(key)

    def by_method(t: Any) -> Any:
        parts, u = [Watched(), Watched()], 0
        for _ in range(t):
            u = u + 1
        parts[u][0] = u
        return u

    for function in (sliced, by_method):
        with pytest.raises((jg.ScriptError, KeyError)) as caught:
            jg.script(function)(jg.asarray(1))
        if function is sliced:
            assert "needs a Python number" in str(caught.value) and "hint:" in str(caught.value)


def test_what_a_step_reads_is_read_at_each_call() -> None:
    class Part:
        def __init__(self, total: int) -> None:
            self.total = total

    parts = [Part(1), Part(2)]
    at = [1]

    @jg.script
    def read(t: Any) -> Any:
        return t * parts[at[0]].total

    assert float(read(jg.asarray(1.0))) == 2
    parts[1].total = 5
    assert float(read(jg.asarray(1.0))) == 5
    parts[1] = Part(7)
    assert float(read(jg.asarray(1.0))) == 7
    at[0] = 0
    assert float(read(jg.asarray(1.0))) == 1


def test_what_a_step_sets_is_set_at_each_call() -> None:
    class Part:
        def __init__(self, total: Any) -> None:
            self.total = total
            self.pair = [0, 0]

    parts = [Part(0), Part(0)]

    @jg.script
    def write(t: Any, i: int) -> Any:
        parts[i].total = t * 2
        parts[i].pair[i] += 3
        return t

    for turn in range(3):
        write(jg.asarray(float(turn)), 1)
        assert float(parts[1].total) == turn * 2 and parts[1].pair == [0, 3 * turn + 3]


def test_a_step_that_only_some_of_the_chosen_elements_allow() -> None:
    """The error of a chosen element is raised by the call that chooses it, and by no other."""

    def write(x: Any, n: int) -> Any:
        box = [0, 1, [4, 1], x]
        u = 0
        while x > u:
            u = u + n
        box[2 + u % 2][1] += 1
        return box[2], u

    script = jg.script(write)
    for x in (0.5, -1.0, 1.5):
        assert script(jg.asarray(x), 2) == write(jg.asarray(x), 2)
    for call in (script, write):
        with pytest.raises(IndexError, match="1 indices for a tensor of rank 0"):
            call(jg.asarray(0.5), 1)
