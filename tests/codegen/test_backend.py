"""A backend beside the processor's: what the compiler keeps apart. ``cpu/test_native.py`` runs the op table on it."""

from __future__ import annotations

import jitgraph as jg
from jitgraph import compiler
from tests.codegen.slow_backend import Executed, SlowBackend


def test_backends_do_not_share_what_a_cache_keeps() -> None:
    graph = jg.trace(lambda x: x * 2).lower(jg.ones(3)).graph
    cache, slow = compiler.Cache(), SlowBackend()
    native = compiler.compile(graph, cache=cache)
    made = compiler.compile(graph, cache=cache, backend=slow)
    assert isinstance(made, Executed) and not isinstance(native, Executed)
    assert made.stages.schedule == made.schedule and "nothing" in made.stages.milliseconds
    assert compiler.compile(graph, cache=cache, backend=slow) is made
    assert compiler.compile(graph, cache=cache) is native
