"""Functions of the user's with gradients of their own: ``custom_gradient``, whose rule is given, and ``recompute``.

Both are composites: the first region is what they compute, and what passes put in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import build, run_graph
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type, is_inexact_tensor
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, mul
from jitgraph.ops.effects import zeros
from jitgraph.ops.reduction import reduce_max
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.transcendental import sin


def _outputs(name: str, regions: Sequence[Graph], count: int, types: Sequence[Type]) -> tuple[Type, ...]:
    if len(regions) != count:
        raise ShapeError(f"{name} has {count} regions, not {len(regions)}")
    rules.require_region(name, regions[0], types)
    return tuple(value.type for value in regions[0].outputs)


def _custom_type(
    *types: Type, num_outputs: int, num_captured: int, regions: tuple[Graph, ...] = ()
) -> tuple[Type, ...]:
    outputs = _outputs("custom_gradient", regions, 2, types)
    if not 0 <= num_outputs <= len(outputs) or not 0 <= num_captured <= len(types):
        raise ShapeError(f"custom_gradient: {num_outputs} outputs and {num_captured} captured values are too many")
    seeds = [type for type in outputs[:num_outputs] if is_inexact_tensor(type)]
    captured = types[len(types) - num_captured :]
    rules.require_region("custom_gradient: the rule", regions[1], (*outputs[num_outputs:], *seeds, *captured))
    expected = tuple(type for type in types if is_inexact_tensor(type))
    actual = tuple(value.type for value in regions[1].outputs)
    what = f"custom_gradient: the rule gives ({rules.describe(actual)}) for operands ({rules.describe(expected)})"
    rules.require_same_types(what, expected, actual)
    return outputs


def _inlined(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    def apply(node: Node, inputs: list[Any]) -> Sequence[Any]:
        regions = () if node.op.decompose is not None else node.regions
        return context.emitter().emit(node.op, inputs, node.attrs, regions)

    return run_graph(graph, operands, apply)


def _leading_to(graph: Graph, outputs: Sequence[Value]) -> Graph:
    """What a graph needs for some of its outputs: no prints, and no checks, which have held."""
    needed, nodes = set(outputs), list[Node]()
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return Graph(graph.inputs, tuple(reversed(nodes)), tuple(outputs), (), graph.name)


def _custom_vjp(
    ct: Any, out: Any, *inputs: Any, num_outputs: int, num_captured: int, regions: tuple[Graph, ...]
) -> tuple[Any, ...]:
    """The rule, on residuals that are computed anew, so that they can be differentiated in turn."""
    forward, rule = regions
    outs, cts = (out, ct) if isinstance(out, tuple) else ((out,), (ct,))
    residuals = _inlined(_leading_to(forward, forward.outputs[num_outputs:]), inputs)
    seeds = [
        zeros(value.type) if cotangent is None else cotangent
        for value, cotangent in zip(outs[:num_outputs], cts[:num_outputs], strict=True)
        if is_inexact_tensor(value.type)
    ]
    gradients = iter(_inlined(rule, [*residuals, *seeds, *inputs[len(inputs) - num_captured :]]))
    return tuple(next(gradients) if is_inexact_tensor(x.type) else None for x in inputs)


def _custom_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in rules.FLOATS:
        return ()
    x = values(generator("custom_gradient", dtype), dtype, (2, 3), (0.5, 1.5))
    type = TensorType(dtype, x.shape)
    forward = build(lambda x: mul(x, x), [type], "forward")
    rule = build(lambda ct, x: mul(add(x, x), ct), [type, type], "rule")
    return [Sample((x,), {"num_outputs": 1, "num_captured": 1}, (forward, rule))]


custom_gradient: Op = Op(
    name="custom_gradient",
    kind="composite",
    infer=_custom_type,
    vjp=_custom_vjp,
    traits=frozenset({"ruled_by_region"}),
    samples=_custom_samples,
    doc="The first region, which gives num_outputs results and then residuals. The second gives the cotangents of the "
    "float operands, from residuals, cotangents of the float results and the last num_captured operands.",
)


def _recompute_type(*types: Type, regions: tuple[Graph, ...] = ()) -> tuple[Type, ...]:
    return _outputs("recompute", regions, 1, types)


def _recompute_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in rules.FLOATS:
        return ()
    x = values(generator("recompute", dtype), dtype, (2, 3), (0.5, 1.5))
    region = build(lambda x: (mul(sin(x), x), reduce_max(x, axes=(0,))), [TensorType(dtype, x.shape)], "body")
    return [Sample((x,), {}, (region,))]


recompute: Op = Op(
    name="recompute",
    kind="composite",
    infer=_recompute_type,
    traits=frozenset({"recomputed"}),
    samples=_recompute_samples,
    doc="Its region, of which a gradient keeps the operands alone: the rest is computed anew on the way back.",
)
