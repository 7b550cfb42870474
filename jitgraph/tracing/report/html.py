"""``jg.explain(f, ...).html()``: a page of a compiled call that stands alone, and what notebooks show of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from jitgraph.errors import JitgraphError
from jitgraph.ir import dims
from jitgraph.ir.graph_html import STYLE, closed, fold, graph_html, module_at, source_line
from jitgraph.records import NamedTuple
from jitgraph.tracing.report.lowered import Lowered, sizes_of
from jitgraph.tracing.report.quantities import bytes_text

if TYPE_CHECKING:
    from jitgraph.tracing.call.function import TracedFunction
    from jitgraph.tracing.call.plan import CallPlan

# ----------------------------------------------------------------------
# The temporaries of a compiled call as HTML: a drawing of the arena over time, and the same as a table.

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


# ----------------------------------------------------------------------
# The kernels of a compiled call as HTML, folded by the modules and the user's lines that they come from.

_Steps: TypeAlias = "list[tuple[int, Any]]"


def kernels_html(steps: _Steps, schedule: Any, plan: CallPlan) -> Iterator[str]:
    """A fold for each run of launches from one module, and for each run from one line."""
    yield from _in_modules(steps, 0, _Names(schedule, plan))


class _Names:
    """What the buffers of a schedule are."""

    def __init__(self, schedule: Any, plan: CallPlan) -> None:
        self._buffers = {buffer.name: buffer for buffer in schedule.buffers}
        self._inputs = [value.hint or "" for value in plan.graph.inputs]
        self._states = {v.number: plan.handles[handle].text for handle, v in plan.rebound if v.kind == "output"}
        self._sizes = sizes_of(plan)

    def bytes(self, name: str) -> int:
        return dims.evaluate(self._buffers[name].bytes, self._sizes)

    def role(self, name: str) -> str:
        """Its part in the call: an input with its name, a result with its place or the state that it becomes."""
        buffer = self._buffers[name]
        if buffer.role == "input":
            return f"input {self._inputs[buffer.position]}".rstrip()
        if buffer.role == "output":
            state = self._states.get(buffer.position)
            return f"result {buffer.position}" if state is None else f"new {state}"
        return str(buffer.role)

    def type(self, name: str) -> str:
        return str(self._buffers[name].type)


def _in_modules(steps: _Steps, depth: int, names: _Names) -> Iterator[str]:
    """Launches, inside of ``depth`` modules."""
    for name, group in groupby(steps, lambda step: module_at(step[1].location, depth)):
        members = list(group)
        if name is None:
            yield from _in_lines(members, names)
        else:
            inside = "\n".join(_in_modules(members, depth + 1, names))
            yield fold(f"<b>{escape(name)}</b>", len(members), "kernel", f"<div class='inside'>{inside}</div>")


def _in_lines(steps: _Steps, names: _Names) -> Iterator[str]:
    for location, group in groupby(steps, lambda step: step[1].location):
        members = list(group)
        inside = "\n".join(_kernel(number, launch, names) for number, launch in members)
        yield fold(source_line(location), len(members), "kernel", f"<div class='inside'>{inside}</div>")


def _kernel(number: int, launch: Any, names: _Names) -> str:
    from jitgraph.codegen.kernels.kernel_text import print_kernel

    used = list(dict.fromkeys(launch.buffers))
    others = [line for line in launch.lines if line != launch.location]
    fused = f"<p>with ops from</p>{''.join(f'<p>{source_line(line)}</p>' for line in others)}" if others else ""
    inside = f"{fused}{_buffers(launch, names)}<pre>{escape(print_kernel(launch.kernel))}</pre>"
    return closed(f"{number}: {escape(launch.kernel.name)}", bytes_text(sum(map(names.bytes, used))), inside)


def _buffers(launch: Any, names: _Names) -> str:
    rows = "".join(
        f"<tr>{_cell(param.name)}{_cell(param.access)}{_cell(buffer)}{_cell(names.role(buffer))}{_cell(names.type(buffer))}"
        f"<td class='number'>{bytes_text(names.bytes(buffer))}</td></tr>"
        for param, buffer in zip(launch.kernel.params, launch.buffers, strict=True)
    )
    heads = ("parameter", "access", "buffer", "what it is", "type", "size")
    return f"<div class='wide'><table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{rows}</table></div>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


# ----------------------------------------------------------------------
# ``jg.explain(f, ...).html()``: a page of a compiled call that stands alone, and what notebooks show of functions.

_PAGE_STYLE = """<style>
html { color-scheme: light dark; } body { margin: 0; background: #fff; }
.jitgraph { margin: auto; padding: .5em 1em 2em; }
@media (prefers-color-scheme: dark) { body { background: #15181e; } }
</style>"""
_OPEN_ALL = (
    "<p><button type='button' onclick='for (const fold of document.querySelectorAll(\"details\")) fold.open = {}'>{}"
    "</button> "
)


def page(lowered: Lowered, report: str) -> str:
    """A whole HTML document."""
    return document(lowered.function.__name__, _contents(lowered, report))


def document(title: str, contents: str) -> str:
    """A whole HTML document of ``contents``, in light and dark."""
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'><title>{escape(title)}</title></head>\n"
        f"<body>{STYLE}{_PAGE_STYLE}<div class='jitgraph'>{contents}</div></body></html>\n"
    )


def cell_of_notebook(contents: str) -> str:
    """``contents`` in the style of a document, for a cell of a notebook."""
    return f"{STYLE}<div class='jitgraph'>{contents}</div>"


def fragment(lowered: Lowered, report: str) -> str:
    """The same for a cell of a notebook."""
    return cell_of_notebook(_contents(lowered, report, opens_all=False))


def function_html(function: TracedFunction) -> str:
    """The graphs of the calls that a function has been recorded for, the last used first."""
    parts = [f"<h1>{escape(repr(function))}</h1><p>{escape(str(function.cache_info()))}</p>"]
    parts += [f"<h2>{escape(plan.graph.name)}</h2>{graph_html(plan.graph)}" for plan in function.plans]
    return cell_of_notebook("\n".join(parts))


def _contents(lowered: Lowered, report: str, *, opens_all: bool = True) -> str:
    parts = [f"<h1>{escape(lowered.function.__name__)}</h1>"]
    if opens_all:
        parts += [_OPEN_ALL.format("true", "Open all") + _OPEN_ALL.format("false", "Close all")[3:] + "</p>"]
    parts += [
        f"<details><summary>Report</summary><pre class='wrapped'>{escape(report)}</pre></details>",
        f"<h2>Graph as recorded: {len(lowered.graph.nodes)} ops</h2>{graph_html(lowered.graph)}",
    ]
    try:
        parts += _compiled(lowered)
    except JitgraphError as error:
        parts.append(f"<p>not compiled: {escape(str(error))}</p>")
    return "\n".join(parts)


def _compiled(lowered: Lowered) -> Iterator[str]:
    from jitgraph.codegen.kernels.memory import launches

    schedule = lowered.stages.schedule
    yield f"<h2>Graph after the passes: {len(lowered.fused.nodes)} ops</h2>{graph_html(lowered.fused)}"
    steps = launches(schedule.steps)
    yield f"<h2>Kernels: {len(steps)}</h2>"
    yield (
        "<p class='note'>In the order in which they run, under the line of the op that each begins from; at the right "
        "the bytes of all that it reads or writes.</p>"
    )
    yield from kernels_html(list(steps.items()), schedule, lowered.plan)
    yield "<h2>Memory of temporaries over time</h2>"
    yield from memory_html(schedule, sizes_of(lowered.plan))
