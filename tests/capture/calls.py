"""Places behind calls: methods of every kind, ``super``, partial functions, caches, dispatch, context managers."""

from __future__ import annotations

from capture.rule import Rule, place

_HELD = "\nB$n = C$n()\nB$n.h = $old"
_METHOD = "class C$n:\n    def m(self):\n        return self.h" + _HELD

CALLS: tuple[Rule, ...] = (
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
        "partial",
        "P$n()",
        "P$n = functools.partial(echo, $new)",
        "P$n.__setstate__((echo, ($new,), {}, {}))",
        state="P$n = functools.partial(echo, $old)",
        path="P$n.args[0]",
    ),
    place(
        "partial by name",
        "P$n()",
        "P$n.keywords.update(value=$new)",
        "P$n = functools.partial(echo, value=$new)",
        state="P$n = functools.partial(echo, value=$old)",
        path="P$n.keywords['value']",
    ),
    place(
        "partial of a method",
        "P$n()",
        "B$n.h = $new",
        "C$n.m = lambda self: $new\nP$n = functools.partial(B$n.m)",
        state=_METHOD + "\nP$n = functools.partial(B$n.m)",
    ),
    place(
        "args of a partial",
        "P$n.args[0]",
        "P$n = functools.partial(echo, $new)",
        state="P$n = functools.partial(echo, $old)",
    ),
    place(
        "partialmethod",
        "B$n.p()",
        "B$n.h = $new",
        state="class C$n:\n    def m(self, add):\n        return self.h\n    p = functools.partialmethod(m, 0)" + _HELD,
        path="B$n.h",
    ),
    place(
        "lru_cache",
        "c$n()",
        "H$n = $new\nc$n.cache_clear()",
        state="H$n = $old\n@functools.lru_cache\ndef c$n():\n    return H$n",
        refuses="what a cache holds is not seen",
    ),
    place(
        "wrapped function",
        "w$n()",
        "H$n = $new",
        "w$n = lambda: $new",
        state="""\
H$n = $old
def around$n(function):
    @functools.wraps(function)
    def call(*args, **named):
        return function(*args, **named)
    return call
@around$n
def w$n():
    return H$n""",
        path="H$n",
    ),
    place(
        "singledispatch",
        "s$n(0)",
        "s$n.register(int)(lambda p: $new)",
        "H$n = $new",
        state="H$n = $old\n@functools.singledispatch\ndef s$n(p):\n    return H$n",
    ),
    place(
        "singledispatch of a registered class",
        "s$n(E$n)",
        "s$n.register(C$n)(lambda p: $new)",
        state="""\
class C$n:
    pass
E$n = C$n()
@functools.singledispatch
def s$n(p):
    return 0
@s$n.register(C$n)
def _(p):
    return $old""",
    ),
    place(
        "context manager of a generator",
        "r$n",
        "H$n = $new",
        lines="with w$n() as r$n:\n    pass",
        state="H$n = $old\n@contextlib.contextmanager\ndef w$n():\n    yield H$n",
        path="H$n",
    ),
    place(
        "nullcontext",
        "r$n",
        "N$n = contextlib.nullcontext($new)",
        lines="with N$n as r$n:\n    pass",
        state="N$n = contextlib.nullcontext($old)",
        path="N$n.enter_result",
    ),
    place(
        "sorted with a key",
        "sorted(L$n, key=lambda e: e.k)[0].v",
        "L$n[0].k = 9\nL$n[1].v = $new\nL$n[1].k = 0",
        "L$n[0].v = L$n[1].v = $new",
        state="L$n = [Box(k=1, v=$old), Box(k=2, v=$old)]",
    ),
    place(
        "sorted with an attrgetter",
        "sorted(L$n, key=operator.attrgetter('k'))[0].v",
        "L$n[0].k = 9\nL$n[1].v = $new\nL$n[1].k = 0",
        "L$n[0].v = L$n[1].v = $new",
        state="L$n = [Box(k=1, v=$old), Box(k=2, v=$old)]",
    ),
    place(
        "max with a key",
        "max(L$n, key=lambda e: e.k).v",
        "L$n[0].k = 9\nL$n[0].v = $new\nL$n[1].k = 0",
        "L$n[0].v = L$n[1].v = $new",
        state="L$n = [Box(k=1, v=$old), Box(k=2, v=$old)]",
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
