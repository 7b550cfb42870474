"""Forms of Python that read state in ways of their own, so that every instruction of a function is met."""

from __future__ import annotations

from tests.capture.rule import Rule, rule


def form(
    name: str, text: str, *edits: str, lines: str = "", state: str = "G$n = 2", cells: str = "", refuses: str = ""
) -> Rule:
    return rule(name, text, *edits, lines=lines, state=state, cells=cells, refuses=refuses)


_G = "G$n = $v"

SYNTAX: tuple[Rule, ...] = (
    form(
        "error of a helper", "f$n(G$n)", "G$n = 9", "G$n = 1", state="G$n = 2\ndef f$n(k):\n    return {1: 4, 2: 5}[k]"
    ),
    form("tuple", "(G$n, 1)[0]", _G),
    form("list of constants", "[1, 2, 3, 4][1] + G$n", _G),
    form("set of constants", "len({1, 2, 3, 4, G$n})", "G$n = 9", "G$n = 1"),
    form("set by star", "len({*(1, 2, 3), *[G$n]})", "G$n = 9", "G$n = 1"),
    form("tuple by star", "(*[G$n], *(1, 2))[0]", _G),
    form("dict by star", "{**{'a': G$n}, 'b': 2}['a']", _G),
    form("dict of constant keys", "{'a': G$n, 'b': 2, 'c': 3}['a']", _G),
    form("call by name", "plus(p=G$n, q=2)", _G),
    form("call by star and name", "plus(*[G$n], **{'q': 2})", _G),
    form("call by two mappings", "plus(**{'p': G$n}, **{'q': 2})", _G),
    form("slice with a step", "[1, 2, 3][::2][1] + G$n", _G),
    form("f-string with all parts", "len(f'{G$n!r:>5}{G$n!s}{G$n!a}{G$n}{G$n:{3}}')", "G$n = 10**7", "G$n = 1"),
    form("constant operators", "(+G$n) + (not G$n) + (G$n is not None) + (~G$n) + (G$n != 3)", "G$n = 3", "G$n = 0"),
    form(
        "recursion", "down$n(3)", _G, state="G$n = 2\ndef down$n(k):\n    return G$n if k == 0 else down$n(k - 1) + 1"
    ),
    form("builtin shadowed later", "len(bin(5))", "bin = lambda p: 'x' * 8", "globals().pop('bin', None)", state=""),
    form(
        "builtin in a helper shadowed later",
        "o$n()",
        "oct = lambda p: 'x' * 8",
        "globals().pop('oct', None)",
        state="def o$n():\n    return len(oct(9))",
    ),
    form("lambda default", "(lambda p=G$n: p)()", _G),
    form("string methods", "len('a,b,c'.split(',')[0] * G$n)", "G$n = 3", "G$n = 5"),
    form("comparison of containers", "(1 if [G$n, 2] == [1, 2] else 2)", "G$n = 1", "G$n = 3"),
    form("docstring of a helper", "len(d$n.__doc__)", "d$n.__doc__ = 'longer'", state='def d$n():\n    "abc"'),
    form("name of a helper", "len(d$n.__name__)", "d$n.__name__ = 'longer'", state="def d$n():\n    pass"),
    form(
        "deleted variable of an inner function",
        "s$n",
        _G,
        lines="def inner$n():\n    k = G$n\n    f = lambda: k\n    r = f()\n    del k\n    return r\ns$n = inner$n()",
    ),
    form("annotations of a class", "T$n.v", _G, lines="class T$n:\n    v: int = G$n"),
    form("class body that deletes", "T$n.v", _G, lines="class T$n:\n    w = G$n\n    v = w\n    del w"),
    form(
        "class body that reads a variable around it",
        "T$n.v",
        "set$n($v)",
        lines="class T$n:\n    v = K$n",
        cells="K$n = 1\nglobal set$n\ndef set$n(value):\n    nonlocal K$n\n    K$n = value",
        state="",
    ),
    form("decorator", "inner$n()", _G, lines="@echo\ndef inner$n(value=G$n):\n    return value"),
    form(
        "keyword only argument", "inner$n(value=G$n)", _G, lines="def inner$n(*rest, value, **more):\n    return value"
    ),
    form("local of the same name", "r$n", "G$n = 4", lines="def inner$n(G$n):\n    return G$n\nr$n = inner$n(3) + G$n"),
    form(
        "locals()",
        "r$n",
        _G,
        lines="def inner$n(p):\n    q = p\n    return locals()['q']\nr$n = inner$n(G$n)",
        refuses="a script is rewritten, so that locals() would give other variables",
    ),
)
