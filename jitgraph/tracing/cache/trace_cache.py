"""The entry point of the cache of traces: finds those of a call and keeps one; it loads what these need alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.ir.context import Context
from jitgraph.runtime import disk_cache, imports
from jitgraph.tracing.call.arguments import Arguments
from jitgraph.tracing.call.options import Options
from jitgraph.tracing.call.specialisation import Specialisation

if TYPE_CHECKING:
    from jitgraph.tracing.cache.traces import TraceEntry


def entry_of(
    function: Callable[..., Any],
    name: str,
    options: Options,
    arguments: Arguments,
    values: Sequence[Any],
    ambient: Context,
) -> TraceEntry | None:
    """Where the traces of a call lie that no specialisation of this process fits; None where none would do."""
    cache = disk_cache.current()
    if cache is None:
        return None
    with imports.importing():
        from jitgraph.tracing.cache import traces  # here: without a cache nothing is looked up
    return traces.folder_of(cache, traces.NewCall(function, name, options, arguments, values, ambient))


def store(entry: TraceEntry, specialisation: Specialisation) -> None:
    """Keep a trace that was recorded for the call for later processes, if they may take it."""
    with imports.importing():
        from jitgraph.tracing.cache import storing  # here: a process that finds all traces keeps none
    storing.store(entry, specialisation)
