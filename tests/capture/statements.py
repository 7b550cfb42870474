"""Statements that read state in ways of their own: assignments, loops, ``match``, errors, generators."""

from __future__ import annotations

from capture.rule import Rule
from capture.syntax import form

_G = "G$n = $v"

STATEMENTS: tuple[Rule, ...] = (
    form("item set in a local", "r$n['a']", _G, lines="r$n = {}\nr$n['a'] = G$n"),
    form("slice set in a local", "r$n[0]", _G, lines="r$n = [1, 2]\nr$n[0:1] = [G$n]"),
    form(
        "item deleted in a local",
        "sum(r$n.values())",
        "G$n = 'b'",
        "G$n = 'a'",
        lines="r$n = {'a': 1, 'b': 2}\ndel r$n[G$n]",
        state="G$n = 'a'",
    ),
    form("local deleted", "s$n", _G, lines="r$n = G$n\ns$n = r$n\ndel r$n"),
    form("annotated variable", "r$n", _G, lines="r$n: int = G$n"),
    form(
        "while true",
        "r$n",
        "G$n = 4",
        "G$n = 1",
        lines="r$n = 0\nwhile True:\n    r$n += 1\n    if r$n > G$n:\n        break",
    ),
    form(
        "loop until None",
        "r$n",
        "L$n[1] = None",
        "L$n[0] = 6",
        lines="r$n = i$n = 0\nwhile L$n[i$n] is not None:\n    r$n += L$n[i$n]\n    i$n += 1",
        state="L$n = [1, 2, None]",
    ),
    form(
        "loop while None",
        "r$n",
        "L$n[0] = 4",
        "L$n[1] = 6",
        lines="i$n = 0\nwhile (r$n := L$n[i$n]) is None:\n    i$n += 1",
        state="L$n = [None, 2, 3]",
    ),
    form("chained assignment", "r$n + s$n", _G, lines="r$n = s$n = G$n"),
    form("exchanged variables", "r$n", _G, lines="r$n, s$n, q$n = 1, 2, G$n\nr$n, s$n, q$n = q$n, r$n, s$n"),
    form(
        "every arithmetic",
        "r$n",
        "G$n = 5",
        "G$n = 3",
        lines="""\
r$n = G$n + 7
r$n -= 1
r$n *= 3
r$n //= 2
r$n %= 11
r$n <<= 1
r$n |= 1
r$n &= 31
r$n ^= 2
r$n >>= 1
r$n **= 2
r$n /= 2""",
    ),
    form("import of a submodule", "abc$n.Sequence.__len__ and G$n", _G, lines="import collections.abc as abc$n"),
    form(
        "import of two names",
        "p$n(q$n, 0) + G$n",
        _G,
        lines="from operator import add as p$n, truth\nq$n = int(truth(1))",
    ),
    form(
        "match of everything",
        "r$n",
        "G$n = 2.5",
        "G$n = [1, 2]",
        "G$n = [1, 2, 5]",
        "G$n = {'k': 6}",
        "G$n = 'b'",
        "G$n = Box(a=4)",
        "G$n = None",
        lines="""\
match G$n:
    case 0 | 1:
        r$n = 1
    case int(r$n):
        pass
    case [r$n, 2]:
        pass
    case [_, _, *r$n]:
        r$n = r$n[0]
    case {"k": r$n}:
        pass
    case "a" | "b" as q$n:
        r$n = len(q$n) + 2
    case Box(a=r$n):
        pass
    case None:
        r$n = 8
    case _:
        r$n = 9""",
    ),
    form(
        "long jumps and many names",
        "r$n",
        _G,
        lines="r$n = 0\nfor i$n in range(2):\n" + "\n".join(f"    r$n += G$n * {k}" for k in range(40)),
    ),
    form("exec", "r$n['q']", _G, lines="r$n = {'G': G$n}\nexec('q = G', r$n)"),
    form("error under a condition", "G$n", "G$n = 9", "G$n = 1", lines="if G$n > 5:\n    raise ValueError(G$n)"),
    form(
        "class with a base",
        "T$n().m()",
        "B$n.k = $v",
        lines="class T$n(B$n):\n    def m(self):\n        return super().k",
        state="class B$n:\n    k = 1",
    ),
    form("assert", "r$n", "G$n = 3", "G$n = 4", lines="assert G$n > 1, 'too small'\nr$n = G$n"),
    form(
        "failing assert",
        "r$n",
        _G,
        lines="try:\n    assert G$n > 1\n    r$n = 5\nexcept AssertionError as e$n:\n    r$n = len(e$n.args) + 6",
    ),
    form(
        "raise from",
        "r$n",
        _G,
        lines="""\
try:
    try:
        r$n = {2: 4}[G$n]
    except KeyError as e$n:
        raise ValueError(7) from e$n
except ValueError as e$n:
    r$n = e$n.args[0]""",
    ),
    form(
        "exception groups",
        "r$n",
        _G,
        lines="""\
r$n = 1
try:
    if G$n:
        raise ExceptionGroup('g', [ValueError(3)])
except* ValueError as e$n:
    r$n = e$n.exceptions[0].args[0]""",
    ),
    form(
        "finally with a return",
        "r$n",
        _G,
        lines="def inner$n():\n    try:\n        return G$n\n    finally:\n        G$n\nr$n = inner$n()",
    ),
    form(
        "with two managers",
        "r$n",
        _G,
        lines="""\
with contextlib.nullcontext(G$n) as q$n, contextlib.suppress(KeyError):
    r$n = q$n
    raise KeyError""",
    ),
    form(
        "with that passes an error on",
        "r$n",
        _G,
        lines="""\
r$n = 5
try:
    with contextlib.nullcontext():
        r$n = {2: 3}[G$n]
except KeyError:
    pass""",
    ),
    form(
        "while with else",
        "r$n",
        "G$n = 4",
        "G$n = 1",
        lines="r$n = 0\nwhile r$n < G$n:\n    r$n += 1\nelse:\n    r$n += 5",
    ),
    form(
        "nested loops with a break",
        "r$n",
        _G,
        lines="""\
r$n = 0
for i$n in range(3):
    for j$n in range(3):
        if j$n == G$n:
            break
        r$n += 1""",
    ),
    form(
        "generator that is sent to",
        "r$n",
        _G,
        lines="g$n = turn$n()\nnext(g$n)\nr$n = g$n.send(3)",
        state="G$n = 2\ndef turn$n():\n    got = yield 1\n    yield got * G$n",
    ),
    form(
        "generator that is thrown into",
        "r$n",
        _G,
        lines="g$n = turn$n()\nnext(g$n)\nr$n = g$n.throw(KeyError)",
        state="G$n = 2\ndef turn$n():\n    try:\n        yield 1\n    except KeyError:\n        yield G$n",
    ),
    form(
        "generator with a return",
        "r$n",
        _G,
        lines="r$n = list(outer$n())[-1]",
        state="G$n = 2\ndef turn$n():\n    yield 1\n    return G$n\ndef outer$n():\n    yield (yield from turn$n())",
    ),
    form(
        "coroutine run by hand",
        "r$n",
        _G,
        lines="try:\n    main$n().send(None)\nexcept StopIteration as e$n:\n    r$n = e$n.value",
        state="G$n = 2\nasync def step$n():\n    return G$n\nasync def main$n():\n    return await step$n()",
    ),
)
