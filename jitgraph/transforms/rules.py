"""Calls with a gradient rule of the user's: eager on the tape, in a trace as one ``custom_gradient`` node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops, tree
from jitgraph.autograd import no_grad, streams
from jitgraph.eager.region_records import detached, requires_gradient, taped
from jitgraph.eager.replay import GradientRecord
from jitgraph.eager.tape import Record
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType, Type, is_inexact_tensor
from jitgraph.ops.effects import zeros
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.transforms.recording import Closed, own_value
from jitgraph.tree import TreeDef

_DEEPEST: Final = 2
"""How often a rule that calls its own function is recorded in itself: derivatives up to the third order follow it."""

_WITHIN: Final[ContextVar[tuple[int, ...]]] = ContextVar("jitgraph_rules", default=())


@dataclass(frozen=True, slots=True)
class GradientRule:
    """A function and its gradient.

    ``forward(*args)`` gives the result and a tree of residuals; ``backward(residuals, cotangents)``, whose cotangents
    are a tree like the result (None for what is no float), a cotangent or None for each leaf of the arguments that is a
    tensor or array, in order. ``primal`` gives the result alone. ``owner`` is what the rule belongs to.
    """

    owner: object
    name: str
    primal: Callable[..., Any]
    forward: Callable[..., tuple[Any, Any]]
    backward: Callable[[Any, Any], Sequence[Any]]


def apply(rule: GradientRule, args: tuple[Any, ...]) -> Any:
    """The result of ``rule`` for these arguments, trees of tensors and of anything else."""
    leaves, structure = tree.flatten(args)
    positions = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
    if context.current().trace is not None:
        if _WITHIN.get().count(id(rule.owner)) >= _DEEPEST:
            return rule.primal(*args)
        return _traced(rule, leaves, structure, positions)
    values = [lifting.value_of(leaves[i]) for i in positions]
    if not requires_gradient(values):
        return rule.primal(*args)
    return _eager(rule, leaves, structure, positions, values)


def is_tensor(leaf: object) -> bool:
    """Whether a leaf of the arguments can have a gradient: numbers of Python have none."""
    return isinstance(leaf, Tensor | np.ndarray | np.generic)


def _filled(leaves: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    filled = list(leaves)
    for i, value in zip(positions, values, strict=True):
        filled[i] = value
    return filled


def _fitted(name: str, cotangents: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """What ``backward`` gave as values of the operands' types, None for what is none; ShapeError where it is not."""
    if len(cotangents) != len(types):
        raise JitgraphError(f"{name}: backward gives {len(cotangents)} cotangents for {len(types)} tensors")
    fitted: list[Any] = []
    for number, (ct, type) in enumerate(zip(cotangents, types, strict=True)):
        assert isinstance(type, TensorType)
        if not dtypes.is_inexact(type.dtype):
            fitted.append(None)
            continue
        if ct is None:
            fitted.append(zeros(type))
            continue
        value = lifting.value_of(ct, type.dtype)
        if tuple(value.type.shape) != tuple(type.shape):
            raise ShapeError(
                f"{name}: backward gives a cotangent of shape {tuple(value.type.shape)} for tensor {number} of shape "
                f"{tuple(type.shape)}",
                hint="one of the tensor's own shape, or None",
            )
        fitted.append(lifting.cast(value, type.dtype))
    return fitted


# --- eager ----------------------------------------------------------------------------------------------------------


def _eager(rule: GradientRule, leaves: list[Any], structure: TreeDef, positions: list[int], values: list[Any]) -> Any:
    states = streams.snapshot()

    def forward(inputs: Sequence[Any]) -> tuple[Any, Any]:
        return rule.forward(*structure.unflatten(_filled(leaves, positions, [wrap(value) for value in inputs])))

    with no_grad():
        out, residuals = forward([value.recorded(None) for value in values])
    out_leaves, shape = tree.flatten(out)
    out_positions = [i for i, leaf in enumerate(out_leaves) if is_tensor(leaf)]
    outputs = tuple(lifting.value_of(out_leaves[i]).recorded(None) for i in out_positions)

    def again(inputs: Sequence[Any]) -> Any:
        with streams.at(states):
            return forward(inputs)[1]

    def back(saved: Any, cotangents: Sequence[Any]) -> Sequence[Any]:
        out_cts: list[Any] = [None] * len(out_leaves)
        for i, ct, output in zip(out_positions, cotangents, outputs, strict=True):
            if dtypes.is_inexact(output.dtype):
                out_cts[i] = wrap(zeros(output.type) if ct is None else ct)
        return _fitted(rule.name, rule.backward(saved, shape.unflatten(out_cts)), [value.type for value in values])

    record = _RuleRecord(rule.name, tuple(values), outputs, residuals, again, back)
    return shape.unflatten(_filled(out_leaves, out_positions, [wrap(value) for value in taped(record, outputs)]))


class _RuleRecord(Record):
    """A call whose backward is the user's function."""

    def __init__(
        self,
        name: str,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        residuals: Any,
        again: Callable[[Sequence[Any]], Any],
        back: Callable[[Any, Sequence[Any]], Sequence[Any]],
    ) -> None:
        super().__init__(inputs, outputs)
        self.name = name
        self._residuals = residuals
        self._again = again
        self._back = back

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        if not context.current().grad_enabled:
            return self._back(self._residuals, cotangents)
        if context.current().trace is not None:
            with context.outside():
                residuals = self._again(inputs)
            return self._back(residuals, cotangents)
        with no_grad():
            gradients = self._back(self._residuals, [detached(ct) for ct in cotangents])
        floats = [i for i, value in enumerate(gradients) if value is not None]
        seeds = [i for i, ct in enumerate(cotangents) if ct is not None]

        def replay(variables: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
            """The forward once more, with residuals that can be differentiated, for a gradient of a gradient."""
            again, cts = list(inputs), [None] * len(cotangents)
            for into, positions, values in ((again, floats, variables), (cts, seeds, weights)):
                for i, value in zip(positions, values, strict=True):
                    into[i] = value
            recomputed = self._back(self._again(again), cts)
            return [recomputed[i] for i in floats]

        outputs = [detached(gradients[i]) for i in floats]
        record = GradientRecord([inputs[i] for i in floats], [cotangents[i] for i in seeds], outputs, replay)
        results: list[Any] = [None] * len(inputs)
        for number, (i, value) in enumerate(zip(floats, outputs, strict=True)):
            results[i] = value.part_of(record, number)
        return results

    def release(self) -> None:
        super().release()
        self._residuals = None


# --- in a trace -------------------------------------------------------------------------------------------------------


def _traced(rule: GradientRule, leaves: list[Any], structure: TreeDef, positions: list[int]) -> Any:
    token = _WITHIN.set((*_WITHIN.get(), id(rule.owner)))
    try:
        return _recorded(rule, leaves, structure, positions)
    finally:
        _WITHIN.reset(token)


def _recorded(rule: GradientRule, leaves: list[Any], structure: TreeDef, positions: list[int]) -> Any:
    trace = context.current().trace
    values = [own_value(leaves[i]) for i in positions]
    types = [value.type for value in values]
    closed = Closed(rule.name, trace, types, [False] * len(types))
    out: list[Any] = []
    saved: list[Any] = []
    shapes: list[TreeDef] = []

    def forward() -> list[Any]:
        call_args = structure.unflatten(_filled(leaves, positions, closed.parameters))
        result, residuals = rule.forward(*call_args)
        for into, subtree in ((out, result), (saved, residuals)):
            parts, shape = tree.flatten(subtree)
            into.extend(parts)
            shapes.append(shape)
        return [leaf for leaf in (*out, *saved) if is_tensor(leaf)]

    closed.record(forward)
    out_positions = [i for i, leaf in enumerate(out) if is_tensor(leaf)]
    saved_positions = [i for i, leaf in enumerate(saved) if is_tensor(leaf)]
    graph = closed.graph
    first, last = len(out_positions), len(graph.outputs) - len(closed.written)
    shown = (*graph.outputs[:first], *graph.outputs[last:])
    graph = Graph(graph.inputs, graph.nodes, (*shown, *graph.outputs[first:last]), (), graph.name)
    residual_types = [value.type for value in graph.outputs[len(shown) :]]
    seeds = [i for i, value in enumerate(shown) if is_inexact_tensor(value.type)]

    back_types = [*residual_types, *(shown[i].type for i in seeds)]
    back = Closed(f"{rule.name}_backward", trace, back_types, [False] * len(back_types))
    parameters = back.parameters

    def backward() -> list[Any]:
        cotangents: list[Any] = [None] * len(out)
        for position, handle in zip(seeds, parameters[len(saved_positions) :], strict=True):
            if position < len(out_positions):
                cotangents[out_positions[position]] = handle
        residuals = shapes[1].unflatten(_filled(saved, saved_positions, parameters[: len(saved_positions)]))
        fitted = _fitted(rule.name, rule.backward(residuals, shapes[0].unflatten(cotangents)), types)
        return [wrap(value) for value in fitted if value is not None]

    back.record(backward)
    if back.written:
        raise JitgraphError(
            f"{rule.name}: backward writes into a tensor from outside, prints or draws random numbers\n"
            "  hint: in a trace it computes cotangents alone"
        )
    operands = [*values, *closed.outer, *back.outer]
    region = _with_zeros(back, [*closed.outer, *back.outer], trace)
    attrs = {"num_outputs": len(shown), "num_captured": len(back.outer)}
    forward_region = _with_inputs(graph, [value.type for value in back.outer])
    outputs = context.emitter().emit(ops.custom_gradient, operands, attrs, (forward_region, region))
    for handle, value in zip(closed.written, outputs[len(out_positions) :], strict=False):
        trace.write(handle, value)
    return shapes[0].unflatten(_filled(out, out_positions, [wrap(value) for value in outputs[: len(out_positions)]]))


def _with_inputs(graph: Graph, types: Sequence[Type]) -> Graph:
    """The graph with more inputs, which it does not use."""
    builder = GraphBuilder()
    return Graph((*graph.inputs, *(builder.input(type) for type in types)), graph.nodes, graph.outputs, (), graph.name)


def _with_zeros(back: Closed, captured: Sequence[Any], trace: Any) -> Graph:
    """The rule with zeros as the cotangents of what the functions close over."""
    builder = GraphBuilder()
    builder.constraints = trace.constraints
    inputs = [builder.input(value.type, value.hint) for value in back.graph.inputs]
    outputs = list(builder.inline(back.graph, inputs))
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs += [zeros(value.type) for value in captured if is_inexact_tensor(value.type)]
    return Graph(tuple(builder.inputs), tuple(builder.nodes), tuple(outputs), (), back.graph.name)
