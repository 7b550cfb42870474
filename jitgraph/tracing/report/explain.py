"""``jg.explain``: a report for people on what a traced function captured, became and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from jitgraph.errors import ArgumentError, JitgraphError
from jitgraph.ir.graph import Graph, Node
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.fuse import fuse_with_reasons
from jitgraph.tracing.call.function import traced
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.guards.guard import Guard, Varies
from jitgraph.tracing.report.cost import cost
from jitgraph.tracing.report.lowered import Lowered, Text, memory, sizes_of

if TYPE_CHECKING:
    from jitgraph.tracing.report.run import RunReport

_MOST = 20  # lines of one list


class Report(Text):
    """The text of a report, and the call that it is about; ``html()`` is a page of it."""

    lowered: Lowered

    def html(self) -> str:
        """One page without links: the report, graphs and kernels folded by modules and lines, memory over time."""
        from jitgraph.tracing.report.html import page

        return page(self.lowered, self)

    def _repr_html_(self) -> str:
        from jitgraph.tracing.report.html import fragment

        return fragment(self.lowered, self)


@overload
def explain() -> RunReport: ...
@overload
def explain(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Report: ...
def explain(f: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> Report | RunReport:
    """A readable report on ``f`` for these arguments (tensors, arrays or ``TensorSpec``); ``f`` is not run.

    ``html()`` of it gives a page that stands alone, with the graph, the kernels and the memory plan. Without a function
    it reports on a block, ``with jg.explain() as run: ...``: what was compiled in it over time, why, and what would
    compile less.
    """
    if f is None:
        if args or kwargs:
            raise ArgumentError("explain takes a function before its arguments\n  hint: jg.explain(f, x)")
        from jitgraph.tracing.report.run import RunReport  # here: most processes watch no run

        return RunReport()
    lowered = traced(f).lower(*args, **kwargs)
    report = Report("\n".join(_report(lowered)))
    report.lowered = lowered
    return report


def _report(lowered: Lowered) -> Iterator[str]:
    plan, graph = lowered.plan, lowered.graph
    yield f"{lowered.function.__name__}: {graph.name}({', '.join(_signature(graph))})"
    captured = [handle for handle in plan.handles if handle.source not in plan.arguments]
    yield from _section("captured", [f"{handle.text}: {handle.type}" for handle in captured])
    yield from _section("written back", [plan.handles[number].text for number, _ in plan.rebound])
    yield from _section("changed at each call", list(dict.fromkeys(effect.text for effect in plan.state_effects)))
    yield from _section("guards", [str(guard) for guard in plan.guards if _is_of_state(guard)])
    pinned_sizes = [
        f"{size.shown} by {size.what} at {location}" for size, location in plan.relations("sizes") if size.what
    ]
    yield from _section("sizes held", pinned_sizes)
    yield from _numbers(lowered.function.plans)
    yield from _section("not guarded", list(plan.unguarded))
    yield from _compiled(lowered)
    yield from _section("ledger", list(map(str, lowered.function.ledger)))


def _is_of_state(guard: Guard) -> bool:
    """Whether a guard is about what the function read by itself, at a line that is known."""
    return guard.source is not None and guard.location is not None and not isinstance(guard.predicate, Varies)


def _numbers(plans: Sequence[CallPlan]) -> Iterator[str]:
    """The Python numbers that vary in the plan used last, and those that some plan holds."""
    for plan in plans[:1]:
        read = [guard.source.text for guard in plan.guards if guard.source and isinstance(guard.predicate, Varies)]
        yield from _section("numbers read at each call", read)
        relations = [f"{number.shown} at {location}" for number, location in plan.relations("numbers")]
        yield from _section("asked about them", relations)
    pinned = [f"{h.source.text} by {h.what} at {h.location}" for plan in plans for h in plan.pinned]
    yield from _section("numbers held", list(dict.fromkeys(pinned)))


def _compiled(lowered: Lowered) -> Iterator[str]:
    try:
        stages = lowered.stages
    except JitgraphError as error:
        yield f"not compiled: {error}"
        return
    optimized = lowered.optimized
    fused, unfused = fuse_with_reasons(optimized, lowered.runnable.target)
    yield f"kernels: {_kernels(optimized)} before fusion, {_kernels(fused)} after"
    yield from _section("fused", [_members(node) for node in fused.nodes if "one_kernel" in node.op.traits])
    yield from _section("kept apart", list(dict.fromkeys(map(str, unfused))))
    yield f"cost: {cost(expand_grads(lowered.graph), sizes_of(lowered.plan))}"
    yield from memory(lowered)
    times = ", ".join(f"{stage} {ms:.1f}" for stage, ms in stages.milliseconds.items())
    yield f"compile ms: {times}"


def _signature(graph: Graph) -> list[str]:
    rest = len(graph.inputs) - _MOST
    shown = [f"{value.hint}: {value.type}" for value in graph.inputs[:_MOST]]
    return [*shown, f"... and {rest} more"] if rest > 0 else shown


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
