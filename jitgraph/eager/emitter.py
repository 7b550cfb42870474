"""The eager emitter: ops run at once, in NumPy or by a kernel, under autocast too, and on a tape for their
gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph import ops
from jitgraph.dtypes import DType, float32, float64, is_float, is_inexact
from jitgraph.eager import placement
from jitgraph.eager.tape import EagerValue, Record
from jitgraph.errors import HostAccessError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.context import Context, Emitter
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from jitgraph.runtime import imports, shared

if TYPE_CHECKING:
    from jitgraph.eager import records, rules
else:
    records = imports.late(__name__, "jitgraph.eager.records")  # a process that finds all its traces applies no op
    rules = imports.late(__name__, "jitgraph.eager.rules")

# ----------------------------------------------------------------------
# What autocast does to an op: which of its operands become 16-bit floats, and which float32.
#
# The lists are those of PyTorch's autocast for CUDA, said by the ops' traits. Products and convolutions run in the
# 16-bit dtype; sums, exponentials, softmax, norms and losses in float32; other ops in the widest of their operands'
# dtypes. float64 stays as it is, as in PyTorch. An op is looked at where a program applies it; what it is made of is
# not.

_OF_ONE_DTYPE: Final = frozenset({"elementwise", "movement", "indexing"})


def emit(emitter: Emitter, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
    """What ``emitter`` makes of the op with its operands cast; for whatever it applies on the way nothing is cast."""
    low = context.current().autocast
    with context.using(autocast=None):
        return emitter.emit(op, _cast(inputs, _dtype_of(op, inputs, low)), attrs, regions)


def _dtype_of(op: Op, inputs: Sequence[Any], low: DType) -> DType | None:
    """The dtype in which an op's floats go in; None where they stay as they are."""
    floats = {value.type.dtype for value in inputs if isinstance(value.type, TensorType)}
    floats = {dtype for dtype in floats if is_float(dtype)}
    if not floats or float64 in floats:
        return None
    if "autocast_low" in op.traits:
        return low
    if "autocast_wide" in op.traits:
        return float32
    alike = op.kind in _OF_ONE_DTYPE or "pointwise" in op.traits
    return float32 if alike and len(floats) > 1 else None


def _cast(inputs: Sequence[Any], dtype: DType | None) -> Sequence[Any]:
    if dtype is None:
        return inputs
    return [ops.cast(value, dtype=dtype) if _is_other(value, dtype) else value for value in inputs]


def _is_other(value: Any, dtype: DType) -> bool:
    return isinstance(value.type, TensorType) and is_float(value.type.dtype) and value.type.dtype != dtype


# ----------------------------------------------------------------------
# The eager emitter: ops run at once, in NumPy or by a kernel, and on a tape where a gradient may be asked for.


class EagerEmitter:
    """Applies an op by its NumPy evaluation or a kernel; which of the two is settled once (``eager/rules.py``).

    Errors of shape and dtype are those of the op's own rule.
    """

    def __init__(self) -> None:
        self._rules: Any = _NoRules(self)

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
            return emit(self, op, inputs, attrs, regions)
        rule: Any = None
        outputs: tuple[Any, ...] | None = None
        try:
            rule = self._rules.rule(op, inputs, attrs) if rules.is_ruled(op) and not regions else None
            if rule is None or (now.anomaly and (op.decompose is not None or isinstance(rule, rules.ByDevice))):
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
                    return rules.taped(rule.record(tuple(inputs), attrs, outputs), outputs)
        return outputs

    def kernel(self, op: Op, inputs: Sequence[Any], attrs: Attrs) -> rules.ByKernel | None:
        """``op`` on these operands by a kernel, as in ``Rules.kernel``."""
        kernel: rules.ByKernel | None = self._rules.kernel(op, inputs, attrs)
        return kernel

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
        return _taped(records.OpRecord(op, tuple(inputs), dict(attrs), results))

    def _emit_region(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Control flow: run the forward graph that also gives residuals; the tape keeps the backward graph."""
        from jitgraph.eager import long_loops  # here, as most eager programs need none of these
        from jitgraph.ir.builder import GraphBuilder
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
        return _taped(
            records.GraphRecord(op.name, tuple(inputs), wrt, backward, tuple(residuals), _values(primals), source)
        )

    def _run(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """The outputs of one op as arrays, without a tape; other kinds of value (tokens, stacks) pass through."""
        if op.decompose is not None and op.evaluate is None and not regions:
            result = op.decompose(*map(_detached, inputs), **attrs)  # without records nothing in it is taped
            return _separate(
                tuple(_payload(value) for value in (result if isinstance(result, tuple | list) else (result,))), inputs
            )
        op.output_types([value.type for value in inputs], attrs, regions)
        if op.evaluate is None:
            return _separate(_interpret(op, inputs, attrs, regions), inputs)
        results = rules.evaluated(op, op.evaluate, [_payload(value) for value in inputs], attrs)
        if context.current().anomaly:
            _watch(op, inputs, results)
        return results


class _NoRules:
    """Stands for the rules of an emitter until it applies its first op."""

    def __init__(self, emitter: EagerEmitter) -> None:
        self._emitter = emitter

    def __getattr__(self, name: str) -> Any:
        self._emitter._rules = rules.Rules()
        return getattr(self._emitter._rules, name)


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
    from jitgraph.ir.builder import GraphBuilder

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
