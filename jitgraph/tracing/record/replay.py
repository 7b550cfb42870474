"""Gradients of a compiled call that can be differentiated again.

The first gradient is the compiled backward graph, as for any call. Only where it is differentiated in turn is the
graph run once more, op by op on a tape of its own, control flow included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgraph import lifting, ops
from jitgraph.autograd import tape
from jitgraph.autograd.tape import Record
from jitgraph.eager import EagerValue
from jitgraph.functions.manipulation import stack
from jitgraph.ir import context, dims
from jitgraph.ir.attributes import substitute_attrs
from jitgraph.ir.control import execute
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.sizes import bind_sizes
from jitgraph.ir.types import TensorType, Type
from jitgraph.runtime import forks

Gradients = Callable[[Sequence[EagerValue], Sequence[EagerValue]], list[Any]]


class GradientRecord(Record):
    """A compiled backward call: from the inputs and cotangents of a call to the cotangents of its inputs."""

    name = "gradient"

    def __init__(
        self, inputs: Sequence[EagerValue], cotangents: Sequence[EagerValue], arrays: Sequence[Any], replay: Gradients
    ) -> None:
        """``replay(inputs, cotangents)`` gives the same gradients by ops of the tape, None where none flows."""
        super().__init__((*inputs, *cotangents), tuple(arrays))
        self.count = len(inputs)
        self.replay = replay

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        again = context.current().grad_enabled
        with context.using(grad_enabled=True):
            variables = [ops.reshape(value, shape=value.shape) for value in self.live_inputs()]  # sweeps end here
            found = self.replay(variables[: self.count], variables[self.count :])
        pairs = [
            (value, cotangent)
            for value, cotangent in zip(found, cotangents, strict=True)
            if value is not None and cotangent is not None and value.record is not None
        ]
        return _sweep(pairs, variables, create_graph=again)


def gradients_by_ops(
    graph: Graph, operands: Sequence[EagerValue], variables: Sequence[EagerValue], cotangents: Mapping[int, Any]
) -> list[Any]:
    """Gradients with respect to ``variables``, operands of ``graph``, by ops on a tape; None where none flows.

    ``cotangents`` are those of the outputs, by number.
    """
    outputs = evaluate(graph, operands)
    live = [(outputs[i], cotangent) for i, cotangent in cotangents.items() if outputs[i].record is not None]
    return _sweep(live, variables, create_graph=True)


def _sweep(pairs: Sequence[tuple[Any, Any]], variables: Sequence[EagerValue], *, create_graph: bool) -> list[Any]:
    """Gradients with respect to ``variables`` of values with their cotangents; None where none flows."""
    found = tape.sweep(
        [value for value, _ in pairs],
        [cotangent for _, cotangent in pairs],
        targets=variables,
        create_graph=create_graph,
        retain_graph=True,
    )
    return [found.get((variable.record, variable.output)) for variable in variables]


def evaluate(graph: Graph, operands: Sequence[EagerValue]) -> list[Any]:
    """The outputs of a graph for eager values, each op applied through the current emitter."""
    with forks.whole():
        from jitgraph.passes.autodiff import expand_grads  # here: a call seldom has its gradient replayed
    expanded = expand_grads(graph)
    sizes = bind_sizes([v.type for v in expanded.inputs], [v.shape for v in operands], expanded.constraints)
    return _Replay(sizes).run(expanded, operands)


class _Replay:
    """Graphs run op by op with these sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def run(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        env: dict[Value, Any] = dict(zip(graph.inputs, arguments, strict=True))
        for node in graph.nodes:
            inputs = [env[value] for value in node.inputs]
            attrs: dict[str, Any] = substitute_attrs(node.attrs, self.sizes)
            if node.op.control is not None:
                types = [value.type for value in node.outputs]
                results: Any = execute(node.op.control(*node.regions, **attrs), self, inputs, types)
            else:
                regions = () if node.op.decompose is not None else node.regions
                result = node.op(*inputs, regions=regions, **attrs)
                results = result if isinstance(result, tuple | list) else (result,)
            env.update(zip(node.outputs, results, strict=True))
        return [env[value] for value in graph.outputs]

    def is_true(self, value: EagerValue) -> bool:
        return bool(value.array)

    def slice(self, x: Any, i: int) -> Any:
        return lifting.wrap(x)[i].value

    def rows(self, type: Type, length: int) -> list[Any]:
        return [None] * length

    def stacked(self, rows: list[Any], type: Type) -> Any:
        if rows:
            return stack(list(map(lifting.wrap, rows))).value
        assert isinstance(type, TensorType)
        shape = [dims.evaluate(size, self.sizes) for size in type.shape[1:]]
        return lifting.constant(0, type.dtype, (0, *shape))
