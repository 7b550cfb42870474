"""Graphs of single numbers on whole tensors: elementwise ops as they are, branches as selects, short loops written out.

A branch computes both sides and picks one for each element. Its gradient is that of the scalar graph, where a side that
is not taken has none, and only then becomes a select: no NaN of a side that an element does not take reaches its
gradient. A loop whose length depends on the element goes on until the last one is done, and those that are done keep
what they have; its gradient is that of ``vmap.py``, where no element is computed that does not go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from jitgraph import ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder, decomposition, run_graph
from jitgraph.ir.control import CarriedLoop, Conditional, RegionCall, structure_of
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType, is_inexact_tensor
from jitgraph.passes.autodiff import backward, expand_grads
from jitgraph.passes.batching import Lane
from jitgraph.passes.vmap import Batcher, region_of

Shape = tuple[DimLike, ...]
_MOST_NODES: Final = 1024
"""As many nodes a loop of known length may become; a longer one stays a loop."""
_DERIVATIVES: Final = 2
"""Up to the derivative of which order branches are exact where a side that is not taken has no finite derivative."""


# ----------------------------------------------------------------------
# Scalar graphs: what may stand in them, without calls and short loops, and their gradients.


def scalar_graph(graph: Graph, name: str) -> Graph:
    """The graph of a function of numbers, calls and short loops written out; UnsupportedOp for an op of no element."""
    straight = _straight(expand_grads(graph))
    _require_elements(straight, name)
    return straight


def _straight(graph: Graph) -> Graph:
    builder = GraphBuilder()
    inputs = [builder.input(value.type, value.hint) for value in graph.inputs]
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs = run_graph(graph, inputs, lambda node, values: _written_out(builder, node, values))
    return Graph(tuple(builder.inputs), tuple(builder.nodes), tuple(outputs), (), graph.name)


def _written_out(builder: GraphBuilder, node: Node, inputs: list[Value]) -> Sequence[Value]:
    builder.location = node.location
    match structure_of(node):
        case RegionCall(body):
            return run_graph(body, inputs, lambda inner, values: _written_out(builder, inner, values))
        case CarriedLoop(condition=None, length=int() as length) as loop:
            body = _straight(loop.body)
            if length * len(body.nodes) <= _MOST_NODES:
                return _turns(builder, loop, body, length, inputs)
    if node.op.kind == "composite" and _is_of_axes(node):
        definition = node.regions[0] if node.regions else _definition(node)
        return run_graph(definition, inputs, lambda inner, values: _written_out(builder, inner, values))
    regions = node.regions if node.op.kind == "composite" else tuple(map(_straight, node.regions))
    return builder.emit(node.op, inputs, node.attrs, regions)


def _definition(node: Node) -> Graph:
    return decomposition(node.op, [value.type for value in node.inputs], node.attrs, context.constraints())


def _is_of_axes(node: Node) -> bool:
    """Whether a composite is no op of elements as a whole, although what it consists of may be."""
    return "pointwise" not in node.op.traits and "ruled_by_region" not in node.op.traits


def _turns(builder: GraphBuilder, loop: CarriedLoop, body: Graph, length: int, inputs: list[Value]) -> Sequence[Value]:
    carries, xs, invariants = loop.parts(inputs)
    rows: list[list[Value]] = []
    for turn in reversed(range(length)) if loop.reverse else range(length):
        slices = [ops.reshape(ops.slice(x, starts=(turn,), stops=(turn + 1,), strides=(1,)), shape=()) for x in xs]
        carries, ys = loop.results(builder.inline(body, [*carries, *slices, *invariants]))
        rows.append(ys)
    if loop.reverse:
        rows.reverse()
    stacked = (
        [ops.concat(*(ops.reshape(row[i], shape=(1,)) for row in rows), axis=0) for i in range(len(rows[0]))]
        if (rows)
        else []
    )
    return [*carries, *stacked]


def _require_elements(graph: Graph, name: str) -> None:
    varying = set(graph.inputs)
    for node in graph.nodes:
        if varying.isdisjoint(node.inputs):
            if not _is_number(node):
                continue  # a constant, of any shape, that no element depends on
        elif not (_is_elementwise(node) or _is_same(node) or structure_of(node) is not None or _is_ruled(node)):
            what = "raises or checks" if node.op.effect != "none" else f"uses {node.op.name}"
            raise UnsupportedOp(
                f"{name}: a function of one element {what}, which is no function of single numbers",
                location=node.location,
                hint="compute with the numbers alone (arithmetic, math, if, while, for), or decorate with jg.vectorize",
            )
        varying.update(node.outputs)
        for region in node.regions if structure_of(node) is not None or _is_ruled(node) else ():
            _require_elements(region, name)


def _is_number(node: Node) -> bool:
    return any(isinstance(value.type, TensorType) and value.type.shape == () for value in node.outputs)


def _is_elementwise(node: Node) -> bool:
    return (node.op.kind == "elementwise" or "pointwise" in node.op.traits or node.op.batch == "alike") and all(
        isinstance(value.type, TensorType) and value.type.shape == () for value in (*node.inputs, *node.outputs)
    )


def _is_same(node: Node) -> bool:
    """Whether a movement of one number leaves it as it is."""
    return node.op.kind == "movement" and len(node.inputs) == 1 and node.inputs[0].type == node.outputs[0].type


def _is_ruled(node: Node) -> bool:
    return "num_captured" in node.attrs and node.op.kind == "composite"


def has_loops(graph: Graph) -> bool:
    """Whether a loop stands in a scalar graph, whose length is not known or is great."""
    return any(isinstance(structure_of(node), CarriedLoop) for node in graph.walk())


def has_scans(graph: Graph) -> bool:
    """Whether a loop of known length stands in a scalar graph, which is too long to be written out."""
    structures = map(structure_of, graph.walk())
    return any(isinstance(each, CarriedLoop) and each.condition is None for each in structures)


def has_branches(graph: Graph) -> bool:
    """Whether a branch stands in a scalar graph."""
    return any(isinstance(structure_of(node), Conditional) for node in graph.walk())


def _gradient(graph: Graph) -> Graph:
    """Of a scalar graph: inputs, then cotangents of the float outputs -> cotangents of the float inputs."""
    builder = GraphBuilder()
    inputs = [builder.input(value.type, value.hint) for value in graph.inputs]
    seeded = [i for i, value in enumerate(graph.outputs) if is_inexact_tensor(value.type)]
    cotangents = [builder.input(graph.outputs[i].type) for i in seeded]
    outputs = builder.inline(graph, inputs)
    wrt = [value for value in inputs if is_inexact_tensor(value.type)]
    gradients = backward(builder, [outputs[i] for i in seeded], cotangents, wrt)
    return Graph(tuple(builder.inputs), tuple(builder.nodes), gradients, (), f"{graph.name}_gradient")


# ----------------------------------------------------------------------
# Scalar graphs on tensors, over Op calls.


def on_elements(graph: Graph, operands: Sequence[Any], shape: Shape, derivatives: int = _DERIVATIVES) -> list[Any]:
    """What a scalar graph gives for each element of operands of one shape; differentiable as the scalar graph is."""
    if shape == ():
        return list(_applied(graph, operands))
    if has_scans(graph) or (has_loops(graph) and not derivatives):
        return _by_samples(graph, operands, shape)
    steers = has_branches(graph) or has_loops(graph)
    if not derivatives or not steers or not any(is_inexact_tensor(value.type) for value in operands):
        return _spread(graph, operands, shape)
    if not any(is_inexact_tensor(value.type) for value in graph.outputs):
        return _spread(graph, operands, shape)
    types = [value.type for value in operands]
    forward = region_of(types, lambda *xs: [*_spread(graph, xs, shape), *xs], graph.name)
    seeds = [TensorType(value.dtype, shape) for value in graph.outputs if is_inexact_tensor(value.type)]
    if has_loops(graph):
        rule = region_of([*types, *seeds], lambda *xs: _sample_gradient(graph, xs, shape), f"{graph.name}_gradient")
    else:
        gradient = _gradient(graph)
        rule = region_of([*types, *seeds], lambda *xs: on_elements(gradient, xs, shape, derivatives - 1), gradient.name)
    attrs = {"num_outputs": len(graph.outputs), "num_captured": 0}
    outputs = context.emitter().emit(ops.custom_gradient, list(operands), attrs, (forward, rule))
    return list(outputs[: len(graph.outputs)])


def _applied(graph: Graph, operands: Sequence[Any]) -> Sequence[Any]:
    def apply(node: Node, inputs: list[Any]) -> Sequence[Any]:
        return _emitted(node, inputs)

    return run_graph(graph, list(operands), apply)


def _emitted(node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
    regions = () if node.op.decompose is not None else node.regions
    return context.emitter().emit(node.op, inputs, node.attrs, regions)


def _sample_gradient(graph: Graph, operands: Sequence[Any], shape: Shape) -> tuple[Any, ...]:
    """Of operands, then cotangents of the float outputs: those of the float operands, by ``vmap.py``.

    It stays a ``grad`` node, since ``jg.vmap`` puts no samples together in the gradient of a loop that is written out.
    """
    inputs, cotangents = operands[: len(graph.inputs)], operands[len(graph.inputs) :]
    outputs = [value for value in _by_samples(graph, inputs, shape) if is_inexact_tensor(value.type)]
    wrt = [value for value in inputs if is_inexact_tensor(value.type)]
    attrs = {"num_outputs": len(outputs)}
    return tuple(context.emitter().emit(ops.grad, [*outputs, *cotangents, *wrt], attrs, ()))


def _by_samples(graph: Graph, operands: Sequence[Any], shape: Shape) -> list[Any]:
    """Loops that end at another turn for each element: all elements go through as many turns as the last one needs."""
    size: DimLike = 1
    for extent in shape:
        size = size * extent
    lanes = [Lane(ops.reshape(value, shape=(size,)), True) for value in operands]
    with _lines_restored():
        results = Batcher(size).run(graph, lanes)
    return [ops.reshape(_each(sample.value, (size,)), shape=shape) for sample in results]


def _each(value: Any, shape: Shape) -> Any:
    return value if value.shape == shape else ops.broadcast(value, shape=shape, axes=())


def _spread(graph: Graph, operands: Sequence[Any], shape: Shape) -> list[Any]:
    """The outputs on tensors of this shape; what depends on no operand is computed once."""
    with _lines_restored():
        return [_each(value, shape) for value in _Spreading(shape).run(graph, list(operands))]


class _Spreading:
    """Runs scalar graphs on tensors of a shape; ``mask`` says for which elements, None for all."""

    def __init__(self, shape: Shape, mask: Any = None) -> None:
        self._shape = shape
        self._mask = mask

    def run(self, graph: Graph, operands: Sequence[Any]) -> list[Any]:
        return run_graph(graph, list(operands), self._apply)

    def _apply(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        shape, emitter = self._shape, context.emitter()
        if node.location is not None and hasattr(emitter, "location"):
            emitter.location = node.location
        structure = structure_of(node)
        if isinstance(structure, CarriedLoop):
            return self._loop(node, structure, [_each(value, shape) for value in inputs])
        if not any(_varies(value, shape) for value in inputs):
            return _emitted(node, inputs)
        if _is_same(node):
            return inputs
        wide = [_each(value, shape) for value in inputs]
        if isinstance(structure, Conditional):
            test, *rest = wide
            sides = [
                [_each(value, shape) for value in self._only(holds).run(side, rest)]
                for side, holds in ((structure.then, test), (structure.otherwise, ops.logical_not(test)))
            ]
            return [yes if yes is no else ops.select(test, yes, no) for yes, no in zip(*sides, strict=True)]
        return _ruled(node, wide, shape) if _is_ruled(node) else _emitted(node, wide)

    def _only(self, mask: Any) -> _Spreading:
        return _Spreading(self._shape, mask if self._mask is None else ops.logical_and(self._mask, mask))

    def _loop(self, node: Node, loop: CarriedLoop, operands: list[Any]) -> list[Any]:
        """A loop that goes on until all elements are done; those that are keep what they have."""
        shape, count = self._shape, loop.carries
        assert loop.condition is not None
        condition, body = loop.condition, loop.body

        def holds(values: Sequence[Any], mask: Any) -> Any:
            return _each(_Spreading(shape, mask).run(condition, values)[0], shape)

        going = holds(operands, self._mask)
        if self._mask is not None:
            going = ops.logical_and(self._mask, going)

        def turn(going: Any, *values: Any) -> list[Any]:
            after = _Spreading(shape, going).run(body, values)
            chosen = [ops.select(going, _each(new, shape), old) for new, old in zip(after, values, strict=False)]
            return [ops.logical_and(going, holds([*chosen, *values[count:]], going)), *chosen]

        axes = tuple(range(len(shape)))
        types = [value.type for value in (going, *operands)]
        regions = (
            region_of(types, lambda going, *_: [ops.reduce_max(going, axes=axes)], condition.name),
            region_of(types, turn, body.name),
        )
        attrs = {"num_carries": count + 1}
        return list(context.emitter().emit(node.op, [going, *operands], attrs, regions)[1:])


def _varies(value: Any, shape: Shape) -> bool:
    return tuple(value.shape) == tuple(shape)


def _ruled(node: Node, operands: Sequence[Any], shape: Shape) -> Sequence[Any]:
    """A function with a gradient rule of the user's that is called on numbers."""
    regions = []
    for region in node.regions:
        types = [TensorType(value.dtype, shape) for value in region.inputs]
        regions.append(region_of(types, lambda *xs, graph=region: _spread(graph, xs, shape), region.name))
    return context.emitter().emit(node.op, operands, node.attrs, tuple(regions))


@contextmanager
def _lines_restored() -> Iterator[None]:
    """The emitter in force names its own line again afterwards."""
    emitter: Any = context.emitter()
    before = getattr(emitter, "location", None)
    try:
        yield
    finally:
        if hasattr(emitter, "location"):
            emitter.location = before
