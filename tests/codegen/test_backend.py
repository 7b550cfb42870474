"""A backend beside the processor's: what the compiler keeps apart. ``cpu/test_native.py`` runs the op table on it."""

from __future__ import annotations

import jitgraph as jg
from jitgraph import compiler
from jitgraph.codegen.cpu.backend import CpuBackend
from jitgraph.codegen.kernels.schedule_verifier import verify_schedule
from jitgraph.runtime.executable import Executable
from tests.codegen.slow_backend import Executed, SlowBackend


def test_backends_do_not_share_what_a_cache_keeps() -> None:
    graph = jg.trace(lambda x: x * 2).lower(jg.ones(3)).graph
    cache, slow = compiler.Cache(), SlowBackend()
    native = compiler.compile(graph, cache=cache)
    compiled = compiler.compile(graph, cache=cache, backend=slow)
    assert isinstance(compiled, Executed) and not isinstance(native, Executed)
    assert compiled.stages.schedule == compiled.schedule and "nothing" in compiled.stages.milliseconds
    assert compiler.compile(graph, cache=cache, backend=slow) is compiled
    assert compiler.compile(graph, cache=cache) is native


def test_temporaries_lie_where_the_backend_wants_them() -> None:
    graph = jg.trace(lambda x, y: (x @ y) @ (y @ x)).lower(jg.ones((3, 3)), jg.ones((3, 3))).graph
    for backend, between in ((CpuBackend(), 64), (SlowBackend(), 256)):
        compiled = compiler.compile(graph, backend=backend)
        assert isinstance(compiled, Executable) and compiled.stages.plan is not None
        assert sorted(compiled.stages.plan.offsets.values(), key=str) == [0, between]
        verify_schedule(compiled.stages.schedule)
