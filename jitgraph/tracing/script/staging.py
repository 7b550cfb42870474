"""The functions that rewritten code calls: on Python values they do what Python does, on traced tensors they stage."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import ScriptError, TraceError, trying
from jitgraph.ir import context
from jitgraph.runtime.loader import CHECK_KINDS
from jitgraph.tensor import Tensor, lifting
from jitgraph.tracing.record.region import CONTAINERS, UNBOUND
from jitgraph.tracing.record.values import sameness
from jitgraph.tracing.script import lookups
from jitgraph.tracing.script.aliasing import require_single
from jitgraph.tracing.script.branches import (
    DeadEnd,
    choose,
    choose_value,
    created_here,
    innermost_write_log,
    lazily,
    start_body,
    truth,
)
from jitgraph.tracing.script.callees import EndlessRecursionError, callee
from jitgraph.tracing.script.functions import register_staging
from jitgraph.tracing.script.iterables import Steps, steps_of
from jitgraph.tracing.script.lists import growing
from jitgraph.tracing.script.loops import LONGEST, is_retyping, record_for, record_while
from jitgraph.tracing.script.matching import Match, matched
from jitgraph.tracing.script.paths import AttributeStep, Later, note, path, read, store
from jitgraph.tracing.script.texts import text
from jitgraph.tracing.script.variables import Body, Cells, Site, is_staged, sure
from jitgraph.tracing.symbolic.number import COMPARISONS
from jitgraph.tracing.symbolic.staged_integers import Attempt, require
from jitgraph.tracing.symbolic.staged_number import StagedNumber, is_number

__all__ = [
    "AttributeStep",
    "Later",
    "all_",
    "and_",
    "any_",
    "assert_",
    "attempt",
    "binding",
    "callee",
    "changing",
    "choose_",
    "compare",
    "contains",
    "created",
    "for_",
    "growing",
    "if_",
    "is_bool",
    "is_one",
    "item",
    "listed",
    "match_",
    "not_",
    "or_",
    "owning",
    "path",
    "raising",
    "rebinding",
    "store",
    "sure",
    "text",
    "unstaged",
    "while_",
]

UNROLLED: Final = 8  # a Python range of at most so many steps runs in Python
_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **COMPARISONS,
    "is": lambda a, b: is_one(a, b),
    "is not": lambda a, b: not_(is_one(a, b)),
    "in": lambda a, b: contains(a, b),
    "not in": lambda a, b: not_(contains(a, b)),
}


def _staged(test: Any) -> bool:
    return type(test) is StagedNumber or (isinstance(test, Tensor) and context.current().trace is not None)


# --- statements -----------------------------------------------------------------------------------------------------


def if_(test: Any, then: FunctionType | Body, orelse: FunctionType | Body, site_fields: tuple[Any, ...]) -> None:
    """``if test: then() else: orelse()``."""
    if not _staged(test):
        then() if test else orelse()
        return
    site = Site(*site_fields)
    site.require_stageable("an if")
    _branch(test, then, orelse, site, Cells.of(then, site.names))


def _branch(test: Any, then: Callable[[], None], orelse: Callable[[], None], site: Site, cells: Cells) -> None:
    before = cells.read()

    def side(function: Callable[[], None]) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            start_body(cells, before)
            function()
            return cells.read()

        return run

    try:
        lines = [dict(bound) for bound in site.lines]
        words = "if branch", "else branch"
        results = choose(test, (side(then), side(orelse)), site.live, words, lines or ({}, {}), unsure=site.targets)
    finally:
        cells.write(before)
    cells.write(results)


def while_(test: FunctionType | Body, body: FunctionType | Body, site_fields: tuple[Any, ...]) -> None:
    """``while test() and no stop flag: body()``; from the first test that gives a tensor on, as one op."""
    site = Site(*site_fields)
    cells = Cells.of(body, site.names)
    operand = binding(test, site.tested)

    def again() -> Any:
        flag = _stopped(cells, site)
        return test() if flag is False else all_(not_(flag), operand)

    going = again()
    while not _staged(going):
        if not going:
            return
        body()
        going = again()
    site.require_stageable("a while loop")
    record_while(site, cells, going, body, again)


def for_(iterable: Any, body: FunctionType | Body, site_fields: tuple[Any, ...]) -> None:
    """``for`` each item, until a stop flag is set: ``body(item)``.

    Ranges of more than 8 steps, ranges with a tensor or a symbolic bound and rows of tensors are staged. Where that
    fails, as because the body needs Python ints, and the length is known and at most 1024, the steps run in Python.
    """
    site = Site(*site_fields)
    cells = Cells.of(body, site.names)
    steps = steps_of(iterable, UNROLLED) if context.current().trace is not None else None
    if steps is None:
        _unrolled(iterable, body, site, cells)
        return
    known = not is_staged(steps.length) and isinstance(steps.length, int)
    if known and steps.length == 0:
        return
    if not known:
        site.require_stageable("a for loop")
        record_for(site, cells, steps, body, lambda: _stopped(cells, site))
        return
    if site.attempt:
        _unrolled(map(steps.each, range(_short(steps))), body, site, cells)
        return
    before = cells.read()
    reason = _failure(site, cells, steps, body)
    if reason is None:
        return
    count = _count(steps, reason)
    first = 0
    if is_retyping(reason) and count > UNROLLED:  # a variable may have its type from the first turn on
        cells.write(before)
        _unrolled([steps.each(0)], body, site, cells)
        first = 1
        if not _staged(_stopped(cells, site)):
            before = cells.read()
            if _failure(site, cells, steps.behind_first(), body) is None:
                return
    if count > LONGEST:
        raise reason
    cells.write(before)
    _unrolled(map(steps.each, range(first, count)), body, site, cells)


def _failure(site: Site, cells: Cells, steps: Steps, body: FunctionType | Body) -> Exception | None:
    """Why a loop cannot be staged; None where it was."""
    trace = context.current().trace
    capture = None if trace is None else trace.outermost.capture
    unguarded = {} if capture is None else dict(capture.limits.unguarded)
    try:
        with trying():
            record_for(site, cells, steps, body, lambda: _stopped(cells, site))
    except EndlessRecursionError:
        raise
    except Exception as error:
        if capture is not None:  # what the body asked of staged values, it does not ask of Python's
            capture.limits.unguarded = unguarded
        return error
    return None


def _count(steps: Steps, reason: Exception) -> int:
    """The number of steps, which are to be unrolled; ``reason`` where Python cannot know it."""
    try:
        with trying():
            return operator.index(steps.length)
    except TraceError:
        raise reason from None


def _short(steps: Steps) -> int:
    if steps.length > LONGEST:
        raise ScriptError(f"a loop of {steps.length} steps inside a try statement", hint="move it out of the try")
    return int(steps.length)


def _unrolled(iterable: Any, body: FunctionType | Body, site: Site, cells: Cells) -> None:
    every = site._replace(live=site.names, lines=())
    for item in iterable:
        flag = _stopped(cells, site)
        if _staged(flag):
            site.require_stageable("a break or return")

            def run(item: Any = item) -> None:
                body(item)

            _branch(not_(flag), run, lambda: None, every, cells)
        elif flag:
            return
        else:
            body(item)


def _stopped(cells: Cells, site: Site) -> Any:
    """Whether a flag that ends the loop is set."""
    flags = [flag for flag in map(cells.get, site.stop) if flag is not UNBOUND]
    is_set = False
    for flag in flags:
        if not _staged(flag):
            is_set = is_set or bool(flag)
    return any_(is_set, *(partial(_itself, flag) for flag in flags if _staged(flag))) if flags else False


def _itself(value: Any) -> Any:
    return value


def assert_(test: Any, message: Callable[[], Any]) -> None:
    """``assert``; on a tensor a check that raises AssertionError when the code runs."""
    if _staged(test):
        require(truth(test).value, "AssertionError", str(message()))
    elif not test:
        reason = message()
        raise AssertionError(reason) if reason != "" else AssertionError


def attempt(kinds: Callable[[], Any], line: int) -> Attempt:
    """The body of a ``try`` statement at a line, whose handlers take these errors."""
    return Attempt(kinds, line)


def raising(make: Callable[[], Any]) -> None:
    """Before ``raise``: in a staged body a check that fails, after which nothing follows."""
    if innermost_write_log() is None:
        return
    error = make()
    kind = error if isinstance(error, type) else type(error)
    args = () if isinstance(error, type) else error.args
    checked = CHECK_KINDS.get(kind.__name__)
    if checked is None or kind not in checked.__bases__ or len(args) > 1:
        raise ScriptError(
            f"{kind.__name__} is raised depending on a tensor; a graph can raise {', '.join(sorted(CHECK_KINDS))}, "
            "with one text",
            hint="raise one of these, or return a flag and raise outside",
        )
    never = lifting.constant(False, dtypes.bool_)
    ops.check(never, kind=kind.__name__, message=str(args[0]) if args else "")
    raise DeadEnd


# --- expressions ----------------------------------------------------------------------------------------------------


class BindingOperand:
    """An operand that is evaluated later, and the variables that its evaluation binds."""

    def __init__(self, function: Callable[[], Any], cells: Cells) -> None:
        self.function = function
        self.cells = cells

    def __call__(self) -> Any:
        return self.function()


def binding(function: FunctionType | Body, names: Sequence[str]) -> BindingOperand:
    """An operand whose evaluation binds ``names``."""
    return BindingOperand(function, Cells.of(function, names))


def _bound_by(operands: Sequence[Callable[[], Any]]) -> Cells:
    cells = Cells({})
    for operand in operands:
        if isinstance(operand, BindingOperand):
            cells = cells | operand.cells
    return cells


def and_(value: Any, *others: Callable[[], Any]) -> Any:
    """``value and other() and ...``."""
    if not others:
        return value
    if _staged(value):
        return lazily(value, lambda: and_(others[0](), *others[1:]), _bound_by(others), conjunction=True)
    return and_(others[0](), *others[1:]) if value else value


def or_(value: Any, *others: Callable[[], Any]) -> Any:
    """``value or other() or ...``."""
    if not others:
        return value
    if _staged(value):
        return lazily(value, lambda: or_(others[0](), *others[1:]), _bound_by(others), conjunction=False)
    return value if value else or_(others[0](), *others[1:])


def _later(other: Callable[[], Any]) -> Callable[[], Any]:
    def test() -> Any:
        return _test(other())

    return BindingOperand(test, other.cells) if isinstance(other, BindingOperand) else test


def _test(value: Any) -> Any:
    return truth(value) if _staged(value) else bool(value)


def all_(value: Any, *others: Callable[[], Any]) -> Any:
    """``and_`` where only the truth of the result matters."""
    return and_(_test(value), *(_later(other) for other in others))


def any_(value: Any, *others: Callable[[], Any]) -> Any:
    """``or_`` where only the truth of the result matters."""
    return or_(_test(value), *(_later(other) for other in others))


def not_(value: Any) -> Any:
    """``not value``, which is a Python bool, or stands for one."""
    if not _staged(value):
        return not value
    return StagedNumber(ops.logical_not(truth(value).value))


def compare(relations: tuple[str, ...], left: Any, *others: Callable[[], Any]) -> Any:
    """A chain such as ``a < b <= c``; each operand is evaluated once, and only where it is needed."""
    right = others[0]()
    result = _RELATIONS[relations[0]](left, right)
    if len(relations) == 1:
        return result
    rest = BindingOperand(lambda: compare(relations[1:], right, *others[1:]), _bound_by(others[1:]))
    return and_(result, rest)


def choose_(test: Any, left: Callable[[], Any], right: Callable[[], Any]) -> Any:
    """``left() if test else right()``."""
    if not _staged(test):
        return left() if test else right()
    return choose_value(test, (left, right), _bound_by((left, right)), "the value of the conditional expression")


def match_(subject: Any, pattern: tuple[Any, ...], values: Sequence[Callable[[], Any]]) -> Match:
    """How the pattern of a ``case`` fits."""
    return matched(subject, pattern, values, and_, or_, callee(isinstance))


def listed(function: Callable[[Any], Any], iterable: Any) -> Any:
    """The list of a comprehension, of which ``function`` is the loop over ``iterable``."""
    if context.current().trace is None:
        return [*function(iterable)]
    return function([*iterable] if isinstance(iterable, Tensor) and _is_short(iterable) else iterable)


def _is_short(rows: Tensor) -> bool:
    extent = rows.value.type.shape[0] if rows.ndim else 0
    return isinstance(extent, int) and extent <= UNROLLED


def contains(item: Any, container: Any) -> Any:
    """``item in container``."""
    if type(item) is StagedNumber and lookups.is_searchable(container):
        return lookups.contains(item, container)
    if is_number(item) and lookups.contains_staged(container):
        return lookups.contains(item, container)
    return item in container


def is_bool(value: Any, other: bool) -> Any:
    """``value is other``, a bool that is written out."""
    if type(value) is not StagedNumber:
        return value is other
    return value.is_bool(other)


def is_one(a: Any, b: Any) -> Any:
    """``a is b``; a bool of the graph where they are one object only where it says so."""
    if a is b:  # asked here, in code that the capture follows: the trace depends on it
        return True
    condition = sameness(context.current().trace, a, b)
    return condition if isinstance(condition, bool) else StagedNumber(condition())


def item(owner: Any, *keys: Any) -> Any:
    """``owner[key]``, or ``owner[key][other].name``, where an index may be one to be evaluated ``Later``."""
    return read(owner, keys)


# --- Python objects -------------------------------------------------------------------------------------------------


def created(value: Any) -> Any:
    """``value``, a container that the expression before made."""
    return created_here(value) if context.current().trace is not None else value


def changing(target: Any, attribute: str | None = None) -> None:
    """An attribute of ``target``, or its contents, are about to be changed."""
    if isinstance(target, Tensor) or (attribute is None and not isinstance(target, CONTAINERS)):
        return
    require_single(target)
    note(target, attribute)


def owning(closure: FunctionType | Body, names: Sequence[str]) -> None:
    """The cells of ``names`` are of a call that runs here."""
    journal = innermost_write_log()
    if journal is not None:
        for cell in Cells.of(closure, names).cells.values():
            journal.make(cell)


def rebinding(closure: FunctionType, name: str) -> None:
    """A variable of an enclosing function is about to be rebound."""
    journal = innermost_write_log()
    if journal is not None:
        journal.rebind(Cells.of(closure, [name]).cells[name], name)


def unstaged(what: str) -> None:
    """``what`` follows, which no graph can do: ScriptError in a staged body."""
    if innermost_write_log() is not None:
        raise ScriptError(
            f"{what} in code that runs depending on a tensor cannot be captured",
            hint="use a local variable, and assign it after the if or loop",
        )


register_staging(sys.modules[__name__])
