"""Control flow in ONNX: cond as If, while as Loop, scan as Scan or Loop, stacks of residuals as sequences.

Regions are closed; subgraphs read outer values, so that invariants of loops and operands of branches are those values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes
from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.types import StackType, TensorType, Type
from jitgraph.onnx.exporting.emitting import Form, NodeEmitter
from jitgraph.onnx.exporting.movement import flipped
from jitgraph.onnx.exporting.values import ELEMENT_TYPES, OnnxValue

Run: TypeAlias = Callable[[NodeEmitter, Graph, Sequence[OnnxValue]], list[OnnxValue]]

_COUNTER: Final = TensorType(dtypes.int64, ())
_FLAG: Final = TensorType(dtypes.bool_, ())


def control_flow(e: NodeEmitter, node: Node, refs: list[OnnxValue], run: Run) -> list[OnnxValue]:
    """The outputs of a node of control flow; ``run`` emits a region for these operands."""
    structure = structure_of(node)
    if isinstance(structure, Conditional):
        return _conditional(e, structure, node, refs, run)
    if not isinstance(structure, CarriedLoop):
        return run(e, node.regions[0], refs)
    if structure.condition is not None:
        return _while(e, structure, refs, run)
    return _scan(e, structure, node, refs, run)


def _types(node: Node) -> list[Type]:
    return [value.type for value in node.outputs]


def _refs(names: Sequence[str], types: Sequence[Type]) -> list[OnnxValue]:
    return [
        OnnxValue(name, type, type.shape if isinstance(type, TensorType) else ())
        for name, type in zip(names, types, strict=True)
    ]


def _conditional(
    e: NodeEmitter, structure: Conditional, node: Node, refs: list[OnnxValue], run: Run
) -> list[OnnxValue]:
    predicate, *operands = refs
    types = _types(node)
    if not types:
        return []

    def branch(name: str, region: Graph) -> Any:
        return e.subgraph(name, [], lambda inner, _: run(inner, region, operands), types)

    branches = {
        "then_branch": branch("then", structure.then),
        "else_branch": branch("else", structure.otherwise),
    }
    return _refs(e.raw("If", [e.whole(predicate)], len(types), **branches), types)


def _while(e: NodeEmitter, loop: CarriedLoop, refs: list[OnnxValue], run: Run) -> list[OnnxValue]:
    carries, _, invariants = loop.parts(refs)
    condition = loop.condition
    assert condition is not None
    (first,) = run(e, condition, [*carries, *invariants])
    types = [value.type for value in loop.body.inputs[: loop.carries]]

    def body(inner: NodeEmitter, operands: list[OnnxValue]) -> list[OnnxValue]:
        following = run(inner, loop.body, [*operands[2:], *invariants])
        return [*run(inner, condition, [*following, *invariants]), *following]

    inputs = [("step", _COUNTER), ("again", _FLAG), *(("carry", type) for type in types)]
    graph = e.subgraph("loop", inputs, body, [_FLAG, *types])
    start = ["", e.whole(first), *map(e.whole, carries)]
    return _refs(e.raw("Loop", start, len(types), body=graph), types)


def _scan(e: NodeEmitter, loop: CarriedLoop, node: Node, refs: list[OnnxValue], run: Run) -> list[OnnxValue]:
    carries, xs, _ = loop.parts(refs)
    if not node.outputs:
        return []
    if loop.length == 0:  # evaluators differ over what a Scan of nothing stacks
        nothing = [
            e.number(False if dtypes.is_bool(y.dtype) else 0, y.dtype, y.shape) for y in node.outputs[loop.carries :]
        ]
        return [*carries, *nothing]
    if any(isinstance(x.type, StackType) for x in carries):
        return _counted(e, loop, node, refs, run)
    _, _, invariants = loop.parts(refs)
    inputs = [value.type for value in loop.body.inputs[: loop.first_invariant]]
    outputs = [value.type for value in loop.body.outputs]
    if not xs:  # a Scan has a slice of something
        xs = [e.iota(loop.length)]
        inputs.append(_COUNTER)
    names = ["carry" if i < loop.carries else "slice" for i in range(len(inputs))]

    def body(inner: NodeEmitter, operands: list[OnnxValue]) -> list[OnnxValue]:
        return run(inner, loop.body, [*operands[: loop.first_invariant], *invariants])

    carried = inputs[: loop.carries]
    graph = e.subgraph("scan", list(zip(names, inputs, strict=True)), body, [*carried, *outputs[loop.carries :]])
    start = [e.whole(x) for x in carries] + [e.whole(flipped(e, x, (0,)) if loop.reverse else x) for x in xs]
    results = _refs(e.raw("Scan", start, len(outputs), body=graph, num_scan_inputs=len(xs)), _types(node))
    return _turned(e, loop, results)


def _turned(e: NodeEmitter, loop: CarriedLoop, results: list[OnnxValue]) -> list[OnnxValue]:
    """The results of a loop over slices, where it goes backward with what it stacked in the order of the slices."""
    if not loop.reverse:
        return results
    return [*results[: loop.carries], *(flipped(e, y, (0,)) for y in results[loop.carries :])]


def _counted(e: NodeEmitter, loop: CarriedLoop, node: Node, refs: list[OnnxValue], run: Run) -> list[OnnxValue]:
    """A loop of so many steps, which takes its slices by number: where stacks are carried, which a Scan cannot."""
    carries, xs, invariants = loop.parts(refs)
    types = [value.type for value in loop.body.inputs[: loop.carries]]
    slices = [value.type for value in loop.body.inputs[loop.carries : loop.first_invariant]]
    rows = [value.type for value in loop.body.outputs[loop.carries :]]
    last = e.raw("Sub", [e.model.size(loop.length), e.ints((1,))])[0] if loop.reverse and xs else ""

    def body(inner: NodeEmitter, operands: list[OnnxValue]) -> list[OnnxValue]:
        step, again, *carried = operands
        at = step.name
        if last:
            (at,) = inner.raw("Squeeze", [inner.raw("Sub", [last, at])[0], inner.ints((0,))])
        taken = [inner.node("Gather", [x, at], type, axis=0) for x, type in zip(xs, slices, strict=True)]
        return [again, *run(inner, loop.body, [*carried, *taken, *invariants])]

    inputs = [("step", _COUNTER), ("again", _FLAG), *(("carry", type) for type in types)]
    graph = e.subgraph("loop", inputs, body, [_FLAG, *types, *rows])
    count = e.raw("Squeeze", [e.model.size(loop.length), e.ints((0,))])[0]
    again = e.model.constant(np.array(True))
    names = e.raw("Loop", [count, again, *map(e.whole, carries)], len(types) + len(rows), body=graph)
    return _turned(e, loop, _refs(names, _types(node)))


# ----------------------------------------------------------------------
# Stacks.


def _stack_new(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    type = node.output.type
    assert isinstance(type, StackType)
    (name,) = e.raw("SequenceEmpty", [], dtype=ELEMENT_TYPES[type.element.dtype])
    return OnnxValue(name, type, ())


def _stack_push(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    stack, value = refs
    (name,) = e.raw("SequenceInsert", [stack.name, e.whole(value)])
    return OnnxValue(name, stack.type, ())


def _stack_pop(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> list[OnnxValue]:
    (stack,) = refs
    last = e.model.constant(np.array(-1, np.int64))
    (rest,) = e.raw("SequenceErase", [stack.name, last])
    return [OnnxValue(rest, stack.type, ()), e.node("SequenceAt", [stack.name, last], node.outputs[1].type)]


def _token(e: NodeEmitter, node: Node, refs: list[OnnxValue]) -> OnnxValue:
    return OnnxValue("", node.output.type, ())  # what reads it is refused


FORMS: Final[dict[str, Form]] = {
    "token": _token,
    "stack_new": _stack_new,
    "stack_push": _stack_push,
    "stack_pop": _stack_pop,
}
