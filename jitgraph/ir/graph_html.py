"""A graph as HTML: the text of its nodes, folded by the modules and the user's lines that they came from."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from jitgraph.ir.printer import Style, lines_of
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.ir.graph import Graph, Node

STYLE = """<style>
.jitgraph { --ink: #1c2330; --faint: #5c677a; --paper: #fff; --block: #f3f5f8; --line: #d5dae2; }
@media (prefers-color-scheme: dark) {
  .jitgraph { --ink: #dde3ec; --faint: #98a3b5; --paper: #15181e; --block: #20252e; --line: #3a4250; }
}
body[data-jp-theme-light="true"] .jitgraph, body.vscode-light .jitgraph {
  --ink: #1c2330; --faint: #5c677a; --paper: #fff; --block: #f3f5f8; --line: #d5dae2;
}
body[data-jp-theme-light="false"] .jitgraph, body.vscode-dark .jitgraph {
  --ink: #dde3ec; --faint: #98a3b5; --paper: #15181e; --block: #20252e; --line: #3a4250;
}
.jitgraph { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 80em;
  padding: .5em; }
.jitgraph pre, .jitgraph code { font: 12px/1.5 ui-monospace, monospace; color: inherit; background: none; }
.jitgraph code { overflow-wrap: anywhere; }
.jitgraph pre { overflow-x: auto; background: var(--block); margin: .2em 0 .5em 1.2em; padding: .4em .7em; }
.jitgraph pre.wrapped { white-space: pre-wrap; overflow-wrap: anywhere; }
.jitgraph .inside { margin-left: .55em; padding-left: .65em; border-left: 1px solid var(--line); }
.jitgraph h1 { font-size: 1.3em; } .jitgraph h2 { font-size: 1.1em; margin: 1.2em 0 .4em; }
.jitgraph summary { display: flex; gap: .4em; align-items: baseline; cursor: pointer; list-style: none; }
.jitgraph summary::-webkit-details-marker { display: none; }
.jitgraph summary::before { content: "\\25B8"; flex: none; width: .8em; color: var(--faint); }
.jitgraph details[open] > summary::before { content: "\\25BE"; }
.jitgraph summary:hover { background: var(--block); }
.jitgraph summary .what { flex: 1; min-width: 0; overflow-wrap: anywhere; }
.jitgraph summary .count { flex: none; color: var(--faint); }
.jitgraph p { margin: .4em 0; } .jitgraph .note { color: var(--faint); font-size: .93em; }
.jitgraph .wide { overflow-x: auto; margin: .2em 0 .5em 1.2em; }
.jitgraph table { border-collapse: collapse; color: inherit; background: none; font-size: 13px; }
.jitgraph td, .jitgraph th { padding: .1em .8em; text-align: left; white-space: nowrap; }
.jitgraph tr:nth-child(even) { background: var(--block); } .jitgraph td.number { text-align: right; }
.jitgraph svg { max-width: 100%; min-width: 640px; height: auto; }
.jitgraph svg text { font: 10px ui-monospace, monospace; fill: var(--ink); }
.jitgraph svg text.on { fill: #16191f; } .jitgraph svg .axis { stroke: var(--line); fill: none; }
</style>"""
_LONG = 240  # letters of a line that is folded


def graph_html(graph: Graph) -> str:
    """The heading of the graph, folds of its nodes, and what it returns; without a style.

    There is a fold for each run of nodes from one module, those of its submodules in it, and for each run from a line.
    """
    lines = list(lines_of(graph, Style(locations=False)))
    nodes = {id(node): node for node in graph.nodes}
    owned: list[tuple[Node, str]] = []
    for text, shown in lines[1:-2]:  # the lines of a region belong to the node that has it
        owner = nodes.get(id(shown))
        owned.append((owned[-1][0] if owner is None else owner, text))
    head = _long(lines[0][0], "input", len(graph.inputs))
    end = _long("\n".join(text for text, _ in lines[-2:]), "result", len(graph.outputs))
    return "\n".join([head, *_folds(owned, 0), end])


def _long(text: str, what: str, count: int) -> str:
    """The first or last line of a graph, folded where it has many values."""
    shown = f"<pre class='wrapped'>{escape(text)}</pre>"
    return shown if len(text) <= _LONG else fold(f"<i>{what}s</i>", count, what, shown)


def fold(summary: str, count: int, what: str, inside: str) -> str:
    """What can be opened; ``summary`` is HTML, and what is counted is named in the singular."""
    return closed(summary, f"{count} {what}{'' if count == 1 else 's'}", inside)


def closed(summary: str, detail: str, inside: str) -> str:
    """What can be opened, of three pieces of HTML; what is told stands at the right."""
    return (
        f"<details><summary><span class='what'>{summary}</span><span class='count'>{detail}</span></summary>"
        f"{inside}</details>"
    )


def module_at(location: Location | None, depth: int) -> str | None:
    """The name of the module in whose call a line stands, inside of ``depth`` others."""
    return None if location is None or len(location.modules) <= depth else location.modules[depth]


def _folds(owned: Sequence[tuple[Node, str]], depth: int) -> Iterator[str]:
    """Nodes with the lines of text that belong to them, inside of ``depth`` modules."""
    for name, group in groupby(owned, lambda line: module_at(line[0].location, depth)):
        members = list(group)
        if name is None:
            yield from _by_line(members)
        else:
            inside = "\n".join(_folds(members, depth + 1))
            yield fold(f"<b>{escape(name)}</b>", _count(members), "op", f"<div class='inside'>{inside}</div>")


def _by_line(owned: Sequence[tuple[Node, str]]) -> Iterator[str]:
    for location, group in groupby(owned, lambda line: line[0].location):
        members = list(group)
        text = escape("\n".join(text for _, text in members))
        yield fold(source_line(location), _count(members), "op", f"<pre>{text}</pre>")


def _count(owned: Sequence[tuple[Node, str]]) -> int:
    return len({node for node, _ in owned})


def source_line(location: Location | None) -> str:
    """The line and what stands there, where that can be read."""
    if location is None:
        return "<i>no line of the program</i>"
    source = linecache.getline(location.file, location.line).strip()
    return f"{escape(str(location))} <code>{escape(source)}</code>"
