"""What the tape remembers of functions whose gradient the user shapes: by a rule of their own, or computed anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitgraph import ops
from jitgraph.dtypes import is_inexact
from jitgraph.eager import tape
from jitgraph.eager.handle import COMPUTED
from jitgraph.eager.tape import Record
from jitgraph.ir import context
from jitgraph.ir.graph import Node

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
