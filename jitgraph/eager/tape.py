"""The tape: records of eager ops, and the reverse sweep over them.

A record holds its inputs and the arrays of its outputs, never its output values, so values and records form no cycle
and a tape dies with the last value that needs it.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.dtypes import is_float
from jitgraph.errors import JitgraphError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.eager.value import EagerValue

_order = itertools.count()


class Record:
    """One step of the tape. ``order`` grows with time, so every record is newer than those it depends on."""

    name: str = "record"
    inputs: tuple[Any, ...] | None

    def __init__(self, inputs: tuple[Any, ...], arrays: tuple[Any, ...]) -> None:
        self.order = next(_order)
        self.inputs = inputs
        self.arrays = arrays
        self.location = Location.of_user()

    def __repr__(self) -> str:
        return f"<{self.name} at {self.location}>"

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        """Cotangents of the inputs (None where none flows) from those of the outputs (None where none came)."""
        raise NotImplementedError

    def live_inputs(self) -> tuple[Any, ...]:
        if self.inputs is None:
            raise JitgraphError(
                f"backward through {self!r} a second time; its values are gone\n"
                "  hint: pass retain_graph=True to the first backward() or grad()"
            )
        return self.inputs

    def release(self) -> None:
        """Drop what backward needs."""
        self.inputs = None
        self.arrays = ()


class LeafRecord(Record):
    """Where gradients end: a handle with ``requires_grad``."""

    name = "leaf"

    def __init__(self, handle: Any) -> None:
        super().__init__((), ())
        self.handle = weakref.ref(handle)

    def release(self) -> None:
        """A leaf keeps nothing and may be reached again."""


class OpRecord(Record):
    """An op with a vjp rule."""

    def __init__(self, op: Op, inputs: tuple[Any, ...], attrs: Attrs, arrays: tuple[Any, ...]) -> None:
        super().__init__(inputs, arrays)
        self.op = op
        self.attrs = attrs
        self.name = op.name

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        from jitgraph.eager.value import EagerValue

        inputs = self.live_inputs()
        if self.op.vjp is None:
            raise UnsupportedOp(f"{self.name} has no gradient", location=self.location, hint="detach() its input")
        outputs = tuple(EagerValue(array, self, i) for i, array in enumerate(self.arrays))
        if len(outputs) == 1:
            return self.op.vjp(cotangents[0], outputs[0], *inputs, **self.attrs)
        return self.op.vjp(tuple(cotangents), outputs, *inputs, **self.attrs)


class GraphRecord(Record):
    """Control flow: its backward is a graph over residuals and cotangents.

    Where that is differentiated in turn, ``source``, the graph of the op itself, runs once more, op by op.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[Any, ...],
        wrt: tuple[int, ...],
        graph: Graph,
        residuals: tuple[Any, ...],
        arrays: tuple[Any, ...],
        source: Graph,
    ) -> None:
        super().__init__(inputs, arrays)
        self.name = name
        self.wrt = wrt
        self.graph = graph
        self.source = source
        self.residuals = residuals

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        from jitgraph import ops
        from jitgraph.eager.value import EagerValue

        inputs = self.live_inputs()
        filled = [
            _zeros(array) if cotangent is None else cotangent.recorded(None)
            for array, cotangent in zip(self.arrays, cotangents, strict=True)
            if is_float(array.dtype)
        ]
        residuals = [EagerValue(value) if hasattr(value, "dtype") else value for value in self.residuals]
        results = ops.call(*residuals, *filled, regions=(self.graph,))
        results = results if isinstance(results, tuple) else (results,)
        if context.current().grad_enabled:
            results = self._recorded(inputs, cotangents, [result.array for result in results])
        found: list[Any] = [None] * len(inputs)
        for number, result in zip(self.wrt, results, strict=True):
            found[number] = result
        return found

    def _recorded(self, inputs: Sequence[Any], cotangents: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients on the tape."""
        from jitgraph.eager.replay import GradientRecord, gradients_by_ops
        from jitgraph.eager.value import EagerValue

        seeds = [number for number, cotangent in enumerate(cotangents) if cotangent is not None]

        def replay(variables: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
            operands = list(inputs)
            for number, variable in zip(self.wrt, variables, strict=True):
                operands[number] = variable
            return gradients_by_ops(self.source, operands, variables, dict(zip(seeds, weights, strict=True)))

        variables = [inputs[number] for number in self.wrt]
        record = GradientRecord(variables, [cotangents[number] for number in seeds], arrays, replay)
        return tuple(EagerValue(array, record, number) for number, array in enumerate(arrays))

    def release(self) -> None:
        super().release()
        self.residuals = ()


def _zeros(array: Any) -> Any:
    from jitgraph import ops

    return ops.full(shape=tuple(array.shape), value=0.0, dtype=array.dtype)


def sweep(
    outputs: Sequence[EagerValue],
    cotangents: Sequence[Any],
    *,
    targets: Sequence[EagerValue] | None,
    create_graph: bool,
    retain_graph: bool,
) -> dict[Any, Any]:
    """Reverse sweep: cotangents by leaf record, or by ``(record, output)`` for each of ``targets`` where given.

    Records are visited newest first; a record is visited once, after every record that used it.
    """
    from jitgraph import ops

    wanted = None if targets is None else {(value.record, value.output) for value in targets}
    pending: dict[Record, dict[int, Any]] = {}
    heap: list[tuple[int, Record]] = []
    found: dict[Any, Any] = {}

    def accumulate(value: Any, cotangent: Any) -> None:
        record = value.record
        if record is None or cotangent is None or record.order < oldest:
            return
        if record not in pending:
            pending[record] = {}
            heapq.heappush(heap, (-record.order, record))
        slots = pending[record]
        slots[value.output] = ops.add(slots[value.output], cotangent) if value.output in slots else cotangent

    # a record older than every target neither is one nor leads to one
    oldest = -1 if targets is None else min((v.record.order for v in targets if v.record is not None), default=-1)
    with context.using(grad_enabled=create_graph, sweeping=True):
        for value, cotangent in zip(outputs, cotangents, strict=True):
            accumulate(value, cotangent if create_graph else cotangent.recorded(None))
        visited: list[Record] = []
        while heap:
            record = heapq.heappop(heap)[1]
            slots = pending.pop(record)
            if wanted is None:
                if isinstance(record, LeafRecord):
                    found[record] = slots[0]
            else:
                for number, cotangent in slots.items():
                    if (record, number) in wanted:
                        found[record, number] = cotangent
            if isinstance(record, LeafRecord) or record.order == oldest:
                continue
            given = [slots.get(number) for number in range(len(record.arrays))]
            inputs = record.live_inputs()
            for value, cotangent in zip(inputs, record.backward(given), strict=True):
                accumulate(value, cotangent)
            visited.append(record)
        if not (create_graph or retain_graph):
            for record in visited:
                record.release()
    return found
