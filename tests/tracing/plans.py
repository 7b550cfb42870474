"""Plans made by hand, for tests of what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph import tree
from jitgraph.ir.graph import Graph
from jitgraph.tracing.call.code import call_code, first_failing
from jitgraph.tracing.call.plan import CallPlan, Effect, Leaf, Template
from jitgraph.tracing.guards.guard import Guard, Objects
from jitgraph.tracing.guards.plain import Plain

NOTHING = Template(tree.LEAF, (Leaf("plain", Plain("constant", None)),))


def plan_of(guards: Sequence[Guard], objects: Objects, effects: Sequence[Effect] = (), **rest: Any) -> CallPlan:
    """A plan of an empty graph."""
    inputs: dict[str, Any] = {"arguments": (), "handles": (), "inputs": (), "fresh": (), "result": NOTHING, **rest}
    return CallPlan(
        Graph((), (), ()), guards=tuple(guards), effects=tuple(effects), objects=tuple(objects.values), **inputs
    )


def check_of(guards: Sequence[Guard], objects: Objects, function: Any = None) -> Callable[..., bool]:
    """Whether the guards hold for these arguments, by the code that is written for them, which says which one fails."""
    plan = plan_of(guards, objects)
    match = call_code(plan, function).match

    def holds(*arguments: Any) -> bool:
        actual = match(arguments) is not None
        failing = first_failing(plan, function, arguments)
        assert (failing is None) == actual
        return actual

    return holds
