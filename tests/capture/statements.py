"""Statements that read state in ways of their own: assignments, loops, imports, ``match``."""

from __future__ import annotations

from tests.capture.rule import Rule
from tests.capture.syntax import form

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
)
