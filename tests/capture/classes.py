"""Places of attributes that a class has a say in: inherited, slots, properties, descriptors, ``__getattr__``."""

from __future__ import annotations

from tests.capture.rule import Rule, place

_CLASS = "class C$n:\n    v = $old\nB$n = C$n()"
_HELD = "\nB$n = C$n()\nB$n.h = $old"

CLASSES: tuple[Rule, ...] = (
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
        "attribute behind __getattribute__",
        "B$n.v",
        "object.__setattr__(B$n, 'h', $new)",
        "B$n.__dict__['h'] = $new",
        "C$n.__getattribute__ = lambda self, name: $new",
        state="""\
class C$n:
    def __getattribute__(self, name):
        found = object.__getattribute__(self, "h" if name == "v" else name)
        return found if name == "v" or name.startswith("__") else (found, found)
B$n = C$n()
object.__setattr__(B$n, "h", $old)""",
    ),
    place(
        "__dict__ behind __getattribute__",
        "B$n.v",
        "B$n.v = $new",
        "B$n.__dict__ = {'v': $new}",
        state="""\
class C$n:
    v = property(lambda self: "hidden")
    v = v.setter(lambda self, value: self.__dict__.__setitem__("v", value))
    def __getattribute__(self, name):
        own = object.__getattribute__(self, "__dict__")
        return own[name] if name in own else super().__getattribute__(name)
B$n = C$n()
B$n.v = $old""",
    ),
    place(
        "class entry behind __getattribute__",
        "B$n.v",
        "C$n.v = $new",
        "object.__setattr__(B$n, 'v', $new)",
        state="""\
class C$n:
    v = $old
    def __getattribute__(self, name):
        return super().__getattribute__(name)
B$n = C$n()""",
    ),
    place(
        "descriptor over __dict__",
        "B$n.v",
        "B$n.v = $new",
        "vars(B$n)['v'] = $new",
        "B$n.__dict__ = {'v': $new}",
        state="""\
class D$n:
    def __get__(self, owner, kind):
        return owner.__dict__.get("v", 1)
    def __set__(self, owner, value):
        owner.__dict__["v"] = value
class C$n:
    v = D$n()
B$n = C$n()
B$n.v = $old""",
    ),
    place(
        "cached_property",
        "B$n.v",
        "vars(B$n).pop('v', None)\nB$n.h = $new",
        "B$n.v = $new",
        "B$n = C$n()\nB$n.h = $new",
        state="class C$n:\n    @functools.cached_property\n    def v(self):\n        return self.h" + _HELD,
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
        "dataclass",
        "N$n.v",
        "N$n.v = $new",
        "N$n = dataclasses.replace(N$n, v=$new)",
        state="@dataclasses.dataclass\nclass R$n:\n    v: object\nN$n = R$n($old)",
        path="N$n.v",
    ),
)
