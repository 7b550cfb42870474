"""The eager emitter: ops run at once in NumPy, and on a tape where a gradient may be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.autograd.tape import GraphRecord, OpRecord, Record
from jitgraph.errors import JitgraphError, LocatedError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType, Type

Array = NDArray[Any]


class EagerValue:
    """A computed tensor value: an array nobody writes to, and the tape's record of how it was made.

    ``record`` is None where no gradient flows; ``output`` tells which of the record's outputs this is. ``exported`` is
    set where a caller was given a view of the memory, which then is never reused.
    """

    __slots__ = ("__weakref__", "_type", "array", "exported", "output", "record")

    def __init__(self, array: Array, record: Record | None = None, output: int = 0) -> None:
        self.array = array
        self.record = record
        self.output = output
        self.exported = False
        self._type: TensorType | None = None

    @property
    def type(self) -> TensorType:
        if self._type is None:
            self._type = TensorType(self.array.dtype, self.array.shape)
        return self._type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def requires_grad(self) -> bool:
        return self.record is not None


class EagerEmitter:
    """Applies an op by its NumPy evaluation; errors of shape and dtype are those of the op's own rule."""

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Evaluate ``op`` and record it on the tape where gradients are enabled and an input requires one."""
        taped = context.current().grad_enabled and any(
            isinstance(value, EagerValue) and value.record is not None for value in inputs
        )
        if taped and "nondifferentiable" not in op.traits:
            return self._emit_taped(op, inputs, attrs, regions)
        return tuple(EagerValue(array) if isinstance(array, np.ndarray) else array for array in _run(op, inputs, attrs, regions))

    def _emit_taped(
        self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]
    ) -> tuple[Any, ...]:
        if op.kind == "control" or (op.decompose is not None and regions):
            return self._emit_region(op, inputs, attrs, regions)
        if op.decompose is not None and op.vjp is None:
            result = op.decompose(*inputs, **attrs)
            return tuple(result) if isinstance(result, tuple | list) else (result,)
        arrays = _run(op, inputs, attrs, regions)
        record = OpRecord(op, tuple(inputs), dict(attrs), arrays)
        return tuple(EagerValue(array, record, i) for i, array in enumerate(arrays))

    def _emit_region(
        self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]
    ) -> tuple[Any, ...]:
        """Control flow: run the forward graph that also gives residuals; the tape keeps the backward graph."""
        from jitgraph.ir.interpreter import interpret
        from jitgraph.passes.autodiff import vjp_graph

        builder = GraphBuilder()
        operands = [builder.input(value.type) for value in inputs]
        outputs = builder.emit(op, operands, attrs, regions)
        wrt = tuple(i for i, value in enumerate(inputs) if value.record is not None)
        forward, backward = vjp_graph(builder.graph(outputs, op.name), wrt)
        results = interpret(forward, [value.array for value in inputs])
        arrays, residuals = tuple(results[: len(outputs)]), results[len(outputs) :]
        record = GraphRecord(op.name, tuple(inputs), wrt, backward, tuple(residuals), arrays)
        return tuple(EagerValue(array, record, i) for i, array in enumerate(arrays))


def _run(op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
    """The outputs of one op as arrays, without a tape; other kinds of value (tokens, stacks) pass through."""
    if op.decompose is not None and not regions:
        with context.using(grad_enabled=False):
            result = op.decompose(*(_detached(value) for value in inputs), **attrs)
        return tuple(_payload(value) for value in (result if isinstance(result, tuple | list) else (result,)))
    types: list[Type] = [value.type for value in inputs]
    op.output_types(types, attrs, regions)
    if op.evaluate is None:
        return _interpret(op, inputs, attrs, regions)
    try:
        result = op.evaluate(*(_payload(value) for value in inputs), **attrs)
    except JitgraphError:
        raise
    except (IndexError, ValueError) as error:
        raise type(error)(f"{op.name}: {error}") from error
    results = result if isinstance(result, tuple) else (result,)
    if context.current().anomaly:
        _check_finite(op, inputs, results)
    return tuple(array if isinstance(array, np.ndarray) else np.asarray(array) for array in results)


def _interpret(op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
    from jitgraph.ir.interpreter import interpret

    if not regions:
        raise UnsupportedOp(f"{op.name} cannot run eagerly", hint="call it inside a function under @jg.trace")
    builder = GraphBuilder()
    operands = [builder.input(value.type) for value in inputs]
    outputs = builder.emit(op, operands, attrs, regions)
    return tuple(interpret(builder.graph(outputs, op.name), [_payload(value) for value in inputs]))


def _payload(value: Any) -> Any:
    return value.array if isinstance(value, EagerValue) else value


def _detached(value: Any) -> Any:
    return EagerValue(value.array) if isinstance(value, EagerValue) and value.record is not None else value


class AnomalyError(LocatedError, FloatingPointError):
    """A NaN or infinity arose under ``jg.detect_anomaly()`` from operands that were all finite."""


def _check_finite(op: Op, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    for array in results:
        if not isinstance(array, np.ndarray) or array.dtype.kind in "biu":
            continue
        bad = ~np.isfinite(array.astype(np.float64))
        if bad.any() and all(np.isfinite(_payload(v).astype(np.float64)).all() for v in inputs):
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise AnomalyError(f"{op.name} gave {array[index]} at index {index}")
