"""Mutations that leave a graph well formed: an attribute, an op or an operand changes, and types follow by the rules.

What comes out is another program, which ``jg.load`` has to accept, compile and run, unless its conditions are dropped.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final

from jitgraph.ir import context, parse
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.printer import print_graph
from jitgraph.ir.types import Constant
from jitgraph.ops import OPS
from jitgraph.runtime import loader

_SIZES: Final = (0, 1, 2, 3, 4, 5, 8, 64, 2**20, 2**40, -1, Dim.name("n"), Dim.name("n") - 2, Dim.name("n") // 2)


def _changed(rng: random.Random, attr: Any, sizes: Sequence[Any]) -> Any:
    """One number, size or flag somewhere in an attribute changed. Decompositions loop over sizes: theirs stay small."""
    if isinstance(attr, tuple):
        if not attr:
            return (rng.choice(sizes),)
        at = rng.randrange(len(attr))
        return (*attr[:at], _changed(rng, attr[at], sizes), *attr[at + 1 :])
    if isinstance(attr, bool):
        return not attr
    if isinstance(attr, int | Dim):
        return attr + rng.choice((-1, 1)) if rng.random() < 0.6 else rng.choice(sizes)
    if isinstance(attr, float):
        return rng.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    return attr


def _mutated(rng: random.Random, node: Node, known: list[Value]) -> tuple[Any, list[Value], dict[str, Any]]:
    """Another op, operands or attributes for a node."""
    op, inputs, attrs = node.op, list(node.inputs), dict(node.attrs)
    kind = rng.randrange(4)
    if kind == 0 and not node.regions:
        alike = [other for other in OPS.values() if other.kind == op.kind and other.samples is not None]
        op = rng.choice(alike)
    elif kind == 1 and inputs:
        inputs[rng.randrange(len(inputs))] = rng.choice(known)
    elif attrs:
        key = rng.choice(sorted(attrs))
        attrs[key] = _changed(rng, attrs[key], _SIZES[:7] if op.decompose is not None else _SIZES)
    return op, inputs, attrs


def rewritten(rng: random.Random, graph: Graph) -> Graph | None:
    """``graph`` with one node changed and the types after it derived anew; None where the rules refuse the change."""
    guilty = rng.randrange(len(graph.nodes))
    builder = GraphBuilder()
    new = {value: builder.input(value.type, value.hint) for value in graph.inputs}
    try:
        with context.using(emitter=builder, constraints=builder.constraints):
            for number, node in enumerate(graph.nodes):
                op, inputs, attrs = node.op, list(node.inputs), dict(node.attrs)
                if number == guilty:
                    op, inputs, attrs = _mutated(rng, node, list(new))
                regions = () if op.decompose is not None else node.regions
                outputs = builder.emit(op, [new[value] for value in inputs], attrs, regions)
                new |= dict(zip(node.outputs, outputs, strict=True))
    except Exception:  # operands and attributes may be anything: the rule may refuse them in any way
        return None
    result = builder.graph([new[value] for value in graph.outputs], graph.name)
    kept = [c for c in result.constraints if rng.random() < 0.8] if rng.random() < 0.5 else result.constraints
    return Graph(result.inputs, result.nodes, result.outputs, tuple(kept), result.name)


def graph_rewritten(rng: random.Random, members: dict[str, bytes]) -> tuple[dict[str, bytes], Any]:
    """The members and the manifest with another graph, whose signature fits it; as they are where none was found."""
    weights = members.get("weights.safetensors")
    arrays = loader.read_safetensors(memoryview(weights)) if weights else {}
    constants = {key.removeprefix("constant."): Constant(array) for key, array in arrays.items()}
    graph = parse(members["graph.jgir"].decode(), constants=constants)
    tree = json.loads(members["manifest.json"])
    for _ in range(8):
        other = rewritten(rng, graph)
        if other is None:
            continue
        signature = tree["entries"]["forward"]["signature"]
        signature["constraints"] = list(map(str, other.constraints))
        for spec, value in zip(signature["outputs"], other.outputs, strict=True):
            spec["dtype"] = value.dtype.name
            spec["shape"] = [size if isinstance(size, int) else str(size) for size in value.shape]
        if rng.random() < 0.7:  # what is written back may no longer have its state's type
            signature["writes"] = signature["aliases"] = []
        return {**members, "graph.jgir": print_graph(other, full=True).encode()}, tree
    return members, tree
