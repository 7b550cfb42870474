"""Functions of tensors that are one op each: calls of kinds that came back go past Python, on the tape as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jitgraph.eager.dispatch.function import FEW, MOST_TABLES, NativeFunction
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import native_runtime
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import Api, ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context

if TYPE_CHECKING:
    from jitgraph.eager.dispatch.start import NativeRuntime
    from jitgraph.eager.dispatch.table import NativeTable
    from jitgraph.ir.context import Context
    from jitgraph.tensor.call_recording import OpCall

TableOf = Callable[..., "tuple[Any, Callable[[], NativeTable | None]] | None"]
"""From the arguments of a call, the runtime and the context to what tells such calls apart, and what makes a table.

None where they need no table; Unsupported where none can be made.
"""


def direct_call(python: Callable[..., Any], count: int, static: Iterable[int] = (), api: Api = "") -> NativeFunction:
    """``python`` of so many tensors and numbers, which also takes anything else.

    Calls for which it is one op, as recording it tells, go past it. ``static`` are arguments whose numbers decide what
    it is; those that it looks at are found out. Of tensors those of one ``api`` are served, which results have, too.
    """
    return DirectCall(python, count, _Recordings(python, frozenset(static), api).table_of).native


class _Recordings:
    """What a function does, by the types of its arguments and the numbers that it looks at."""

    def __init__(self, python: Callable[..., Any], static: frozenset[int], api: Api = "") -> None:
        self._python = python
        self._api = api
        self._declared = static
        self._static: dict[Any, frozenset[int]] = {}
        self._calls: dict[Any, OpCall | None] = {}

    def table_of(self, xs: Sequence[Any], runtime: NativeRuntime, now: Context) -> tuple[Any, Callable[[], Any]] | None:
        """A ``TableOf``."""
        args = [argument_as(x, runtime, self._api) for x in xs]
        if any(x is None for x in args) or not any(isinstance(x, EagerValue) for x in args):
            return None
        kinds = tuple([(x.type, x.record is not None) if isinstance(x, EagerValue) else x.__class__ for x in args])
        static = self._static.get(kinds)
        key = None if static is None else _key(kinds, args, static)
        call = self._calls.get(key, _UNKNOWN)  # once, as other threads may clear what is known
        if call is _UNKNOWN:
            from jitgraph.tensor.call_recording import record  # here, as many calls never come back

            recording = record(self._python, args, self._declared if static is None else static, self._api)
            if len(self._calls) >= _MOST_RECORDINGS:
                self._calls.clear()
                self._static.clear()
            self._static[kinds] = recording.static
            key = _key(kinds, args, recording.static)
            call = self._calls[key] = recording.call
        if call is None:
            return None
        from jitgraph.tensor import direct_tables  # here, likewise

        return (id(now), key), partial(direct_tables.table_of, args, call, now, self._api)


def _key(kinds: tuple[Any, ...], args: Sequence[Any], static: frozenset[int]) -> tuple[Any, ...]:
    numbers = [args[position] for position in sorted(static) if not isinstance(args[position], EagerValue)]
    return kinds, tuple(map(repr, numbers))


class DirectCalls(dict[Any, NativeFunction]):
    """One function for each attribute, made on first demand."""

    def __init__(self, make: Callable[[Any], NativeFunction]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, attribute: Any) -> NativeFunction:
        if len(self) >= _MOST_ATTRIBUTES:
            self.clear()
        function = self[attribute] = self._make(attribute)
        return function


_MOST_ATTRIBUTES: Final = 64
_MOST_INDICES: Final = 64  # of a program
_MOST_RECORDINGS: Final = 256
_UNKNOWN: Final[Any] = object()
_MOST_WAIT: Final = 256  # calls by Python before a table is tried again


class DirectCall:
    """A function with its tables: which calls Python served, and when a table is due."""

    def __init__(self, python: Callable[..., Any], count: int, table_of: TableOf, most: int = MOST_TABLES) -> None:
        self._python = python
        self._count = count
        self._table_of = table_of
        self._served = 0
        self._next = FEW
        self._written = 0
        self.native = NativeFunction(self._by_python, count, most)

    def _by_python(self, *xs: Any) -> Any:
        result = self._python(*xs)
        self._served += 1
        if self._served >= self._next and len(xs) == self._count:
            self._look(xs)
        return result

    def _look(self, xs: Sequence[Any]) -> None:
        """Write a table for calls like this one, where that can be; while the dispatcher is made, later calls ask."""
        now = context.current()
        if now.emitter is not EAGER or now.trace is not None or now.anomaly or now.sweeping:
            return
        if now.autocast is not None or now.profile is not None:
            return
        self._next = self._served + min(self._served, _MOST_WAIT)
        try:
            runtime = native_runtime()
            if runtime is None:
                self._next = self._served + FEW
                return
            entry = self._table_of(xs, runtime, now)
            if entry is None:
                return
            key, make = entry
            table = None if self.native.has(key) else make()
        except Unsupported:
            return
        if table is not None:
            self._written += 1
            self._next = self._served + FEW * self._written
            self.native.add(key, table, runtime)


def argument_as(x: Any, runtime: NativeRuntime, api: Api) -> Any:
    """The value of a tensor of an API, or a Python number; None for what no table takes."""
    if isinstance(x, ValueHandle):
        value = x.value if x._api == api and runtime.knows(type(x)) else None
        return value if isinstance(value, EagerValue) else None  # another one is on a GPU
    return x if x.__class__ is float or x.__class__ is int else None


def index_call(python: Callable[..., Any]) -> NativeFunction:
    """``python(x, index)``, which takes any index; those of ints, slices, ``...`` and None go past Python."""

    def table_of(xs: Sequence[Any], runtime: NativeRuntime, now: Context) -> tuple[Any, Callable[[], Any]] | None:
        value, index = argument_as(xs[0], runtime, ""), xs[1]
        items = index if index.__class__ is tuple else (index,)
        if not isinstance(value, EagerValue) or not all(map(is_basic, items)):
            return None
        kinds = [int if item.__class__ is int else repr(item) for item in items]
        key = (id(now), id(value.type), value.record is not None, index.__class__ is tuple, *kinds)
        return key, partial(_table_of_part, value, index, now)

    return DirectCall(python, 2, table_of, _MOST_INDICES).native


def is_basic(item: Any) -> bool:
    """Whether an item of an index is an int, a slice of ints, ``...`` or None."""
    if item.__class__ is slice:
        return all(bound is None or bound.__class__ is int for bound in (item.start, item.stop, item.step))
    return item.__class__ is int or item is None or item is Ellipsis


def _table_of_part(value: EagerValue, index: Any, now: Context) -> Any:
    from jitgraph.eager.dispatch.launches import ViewTable  # here, as many calls never come back
    from jitgraph.tensor.direct_tables import recording_part
    from jitgraph.tensor.index_record import IndexRecord

    required, finish = value.record is not None, None
    if now.grad_enabled and required:
        finish = recording_part(lambda given, made: IndexRecord(given[0].value, made, given[1]), indexed=True)
    return ViewTable(value.array, index, now, required=required, finish=finish)
