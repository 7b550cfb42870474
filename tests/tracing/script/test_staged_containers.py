"""Containers, match and try in scripts that meet staged numbers: Python's answer, or an error at the line."""

from __future__ import annotations

from typing import Any

import pytest

import jitgraph as jg
from jitgraph.tracing.script import loops
from tests.tracing.script.scripts import define

PROGRAMS = {
    "a set and a dict by the variable of a loop": """
    s, table = 0, {1: 10, 2: 20, 5: 7}
    for i in range(n):
        if i in {3, 5}:
            s += 1
        s += table.get(i, 0) * 2 + (i in table)
    return s
""",
    "a count in a dict, which a loop of known length unrolls": """
    c, seen = {}, defaultdict(list)
    for i in range(40):
        c[i % 3] = c.get(i % 3, 0) + 1
        seen[i % 4].append(i)
    return c, dict(seen), n
""",
    "a memo": """
    memo, total = {}, 0
    for i in range(12):
        if i % 4 not in memo:
            memo[i % 4] = i * 2
        total += memo[i % 4]
    return total, n
""",
    "elements of lists, rows and dicts set by the variable of a loop": """
    h, g, d, t = [0, 0, 0], [[0, 0], [0, 0]], {0: 1, 1: 1}, [0.0, 0.5]
    for i in range(n):
        h[i % 3] += i
        g[i % 2][i // 4 % 2] += 1
        d[i % 2] = d[i % 2] * 2 + h[-1]
        t[-1 - i % 2] = t[i % 2] + i * 0.5
        h[0], last = h[1], h[i % 3]
    return h, g, d, t
""",
    "rows indexed on by calls, each once and in Python's order": """
    rows, count, s = [[1, 2], [3, 4]], 0, 0
    def other(k):
        nonlocal count
        rows[0][1] += k
        count += 1
        return count % 2
    try:
        s = rows[2][other(1)]
    except IndexError:
        s = 100 + count
    for i in range(n):
        s += rows[i % 2][other(i)] * 10 + {0: rows, 1: rows}[i % 2][other(i)][int(i > 2)]
        s -= rows[abs(i) % 2][max(i, 3) % 2] + rows[i % 2][other(rows[i % 2][1] % 2)]
    return s, count, rows
""",
    "elements that become floats, beside one that stays an int": """
    s = [1] * 12
    for k in range(1, 12):
        s[k] = s[k - 1] * 0.5
    return s, n
""",
    "match": """
    s, seen = 0, 0
    for k in range(n):
        match k:
            case 0:
                s += 1
            case 1 | 2:
                s += 10
            case int() if k > 5:
                s += 100
            case float() | None:
                s += 1000
            case m if m % 2:
                s += m
            case other:
                seen = seen + other
        match k > 3:
            case True:
                s += 7
            case False:
                s -= 1
    return s, seen
""",
    "match after a branch": """
    k = 3 if n > 4 else 1
    match k:
        case 1:
            return 5
        case 3.0:
            return 6
    return 7
""",
    "an identity with bools": """
    flag, s = False, 0
    for k in range(n):
        flag = k % 2 == 0
        if flag is True:
            s += 1
        if flag is not False and k is not None:
            s += 10
    return s, flag is True
""",
    "a try around what always works": """
    s = 0
    for k in range(n):
        try:
            s += 5 // (k + 1)
        except (ZeroDivisionError, KeyError):
            s += 100
        finally:
            s += 1
    return s
""",
    "a try in a loop that is unrolled": """
    s = 0
    for k in range(12):
        try:
            s += 5 // (k - 2)
        except ZeroDivisionError:
            s += 100
    return s, n
""",
    "numbers in containers compared and sorted": """
    best = [3, 1]
    for k in range(n):
        best = sorted([*best, (k * 7) % 5])[-2:]
    return best, best.index(max(best)), best.count(3), 3 in best
""",
}
REFUSED = {
    "a handler that no graph enters": """
    s = 0
    for k in range(n):
        try:
            s += 5 // k  # here
        except ZeroDivisionError:
            s += 100
    return s
""",
    "a handler around a call": """
    def inner(k):
        return [1, 2][k]  # here
    try:
        s = inner(int(n))
    except LookupError:
        s = 0
    return s
""",
    "a key that may be new": """
    c = {0: 1}
    for i in range(n):
        c[i % 3] = c.get(i % 3, 0) + 1  # here
    return c
""",
    "a default that would be put in": """
    c = defaultdict(int)
    s = 0
    for i in range(n):
        s += c[i]  # here
    return s
""",
    "a row of its own": """
    rows = [[1, 2], [3, 4]]
    for i in range(n):
        row = rows[i % 2]  # here
        row[0] = 5
    return rows
""",
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_means_what_python_means(name: str) -> None:
    program = define(f"from collections import defaultdict\ndef program(n):{PROGRAMS[name]}")
    scripted = jg.script(program)
    for n in (0, 1, 7, 9):
        mine, due = scripted(jg.asarray(n)), program(jg.asarray(n))
        assert repr(mine) == repr(due)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_graph_does_is_refused(name: str) -> None:
    program = define(f"from collections import defaultdict\ndef program(n):{REFUSED[name]}")
    line = 3 + REFUSED[name][: REFUSED[name].index("# here")].count("\n") - 1
    with pytest.raises(jg.ScriptError, match=rf":{line}\n.*hint: "):
        jg.script(program)(jg.asarray(3))


@pytest.mark.parametrize("elements", ["n, i, 2", "i, n, i", "2, n, i", "n * 0.5, i * 0.5, 1.5"])
def test_tensors_and_numbers_in_one_list_are_told_apart(elements: str) -> None:
    """Which of both an element is decides the dtype of what is computed from it."""
    head = "def program(n):\n    x = n\n    for i in range(n):\n"
    program = define(f"{head}        x = [{elements}][i % 3]\n    return x")
    with pytest.raises(jg.ScriptError, match=r"an element is a tensor or a Python number.*\n.*:4\n.*hint: "):
        jg.script(program)(jg.asarray(3))


OVER_LISTS = {
    "a sieve": """
    for i in range(2, size):
        if s[i]:
            for j in range(i * i, size, i):
                s[j] = 0
    return s, n
""",
    "a Fibonacci sequence": """
    for i in range(n):
        for k in range(2, size):
            s[k] = s[k - 1] + s[k - 2]
    return s, n
""",
    "attributes": """
    particles = [SimpleNamespace(x=k) for k in range(size)]
    for i in range(n):
        for p in particles:
            p.x += i
    return [p.x for p in particles], n
""",
}


@pytest.mark.parametrize("name", OVER_LISTS)
def test_a_loop_is_recorded_as_often_for_long_lists_as_for_short_ones(name: str, monkeypatch: Any) -> None:
    recordings: list[int] = []
    scope: dict[str, Any] = {"enter": loops._Carry.enter, "recordings": recordings}
    text = "def counted(carry, tensors):\n    recordings.append(1)\n    enter(carry, tensors)"
    exec(compile(text, loops.__file__, "exec"), scope)  # as code of the package, whose state no trace watches
    monkeypatch.setattr(loops._Carry, "enter", scope["counted"])
    counts = []
    for size in (12, 24):
        text = f"from types import SimpleNamespace\ndef program(n):\n    size, s = {size}, [1] * {size}"
        program = define(text + OVER_LISTS[name])
        assert repr(jg.script(program)(jg.asarray(3))) == repr(program(jg.asarray(3)))
        counts.append(len(recordings))
        recordings.clear()
    assert 0 < counts[0] == counts[1] <= 16
