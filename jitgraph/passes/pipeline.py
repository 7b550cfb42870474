"""The pipeline: which passes a graph goes through on its way to code, and how they are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from jitgraph import config, ir
from jitgraph.errors import GraphError
from jitgraph.ir.graph import Graph
from jitgraph.ir.printer import print_graph
from jitgraph.ir.target import Target
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.cse import cse
from jitgraph.passes.dce import dce
from jitgraph.passes.decompose import decompose
from jitgraph.passes.decompose_complex import decompose_complex
from jitgraph.passes.fold import fold
from jitgraph.passes.fuse import fuse
from jitgraph.passes.rematerialise import rematerialise
from jitgraph.passes.simplify import simplify
from jitgraph.passes.wide_concats import wide_concats

Pass: TypeAlias = Callable[[Graph, Target], Graph]

PIPELINE: Final[tuple[Pass, ...]] = (
    expand_grads,  # first: it uses the composites' own gradients, and stop_gradient still stands
    decompose,
    decompose_complex,  # composites of complex numbers are written over parts by now
    fold,  # before simplify, whose rules look for tensors of one number
    simplify,
    cse,
    dce,
    wide_concats,  # after the rules, which join what is joined
    rematerialise,  # after cse, which would merge what it computes twice
    fuse,
)
PASSES: Final[dict[str, Pass]] = {step.__name__: step for step in PIPELINE}


def run(graph: Graph, target: Target, passes: Sequence[Pass] = PIPELINE, *, verify: bool | None = None) -> Graph:
    """``graph`` after ``passes``, in order.

    With ``verify`` (by default under JITGRAPH_VERIFY) the graph is verified before and after each; GraphError names the
    pass that broke it, the reason, and shows both graphs.
    """
    verify = config.VERIFY.is_on() if verify is None else verify
    if verify:
        ir.verify(graph)
    if config.logs("graph"):
        config.log("graph", f"before the passes\n{print_graph(graph)}")
    for step in passes:
        start = time.perf_counter()
        after = step(graph, target)
        if config.logs("passes"):
            milliseconds = 1e3 * (time.perf_counter() - start)
            before = len(graph.nodes)
            config.log("passes", f"{step.__name__}: {before} -> {len(after.nodes)} nodes, {milliseconds:.2f} ms")
        if config.logs("graph") and after is not graph:
            config.log("graph", f"after {step.__name__}\n{print_graph(after)}")
        if verify and after is not graph:
            _verify_step(step.__name__, graph, after)
        graph = after
    return graph


def _verify_step(name: str, before: Graph, after: Graph) -> None:
    try:
        ir.verify(after)
    except GraphError as error:
        texts = [print_graph(graph, full=True) for graph in (before, after)]
        reason = f"the pass {name} broke the graph: {error.message}\n--- before\n{texts[0]}\n--- after\n{texts[1]}"
        raise GraphError(reason, location=error.location) from error
