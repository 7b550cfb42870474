"""``jg.explain``: a report for people on what a traced function captured, became and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.ir.graph import Graph, Node
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.fuse import fuse_with_reasons
from jitgraph.tracing.cost import cost
from jitgraph.tracing.function import BoundFunction, TracedFunction, trace
from jitgraph.tracing.lowered import Lowered, Text, memory, sizes_of
from jitgraph.tracing.program import Program
from jitgraph.tracing.symbolic.questions import shown_question

_MOST = 20  # lines of one list


def explain(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Text:
    """A readable report on ``f`` for these arguments (tensors, arrays or ``TensorSpec``); ``f`` is not run."""
    function = f if isinstance(f, TracedFunction | BoundFunction) else trace(f)
    lowered = function.lower(*args, **kwargs)
    return Text("\n".join(_report(lowered)))


def _report(lowered: Lowered) -> Iterator[str]:
    program, graph = lowered.program, lowered.graph
    yield f"{lowered.function.__name__}: {graph.name}({', '.join(_signature(graph))})"
    yield from _section("captured", [f"{slot.text}: {slot.type}" for slot in program.slots if slot.kind != "argument"])
    yield from _section("written back", [program.slots[slot].text for slot, _ in program.writes])
    yield from _section("set again at each call", [place.text for place, _ in program.effects])
    yield from _section("changed in the arguments", list(dict.fromkeys(change.text for change, _ in program.changes)))
    yield from _section("guards", list(map(str, program.guards)))
    yield from _section("sizes held", [f"{pin.constraint} by {pin.what} at {pin.location}" for pin in program.pins])
    yield from _numbers(lowered.function.programs)
    yield from _section("not guarded", list(program.unguarded))
    yield from _compiled(lowered)
    yield from _section("ledger", list(map(str, lowered.function.ledger)))


def _numbers(programs: Sequence[Program]) -> Iterator[str]:
    """The Python numbers that vary in the program used last, and those that some program holds."""
    for program in programs[:1]:
        yield from _section("numbers read at each call", [origin.text for origin in program.numbers])
        asked = [f"{shown_question(q, program.numbers)} at {q.location}" for q in program.questions]
        yield from _section("asked about them", asked)
    held = [f"{h.origin.text} by {h.what} at {h.location}" for program in programs for h in program.held]
    yield from _section("numbers held", list(dict.fromkeys(held)))


def _compiled(lowered: Lowered) -> Iterator[str]:
    try:
        stages = lowered.stages
    except JitgraphError as error:
        yield f"not compiled: {error}"
        return
    optimized = lowered.optimized
    fused, apart = fuse_with_reasons(optimized, lowered.runnable.target)
    yield f"kernels: {_kernels(optimized)} before fusion, {_kernels(fused)} after"
    yield from _section("fused", [_members(node) for node in fused.nodes if node.op.name == "fused"])
    yield from _section("kept apart", list(dict.fromkeys(map(str, apart))))
    yield f"cost: {cost(expand_grads(lowered.graph), sizes_of(lowered.program))}"
    yield from memory(lowered)
    times = ", ".join(f"{stage} {ms:.1f}" for stage, ms in stages.milliseconds.items())
    yield f"compile ms: {times}"


def _signature(graph: Graph) -> list[str]:
    return [f"{value.hint}: {value.type}" for value in graph.inputs]


def _kernels(graph: Graph) -> int:
    """Nodes that become kernels: views and constants do not."""
    return sum(node.op.kind not in ("movement", "creation") for node in graph.nodes)


def _members(node: Node) -> str:
    return " ".join(inner.op.name for inner in node.regions[0].nodes)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in lines[:_MOST])
    if len(lines) > _MOST:
        yield f"  ... and {len(lines) - _MOST} more"
