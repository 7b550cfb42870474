"""Rules for what Python's own classes keep, compute or answer: protocols, registered classes, thread locals,
modules."""

from __future__ import annotations

from tests.capture.rule import NUM, Rule, place, rule

_ABSTRACT = "class A$n(abc.ABC):\n    pass\nclass C$n:\n    pass\nB$n = C$n()"
_PROTOCOL = "@typing.runtime_checkable\nclass A$n(typing.Protocol):\n    v: object\nclass C$n:\n    pass\nB$n = C$n()"
_METHOD = "class A$n(typing.Protocol):\n    def v(self):\n        pass\nA$n = typing.runtime_checkable(A$n)\nclass C$n:\n    pass"
_REGISTERED = "A$n.register(C$n)"

LIBRARIES: tuple[Rule, ...] = (
    rule("isinstance of a registered class", "(1 if isinstance(B$n, A$n) else 2)", _REGISTERED, state=_ABSTRACT),
    rule("issubclass of a registered class", "(1 if issubclass(C$n, (A$n, int)) else 2)", _REGISTERED, state=_ABSTRACT),
    rule(
        "isinstance of a registered class made inside",
        "(1 if isinstance(C$n(), A$n) else 2)",
        _REGISTERED,
        state=_ABSTRACT,
    ),
    rule(
        "match of a registered class",
        "r$n",
        _REGISTERED,
        state=_ABSTRACT,
        lines="match B$n:\n    case A$n():\n        r$n = 1\n    case _:\n        r$n = 2",
    ),
    rule("isinstance of a protocol", "(1 if isinstance(B$n, A$n) else 2)", "B$n.v = 1", "C$n.v = 1", state=_PROTOCOL),
    rule(
        "isinstance of a protocol of methods made inside",
        "(1 if isinstance(C$n(), A$n) else 2)",
        "C$n.v = lambda self: 1",
        state=_METHOD,
    ),
    place(
        "attribute of a thread local",
        "B$n.v",
        "B$n.v = $new",
        "B$n = threading.local()\nB$n.v = $new",
        state="B$n = threading.local()\nB$n.v = $old",
        path="B$n.v",
    ),
    place("getattr of a thread local", "getattr(B$n, 'v', $old)", "B$n.v = $new", state="B$n = threading.local()"),
    rule("property of a library", "len(B$n.name)", "B$n.name = 'abc'", state="B$n = threading.Thread(name='a')"),
    rule(
        "attribute that C computes",
        "B$n.v",
        "B$n.v = $v",
        state="class C$n(ctypes.Structure):\n    _fields_ = [('v', ctypes.c_double)]\nB$n = C$n(1)",
    ),
    place(
        "attribute of an int",
        "B$n.v",
        "B$n.v = $new",
        state="class I$n(int):\n    pass\nB$n = I$n(1)\nB$n.v = $old",
        path="B$n.v",
    ),
    place(
        "attribute of a str",
        "B$n.v",
        "B$n.v = $new",
        "B$n = S$n('a')\nB$n.v = $new",
        state="class S$n(str):\n    pass\nB$n = S$n('a')\nB$n.v = $old",
        path="B$n.v",
    ),
    place("data of a library module", "sys.v$n", "sys.v$n = $new", state="sys.v$n = $old", path="sys.v$n"),
    rule(
        "function of a library module",
        "math.f$n(3)",
        "math.f$n = two",
        "math.f$n = abs",
        state="math.f$n = one",
    ),
    rule(
        "annotations of a function",
        "len(g$n.__annotations__)",
        "g$n.__annotations__ = {'a': 1}",
        state="def g$n():\n    pass",
    ),
    rule(
        "annotations of a class",
        "len(C$n.__annotations__)",
        "C$n.__annotations__['b'] = 1",
        state="class C$n:\n    a: int",
    ),
    rule(
        "signature of a function",
        "inspect.signature(g$n).parameters['a'].default",
        "g$n.__defaults__ = ($v,)",
        state="def g$n(a=1):\n    return a",
    ),
    rule(
        "type hints of a class",
        "len(typing.get_type_hints(C$n))",
        "C$n.__annotations__ = {'a': int, 'b': int}",
        state="class C$n:\n    a: int",
    ),
    rule(
        "singledispatchmethod",
        "B$n.m('a')",
        "C$n.m.register(str)(lambda self, p: $v)",
        state="class C$n:\n    @functools.singledispatchmethod\n    def m(self, p):\n        return 1\nB$n = C$n()",
    ),
    place(
        "value of a WeakValueDictionary",
        "W$n.get('a').v",
        "B$n.v = $new",
        "B$n = W$n['a'] = Box(v=$new)",
        state="B$n = Box(v=$old)\nW$n = weakref.WeakValueDictionary(a=B$n)",
    ),
    rule(
        "iteration of a list of a user's class",
        "sum(B$n)",
        "L$n.__iter__ = lambda self: iter([5, $v])",
        state="class L$n(list):\n    pass\nB$n = L$n([1, 2])",
    ),
    rule(
        "subclasses of a class",
        "len(C$n.__subclasses__())",
        "K$n.append(type('D', (C$n,), {}))",
        state="K$n = []\nclass C$n:\n    pass",
    ),
    rule(
        "decimal arithmetic",
        "float(D$n / 3)",
        "decimal.getcontext().prec = 3",
        "decimal.getcontext().prec = 28",
        state="decimal.getcontext().prec = 28\nD$n = decimal.Decimal(1)",
    ),
    rule(
        "exit stack",
        "r$n",
        "H$n = $v",
        state="H$n = 1\n@contextlib.contextmanager\ndef m$n():\n    yield H$n",
        lines="with contextlib.ExitStack() as s$n:\n    r$n = s$n.enter_context(m$n())",
    ),
    rule(
        "print that is redirected",
        "len(s$n.getvalue())",
        "H$n = 'abc'",
        state="H$n = 'a'",
        lines="s$n = io.StringIO()\nwith contextlib.redirect_stdout(s$n):\n    print(H$n)",
    ),
    rule(
        "typed dict made inside",
        "T$n(a=H$n)['a']",
        "H$n = $v",
        state="H$n = 1\nclass T$n(typing.TypedDict):\n    a: float",
    ),
    rule(
        "thread that is run",
        "len(L$n)",
        "L$n.clear()",
        gives=NUM,
        state="L$n = []",
        lines="t$n = threading.Thread(target=lambda: L$n.append(1))\nt$n.start()\nt$n.join()",
    ),
)
