"""A profile as a table of text, and in the Trace Event Format of Chrome, which Perfetto reads, too."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from jitgraph.profiler.events import Events, ProfileEvent, ProfileRow, text_of
from jitgraph.runtime.atomic_file import replacing

if TYPE_CHECKING:
    from jitgraph.profiler.limits import Limits

# ----------------------------------------------------------------------
# A profile in the Trace Event Format of Chrome, which Perfetto reads, too.
#
# Source of the format: "Trace Event Format", Google, 2016: complete events (``X``) with ``ts`` and ``dur`` in
# microseconds, and metadata (``M``).


def export(path: str | os.PathLike[str], events: Events, begin: int, seconds: float) -> None:
    """Write the events, and the block from ``begin`` as the one around them."""
    process = os.getpid()
    spans = list(events)
    threads = list(dict.fromkeys(event.thread for event in spans))
    trace: list[dict[str, Any]] = [_named("process_name", process, 0, "jitgraph")]
    trace += [_named("thread_name", process, thread, f"thread {n}") for n, thread in enumerate(threads)]
    trace += [_complete(event, process, begin) for event in sorted(spans, key=lambda event: (event.begin, -event.end))]
    document = {
        "traceEvents": trace,
        "displayTimeUnit": "ms",
        "otherData": {"milliseconds of the block": 1e3 * seconds, "events left out": events.dropped},
    }
    with replacing(path) as file:
        file.write(json.dumps(document, allow_nan=False).encode())


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(event: ProfileEvent, process: int, begin: int) -> dict[str, Any]:
    details = dict(event.details)
    if event.lines:
        details["lines"] = text_of(event.lines)
    return {
        "ph": "X",
        "name": event.name,
        "cat": event.kind,
        "pid": process,
        "tid": event.thread,
        "ts": (event.begin - begin) / 1e3,
        "dur": (event.end - event.begin) / 1e3,
        "args": details,
    }


# ----------------------------------------------------------------------
# A profile as a table of text.

_HEADS: Final = ("kind", "name", "lines", "runs", "total ms", "mean us", "share", "MB a run", "GB/s", "of limit")
_LONGEST: Final = 48


def table(rows: Sequence[ProfileRow], limit: int, seconds: float, limits: Limits) -> str:
    """The first rows in columns, and below them what the block took."""
    cells = [_HEADS, *(_cells(row, seconds) for row in rows[:limit])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) if at < 3 else cell.rjust(width) for at, (cell, width) in enumerate(pairs)).rstrip()
        for pairs in (list(zip(line, widths, strict=True)) for line in cells)
    ]
    if len(rows) > limit:
        lines.append(f"... and {len(rows) - limit} more rows")
    kinds: dict[str, float] = {}
    for row in rows:
        kinds[row.kind] = kinds.get(row.kind, 0.0) + row.seconds
    rest = max(0.0, seconds - sum(kinds.values()))
    parts = [f"{kind} {1e3 * took:.3f}" for kind, took in kinds.items()]
    lines += [
        "",
        f"{1e3 * seconds:.3f} ms in all: {', '.join([*parts, f'Python and other {1e3 * rest:.3f}'])}",
        f"limits of this machine: {limits.bytes / 1e9:.1f} GB/s, {limits.flops / 1e9:.0f} GFLOP/s of float32 products",
    ]
    return "\n".join(lines)


def _cells(row: ProfileRow, seconds: float) -> tuple[str, ...]:
    took = row.seconds
    return (
        row.kind,
        row.name if len(row.name) <= _LONGEST else row.name[: _LONGEST - 3] + "...",
        text_of(row.lines),
        str(row.runs),
        f"{1e3 * took:.3f}",
        f"{1e6 * took / max(1, row.runs):.2f}",
        f"{took / seconds:.1%}" if seconds else "",
        f"{row.bytes / max(1, row.runs) / 1e6:.3f}" if row.bytes else "",
        f"{row.bytes / took / 1e9:.2f}" if row.bytes and took else "",
        "" if row.limit is None else f"{row.limit:.0%}",
    )
