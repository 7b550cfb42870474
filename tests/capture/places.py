"""Places of variables: global, of another module, cell, default, what a function or a generator gives."""

from __future__ import annotations

from tests.capture.rule import Rule, place

_CELL = """\
K$n = $old
global set$n
def set$n(value):
    nonlocal K$n
    K$n = value"""

PLACES: tuple[Rule, ...] = (
    place("global", "G$n", "G$n = $new", state="G$n = $old", path="G$n"),
    place("global of another module", "other.g$n", "other.g$n = $new", state="other.g$n = $old", path="other.g$n"),
    place(
        "name imported inside",
        "r$n",
        "other.g$n = $new",
        lines="from $other import g$n as r$n",
        state="other.g$n = $old",
        path="other.g$n",
    ),
    place(
        "module imported inside",
        "m$n.g$n",
        "other.g$n = $new",
        lines="import $other as m$n",
        state="other.g$n = $old",
        path="other.g$n",
    ),
    place("sys.modules", 'sys.modules["$other"].g$n', "other.g$n = $new", state="other.g$n = $old", path="other.g$n"),
    place(
        "name among the builtins",
        "u$n",
        "builtins.u$n = $new",
        "u$n = $new",
        state="builtins.u$n = $old",
    ),
    place("globals()", 'globals()["G$n"]', "G$n = $new", state="G$n = $old", path="G$n"),
    place("globals().get", 'globals().get("G$n")', "G$n = $new", state="G$n = $old", path="G$n"),
    place(
        "eval",
        'eval("G$n")',
        "G$n = $new",
        state="G$n = $old",
        path="G$n",
        refuses="a script is rewritten, so that eval would see other variables",
    ),
    place("cell of the function", "K$n", "set$n($new)", cells=_CELL),
    place(
        "cell of an inner function alone",
        "inner$n()",
        "set$n($new)",
        cells=_CELL,
        lines="def inner$n():\n    return K$n",
    ),
    place("cell of a comprehension alone", "[K$n for _ in (0,)][0]", "set$n($new)", cells=_CELL),
    place("cell of a generator expression alone", "list(K$n for _ in (0,))[0]", "set$n($new)", cells=_CELL),
    place("cell of a dict comprehension alone", "{0: K$n for _ in (0,)}[0]", "set$n($new)", cells=_CELL),
    place("cell of a lambda alone", "(lambda: K$n)()", "set$n($new)", cells=_CELL),
    place("cell two functions in", "(lambda: (lambda: K$n)())()", "set$n($new)", cells=_CELL),
    place(
        "cell of a helper",
        "read$n()",
        "set$n($new)",
        state="""\
def make$n():
    kept = $old
    def read():
        return kept
    def change(value):
        nonlocal kept
        kept = value
    return read, change
read$n, set$n = make$n()""",
    ),
    place(
        "cell of one of two closures of the same code",
        "read$n()",
        "set$n($new)",
        "read$n = again$n",
        state="""\
def make$n(kept):
    def read():
        return kept
    def change(value):
        nonlocal kept
        kept = value
    return read, change
read$n, set$n = make$n($old)
again$n, _ = make$n($new)""",
    ),
    place(
        "default",
        "d$n()",
        "d$n.__defaults__ = ($new,)",
        state="def d$n(value=$old):\n    return value",
        path="d$n.__defaults__[0]",
    ),
    place(
        "keyword default",
        "d$n()",
        'd$n.__kwdefaults__ = {"value": $new}',
        'd$n.__kwdefaults__["value"] = $new',
        state="def d$n(*, value=$old):\n    return value",
        path='d$n.__kwdefaults__["value"]',
    ),
    place(
        "default of the function itself",
        "p$n",
        'program.__kwdefaults__["p$n"] = $new',
        'program.__kwdefaults__ = {**program.__kwdefaults__, "p$n": $new}',
        parameter="p$n=$old",
        path='program.__kwdefaults__["p$n"]',
        scope="program",
        refuses="a float among the arguments is an input, whose value a trace does not know",
    ),
    place(
        "code of a helper",
        "h$n()",
        "h$n.__code__ = (lambda: $new).__code__",
        "h$n = lambda: $new",
        state="def h$n():\n    return $old",
    ),
    place(
        "helper in a helper",
        "h$n()",
        "g$n = lambda: $new",
        "H$n = $new",
        state="H$n = $old\ndef g$n():\n    return H$n\ndef h$n():\n    return g$n()",
        path="H$n",
    ),
    place(
        "helper given the name of a global",
        'get$n("G$n")',
        "G$n = $new",
        state="G$n = $old\ndef get$n(name):\n    return globals()[name]",
        path="G$n",
    ),
    place(
        "helper given an owner and a name",
        'get$n(B$n, "v")',
        "B$n.v = $new",
        "B$n = Box(v=$new)",
        state="B$n = Box(v=$old)\ndef get$n(owner, name):\n    return getattr(owner, name)",
        path="B$n.v",
    ),
    place(
        "helper that calls what it is given",
        'call$n(getattr, B$n, "v")',
        "B$n.v = $new",
        state="B$n = Box(v=$old)\ndef call$n(function, *values):\n    return function(*values)",
        path="B$n.v",
    ),
    place("generator", "next(g$n())", "G$n = $new", state="G$n = $old\ndef g$n():\n    yield G$n", path="G$n"),
    place(
        "generator that delegates",
        "list(h$n())[0]",
        "G$n = $new",
        state="G$n = $old\ndef g$n():\n    yield G$n\ndef h$n():\n    yield from g$n()",
        path="G$n",
    ),
    place("attribute of a function", "f$n.v", "f$n.v = $new", state="def f$n():\n    pass\nf$n.v = $old", path="f$n.v"),
    place(
        "local variables on the way",
        "s$n.v",
        "B$n.v = $new",
        lines="q$n = B$n\n(r$n, s$n) = 0, q$n",
        state="B$n = Box(v=$old)",
        path="B$n.v",
    ),
    place(
        "walrus",
        "w$n",
        "G$n = $new",
        lines="if (w$n := G$n) is None:\n    pass",
        state="G$n = $old",
        path="G$n",
    ),
    place(
        "class body inside",
        "T$n.v",
        "G$n = $new",
        lines="class T$n:\n    v = G$n",
        state="G$n = $old",
        path="G$n",
    ),
    place(
        "default made inside",
        "inner$n()",
        "G$n = $new",
        lines="def inner$n(value=G$n):\n    return value",
        state="G$n = $old",
        path="G$n",
    ),
    place(
        "NameError expected",
        "r$n",
        "N$n = $new",
        "globals().pop('N$n', None)",
        lines="try:\n    r$n = N$n\nexcept NameError:\n    r$n = $old",
    ),
)
