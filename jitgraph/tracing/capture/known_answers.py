"""Known answers: before the first trace of a process, small functions run whose operands are known.

Raw words of the value stack are compared with the ids of the objects that must lie there; no word is taken for an
object. Where one differs, tracing refuses, rather than read what is something else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.runtime import shared
from jitgraph.runtime.cpython.frames import word_at
from jitgraph.tracing.capture.events import NULL, Activation, Finish, InstructionSite, follow
from jitgraph.tracing.capture.handlers import HANDLERS
from jitgraph.tracing.capture.instructions import CLASSES
from jitgraph.tracing.capture.monitoring import run_watched

_FILE: Final = "<jitgraph known answers>"
_SOURCE: Final = """
def names():
    global stored
    stored = a
    free = a
    def inner():
        nonlocal free
        free = o
        return free
    class Body:
        kept = free
    inner()
def attributes():
    o.a; o.b = a; del o.b; d[key]; d[key] = a; d[other] = a; del d[other]; l[i:j]; l[i:j] = e; f.m(a)
def operators():
    o + a; o < a; o is e; i in l; -o; not l; f"{i}{i!r}{i:>3}"; {o}; {o: a}; {x: a for x in l}; {x for x in l}
    with o: pass
def elements():
    for x in l: pass
    y, *z = l
    [*l, *t]; {*l, *t}; {**d}
def calls():
    f(a); f(a, name=e); o.m(a, name=e); f(*t); f(*t, **d); (lambda: a)()
    try:
        raise error
    except ValueError:
        pass
def patterns():
    match o:
        case kind(a=7): pass
    match d:
        case {"k": 7}: pass
    match l:
        case [7, 8, 9]: pass
class Child(kind):
    def m(self, *values, **names):
        return super().m(a)
child = Child()
names(); attributes(); operators(); elements(); calls(); patterns(); child.m()
"""


class _Object:
    """Takes part in each instruction."""

    def __init__(self) -> None:
        self.a: Any = self

    def m(self, *arguments: Any, **names: Any) -> Any:
        return self

    __add__ = __lt__ = __call__ = m

    def __neg__(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


class _RawWords(Activation):
    """Reads raw words instead of objects."""

    __slots__ = ()

    def word(self, address: int) -> Any:
        return word_at(address) or NULL

    def same(self, observed: Any, known: Any) -> bool:
        return bool(observed == id(known))


class _Answers:
    """A sink that records what it is given: words, names, and tuples of words."""

    def __init__(self) -> None:
        self.told: set[tuple[Any, ...]] = set()
        self.functions: set[int] = set()

    def __getattr__(self, name: str) -> Callable[..., Finish | None]:
        def tell(view: Activation, *values: Any) -> Finish | None:
            self.told.add((name, *(_plain(value) for value in values)))
            return None

        return tell

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != _FILE:
            return None
        sink: Any = self
        view = _RawWords(frame, sink)
        self.functions.add(view.function)
        return follow(frame, view)


def _plain(value: Any) -> Any:
    if isinstance(value, InstructionSite):
        return value.value if isinstance(value.value, str) else None
    if isinstance(value, slice):
        return value.start, value.stop
    return tuple(value) if isinstance(value, list) else None if isinstance(value, dict) else value


@cache
def require() -> None:
    """TraceError where a handler does not find on the stack what must lie there."""
    wrong = differing()
    if wrong:
        raise TraceError(
            f"tracing reads the value stack of this interpreter wrongly: {wrong[0]}",
            hint=f"it was tried on other builds of CPython {sys.version_info[0]}.{sys.version_info[1]}",
        )


def differing() -> list[str]:
    """What the handlers were expected to tell, and did not."""
    space: dict[str, Any] = {name: _Object() for name in "aof"}
    space |= {"i": 1001, "j": 1002, "l": [1001, 1002, 1003], "e": [1004], "t": (1005,), "key": "k", "other": "n"}
    space |= {"d": {"k": 1006}, "kind": _Object, "error": ValueError()}
    answers = _Answers()
    with shared.PAUSED.inside():
        run_watched(answers.on_call, exec, compile(_SOURCE, _FILE, "exec"), space)
    functions = {id(space[name]) for name in ("names", "attributes", "operators", "elements", "calls", "patterns")}
    wrong = [] if functions <= answers.functions else ["the function of a frame"]
    wrong += [f"{name}, of which no class is known" for name in HANDLERS.keys() - CLASSES.keys()]
    return wrong + [f"{event[0]} {event[1:]}" for event in _expected(**space) if event not in answers.told]


def _expected(a: Any, o: Any, f: Any, i: Any, j: Any, l: Any, e: Any, t: Any, d: Any, **more: Any) -> list[Any]:  # noqa: E741
    """What was recorded, each object by its id."""
    names = ("key", "other", "error", "child", "Child")
    key, other, error, child, kind = (id(more[name]) for name in names)
    a, o, f, i, j, l, e, t, d = map(id, (a, o, f, i, j, l, e, t, d))  # noqa: E741
    events: list[tuple[Any, ...]] = [
        ("global_", "o", None), ("store_global", "stored", None), ("store_global", "kept", None),
        ("store_cell", "free"),
        ("cell", "free", None), ("attribute", "a", o, "a"), ("attribute", "m", f, "m"),
        ("store_attribute", "b", o, "b"), ("item", None, d, key), ("store_item", None, d, other),
        ("operate", "+", "+", (o, a)), ("operate", "<", "<", (o, a)), ("operate", None, "is", (o, e)),
        ("operate", None, "in", (i, l)), ("iterate", None, l), ("iterate", None, t), ("operate", None, "mapping", (d,)),
        *(("operate", None, name, (x,)) for name, x in (("neg", o), ("bool", l), ("hash", o), ("with", o))),
        *(("operate", None, name, (i,)) for name in ("format", "repr")),
        ("called", None, f, (a,), ()), ("called", None, f, (a, e), ("name",)), ("call_unpacked", None, f, t, None),
        ("raised", None, error), ("operate", None, "matched", (d,)), ("operate", None, "len", (l,)),
    ]  # fmt: skip
    if sys.version_info >= (3, 12):  # before, a slice is made first, and super is called
        events += [("item", None, l, (i, j)), ("store_item", None, l, (i, j)), ("inherited", "m", kind, child, "m")]
    return events
