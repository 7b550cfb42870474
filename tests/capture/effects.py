"""Rules that change Python state inside the call, and read what they changed."""

from __future__ import annotations

from tests.capture.rule import Rule, rule

_BOX = "B$n = Box(v=2)"
_LIST = "L$n = [1, 2]"
_DICT = 'D$n = {"k": 2}'


def effect(name: str, lines: str, text: str, *edits: str, state: str = "", cells: str = "", refuses: str = "") -> Rule:
    return rule(name, text, *edits, lines=lines, state=state, cells=cells, refuses=refuses)


EFFECTS: tuple[Rule, ...] = (
    effect("attribute set", "B$n.v = $num", "B$n.v", "B$n.v = $v", state=_BOX),
    effect("attribute counted", "B$n.v += 1", "B$n.v", "B$n.v = $v", state=_BOX),
    effect("attribute set after it was read", "r$n = B$n.v\nB$n.v = r$n + 1", "r$n", "B$n.v = $v", state=_BOX),
    effect("attribute set by name", "setattr(B$n, $name, $num)", "B$n.v", "B$n.v = $v", state=_BOX),
    effect("attribute set by vars", "vars(B$n)['v'] = $num", "B$n.v", "B$n.v = $v", state=_BOX),
    effect("attributes updated", "B$n.__dict__.update(v=$num)", "B$n.v", "B$n.v = $v", state=_BOX),
    effect(
        "attribute set and deleted", "B$n.w = $num\nr$n = B$n.w\ndel B$n.w", "r$n + B$n.v", "B$n.v = $v", state=_BOX
    ),
    effect(
        "attribute deleted",
        "r$n = getattr(B$n, 'w', 1)\nif hasattr(B$n, 'w'):\n    del B$n.w",
        "r$n",
        "B$n.w = $v",
        state=_BOX,
    ),
    effect("delattr", "B$n.w = $num\ndelattr(B$n, 'w')", "B$n.v", "B$n.v = $v", state=_BOX),
    effect(
        "attribute made once",
        "if not hasattr(B$n, 'w'):\n    B$n.w = $num",
        "B$n.w",
        "B$n.w = $v",
        "vars(B$n).pop('w', None)",
        state=_BOX,
    ),
    effect(
        "attribute counted behind __getattribute__",
        "B$n.v += 1",
        "B$n.v",
        "B$n.v = $v",
        state="""\
class C$n:
    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found + 10 if name == "v" else found
B$n = C$n()
B$n.v = 2""",
    ),
    effect(
        "attribute counted behind a descriptor",
        "B$n.v += 1",
        "B$n.v",
        "B$n.v = $v",
        "vars(B$n).pop('v', None)",
        state="""\
class D$n:
    def __get__(self, owner, kind):
        return owner.__dict__.get("v", 1)
    def __set__(self, owner, value):
        owner.__dict__["v"] = value
class C$n:
    v = D$n()
B$n = C$n()""",
    ),
    effect(
        "attribute deleted behind a descriptor",
        "if 'v' in vars(B$n):\n    del B$n.v",
        "B$n.v",
        "vars(B$n)['v'] = $v",
        state="""\
class D$n:
    def __get__(self, owner, kind):
        return owner.__dict__.get("v", 1)
    def __set__(self, owner, value):
        owner.__dict__["v"] = value
    def __delete__(self, owner):
        del owner.__dict__["v"]
class C$n:
    v = D$n()
B$n = C$n()
B$n.v = 3""",
    ),
    effect("function attribute counted", "f$n.v += 1", "f$n.v", "f$n.v = $v", state="def f$n():\n    pass\nf$n.v = 0"),
    effect(
        "global set", "g$n($num)", "G$n", "G$n = $v", state="G$n = 1\ndef g$n(value):\n    global G$n\n    G$n = value"
    ),
    effect("global counted", "g$n()", "G$n", "G$n = $v", state="G$n = 1\ndef g$n():\n    global G$n\n    G$n += 1"),
    effect(
        "global deleted",
        "r$n = g$n()",
        "r$n",
        "G$n = $v",
        state="""\
G$n = 1
def g$n():
    global G$n
    if 'G$n' in globals():
        r = G$n
        del G$n
        return r
    return 7""",
    ),
    effect("globals() set", "globals()['G$n'] = $num", "G$n", "G$n = $v", state="G$n = 1"),
    effect("global of another module set", "other.g$n = $num", "other.g$n", "other.g$n = $v", state="other.g$n = 1"),
    effect(
        "nonlocal set",
        "count$n()",
        "K$n",
        "set$n($v)",
        cells="""\
K$n = 1
def count$n():
    nonlocal K$n
    K$n += 1
global set$n
def set$n(value):
    nonlocal K$n
    K$n = value""",
    ),
    effect(
        "nonlocal of a helper",
        "r$n = count$n()",
        "r$n",
        "set$n($v)",
        state="""\
def make$n():
    kept = 0
    def count():
        nonlocal kept
        kept += 1
        return kept
    def change(value):
        nonlocal kept
        kept = value
    return count, change
count$n, set$n = make$n()""",
    ),
    effect(
        "object stored and read back",
        "B$n.i = P$n",
        "B$n.i.v + (1 if B$n.i is P$n else 2)",
        "P$n.v = $v",
        "B$n.i = None",
        "P$n = Box(v=$v)",
        state="P$n = Box(v=1)\nB$n = Box(i=None)",
    ),
    effect(
        "objects exchanged",
        "B$n.i, B$n.j = B$n.j, B$n.i",
        "B$n.i.v",
        "B$n.i.v = $v",
        "B$n.j = Box(v=$v)",
        state="B$n = Box(i=Box(v=1), j=Box(v=2))",
    ),
    effect(
        "object made and stored",
        "B$n.i = Box(v=$num)",
        "B$n.i.v",
        "B$n.i = None",
        state="B$n = Box(i=None)",
        refuses="no later call makes the object again",
    ),
    effect("kept result", "B$n.last = B$n.v + $num", "B$n.last", "B$n.v = $v", state=_BOX),
    effect(
        "tensor kept",
        "r$n = B$n.t\nB$n.t = x * 2",
        "(0 if r$n is None else 1)",
        "B$n.t = None",
        state="B$n = Box(t=None)",
    ),
    effect(
        "effect before an error that is caught",
        "try:\n    B$n.v += 1\n    raise KeyError\nexcept KeyError:\n    B$n.v += 2",
        "B$n.v",
        "B$n.v = $v",
        state=_BOX,
    ),
    effect(
        "effect in a loop",
        "for i$n in range(3):\n    B$n.v += i$n\n    L$n[0] = B$n.v",
        "L$n[0]",
        "B$n.v = $v",
        state=_BOX + "\n" + _LIST,
    ),
    effect(
        "effect in a finally",
        "try:\n    r$n = B$n.v\nfinally:\n    B$n.v = $num",
        "r$n",
        "B$n.v = $v",
        state=_BOX,
    ),
)
