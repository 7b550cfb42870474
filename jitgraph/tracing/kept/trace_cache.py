"""The door of the cache of traces: where those of a call lie, and keeping one, which most processes need not load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.ir.context import Context
from jitgraph.runtime import forks
from jitgraph.tracing.arguments import Arguments
from jitgraph.tracing.kept.traces import NewCall, TraceEntry, place_of
from jitgraph.tracing.options import Options
from jitgraph.tracing.specialisation import Specialisation


def entry_of(
    function: Callable[..., Any],
    name: str,
    options: Options,
    arguments: Arguments,
    values: Sequence[Any],
    ambient: Context,
) -> TraceEntry | None:
    """Where the traces of a call lie that no specialisation of this process fits; None where none would do."""
    return place_of(NewCall(function, name, options, arguments, values, ambient))


def keep(entry: TraceEntry, made: Specialisation) -> None:
    """Keep a trace that was recorded for the call for later processes, if they may take it."""
    with forks.whole():
        from jitgraph.tracing.kept import keeping  # here: a process that finds all traces keeps none
    keeping.keep(entry, made)
