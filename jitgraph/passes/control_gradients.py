"""Gradients of cond, scan and while: the node is rewritten to yield residuals, and one of its kind reads them back.

A scan stacks the residuals of each turn as further ys, and its gradient scans them in the other direction. The number
of turns of a while is not known, so it pushes them on growable stacks and counts; its gradient pops as often. A loop
inside another hands its stacks through the outer one as carries: what is pushed last is read first, at every depth.
Cotangents of invariants are sums that the backward loop carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitgraph.dtypes import int64
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.control import CarriedLoop
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import StackType, TensorType, Type
from jitgraph.ops import add, cond, full, gt, scan, stack_pop, stack_push, sub, while_
from jitgraph.ops.effects import zeros
from jitgraph.passes.autodiff import loop_carries, reaching
from jitgraph.passes.partition import ResidualStack
from jitgraph.passes.split import Split, subgraph

if TYPE_CHECKING:
    from jitgraph.passes.reverse import Cotangents, Reverse


def _types(values: Sequence[Value]) -> list[Type]:
    return [value.type for value in values]


class _Arguments:
    """Deals out the inputs of a region, or the outputs of a node, in the order in which they were laid."""

    def __init__(self, values: Sequence[Value]) -> None:
        self._values = tuple(values)
        self._next = 0

    def take(self, count: int) -> tuple[Value, ...]:
        first, self._next = self._next, self._next + count
        return self._values[first : self._next]

    def rest(self) -> tuple[Value, ...]:
        return self.take(len(self._values) - self._next)


def cond_gradient(reverse: Reverse, node: Node, cotangents: Cotangents) -> Cotangents:
    """The cotangents of predicate (none) and operands. What a branch saves fills slots that both branches share."""
    predicate, *operands = node.inputs
    seeds = [i for i, ct in enumerate(cotangents) if ct is not None]
    reach = [reaching(region, tuple(ct is not None for ct in cotangents)) for region in node.regions]
    wrt = [i for i, v in enumerate(operands) if v in reverse.active and any(flags[i] for flags in reach)]
    if not wrt:
        return reverse.emit_unchanged(node)
    onto = _summed_by_branches(reverse, operands, wrt)
    sides = [
        reverse.halves(
            region,
            seeds,
            wrt,
            free_inputs=range(len(operands)),
            free_outputs=range(len(node.outputs)),
            onto=list(onto),
        )
        for region in node.regions
    ]
    slots, slot_indices = _shared_slots(sides)
    stacks = [type for side in sides for type in side.stacks]
    starts: list[Value] = []

    def forward(number: int) -> Graph:
        side, own = sides[number], _own_stacks(sides, number)

        def body(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
            args = _Arguments(inputs)
            arguments, passing = args.take(len(operands)), list(args.rest())
            outs = _Arguments(builder.inline(side.forward, (*arguments, *passing[own])))
            outputs = outs.take(len(node.outputs))
            passing[own] = outs.take(len(side.stacks))
            by_slot = dict(zip(slot_indices[number], outs.rest(), strict=True))
            return (*outputs, *passing, *(by_slot[i] if i in by_slot else zeros(type) for i, type in enumerate(slots)))

        return subgraph(
            [*_types(operands), *stacks], body, reverse.builder.constraints, node.regions[number].name, node.location
        )

    def record() -> None:
        starts.extend(zeros(type) for type in stacks)
        cond(predicate, *operands, *starts, regions=(forward(0), forward(1)))

    recorded = _Arguments(reverse.replace(node, record, range(len(node.outputs))))
    outputs, ends, filled = recorded.take(len(node.outputs)), recorded.take(len(stacks)), recorded.rest()
    kept_inputs = sorted({i for side in sides for i in side.saved_inputs})
    kept_outputs = sorted({i for side in sides for i in side.saved_outputs})
    entering = [
        *(operands[i] for i in kept_inputs),
        *(outputs[i] for i in kept_outputs),
        *ends,
        *filled,
        *(ct for ct in cotangents if ct is not None),
        *onto.values(),
    ]

    def backward(number: int) -> Graph:
        side, own = sides[number], _own_stacks(sides, number)

        def body(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
            args = _Arguments(inputs)
            at_hand = dict(zip(kept_inputs, args.take(len(kept_inputs)), strict=True))
            results = dict(zip(kept_outputs, args.take(len(kept_outputs)), strict=True))
            passing, residuals = list(args.take(len(ends))), args.take(len(filled))
            arguments = [
                *(at_hand[i] for i in side.saved_inputs),
                *(results[i] for i in side.saved_outputs),
                *passing[own],
                *(residuals[i] for i in slot_indices[number]),
                *args.rest(),
            ]
            outs = _Arguments(builder.inline(side.backward, arguments))
            gradients = outs.take(len(wrt))
            passing[own] = outs.rest()
            return (*gradients, *passing)

        return subgraph(_types(entering), body, reverse.builder.constraints, side.backward.name, node.location)

    regions = (backward(0), backward(1))
    back = _Arguments(reverse.builder.emit(cond, (predicate, *entering), {}, regions))
    by_input: list[Value | None] = [None] * len(node.inputs)
    for i, gradient in zip(wrt, back.take(len(wrt)), strict=True):
        by_input[1 + i] = gradient
    reverse.residual_stacks.extend(map(ResidualStack, starts, ends, back.rest()))
    return by_input


def _summed_by_branches(reverse: Reverse, operands: Sequence[Value], wrt: Sequence[int]) -> dict[int, Value]:
    """In the body of a loop, the known cotangents of operands to which the branches add, each in its own way."""
    partial_sums: dict[int, Value] = {}
    for i in wrt if reverse.in_loop else ():
        type = operands[i].type
        known = reverse.taken(operands[i]) if isinstance(type, TensorType) and type.shape else None
        if known is not None:
            partial_sums[i] = known
    return partial_sums


def _own_stacks(sides: Sequence[Split], number: int) -> slice:
    first = sum(len(side.stacks) for side in sides[:number])
    return slice(first, first + len(sides[number].stacks))


def _shared_slots(sides: Sequence[Split]) -> tuple[list[Type], list[list[int]]]:
    """Types of the slots, and for each side the slot of each saved value; values of one type share across sides."""
    slots: list[Type] = []
    slot_indices: list[list[int]] = []
    for side in sides:
        taken: list[int] = []
        for type in side.saved:
            index = next((i for i, slot in enumerate(slots) if slot == type and i not in taken), len(slots))
            if index == len(slots):
                slots.append(type)
            taken.append(index)
        slot_indices.append(taken)
    return slots, slot_indices


def loop_gradient(reverse: Reverse, node: Node, loop: CarriedLoop, cotangents: Cotangents) -> Cotangents:
    """The cotangents of carries, xs and invariants."""
    if loop.condition is None:
        return _scan_gradient(reverse, node, loop, cotangents)
    return _while_gradient(reverse, node, loop, loop.condition, cotangents)


def _scan_gradient(reverse: Reverse, node: Node, loop: CarriedLoop, cotangents: Cotangents) -> Cotangents:
    region, num_carries, first_invariant = loop.body, loop.carries, loop.first_invariant
    constraints = reverse.builder.constraints
    looped, wrt = _active_inputs(reverse, node, loop, cotangents)
    if not wrt:
        return reverse.emit_unchanged(node)
    seeds = [*looped, *(i for i in range(num_carries, len(node.outputs)) if cotangents[i] is not None)]
    half = reverse.halves(
        region,
        seeds,
        wrt,
        free_inputs=range(num_carries, len(node.inputs)),
        free_outputs=range(num_carries, len(node.outputs)),
        stable=range(first_invariant, len(node.inputs)),
        onto=[i for i in wrt if i >= first_invariant],
        in_loop=True,
    )
    carries, xs, invariants = loop.parts(node.inputs)
    num_ys = len(node.outputs) - num_carries
    starts: list[Value] = []

    def forward(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
        args = _Arguments(inputs)
        before, stacks = args.take(num_carries), args.take(len(half.stacks))
        outs = _Arguments(builder.inline(half.forward, (*before, *args.rest(), *stacks)))
        after, ys, stacks = outs.take(num_carries), outs.take(num_ys), outs.take(len(half.stacks))
        return (*after, *stacks, *ys, *outs.rest())

    def record() -> None:
        starts.extend(zeros(type) for type in half.stacks)
        inner = _types(region.inputs)
        types = [*inner[:num_carries], *half.stacks, *inner[num_carries:]]
        body = subgraph(types, forward, constraints, region.name, node.location)
        attrs = {**node.attrs, "num_carries": num_carries + len(starts)}
        scan(*carries, *starts, *xs, *invariants, regions=(body,), **attrs)

    shifted = range(num_carries + len(half.stacks), len(node.outputs) + len(half.stacks))
    recorded = _Arguments(reverse.replace(node, record, (*range(num_carries), *shifted)))
    recorded.take(num_carries)
    ends, ys, saved = recorded.take(len(half.stacks)), recorded.take(num_ys), recorded.rest()

    kept_xs = [i for i in half.saved_inputs if i < first_invariant]
    kept_invariants = [i for i in half.saved_inputs if i >= first_invariant]
    summed = [i for i in wrt if i >= first_invariant]
    num_x_gradients = len(wrt) - len(looped) - len(summed)
    back_carries = [
        *(_or_zeros(cotangents[i], node.outputs[i]) for i in looped),
        *(_or_zeros(reverse.taken(node.inputs[i]), node.inputs[i]) for i in summed),
        *ends,
    ]
    back_xs = [
        *(node.inputs[i] for i in kept_xs),
        *(ys[i - num_carries] for i in half.saved_outputs),
        *saved,
        *(ct for ct in cotangents[num_carries:] if ct is not None),
    ]
    types = [
        *_types(back_carries),
        *(region.inputs[i].type for i in kept_xs),
        *(region.outputs[i].type for i in half.saved_outputs),
        *half.saved,
        *(region.outputs[i].type for i in seeds[len(looped) :]),
        *(region.inputs[i].type for i in kept_invariants),
    ]

    def backward(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
        args = _Arguments(inputs)
        carried, sums, stacks = args.take(len(looped)), args.take(len(summed)), args.take(len(ends))
        slices, kept_ys = args.take(len(kept_xs)), args.take(len(half.saved_outputs))
        residuals, of_ys = args.take(len(saved)), args.take(len(seeds) - len(looped))
        arguments = (*slices, *args.rest(), *kept_ys, *stacks, *residuals, *carried, *of_ys, *sums)
        outs = _Arguments(builder.inline(half.backward, arguments))
        carried, of_xs, sums = outs.take(len(looped)), outs.take(num_x_gradients), outs.take(len(summed))
        return (*carried, *sums, *outs.rest(), *of_xs)

    body = subgraph(types, backward, constraints, half.backward.name, node.location)
    operands = (*back_carries, *back_xs, *(node.inputs[i] for i in kept_invariants))
    attrs = {
        "num_carries": len(back_carries),
        "num_xs": len(back_xs),
        "length": loop.length,
        "reverse": not loop.reverse,
    }
    back = _Arguments(reverse.builder.emit(scan, operands, attrs, (body,)))
    gradients = [*back.take(len(looped) + len(summed))]
    reverse.residual_stacks.extend(map(ResidualStack, starts, ends, back.take(len(ends))))
    by_input: list[Value | None] = [None] * len(node.inputs)
    order = (*looped, *summed, *(i for i in wrt if num_carries <= i < first_invariant))
    for i, gradient in zip(order, (*gradients, *back.rest()), strict=True):
        by_input[i] = gradient
    return by_input


def _while_gradient(
    reverse: Reverse, node: Node, loop: CarriedLoop, condition: Graph, cotangents: Cotangents
) -> Cotangents:
    region, num_carries = loop.body, loop.carries
    constraints = reverse.builder.constraints
    looped, wrt = _active_inputs(reverse, node, loop, cotangents)
    if not wrt:
        return reverse.emit_unchanged(node)
    outside = range(num_carries, len(node.inputs))
    summed = [i for i in wrt if i >= num_carries]
    half = reverse.halves(
        region, looped, wrt, free_inputs=outside, free_outputs=(), stable=outside, onto=summed, in_loop=True
    )
    carries, _, invariants = loop.parts(node.inputs)
    own = [StackType(type) for type in half.saved if isinstance(type, TensorType)]
    stacks = [*own, *half.stacks]
    starts: list[Value] = []

    def checked(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
        args = _Arguments(inputs)
        before = args.take(num_carries)
        args.take(1 + len(stacks))
        return builder.inline(condition, (*before, *args.rest()))

    def forward(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
        args = _Arguments(inputs)
        before, (count,), pushed = args.take(num_carries), args.take(1), args.take(len(own))
        passing = args.take(len(half.stacks))
        outs = _Arguments(builder.inline(half.forward, (*before, *args.rest(), *passing)))
        after, passing = outs.take(num_carries), outs.take(len(half.stacks))
        pushed = tuple(stack_push(stack, value) for stack, value in zip(pushed, outs.rest(), strict=True))
        return (*after, add(count, full(shape=(), value=1, dtype=int64)), *pushed, *passing)

    def record() -> None:
        starts.extend(zeros(type) for type in stacks)
        count = full(shape=(), value=0, dtype=int64)
        inner = _types(region.inputs)
        types = [*inner[:num_carries], count.type, *_types(starts), *inner[num_carries:]]
        regions = (
            subgraph(types, checked, constraints, condition.name, node.location),
            subgraph(types, forward, constraints, region.name, node.location),
        )
        while_(*carries, count, *starts, *invariants, regions=regions, num_carries=num_carries + 1 + len(starts))

    recorded = _Arguments(reverse.replace(node, record, range(num_carries)))
    recorded.take(num_carries)
    (count,), ends = recorded.take(1), recorded.rest()
    back_carries = [
        count,
        *(_or_zeros(cotangents[i], node.outputs[i]) for i in looped),
        *(_or_zeros(reverse.taken(node.inputs[i]), node.inputs[i]) for i in summed),
        *ends,
    ]
    saved_inputs = [node.inputs[i] for i in half.saved_inputs]

    def unfinished(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
        return (gt(inputs[0], full(shape=(), value=0, dtype=int64)),)

    def backward(builder: GraphBuilder, *inputs: Value) -> Sequence[Value]:
        args = _Arguments(inputs)
        (left,), carried, sums = args.take(1), args.take(len(looped)), args.take(len(summed))
        popped = [stack_pop(stack) for stack in args.take(len(own))]
        passing = args.take(len(half.stacks))
        residuals = [value for _, value in popped]
        outs = _Arguments(builder.inline(half.backward, (*args.rest(), *passing, *residuals, *carried, *sums)))
        carried, sums = outs.take(len(looped)), outs.take(len(summed))
        left = sub(left, full(shape=(), value=1, dtype=int64))
        return (left, *carried, *sums, *(stack for stack, _ in popped), *outs.rest())

    types = _types((*back_carries, *saved_inputs))
    regions = (
        subgraph(types, unfinished, constraints, f"{condition.name}_backward", node.location),
        subgraph(types, backward, constraints, half.backward.name, node.location),
    )
    attrs = {"num_carries": len(back_carries)}
    back = _Arguments(reverse.builder.emit(while_, (*back_carries, *saved_inputs), attrs, regions))
    back.take(1)
    gradients = back.take(len(wrt))
    reverse.residual_stacks.extend(map(ResidualStack, starts, ends, back.rest()))
    by_input: list[Value | None] = [None] * len(node.inputs)
    for i, gradient in zip(wrt, gradients, strict=True):
        by_input[i] = gradient
    return by_input


def _active_inputs(
    reverse: Reverse, node: Node, loop: CarriedLoop, cotangents: Cotangents
) -> tuple[list[int], list[int]]:
    """The carries that need a cotangent, and all operands that do, carries first; none where no cotangent arrives."""
    varied = tuple(value in reverse.active for value in node.inputs)
    has_cotangent = tuple(ct is not None for ct in cotangents)
    carries = loop_carries(loop, varied, has_cotangent)
    reach = reaching(loop.body, (*carries, *loop.results(has_cotangent)[1]))
    looped = [i for i, needed in enumerate(carries) if needed]
    others = [i for i in range(loop.carries, len(node.inputs)) if varied[i] and reach[i]]
    return looped, [*looped, *others]


def _or_zeros(cotangent: Value | None, value: Value) -> Value:
    return zeros(value.type) if cotangent is None else cotangent
