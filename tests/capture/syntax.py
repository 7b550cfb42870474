"""Forms of Python that read state in ways of their own, so that every instruction of a function is met."""

from __future__ import annotations

from capture.rule import Rule, rule


def _form(name: str, text: str, *edits: str, lines: str = "", state: str = "G$n = 2", cells: str = "") -> Rule:
    return rule(name, text, *edits, lines=lines, state=state, cells=cells)


_G = "G$n = $v"

SYNTAX: tuple[Rule, ...] = (
    _form("tuple", "(G$n, 1)[0]", _G),
    _form("list of constants", "[1, 2, 3, 4][1] + G$n", _G),
    _form("set of constants", "len({1, 2, 3, 4, G$n})", "G$n = 9", "G$n = 1"),
    _form("set by star", "len({*(1, 2, 3), *[G$n]})", "G$n = 9", "G$n = 1"),
    _form("tuple by star", "(*[G$n], *(1, 2))[0]", _G),
    _form("dict by star", "{**{'a': G$n}, 'b': 2}['a']", _G),
    _form("dict of constant keys", "{'a': G$n, 'b': 2, 'c': 3}['a']", _G),
    _form("call by name", "plus(p=G$n, q=2)", _G),
    _form("call by star and name", "plus(*[G$n], **{'q': 2})", _G),
    _form("call by two mappings", "plus(**{'p': G$n}, **{'q': 2})", _G),
    _form("slice with a step", "[1, 2, 3][::2][1] + G$n", _G),
    _form("item set in a local", "r$n['a']", _G, lines="r$n = {}\nr$n['a'] = G$n"),
    _form("slice set in a local", "r$n[0]", _G, lines="r$n = [1, 2]\nr$n[0:1] = [G$n]"),
    _form(
        "item deleted in a local",
        "sum(r$n.values())",
        "G$n = 'b'",
        "G$n = 'a'",
        lines="r$n = {'a': 1, 'b': 2}\ndel r$n[G$n]",
        state="G$n = 'a'",
    ),
    _form("local deleted", "s$n", _G, lines="r$n = G$n\ns$n = r$n\ndel r$n"),
    _form(
        "deleted variable of an inner function",
        "s$n",
        _G,
        lines="def inner$n():\n    k = G$n\n    f = lambda: k\n    r = f()\n    del k\n    return r\ns$n = inner$n()",
    ),
    _form("annotated variable", "r$n", _G, lines="r$n: int = G$n"),
    _form("annotations of a class", "T$n.v", _G, lines="class T$n:\n    v: int = G$n"),
    _form("class body that deletes", "T$n.v", _G, lines="class T$n:\n    w = G$n\n    v = w\n    del w"),
    _form(
        "class with a base",
        "T$n().m()",
        "B$n.k = $v",
        lines="class T$n(B$n):\n    def m(self):\n        return super().k",
        state="class B$n:\n    k = 1",
    ),
    _form(
        "class body that reads a variable around it",
        "T$n.v",
        "set$n($v)",
        lines="class T$n:\n    v = K$n",
        cells="K$n = 1\nglobal set$n\ndef set$n(value):\n    nonlocal K$n\n    K$n = value",
        state="",
    ),
    _form("decorator", "inner$n()", _G, lines="@echo\ndef inner$n(value=G$n):\n    return value"),
    _form(
        "keyword only argument", "inner$n(value=G$n)", _G, lines="def inner$n(*rest, value, **more):\n    return value"
    ),
    _form("assert", "r$n", "G$n = 3", "G$n = 4", lines="assert G$n > 1, 'too small'\nr$n = G$n"),
    _form(
        "failing assert",
        "r$n",
        _G,
        lines="try:\n    assert G$n > 1\n    r$n = 5\nexcept AssertionError as e$n:\n    r$n = len(e$n.args) + 6",
    ),
    _form(
        "raise from",
        "r$n",
        _G,
        lines="try:\n    try:\n        r$n = {2: 4}[G$n]\n    except KeyError as e$n:\n        raise ValueError(7) from e$n\nexcept ValueError as e$n:\n    r$n = e$n.args[0]",
    ),
    _form(
        "exception groups",
        "r$n",
        _G,
        lines="r$n = 1\ntry:\n    if G$n:\n        raise ExceptionGroup('g', [ValueError(3)])\nexcept* ValueError as e$n:\n    r$n = e$n.exceptions[0].args[0]",
    ),
    _form(
        "finally with a return",
        "r$n",
        _G,
        lines="def inner$n():\n    try:\n        return G$n\n    finally:\n        G$n\nr$n = inner$n()",
    ),
    _form(
        "with two managers",
        "r$n",
        _G,
        lines="with contextlib.nullcontext(G$n) as q$n, contextlib.suppress(KeyError):\n    r$n = q$n\n    raise KeyError",
    ),
    _form(
        "with that passes an error on",
        "r$n",
        _G,
        lines="r$n = 5\ntry:\n    with contextlib.nullcontext():\n        r$n = {2: 3}[G$n]\nexcept KeyError:\n    pass",
    ),
    _form(
        "while with else",
        "r$n",
        "G$n = 4",
        "G$n = 1",
        lines="r$n = 0\nwhile r$n < G$n:\n    r$n += 1\nelse:\n    r$n += 5",
    ),
    _form(
        "while true",
        "r$n",
        "G$n = 4",
        "G$n = 1",
        lines="r$n = 0\nwhile True:\n    r$n += 1\n    if r$n > G$n:\n        break",
    ),
    _form(
        "loop until None",
        "r$n",
        "L$n[1] = None",
        "L$n[0] = 6",
        lines="r$n = i$n = 0\nwhile L$n[i$n] is not None:\n    r$n += L$n[i$n]\n    i$n += 1",
        state="L$n = [1, 2, None]",
    ),
    _form(
        "loop while None",
        "r$n",
        "L$n[0] = 4",
        "L$n[1] = 6",
        lines="i$n = 0\nwhile (r$n := L$n[i$n]) is None:\n    i$n += 1",
        state="L$n = [None, 2, 3]",
    ),
    _form(
        "nested loops with a break",
        "r$n",
        _G,
        lines="r$n = 0\nfor i$n in range(3):\n    for j$n in range(3):\n        if j$n == G$n:\n            break\n        r$n += 1",
    ),
    _form("chained assignment", "r$n + s$n", _G, lines="r$n = s$n = G$n"),
    _form("exchanged variables", "r$n", _G, lines="r$n, s$n, q$n = 1, 2, G$n\nr$n, s$n, q$n = q$n, r$n, s$n"),
    _form("f-string with all parts", "len(f'{G$n!r:>5}{G$n!s}{G$n!a}{G$n}{G$n:{3}}')", "G$n = 10**7", "G$n = 1"),
    _form("constant operators", "(+G$n) + (not G$n) + (G$n is not None) + (~5) + (G$n != 3)", "G$n = 3", "G$n = 0"),
    _form(
        "every arithmetic",
        "r$n",
        "G$n = 5",
        "G$n = 3",
        lines="r$n = G$n + 7\nr$n -= 1\nr$n *= 3\nr$n //= 2\nr$n %= 11\nr$n <<= 1\nr$n |= 1\nr$n &= 31\nr$n ^= 2\nr$n >>= 1\nr$n **= 2\nr$n /= 2",
    ),
    _form("import of a submodule", "abc$n.Sequence.__len__ and G$n", _G, lines="import collections.abc as abc$n"),
    _form(
        "import of two names",
        "p$n(q$n, 0) + G$n",
        _G,
        lines="from operator import add as p$n, truth\nq$n = int(truth(1))",
    ),
    _form(
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
    _form(
        "generator that is sent to",
        "r$n",
        _G,
        lines="g$n = turn$n()\nnext(g$n)\nr$n = g$n.send(3)",
        state="G$n = 2\ndef turn$n():\n    got = yield 1\n    yield got * G$n",
    ),
    _form(
        "generator that is thrown into",
        "r$n",
        _G,
        lines="g$n = turn$n()\nnext(g$n)\nr$n = g$n.throw(KeyError)",
        state="G$n = 2\ndef turn$n():\n    try:\n        yield 1\n    except KeyError:\n        yield G$n",
    ),
    _form(
        "generator with a return",
        "r$n",
        _G,
        lines="r$n = list(outer$n())[-1]",
        state="G$n = 2\ndef turn$n():\n    yield 1\n    return G$n\ndef outer$n():\n    yield (yield from turn$n())",
    ),
    _form(
        "coroutine run by hand",
        "r$n",
        _G,
        lines="try:\n    main$n().send(None)\nexcept StopIteration as e$n:\n    r$n = e$n.value",
        state="G$n = 2\nasync def step$n():\n    return G$n\nasync def main$n():\n    return await step$n()",
    ),
    _form(
        "recursion", "down$n(3)", _G, state="G$n = 2\ndef down$n(k):\n    return G$n if k == 0 else down$n(k - 1) + 1"
    ),
    _form(
        "long jumps and many names",
        "r$n",
        _G,
        lines="r$n = 0\nfor i$n in range(2):\n" + "\n".join(f"    r$n += G$n * {k}" for k in range(40)),
    ),
    _form("builtin shadowed later", "len(bin(5))", "bin = lambda p: 'x' * 8", "globals().pop('bin', None)", state=""),
    _form(
        "builtin in a helper shadowed later",
        "o$n()",
        "oct = lambda p: 'x' * 8",
        "globals().pop('oct', None)",
        state="def o$n():\n    return len(oct(9))",
    ),
    _form(
        "local of the same name", "r$n", "G$n = 4", lines="def inner$n(G$n):\n    return G$n\nr$n = inner$n(3) + G$n"
    ),
    _form("locals()", "r$n", _G, lines="def inner$n(p):\n    q = p\n    return locals()['q']\nr$n = inner$n(G$n)"),
    _form("exec", "r$n['q']", _G, lines="r$n = {'G': G$n}\nexec('q = G', r$n)"),
    _form("lambda default", "(lambda p=G$n: p)()", _G),
    _form("string methods", "len('a,b,c'.split(',')[0] * G$n)", "G$n = 3", "G$n = 5"),
    _form("comparison of containers", "(1 if [G$n, 2] == [1, 2] else 2)", "G$n = 1", "G$n = 3"),
    _form("docstring of a helper", "len(d$n.__doc__)", "d$n.__doc__ = 'longer'", state='def d$n():\n    "abc"'),
    _form("name of a helper", "len(d$n.__name__)", "d$n.__name__ = 'longer'", state="def d$n():\n    pass"),
)
