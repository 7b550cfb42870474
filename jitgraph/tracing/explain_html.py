"""``jg.explain(f, ...).html()``: a page of a compiled call that stands alone, and what notebooks show of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jitgraph.errors import JitgraphError
from jitgraph.ir import dims
from jitgraph.ir.graph_html import STYLE, fold, graph_html, module_at
from jitgraph.tracing.lowered import Lowered, sizes_of

if TYPE_CHECKING:
    from jitgraph.tracing.function import TracedFunction

_WIDTH, _HEIGHT, _MARGIN = 900, 320, 70
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948", "#9c755f")


def page(lowered: Lowered, report: str) -> str:
    """A whole HTML document."""
    title = escape(lowered.function.__name__)
    return (
        f"<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title></head>\n"
        f"<body>{fragment(lowered, report)}</body></html>\n"
    )


def fragment(lowered: Lowered, report: str) -> str:
    """The same for a cell of a notebook."""
    parts = [
        f"<h1>{escape(lowered.function.__name__)}</h1>",
        f"<details><summary>Report</summary><pre>{escape(report)}</pre></details>",
        f"<h2>Graph as recorded: {len(lowered.graph.nodes)} ops</h2>{graph_html(lowered.graph)}",
    ]
    try:
        parts += _compiled(lowered)
    except JitgraphError as error:
        parts.append(f"<p>not compiled: {escape(str(error))}</p>")
    return f"{STYLE}<div class='jitgraph'>" + "\n".join(parts) + "</div>"


def function_html(function: TracedFunction) -> str:
    """The graphs of the calls that a function has been recorded for, the last used first."""
    parts = [f"<h1>{escape(repr(function))}</h1><p>{escape(str(function.cache_info()))}</p>"]
    parts += [f"<h2>{escape(plan.graph.name)}</h2>{graph_html(plan.graph)}" for plan in function.plans]
    return f"{STYLE}<div class='jitgraph'>" + "\n".join(parts) + "</div>"


def _compiled(lowered: Lowered) -> Iterator[str]:
    from jitgraph.codegen.kernels.memory import launches

    yield f"<h2>Graph after the passes: {len(lowered.fused.nodes)} ops</h2>{graph_html(lowered.fused)}"
    schedule = lowered.stages.schedule
    steps = launches(schedule.steps)
    yield f"<h2>Kernels: {len(steps)}</h2>"
    yield from _kernels(list(steps.items()), 0)
    yield "<h2>Memory of temporaries over time</h2>"
    yield from _memory(schedule, sizes_of(lowered.plan))


def _kernels(steps: list[tuple[int, Any]], depth: int) -> Iterator[str]:
    """Launches, inside of ``depth`` modules."""
    from jitgraph.codegen.kernels.kernel_text import print_kernel

    for name, group in groupby(steps, lambda step: module_at(step[1].location, depth)):
        members = list(group)
        if name is not None:
            inside = "\n".join(_kernels(members, depth + 1))
            yield fold(f"<b>{escape(name)}</b>", len(members), "kernel", f"<div class='inside'>{inside}</div>")
            continue
        for number, launch in members:
            place = "" if launch.location is None else escape(str(launch.location))
            buffers = escape(", ".join(launch.buffers))
            yield (
                f"<details><summary>{number}: {escape(launch.kernel.name)} ({buffers}) <span class='count'>{place}"
                f"</span></summary><pre>{escape(print_kernel(launch.kernel))}</pre></details>"
            )


def _memory(schedule: Any, sizes: Mapping[str, int]) -> Iterator[str]:
    """A drawing: steps to the right, bytes of the arena upwards, a box for each temporary; and the same as a table."""
    from jitgraph.codegen.kernels.memory import lifetimes

    plan, spans = schedule.plan, lifetimes(schedule.steps)
    temporaries = [buffer for buffer in schedule.buffers if buffer.role == "temporary" and buffer.name in spans]
    if plan is None or not temporaries:
        yield "<p>There are no temporaries.</p>"
        return
    rows = []
    for buffer in temporaries:
        offset, size = (dims.evaluate(dim, sizes) for dim in (plan.offsets[buffer.name], buffer.bytes))
        rows.append((buffer.name, *spans[buffer.name], offset, size))
    arena = dims.evaluate(plan.arena_bytes, sizes)
    at = "".join(f", for {name} = {size}" for name, size in sorted(sizes.items()))
    without = dims.evaluate(plan.unplanned, sizes)
    yield f"<p>{arena} bytes with the plan, {without} without{escape(at)}.</p>"
    yield _drawing(rows, arena)
    cells = "".join(
        f"<tr><td>{escape(name)}</td><td class='number'>{first}</td><td class='number'>{last}</td>"
        f"<td class='number'>{offset}</td><td class='number'>{size}</td></tr>"
        for name, first, last, offset, size in rows
    )
    heads = "".join(f"<th>{head}</th>" for head in ("buffer", "first step", "last step", "offset", "bytes"))
    yield f"<details><summary>{len(rows)} temporaries</summary><table><tr>{heads}</tr>{cells}</table></details>"


def _drawing(rows: list[tuple[str, int, int, int, int]], arena: int) -> str:
    begin, end = min(row[1] for row in rows), max(row[2] for row in rows) + 1
    across, upwards = (_WIDTH - _MARGIN) / (end - begin), (_HEIGHT - 30) / max(arena, 1)
    base = _HEIGHT - 20
    boxes = []
    for number, (name, first, last, offset, size) in enumerate(rows):
        x, y = _MARGIN + (first - begin) * across, base - (offset + size) * upwards
        width, height = (last + 1 - first) * across, max(size * upwards, 0.5)
        told = f"{name}: {size} bytes at {offset}, steps {first} to {last}"
        boxes.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{_COLOURS[number % 8]}' "
            f"fill-opacity='.75' stroke='#fff' stroke-width='.5'><title>{escape(told)}</title></rect>"
        )
        if width > 7 * len(name) and height > 12:
            boxes.append(f"<text x='{x + 3:.1f}' y='{y + height / 2 + 4:.1f}'>{escape(name)}</text>")
    return (
        f"<svg role='img' aria-label='bytes of the arena over the steps' viewBox='0 0 {_WIDTH} {_HEIGHT}' "
        f"width='{_WIDTH}' height='{_HEIGHT}'>"
        f"<path d='M{_MARGIN} 10V{base}H{_WIDTH}' fill='none' stroke='#5c677a'/>"
        f"<text x='{_MARGIN - 6}' y='16' text-anchor='end'>{arena}</text>"
        f"<text x='{_MARGIN - 6}' y='{base}' text-anchor='end'>0 bytes</text>"
        f"<text x='{_MARGIN}' y='{_HEIGHT - 6}'>step {begin}</text>"
        f"<text x='{_WIDTH}' y='{_HEIGHT - 6}' text-anchor='end'>step {end - 1}</text>" + "".join(boxes) + "</svg>"
    )
