"""Gradients of calls, control flow and the user's rules on the tape, that can be differentiated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jitgraph import ops
from jitgraph.dtypes import is_inexact
from jitgraph.eager import placement, tape
from jitgraph.eager.handle import COMPUTED
from jitgraph.eager.tape import EagerValue, Record
from jitgraph.errors import AnomalyError
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import bind_sizes
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.interpreter import Interpreter
from jitgraph.ir.types import StackType, TensorType, TokenType, Type
from jitgraph.location import Location
from jitgraph.runtime import imports
from jitgraph.runtime.buffer import CPU

# ----------------------------------------------------------------------
# What the tape remembers of functions whose gradient the user shapes: by a rule of their own, or computed anew.

Run: TypeAlias = Callable[[Any, Sequence[Any]], "list[Any]"]
"""Runs a graph on eager values, op by op."""


def taped(record: Record, outputs: Sequence[Any]) -> list[Any]:
    """The outputs as those of a record; gradients flow to floats and complex numbers alone."""
    return [
        x.part_of(record, i) if isinstance(x, COMPUTED) and is_inexact(x.dtype) else x for i, x in enumerate(outputs)
    ]


def requires_gradient(inputs: Sequence[Any]) -> bool:
    """Whether the tape is to remember an op on these values."""
    return context.current().grad_enabled and any(getattr(value, "record", None) is not None for value in inputs)


def detached(value: Any) -> Any:
    """The value without a record."""
    return value.recorded(None) if isinstance(value, COMPUTED) and value.record is not None else value


def applied(node: Node, inputs: Sequence[Any], run: Run) -> Sequence[Any]:
    """The outputs of a composite with regions of the user's, on the tape where an input is."""
    if not requires_gradient(inputs):
        return run(node.regions[0], inputs)
    with context.using(grad_enabled=False):
        outputs = run(node.regions[0], [detached(value) for value in inputs])
    kind = Ruled if "ruled_by_region" in node.op.traits else Recomputed
    return taped(kind(node, tuple(inputs), tuple(outputs), run), outputs)


def _tensors(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values but for tokens, which no record keeps: what runs again does not print again."""
    return tuple(value for value in values if isinstance(value, COMPUTED))


class Recomputed(Record):
    """A function that keeps its operands alone: it runs once more on the way back."""

    name = "recompute"
    replays = True

    def __init__(self, node: Node, inputs: tuple[Any, ...], outputs: tuple[Any, ...], run: Run) -> None:
        super().__init__(_tensors(inputs), (None,) * len(_tensors(outputs)))
        self._node = node
        self._run = run

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        from jitgraph.passes.split import strip_prints  # here: it loads passes

        again = context.current().grad_enabled
        inputs = self.live_inputs()
        region = self._node.regions[0]
        with context.outside(grad_enabled=True):
            operands = [ops.reshape(x, shape=x.shape) if x.record is not None else x for x in inputs]
            outputs = self._run(strip_prints(region), operands)
        return tape.gradients(outputs, cotangents, operands, create_graph=again)


class Ruled(Record):
    """A function with a gradient rule of its own."""

    name = "custom_gradient"
    replays = True

    def __init__(self, node: Node, inputs: tuple[Any, ...], outputs: tuple[Any, ...], run: Run) -> None:
        super().__init__(_tensors(inputs), _tensors(outputs))
        self._node = node
        self._run = run

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        from jitgraph.passes.split import strip_prints  # here: it loads passes

        inputs, outputs = self.live_inputs(), self.outputs
        forward, rule = self._node.regions
        count, captured = self._node.attrs["num_outputs"], self._node.attrs["num_captured"]
        assert isinstance(count, int)
        assert isinstance(captured, int)
        saved = len(self._node.outputs) - count  # residuals, which stand behind the results
        first = len(outputs) - saved
        if context.current().grad_enabled:
            with context.outside():
                outputs = tuple(
                    self._run(strip_prints(forward), inputs)
                )  # residuals that can be differentiated in turn
        seeds = [
            ops.full(shape=out.shape, value=0.0, dtype=out.dtype) if ct is None else ct
            for out, ct in zip(self.outputs[:first], cotangents, strict=False)
            if is_inexact(out.dtype)
        ]
        gradients = iter(self._run(rule, [*outputs[first:], *seeds, *inputs[len(inputs) - captured :]]))
        return [next(gradients) if is_inexact(x.dtype) else None for x in inputs]


# ----------------------------------------------------------------------
# Gradients of a compiled call, or of control flow, that can be differentiated again.
#
# The first gradient is the compiled backward graph, as for any call. Only where it is differentiated in turn is the
# graph run once more, op by op on a tape of its own, control flow included, and in silence: what it prints was printed.
# A stack of residuals is then one of values of the tape, so that gradients pass it without ops of their own.

_OF_REGIONS = frozenset({"ruled_by_region", "recomputed"})
Gradients = Callable[[Sequence[EagerValue], Sequence[EagerValue]], list[Any]]


class GradientRecord(Record):
    """A compiled backward call: from the inputs and cotangents of a call to the cotangents of its inputs."""

    name = "gradient"
    replays = True

    def __init__(
        self, inputs: Sequence[EagerValue], cotangents: Sequence[EagerValue], outputs: Sequence[Any], replay: Gradients
    ) -> None:
        """``replay(inputs, cotangents)`` gives the same gradients by ops of the tape, None where none flows."""
        super().__init__((*inputs, *cotangents), tuple(outputs))
        self.count = len(inputs)
        self.replay = replay

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        again = context.current().grad_enabled
        with context.outside(grad_enabled=True):
            variables = [ops.reshape(value, shape=value.shape) for value in self.live_inputs()]  # sweeps end here
            gradients = self.replay(variables[: self.count], variables[self.count :])
        return tape.gradients(gradients, cotangents, variables, create_graph=again)


def watched(inputs: Sequence[EagerValue], cotangents: Sequence[EagerValue], replay: Gradients) -> list[Any]:
    """What ``replay``, as that of a GradientRecord, gives: each op is watched under ``jg.detect_anomaly()``."""
    again = context.current().grad_enabled
    with context.outside(grad_enabled=True):
        variables = [ops.reshape(value, shape=value.shape) for value in inputs]  # sweeps end here
    with context.using(grad_enabled=True):
        gradients = replay(variables, cotangents)
    return gradients if again else [detached(value) for value in gradients]


def gradients_by_ops(
    graph: Graph, operands: Sequence[EagerValue], variables: Sequence[EagerValue], cotangents: Mapping[int, Any]
) -> list[Any]:
    """Gradients with respect to ``variables``, operands of ``graph``, by ops on a tape; None where none flows.

    ``cotangents`` are those of the outputs, by number.
    """
    with context.outside():
        outputs = evaluate(graph, operands)
    ends = [outputs[i] for i in cotangents]
    return tape.gradients(ends, list(cotangents.values()), variables, create_graph=True)


def evaluate(graph: Graph, operands: Sequence[EagerValue]) -> list[Any]:
    """The outputs of a graph for eager values, each op applied through the current emitter."""
    with imports.importing():
        from jitgraph.passes.autodiff import expand_grads  # here: a call seldom has its gradient replayed
        from jitgraph.passes.split import strip_prints
    expanded = strip_prints(expand_grads(graph))
    sizes = bind_sizes([v.type for v in expanded.inputs], [v.shape for v in operands], expanded.constraints)
    return _Replay(sizes).run(expanded, operands)


def run(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """The outputs of a graph without gradient nodes for eager values, op by op on the tape, prints included."""
    sizes = bind_sizes([v.type for v in graph.inputs], [v.shape for v in operands], graph.constraints)
    return _Replay(sizes).run(graph, operands)


class _Replay(Interpreter):
    """Over the ops themselves, each called on what it was called on."""

    def apply(self, node: Node, inputs: list[Any], attrs: Mapping[str, Any]) -> Sequence[Any]:
        begin = next(tape.ORDER)
        try:
            outputs = self._applied(node, inputs, attrs)
        except AnomalyError as error:
            error.in_forward = True
            error.location = node.location or error.location
            raise
        if node.location is not None:
            _set_locations(outputs, begin, node.location)
        return outputs

    def _applied(self, node: Node, inputs: list[Any], attrs: Mapping[str, Any]) -> Sequence[Any]:
        if not _OF_REGIONS.isdisjoint(node.op.traits):
            return applied(node, inputs, self.run)
        if any(isinstance(value.type, StackType) for value in (*node.inputs, *node.outputs)):
            assert node.op.evaluate is not None
            result = node.op.evaluate(*inputs, **attrs)
        elif any(isinstance(value.type, TokenType) for value in node.outputs):
            assert node.op.evaluate is not None
            operands = [placement.moved(x, CPU).array if isinstance(x, COMPUTED) else x for x in inputs]
            result = node.op.evaluate(*operands, **attrs)
        else:
            regions = () if node.op.decompose is not None else node.regions
            result = node.op(*inputs, regions=regions, **attrs)
        return result if isinstance(result, tuple | list) else (result,)

    def is_true(self, value: EagerValue) -> bool:
        return bool(placement.moved(value, CPU).array)

    def slice(self, x: Any, i: int) -> Any:
        rest = x.shape[1:]
        zeros = (0,) * len(rest)
        row = ops.slice(x, starts=(i, *zeros), stops=(i + 1, *rest), strides=(1,) * len(x.shape))
        return ops.reshape(row, shape=rest)

    def rows(self, type: Type, length: int) -> list[Any]:
        return [None] * length

    def stacked(self, rows: list[Any], type: Type) -> Any:
        if rows:
            return ops.concat(*(ops.reshape(row, shape=(1, *row.shape)) for row in rows), axis=0)
        assert isinstance(type, TensorType)
        shape = [dims.evaluate(size, self.sizes) for size in type.shape[1:]]
        return ops.full(shape=(0, *shape), value=type.dtype.type(0).item(), dtype=type.dtype)


def _set_locations(values: Sequence[Any], begin: int, location: Location) -> None:
    """Let the records that ``values`` come from stand at ``location``, but for those older than ``begin``."""
    reached = [value.record for value in values if isinstance(value, COMPUTED)]
    while reached:
        record = reached.pop()
        if record is not None and record.order > begin:
            record.stand_at(location)
            reached.extend(value.record for value in record.inputs or ())
