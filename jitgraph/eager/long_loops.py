"""Loops outside of traces: long ones run compiled, as the interpreter takes microseconds for each op of each turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import compiler, config, errors
from jitgraph.ir import context
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType

LONG: Final = 512
"""Turns from which compiling a loop takes less time than interpreting it; a number alone, so that bits follow."""

_CACHE: Final = compiler.Cache()


def run(graph: Graph, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of ``graph``: by compiled code where it has a loop of ``LONG`` known turns and can have it."""
    if not _is_long(graph) or context.current().anomaly or config.INTERPRET.is_on() or not _is_pure(graph):
        return interpret(graph, arrays)
    try:
        target = Target.host()
        compiled = compiler.compile(graph, target, cache=_CACHE)
    except (errors.CompileError, errors.DeviceError, errors.UnsupportedOp):
        return interpret(graph, arrays)
    outputs = compiled.run(list(arrays))
    return tuple(outputs)


def _is_long(graph: Graph) -> bool:
    loops = (structure_of(node) for node in graph.walk())
    return any(isinstance(loop, CarriedLoop) and isinstance(loop.length, int) and loop.length >= LONG for loop in loops)


def _is_pure(graph: Graph) -> bool:
    """Whether arrays go in and come out, and nothing inside calls Python, prints or checks."""
    plain = all(isinstance(value.type, TensorType) for value in (*graph.inputs, *graph.outputs))
    return plain and all(node.op.effect == "none" and node.op.lowering != "host" for node in graph.walk())
