"""Faults of the compiler itself: what a user sees where a pass, a lowering or LLVM fails unexpectedly.

``working_on(node)`` says what was being worked on, ``faults_reported(graph, stage)`` around it all turns the exception
into a CompileError and keeps the graph in a file. What is meant for the user, and what the user's own code raises in
between (a signal handler may), passes through both as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from jitgraph.errors import CompileError, JitgraphError
from jitgraph.ir.graph import Graph
from jitgraph.location import Location

_OURS: Final = frozenset({"jitgraph", "llvmlite", "ml_dtypes", "numpy", *sys.stdlib_module_names})


class Fault(CompileError):
    """An unforeseen exception, its cause, and what was being worked on."""

    def __init__(self, what: str, cause: BaseException, location: Location | None) -> None:
        super().__init__(_says(what, cause), location=location, hint="the fault is jitgraph's; please report it")
        self.what = what


class working_on:  # noqa: N801 - a context manager, and no generator as it stands around every node
    """Around work on one op or kernel: a fault inside names it and its line, the innermost of several."""

    __slots__ = ("location", "what")

    def __init__(self, what: str, location: Location | None) -> None:
        self.what = what
        self.location = location

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and _is_fault(error):
            raise Fault(self.what, error, self.location) from error


@contextmanager
def faults_reported(graph: Graph, stage: str) -> Iterator[None]:
    """CompileError where the block, a stage of the compilation of ``graph``, fails in an unforeseen way."""
    try:
        yield
    except Fault as fault:
        cause = fault.__cause__ or fault
        raise _report(graph, stage, cause, fault) from cause
    except Exception as error:
        if not _is_fault(error):
            raise
        raise _report(graph, stage, error, None) from error


def _says(what: str, error: BaseException) -> str:
    return f"jitgraph failed to compile {what}: {type(error).__name__}: {str(error).strip()}"


def _is_fault(error: BaseException) -> bool:
    if not isinstance(error, Exception) or isinstance(error, JitgraphError | MemoryError):
        return False
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _OURS:
            return False
        trace = trace.tb_next
    return True


def _report(graph: Graph, stage: str, error: BaseException, fault: Fault | None) -> CompileError:
    what = "the graph" if fault is None else fault.what
    return CompileError(
        _says(f"{what}, in the stage {stage}", error),
        location=None if fault is None else fault.location,
        hint=f"the fault is jitgraph's; {_keep(graph, stage, error)}; JITGRAPH_INTERPRET=1 may run the program",
    )


def _keep(graph: Graph, stage: str, error: BaseException) -> str:
    """Write the graph and the traceback to a file; returns what to do with it."""
    return write_report([f"failed in the stage {stage}"], graph, error, ".jgir", "the graph")


def write_report(lines: Sequence[str], text: object, error: BaseException, suffix: str, what: str) -> str:
    """Write lines, a traceback and a text to a file that its owner alone can read; returns what to do with it.

    ``what`` names what the file holds.
    """
    import tempfile
    import traceback

    try:
        comments = [*lines, *"".join(traceback.format_exception(error)).splitlines()]
        content = "".join(f"# {line}\n" for line in comments) + f"{text}\n"
        descriptor, path = tempfile.mkstemp(prefix="jitgraph-fault-", suffix=suffix)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
    except Exception as trouble:  # a full disk, or a graph that cannot even be printed, must not hide the fault
        return f"please report it (its {what.removeprefix('the ')} could not be kept: {trouble})"
    return f"please report it with {path}, which holds {what}"
