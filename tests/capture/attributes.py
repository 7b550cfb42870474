"""Places of attributes: wherever ``owner.name`` can be found, and by every way of asking for it."""

from __future__ import annotations

from capture.rule import Rule, place

_BOX = "B$n = Box(v=$old)"
_CLASS = "class C$n:\n    v = $old\nB$n = C$n()"
_HELD = "\nB$n = C$n()\nB$n.h = $old"

ATTRIBUTES: tuple[Rule, ...] = (
    place(
        "attribute",
        "B$n.v",
        "B$n.v = $new",
        "B$n = Box(v=$new)",
        "B$n.__dict__ = {'v': $new}",
        "B$n.__dict__['v'] = $new",
        state=_BOX,
        path="B$n.v",
    ),
    place(
        "attribute of an attribute",
        "B$n.i.v",
        "B$n.i.v = $new",
        "B$n.i = Box(v=$new)",
        state="B$n = Box(i=Box(v=$old))",
        path="B$n.i.v",
    ),
    place("namespace", "B$n.v", "B$n.v = $new", state="B$n = types.SimpleNamespace(v=$old)", path="B$n.v"),
    place("class attribute", "C$n.v", "C$n.v = $new", "class C$n:\n    v = $new", state=_CLASS, path="C$n.v"),
    place("class attribute of an instance", "B$n.v", "C$n.v = $new", "B$n.v = $new", state=_CLASS, path="B$n.v"),
    place(
        "inherited attribute",
        "B$n.v",
        "P$n.v = $new",
        "C$n.v = $new",
        "B$n.v = $new",
        "C$n.__bases__ = (type('R', (), {'v': $new}),)",
        state="class P$n:\n    v = $old\nclass C$n(P$n):\n    pass\nB$n = C$n()",
        path="B$n.v",
    ),
    place(
        "attribute of a base set later",
        "B$n.v",
        "Q$n.v = $new",
        state="class P$n:\n    v = $old\nclass Q$n:\n    pass\nclass C$n(Q$n, P$n):\n    pass\nB$n = C$n()",
        path="B$n.v",
    ),
    place(
        "slot",
        "B$n.v",
        "B$n.v = $new",
        state="class C$n:\n    __slots__ = ('v',)\nB$n = C$n()\nB$n.v = $old",
        path="B$n.v",
    ),
    place(
        "slot that may be empty",
        'getattr(B$n, "v", $old)',
        "B$n.v = $new",
        state="class C$n:\n    __slots__ = ('v',)\nB$n = C$n()",
    ),
    place(
        "property",
        "B$n.v",
        "B$n.h = $new",
        "C$n.v = property(lambda self: $new)",
        state="class C$n:\n    @property\n    def v(self):\n        return self.h" + _HELD,
        path="B$n.h",
    ),
    place(
        "property of a builtin getter",
        "B$n.v",
        "B$n.h = $new",
        "C$n.v = property(lambda self: $new)",
        state="class C$n:\n    v = property(operator.attrgetter('h'))" + _HELD,
        path="B$n.h",
    ),
    place(
        "descriptor",
        "B$n.v",
        "vars(C$n)['v'].h = $new",
        "D$n.__get__ = lambda self, owner, kind=None: $new",
        "B$n.v = $new",
        state="""\
class D$n:
    def __init__(self):
        self.h = $old
    def __get__(self, owner, kind=None):
        return self.h
class C$n:
    v = D$n()
B$n = C$n()""",
    ),
    place(
        "descriptor that sets",
        "B$n.v",
        "B$n.v = $new",
        "B$n.h = $new",
        state="""\
class D$n:
    def __get__(self, owner, kind=None):
        return owner.h
    def __set__(self, owner, value):
        owner.h = value
class C$n:
    v = D$n()"""
        + _HELD,
        path="B$n.h",
    ),
    place(
        "attribute of a metaclass",
        "C$n.v",
        "M$n.v = $new",
        "C$n.v = $new",
        state="class M$n(type):\n    v = $old\nclass C$n(metaclass=M$n):\n    pass",
        path="C$n.v",
    ),
    place(
        "property of a metaclass",
        "C$n.v",
        "C$n.h = $new",
        state="class M$n(type):\n    @property\n    def v(cls):\n        return cls.h\n"
        "class C$n(metaclass=M$n):\n    h = $old",
        path="C$n.h",
    ),
    place(
        "__getattr__",
        "B$n.v",
        "H$n = $new",
        "B$n.v = $new",
        "C$n.__getattr__ = lambda self, name: $new",
        "C$n.v = $new",
        state="""\
H$n = $old
class C$n:
    def __getattr__(self, name):
        if name == "v":
            return H$n
        raise AttributeError(name)
B$n = C$n()""",
    ),
    place(
        "__getattr__ of a module",
        "M$n.v",
        "H$n = $new",
        "M$n.v = $new",
        state="""\
H$n = $old
M$n = types.ModuleType("M$n")
def answer$n(name):
    return H$n
M$n.__getattr__ = answer$n""",
    ),
    place(
        "__getattribute__",
        "B$n.v",
        "H$n = $new",
        "C$n.__getattribute__ = lambda self, name: $new",
        state="""\
H$n = $old
class C$n:
    def __getattribute__(self, name):
        if name == "v":
            return H$n
        return object.__getattribute__(self, name)
B$n = C$n()""",
    ),
    place(
        "cached_property",
        "B$n.v",
        "vars(B$n).pop('v', None)\nB$n.h = $new",
        "B$n.v = $new",
        "B$n = C$n()\nB$n.h = $new",
        state="class C$n:\n    @functools.cached_property\n    def v(self):\n        return self.h" + _HELD,
    ),
    place("__dict__", "B$n.__dict__['v']", "B$n.v = $new", "B$n.__dict__ = {'v': $new}", state=_BOX, path="B$n.v"),
    place("vars", "vars(B$n)['v']", "B$n.v = $new", "B$n.__dict__ = {'v': $new}", state=_BOX, path="B$n.v"),
    place("getattr", "getattr(B$n, 'v')", "B$n.v = $new", "B$n = Box(v=$new)", state=_BOX, path="B$n.v"),
    place(
        "getattr with a default",
        "getattr(B$n, 'w', $old)",
        "B$n.w = $new",
        "vars(B$n).pop('w', None)",
        "Box.w = $new",
        state="B$n = Box()",
    ),
    place(
        "hasattr", "($new if hasattr(B$n, 'w') else $old)", "B$n.w = 1", "vars(B$n).pop('w', None)", state="B$n = Box()"
    ),
    place(
        "AttributeError expected",
        "r$n",
        "B$n.w = $new",
        "vars(B$n).pop('w', None)",
        lines="try:\n    r$n = B$n.w\nexcept AttributeError:\n    r$n = $old",
        state="B$n = Box()",
    ),
    place("object.__getattribute__", "object.__getattribute__(B$n, 'v')", "B$n.v = $new", state=_BOX, path="B$n.v"),
    place("attrgetter", "A$n(B$n)", "B$n.v = $new", state="A$n = operator.attrgetter('v')\n" + _BOX, path="B$n.v"),
    place("attrgetter made inside", "operator.attrgetter('v')(B$n)", "B$n.v = $new", state=_BOX, path="B$n.v"),
    place(
        "attrgetter replaced",
        "A$n(B$n)",
        "B$n.w = $new\nA$n = operator.attrgetter('w')",
        state="A$n = operator.attrgetter('v')\n" + _BOX,
    ),
    place(
        "reduce of getattr",
        "functools.reduce(getattr, ['i', 'v'], B$n)",
        "B$n.i.v = $new",
        "B$n.i = Box(v=$new)",
        state="B$n = Box(i=Box(v=$old))",
        path="B$n.i.v",
    ),
    place(
        "class replaced",
        "B$n.v",
        "B$n.__class__ = D$n\nD$n.v = $new",
        state=_CLASS + "\nclass D$n:\n    v = $old",
    ),
    place("type of an object", "type(B$n).v", "C$n.v = $new", state=_CLASS, path="C$n.v"),
    place("__class__ of an object", "B$n.__class__.v", "C$n.v = $new", state=_CLASS, path="C$n.v"),
    place(
        "named tuple",
        "N$n.v",
        "N$n = N$n._replace(v=$new)",
        state="N$n = collections.namedtuple('Pair', 'v w')($old, 0)",
        path="N$n.v",
    ),
    place(
        "dataclass",
        "N$n.v",
        "N$n.v = $new",
        "N$n = dataclasses.replace(N$n, v=$new)",
        state="@dataclasses.dataclass\nclass R$n:\n    v: object\nN$n = R$n($old)",
        path="N$n.v",
    ),
    place(
        "weak reference",
        "W$n().v",
        "B$n.v = $new",
        state=_BOX + "\nW$n = weakref.ref(B$n)",
        path="B$n.v",
    ),
    place("copy of an object", "copy.copy(B$n).v", "B$n.v = $new", state=_BOX, path="B$n.v"),
    place("deep copy of an object", "copy.deepcopy(B$n).v", "B$n.v = $new", state=_BOX, path="B$n.v"),
)
