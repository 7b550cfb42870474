"""Elements and attributes that are reached by several steps, as ``rows[i][j].total``: read, set and changed in place.

A step is an index or the name of an attribute. Where an index is a number that the graph computes, all objects that the
steps before it may lead to are gone along, each under the condition that it is the one that Python would go along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.errors import LocatedError, ScriptError
from jitgraph.ir import context
from jitgraph.records import NamedTuple
from jitgraph.runtime.loader import CHECK_KINDS
from jitgraph.tensor import Tensor, lifting, wrap_as
from jitgraph.tracing.record.recorder import WRITE_TO_ARRAY
from jitgraph.tracing.record.region import CONTAINERS
from jitgraph.tracing.record.values import aliases_of
from jitgraph.tracing.script import aliasing
from jitgraph.tracing.script.branches import DeadEnd, choose_value, innermost_write_log
from jitgraph.tracing.script.lists import GrowingList, is_growing
from jitgraph.tracing.script.lookups import (
    LARGEST_WRITTEN,
    OTHER_INDICES,
    choose_among,
    dict_entry,
    has_every_key,
    is_index,
    is_indexable,
    is_sequence,
    number_of,
    pick,
    position_in,
    sequence_entry,
)
from jitgraph.tracing.script.variables import Cells, is_staged
from jitgraph.tracing.symbolic.number import BINARY
from jitgraph.tracing.symbolic.staged_integers import only_where, require
from jitgraph.tracing.symbolic.staged_number import StagedNumber, of_bool, table_kind

_FAILURES: Final = (IndexError, KeyError, TypeError, AttributeError)  # of a step that leads nowhere


class AttributeStep(NamedTuple):
    """A step along an attribute."""

    name: str


class Later(NamedTuple):
    """An index that is evaluated when the steps before it have been taken."""

    evaluate: Callable[[], Any]


def _step(step: Any) -> Any:
    return step.evaluate() if type(step) is Later else step


def _follow(value: Any, step: Any) -> Any:
    if type(step) is AttributeStep:
        return getattr(value, step.name)
    return wrap_as(lifting.value_of(value), *_indices(step))[step] if _is_gather(value, step) else value[step]


def _indices(step: Any) -> tuple[Any, ...]:
    return step if type(step) is tuple else (step,)


def _is_gather(value: Any, step: Any) -> bool:
    """Whether a NumPy array is indexed by what a graph computes."""
    if type(value) is not np.ndarray or context.current().trace is None:
        return False
    indices = _indices(step)
    ends = [end for x in indices if type(x) is slice for end in (x.start, x.stop, x.step)]
    return any(map(is_staged, (*indices, *ends)))


# --- reading --------------------------------------------------------------------------------------------------------


def read(value: Any, steps: Sequence[Any]) -> Any:
    """``value[step][other]...``."""
    for number, step in enumerate(steps):
        step = _step(step)
        if isinstance(step, Tensor) and is_sequence(value) and is_index(step):
            step = StagedNumber(lifting.positions(step.value))
        if type(step) is StagedNumber and is_indexable(value):
            return _element(value, step, steps[number + 1 :])
        value = _follow(value, step)
    return value


def _element(container: Any, key: StagedNumber, rest: Sequence[Any]) -> Any:
    """What the steps of ``rest`` lead to from ``container[key]``."""
    if is_growing(container) and container.has_rows:
        return read(container[key], rest)
    values, position = _values_and_position(container, key)
    rest = list(map(_step, rest))
    if not rest:
        return pick(values, position)
    if all(isinstance(value, Tensor) for value in values) and len({_type(value) for value in values}) > 1:
        return choose_among([partial(read, value, rest) for value in values], position)
    results: list[Any] = []
    first: Exception | None = None
    for number, value in enumerate(values):
        is_this = partial(ops.eq, position, number_of(number))
        try:
            with only_where(is_this):
                results.append(read(value, rest))
        except _FAILURES as error:
            first = first or error
            results.append(_FAILED)
            _require_not(is_this(), error)
    known = [value for value in results if value is not _FAILED]
    if not known:
        assert first is not None
        raise first
    return pick([known[0] if value is _FAILED else value for value in results], position)


_FAILED: Final = object()


def _type(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape)


def _values_and_position(container: Any, key: StagedNumber) -> tuple[list[Any], Any]:
    """The elements of a builtin container, and the place among them (int64) that an index means."""
    if isinstance(container, dict):
        position = dict_entry(container, key)
        return list(container.values()), position
    position = sequence_entry(container, key)
    return list(container), position


def _require_not(condition: Any, error: Exception) -> None:
    """A check that raises the error of a step where the graph takes it."""
    kind = next((base.__name__ for base in type(error).__mro__ if base in _FAILURES), "")
    if kind not in CHECK_KINDS:
        raise ScriptError(
            f"{error}, for some of the elements that are chosen by a number that is known only when the graph runs",
            hint=OTHER_INDICES,
        ) from error
    message = error.message if isinstance(error, LocatedError) else str(error)
    require(ops.logical_not(condition), kind, message)


# --- setting --------------------------------------------------------------------------------------------------------


class Path(NamedTuple):
    """Where an assignment sets something: the objects that may be meant, each with the condition (a 0-d bool value)
    under which it is or None for the only one, and the last step; for reading, the first object and all steps."""

    candidates: Sequence[tuple[Any, Any]]
    last: Any
    owner: Any
    steps: Sequence[Any]

    def get(self) -> Any:
        """What stands there."""
        owner, condition = self.candidates[0]
        if condition is None:
            return read(owner, [self.last])
        return read(self.owner, self.steps)

    def put(self, value: Any) -> None:
        """Set it."""
        for owner, condition in self.candidates:
            _assign(owner, self.last, value, condition)

    def is_staged(self) -> bool:
        """Whether only the graph knows what is set, or which objects are changed by that."""
        owner, condition = self.candidates[0]
        if condition is not None or type(self.last) is StagedNumber:
            return True
        return not isinstance(owner, Tensor) and bool(aliases_of(context.current().trace, owner))

    def change(self, symbol: str, old: Any, value: Any) -> None:
        """``path.put(old + value)``, or of another operator; an element that is changed in place, wherever it is."""
        owner, condition = self.candidates[0]
        if condition is None and type(self.last) is not StagedNumber:
            self.put(_operate_in_place(symbol, old, value))
            return
        targets = [
            target  # it has the key of a dict, as it has been read
            for owner, condition in self.candidates
            for target in _entries(owner, self.last, condition, is_there=True)
        ]
        if any(_changes_in_place(target, symbol) for target in targets):
            for owner, entry, where in targets:
                _branch(where, partial(_change, owner, entry, symbol, value))
            return
        new = _operate(symbol, old, value)
        for owner, entry, where in targets:
            _assign(owner, entry, new, where)


def path(owner: Any, *steps: Any) -> Path:
    """The steps of a target, of which each is evaluated where Python evaluates it."""
    candidates: list[tuple[Any, Any]] = [(owner, None)]
    taken: list[Any] = []
    for step in steps[:-1]:
        step = _step(step)
        taken.append(step)
        candidates = [reached for value, condition in candidates for reached in _after(value, step, condition)]
    last = _step(steps[-1])
    return Path(candidates, last, owner, [*taken, last])


def store(owner: Any, value: Any, *steps: Any) -> None:
    """``owner[step] = value``, ``owner[step][other].name = value``."""
    path(owner, *steps).put(value)


def _after(value: Any, step: Any, condition: Any) -> list[tuple[Any, Any]]:
    """The objects to which a step leads, with their conditions."""
    if type(step) is StagedNumber and is_indexable(value) and not (is_growing(value) and value.has_rows):
        with only_where(condition and partial(_itself, condition)):
            values, position = _values_and_position(value, step)
        return [(element, _both(condition, ops.eq(position, number_of(i)))) for i, element in enumerate(values)]
    try:
        return [(_follow(value, step), condition)]
    except _FAILURES as error:
        if condition is None:
            raise
        _require_not(condition, error)
        return []


def _both(condition: Any, other: Any) -> Any:
    return other if condition is None else ops.logical_and(condition, other)


def _assign(owner: Any, step: Any, value: Any, condition: Any) -> None:
    """Set what a last step means, where a condition holds."""
    if type(step) is StagedNumber and _is_writable(owner):
        with only_where(condition and partial(_itself, condition)):
            for entry, new in _written(owner, step, value, condition):
                put(owner, entry, new)
    elif condition is None:
        _set(owner, step, value)
    elif _is_writable(owner) and type(step) is not slice and type(step) is not AttributeStep:
        try:
            old = owner[step]
        except _FAILURES as error:
            if isinstance(owner, dict):
                raise _may_lack(owner) from error
            _require_not(condition, error)
            return
        put(owner, step, _unless(condition, value, old))
    else:
        _branch(condition, partial(_set, owner, step, value))


def _set(owner: Any, step: Any, value: Any) -> None:
    if type(step) is not AttributeStep:
        put(owner, step, value)
        return
    aliasing.require_single(owner)
    note(owner, step.name)
    setattr(owner, step.name, value)


def put(target: Any, key: Any, value: Any) -> None:
    """``target[key] = value``, also in the objects that may be ``target``."""
    for owner, new in aliasing.put(target, key, value, _unless):
        note(owner)
        if type(owner) is np.ndarray and (is_staged(new) or _is_gather(owner, key)):
            raise ScriptError(
                "a NumPy array takes what the graph computes as an element; it is known only when the graph runs",
                hint=WRITE_TO_ARRAY,
            )
        owner[key] = new


def note(target: Any, attribute: str | None = None) -> None:
    """Note that ``target`` is about to be changed: an attribute, or its contents."""
    journal = innermost_write_log()
    if journal is not None and not isinstance(target, Tensor) and (attribute or isinstance(target, CONTAINERS)):
        journal.change(target, attribute)


def _is_writable(container: Any) -> bool:
    """Whether ``container[i] = v`` is that of a builtin container."""
    return (isinstance(container, dict) and is_indexable(container)) or type(container) in _LISTS


_LISTS: Final = (list, GrowingList, CONTAINERS[3])


def _entries(owner: Any, step: Any, condition: Any, *, is_there: bool = False) -> list[tuple[Any, Any, Any]]:
    """The objects with the entries of theirs that a last step may mean, and the conditions; whether it is known that
    one of them has it."""
    if type(step) is not StagedNumber or not _is_writable(owner):
        return [(owner, step, condition)]
    with only_where(condition and partial(_itself, condition)):
        entries, position = _entries_and_position(owner, step, is_there)
    return [(owner, entry, _both(condition, ops.eq(position, number_of(i)))) for i, entry in enumerate(entries)]


def _entries_and_position(container: Any, key: StagedNumber, is_there: bool) -> tuple[list[Any], Any]:
    """The indices or keys of a container, and which of them (int64) a number is."""
    if isinstance(container, dict):
        if not is_there and not has_every_key(container, key):
            raise _may_lack(container)
        position = position_in(container, key)
        entries = list(container)
    else:
        position = sequence_entry(container, key)
        entries = list(range(len(container)))
    if len(entries) > LARGEST_WRITTEN:
        raise ScriptError(
            f"an element of a {type(container).__name__} of {len(entries)} is set at a place that is known only when "
            "the graph runs",
            hint=OTHER_INDICES,
        )
    return entries, position


def _may_lack(container: Any) -> ScriptError:
    return ScriptError(
        f"a {type(container).__name__} is set under a key that is known only when the graph runs and that it may not "
        "have",
        hint="a list or tensor of all places (counts[i] += 1), or a loop over a Python range of at most 1024",
    )


def _written(container: Any, key: StagedNumber, value: Any, condition: Any) -> list[tuple[Any, Any]]:
    """The entries to be set for ``container[key] = value``: each is the value where the key means it."""
    return [(entry, _unless(where, value, container[entry])) for _, entry, where in _entries(container, key, condition)]


def _unless(test: Any, value: Any, old: Any) -> Any:
    """``value`` where a test holds, else the old one."""
    kind = table_kind([value, old])
    if kind is not None:
        dtype = {int: dtypes.int64, float: dtypes.float64, bool: dtypes.bool_}[kind]
        return StagedNumber(ops.select(test, _number(value, dtype), _number(old, dtype)))
    sides = partial(_itself, value), partial(_itself, old)
    return choose_value(of_bool(test), sides, Cells({}), "an element set by a number")


def _number(x: Any, dtype: Any) -> Any:
    return x.value if type(x) is StagedNumber else lifting.value_of(x, dtype)


def _branch(condition: Any, action: Callable[[], None]) -> None:
    """Do something where a condition holds; an error of it is one of the graph."""

    def run() -> None:
        try:
            action()
        except _FAILURES as error:
            _require_not(lifting.constant(True, dtypes.bool_), error)
            raise DeadEnd from None

    choose_value(of_bool(condition), (run, _nothing), Cells({}), "what is set by a number")


def _nothing() -> None:
    return None


def _itself(value: Any) -> Any:
    return value


# --- changing -------------------------------------------------------------------------------------------------------


def _changes_in_place(target: tuple[Any, Any, Any], symbol: str) -> bool:
    """Whether an augmented assignment changes what stands at an entry, or raises there."""
    owner, entry, _ = target
    if isinstance(owner, Tensor):
        return False
    try:
        return hasattr(type(_follow(owner, entry)), _method(symbol))
    except _FAILURES:
        return True


def _change(owner: Any, entry: Any, symbol: str, value: Any) -> None:
    _set(owner, entry, _operate_in_place(symbol, _follow(owner, entry), value))


def _operate_in_place(symbol: str, old: Any, value: Any) -> Any:
    """``old += value``, or of another operator."""
    method = getattr(type(old), _method(symbol), None)
    if method is None:
        return _operate(symbol, old, value)
    aliasing.require_single(old)
    note(old)
    result = method(old, value)
    return _operate(symbol, old, value) if result is NotImplemented else result


def _method(symbol: str) -> str:
    return f"__i{'matmul' if symbol == '@' else BINARY[symbol]}__"


def _operate(symbol: str, old: Any, value: Any) -> Any:
    return _OPERATORS[symbol](old, value)


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "@": lambda a, b: a @ b,
}  # fmt: skip
