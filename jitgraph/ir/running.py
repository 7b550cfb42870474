"""Running a graph over an ``apply``: the one walk that gives each node the values of its operands.

What ``apply`` makes of a node is the caller's: arrays (``interpreter.py``), ops of the current emitter, copies of the
nodes in another graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from jitgraph.ir.graph import Graph, Node, Value

_T = TypeVar("_T")
Apply: TypeAlias = Callable[[Node, "list[_T]"], "Sequence[_T]"]


def run_graph(
    graph: Graph, arguments: Sequence[_T], apply: Apply[_T], dying: Sequence[Sequence[Value]] | None = None
) -> list[_T]:
    """The outputs of ``graph`` for these arguments, where ``apply(node, inputs)`` gives a node's outputs.

    ``dying``, which ``deaths_of(graph)`` gives, lets go of each value where nothing after reads it.
    """
    env = dict(zip(graph.inputs, arguments, strict=True))
    run_nodes(graph.nodes, env, apply, dying)
    return [env[value] for value in graph.outputs]


def run_nodes(
    nodes: Iterable[Node],
    env: dict[Value, _T],
    apply: Apply[_T],
    dying: Sequence[Sequence[Value]] | None = None,
) -> None:
    """Apply nodes in order; ``env``, which has what stands for their operands, grows by their outputs.

    A value that ``env`` has before its node comes stays what it is there.
    """
    for position, node in enumerate(nodes):
        outputs = apply(node, [env[value] for value in node.inputs])
        for value, output in zip(node.outputs, outputs, strict=True):
            env.setdefault(value, output)
        for value in dying[position] if dying is not None else ():
            del env[value]


def deaths_of(graph: Graph) -> list[list[Value]]:
    """For each node, the values that nothing after it reads."""
    live = set(graph.outputs)
    dead: list[list[Value]] = []
    for node in reversed(graph.nodes):
        last = [value for value in dict.fromkeys((*node.inputs, *node.outputs)) if value not in live]
        live.update(last)
        dead.append(last)
    return dead[::-1]
