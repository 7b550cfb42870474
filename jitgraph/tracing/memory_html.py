"""The temporaries of a compiled call as HTML: a drawing of the arena over time, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from jitgraph.ir import dims
from jitgraph.records import NamedTuple

_WIDTH, _HEIGHT, _MARGIN = 1040, 340, 70
_HEADS = ("buffer", "first step", "last step", "offset", "bytes", "written by")
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948", "#9c755f")


class _Box(NamedTuple):
    """A temporary: the steps that it lives for, where it lies, and what writes it first."""

    name: str
    first: int
    last: int
    offset: int
    size: int
    writer: str


def bytes_text(count: int) -> str:
    """A number of bytes in the largest unit that leaves it at 1 or more."""
    for unit, letters in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {letters}"
    return f"{count} B"


def memory_html(schedule: Any, sizes: Mapping[str, int]) -> Iterator[str]:
    """A box for each temporary, its steps to the right, its bytes of the arena upwards."""
    from jitgraph.codegen.kernels.memory import launches, lifetimes

    plan, spans, steps = schedule.plan, lifetimes(schedule.steps), launches(schedule.steps)
    temporaries = [buffer for buffer in schedule.buffers if buffer.role == "temporary" and buffer.name in spans]
    if plan is None or not temporaries:
        yield "<p>There are no temporaries.</p>"
        return
    boxes = []
    for buffer in temporaries:
        offset, size = (dims.evaluate(dim, sizes) for dim in (plan.offsets[buffer.name], buffer.bytes))
        first, last = spans[buffer.name]
        launch = steps.get(first)
        location = "" if launch is None or launch.location is None else f", {launch.location}"
        writer = "" if launch is None else f"{launch.kernel.name}{location}"
        boxes.append(_Box(buffer.name, first, last, offset, size, writer))
    arena, without = (dims.evaluate(dim, sizes) for dim in (plan.arena_bytes, plan.unplanned))
    at = "".join(f", for {name} = {size}" for name, size in sorted(sizes.items()))
    yield f"<p>{arena} bytes with the plan, {without} without{escape(at)}.</p>"
    yield (
        "<p class='note'>Each box is a temporary: to the right the steps from its first write to its last read, "
        "upwards its place in the one block of memory. Boxes that overlap are one buffer that a kernel updates in "
        "place. Colours only tell neighbours apart.</p>"
    )
    yield _drawing(boxes, arena)
    heads = "".join(
        f"<th>{head}</th>" for head in ("buffer", "first step", "last step", "offset", "bytes", "written by")
    )
    table = f"<div class='wide'><table><tr>{heads}</tr>{''.join(map(_cells, boxes))}</table></div>"
    yield f"<details><summary>{len(boxes)} temporaries</summary>{table}</details>"


def _cells(box: _Box) -> str:
    numbers = "".join(f"<td class='number'>{number}</td>" for number in (box.first, box.last, box.offset, box.size))
    return f"<tr><td>{escape(box.name)}</td>{numbers}<td>{escape(box.writer)}</td></tr>"


def _drawing(boxes: list[_Box], arena: int) -> str:
    begin, end = min(box.first for box in boxes), max(box.last for box in boxes) + 1
    across, upwards = (_WIDTH - _MARGIN) / (end - begin), (_HEIGHT - 30) / max(arena, 1)
    base = _HEIGHT - 20
    parts = []
    for quarter in range(5):
        y = base - quarter / 4 * arena * upwards
        parts.append(
            f"<path class='axis' d='M{_MARGIN} {y:.1f}H{_WIDTH}'/>"
            f"<text x='{_MARGIN - 6}' y='{y + 4:.1f}' text-anchor='end'>{bytes_text(arena * quarter // 4)}</text>"
        )
    for number, box in enumerate(boxes):
        x, y = _MARGIN + (box.first - begin) * across, base - (box.offset + box.size) * upwards
        width, height = (box.last + 1 - box.first) * across, max(box.size * upwards, 0.5)
        tooltip = f"{box.name}: {box.size} bytes at {box.offset}, steps {box.first} to {box.last}; {box.writer}"
        parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' fill='{_COLOURS[number % 8]}' "
            f"fill-opacity='.75' stroke='var(--paper)' stroke-width='.5'><title>{escape(tooltip)}</title></rect>"
        )
        if width > 7 * len(box.name) and height > 12:
            parts.append(f"<text class='on' x='{x + 3:.1f}' y='{y + height / 2 + 4:.1f}'>{escape(box.name)}</text>")
    shown = sorted({begin + round(part / 4 * (end - 1 - begin)) for part in range(5)})
    for step in shown:
        x, anchor = _MARGIN + (step - begin + 0.5) * across, "middle"
        if step in (begin, end - 1):
            x, anchor = (_MARGIN, "start") if step == begin else (_WIDTH, "end")
        parts.append(f"<text x='{x:.1f}' y='{_HEIGHT - 6}' text-anchor='{anchor}'>step {step}</text>")
    return (
        f"<div class='wide'><svg role='img' aria-label='bytes of the arena over the steps' "
        f"viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}'>"
        f"{''.join(parts)}</svg></div>"
    )
