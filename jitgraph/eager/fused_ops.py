"""Fused ops: what a function outside of traces does by several ops, run and differentiated by one kernel.

A fused op is in no graph: its kernel has the ops that define it, and the bits of those ops one by one. It comes to be
where calls came back, from the graph that such a call records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jitgraph import ops
from jitgraph.dtypes import DType, is_inexact
from jitgraph.ir import context
from jitgraph.ir.attributes import substitute_attrs, substitute_type
from jitgraph.ir.builder import GraphBuilder, decomposition, run_graph
from jitgraph.ir.graph import Attrs, Graph, Node, Value
from jitgraph.ir.op import Op, OpenShape, Trait
from jitgraph.ir.types import Constant, Type


def fused_op(
    name: str,
    body: Callable[..., Any],
    traits: Iterable[Trait] = (),
    open_shapes: Callable[..., tuple[OpenShape, ...]] | None = None,
    meaning: str = "",
) -> Op:
    """``body(*values, **attrs)`` over Op calls as one op.

    ``name`` and ``meaning``, its ``doc``, tell its cached code from that of all other ops. ``open_shapes`` is as that
    of an op.
    """

    def infer(*types: Type, **attrs: Any) -> tuple[Type, ...]:
        return tuple([value.type for value in decomposition(composite, types, attrs, context.constraints()).outputs])

    composite = Op(
        name=name,
        kind="composite",
        infer=infer,
        decompose=body,
        traits=frozenset({"fused_op", *traits}),
        open_shapes=open_shapes,
        doc=meaning,
    )
    return composite


def applied(builder: GraphBuilder, op: Op, inputs: Sequence[Value], attrs: Attrs) -> tuple[Value, ...]:
    """The outputs of an op in a graph; of a fused op, of the ops that define it."""
    if "fused_op" not in op.traits:
        return builder.emit(op, inputs, attrs, ())
    assert op.decompose is not None
    with context.using(emitter=builder, constraints=builder.constraints):
        result = op.decompose(*inputs, **attrs)
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def carries_gradient(graph: Graph, required: Sequence[bool]) -> bool:
    """Whether the tape records the output of a graph where these of its inputs require a gradient."""
    active = {value for value, flag in zip(graph.inputs, required, strict=True) if flag}
    for node in graph.nodes:
        if "nondifferentiable" not in node.op.traits and not active.isdisjoint(node.inputs):
            active.update([value for value in node.outputs if is_inexact(value.dtype)])
    return graph.outputs[0] in active


# --- elementwise graphs, which serve operands of every rank -----------------------------------------------------------


class _Step(NamedTuple):
    """An elementwise op of operands by number: those of the fused op, then its constants, then results of steps."""

    op: Op
    operands: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...]


def elementwise_op(graph: Graph) -> tuple[Op, dict[str, Any]] | None:
    """A graph of elementwise ops as one op of operands that broadcast, with its constants as attributes.

    None where a graph does anything else, or its result has another shape than its operands broadcast to.
    """
    numbers = {value: number for number, value in enumerate(graph.inputs)}
    constants = [node for node in graph.nodes if _is_constant(node)]
    numbers.update({node.output: len(numbers) + number for number, node in enumerate(constants)})
    steps: list[_Step] = []
    for node in graph.nodes:
        if _is_constant(node):
            continue
        operands = tuple([numbers[value] for value in node.inputs])
        if _broadcasts(node):
            numbers[node.output] = operands[0]
        elif node.op.kind == "elementwise" or "pointwise" in node.op.traits:
            numbers[node.output] = len(graph.inputs) + len(constants) + len(steps)
            steps.append(_Step(node.op, operands, tuple(node.attrs.items())))
        else:
            return None
    result = len(graph.inputs) + len(constants) + len(steps) - 1
    if not steps or numbers[graph.outputs[0]] != result:
        return None
    shown = [(step.op.name, step.operands, step.attrs) for step in steps]
    dtypes = [node.output.dtype for node in constants]
    text = f"elementwise {len(graph.inputs)} {dtypes} {shown}"
    op = _shared(text, [step.op for step in steps], lambda: _elementwise(dtypes, steps), ["pointwise"])
    attrs = {f"c{number}": node.attrs["value"] for number, node in enumerate(constants)}
    types = [value.type for value in graph.inputs]
    return (op, attrs) if op.output_types(types, attrs, ()) == (graph.outputs[0].type,) else None


def _is_constant(node: Node) -> bool:
    """Whether a node gives one number, repeated."""
    return not node.inputs and "value" in node.attrs and not isinstance(node.attrs["value"], Constant)


def _broadcasts(node: Node) -> bool:
    """Whether a node repeats its operand as NumPy does, with new axes to the left."""
    traits, axes = node.op.traits, node.attrs.get("axes")
    if not ("view" in traits and "implicit" in traits):
        return False
    rank = len(node.output.shape)
    return axes == tuple(range(rank - len(node.inputs[0].shape), rank))


def _elementwise(constants: Sequence[DType], steps: Sequence[_Step]) -> Callable[..., Any]:
    def body(*values: Any, **attrs: Any) -> Any:
        env = [*values]
        env += [ops.full(shape=(), value=attrs[f"c{i}"], dtype=dtype) for i, dtype in enumerate(constants)]
        for op, operands, fixed in steps:
            env.append(op(*_together([env[number] for number in operands]), **dict(fixed)))
        return _broadcast(env[-1], _common_shape([value.shape for value in values]))

    return body


def _together(values: list[Any]) -> list[Any]:
    shape = _common_shape([value.shape for value in values])
    return [_broadcast(value, shape) for value in values]


def _common_shape(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """What shapes broadcast to that were seen to fit when the graph was recorded."""
    rank = max(map(len, shapes))
    axes = zip(*[(1,) * (rank - len(shape)) + shape for shape in shapes], strict=True)
    return tuple([next((size for size in sizes if size != 1), 1) for sizes in axes])


def _broadcast(value: Any, shape: tuple[Any, ...]) -> Any:
    if value.shape == shape:
        return value
    return ops.broadcast(value, shape=shape, axes=tuple(range(len(shape) - len(value.shape), len(shape))))


# --- other graphs, in which sizes have names --------------------------------------------------------------------------


def graph_op(graph: Graph, like: Graph) -> Op | None:
    """A graph over sizes that have names as one op; None unless it is ``like`` where sizes are those of ``like``."""
    sizes = _sizes(graph, [value.shape for value in like.inputs])
    if _text(graph, sizes) != _text(like, {}):
        return None
    return _shared(_text(graph, {}), [node.op for node in graph.nodes], lambda: _of_graph(graph))


def _sizes(graph: Graph, shapes: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """What the names of sizes stand for where operands have these shapes."""
    sizes: dict[str, Any] = {}
    for value, shape in zip(graph.inputs, shapes, strict=True):
        sizes.update({str(dim): size for dim, size in zip(value.shape, shape, strict=True) if dim is not size})
    return sizes


def _text(graph: Graph, sizes: Mapping[str, Any]) -> str:
    """What a graph does, where names stand for these sizes."""
    numbers = {value: number for number, value in enumerate(graph.inputs)}
    lines = [str([str(substitute_type(value.type, sizes)) for value in graph.inputs])]
    for node in graph.nodes:
        operands = [numbers[value] for value in node.inputs]
        lines.append(f"{node.op.name}{operands}{substitute_attrs(node.attrs, sizes)}")
        numbers.update({value: len(numbers) + number for number, value in enumerate(node.outputs)})
    return "; ".join([*lines, str([numbers[value] for value in graph.outputs])])


def _of_graph(graph: Graph) -> Callable[..., Any]:
    def body(*values: Any) -> Any:
        sizes = _sizes(graph, [value.shape for value in values])

        def apply(node: Node, inputs: list[Any]) -> Sequence[Any]:
            attrs: dict[str, Any] = substitute_attrs(node.attrs, sizes)
            result = node.op(*inputs, **attrs)
            return result if isinstance(result, tuple) else (result,)

        return run_graph(graph, values, apply)[0]

    return body


_MOST_OPS: Final = 512
_MOST_NAMES: Final = 4
_SHARED: Final[dict[str, Op]] = {}


def _shared(meaning: str, parts: Sequence[Op], body: Callable[[], Any], traits: Iterable[Trait] = ()) -> Op:
    """The one op of this meaning, by the text of it: 0.0 and -0.0 are equal as attributes, and two numbers.

    Its name, which profiles and ``grad_fn`` show, is that of its ``parts``.
    """
    known = _SHARED.get(meaning)
    if known is None:
        if len(_SHARED) >= _MOST_OPS:
            _SHARED.clear()
        name = "_".join([op.name for op in parts[:_MOST_NAMES]])
        known = _SHARED[meaning] = fused_op(name, body(), traits, meaning=meaning)
    return known
