"""Selection: schedules in the slow executor give what the interpreter gives, for the whole op table."""

from __future__ import annotations

import numpy as np
import pytest
from op_loop import Case, cases, label, require_same, samples_of

from jitgraph import dtypes
from jitgraph.codegen.kernel import Let
from jitgraph.codegen.schedule import Launch, Schedule
from jitgraph.codegen.schedule_executor import execute_schedule
from jitgraph.codegen.select import select
from jitgraph.codegen.traversal import statements_of
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target

TARGET = Target.named("x86-64-v3")
SUMS = frozenset({"reduce_sum", "reduce_prod", "dot", "conv", "cumsum", "cumprod", "scatter_add", "scan", "avg_pool2d"})

EXTREMES = frozenset({"reduce_max", "reduce_min", "cummax", "cummin"})  # NumPy leaves open which of -0.0 and 0.0 wins


def calls_math(schedule: Schedule) -> bool:
    """Whether a math function, which has an error bound instead of exact bits, is called anywhere."""
    return any(
        isinstance(statement, Let) and statement.word == "call"
        for step in schedule.steps
        if isinstance(step, Launch)
        for statement in statements_of(step.kernel.body)
    )


def tolerance(case: Case, schedule: Schedule) -> float:
    inexact = calls_math(schedule) or any(node.op.name in SUMS or node.regions for node in case.graph.nodes)
    return 64.0 if inexact else 0.0


@pytest.mark.parametrize("case", cases(), ids=label)
def test_executor_equals_interpreter(case: tuple[str, dtypes.DType]) -> None:
    sampled = samples_of(*case)
    schedule = select(sampled.graph, TARGET)
    expected = interpret(sampled.graph, sampled.arguments)
    found = execute_schedule(schedule, [np.asarray(x) for x in sampled.arguments])
    require_same(expected, found, ulps=tolerance(sampled, schedule), signs=case[0] not in EXTREMES)
