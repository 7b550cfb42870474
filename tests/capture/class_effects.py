"""Rules that change state by way of classes: slots, properties, class attributes, special methods that write."""

from __future__ import annotations

from tests.capture.effects import effect
from tests.capture.rule import Rule

CLASS_EFFECTS: tuple[Rule, ...] = (
    effect(
        "attributes that are items",
        "D$n.k = D$n.k + $num",
        "D$n['k']",
        "D$n.k = $v",
        state="class C$n(dict):\n    __getattr__ = dict.__getitem__\n    __setattr__ = dict.__setitem__\nD$n = C$n(k=2)",
    ),
    effect("thread local counted", "B$n.v += $num", "B$n.v", "B$n.v = $v", state="B$n = threading.local()\nB$n.v = 1"),
    effect(
        "slot set",
        "S$n.v = $num",
        "S$n.v",
        "S$n.v = $v",
        state="class C$n:\n    __slots__ = ('v',)\nS$n = C$n()\nS$n.v = 1",
    ),
    effect(
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
    effect("class attribute set", "C$n.v = $num", "B$n.v", "C$n.v = $v", state="class C$n:\n    v = 1\nB$n = C$n()"),
    effect("class attribute counted", "C$n.v += 1", "B$n.v", "C$n.v = $v", state="class C$n:\n    v = 1\nB$n = C$n()"),
    effect(
        "method that counts",
        "B$n.m()",
        "B$n.k",
        "B$n.k = $v",
        state="class C$n:\n    k = 0\n    def m(self):\n        self.k += 1\nB$n = C$n()",
    ),
    effect(
        "__setattr__",
        "B$n.v = $num",
        "B$n.h",
        "C$n.__setattr__ = lambda self, name, value: object.__setattr__(self, 'h', $v)",
        "B$n.__dict__['h'] = $v",
        state="""\
class C$n:
    def __setattr__(self, name, value):
        object.__setattr__(self, "h", value)
B$n = C$n()
B$n.h = 1""",
    ),
    effect(
        "__delattr__",
        "del B$n.v",
        "B$n.h",
        "B$n.h = $v",
        state="class C$n:\n    def __delattr__(self, name):\n        self.h = self.h + 1\nB$n = C$n()\nB$n.h = 1",
    ),
    effect(
        "__setitem__",
        "B$n[$name] = $num",
        "sum(B$n.h.values())",
        "B$n.h = {}",
        "C$n.__setitem__ = lambda self, key, value: self.h.update(z=5)",
        state="""\
class C$n:
    def __init__(self):
        self.h = {}
    def __setitem__(self, key, value):
        self.h[key] = value
B$n = C$n()""",
    ),
    effect(
        "__delitem__",
        "del B$n[$name]",
        "B$n.h",
        "B$n.h = $v",
        state="class C$n:\n    h = 0\n    def __delitem__(self, key):\n        self.h += len(key)\nB$n = C$n()",
    ),
    effect(
        "__iadd__ in place",
        "D$n['k'] += $num",
        "D$n['k'].h",
        "D$n['k'].h = $v",
        state="""\
class C$n:
    h = 0
    def __iadd__(self, value):
        self.h = self.h + value
        return self
D$n = {"k": C$n()}""",
    ),
    effect(
        "__enter__ and __exit__ that count",
        "with B$n:\n    r$n = B$n.h",
        "r$n",
        "B$n.h = $v",
        state="""\
class C$n:
    h = 0
    def __enter__(self):
        self.h += 1
    def __exit__(self, *found):
        self.h += 2
B$n = C$n()""",
    ),
    effect(
        "generator that writes",
        "r$n = sum(g$n())",
        "r$n",
        "B$n.v = $v",
        state="B$n = Box(v=2)\ndef g$n():\n    yield B$n.v\n    B$n.v += 1\n    yield B$n.v",
    ),
    effect(
        "slot deleted",
        "r$n = S$n.v\ndel S$n.v\nS$n.v = r$n + 1",
        "r$n",
        "S$n.v = $v",
        state="class C$n:\n    __slots__ = ('v',)\nS$n = C$n()\nS$n.v = 1",
    ),
)
