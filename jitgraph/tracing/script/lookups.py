"""Containers of Python asked by a number that a graph computes: ``x in c``, ``c[i]``, ``c[i] = v``, ``d.get(i)``.

What a container holds is known while the function is recorded, so that a lookup is a choice among its elements. A key
is compared as Python compares equal keys: 1, 1.0 and True are one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, KeysView, Sequence, ValuesView
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.ir.types import Constant
from jitgraph.tensor import Tensor, lifting, scalars, weak_ints, wrap, wrap_as
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.weak_ints import GREATEST, LEAST, between
from jitgraph.tracing.record.region import CONTAINERS
from jitgraph.tracing.record.values import SameWhere, note_choice
from jitgraph.tracing.script.branches import choose_value
from jitgraph.tracing.script.lists import GrowingList
from jitgraph.tracing.script.variables import Cells, is_staged, same
from jitgraph.tracing.symbolic import staged_integers
from jitgraph.tracing.symbolic.staged_integers import require
from jitgraph.tracing.symbolic.staged_number import StagedNumber, is_number, of_bool, of_int, table_kind

_SEQUENCES: Final = (list, GrowingList, tuple, deque)
_DICTS: Final = (dict, OrderedDict, defaultdict, Counter)
_VIEWS: Final = (KeysView, ValuesView)
LARGEST_WRITTEN: Final = 256  # elements of a container that is written at a place that the graph computes
_LARGEST_CHOICE: Final = 64  # elements between which a branch for each chooses
OTHER_INDICES: Final = (
    "a tensor can be indexed by it (x[i], x[i] = v); a loop over a Python range of at most 1024 is unrolled"
)


def is_searchable(container: Any) -> bool:
    """Whether the elements of a container are compared one by one, or by their hashes, by a builtin method."""
    kind = type(container)
    return (
        kind in _SEQUENCES or kind in _DICTS or kind in (set, frozenset, range, bytes) or isinstance(container, _VIEWS)
    )


def is_indexable(container: Any) -> bool:
    """Whether ``container[i]`` is that of a builtin container."""
    return type(container) in (*_SEQUENCES, *_DICTS, range, bytes, str)


def is_sequence(container: Any) -> bool:
    """Whether ``container[i]`` is an element of a builtin sequence, which Python looks up by the ``__index__`` of i."""
    return type(container) in (*_SEQUENCES, range, bytes, str)


def is_index(x: Tensor) -> bool:
    """Whether a traced tensor stands for one integer."""
    return context.current().trace is not None and x.ndim == 0 and dtypes.is_integer(x.dtype)


def contains_staged(container: Any) -> bool:
    """Whether a list, tuple or deque has a staged number among its elements."""
    return type(container) in _SEQUENCES and any(type(x) is StagedNumber for x in container)


# --- membership -----------------------------------------------------------------------------------------------------


def contains(item: Any, container: Any) -> Any:
    """``item in container``, where one of them is staged."""
    if type(item) is StagedNumber and type(container) is range:
        return _in_range(item, container)
    present, _ = _position(item, list(container))
    return present


def _in_range(number: StagedNumber, steps: range) -> Any:
    if not steps:
        return False
    item: Any = number
    least, greatest = min(steps[0], steps[-1]), max(steps[0], steps[-1])
    inside = ops.logical_and((item >= least).value, (item <= greatest).value)
    rest: Any = None
    if item.kind is float:
        inside = ops.logical_and(inside, item.is_integer().value)
        rest = (item - steps.start) % float(abs(steps.step)) if abs(steps.step) > 1 else None
    else:
        offset = staged_integers.Int(ops.sub(item.as_int().value, number_of(steps.start)), LEAST, GREATEST)
        rest = of_int(staged_integers.mod(offset, staged_integers.of_constant(abs(steps.step))))
    return of_bool(inside if rest is None else ops.logical_and(inside, (rest == 0).value))


def _position(item: Any, candidates: Sequence[Any]) -> tuple[Any, Any]:
    """Whether a candidate equals ``item``, a bool or a staged one, and the number of the first that does (int64)."""
    if type(item) is StagedNumber and not any(map(is_staged, candidates)):
        return _position_in_table(item, candidates)
    present: Any = False
    position = number_of(0)
    for number, candidate in reversed(list(enumerate(candidates))):
        equal = item == candidate
        if not is_staged(equal):
            if equal:
                present, position = True, number_of(number)
            continue
        if equal.value.shape:
            raise ScriptError("a search among tensors that have axes", hint="jg.any(x == y) says which equal one")
        position = ops.select(equal.value, number_of(number), position)
        present = (
            equal
            if present is False
            else present
            if present is True
            else of_bool(ops.logical_or(equal.value, present.value))
        )
    return present, position


def _position_in_table(item: StagedNumber, candidates: Sequence[Any]) -> tuple[Any, Any]:
    """The same for numbers that are known: one comparison with a table of those that may be equal."""
    dtype = dtypes.float64 if item.kind is float else dtypes.int64
    known = [(number, _as_key(x, item.kind)) for number, x in enumerate(candidates)]
    numbers = [number for number, x in known if x is not None]
    if not numbers:
        return False, number_of(0)
    table = np.array([x for _, x in known if x is not None], dtype)
    key = item.value if item.kind is not bool else item.as_int().value
    equal = ops.eq(lifting.broadcast_to(key, table.shape), _table(table))
    first = wrap(equal).argmax().value
    positions = _table(np.array(numbers, np.int64))
    return of_bool(wrap(equal).any().value), wrap(positions)[wrap(first)].value


def _as_key(x: Any, kind: type) -> Any:
    """A number as one of a kind that equals it; None where none does."""
    if not is_number(x):
        return None
    if kind is float:
        return float(x) if isinstance(x, float) or (abs(x) < 1 << 1023 and float(x) == x) else None
    if isinstance(x, float):
        x = int(x) if x.is_integer() else None
    return int(x) if x is not None and LEAST <= x <= GREATEST else None


# --- elements -------------------------------------------------------------------------------------------------------


def sequence_entry(container: Any, key: StagedNumber) -> Any:
    """Which element an index means; IndexError where there is none."""
    name = container.__class__.__name__
    if key.kind is float:
        raise TypeError(f"{name} indices must be integers or slices, not float")
    length, index = len(container), key.as_int()
    if length == 0:
        raise IndexError(f"{name} index out of range")
    inside = between(index.value, -length, length - 1)
    if index.least < -length or index.greatest >= length:
        require(inside, "IndexError", f"{name} index out of range")
    if index.least >= 0:
        return ops.minimum(index.value, number_of(length - 1))
    counted = ops.select(ops.lt(index.value, number_of(0)), ops.add(index.value, number_of(length)), index.value)
    return ops.maximum(ops.minimum(counted, number_of(length - 1)), number_of(0))


def dict_entry(container: Any, key: StagedNumber) -> Any:
    """Which entry a key means; KeyError where there is none."""
    present, position = _position(key, list(container))
    if not has_every_key(container, key):
        if hasattr(type(container), "__missing__"):
            raise ScriptError(
                f"a {type(container).__name__} is asked by a number that is known only when the graph runs, for a key "
                "that it may not have",
                hint="d.get(key, default), or " + OTHER_INDICES,
            )
        require(
            present.value if is_staged(present) else lifting.constant(present, dtypes.bool_), "KeyError", "no such key"
        )
    return position


def has_every_key(container: Any, key: StagedNumber) -> bool:
    """Whether a dict has all keys that ``key`` may be, as far as its ends tell."""
    if key.kind is float:
        return False
    least, greatest = (0, 1) if key.kind is bool else weak_ints.ends_of(key.value) or (0, 1 << 62)
    return greatest - least < max(len(container), 1) and all(
        number in container for number in range(least, greatest + 1)
    )


def position_in(container: Any, key: StagedNumber) -> Any:
    """The number of the element of a container that equals ``key``."""
    return _position(key, list(container))[1]


def get(container: Any, key: StagedNumber, default: Any = None) -> Any:
    """``dict.get``."""
    present, position = _position(key, list(container))
    if not is_staged(present):
        return pick(list(container.values()), position) if present else default
    if len(container) and has_every_key(container, key):
        return pick(list(container.values()), position)
    return pick([*container.values(), default], ops.select(present.value, position, number_of(len(container))))


def pick(values: Sequence[Any], position: Any) -> Any:
    """The value at a place (int64) that lies among them."""
    first = values[0]
    if all(value is first or same(value, first) for value in values):
        return first
    if all(map(is_number, values)):
        if table_kind(values) is None:
            raise ScriptError(
                "an element is an int or a float (or a bool), as a number says that is known only when the graph runs",
                hint="make all of them floats, or all of them ints",
            )
        return _pick_number(values, position)
    if all(isinstance(value, Tensor) for value in values):
        types = {(value.dtype, tuple(value.shape)) for value in values}
        if len(types) == 1:
            chosen: Tensor = wrap_as(stack(list(values))[wrap(position)].value, *values)
            holds = [partial(ops.eq, position, number_of(number)) for number in range(len(values))]
            trace = context.current().trace
            note_choice(trace, chosen, list(map(SameWhere, values, holds)))
            trace.stand_ins.add(chosen, [root for x in values for root in trace.stand_ins.roots_of(trace, x)], trace)
            return chosen
    if all(isinstance(value, Tensor) or is_number(value) for value in values) and any(map(is_number, values)):
        raise ScriptError(
            "an element is a tensor or a Python number, as a number says that is known only when the graph runs",
            hint="make all of them tensors, as by jg.asarray(k), or all of them numbers, as by int(x)",
        )
    for value in values:
        if isinstance(value, CONTAINERS) or (hasattr(value, "__dict__") and not callable(value)):
            raise ScriptError(
                f"an element that is a {type(value).__name__} is chosen by a number that is known only when the graph "
                "runs: what is then changed in it would be changed in a copy",
                hint="index on at once (rows[i][j]), or " + OTHER_INDICES,
            )
    return choose_among([partial(_itself, value) for value in values], position)


def _pick_number(values: Sequence[Any], position: Any) -> StagedNumber:
    kind = table_kind(values)
    dtype = {int: dtypes.int64, float: dtypes.float64, bool: dtypes.bool_}[kind or int]
    if any(map(is_staged, values)) or any(map(scalars.is_varying, values)):
        table = ops.concat(*[lifting.broadcast_to(lifting.value_of(_value(x, dtype)), (1,)) for x in values], axis=0)
    else:
        if kind is int:
            for number in values:
                staged_integers.of_constant(number)
        table = _table(np.array(values, dtype))
    return StagedNumber(wrap(table)[wrap(position)].value)


def _value(x: Any, dtype: Any) -> Tensor:
    if type(x) is StagedNumber:
        return x.as_tensor()
    return wrap(lifting.value_of(x, dtype))


def choose_among(makers: Sequence[Callable[[], Any]], position: Any) -> Any:
    """What the function at a place (int64) gives, by a branch for each; each runs in its branch alone."""
    if len(makers) > _LARGEST_CHOICE:
        raise ScriptError(
            f"one of {len(makers)} values is chosen by a number that is known only when the graph runs",
            hint=OTHER_INDICES,
        )
    return _choose_from(makers, position, 0)


def _choose_from(makers: Sequence[Callable[[], Any]], position: Any, number: int) -> Any:
    if number == len(makers) - 1:
        return makers[number]()
    sides = makers[number], lambda: _choose_from(makers, position, number + 1)
    return choose_value(of_bool(ops.eq(position, number_of(number))), sides, Cells({}), "an element chosen by a number")


def _itself(value: Any) -> Any:
    return value


# --- searches -------------------------------------------------------------------------------------------------------


def count(container: Any, item: Any) -> Any:
    """How often a sequence has an element."""
    total: Any = 0
    for candidate in container:
        total = total + (item == candidate)
    return total


def index(container: Any, item: Any) -> Any:
    """The number of the first element that equals ``item``; ValueError where none does."""
    present, position = _position(item, list(container))
    if present is False:
        raise ValueError(f"x not in {type(container).__name__}")
    if is_staged(present):
        require(present.value, "ValueError", f"x not in {type(container).__name__}")
    return StagedNumber(position)


def _table(array: np.ndarray[Any, Any]) -> Any:
    return ops.constant(value=Constant(array))


def number_of(number: int) -> Any:
    """A Python int as an int64 of the graph."""
    return lifting.constant(number, dtypes.int64)
