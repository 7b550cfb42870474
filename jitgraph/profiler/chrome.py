"""A profile in the Trace Event Format of Chrome, which Perfetto reads, too.

Source of the format: "Trace Event Format", Google, 2016: complete events (``X``) with ``ts`` and ``dur`` in
microseconds, and metadata (``M``).
"""

from __future__ import annotations

import json
import os
from typing import Any

from jitgraph.profiler.events import Events, ProfileEvent, text_of
from jitgraph.runtime.atomic_file import replacing


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
