"""From a node of a recorded graph to nodes of ONNX: which form it takes, and the error where it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.target import Target
from jitgraph.ir.types import StackType, TensorType, Type
from jitgraph.onnx.exporting import control, elementwise, indexing, matrices, movement, products, reductions
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter
from jitgraph.onnx.exporting.values import OnnxValue
from jitgraph.passes.decompose import generated
from jitgraph.passes.decompose_complex import decompose_complex

FORMS: Final[dict[str, Form]] = (
    elementwise.FORMS | movement.FORMS | reductions.FORMS | products.FORMS | indexing.FORMS | control.FORMS
)
"""Ops whose form in ONNX needs code, by name."""

DEFINITIONS: Final[dict[str, Callable[..., Any]]] = matrices.DEFINITIONS | {"conv": products.conv_of_integers}
"""Ops that ONNX lacks, or lacks for some dtypes, over calls of others."""


def run(e: NodeEmitter, graph: Graph, arguments: Sequence[OnnxValue]) -> list[OnnxValue]:
    """Emit a graph for these operands and return what its outputs became."""
    return e.run(graph, arguments, _convert)


def _convert(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> list[OnnxValue]:
    op = node.op
    if op.effect == "check":
        e.model.checks.append(str(node.attrs["message"]))
        return []
    if op.effect == "ordered":
        raise UnsupportedOp(
            f"jg.onnx.export: {op.name} writes text, for which ONNX has no operator",
            location=node.location or e.location,
            hint="leave it out of the function that is exported",
        )
    form = FORMS.get(op.name)
    result = form(e, node, refs) if form is not None else None
    if result is None and op.kind == "elementwise":
        result = elementwise.elementwise(e, node, refs)
    if result is None and op.control is not None:
        result = control.control_flow(e, node, refs, run)
    if result is None and node.regions:
        result = run(e, node.regions[0], refs)
    if result is None and (expansion := generated(node, DEFINITIONS.get(node.op.name))) is not None:
        result = run(e, expansion, refs)
    if result is None:
        raise _refusal(e, node)
    return [result] if isinstance(result, OnnxValue) else list(result)


def _refusal(e: NodeEmitter, node: Node) -> UnsupportedOp:
    types = ", ".join(str(value.type) for value in node.inputs)
    hint = "export what comes before and behind it, each as a model of its own"
    if any(dtypes.is_complex(value.dtype) for value in (*node.inputs, *node.outputs) if _is_tensor(value.type)):
        hint = "take real and imaginary parts: ONNX has no arithmetic of complex numbers"
    return UnsupportedOp(
        f"jg.onnx.export: {node.op.name} of ({types}) has no form in ONNX",
        location=node.location or e.location,
        hint=hint,
    )


def _is_tensor(type: Type) -> bool:
    return isinstance(type, TensorType)


# ----------------------------------------------------------------------
# Complex numbers inside of a graph: pairs of real ones, as in compiled code.


def without_complex(graph: Graph, target: Target) -> Graph:
    """``graph`` with pairs of real numbers for its complex ones, its composites of complex numbers written out."""
    if not any(_is_complex(value.type) for node in graph.walk() for value in (*node.inputs, *node.outputs)):
        return graph
    return decompose_complex(_written_out(graph), target)


def _written_out(graph: Graph) -> Graph:
    """Composites and calls that have a complex number anywhere, replaced by what they consist of."""
    builder = GraphBuilder(graph.constraints)

    def copy(node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        inner = [_written_out(region) for region in node.regions]
        if len(inner) == 1 and node.op.kind == "composite" and _has_complex(node):
            located = node.location
            before, builder.location = builder.location, located or builder.location
            outputs = builder.inline(inner[0], inputs)
            builder.location = before
            return outputs
        return builder.copy(Node(node.op, node.inputs, node.attrs, node.outputs, tuple(inner), node.location), inputs)

    env: dict[Any, Any] = {value: value for value in graph.inputs}
    for node in graph.nodes:
        env.update(zip(node.outputs, copy(node, [env[value] for value in node.inputs]), strict=True))
    outputs = tuple(env[value] for value in graph.outputs)
    return Graph(graph.inputs, tuple(builder.nodes), outputs, graph.constraints, graph.name)


def _has_complex(node: Node) -> bool:
    values = (
        *node.inputs,
        *node.outputs,
        *(v for r in node.regions for n in r.walk() for v in (*n.inputs, *n.outputs)),
    )
    return any(_is_complex(value.type) for value in values)


def _is_complex(type: Type) -> bool:
    element = type.element if isinstance(type, StackType) else type
    return isinstance(element, TensorType) and dtypes.is_complex(element.dtype)
