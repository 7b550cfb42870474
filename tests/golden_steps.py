"""The steps that golden files name: every pass, and what else makes text of a graph or kernel; each with its meaning.

A step gives graphs or lines, and ``check`` fails where they do not mean what the graph before them means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from jitgraph.codegen.kernels.kernel_text import print_schedule
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.kernels.schedule_verifier import verify_plan, verify_schedule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir import context
from jitgraph.ir.builder import build
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.printer import print_graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.passes import pipeline
from jitgraph.passes.autodiff import has_gradients
from jitgraph.passes.batching import Lane
from jitgraph.passes.elements import on_elements, scalar_graph
from jitgraph.passes.fuse import fuse_with_reasons
from jitgraph.passes.rematerialise import live_bytes, rematerialise
from jitgraph.passes.split import strip_prints
from jitgraph.passes.vmap import Batcher
from tests.golden_files import Case, Options, Result, numbers_in
from tests.golden_gradients import GRADIENT_STEPS
from tests.golden_meaning import (
    require_same_schedule,
    require_same_values,
    samples,
)
from tests.graphs import TARGET


def result_of(case: Case) -> Result:
    """The last step's result; every step before it must give one graph, and every one must keep the meaning."""
    graph = case.graph()
    verify(graph)
    target = replace(TARGET, fastmath="fastmath" in case.options)
    result = Result((graph,), lambda: None)
    for name in case.steps:
        (graph,) = result.graphs
        result = _STEPS[name](graph, target, case.options) if name in _STEPS else _pass(name, graph, target)
        for actual in result.graphs:
            verify(actual)
            again = parse(print_graph(actual, locations=False))
            assert again == replace(actual, name=again.name), "the text does not give the graph back"
        result.check()
    return result


def _pass(name: str, graph: Graph, target: Target) -> Result:
    (*steps,) = pipeline.PIPELINE if name == "all" else (pipeline.PASSES[name],)
    after = pipeline.run(graph, target, steps, verify=True)

    def check() -> None:
        if not has_gradients(graph):  # those have ``run`` lines: nothing runs them as they are
            require_same_values(graph, after, fastmath=target.fastmath)

    return Result((after,), check)


def _silence(graph: Graph, target: Target, options: Options) -> Result:
    after = strip_prints(graph)
    return Result((after,), lambda: require_same_values(graph, after))


def _rematerialise(graph: Graph, target: Target, options: Options) -> Result:
    after = rematerialise(graph, target, least=int(options["least"]))
    peaks = [max(live_bytes(one)) for one in (graph, after)]
    lines = (f"# peak {peaks[0]} bytes before, {peaks[1]} after",)
    return Result((after,), lambda: require_same_values(graph, after), lines)


def _apart(graph: Graph, target: Target, options: Options) -> Result:
    after, apart = fuse_with_reasons(graph, target)
    return Result((after,), lambda: require_same_values(graph, after), tuple(f"# {one}" for one in apart))


def _planned(graph: Graph, target: Target, options: Options) -> Schedule:
    donate = [tuple(map(int, word.split(":"))) for word in options["donate"].split(",")] if "donate" in options else []
    fused = pipeline.run(graph, target, verify=True)
    schedule = plan_memory(select(fused, CPU, fastmath=target.fastmath, verify=True), donate)  # type: ignore[arg-type]
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


def _vmap(graph: Graph, target: Target, options: Options) -> Result:
    """The graph of ``size`` samples at the inputs that ``varies`` numbers; every output has a sample's for each."""
    size, numbers = int(options["size"]), numbers_in(options, "varies") or []
    flags = [i in numbers for i in range(len(graph.inputs))]
    with context.using(constraints=Constraints(graph.constraints)):
        after, _ = Batcher(size).region(graph, [Lane(None, flag) for flag in flags], [True] * len(graph.outputs))

    def check() -> None:
        rows = [samples(graph, seed) for seed in range(size)]
        shared = rows[0]
        inputs = [np.stack([row[i] for row in rows]) if flag else shared[i] for i, flag in enumerate(flags)]
        alone = [interpret(graph, [row[i] if flag else shared[i] for i, flag in enumerate(flags)]) for row in rows]
        for got, want in zip(interpret(after, inputs), zip(*alone, strict=True), strict=True):
            np.testing.assert_array_equal(got, np.stack(want))

    return Result((after,), check)


def _elements(graph: Graph, target: Target, options: Options) -> Result:
    """The graph of numbers on tensors of ``size`` elements each, without derivatives."""
    size = int(options["size"])
    scalar = scalar_graph(graph, graph.name)
    types = [TensorType(value.dtype, (size,)) for value in graph.inputs]
    after = build(lambda *xs: on_elements(scalar, xs, (size,), 0), types, graph.name)

    def check() -> None:
        rows = [samples(graph, seed) for seed in range(size)]
        alone = [interpret(graph, row) for row in rows]
        inputs = [np.stack(column) for column in zip(*rows, strict=True)]
        for got, want in zip(interpret(after, inputs), zip(*alone, strict=True), strict=True):
            np.testing.assert_array_equal(got, np.stack(want))

    return Result((after,), check)


_STEPS: Final[dict[str, Callable[[Graph, Target, Options], Result]]] = {
    **GRADIENT_STEPS,
    "strip_prints": _silence,
    "rematerialise": _rematerialise,
    "apart": _apart,
    "schedule": _schedule,
    "memory": _memory,
    "vmap": _vmap,
    "elements": _elements,
}
