"""``jg.explain(f, ...).html()``: a page of a compiled call that stands alone, and what notebooks show of functions."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from jitgraph.errors import JitgraphError
from jitgraph.ir.graph_html import STYLE, graph_html
from jitgraph.tracing.lowered import Lowered, sizes_of

if TYPE_CHECKING:
    from jitgraph.tracing.function import TracedFunction

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
    title = escape(lowered.function.__name__)
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'><title>{title}</title></head>\n"
        f"<body>{_contents(lowered, report, standalone=True)}</body></html>\n"
    )


def fragment(lowered: Lowered, report: str) -> str:
    """The same for a cell of a notebook."""
    return _contents(lowered, report, standalone=False)


def function_html(function: TracedFunction) -> str:
    """The graphs of the calls that a function has been recorded for, the last used first."""
    parts = [f"<h1>{escape(repr(function))}</h1><p>{escape(str(function.cache_info()))}</p>"]
    parts += [f"<h2>{escape(plan.graph.name)}</h2>{graph_html(plan.graph)}" for plan in function.plans]
    return f"{STYLE}<div class='jitgraph'>" + "\n".join(parts) + "</div>"


def _contents(lowered: Lowered, report: str, *, standalone: bool) -> str:
    parts = [f"<h1>{escape(lowered.function.__name__)}</h1>"]
    if standalone:
        parts += [_OPEN_ALL.format("true", "Open all") + _OPEN_ALL.format("false", "Close all")[3:] + "</p>"]
    parts += [
        f"<details><summary>Report</summary><pre class='wrapped'>{escape(report)}</pre></details>",
        f"<h2>Graph as recorded: {len(lowered.graph.nodes)} ops</h2>{graph_html(lowered.graph)}",
    ]
    try:
        parts += _compiled(lowered)
    except JitgraphError as error:
        parts.append(f"<p>not compiled: {escape(str(error))}</p>")
    return f"{STYLE}{_PAGE_STYLE if standalone else ''}<div class='jitgraph'>" + "\n".join(parts) + "</div>"


def _compiled(lowered: Lowered) -> Iterator[str]:
    from jitgraph.codegen.kernels.memory import launches
    from jitgraph.tracing.kernels_html import kernels_html
    from jitgraph.tracing.memory_html import memory_html

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
