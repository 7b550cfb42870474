"""The order of steps by liveness: less memory, the same bits, effects as in the program, no donation lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import Launch, Schedule, While
from jitgraph.codegen.kernels.schedule_verifier import verify_plan
from jitgraph.codegen.kernels.step_order import order_steps, peak_bytes
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.builder import build
from jitgraph.ir.interpreter import interpret
from jitgraph.ops import add, check, dot, exp, full_like, lt, mul, neg, reduce_max, reduce_sum, sub, while_
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.cse import cse
from jitgraph.passes.decompose import decompose
from jitgraph.passes.decompose_complex import decompose_complex
from jitgraph.passes.fuse import fuse
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.graphs import TARGET, t
from tests.programs.gradients import Program

ALWAYS = -(1 << 60)  # the least gain at which any order is taken


def square(x: Any, w: Any) -> Any:
    return dot(x, w, batch=((), ()), contract=((1,), (0,)))


def late_updates(x: Any, *weights: Any) -> Any:
    """Products whose operands the last lines alone read again, as an optimiser's step does."""
    values = [x]
    for w in weights:
        values.append(square(values[-1], w))
    for w in reversed(weights):
        values.append(square(values[-1], w))
    count = len(weights)
    updates = [sub(w, square(a, b)) for w, a, b in zip(weights, values[:count], reversed(values[-count:]), strict=True)]
    return (reduce_sum(values[-1], axes=(0, 1)), *updates)


def scheduled(function: Any, *types: Any) -> Schedule:
    return select(fuse(build(function, types), TARGET), CPU)


def sizes(schedule: Schedule) -> dict[str, int]:
    return {b.name: int(b.bytes) for b in schedule.buffers if b.role == "temporary"}


def test_updates_run_when_their_operands_die() -> None:
    schedule = scheduled(late_updates, *[t(16, 16)] * 9)
    pairs = [(i, i) for i in range(1, 9)]
    ordered = order_steps(schedule, pairs, least=1)
    assert peak_bytes(ordered.steps, sizes(schedule)) < 0.7 * peak_bytes(schedule.steps, sizes(schedule))
    assert sorted(map(repr, ordered.steps)) == sorted(map(repr, schedule.steps))


def test_no_donation_is_lost() -> None:
    """An update, which could run at once, stays behind what reads the old weight."""

    def program(x: Any, *weights: Any) -> Any:
        values = [x]
        for w in (*weights, *weights):
            values.append(square(values[-1], w))
        updates = [sub(w, square(a, b)) for w, a, b in zip(weights, values, values[1:], strict=False)]
        return (reduce_sum(values[-1], axes=(0, 1)), *updates)

    pairs = [(i, i) for i in range(1, 5)]
    schedule = scheduled(program, *[t(16, 16)] * 5)
    ordered = order_steps(schedule, pairs, least=ALWAYS)
    assert ordered.steps != schedule.steps
    plans = [plan_memory(one, pairs).plan for one in (schedule, ordered)]
    assert plans[0] is not None and plans[1] is not None
    assert plans[1].donations == plans[0].donations and len(plans[0].donations) == 4


def test_a_gain_below_the_least_is_no_reason() -> None:
    schedule = scheduled(late_updates, *[t(16, 16)] * 9)
    assert order_steps(schedule) is schedule
    assert order_steps(schedule, least=1 << 14).steps == schedule.steps


def test_checks_keep_their_order_and_donated_writes_stay_behind_them() -> None:
    def program(p: Any, x: Any) -> Any:
        b = square(x, x)
        a = square(square(x, exp(x)), x)
        for name, value in (("first", a), ("second", b)):
            top = reduce_max(value, axes=(0, 1))
            check(lt(top, top), kind="ValueError", message=name)
        return sub(p, neg(x)), square(a, x)

    schedule = select(build(program, [t(8, 8), t(8, 8)]), CPU)
    ordered = order_steps(schedule, [(0, 0)], least=ALWAYS)
    kernels = [step.kernel for step in ordered.steps if isinstance(step, Launch)]
    sites = [line for kernel in kernels for line in repr(kernel).split("CheckStatement")[1:]]
    assert len(sites) == 2 and "check=0" in sites[0] and "check=1" in sites[1]
    planned = plan_memory(ordered, [(0, 0)])
    verify_plan(planned)
    assert planned.plan is not None and planned.plan.donations == {"out0": "in0"}


def test_steps_inside_loops_are_ordered_too() -> None:
    """What a turn reads before it writes it is alive through the whole turn."""

    def body(i: Any, x: Any, *weights: Any) -> Any:
        updates = late_updates(x, *weights)[1:]
        return add(i, full_like(1.0, i)), mul(x, exp(neg(x))), *updates

    types = [t(), *[t(16, 16)] * 7]
    condition = build(lambda i, *rest: lt(i, full_like(3.0, i)), types)
    region = build(body, types)
    schedule = select(
        fuse(
            build(lambda *given: while_(*given, regions=(condition, region), num_carries=8), types),
            TARGET,
        ),
        CPU,
    )
    ordered = order_steps(schedule, least=1)
    before, after = ([step for step in one.steps if isinstance(step, While)] for one in (schedule, ordered))
    assert [step.body for step in before] != [step.body for step in after]
    rng = np.random.default_rng(0)
    arrays = [np.float32(0), *(rng.normal(size=(16, 16)).astype(np.float32) * 0.1 for _ in range(7))]
    for have, want in zip(executed(ordered, arrays), executed(schedule, arrays), strict=True):
        np.testing.assert_array_equal(have, want)


def executed(schedule: Schedule, arrays: Any) -> Any:
    planned = plan_memory(schedule)
    verify_plan(planned)
    return execute_schedule(planned, arrays)


def test_random_gradients_keep_their_bits() -> None:
    moved = 0
    for seed in range(8):
        expanded = decompose(expand_grads(decompose(Program(seed).derivatives(), TARGET)), TARGET)
        graph = cse(decompose_complex(expanded, TARGET), TARGET)
        schedule = select(fuse(graph, TARGET), CPU)
        ordered = order_steps(schedule, least=ALWAYS)
        if ordered.steps == schedule.steps:
            continue
        moved += 1
        rng = np.random.default_rng(seed)
        arrays = [rng.uniform(-1, 1, value.shape).astype(value.dtype) for value in graph.inputs]
        for have, want in zip(executed(ordered, arrays), interpret(graph, arrays), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9, err_msg=f"program {seed}")
    assert moved > 2
