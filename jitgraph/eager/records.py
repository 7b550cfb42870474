"""What the tape remembers of ops: one with a rule for its gradient, a kernel's, and control flow's backward graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgraph import ops
from jitgraph.dtypes import is_inexact
from jitgraph.eager import tape
from jitgraph.eager.tape import EagerValue, Record
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.location import user_location

if TYPE_CHECKING:
    from jitgraph.eager.saved_operands import Saved


class OpRecord(Record):
    """An op with a vjp rule."""

    __slots__ = ("attrs", "op")

    def __init__(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs, outputs: tuple[Any, ...]) -> None:
        self.order = next(tape.ORDER)  # as in Record.__init__, without a call
        self.hooks = None
        self.inputs = inputs
        self.notes = None
        self.outputs = outputs
        self._place = user_location()
        self.op = op
        self.attrs = attrs

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.op.name

    def saved_operands(self) -> Saved | None:
        from jitgraph.eager.saved_operands import saved  # here: only a write to an operand asks for it

        if not all(hasattr(value, "record") for value in (*(self.inputs or ()), *self.outputs)):
            return None  # tokens, which are no values
        return saved(self.op, self.attrs, self.inputs or ())

    def again(self, inputs: Sequence[Any]) -> list[Any]:
        with context.using(grad_enabled=False):
            outputs: Any = self.op(*inputs, **dict(self.attrs))  # type: ignore[arg-type]
        return list(outputs) if isinstance(outputs, tuple | list) else [outputs]

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        if self.op.vjp is None:
            raise UnsupportedOp(f"{self.name} has no gradient", location=self.location, hint="detach() its input")
        outputs = self.outputs
        if context.current().grad_enabled:
            outputs = tuple([value.part_of(self, i) for i, value in enumerate(outputs)])
        if len(outputs) == 1:
            return _with_kink(self.op, inputs, self.op.vjp(cotangents[0], outputs[0], *inputs, **self.attrs))
        return self.op.vjp(tuple(cotangents), outputs, *inputs, **self.attrs)


class KinkRecord(Record):
    """The gradient of a kinked op, which depends on the op's operand without changing where the operand does."""

    name = "kink"

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        return cotangents[0], ops.zeros_like(cotangents[0])


def _with_kink(op: Op, inputs: Sequence[Any], gradients: Sequence[Any]) -> Sequence[Any]:
    """The gradient of a kinked op that is recorded, which has a gradient of zeros by the operand, as in PyTorch."""
    if "kinked" not in op.traits or not context.current().grad_enabled or inputs[0].record is None:
        return gradients
    gradient = gradients[0]
    if gradient is None:
        return gradients
    record = KinkRecord((gradient, inputs[0]), (gradient.recorded(None),))
    return (record.outputs[0].part_of(record, 0),)


Gradient = Callable[[OpRecord, Sequence[Any], Sequence[Any]], Sequence[Any]]


class KernelRecord(OpRecord):
    """An op that ran compiled code, and whose gradient does.

    Where that is differentiated in turn, it is computed by ops on the tape: by the op's rule, or through what defines
    it, which runs once more.
    """

    __slots__ = ("_gradient",)

    def __init__(
        self, op: Op, inputs: tuple[Any, ...], attrs: Attrs, outputs: tuple[Any, ...], gradient: Gradient
    ) -> None:
        """``gradient(record, inputs, cotangents)`` gives the cotangents of the inputs by compiled code."""
        super().__init__(op, inputs, attrs, outputs)
        self._gradient = gradient

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        current = context.current()
        if not (current.grad_enabled or current.anomaly):
            return self._gradient(self, inputs, cotangents)
        if self.op.vjp is not None:
            return super().backward(cotangents)
        return self._through(inputs, cotangents)

    def _through(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        """The gradient of the composite through the ops that define it, on the tape."""
        assert self.op.decompose is not None
        again = context.current().grad_enabled
        with context.outside(grad_enabled=True):
            # sweeps end at the variables
            operands = [x if x.record is None else ops.reshape(x, shape=x.shape) for x in inputs]
            result = self.op.decompose(*operands, **self.attrs)
        outputs = result if isinstance(result, tuple | list) else (result,)
        pairs = [
            (value, ct) for value, ct in zip(outputs, cotangents, strict=True) if ct is not None and value.requires_grad
        ]
        gradients = tape.sweep(
            [value for value, _ in pairs],
            [ct for _, ct in pairs],
            targets=[x for x in operands if x.record is not None],
            create_graph=again,
            retain_graph=True,
        )
        by_input = [None if x.record is None else gradients.get((x.record, x.output)) for x in operands]
        with context.using(grad_enabled=again):
            return _with_kink(self.op, inputs, by_input)


class GraphRecord(Record):
    """Control flow: its backward is a graph over residuals and cotangents.

    Where that is differentiated in turn, or watched for anomalies, ``source``, the graph of the op itself, runs once
    more, op by op.
    """

    replays = True

    def __init__(
        self,
        name: str,
        inputs: tuple[Any, ...],
        wrt: tuple[int, ...],
        graph: Graph,
        residuals: tuple[Any, ...],
        outputs: tuple[Any, ...],
        source: Graph,
    ) -> None:
        super().__init__(inputs, outputs)
        self.name = name
        self.wrt = wrt
        self.graph = graph
        self.source = source
        self.residuals = residuals

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        if context.current().anomaly or context.current().trace is not None:
            return self._watched(inputs, cotangents)
        filled = [
            _zeros(output) if cotangent is None else cotangent.recorded(None)
            for output, cotangent in zip(self.outputs, cotangents, strict=True)
            if is_inexact(output.dtype)
        ]
        residuals = [EagerValue(value) if isinstance(value, np.ndarray) else value for value in self.residuals]
        results = ops.call(*residuals, *filled, regions=(self.graph,))
        results = results if isinstance(results, tuple) else (results,)
        if context.current().grad_enabled:
            results = self._recorded(inputs, cotangents, results)
        return self._by_input(inputs, results)

    def _by_input(self, inputs: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        by_input: list[Any] = [None] * len(inputs)
        for number, gradient in zip(self.wrt, gradients, strict=True):
            by_input[number] = gradient
        return by_input

    def _recorded(self, inputs: Sequence[Any], cotangents: Sequence[Any], gradients: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients on the tape."""
        from jitgraph.eager.replay import GradientRecord  # here: it loads differentiation of graphs

        variables = [inputs[number] for number in self.wrt]
        live_cotangents = [cotangent for cotangent in cotangents if cotangent is not None]
        record = GradientRecord(variables, live_cotangents, gradients, self._replay(inputs, cotangents))
        return tuple([value.part_of(record, number) for number, value in enumerate(gradients)])

    def _watched(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        """The cotangents of the inputs by ops, which are watched or recorded one by one."""
        from jitgraph.eager.replay import watched

        live_cotangents = [cotangent for cotangent in cotangents if cotangent is not None]
        return self._by_input(
            inputs, watched([inputs[number] for number in self.wrt], live_cotangents, self._replay(inputs, cotangents))
        )

    def _replay(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Callable[..., list[Any]]:
        """The gradients by ops on a tape, of variables in the place of inputs and of the cotangents that came."""
        from jitgraph.eager.replay import gradients_by_ops

        seeds = [number for number, cotangent in enumerate(cotangents) if cotangent is not None]

        def replay(variables: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
            operands = list(inputs)
            for number, variable in zip(self.wrt, variables, strict=True):
                operands[number] = variable
            return gradients_by_ops(self.source, operands, variables, dict(zip(seeds, weights, strict=True)))

        return replay

    def release(self) -> None:
        super().release()
        self.residuals = ()


def _zeros(output: Any) -> Any:
    return ops.full(shape=output.shape, value=0.0, dtype=output.dtype)
