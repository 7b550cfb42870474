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
.jitgraph { font: 14px/1.45 system-ui, sans-serif; color: #1c2330; background: #fff; max-width: 72em; padding: .5em; }
.jitgraph pre, .jitgraph code { font: 12px/1.5 ui-monospace, monospace; }
.jitgraph pre { overflow-x: auto; background: #f3f5f8; margin: .2em 0 .5em 1.2em; padding: .4em .7em; }
.jitgraph .inside { margin-left: 1.2em; }
.jitgraph h1 { font-size: 1.3em; } .jitgraph h2 { font-size: 1.1em; margin: 1.2em 0 .4em; }
.jitgraph summary { cursor: pointer; } .jitgraph summary .count { color: #5c677a; float: right; }
.jitgraph table { border-collapse: collapse; } .jitgraph td, .jitgraph th { padding: .1em .8em; text-align: left; }
.jitgraph tr:nth-child(even) { background: #f3f5f8; } .jitgraph td.number { text-align: right; }
.jitgraph svg text { font: 10px ui-monospace, monospace; fill: #1c2330; }
</style>"""


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
    parts = [f"<pre>{escape(lines[0][0])}</pre>"]
    parts += _folds(owned, 0)
    end = escape("\n".join(text for text, _ in lines[-2:]))
    return "\n".join([*parts, f"<pre>{end}</pre>"])


def fold(summary: str, count: int, what: str, inside: str) -> str:
    """What can be opened; ``summary`` is HTML, and what is counted is named in the singular."""
    told = f"{summary} <span class='count'>{count} {what}{'' if count == 1 else 's'}</span>"
    return f"<details><summary>{told}</summary>{inside}</details>"


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
        yield fold(_place(location), _count(members), "op", f"<pre>{text}</pre>")


def _count(owned: Sequence[tuple[Node, str]]) -> int:
    return len({node for node, _ in owned})


def _place(location: Location | None) -> str:
    """The line and what stands there, where that can be read."""
    if location is None:
        return "<i>no line of the program</i>"
    source = linecache.getline(location.file, location.line).strip()
    return f"{escape(str(location))} <code>{escape(source)}</code>"
