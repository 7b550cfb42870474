"""Which values a gradient passes through: forwards from the inputs asked for, backwards from the outputs given.

Both analyses look at structure alone, so they may say "yes" where the gradient is then found to be zero, never "no"
where it is not. They keep loops from carrying cotangents that nobody needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitgraph.dtypes import is_inexact
from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import StackType, Type, is_inexact_tensor

Flags = tuple[bool, ...]


def carries_gradient(type: Type) -> bool:
    """True for tensors of floats and complex numbers and stacks of them; ints, bools and tokens have no cotangent."""
    if isinstance(type, StackType):
        return is_inexact(type.element.dtype)
    return is_inexact_tensor(type)


def passes_gradient(node: Node) -> bool:
    """Whether a gradient is meant to pass the node; where one arrives and the op has no rule, that is an error."""
    return "nondifferentiable" not in node.op.traits


def spread(nodes: Iterable[Node], active: set[Value]) -> None:
    """Add to ``active`` every value of ``nodes`` (in order) that depends on it in a differentiable way."""
    for node in nodes:
        flags = tuple(value in active for value in node.inputs)
        if any(flags):
            active.update(value for value, flag in zip(node.outputs, active_outputs(node, flags), strict=True) if flag)


def active_outputs(node: Node, flags: Flags) -> Flags:
    """For each output of ``node``, whether it depends on the inputs flagged."""
    match structure_of(node):
        case Conditional():
            branches = [_through(region, flags[1:]) for region in node.regions]
            return tuple(any(pair) for pair in zip(*branches, strict=True))
        case CarriedLoop() as loop:
            settled = _active_carries(loop, flags)
            _, xs, invariants = loop.parts(flags)
            _, ys = loop.results(_through(loop.body, (*settled, *xs, *invariants)))
            return (*settled, *ys)
    is_active = any(flags) and passes_gradient(node)
    return tuple(is_active and carries_gradient(value.type) for value in node.outputs)


def useful_inputs(node: Node, flags: Flags) -> Flags:
    """For each input of ``node``, whether a cotangent of the outputs flagged can reach it."""
    match structure_of(node):
        case Conditional():
            branches = [reaching(region, flags) for region in node.regions]
            return (False, *(any(pair) for pair in zip(*branches, strict=True)))
        case CarriedLoop() as loop:
            return _useful_of_loop(loop, flags)
    is_useful = any(flags) and passes_gradient(node)
    return tuple(is_useful and carries_gradient(value.type) for value in node.inputs)


def reaching(graph: Graph, flags: Flags) -> Flags:
    """For each input of ``graph``, whether a cotangent of the outputs flagged can reach it."""
    useful = {value for value, flag in zip(graph.outputs, flags, strict=True) if flag and carries_gradient(value.type)}
    for node in reversed(graph.nodes):
        needed = tuple(value in useful for value in node.outputs)
        if any(needed):
            useful.update(v for v, flag in zip(node.inputs, useful_inputs(node, needed), strict=True) if flag)
    return tuple(value in useful for value in graph.inputs)


def loop_carries(loop: CarriedLoop, varied: Sequence[bool], needed: Flags) -> Flags:
    """For each carry of a loop, whether it needs a cotangent: it depends on the inputs and reaches the outputs.

    ``varied`` has a flag for each operand of the loop, ``needed`` for each output of the body.
    """
    depends = _active_carries(loop, varied)
    reaches, _, _ = loop.parts(_useful_of_loop(loop, needed))
    return tuple(a and b for a, b in zip(depends, reaches, strict=True))


def _through(region: Graph, flags: Flags) -> Flags:
    active = {value for value, flag in zip(region.inputs, flags, strict=True) if flag}
    spread(region.nodes, active)
    return tuple(value in active for value in region.outputs)


def _active_carries(loop: CarriedLoop, flags: Sequence[bool]) -> list[bool]:
    settled, xs, invariants = loop.parts(flags)
    while True:
        after, _ = loop.results(_through(loop.body, (*settled, *xs, *invariants)))
        grown = [a or b for a, b in zip(settled, after, strict=True)]
        if grown == settled:
            return settled
        settled = grown


def _useful_of_loop(loop: CarriedLoop, flags: Flags) -> Flags:
    carried, ys = loop.results(flags)
    outputs, _ = loop.results(loop.body.outputs)
    settled = [flag and carries_gradient(value.type) for flag, value in zip(carried, outputs, strict=True)]
    while True:
        reached, xs, invariants = loop.parts(reaching(loop.body, (*settled, *ys)))
        grown = [a or b for a, b in zip(settled, reached, strict=True)]
        if grown == settled:
            return (*settled, *xs, *invariants)
        settled = grown
