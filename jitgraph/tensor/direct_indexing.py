"""``x[index]`` of ints, slices, ``...`` and None: calls that came back go past Python, on the tape as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jitgraph.eager.dispatch.function import NativeFunction
from jitgraph.eager.tape import Record
from jitgraph.eager.value import EagerValue
from jitgraph.ir.context import Context
from jitgraph.tensor.direct_calls import DirectCall, given_as

if TYPE_CHECKING:
    from jitgraph.eager.dispatch.runtime import NativeRuntime

_MOST_TABLES: Final = 64  # a program has many indices


def index_call(python: Callable[..., Any], record: Callable[[EagerValue, EagerValue, Any], Record]) -> NativeFunction:
    """``python(x, index)``, which takes any index; ``record(value, made, index)`` is what the tape keeps of a part."""

    def table_of(xs: Sequence[Any], runtime: NativeRuntime, now: Context) -> tuple[Any, Callable[[], Any]] | None:
        value, index = given_as(xs[0], runtime), xs[1]
        items = index if index.__class__ is tuple else (index,)
        if not isinstance(value, EagerValue) or not all(map(_is_basic, items)):
            return None
        kinds = [int if item.__class__ is int else repr(item) for item in items]
        key = (id(now), id(value.type), value.record is not None, index.__class__ is tuple, *kinds)
        return key, partial(_table, value, index, record, now)

    return DirectCall(python, 2, table_of, _MOST_TABLES).native


def _is_basic(item: Any) -> bool:
    if item.__class__ is slice:
        return all(bound is None or bound.__class__ is int for bound in (item.start, item.stop, item.step))
    return item.__class__ is int or item is None or item is Ellipsis


def _table(value: EagerValue, index: Any, record: Callable[..., Record], now: Context) -> Any:
    from jitgraph.eager.dispatch.parts import PartTable  # here, as many calls never come back
    from jitgraph.tensor.direct_tables import recording_part

    required, finish = value.record is not None, None
    if now.grad_enabled and required:
        finish = recording_part(lambda given, made: record(given[0].value, made, given[1]), indexed=True)
    return PartTable(value.array, index, now, required=required, finish=finish)
