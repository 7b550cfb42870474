"""Tensors and containers between which a tensor chooses: later writes are seen as in Python, or are refused."""

from __future__ import annotations

import pytest

import jitgraph as jg
from tests.tracing.script.scripts import define

HEAD = """
from dataclasses import make_dataclass

Box = make_dataclass("Box", [("value", object)])

def program(x, n):
    t = x.sum() > n
"""
PROGRAMS = {
    "an element of a chosen list": """
    a, b = [x * 1, x * 2], [x * 3, x * 4]
    row = a if t else b
    row[0] = row[0] * 10
    row[-1] += 1
    return a, b, row
""",
    "a list of numbers": """
    a, b = [1, 2], [3, 4]
    row = a if t else b
    row[0] += 5
    a[1] = 7
    return a, b, row
""",
    "an original after the choice": """
    a, b = [x * 1, x * 2], [x * 3, x * 4]
    row = a if t else b
    a[0] = x * 7
    b[1] = x * 8
    return a, b, row
""",
    "a list bound by an if": """
    a, b = [x * 1, x * 2], [x * 3, x * 4]
    if t:
        row = a
        row[1] = x * 5
    else:
        row = b
    row[0] = row[0] * 10
    return a, b, row
""",
    "a list bound by one branch": """
    row = b = [1.0, 2.0]
    if t:
        row = [3.0, 4.0]
    row[0] = 5.0
    return b, row
""",
    "a list that a loop returns within a tuple, or writes into": """
    box, i = [x * 1], jg.asarray(0)
    while i < 4:
        i = i + 1
        out = [x]
        for j in range(11):
            out.append(x * j)
        else:
            if x.sum() + i > n:
                return i, box
        box[0] = box[0] * 0.5 + x
    return i, box
""",
    "a list that both branches make": """
    if t:
        p = q = [x * 1, x * 2]
    else:
        p = q = [x * 3, x * 4]
    p[0] = x * 9
    return p, q
""",
    "two names that are one on one side": """
    p = [1.0, 2.0]
    q = [3.0, 4.0]
    if t:
        q = p
    p[0] = 9.0
    q[1] = 8.0
    return p, q
""",
    "a chosen tensor": """
    a, b = x * 1, x * 2
    y = a if t else b
    y[0] = 100.0
    y += 1
    a += 3
    b[1] = 50.0
    return a, b, y
""",
    "a tensor bound by an if": """
    a, b = x * 1, x * 2
    if t:
        y = a
    else:
        y = b
    y *= 3
    y[1] = 0.5
    return a, b, y
""",
    "an argument that one branch replaces": """
    if t:
        x = x * 2
    x += 1
    return x
""",
    "a tensor chosen twice": """
    a, b, c = x * 1, x * 2, x * 3
    y = a if t else b
    z = y if x[0] > 1.5 else c
    z += 10
    a += 1
    y += 100
    return a, b, c, y, z
""",
    "a choice in a branch": """
    a, b, c = x * 1, x * 2, x * 3
    y = c
    if x[0] > 1.5:
        y = a if t else b
        y += 5
    y += 10
    c += 1
    return a, b, c, y
""",
    "a write in a branch": """
    a, b = x * 1, x * 2
    y = a if t else b
    if x[0] > 1.5:
        y += 10
    else:
        b += 1
    return a, b, y
""",
    "a write in a loop": """
    a, b = x * 1, x * 2
    y = a if t else b
    k = 0
    while k < x[0] * 3:
        y += 10
        a[0] = a[0] * 2
        k += 1
    return a, b, y
""",
    "an element set in a branch and a loop": """
    a, b = [x * 1, x * 2], [x * 3, x * 4]
    row = a if t else b
    if x[0] > 1.5:
        row[0] = x * 10
    for i in range(20):
        row[1] = row[1] + 1
        b[i % 2] = b[i % 2] + i
    return a, b, row
""",
    "a tensor that both branches name twice": """
    if t:
        p = q = x * 1
    else:
        p = q = x * 2
    p += 5
    return p, q
""",
    "tensors within a chosen list": """
    a, b = [x * 1, x * 2], [x * 3, x * 4]
    row = a if t else b
    row[0] += 5
    v = row[1]
    v[0] = 40.0
    a[0] *= 2
    return a, b, row
""",
    "a tensor that stays": """
    y, z = x, x
    if t:
        z = y
    z += 1
    return x, y, z
""",
    "the value of and": """
    a, b = x.sum(), x.sum() * 2
    y = a and b
    y += 1
    return a, b, y
""",
    "a dict": """
    a, b = {"k": x * 1, "l": x * 2}, {"k": x * 3, "l": x * 4}
    d = a if t else b
    d["k"] = d["k"] * 10
    d["l"] += 1
    a["l"] = x * 9
    return a, b, d
""",
    "rows in a chosen list": """
    a, b = [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]
    rows = a if t else b
    rows[0][1] = 9.0
    rows[1][0] += 2.0
    b[0][0] = 1.5
    row = rows[1]
    row[1] = 0.5
    return a, b, rows
""",
    "a row replaced in a chosen list": """
    a, b = [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]
    rows = a if t else b
    new = [10.0, 20.0]
    rows[0] = new
    new[0] = 30.0
    rows[0][1] = 40.0
    return a, b, rows, new
""",
    "an element by a staged number": """
    a, b = [1, 2, 3], [4, 5, 6]
    row = a if t else b
    for i in range(n):
        row[i % 3] += i
    return a, b, row
""",
    "elements among several targets": """
    a, b = [x * 1, x * 2], [x * 3, x * 4]
    row = a if t else b
    row[0], (y, row[1]) = row[1], (x * 7, row[0])
    row[1] = z = x * 8
    b[0], a[1] = a[1], b[0]
    z += 1
    return a, b, row, y, z
""",
    "an element that is changed in place": """
    a, b = [x, x * 2], {"k": x * 3, "l": x * 4}
    row, d = (a, b) if t else (a[::-1], {"k": b["l"], "l": x})
    row[0] += 1
    row[1] -= 2
    d["l"] *= 3
    i = int(x[0] > 2)
    row[i] += 10
    return a, b, row, d
""",
    "an element chosen by a number": """
    a, b = x, x * 2
    rows = [a, b, a, x * 3]
    k = int(x[0] > 1.5) + 1
    y = rows[k]
    y += 100
    z = rows[k - 1] if t else y
    z[0] = 5.0
    rows[k + 1][1] = 6.0
    a -= 1
    return a, b, rows, y, z
""",
    "whether two names are one": """
    a, b = x * 1, x * 2
    y = a if t else b
    row = [a] if t else [b, 1][:1]
    other = row if x[0] > 1.5 else [b]
    for i in range(20):
        if x[0] + i > 2.5:
            y = b
    return (1 if y is a else 2), (1 if y is not b else 2), (1 if other is row else 2), y is x, a is a
""",
    "a copy": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = (a if t else b).copy()
    row.append(5.0)
    row[0] = 7.0
    return a, b, row
""",
}
REFUSED = {
    "append": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = a if t else b
    row.append(5.0)  # here
    return a, b, row
""",
    "append to an original": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = a if t else b
    b.append(5.0)  # here
    return a, b, row
""",
    "augmented assignment": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = a if t else b
    row += [5.0]  # here
    return a, b, row
""",
    "a slice": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = a if t else b
    row[:1] = [5.0]  # here
    return a, b, row
""",
    "reverse": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = a if t else b
    row.reverse()  # here
    return a, b, row
""",
    "del": """
    a, b = [1.0, 2.0], [3.0, 4.0]
    row = a if t else b
    del row[0]  # here
    return a, b, row
""",
    "a new key": """
    a, b = {"k": 1.0}, {"k": 2.0}
    d = a if t else b
    d["l"] = 5.0  # here
    return a, b, d
""",
    "update": """
    a, b = {"k": 1.0}, {"k": 2.0}
    d = a if t else b
    d.update(k=3.0)  # here
    return a, b, d
""",
    "an attribute": """
    a, b = Box(x * 1), Box(x * 2)
    box = a if t else b
    box.value = x * 5  # here
    return a.value, b.value, box.value
""",
    "an attribute of an original, by name": """
    a, b = Box(x * 1), Box(x * 2)
    box = a if t else b
    setattr(a, "value", x * 5)  # here
    return a.value, b.value, box.value
""",
}


def outcome(function: object, n: float, first: float) -> str:
    """What a call gives, and what its argument then is."""
    x = jg.asarray([first, 2.0])
    result = function(x, n)  # type: ignore[operator]
    return repr((result, x))


@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_are_seen_as_in_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    program = define(HEAD + PROGRAMS[name].lstrip("\n"))
    scripted = jg.script(program)
    for n in (jg.asarray(2), jg.asarray(9)):
        for first in (1.0, 3.0):
            assert outcome(scripted, n, first) == outcome(program, n, first)


@pytest.mark.parametrize("name", REFUSED)
def test_other_changes_are_refused_at_their_line(name: str) -> None:
    source = HEAD + REFUSED[name].lstrip("\n")
    line = source[: source.index("# here")].count("\n") + 1
    with pytest.raises(jg.ScriptError, match=rf":{line}\n(.|\n)*hint: write into the chosen one"):
        jg.script(define(source))(jg.asarray([1.0, 2.0]), jg.asarray(2))
