"""Places behind methods: bound, static, of classes, by ``super``, and replaced on the class or the instance."""

from __future__ import annotations

from tests.capture.rule import Rule, place

_HELD = "\nB$n = C$n()\nB$n.h = $old"
_METHOD = "class C$n:\n    def m(self):\n        return self.h" + _HELD

METHODS: tuple[Rule, ...] = (
    place(
        "method",
        "B$n.m()",
        "B$n.h = $new",
        "C$n.m = lambda self: $new",
        "B$n.m = lambda: $new",
        state=_METHOD,
        path="B$n.h",
    ),
    place("bound method", "M$n()", "B$n.h = $new", "M$n = lambda: $new", state=_METHOD + "\nM$n = B$n.m", path="B$n.h"),
    place("method of the class", "C$n.m(B$n)", "B$n.h = $new", "C$n.m = lambda self: $new", state=_METHOD),
    place(
        "methodcaller", "operator.methodcaller('m')(B$n)", "B$n.h = $new", "C$n.m = lambda self: $new", state=_METHOD
    ),
    place("method by getattr", "getattr(B$n, 'm')()", "B$n.h = $new", "C$n.m = lambda self: $new", state=_METHOD),
    place(
        "method that calls a method",
        "B$n.m()",
        "B$n.h = $new",
        "C$n.g = lambda self: $new",
        state="class C$n:\n    def g(self):\n        return self.h\n    def m(self):\n        return self.g()" + _HELD,
    ),
    place(
        "static method",
        "B$n.s()",
        "H$n = $new",
        "C$n.s = staticmethod(lambda: $new)",
        state="H$n = $old\nclass C$n:\n    @staticmethod\n    def s():\n        return H$n\nB$n = C$n()",
        path="H$n",
    ),
    place(
        "class method",
        "B$n.c()",
        "C$n.v = $new",
        "C$n.c = classmethod(lambda cls: $new)",
        state="class C$n:\n    v = $old\n    @classmethod\n    def c(cls):\n        return cls.v\nB$n = C$n()",
        path="C$n.v",
    ),
    place(
        "super",
        "B$n.m()",
        "B$n.h = $new",
        "P$n.m = lambda self: $new",
        "C$n.__bases__ = (type('R', (), {'m': lambda self: $new}),)",
        state="""\
class P$n:
    def m(self):
        return self.h
class C$n(P$n):
    def m(self):
        return super().m()"""
        + _HELD,
    ),
    place(
        "super with arguments",
        "B$n.m()",
        "P$n.m = lambda self: $new",
        "C$n.__bases__ = (type('R', (), {'m': lambda self: $new}),)",
        state="""\
class P$n:
    def m(self):
        return $old
class C$n(P$n):
    def m(self):
        return super(C$n, self).m()
B$n = C$n()""",
    ),
    place(
        "attribute of super",
        "B$n.m()",
        "P$n.v = $new",
        "C$n.__bases__ = (type('R', (), {'v': $new}),)",
        state="""\
class P$n:
    v = $old
class C$n(P$n):
    v = 0
    def m(self):
        return super().v
B$n = C$n()""",
    ),
    place(
        "super of a class method",
        "C$n.m()",
        "P$n.v = $new",
        "P$n.m = classmethod(lambda cls: $new)",
        state="""\
class P$n:
    v = $old
    @classmethod
    def m(cls):
        return cls.v
class C$n(P$n):
    @classmethod
    def m(cls):
        return super().m()""",
    ),
    place(
        "object made inside",
        "T$n(B$n.v).h",
        "B$n.v = $new",
        "T$n.__init__ = lambda self, held: setattr(self, 'h', $new)",
        state="class T$n:\n    def __init__(self, held):\n        self.h = held\nB$n = Box(v=$old)",
        path="B$n.v",
    ),
    place(
        "__new__",
        "T$n().h",
        "H$n = $new",
        state="""\
H$n = $old
class T$n:
    def __new__(cls):
        made = object.__new__(cls)
        made.h = H$n
        return made""",
        path="H$n",
    ),
)
