"""The report on a run as HTML: a timeline of compilations, calls and memory, and what each compilation was for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from jitgraph.ir.graph_html import closed, source_line
from jitgraph.tracing.report.html import cell_of_notebook, document
from jitgraph.tracing.report.quantities import bytes_text, duration
from jitgraph.tracing.report.run_text import (
    STAGES,
    compiled_text,
    headline,
    memory_text,
    notes_of,
    stages_text,
    traffic_text,
    what_text,
)

if TYPE_CHECKING:
    from jitgraph.tracing.report.run import Compilation, RunMark, RunReport, RunSample, WatchedFunction

_WIDTH: Final = 1040
_LEFT: Final = 170  # of the drawing, for names
_RIGHT: Final = 20
_LANE: Final = 22
_CHART: Final = 64
_HALF_LETTER: Final = 3.1
_MOST_LANES: Final = 16
_COLOURS: Final = dict(zip(STAGES, ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#9aa3b2", "#b07aa1"), strict=True))
_FAILED: Final = "#d62728"
_EARLY: Final = 0.25
"""The share of a run within which all compilations lie where they are drawn a second time, larger."""


def page(run: RunReport) -> str:
    """A whole HTML document."""
    return document("jitgraph: a run", _contents(run))


def fragment(run: RunReport) -> str:
    """The same for a cell of a notebook."""
    return cell_of_notebook(_contents(run))


def _contents(run: RunReport) -> str:
    return "\n".join(_parts(run))


def _parts(run: RunReport) -> Iterator[str]:
    yield f"<h1>A run of {duration(run.seconds)}</h1><p>{escape(headline(run))}.</p>"
    if run.error:
        yield f"<p>The block was ended by <code>{escape(run.error)}</code>.</p>"
    if advice := run.advice:
        yield "<h2>Advice</h2><ul>" + "".join(f"<li>{escape(line)}</li>" for line in advice) + "</ul>"
    yield "<h2>Over time</h2>"
    yield (
        "<p class='note'>A row for each function, a box for each compilation: how wide it is says how long it took; "
        "colours are its stages. Below it the calls per second and the memory of the process.</p>"
    )
    yield f"<p class='note'>{''.join(_legend())}</p>"
    yield _drawing(run, run.seconds)
    last = max((event.second + event.seconds for event in run.events), default=0.0)
    if 0 < last < _EARLY * run.seconds:
        yield f"<p class='note'>The first {duration(last)}, in which all compilations lie:</p>"
        yield _drawing(run, 1.02 * last)
    if memory := memory_text(run):
        yield f"<p>Memory: {escape(memory)}.</p>"
    yield f"<h2>Functions: {len(run.functions)}</h2>{_functions(run.functions, run.seconds)}"
    yield f"<h2>Compilations: {len(run.events) + run.omitted}</h2>"
    yield from map(_event, run.events)
    if run.omitted:
        yield f"<p class='note'>{run.omitted} more are counted and not listed.</p>"


def _legend() -> Iterator[str]:
    for stage, colour in _COLOURS.items():
        yield (
            f"<svg width='12' height='12' viewBox='0 0 12 12' style='min-width:0;vertical-align:-1px'>"
            f"<rect width='12' height='12' rx='2' fill='{colour}'/></svg> {stage} &nbsp; "
        )


def _functions(functions: Sequence[WatchedFunction], seconds: float) -> str:
    heads = "".join(f"<th>{head}</th>" for head in ("function", "defined at", "calls", "compiled", "may vary"))
    rows = []
    for each in functions:
        texts = (
            each.name,
            "" if each.defined_at is None else str(each.defined_at),
            traffic_text(each, seconds),
            compiled_text(each),
            ", ".join(each.promoted),
        )
        rows.append("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>")
    return f"<div class='wide'><table><tr>{heads}</tr>{''.join(rows)}</table></div>"


def _event(event: Compilation) -> str:
    notes = "".join(f"<p>{escape(note)}</p>" for note in notes_of(event))
    stages = f"<p>ms: {escape(stages_text(event))}</p>" if event.stages else ""
    memory = f"<p>temporaries: {bytes_text(event.temporaries)}</p>" if event.temporaries else ""
    error = f"<pre class='wrapped'>{escape(event.error)}</pre>" if event.error else ""
    called = f"<p>called at {source_line(event.line)}</p>"
    failed = "failed after " if event.kind == "failure" else ""
    origin = f", {event.origin}" if event.origin else ""
    summary = f"{event.second:.3f} s: <b>{escape(what_text(event))}</b>: {escape(event.cause.text)}"
    inside = f"<div class='inside'>{called}{notes}{stages}{memory}{error}</div>"
    return closed(summary, f"{failed}{duration(event.seconds)}{origin}", inside)


# ----------------------------------------------------------------------
# The drawing: rows of compilations, then calls per second and memory, over the same seconds.


def _drawing(run: RunReport, end: float) -> str:
    """The block from its beginning to the second ``end``."""
    end = max(end, 1e-6)
    across = (_WIDTH - _LEFT - _RIGHT) / end
    events = [event for event in run.events if event.second <= end]
    names = list(dict.fromkeys(_lane(event) for event in events))[:_MOST_LANES]
    lanes = {name: number for number, name in enumerate(names)}
    top = 18
    charts = top + _LANE * len(lanes) + 10
    height = charts + 2 * (_CHART + 16) + 20

    def x(second: float) -> float:
        return _LEFT + second * across

    parts = []
    for name, number in lanes.items():
        y = top + _LANE * number
        parts.append(f"<path class='axis' d='M{_LEFT} {y + _LANE - 2}H{_WIDTH - _RIGHT}'/>")
        parts.append(_text(_LEFT - 8, y + 14, _short(name), "end", name))
    for event in events:
        if (lane := lanes.get(_lane(event))) is not None:
            parts += _box(event, x(event.second), across, top + _LANE * lane + 3)
    rates = _rates(run.samples, end)
    parts += _chart("calls / s", rates, x, charts, lambda value: f"{value:,.0f}")
    sizes = [(sample.second, float(sample.resident)) for sample in run.samples if sample.second <= end]
    parts += _chart("memory", sizes, x, charts + _CHART + 16, lambda value: bytes_text(int(value)))
    parts += _marks([mark for mark in run.marks if mark.second <= end], x, top, height - 20)
    for part in range(6):
        anchor = "middle" if part < 5 else "end"
        parts.append(_text(x(end * part / 5), height - 5, f"{end * part / 5:.3g} s", anchor))
    return (
        f"<div class='wide'><svg role='img' aria-label='compilations, calls and memory over time' "
        f"viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}'>{''.join(parts)}</svg></div>"
    )


def _marks(marks: Sequence[RunMark], x: Callable[[float], float], top: float, bottom: float) -> Iterator[str]:
    """A line for each mark, with its name where that covers no other."""
    free = 0.0
    for mark in marks:
        at, half = x(mark.second), _HALF_LETTER * len(_short(mark.name))
        title = f"<title>{escape(mark.name)}: {mark.second:.3f} s</title>"
        yield f"<path d='M{at:.1f} {top - 4}V{bottom}' stroke='var(--faint)' stroke-dasharray='2 3'>{title}</path>"
        if at - half >= free:
            yield _text(at, top - 7, _short(mark.name), "middle")
            free = at + half + 2 * _HALF_LETTER


def _lane(event: Compilation) -> str:
    return "eager ops" if event.kind == "op" else event.function


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:21]}..."


def _text(x: float, y: float, text: str, anchor: str, tooltip: str = "") -> str:
    title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}{title}</text>"


def _box(event: Compilation, x: float, across: float, y: float) -> Iterator[str]:
    """A compilation as a row of its stages, at least two units wide."""
    width = max(2.0, event.seconds * across)
    tooltip = f"{event.second:.3f} s: {what_text(event)}, {duration(event.seconds)}; {event.cause.text}"
    yield f"<g><title>{escape(tooltip)}</title>"
    total = sum(event.stages.values())
    if event.kind == "failure" or not total:
        colour = _FAILED if event.kind == "failure" else _COLOURS["other"]
        yield f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{_LANE - 8}' fill='{colour}'/>"
    else:
        for stage in STAGES:
            share = width * event.stages.get(stage, 0.0) / total
            if share > 0:
                yield f"<rect x='{x:.2f}' y='{y}' width='{share:.2f}' height='{_LANE - 8}' fill='{_COLOURS[stage]}'/>"
                x += share
    yield "</g>"


def _rates(samples: Sequence[RunSample], end: float) -> list[tuple[float, float]]:
    """Calls per second between samples, at both ends of each interval."""
    points = []
    for before, after in itertools.pairwise(samples):
        if after.second - before.second > 1e-3 and before.second <= end:
            rate = (after.calls - before.calls) / (after.second - before.second)
            points += [(before.second, rate), (min(after.second, end), rate)]
    return points


def _chart(
    name: str,
    points: Sequence[tuple[float, float]],
    x: Callable[[float], float],
    y: float,
    text: Callable[[float], str],
) -> Iterator[str]:
    """A line through points, from zero to the largest."""
    most = max((value for _, value in points), default=0.0)
    base = y + _CHART
    yield f"<path class='axis' d='M{_LEFT} {base}H{_WIDTH - _RIGHT}M{_LEFT} {y}H{_WIDTH - _RIGHT}'/>"
    yield _text(_LEFT - 8, base, f"{name} 0", "end")
    if most > 0:
        yield _text(_LEFT - 8, y + 8, text(most), "end")
        line = "L".join(f"{x(second):.1f} {base - _CHART * value / most:.1f}" for second, value in points)
        yield f"<path d='M{line}' fill='none' stroke='{_COLOURS['recording']}' stroke-width='1.5'/>"
