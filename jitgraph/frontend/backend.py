"""The seam to the compiler: a graph becomes something that runs on arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from jitgraph import config
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.passes.autodiff import expand_grads


class Runnable(Protocol):
    """Compiled code: arrays of the graph's inputs in, arrays of its outputs out."""

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[Any]:
        """The outputs; ``donate`` lists inputs whose memory an output that aliases them may take over."""
        ...


class Interpreted:
    """A graph that runs in the NumPy interpreter (JITGRAPH_INTERPRET=1)."""

    def __init__(self, graph: Graph) -> None:
        self.graph = expand_grads(graph)

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[Any]:
        """The outputs, in fresh arrays: the interpreter may hand out views of the arguments."""
        found = interpret(self.graph, buffers)
        return [array.copy() if _shares(array, buffers) else array for array in found]


def _shares(array: Any, buffers: Sequence[Any]) -> bool:
    return array.base is not None or any(array is buffer for buffer in buffers)


def compile_graph(graph: Graph, target: Target | None, donate: Sequence[int] = ()) -> Runnable:
    """Native code for ``graph``; the interpreter under JITGRAPH_INTERPRET=1."""
    if config.INTERPRET.is_on():
        return Interpreted(graph)
    from jitgraph import compiler  # the code generator loads on the first compilation

    made: Runnable = compiler.compile(graph, target or Target.host(), donate=tuple(donate))
    return made
