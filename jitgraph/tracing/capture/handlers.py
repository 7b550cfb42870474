"""The handlers of instructions: where each finds its operands, what it tells the sink, and known answers that try
them.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.runtime import shared
from jitgraph.runtime.cpython.frames import word_at
from jitgraph.tracing.capture.events import (
    CLASSES,
    FAILED,
    HANDLERS,
    NULL,
    Activation,
    Finish,
    Handler,
    InstructionSite,
    Sink,
    follow,
    run_watched,
)

# ----------------------------------------------------------------------
# The handlers of instructions: where each finds its operands on the stack, and what it tells the sink.

__all__ = ["HANDLERS", "callee"]

_FUNCTION_FIRST: Final = sys.version_info >= (3, 13)  # of the callable and the empty slot beside it
_UNARY_POSITIVE: Final = 5  # of CALL_INTRINSIC_1
_IMPORT_STAR: Final = 2
_TWO_ARGUMENTS: Final = 2  # of LOAD_SUPER_ATTR


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def keep(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return keep


# --- names ----------------------------------------------------------------------------------------------------------


def _has_namespace(view: Activation) -> bool:
    """Whether names of the frame stand in a mapping: code of a module, of a class body, of ``exec``."""
    return not view.frame.f_code.co_flags & inspect.CO_OPTIMIZED


@_handles("LOAD_GLOBAL")
def _global(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.global_(view, site, None)


@_handles("LOAD_NAME")
def _name(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.global_(view, site, view.frame.f_locals if _has_namespace(view) else None)


@_handles("LOAD_FROM_DICT_OR_GLOBALS")
def _name_or_global(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.global_(view, site, view.at(-1))


@_handles("LOAD_DEREF")
def _cell(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.cell(view, site, None)


@_handles("LOAD_CLASSDEREF")
def _name_or_cell(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.cell(view, site, view.frame.f_locals)


@_handles("LOAD_FROM_DICT_OR_DEREF")
def _entry_or_cell(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.cell(view, site, view.at(-1))


@_handles("STORE_GLOBAL", "DELETE_GLOBAL")
def _store_global(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.store_global(view, site, view.frame.f_globals)


@_handles("STORE_NAME", "DELETE_NAME")
def _store_name(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.store_global(view, site, view.frame.f_locals)


@_handles("STORE_DEREF", "DELETE_DEREF")
def _store_cell(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.store_cell(view, site)


@_handles("IMPORT_NAME")
def _import(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    def finish(after: Activation | None) -> None:
        if after is not FAILED:
            sink.imported(after, site, after.at(-1))

    return finish


@_handles("IMPORT_FROM")
def _import_from(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.attribute(view, site, view.at(-1), site.value)


@_handles("IMPORT_STAR")
def _import_star(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.all_names(view, site, view.at(-1))


# --- attributes and items -------------------------------------------------------------------------------------------


@_handles("LOAD_ATTR", "LOAD_METHOD")
def _attribute(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.attribute(view, site, view.at(-1), site.value)


@_handles("LOAD_SUPER_ATTR")
def _super_attribute(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    function, kind, owner = view.at(-3), view.at(-2), view.at(-1)
    if view.same(function, builtins.super):
        return sink.inherited(view, site, kind, owner, site.value)
    return sink.called(view, site, function, (kind, owner) if site.argument & _TWO_ARGUMENTS else (), ())


@_handles("STORE_ATTR", "DELETE_ATTR")
def _store_attribute(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.store_attribute(view, site, view.at(-1), site.value)


@_handles("BINARY_SUBSCR")
def _item(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.item(view, site, view.at(-2), view.at(-1))


@_handles("BINARY_SLICE")
def _slice(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.item(view, site, view.at(-3), slice(view.at(-2), view.at(-1)))


@_handles("STORE_SUBSCR", "DELETE_SUBSCR")
def _store_item(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.store_item(view, site, view.at(-2), view.at(-1))


@_handles("STORE_SLICE")
def _store_slice(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.store_item(view, site, view.at(-3), slice(view.at(-2), view.at(-1)))


# --- elements -------------------------------------------------------------------------------------------------------


@_handles("GET_ITER", "GET_YIELD_FROM_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE")
def _iterate(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.iterate(view, site, view.at(-1))


@_handles("DICT_UPDATE", "DICT_MERGE")
def _merge(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, "mapping", (view.at(-1),))


@_handles("FOR_ITER")
def _next(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.advance(view, site, view.at(-1))


@_handles("SEND")
def _send(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.advance(view, site, view.at(-2))


# --- operators ------------------------------------------------------------------------------------------------------


@_handles("BINARY_OP", "COMPARE_OP")
def _binary(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, site.value, (view.at(-2), view.at(-1)))


@_handles("IS_OP")
def _is(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, "is", (view.at(-2), view.at(-1)))


@_handles("CONTAINS_OP")
def _contains(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, "in", (view.at(-2), view.at(-1)))


def _of_top(operation: str, *names: str) -> None:
    @_handles(*names)
    def handler(sink: Sink, view: Activation, site: InstructionSite) -> None:
        sink.operate(view, site, operation, (view.at(-1),))


_of_top("neg", "UNARY_NEGATIVE")
_of_top("pos", "UNARY_POSITIVE")
_of_top("invert", "UNARY_INVERT")
_of_top("len", "GET_LEN")
_of_top("format", "FORMAT_SIMPLE")
_of_top("matched", "MATCH_MAPPING", "MATCH_SEQUENCE")
_of_top("hash", "SET_ADD")
_of_top("aiter", "GET_AITER")
_of_top("await", "GET_AWAITABLE")
_of_top(
    "bool",
    *("UNARY_NOT", "TO_BOOL", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE"),
    *("POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE"),
    *("POP_JUMP_FORWARD_IF_TRUE",),
)
_of_top("with", "BEFORE_WITH")
_of_top("async with", "BEFORE_ASYNC_WITH")


@_handles("CALL_INTRINSIC_1")
def _intrinsic(sink: Sink, view: Activation, site: InstructionSite) -> None:
    if site.argument == _UNARY_POSITIVE:
        sink.operate(view, site, "pos", (view.at(-1),))
    elif site.argument == _IMPORT_STAR:
        sink.all_names(view, site, view.at(-1))


@_handles("FORMAT_WITH_SPEC")
def _format_with_spec(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, "format", (view.at(-2),))


@_handles("FORMAT_VALUE")
def _format(sink: Sink, view: Activation, site: InstructionSite) -> None:
    value = view.at(-2) if site.argument & 4 else view.at(-1)
    sink.operate(view, site, ("format", "str", "repr", "repr")[site.argument & 3], (value,))


@_handles("CONVERT_VALUE")
def _convert(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, "str" if site.argument == 1 else "repr", (view.at(-1),))


@_handles("BUILD_SET")
def _set(sink: Sink, view: Activation, site: InstructionSite) -> None:
    for index in range(-site.argument, 0):
        sink.operate(view, site, "hash", (view.at(index),))


@_handles("BUILD_MAP")
def _map(sink: Sink, view: Activation, site: InstructionSite) -> None:
    for index in range(-2 * site.argument, 0, 2):
        sink.operate(view, site, "hash", (view.at(index),))


@_handles("MAP_ADD")
def _map_entry(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.operate(view, site, "hash", (view.at(-2),))


# --- patterns -------------------------------------------------------------------------------------------------------


@_handles("MATCH_CLASS")
def _match_class(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return sink.match_class(view, site, view.at(-3), view.at(-2), view.at(-1))


@_handles("MATCH_KEYS")
def _match_keys(sink: Sink, view: Activation, site: InstructionSite) -> None:
    sink.match_keys(view, site, view.at(-2), view.at(-1))


# --- calls ----------------------------------------------------------------------------------------------------------


@_handles("MAKE_FUNCTION")
def _make_function(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    def finish(after: Activation | None) -> None:
        if after is not FAILED:
            sink.function_created(after, after.at(-1))

    return finish


@_handles("CALL")
def _call(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return _called(sink, view, site, 0)


@_handles("CALL_KW")
def _call_by_names(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    return _called(sink, view, site, 1)


def _called(sink: Sink, view: Activation, site: InstructionSite, above: int) -> Finish | None:
    """A call with ``above`` places above the last argument; those with names are the last arguments."""
    call_args = [view.at(index - above) for index in range(-site.argument, 0)]
    function, first = _callable(view, site.argument + above)
    if first is not NULL:
        call_args.insert(0, first)
    return sink.called(view, site, function, call_args, site.names)


def _callable(view: Activation, above: int) -> tuple[Any, Any]:
    """What is called, ``above`` places from the top, and the object that it is bound to or ``NULL``."""
    function, first = view.at(-above - 2), view.at(-above - 1)
    return (first, NULL) if not _FUNCTION_FIRST and function is NULL else (function, first)


def callee(view: Activation) -> Any:
    """What a frame has called and waits for; ``NULL`` where it waits for something else."""
    site = view.waiting()
    if site is None or site.name not in ("CALL", "CALL_KW"):
        return NULL
    return _callable(view, site.argument + (site.name == "CALL_KW"))[0]


@_handles("CALL_FUNCTION_EX")
def _call_unpacked(sink: Sink, view: Activation, site: InstructionSite) -> Finish | None:
    above = site.argument & 1
    function = view.at(-3 - above) if _FUNCTION_FIRST else view.at(-2 - above)
    return sink.call_unpacked(view, site, function, view.at(-1 - above), view.at(-1) if above else None)


@_handles("RAISE_VARARGS")
def _raise(sink: Sink, view: Activation, site: InstructionSite) -> None:
    if site.argument:
        sink.raised(view, site, view.at(-site.argument))


# ----------------------------------------------------------------------
# Known answers: before the first trace of a process, small functions run whose operands are known.
#
# Raw words of the value stack are compared with the ids of the objects that must lie there; no word is taken for an
# object. Where one differs, tracing refuses, rather than read what is something else.

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
