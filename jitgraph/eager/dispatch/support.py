"""Whether this interpreter is one that the dispatcher knows, by its name and by what its objects show."""

from __future__ import annotations

from functools import cache

from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.value import EagerValue
from jitgraph.runtime import dispatch_records, loader
from jitgraph.runtime.cpython import api, probes


@cache
def lacking() -> str:
    """What native calls need and this interpreter or system lacks, in words; empty where it lacks nothing."""
    if reason := api.unknown():
        return reason
    if api.interpreter_number():
        return "this is a subinterpreter"
    slots = {ValueHandle: dispatch_records.HANDLE_SLOTS, EagerValue: dispatch_records.VALUE_SLOTS}
    return loader.lacking_system() or probes.unlike(slots)
