"""Control flow on many samples at once: loops run until all are done, branches are taken by samples that choose them.

Where samples differ in what they do, each op is computed for all of them, and ``standing_in`` gives those that it is
not meant for the operands of one that it is. So no check fails, no loop goes on and no gradient is NaN for the sake of
a sample that never came there. Prints happen in the order of samples: what prints is run for one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitgraph import ops
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.control import CarriedLoop, Conditional
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.types import TokenType, Type
from jitgraph.ops.effects import zeros
from jitgraph.passes.activity import carries_gradient
from jitgraph.passes.batched import Lane, any_of, batched_type, chosen, each, standing_in
from jitgraph.passes.batching import moved

if TYPE_CHECKING:
    from jitgraph.passes.vmap import Batcher


def conditional(batcher: Batcher, node: Node, branches: Conditional, inputs: Sequence[Lane]) -> list[Lane]:
    """A branch; where samples choose, a branch that one of them takes is computed for all of them."""
    test, operands = inputs[0], list(inputs[1:])
    flags = [sample.varies for sample in operands]
    regions = (branches.then, branches.otherwise)
    if not test.varies:
        found = [batcher.region(region, flags)[1] for region in regions]
        wanted = [a or b for a, b in zip(*found, strict=True)]
        graphs = [batcher.region(region, flags, wanted)[0] for region in regions]
        outputs = _emit(node, [sample.value for sample in inputs], {}, graphs)
        return [Lane(value, flag) for value, flag in zip(outputs, _but_tokens(wanted, outputs), strict=True)]
    if _has_tokens(node):
        return one_by_one(batcher, node, inputs)
    masks = [test.value, ops.logical_not(test.value)]
    results = []
    for region, mask in zip(regions, masks, strict=True):
        taken = _branch_for(batcher, region, mask, operands)
        left = _graph(taken.inputs, lambda *_, of=taken: [zeros(value.type) for value in of.outputs], "none")
        values = [any_of(mask), mask, *(sample.value for sample in operands)]
        results.append(_emit(node, values, {}, [taken, left]))
    return [Lane(chosen(test.value, yes, no), True) for yes, no in zip(*results, strict=True)]


def _branch_for(batcher: Batcher, region: Graph, mask: Any, operands: Sequence[Lane]) -> Graph:
    """A branch for the samples in the mask, which is its first input, and any values for the others."""
    types = [mask.type, *(sample.value.type for sample in operands)]
    varies = [sample.varies for sample in operands]

    def run(mask: Any, *values: Any) -> list[Any]:
        given = [standing_in(mask, Lane(*pair), batcher.size) for pair in zip(values, varies, strict=True)]
        return [each(sample, batcher.size).value for sample in batcher.run(region, given)]

    return _graph(types, run, region.name)


def loop(batcher: Batcher, node: Node, structure: CarriedLoop, inputs: Sequence[Lane]) -> list[Lane]:
    """A loop whose carries vary where a turn makes them vary."""
    if structure.condition is None:
        return _scan(batcher, node, structure, inputs)
    carries, _, invariants = structure.parts(inputs)
    while True:
        flags = [sample.varies for sample in (*carries, *invariants)]
        _, (tested,) = batcher.region(structure.condition, flags)
        if tested:
            return _masked(batcher, node, structure, carries, invariants)
        body, after = batcher.region(structure.body, flags, flags[: len(carries)])
        after = _but_tokens(after, carries)
        if after == flags[: len(carries)]:
            break
        carries = [each(sample, batcher.size) if flag else sample for sample, flag in zip(carries, after, strict=True)]
    condition, _ = batcher.region(structure.condition, flags)
    values = [sample.value for sample in (*carries, *invariants)]
    outputs = _emit(node, values, node.attrs, [condition, body])
    return [Lane(value, flag) for value, flag in zip(outputs, after, strict=True)]


def _masked(
    batcher: Batcher, node: Node, structure: CarriedLoop, carries: Sequence[Lane], invariants: Sequence[Lane]
) -> list[Lane]:
    """A loop that goes on until all samples are done; those that are keep what they have."""
    if _has_tokens(node):
        return one_by_one(batcher, node, [*carries, *invariants])
    assert structure.condition is not None
    condition, body, size = structure.condition, structure.body, batcher.size
    carried = [each(sample, size) for sample in carries]
    varies = [True] * len(carried) + [sample.varies for sample in invariants]

    def test(samples: Sequence[Lane]) -> Any:
        return each(batcher.run(condition, samples)[0], size).value

    going = test([*carried, *invariants])
    operands = [going, *(sample.value for sample in (*carried, *invariants))]
    types = [value.type for value in operands]

    def turn(going: Any, *values: Any) -> list[Any]:
        now = [Lane(*pair) for pair in zip(values, varies, strict=True)]
        found = batcher.run(body, [standing_in(going, sample, size) for sample in now])
        after = [
            Lane(chosen(going, each(new, size).value, old.value), True)
            for new, old in zip(found, now[: len(carried)], strict=True)
        ]
        again = ops.logical_and(going, test([*after, *now[len(carried) :]]))
        return [again, *(sample.value for sample in after)]

    regions = [
        _graph(types, lambda going, *_: [any_of(going)], condition.name),
        _graph(types, turn, body.name),
    ]
    outputs = _emit(node, operands, {"num_carries": len(carried) + 1}, regions)
    return [Lane(value, True) for value in outputs[1:]]


def _scan(batcher: Batcher, node: Node, structure: CarriedLoop, inputs: Sequence[Lane]) -> list[Lane]:
    """Slices come along the second axis of what varies, and results go there."""
    carries, xs, invariants = structure.parts(inputs)
    rest = [sample.varies for sample in (*xs, *invariants)]
    while True:
        flags = [sample.varies for sample in carries]
        body, after = batcher.region(structure.body, [*flags, *rest], [*flags, *_none(structure)])
        after = _but_tokens(after, body.outputs)
        if after[: len(flags)] == flags:
            break
        carries = [
            each(sample, batcher.size) if flag else sample
            for sample, flag in zip(carries, after[: len(flags)], strict=True)
        ]
    slices = [moved(sample.value, 0, 1) if sample.varies else sample.value for sample in xs]
    values = [*(sample.value for sample in carries), *slices, *(sample.value for sample in invariants)]
    outputs = _emit(node, values, node.attrs, [body])
    found = [Lane(value, flag) for value, flag in zip(outputs, after, strict=True)]
    ends, ys = structure.results(found)
    return [*ends, *(Lane(moved(y.value, 1, 0), True) if y.varies else y for y in ys)]


def _none(structure: CarriedLoop) -> list[bool]:
    return [False] * (len(structure.body.outputs) - structure.carries)


def with_regions(batcher: Batcher, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
    """A composite with regions of the user's: the same composite of batched ones.

    Where a rule gives the cotangent of each sample for an operand that they share, these are added.
    """
    flags = [sample.varies for sample in inputs]
    forward, varies = batcher.region(node.regions[0], flags, [True] * len(node.outputs))
    regions = [forward]
    if len(node.regions) > 1:
        rule, captured = node.regions[1], node.attrs["num_captured"]
        assert isinstance(captured, int)
        given = [True] * (len(rule.inputs) - captured) + flags[len(flags) - captured :]
        floats = [flag for value, flag in zip(node.inputs, flags, strict=True) if carries_gradient(value.type)]
        types = [
            batched_type(value.type, batcher.size) if flag else value.type
            for value, flag in zip(rule.inputs, given, strict=True)
        ]

        def run(*values: Any) -> list[Any]:
            found = batcher.run(rule, [Lane(*pair) for pair in zip(values, given, strict=True)])
            apart = [each(sample, batcher.size).value for sample in found]
            return [
                value if flag else ops.reduce_sum(value, axes=(0,)) for value, flag in zip(apart, floats, strict=True)
            ]

        regions.append(_graph(types, run, rule.name))
    outputs = _emit(node, [sample.value for sample in inputs], node.attrs, regions)
    return [Lane(value, flag) for value, flag in zip(outputs, _but_tokens(varies, outputs), strict=True)]


def one_by_one(batcher: Batcher, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
    """A node for one sample after another, which takes tokens from one to the next."""
    tokens = [i for i, sample in enumerate(inputs) if isinstance(sample.value.type, TokenType)]
    varying = [i for i, sample in enumerate(inputs) if sample.varies]
    fixed = [i for i in range(len(inputs)) if i not in tokens and i not in varying]
    order = [*tokens, *varying, *fixed]
    after = [i for i, value in enumerate(node.outputs) if isinstance(value.type, TokenType)]
    given = [i for i in range(len(node.outputs)) if i not in after]

    def body(*values: Any) -> list[Any]:
        operands: list[Any] = [None] * len(order)
        for place, value in zip(order, values, strict=True):
            operands[place] = value
        regions = () if node.op.decompose is not None else node.regions
        outputs = context.emitter().emit(node.op, operands, node.attrs, regions)
        return [outputs[i] for i in (*after, *given)]

    types = [node.inputs[i].type for i in order]
    attrs = {"num_carries": len(tokens), "num_xs": len(varying), "length": batcher.size, "reverse": False}
    values = [inputs[i].value for i in order]
    found = context.emitter().emit(ops.scan, values, attrs, (_graph(types, body, node.op.name),))
    results: list[Any] = [None] * len(node.outputs)
    for place, value in zip((*after, *given), found, strict=True):
        results[place] = Lane(value, place in given)
    return results


def _graph(types: Sequence[Any], function: Any, name: str) -> Graph:
    """A closed region of ``function`` for operands of these types (or those of these values)."""
    builder = GraphBuilder()
    builder.constraints = context.constraints()
    inputs = [builder.input(getattr(type, "type", type)) for type in types]
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs = function(*inputs)
    made = builder.graph(outputs, name)
    return Graph(made.inputs, made.nodes, made.outputs, (), name)


def _emit(node: Node, values: Sequence[Any], attrs: Any, regions: Sequence[Graph]) -> tuple[Any, ...]:
    return tuple(context.emitter().emit(node.op, values, attrs, tuple(regions)))


def _has_tokens(node: Node) -> bool:
    return any(isinstance(value.type, TokenType) for value in (*node.inputs, *node.outputs))


def _but_tokens(flags: Sequence[bool], values: Sequence[Any]) -> list[bool]:
    """The flags, false for tokens."""
    kinds: list[Type] = [getattr(value, "value", value).type for value in values]
    return [flag and not isinstance(kind, TokenType) for flag, kind in zip(flags, kinds, strict=True)]
