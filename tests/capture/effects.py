"""Rules that change Python state inside the call, and read what they changed."""

from __future__ import annotations

from capture.rule import Rule, rule

_BOX = "B$n = Box(v=2)"
_LIST = "L$n = [1, 2]"
_DICT = 'D$n = {"k": 2}'


def _effect(name: str, lines: str, text: str, *edits: str, state: str = "", cells: str = "", refuses: str = "") -> Rule:
    return rule(name, text, *edits, lines=lines, state=state, cells=cells, refuses=refuses)


EFFECTS: tuple[Rule, ...] = (
    _effect("attribute set", "B$n.v = $num", "B$n.v", "B$n.v = $v", state=_BOX),
    _effect("attribute counted", "B$n.v += 1", "B$n.v", "B$n.v = $v", state=_BOX),
    _effect("attribute set after it was read", "r$n = B$n.v\nB$n.v = r$n + 1", "r$n", "B$n.v = $v", state=_BOX),
    _effect("attribute set by name", "setattr(B$n, $name, $num)", "B$n.v", "B$n.v = $v", state=_BOX),
    _effect("attribute set by vars", "vars(B$n)['v'] = $num", "B$n.v", "B$n.v = $v", state=_BOX),
    _effect("attributes updated", "B$n.__dict__.update(v=$num)", "B$n.v", "B$n.v = $v", state=_BOX),
    _effect(
        "attribute set and deleted", "B$n.w = $num\nr$n = B$n.w\ndel B$n.w", "r$n + B$n.v", "B$n.v = $v", state=_BOX
    ),
    _effect(
        "attribute deleted",
        "r$n = getattr(B$n, 'w', 1)\nif hasattr(B$n, 'w'):\n    del B$n.w",
        "r$n",
        "B$n.w = $v",
        state=_BOX,
    ),
    _effect("delattr", "B$n.w = $num\ndelattr(B$n, 'w')", "B$n.v", "B$n.v = $v", state=_BOX),
    _effect(
        "attribute made once",
        "if not hasattr(B$n, 'w'):\n    B$n.w = $num",
        "B$n.w",
        "B$n.w = $v",
        "vars(B$n).pop('w', None)",
        state=_BOX,
    ),
    _effect(
        "slot set",
        "S$n.v = $num",
        "S$n.v",
        "S$n.v = $v",
        state="class C$n:\n    __slots__ = ('v',)\nS$n = C$n()\nS$n.v = 1",
    ),
    _effect(
        "property set",
        "B$n.v = $num",
        "B$n.v",
        "B$n.h = $v",
        state="""\
class C$n:
    @property
    def v(self):
        return self.h
    @v.setter
    def v(self, value):
        self.h = value
B$n = C$n()
B$n.h = 1""",
    ),
    _effect("class attribute set", "C$n.v = $num", "B$n.v", "C$n.v = $v", state="class C$n:\n    v = 1\nB$n = C$n()"),
    _effect("class attribute counted", "C$n.v += 1", "B$n.v", "C$n.v = $v", state="class C$n:\n    v = 1\nB$n = C$n()"),
    _effect(
        "method that counts",
        "B$n.m()",
        "B$n.k",
        "B$n.k = $v",
        state="class C$n:\n    k = 0\n    def m(self):\n        self.k += 1\nB$n = C$n()",
    ),
    _effect("function attribute counted", "f$n.v += 1", "f$n.v", "f$n.v = $v", state="def f$n():\n    pass\nf$n.v = 0"),
    _effect("item set", 'D$n["k"] = $num', 'D$n["k"]', 'D$n["k"] = $v', state=_DICT),
    _effect("item counted", 'D$n["k"] += 1', 'D$n["k"]', 'D$n["k"] = $v', state=_DICT),
    _effect("item of a list set", "L$n[0] = $num", "L$n[0] + L$n[1]", "L$n[1] = $v", state=_LIST),
    _effect("item of a list counted", "L$n[-1] += 1", "sum(L$n)", "L$n[1] = $v", state=_LIST),
    _effect(
        "item set and deleted", 'D$n["z"] = $num\nr$n = D$n["z"]\ndel D$n["z"]', "r$n", 'D$n["k"] = $v', state=_DICT
    ),
    _effect("item set by a computed key", "D$n[$name] = $num", "len(D$n)", 'D$n["k"] = $v', "D$n.clear()", state=_DICT),
    _effect("setdefault", 'r$n = D$n.setdefault("z", $num)', "r$n", 'D$n["z"] = $v', 'D$n.pop("z", None)', state=_DICT),
    _effect("dict updated", "D$n.update(z=$num)", "len(D$n)", 'D$n["k"] = $v', "D$n.pop('z', None)", state=_DICT),
    _effect(
        "dict merged in place",
        "B$n.d |= {'z': $num}",
        "len(B$n.d)",
        "B$n.d['k'] = $v",
        "B$n.d = {}",
        state="B$n = Box(d={})",
    ),
    _effect("dict popped", 'r$n = D$n.pop("z", 1)', "r$n", 'D$n["z"] = $v', state=_DICT),
    _effect(
        "defaultdict filled",
        "D$n['q'] += 1",
        "D$n['q']",
        "D$n.clear()",
        "D$n['q'] = $v",
        state="D$n = defaultdict(int)",
    ),
    _effect("appended", "L$n.append($num)", "len(L$n)", "L$n.clear()", "L$n[:] = [$v]", state=_LIST),
    _effect("appended and summed", "L$n.append($num)", "sum(L$n)", "L$n.clear()", "L$n[:] = [$v]", state=_LIST),
    _effect("popped", "L$n.append($num)\nr$n = L$n.pop(0)", "r$n", "L$n[0] = $v", state=_LIST),
    _effect("extended", "L$n.extend([$num, 1])", "len(L$n)", "L$n.clear()", state=_LIST),
    _effect("inserted", "L$n.insert(0, $num)", "L$n[0] + len(L$n)", "L$n.clear()", state=_LIST),
    _effect(
        "augmented list", "B$n.l += [$num]", "len(B$n.l)", "B$n.l = [$v]", "B$n.l.clear()", state="B$n = Box(l=[])"
    ),
    _effect("slice set", "L$n[:1] = [$num, 2]", "len(L$n)", "L$n[:] = [$v]", state=_LIST),
    _effect("item of a list deleted", "L$n.append($num)\ndel L$n[0]", "L$n[0]", "L$n[0] = $v", state=_LIST),
    _effect("list cleared", "r$n = len(L$n)\nL$n.clear()", "r$n", "L$n.append($v)", state=_LIST),
    _effect("list reversed", "L$n.reverse()", "L$n[0]", "L$n[0] = $v", state=_LIST),
    _effect("list sorted", "L$n.sort()", "L$n[0]", "L$n[0] = $v", state=_LIST),
    _effect("deque turned", "L$n.append($num)\nr$n = L$n.popleft()", "r$n", "L$n[0] = $v", state="L$n = deque([1, 2])"),
    _effect("set added to", "S$n.add($num)", "len(S$n)", "S$n.clear()", state="S$n = {0}"),
    _effect(
        "global set", "g$n($num)", "G$n", "G$n = $v", state="G$n = 1\ndef g$n(value):\n    global G$n\n    G$n = value"
    ),
    _effect("global counted", "g$n()", "G$n", "G$n = $v", state="G$n = 1\ndef g$n():\n    global G$n\n    G$n += 1"),
    _effect(
        "global deleted",
        "r$n = g$n()",
        "r$n",
        "G$n = $v",
        state="G$n = 1\ndef g$n():\n    global G$n\n    if 'G$n' in globals():\n        r = G$n\n        del G$n\n        return r\n    return 7",
    ),
    _effect("globals() set", "globals()['G$n'] = $num", "G$n", "G$n = $v", state="G$n = 1"),
    _effect("global of another module set", "other.g$n = $num", "other.g$n", "other.g$n = $v", state="other.g$n = 1"),
    _effect(
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
    _effect(
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
    _effect(
        "object stored and read back",
        "B$n.i = P$n",
        "B$n.i.v + (1 if B$n.i is P$n else 2)",
        "P$n.v = $v",
        "B$n.i = None",
        "P$n = Box(v=$v)",
        state="P$n = Box(v=1)\nB$n = Box(i=None)",
    ),
    _effect(
        "objects exchanged",
        "B$n.i, B$n.j = B$n.j, B$n.i",
        "B$n.i.v",
        "B$n.i.v = $v",
        "B$n.j = Box(v=$v)",
        state="B$n = Box(i=Box(v=1), j=Box(v=2))",
    ),
    _effect(
        "object made and stored",
        "B$n.i = Box(v=$num)",
        "B$n.i.v",
        "B$n.i = None",
        state="B$n = Box(i=None)",
        refuses="no later call makes the object again",
    ),
    _effect("kept result", "B$n.last = B$n.v + $num", "B$n.last", "B$n.v = $v", state=_BOX),
    _effect(
        "tensor kept",
        "r$n = B$n.t\nB$n.t = x * 2",
        "(0 if r$n is None else 1)",
        "B$n.t = None",
        state="B$n = Box(t=None)",
    ),
    _effect(
        "effect before an error that is caught",
        "try:\n    B$n.v += 1\n    raise KeyError\nexcept KeyError:\n    B$n.v += 2",
        "B$n.v",
        "B$n.v = $v",
        state=_BOX,
    ),
    _effect(
        "effect in a loop",
        "for i$n in range(3):\n    B$n.v += i$n\n    L$n[0] = B$n.v",
        "L$n[0]",
        "B$n.v = $v",
        state=_BOX + "\n" + _LIST,
    ),
    _effect(
        "effect in a finally",
        "try:\n    r$n = B$n.v\nfinally:\n    B$n.v = $num",
        "r$n",
        "B$n.v = $v",
        state=_BOX,
    ),
    _effect("effect of a lambda", "(lambda: L$n.append($num))()", "len(L$n)", "L$n.clear()", state=_LIST),
    _effect("effect of map", "list(map(L$n.append, [$num]))", "len(L$n)", "L$n.clear()", state=_LIST),
    _effect("effect of a comprehension", "[L$n.append(e) for e in ($num, 2)]", "len(L$n)", "L$n.clear()", state=_LIST),
    _effect(
        "cache filled by hand",
        "if $index not in D$n:\n    D$n[$index] = $num",
        "len(D$n)",
        "D$n.clear()",
        "D$n['z'] = $v",
        state="D$n = {}",
    ),
)
