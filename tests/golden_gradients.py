"""The steps of golden files that are about gradients: transforms, activity, residuals, and the halves of a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.passes.autodiff import (
    active_outputs,
    backward,
    carries_gradient,
    grad_graph,
    jvp_graph,
    reaching,
    useful_inputs,
    vjp_halves,
)
from jitgraph.passes.partition import Joint, choose, cost, dependents
from jitgraph.passes.split import split
from tests.golden_files import Options, Result, numbers_in
from tests.golden_meaning import require_gradients, require_same_values, require_tangents, samples


def _vjp(graph: Graph, target: Target, options: Options) -> Result:
    both = vjp_halves(graph, numbers_in(options, "wrt"))
    count = len(graph.outputs)

    def pull(arguments: list[Any], cotangents: list[Any]) -> Sequence[Any]:
        forward = interpret(both.forward, arguments)
        kept = [*(arguments[i] for i in both.saved_inputs), *(forward[i] for i in both.saved_outputs)]
        return interpret(both.backward, [*kept, *forward[count:], *cotangents])

    def check() -> None:
        require_same_values(graph, replace(both.forward, outputs=both.forward.outputs[:count]))
        require_gradients(graph, both.seeds, both.wrt, pull)

    read = f"# backward reads inputs {list(both.saved_inputs)}, outputs {list(both.saved_outputs)} and residuals"
    return Result((both.forward, both.backward), check, (read,))


def _grad(graph: Graph, target: Target, options: Options) -> Result:
    wrt = numbers_in(options, "wrt")
    after = grad_graph(graph, wrt)
    count = len(graph.outputs)
    floats = [i for i, value in enumerate(graph.inputs) if carries_gradient(value.type)] if wrt is None else wrt

    def check() -> None:
        require_same_values(graph, replace(after, outputs=after.outputs[:count]))
        require_gradients(graph, [0], floats, lambda xs, cts: [cts[0] * g for g in interpret(after, xs)[count:]])

    return Result((after,), check)


def _jvp(graph: Graph, target: Target, options: Options) -> Result:
    after = jvp_graph(graph)
    count = len(graph.outputs)
    return Result((after,), lambda: require_tangents(graph, lambda xs, ts: interpret(after, [*xs, *ts])[count:]))


def _reverse(graph: Graph, target: Target, options: Options) -> Result:
    """Inputs and cotangents of the float outputs to gradients of the float inputs, in one graph."""
    builder = GraphBuilder(graph.constraints)
    inputs = [builder.input(value.type, value.hint) for value in graph.inputs]
    outputs = [value for value in builder.inline(graph, inputs) if carries_gradient(value.type)]
    cotangents = [builder.input(value.type, f"ct{i}") for i, value in enumerate(outputs)]
    wrt = [value for value in inputs if carries_gradient(value.type)]
    after = builder.graph(backward(builder, outputs, cotangents, wrt), f"{graph.name}_reverse")
    floats = [i for i, value in enumerate(graph.inputs) if carries_gradient(value.type)]
    seeds = [i for i, value in enumerate(graph.outputs) if carries_gradient(value.type)]

    def check() -> None:
        require_gradients(graph, seeds, floats, lambda xs, cts: interpret(after, [*xs, *cts]))

    return Result((after,), check)


def _activity(graph: Graph, target: Target, options: Options) -> Result:
    """For each node, which outputs depend on its inputs, and which inputs its outputs' cotangents reach."""
    names = _names(graph)
    lines = []
    for node in graph.nodes:
        depends = active_outputs(node, tuple(carries_gradient(v.type) for v in node.inputs))
        useful = useful_inputs(node, tuple(carries_gradient(v.type) for v in node.outputs))
        result = _listed(names, node.outputs, depends)
        lines.append(f"{node.op.name}: depends {result}; reaches {_listed(names, node.inputs, useful)}")
    reached = reaching(graph, tuple(carries_gradient(value.type) for value in graph.outputs))
    lines.append(f"graph: reaches {_listed(names, graph.inputs, reached)}")

    def check() -> None:
        """No cotangent reaches an input that is not flagged."""
        apart = [i for i, flag in enumerate(reached) if not flag and carries_gradient(graph.inputs[i].type)]
        seeds = [i for i, value in enumerate(graph.outputs) if carries_gradient(value.type)]
        require_gradients(graph, seeds, apart, lambda xs, cts: [np.zeros_like(xs[i]) for i in apart])

    return Result((), check, tuple(lines))


def _listed(names: Mapping[Value, str], values: Sequence[Value], flags: Sequence[bool]) -> str:
    return " ".join(names[value] for value, flag in zip(values, flags, strict=True) if flag) or "nothing"


def _names(graph: Graph) -> dict[Value, str]:
    """The names of the values in the graph's text, regions apart."""
    results = [value for node in graph.nodes for value in node.outputs]
    return {v: f"%{v.hint}" for v in graph.inputs} | {value: f"%{i}" for i, value in enumerate(results)}


def _joint(graph: Graph) -> Joint:
    """The graph as forward and backward computation: inputs called ``ct...`` are cotangents, what depends on them
    are gradients."""
    cotangents = tuple(value for value in graph.inputs if (value.hint or "").startswith("ct"))
    late = dependents(graph.nodes, cotangents)
    inputs = tuple(value for value in graph.inputs if value not in cotangents)
    outputs = tuple(value for value in graph.outputs if value not in late)
    gradients = tuple(value for value in graph.outputs if value in late)
    assert cotangents and gradients, "nothing is late"
    return Joint(inputs, cotangents, graph.nodes, outputs, gradients)


def _split(graph: Graph, target: Target, options: Options) -> Result:
    joint = _joint(graph)
    free = numbers_in(options, "free") or ()
    both = split(joint, graph.name, Constraints(graph.constraints), free_inputs=free)
    count = len(joint.outputs)

    def check() -> None:
        arguments = samples(graph)
        held = dict(zip(graph.inputs, arguments, strict=True))
        forward = interpret(both.forward, [held[value] for value in joint.inputs])
        kept = [held[joint.inputs[i]] for i in both.saved_inputs] + [forward[i] for i in both.saved_outputs]
        backward = interpret(both.backward, [*kept, *forward[count:], *(held[value] for value in joint.cotangents)])
        wanted = interpret(replace(graph, outputs=(*joint.outputs, *joint.gradients)), arguments)
        for have, want in zip((*forward[:count], *backward), wanted, strict=True):
            np.testing.assert_array_equal(have, want)

    return Result((both.forward, both.backward), check)


def _partition(graph: Graph, target: Target, options: Options) -> Result:
    joint = _joint(graph)
    free = [joint.inputs[i] for i in numbers_in(options, "free") or ()]
    saved = choose(joint, free=free)
    names = _names(graph)
    lines = [f"save {names[value]}: {value.type}, {cost(value)} bytes" for value in saved] or ["save nothing"]
    return Result((), _split(graph, target, options).check, tuple(lines))


GRADIENT_STEPS: Final[dict[str, Callable[[Graph, Target, Options], Result]]] = {
    "vjp": _vjp,
    "grad": _grad,
    "jvp": _jvp,
    "reverse": _reverse,
    "activity": _activity,
    "partition": _partition,
    "split": _split,
}
