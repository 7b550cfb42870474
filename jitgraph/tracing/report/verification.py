"""``@trace(verify=True)``: the first call of a specialisation is compared with eager, op by op.

Three things are compared in this order: the ops that eager applied with those that were recorded, the values of these
ops with the recorded graph in the interpreter, and the results with those of the compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, tree
from jitgraph.eager.emitter import EagerEmitter
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import TraceError
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs, Graph, Node, Value
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.call.specialisation import Specialisation
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.record.argument_mutation import ArgumentContainer, watch
from jitgraph.tracing.record.printing import quietly

_TOLERANCE: Final = {dtypes.float16: 2e-2, dtypes.bfloat16: 1e-1, dtypes.float32: 2e-4, dtypes.float64: 1e-9}


class Applied(NamedTuple):
    """One op that eager applied."""

    op: Op
    location: Location | None
    outputs: tuple[Any, ...]


class _AppliedOps:
    """The eager emitter with a list of what it did.

    What a composite does inside is left out, and what a backward sweep does, which a trace records as one ``grad``.
    """

    def __init__(self) -> None:
        self.applied: list[Applied] = []
        self._eager = EagerEmitter()
        self._depth = 0

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        self._depth += 1
        try:
            outputs = self._eager.emit(op, inputs, attrs, regions)
        finally:
            self._depth -= 1
        if self._depth == 0 and not context.current().sweeping:
            self.applied.append(Applied(op, Location.of_user(), outputs))
        return outputs


def run_verified(
    function: Any,
    specialisation: Specialisation,
    values: tuple[Any, ...],
    eagerly: Callable[[], Any],
    containers: Sequence[ArgumentContainer] = (),
) -> Any:
    """The result of the compiled call; TraceError names the first op and line where it differs from eager."""
    match = specialisation.match(values)
    assert match is not None
    handles, operands, _ = match
    arrays = [np.array(operand.array) for operand in operands]
    eager, capture = _AppliedOps(), Capture([function.__wrapped__])
    watch(containers, capture.effects.log)
    for handle in handles:
        for name in ("_value", "_grad"):
            capture.effects.log.save(Slot("attribute", handle, name, name), name)
    try:
        with quietly(), context.using(emitter=eager):  # what the compiled call prints is enough
            expected = capture.call(eagerly)
        after = [handle._value for handle in handles]
        leaves, structure = tree.flatten(expected)
        expected_leaves = [leaf.detach().numpy() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    finally:
        capture.effects.undo()
    if not getattr(function.__wrapped__, "is_staged", False):  # a script records other ops than eager applies
        _compare_ops(specialisation.plan, arrays, eager.applied)
    del eager
    result = specialisation.run(match)
    result_leaves, shape = tree.flatten(result)
    if shape != structure:
        raise TraceError(f"verify: eager returns {structure}, the compiled call {shape}")
    for number, (mine, due) in enumerate(zip(result_leaves, expected_leaves, strict=True)):
        array = mine.detach().numpy() if isinstance(mine, Tensor) else mine
        if not _agree(array, due):
            raise TraceError(f"verify: result {number} of the compiled call differs from eager: {_shown(array, due)}")
    for handle, value in zip(handles, after, strict=True):
        if not _agree(handle._value.array, value.array):
            raise TraceError(
                f"verify: a tensor written by the call differs from eager: {_shown(handle._value.array, value.array)}"
            )
    return result


def _compare_ops(plan: CallPlan, arrays: Sequence[Any], applied: Sequence[Applied]) -> None:
    with imports.importing():
        from jitgraph.passes.autodiff import expand_grads  # here: most traced functions are never verified
        from jitgraph.passes.split import strip_prints
    graph, numbers = plan.graph, _python_numbers(plan)
    nodes = [node for node in graph.nodes if _is_applied(node) and _is_plain(node)]
    nodes = [node for node in nodes if numbers.isdisjoint(node.outputs)]
    outputs = tuple(value for node in nodes for value in node.outputs)
    results = iter(interpret(strip_prints(expand_grads(replace(graph, outputs=outputs))), arrays))
    pending = iter(applied)
    for node in nodes:
        mine = [next(results) for _ in node.outputs]
        theirs = next((entry for entry in pending if entry.op is node.op and entry.location == node.location), None)
        if theirs is None:
            raise TraceError(
                f"verify: {node.op.name} was recorded, but eager did not apply it", location=node.location,
                hint="the function takes another way at each call; jg.explain lists what could not be guarded",
            )  # fmt: skip
        for array, value in zip(mine, theirs.outputs, strict=True):
            if isinstance(value, EagerValue) and not _agree(array, value.array):
                raise TraceError(
                    f"verify: {node.op.name} differs from eager: {_shown(array, value.array)}", location=node.location
                )


def _python_numbers(plan: CallPlan) -> set[Value]:
    """Values that are computed from Python floats alone: eagerly that is Python's own arithmetic."""
    graph = plan.graph
    from_python = {
        value for plan_input, value in zip(plan.inputs, graph.inputs, strict=True) if plan_input.kind == "float"
    }
    constants = {value for node in graph.nodes if not node.inputs for value in node.outputs}
    for node in graph.nodes:
        if (
            node.inputs
            and from_python.issuperset(set(node.inputs) - constants)
            and not from_python.isdisjoint(node.inputs)
        ):
            from_python.update(value for value in node.outputs if value.shape == ())
    return from_python


def _is_applied(node: Node) -> bool:
    """Whether eager applies the op as such: it takes branches and turns one by one, and writes less out."""
    return node.op.kind not in ("control", "gradient") and "implicit" not in node.op.traits


def _is_plain(node: Node) -> bool:
    return bool(node.outputs) and all(isinstance(value.type, TensorType) for value in node.outputs)


def _agree(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return bool(a == b) or (
            isinstance(a, float) and isinstance(b, float) and bool(np.isclose(a, b, equal_nan=True))
        )
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    tolerance = _TOLERANCE.get(a.dtype)
    if tolerance is None:
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    scale = float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0))
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * min(scale, 1e30), equal_nan=True))


def _shown(a: Any, b: Any) -> str:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape != b.shape or a.size == 0:
        return f"{_type_text(a)} and, eager, {_type_text(b)}"
    with np.errstate(all="ignore"):
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    index = np.unravel_index(int(np.argmax(np.nan_to_num(gap, nan=np.inf))), a.shape)
    return f"{a[index]} and, eager, {b[index]} at index {tuple(map(int, index))}"


def _type_text(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
