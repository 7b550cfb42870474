"""The eager emitter: ops run at once, in NumPy or by a kernel, and on a tape where a gradient may be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import is_inexact
from jitgraph.eager import placement
from jitgraph.eager.records import GraphRecord, OpRecord
from jitgraph.eager.rules import ByDevice, ByKernel, Rules, evaluated, is_ruled, taped
from jitgraph.eager.tape import Record
from jitgraph.eager.value import EagerValue
from jitgraph.errors import HostAccessError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.context import Context
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.runtime import shared


class EagerEmitter:
    """Applies an op by its NumPy evaluation or a kernel; which of the two is settled once (``eager/rules.py``).

    Errors of shape and dtype are those of the op's own rule.
    """

    def __init__(self) -> None:
        self._rules = Rules()

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Evaluate ``op`` and record it on the tape where gradients are enabled and an input requires one."""
        now = context.current()
        if now.profile is None:
            return self._emit(now, op, inputs, attrs, regions)
        outputs: tuple[Any, ...] = now.profile.applied(partial(self._emit, now), op, inputs, attrs, regions)
        return outputs

    def _emit(
        self, now: Context, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]
    ) -> tuple[Any, ...]:
        if now.autocast is not None:
            from jitgraph.eager import autocasting  # here, as few programs need it

            return autocasting.emit(self, op, inputs, attrs, regions)
        rule = outputs = None
        try:
            rule = self._rules.rule(op, inputs, attrs) if is_ruled(op) and not regions else None
            if rule is None or (now.anomaly and (op.decompose is not None or isinstance(rule, ByDevice))):
                return self._emit_otherwise(op, inputs, attrs, regions)
            outputs = rule.run(inputs, attrs)
        except HostAccessError:  # an operand on a GPU, for which those of the CPU pay nothing
            if not placement.is_on_device(inputs):
                raise
        if rule is None or outputs is None:
            return placement.emit(op, inputs, attrs, regions)
        if now.anomaly:
            _watch(op, inputs, [value.array for value in outputs])
        if now.grad_enabled and rule.differentiable:
            for value in inputs:
                if value.record is not None:
                    return taped(rule.record(tuple(inputs), attrs, outputs), outputs)
        return outputs

    def kernel(self, op: Op, inputs: Sequence[Any], attrs: Attrs) -> ByKernel | None:
        """``op`` on these operands by a kernel, as in ``Rules.kernel``."""
        return self._rules.kernel(op, inputs, attrs)

    def _emit_otherwise(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Composites op by op, control flow, and ops whose operands or results are no tensors."""
        if placement.is_on_device(inputs):
            return placement.emit(op, inputs, attrs, regions)
        if "nondifferentiable" not in op.traits and context.current().grad_enabled:
            for value in inputs:
                if isinstance(value, EagerValue) and value.record is not None:
                    return self._emit_taped(op, inputs, attrs, regions)
        return _values(self._run(op, inputs, attrs, regions))

    def _emit_taped(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        if op.kind == "control" or regions:
            return self._emit_region(op, inputs, attrs, regions)
        if op.decompose is not None and op.vjp is None:
            result = op.decompose(*inputs, **attrs)
            return tuple(result) if isinstance(result, tuple | list) else (result,)
        results = _values(self._run(op, inputs, attrs, regions))
        return _taped(OpRecord(op, tuple(inputs), dict(attrs), results))

    def _emit_region(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Control flow: run the forward graph that also gives residuals; the tape keeps the backward graph."""
        from jitgraph.eager import long_loops  # here, as most eager programs need neither
        from jitgraph.passes.autodiff import vjp_graph

        builder = GraphBuilder()
        operands = [builder.input(value.type) for value in inputs]
        outputs = builder.emit(op, operands, attrs, regions)
        wrt = tuple(i for i, value in enumerate(inputs) if getattr(value, "record", None) is not None)
        source = builder.graph(outputs, op.name)
        with shared.PAUSED.inside():  # finalisers may run ops
            forward, backward = vjp_graph(source, wrt)
        results = long_loops.run(forward, [_payload(value) for value in inputs])
        primals, residuals = _separate(tuple(results[: len(outputs)]), inputs), results[len(outputs) :]
        return _taped(GraphRecord(op.name, tuple(inputs), wrt, backward, tuple(residuals), _values(primals), source))

    def _run(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """The outputs of one op as arrays, without a tape; other kinds of value (tokens, stacks) pass through."""
        if op.decompose is not None and not regions:
            result = op.decompose(*map(_detached, inputs), **attrs)  # without records nothing in it is taped
            return _separate(
                tuple(_payload(value) for value in (result if isinstance(result, tuple | list) else (result,))), inputs
            )
        op.output_types([value.type for value in inputs], attrs, regions)
        if op.evaluate is None:
            return _separate(_interpret(op, inputs, attrs, regions), inputs)
        results = evaluated(op, op.evaluate, [_payload(value) for value in inputs], attrs)
        if context.current().anomaly:
            _watch(op, inputs, results)
        return results


def _separate(results: tuple[Any, ...], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results, with a view in place of an operand's own array: whose memory it is, the operand alone knows."""
    operands = [value.array for value in inputs if isinstance(value, EagerValue)]
    if not any(result is operand for result in results for operand in operands):
        return results
    return tuple([x.view() if any(x is operand for operand in operands) else x for x in results])


def _values(results: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays as values; other kinds of value (tokens, stacks) as they are."""
    return tuple([EagerValue(x) if isinstance(x, np.ndarray) else x for x in results])


def _taped(record: Record) -> tuple[Any, ...]:
    """The outputs of a record; gradients flow to floats alone."""
    return tuple(
        [
            x.part_of(record, i) if isinstance(x, EagerValue) and is_inexact(x.dtype) else x
            for i, x in enumerate(record.outputs)
        ]
    )


def _interpret(op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
    from jitgraph.eager import long_loops

    if not regions:
        raise UnsupportedOp(f"{op.name} cannot run eagerly", hint="call it inside a function under @jg.trace")
    builder = GraphBuilder()
    operands = [builder.input(value.type) for value in inputs]
    outputs = builder.emit(op, operands, attrs, regions)
    return long_loops.run(builder.graph(outputs, op.name), [_payload(value) for value in inputs])


def _payload(value: Any) -> Any:
    return value.array if isinstance(value, EagerValue) else value


def _detached(value: Any) -> Any:
    return value.recorded(None) if isinstance(value, EagerValue) and value.record is not None else value


def _watch(op: Op, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """AnomalyError where the arrays ``results`` are the first that are not finite."""
    from jitgraph.eager.anomalies import check_finite  # here: few programs look for anomalies

    check_finite(op.name, map(_payload, inputs), results)


EAGER: Final = EagerEmitter()
"""Who applies ops where no trace and no pass does."""
context.begin(Context(emitter=EAGER))
