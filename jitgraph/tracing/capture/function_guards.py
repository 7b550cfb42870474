"""Guards on functions: the code and the defaults of those that run and are older than the call."""

from __future__ import annotations

import inspect
import types
from typing import Any

from jitgraph.tracing.capture.container_guards import ContainerGuards
from jitgraph.tracing.capture.events import Activation
from jitgraph.tracing.capture.followed import is_followed, original_of
from jitgraph.tracing.capture.kinds import is_a
from jitgraph.tracing.capture.observations import Observations
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING, class_entry


class FunctionGuards:
    """Guards the functions that the recorded function runs, and knows those that it made or that a rewrite made.

    Invariant: a function of the user's that has run, and is older than the call, has its code and defaults guarded; of
    code that a rewrite made those of the function that it was made from.
    """

    def __init__(self, seen: Observations, containers: ContainerGuards) -> None:
        self._identities = seen.identities
        self._reads = seen.reads
        self._containers = containers

    def enter(self, view: Activation) -> None:
        """A function begins to run, or goes on: one that is older than the call is guarded from here."""
        code = view.frame.f_code
        if not code.co_flags & inspect.CO_NEWLOCALS:
            return
        if code.co_name == "__init__" and code.co_argcount:
            instance = view.frame.f_locals.get(code.co_varnames[0])
            if not self._identities.is_guarded(instance):
                self._identities.mark_created(instance)
        function = view.function
        entry = self._identities.entry(function)
        if entry.entered or entry.defined:
            return
        entry.entered = True
        self._reads.reach(function, getattr(function, "__name__", "a function"))
        original = self.original(function)
        if is_a(original, types.FunctionType) and not view.in_package:
            self._guard_components(original)

    def original(self, function: Any) -> Any:
        """The user's function in place of which a rewritten one runs."""
        entry = self._identities.known(function)
        if entry is not None and entry.rewritten_from is not MISSING:
            return entry.rewritten_from
        code = original_of(function.__code__)[0]
        return function if code is function.__code__ else self._reads.function_of(code) or function

    def guard(self, function: types.FunctionType) -> None:
        """The code and the defaults of a function of the user's."""
        original = self.original(function)
        if is_a(original, types.FunctionType) and is_followed(original.__code__.co_filename):
            self._guard_components(original)

    def _guard_components(self, function: types.FunctionType) -> None:
        name = self._reads.text_of(function)
        self._reads.record(Slot("attribute", function, "__code__", f"{name}.__code__"), function.__code__)
        for part in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, part)
            if value is not None:
                self._reads.record(Slot("attribute", function, part, f"{name}.{part}"), value)
                if is_a(value, dict):
                    self._containers.guard_contents(value, f"{name}.{part}")
                for default in value.values() if is_a(value, dict) else value:
                    self._reads.reach(default, name)

    def stand_for(self, rewritten: Any, function: Any) -> None:
        """A script calls ``rewritten`` in the place of ``function``."""
        if rewritten is function:
            return
        self._identities.entry(rewritten).rewritten_from = function
        inner = getattr(function, "__func__", None)
        if is_a(rewritten, types.MethodType):
            call = inner if inner is not None else class_entry(type(function), "__call__")
            self.stand_for(rewritten.__func__, call)
        elif is_a(rewritten, types.FunctionType) and self._identities.is_defined(function):
            self._identities.mark_defined(rewritten)
