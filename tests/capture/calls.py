"""Places behind calls: partial functions, caches, dispatch, context managers, functions of the library."""

from __future__ import annotations

from tests.capture.rule import Rule, place

_HELD = "\nB$n = C$n()\nB$n.h = $old"
_METHOD = "class C$n:\n    def m(self):\n        return self.h" + _HELD
_MEMBER = "class E$n(enum.Enum):\n    A = 1\nE$n.A.h = $old"

CALLS: tuple[Rule, ...] = (
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
        "lru_cache that was warm",
        "c$n()",
        "H$n = $new\nc$n.cache_clear()\nc$n()",
        state="H$n = $old\n@functools.lru_cache\ndef c$n():\n    return H$n\nc$n()",
        refuses="what a cache holds is not seen",
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
        "an object in a weak dict",
        "W$n['k'].h",
        "B$n.h = $new",
        "del W$n['k']\nB$n = C$n()\nB$n.h = $new\nW$n['k'] = B$n",
        state="class C$n:\n    pass" + _HELD + "\nW$n = weakref.WeakValueDictionary(k=B$n)",
    ),
    place(
        "a variable of a thread",
        "L$n.v",
        "L$n.v = $new",
        state="L$n = threading.local()\nL$n.v = $old",
    ),
    place(
        "an object in an array",
        "A$n[0].h",
        "B$n.h = $new",
        state="class C$n:\n    pass" + _HELD + "\nA$n = np.array([B$n], dtype=object)",
    ),
    place("an attribute of a member by its value", "E$n(1).h", "E$n.A.h = $new", state=_MEMBER),
    place("an attribute of a member by its name", "E$n['A'].h", "E$n.A.h = $new", state=_MEMBER),
    place(
        "an attribute of the members", "r$n", "E$n.A.h = $new", lines="for M$n in E$n:\n    r$n = M$n.h", state=_MEMBER
    ),
    place(
        "singledispatchmethod",
        "B$n.s(0)",
        "vars(C$n)['s'].register(int)(lambda self, p: $new)",
        "B$n.h = $new",
        state="""\
class C$n:
    @functools.singledispatchmethod
    def s(self, p):
        return self.h"""
        + _HELD,
    ),
    place(
        "what a partialmethod is given",
        "B$n.p()",
        "vars(C$n)['p'].args = ($new,)",
        "C$n.p = functools.partialmethod(C$n.m, $new)",
        state="class C$n:\n    def m(self, p):\n        return p\n    p = functools.partialmethod(m, $old)\nB$n = C$n()",
    ),
    place(
        "what a partialmethod is given by name",
        "B$n.p()",
        "vars(C$n)['p'].keywords.update(p=$new)",
        state="class C$n:\n    def m(self, p):\n        return p\n    p = functools.partialmethod(m, p=$old)\nB$n = C$n()",
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
)
