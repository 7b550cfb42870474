"""Executable code gives what the slow executor of its schedule gives, bit for bit, for the whole op table."""

from __future__ import annotations

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.compiler import compile
from jitgraph.ir.interpreter import interpret
from jitgraph.ops import OPS
from jitgraph.runtime.executable import Executable
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.slow_backend import Executed, SlowBackend
from tests.coverage_table import note
from tests.op_loop import NOT_COMPILED, cases, label, require_same, samples_by_names, samples_of


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")


@pytest.mark.parametrize("case", cases(), ids=label)
def test_native_equals_executor(case: tuple[str, dtypes.DType]) -> None:
    sampled = samples_of(*case)
    compiled = compile(sampled.graph)
    executed = compile(sampled.graph, backend=SlowBackend())
    assert isinstance(compiled, Executable) and compiled.image and isinstance(executed, Executed)
    arguments = [np.asarray(x) for x in sampled.arguments]
    require_same(executed.run(arguments), compiled.run(arguments), ulps=0.0)
    note(case[0], "native", sampled.samples)


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if name not in NOT_COMPILED and op.samples])
def test_named_sizes_agree_with_numbers(name: str) -> None:
    """Code for names gives what code for the numbers gives, but for sums that it cuts differently."""
    kinds = (dtypes.float32, dtypes.int32, dtypes.uint64)
    case = next((case for dtype in kinds if (case := samples_by_names(name, dtype)).samples), None)
    if case is None:
        return
    compiled = compile(case.graph)
    assert isinstance(compiled, Executable)
    arguments = [np.asarray(x) for x in case.arguments]
    require_same(execute_schedule(compiled.stages.schedule, arguments), compiled.run(arguments), ulps=0.0)
    exact = OPS[name].kind == "contraction"
    require_same(interpret(case.graph, arguments), compiled.run(arguments), ulps=0 if exact else 64, signs=exact)
    note(name, "named sizes", case.samples)
