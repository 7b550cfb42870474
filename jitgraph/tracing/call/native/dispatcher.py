"""The native calls of one traced function: which tables it has, and when they are written anew.

A specialisation gets a table for the sizes of a call that Python has served before. Where the dispatcher declines a
call that fits after all (a dict has grown, a class was changed), Python serves it, and the table is written again: at
once at first, later after twice as many such calls each time.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from jitgraph import config
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import NativeRuntime
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import forks, shared
from jitgraph.runtime.cpython.api import put_word
from jitgraph.tracing.call.arguments import OMITTED, Binder, is_wrapper, unstaged
from jitgraph.tracing.call.native.table import CallTable
from jitgraph.tracing.call.specialisation import Specialisation

MOST_TABLES: Final = 16
_FIRST: Final = 2  # calls that Python serves before there is a table
_MOST_SERVED: Final = 64 * MOST_TABLES
_MOST_WAIT: Final = 1 << 16

Key = tuple[int, tuple[Any, ...]]


class Dispatcher:
    """The tables of one function, which are its calls' way around Python."""

    def __init__(self, function: Any, binder: Binder, runtime: NativeRuntime) -> None:
        """``function`` has the words of ``layout.FUNCTION``. Unsupported where Python has to bind its arguments."""
        self._function = function
        self._runtime = runtime
        self._tables: list[CallTable] = []
        self._led_to: list[CallTable] = []
        self._served: dict[Key, int] = {}  # calls that Python had to serve, by specialisation and shapes
        self._wait: dict[Key, int] = {}
        self._past_hits = 0
        self.reasons: dict[str, int] = {}
        """Why there is no table, with how often that was found."""
        self._binder = binder
        self._lock = forks.lock()
        self._held: tuple[Any, ...] = ()  # what the signature's words lead to
        self._signature()
        self._fallback = types.MethodType(type(function).__call__, function)
        self._put("fallback", id(self._fallback))
        self._put("vectorcall", runtime.vectorcall)

    @property
    def hits(self) -> int:
        """How many calls were served natively."""
        return self._past_hits + sum(table.hits for table in self._tables)

    def served(self, specialisation: Specialisation, values: tuple[Any, ...], operands: Sequence[Any]) -> None:
        """Note that Python serves a call, and write a table for such calls where that is due."""
        shapes = tuple([operand.shape for operand in operands])
        key = (id(specialisation), shapes)
        count = self._served[key] = self._served.get(key, 0) + 1
        if count < self._wait.get(key, _FIRST):
            if len(self._served) > _MOST_SERVED:
                self._served.clear()
            return
        self._served[key] = 0
        self._wait[key] = min(2 * self._wait.get(key, _FIRST), _MOST_WAIT)
        if len(self._wait) > 8 * MOST_TABLES:
            self._wait.clear()
            self._served.clear()
        table = self._table(specialisation, values, shapes)
        if table is None:
            return
        with self._alone():
            rest = [known for known in self._tables if known.key != table.key]
            rest.sort(key=lambda known: -known.used)
            replaced = self._use([table, *rest[: MOST_TABLES - 1]])
        del replaced

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time writes the words.

        No code of the user's runs meanwhile, which might want other locks: the collector waits, and what is replaced is
        dropped behind the block.
        """
        with self._lock, shared.PAUSED.inside():
            yield

    def _table(
        self, specialisation: Specialisation, values: tuple[Any, ...], shapes: tuple[Any, ...]
    ) -> CallTable | None:
        """A table for calls like this one; None where Python has to serve them."""
        try:
            with self._alone():
                self._signature()
            table = CallTable(self._runtime, specialisation, values, shapes, self._parameters, self._variadic)
        except Exception as reason:  # Python serves what nobody foresaw, too
            if not isinstance(reason, Unsupported) and config.VERIFY.is_on():
                raise
            self.reasons[str(reason)] = self.reasons.get(str(reason), 0) + 1
            return None
        # another thread may have changed what was looked at
        return table if specialisation.match(values) is not None else None

    def used(self) -> frozenset[int]:
        """The ids of the specialisations that native calls have used since this was last asked."""
        with self._alone():
            used_ids = frozenset(id(table.specialisation) for table in self._tables if table.hits > table.hits_seen)
            for table in self._tables:
                table.hits_seen = table.hits
            return used_ids

    def clear(self) -> None:
        """Forget all tables, and the count of their hits."""
        with self._alone():
            replaced = self._use([])
            self._past_hits = 0
        self._served.clear()
        self._wait.clear()
        del replaced

    def retain(self, specialisations: Sequence[Specialisation]) -> None:
        """Forget the tables of all others."""
        with self._alone():
            replaced = self._use([table for table in self._tables if table.specialisation in specialisations])
        del replaced

    def _use(self, tables: list[CallTable]) -> list[CallTable]:
        """Let the dispatcher ask these tables, the first one first; gives those that it asked before."""
        before = self._tables
        self._led_to = [*before, *tables]  # by words that are not written yet, should this be interrupted
        self._put("table", 0)  # other threads call meanwhile: half made, the chain may be a circle
        self._tables = tables
        self._past_hits += sum(table.hits for table in before if table not in tables)
        for table, following in itertools.zip_longest(tables, tables[1:]):
            table.follow_with(following)
        self._put("table", tables[0].address if tables else 0)
        self._led_to = []
        return before

    def _put(self, name: str, value: int) -> None:
        put_word(id(self._function) + layout.FUNCTION[name], value)

    def _signature(self) -> None:
        """Write the parameters down, as Python binds them, with the defaults that they have now."""
        binder = self._binder
        parameters = binder.parameters
        kinds = [parameter.kind for parameter in parameters]
        last = inspect.Parameter.VAR_POSITIONAL
        if inspect.Parameter.VAR_KEYWORD in kinds or (last in kinds and kinds.index(last) != len(kinds) - 1):
            raise Unsupported("it takes any arguments by name, or some by name alone behind *args")
        self._variadic = len(kinds) - 1 if last in kinds else None
        fixed_params = parameters[: self._variadic]
        self._parameters = layout.MOST_REGISTERS // 2 if self._variadic is not None else len(fixed_params)
        behind = unstaged(getattr(binder.function, "__func__", binder.function))
        plain = isinstance(behind, types.FunctionType) and not is_wrapper(behind)
        own_defaults = behind.__defaults__ if plain else None
        positional = [p for p in fixed_params if p.kind is not p.KEYWORD_ONLY]
        defaults = list(map(id, own_defaults or ()))[-len(positional) :] if positional else []
        defaults = [0] * (len(positional) - len(defaults)) + defaults
        if is_wrapper(binder.function):
            defaults = [0 if p.default is p.empty else id(OMITTED) for p in fixed_params]
        names = [sys.intern(p.name) if p.kind is not p.POSITIONAL_ONLY else None for p in fixed_params]
        name_words = (ctypes.c_uint64 * max(1, len(names)))(*(id(name) if name else 0 for name in names))
        default_words = (ctypes.c_uint64 * max(1, len(names)))(*defaults)
        words = {
            "count": len(fixed_params), "positional": len(positional), "variadic": int(self._variadic is not None),
            "names": ctypes.addressof(name_words), "defaults": ctypes.addressof(default_words),
            "function": id(behind) if plain else 0, "defaults_object": id(own_defaults) if own_defaults else 0,
        }  # fmt: skip
        signature = (ctypes.c_uint64 * len(layout.SIGNATURE))(*(words[name] for name in layout.SIGNATURE))
        previous = self._held  # other threads may read what it keeps until the word is written
        self._held = previous, signature, name_words, default_words, names, behind, own_defaults
        self._put("signature", ctypes.addressof(signature))
        self._held = signature, name_words, default_words, names, behind, own_defaults
