"""Places of attributes: wherever ``owner.name`` can be found, and by every way of asking for it."""

from __future__ import annotations

from tests.capture.rule import Rule, place

_BOX = "B$n = Box(v=$old)"

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
        "named tuple",
        "N$n.v",
        "N$n = N$n._replace(v=$new)",
        state="N$n = collections.namedtuple('Pair', 'v w')($old, 0)",
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
