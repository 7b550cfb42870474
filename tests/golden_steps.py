"""The steps that golden files name: every pass, and what else makes text of a graph or kernel; each with its meaning.

A step gives graphs or lines, and ``check`` fails where they do not mean what the graph before them means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.kernel_parser import parse_kernel
from jitgraph.codegen.kernels.kernel_text import print_schedule
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.memory_verifier import verify_plan
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.kernels.schedule_verifier import verify_schedule
from jitgraph.codegen.lower.select import select
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.printer import print_graph
from jitgraph.ir.target import Target
from jitgraph.ir.verifier import verify
from jitgraph.passes import pipeline
from jitgraph.passes.activity import active_outputs, carries_gradient, reaching, useful_inputs
from jitgraph.passes.autodiff import backward, grad_graph, has_gradients, jvp_graph, vjp_halves
from jitgraph.passes.fuse import fuse_with_reasons
from jitgraph.passes.partition import Joint, choose, cost, dependents
from jitgraph.passes.rematerialise import live_bytes, rematerialise
from jitgraph.passes.silence import silence
from jitgraph.passes.split import splice, split
from tests.golden_files import TARGET, Case
from tests.golden_meaning import (
    require_gradients,
    require_same_schedule,
    require_same_values,
    require_tangents,
    samples,
)

Options = Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """What a step gives: graphs or lines, and the check of what they mean."""

    graphs: tuple[Graph, ...]
    check: Callable[[], None]
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        blocks = ["\n".join(self.lines)] if self.lines else []
        return "\n\n".join([*blocks, *(print_graph(graph, locations=False) for graph in self.graphs)])


def result_of(case: Case) -> Result:
    """The last step's result; every step before it must give one graph, and every one must keep the meaning."""
    graph = case.graph()
    verify(graph)
    target = replace(TARGET, fastmath="fastmath" in case.options)
    found = Result((graph,), lambda: None)
    for name in case.steps:
        (graph,) = found.graphs
        found = _STEPS[name](graph, target, case.options) if name in _STEPS else _pass(name, graph, target)
        for made in found.graphs:
            verify(made)
            again = parse(print_graph(made, locations=False))
            assert again == replace(made, name=again.name), "the text does not give the graph back"
        found.check()
    return found


def kernel_result(case: Case) -> str:
    """The text that a step gives for a kernel."""
    (name,) = case.steps
    kernel = parse_kernel(case.kernel)
    verify_kernel(kernel)
    assert name == "aliasing", f"no step {name!r} for kernels"
    pairs = sorted(aliasing_pairs(kernel))
    verify_kernel(replace(kernel, aliases=tuple(pairs[:1])))
    return "\n".join(f"{written} may be {read}" for written, read in pairs) or "none"


def _numbers(options: Options, key: str) -> list[int] | None:
    return [int(word) for word in options[key].split(",")] if key in options else None


def _pass(name: str, graph: Graph, target: Target) -> Result:
    (*steps,) = pipeline.PIPELINE if name == "all" else (pipeline.PASSES[name],)
    after = pipeline.run(graph, target, steps, verify=True)

    def check() -> None:
        if not has_gradients(graph):  # those have ``run`` lines: nothing runs them as they are
            require_same_values(graph, after, fastmath=target.fastmath)

    return Result((after,), check)


def _vjp(graph: Graph, target: Target, options: Options) -> Result:
    both = vjp_halves(graph, _numbers(options, "wrt"))
    count = len(graph.outputs)

    def pull(arguments: list[Any], cotangents: list[Any]) -> Sequence[Any]:
        forward = interpret(both.forward, arguments)
        kept = [*(arguments[i] for i in both.kept_inputs), *(forward[i] for i in both.kept_outputs)]
        return interpret(both.backward, [*kept, *forward[count:], *cotangents])

    def check() -> None:
        require_same_values(graph, replace(both.forward, outputs=both.forward.outputs[:count]))
        require_gradients(graph, both.seeds, both.wrt, pull)

    read = f"# backward reads inputs {list(both.kept_inputs)}, outputs {list(both.kept_outputs)} and residuals"
    return Result((both.forward, both.backward), check, (read,))


def _grad(graph: Graph, target: Target, options: Options) -> Result:
    wrt = _numbers(options, "wrt")
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
    outputs = [value for value in splice(builder, graph, inputs) if carries_gradient(value.type)]
    cotangents = [builder.input(value.type, f"ct{i}") for i, value in enumerate(outputs)]
    wrt = [value for value in inputs if carries_gradient(value.type)]
    after = builder.graph(backward(builder, outputs, cotangents, wrt), f"{graph.name}_reverse")
    floats = [i for i, value in enumerate(graph.inputs) if carries_gradient(value.type)]
    seeds = [i for i, value in enumerate(graph.outputs) if carries_gradient(value.type)]

    def check() -> None:
        require_gradients(graph, seeds, floats, lambda xs, cts: interpret(after, [*xs, *cts]))

    return Result((after,), check)


def _silence(graph: Graph, target: Target, options: Options) -> Result:
    after = silence(graph)
    return Result((after,), lambda: require_same_values(graph, after))


def _rematerialise(graph: Graph, target: Target, options: Options) -> Result:
    after = rematerialise(graph, target, least=int(options["least"]))
    peaks = [max(live_bytes(one)) for one in (graph, after)]
    lines = (f"# peak {peaks[0]} bytes before, {peaks[1]} after",)
    return Result((after,), lambda: require_same_values(graph, after), lines)


def _activity(graph: Graph, target: Target, options: Options) -> Result:
    """For each node, which outputs depend on its inputs, and which inputs its outputs' cotangents reach."""
    names = _names(graph)
    lines = []
    for node in graph.nodes:
        depends = active_outputs(node, tuple(carries_gradient(v.type) for v in node.inputs))
        useful = useful_inputs(node, tuple(carries_gradient(v.type) for v in node.outputs))
        made = _listed(names, node.outputs, depends)
        lines.append(f"{node.op.name}: depends {made}; reaches {_listed(names, node.inputs, useful)}")
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
    made = [value for node in graph.nodes for value in node.outputs]
    return {v: f"%{v.hint}" for v in graph.inputs} | {value: f"%{i}" for i, value in enumerate(made)}


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
    free = _numbers(options, "free") or ()
    both = split(joint, graph.name, Constraints(graph.constraints), free_inputs=free)
    count = len(joint.outputs)

    def check() -> None:
        arguments = samples(graph)
        held = dict(zip(graph.inputs, arguments, strict=True))
        forward = interpret(both.forward, [held[value] for value in joint.inputs])
        kept = [held[joint.inputs[i]] for i in both.kept_inputs] + [forward[i] for i in both.kept_outputs]
        backward = interpret(both.backward, [*kept, *forward[count:], *(held[value] for value in joint.cotangents)])
        wanted = interpret(replace(graph, outputs=(*joint.outputs, *joint.gradients)), arguments)
        for have, want in zip((*forward[:count], *backward), wanted, strict=True):
            np.testing.assert_array_equal(have, want)

    return Result((both.forward, both.backward), check)


def _partition(graph: Graph, target: Target, options: Options) -> Result:
    joint = _joint(graph)
    free = [joint.inputs[i] for i in _numbers(options, "free") or ()]
    saved = choose(joint, free=free)
    names = _names(graph)
    lines = [f"save {names[value]}: {value.type}, {cost(value)} bytes" for value in saved] or ["save nothing"]
    return Result((), _split(graph, target, options).check, tuple(lines))


def _apart(graph: Graph, target: Target, options: Options) -> Result:
    after, apart = fuse_with_reasons(graph, target)
    return Result((after,), lambda: require_same_values(graph, after), tuple(f"# {one}" for one in apart))


def _planned(graph: Graph, target: Target, options: Options) -> Schedule:
    donate = [tuple(map(int, word.split(":"))) for word in options["donate"].split(",")] if "donate" in options else []
    fused = pipeline.run(graph, target, verify=True)
    schedule = plan_memory(select(fused, target, fastmath=target.fastmath), donate)  # type: ignore[arg-type]
    verify_schedule(schedule)
    verify_plan(schedule)
    return schedule


def _printed(schedule: Schedule) -> str:
    """The text without lines of source, which are those of the golden file itself."""
    return re.sub(r"  # \S+:\d+$", "", print_schedule(schedule), flags=re.MULTILINE)


def _schedule(graph: Graph, target: Target, options: Options) -> Result:
    schedule = _planned(graph, target, options)
    return Result((), lambda: require_same_schedule(graph, schedule), tuple(_printed(schedule).split("\n")))


def _memory(graph: Graph, target: Target, options: Options) -> Result:
    """The schedule without its kernels: buffers, places, donations, steps, and what each kernel takes in place."""
    schedule = _planned(graph, target, options)
    text, *kernels = _printed(schedule).split("\n\n")
    headings = [kernel.split("\n")[0].removesuffix(" {") for kernel in kernels]
    return Result((), lambda: require_same_schedule(graph, schedule), (*text.split("\n"), *headings))


_STEPS: Final[dict[str, Callable[[Graph, Target, Options], Result]]] = {
    "vjp": _vjp,
    "grad": _grad,
    "jvp": _jvp,
    "reverse": _reverse,
    "silence": _silence,
    "rematerialise": _rematerialise,
    "activity": _activity,
    "partition": _partition,
    "split": _split,
    "apart": _apart,
    "schedule": _schedule,
    "memory": _memory,
}
