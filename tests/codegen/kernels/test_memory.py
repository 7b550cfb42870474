"""Memory plans: what shares memory, what may be given away, and that the verifier finds planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import Launch, MemoryPlan, Schedule, While
from jitgraph.codegen.kernels.schedule_verifier import verify_plan
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ops import (
    OPS,
    add,
    check,
    dot,
    exp,
    full_like,
    gather,
    lt,
    mul,
    neg,
    reduce_max,
    sort,
    sub,
    transpose,
    while_,
)
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.graphs import TARGET, t
from tests.op_loop import require_same


def planned(
    function: Callable[..., Any], *types: TensorType, donate: Sequence[int | tuple[int, int]] = (), size: int = 6
) -> Schedule:
    """The planned schedule without fusion, after running it against the interpreter, donated memory included."""
    graph = build(function, types)
    schedule = plan_memory(select(graph, CPU), donate)
    verify_plan(schedule)
    rng = np.random.default_rng(0)
    arguments = []
    for type in types:
        shape = tuple(dims.evaluate(extent, dict.fromkeys(dims.names(extent), size)) for extent in type.shape)
        arguments.append(rng.uniform(0.5, 1.5, shape).astype(type.dtype))
    require_same(interpret(graph, arguments), execute_schedule(schedule, arguments, donate=True), ulps=8)
    return schedule


def plan_of(schedule: Schedule) -> MemoryPlan:
    assert schedule.plan is not None
    return schedule.plan


def test_chain_of_temporaries_is_one_buffer() -> None:
    plan = plan_of(planned(lambda x: exp(neg(neg(neg(x)))), t(100)))
    assert (plan.arena_bytes, plan.unplanned) == (448, 3 * 448)


def test_transposed_read_is_not_in_place() -> None:
    schedule = planned(lambda x: exp(transpose(neg(x), permutation=(1, 0))), t(9, 9))
    assert all(not step.kernel.aliases for step in schedule.steps if isinstance(step, Launch))


def test_rows_are_in_place() -> None:
    graph = build(lambda x: neg(OPS["softmax"](neg(x), axis=1)), [t(4, 16)])
    from jitgraph.passes import pipeline

    decomposed = pipeline.run(graph, TARGET, pipeline.PIPELINE[:-1])
    schedule = plan_memory(select(decomposed, CPU))
    verify_plan(schedule)
    plan = plan_of(schedule)
    assert isinstance(plan.arena_bytes, int) and isinstance(plan.unplanned, int)
    assert plan.arena_bytes < plan.unplanned


def test_best_fit_reuses_what_died() -> None:
    def program(x: Any) -> Any:
        a = dot(x, x, batch=((), ()), contract=((1,), (0,)))
        b = dot(a, x, batch=((), ()), contract=((1,), (0,)))
        c = dot(b, x, batch=((), ()), contract=((1,), (0,)))
        return dot(c, x, batch=((), ()), contract=((1,), (0,)))

    plan = plan_of(planned(program, t(16, 16)))
    assert plan.arena_bytes == 2 * 1024


def update(p: Any, g: Any) -> Any:
    return sub(p, mul(g, full_like(0.1, g)))


def test_state_is_given_to_its_new_value() -> None:
    assert plan_of(planned(update, t(7), t(7), donate=[(0, 0)])).donations == {"out0": "in0"}


def test_given_input_finds_the_output_computed_from_it() -> None:
    def two(p: Any, q: Any, g: Any) -> Any:
        return sub(q, g), sub(p, g)

    assert plan_of(planned(two, t(7), t(7), t(7), donate=[0, 1])).donations == {"out1": "in0", "out0": "in1"}


def test_input_that_is_read_later_is_kept() -> None:
    schedule = planned(lambda p, g: (update(p, g), exp(p)), t(7), t(7), donate=[(0, 0)])
    assert plan_of(schedule).donations == {}


def test_input_that_is_read_transposed_is_kept() -> None:
    schedule = planned(lambda p: transpose(p, permutation=(1, 0)), t(7, 7), donate=[(0, 0)])
    assert plan_of(schedule).donations == {}


def test_nothing_is_given_before_a_check_that_can_fail() -> None:
    def program(p: Any, g: Any, i: Any) -> Any:
        return update(p, g), gather(p, i, axis=0)

    def checked(p: Any, g: Any) -> Any:
        result = update(p, g)
        check(lt(reduce_max(g, axes=(0,)), full_like(9.0, reduce_max(g, axes=(0,)))), kind="ValueError", message="g")
        return result

    graph = build(program, [t(7), t(7), t(3, dtype=dtypes.int64)])
    assert plan_of(plan_memory(select(graph, CPU), [(0, 0)])).donations == {}
    assert plan_of(planned(checked, t(7), t(7), donate=[(0, 0)])).donations == {}


def test_gather_in_the_same_kernel_is_no_donation() -> None:
    graph = build(lambda p, i: gather(p, i, axis=0), [t(7), t(7, dtype=dtypes.int64)])
    assert plan_of(plan_memory(select(graph, CPU), [(0, 0)])).donations == {}


def loop(x: Any, y: Any) -> Any:
    condition = build(
        lambda i, a, b: lt(reduce_max(i, axes=(0,)), full_like(40.0, reduce_max(i, axes=(0,)))), [t(6)] * 3
    )
    body = build(lambda i, a, b: (add(i, full_like(7.0, i)), b, add(exp(neg(a)), b)), [t(6)] * 3)
    return while_(x, y, neg(y), regions=(condition, body), num_carries=3)


def test_what_is_live_across_a_loop_keeps_its_memory() -> None:
    def program(x: Any, y: Any) -> Any:
        before = exp(y)
        i, a, b = loop(neg(x), y)
        return add(add(before, i), add(a, b))

    schedule = planned(program, t(6), t(6))
    before = next(step.buffers[1] for step in schedule.steps if isinstance(step, Launch))
    (turn,) = (step for step in schedule.steps if isinstance(step, While))
    offsets = plan_of(schedule).offsets
    inside = {name for step in turn.body if isinstance(step, Launch) for name in step.buffers} & offsets.keys()
    assert inside and all(offsets[name] != offsets[before] for name in inside)


def test_nothing_is_given_before_a_loop_that_can_be_interrupted() -> None:
    def first(p: Any, x: Any) -> Any:
        return update(p, x), *loop(neg(x), x)

    def last(p: Any, x: Any) -> Any:
        return update(p, loop(neg(x), x)[1])

    assert plan_of(planned(first, t(6), t(6), donate=[(0, 0)])).donations == {}
    assert plan_of(planned(last, t(6), t(6), donate=[(0, 0)])).donations == {"out0": "in0"}


def test_symbolic_sizes_share_and_run_at_every_size() -> None:
    n = Dim.name("n")

    def program(x: Any, w: Any) -> Any:
        values, positions = sort(neg(x), axis=0, descending=False, stable=True)
        return add(dot(values, w, batch=((), ()), contract=((1,), (0,))), exp(neg(x))), positions

    for size in (0, 1, 7, 64):
        schedule = planned(program, t(n, 4), t(4, 4), size=size) if size else None
    assert schedule is not None
    plan = plan_of(schedule)
    assert dims.names(plan.arena_bytes) == {"n"}
    assert dims.evaluate(plan.arena_bytes, {"n": 64}) < dims.evaluate(plan.unplanned, {"n": 64})


def tampered(schedule: Schedule, **changes: Any) -> Schedule:
    return replace(schedule, plan=replace(plan_of(schedule), **changes))


def test_verifier_finds_overlap() -> None:
    def program(x: Any) -> Any:
        a, b = neg(x), exp(x)
        return add(dot(a, b, batch=((), ()), contract=((0,), (0,))), full_like(1.0, reduce_max(x, axes=(0,))))

    schedule = planned(program, t(40))
    offsets = dict.fromkeys(plan_of(schedule).offsets, 0)
    with pytest.raises(GraphError, match="still wanted"):
        verify_plan(tampered(schedule, offsets=offsets))


def test_verifier_finds_overlap_across_a_loop() -> None:
    schedule = planned(lambda x, y: add(exp(y), loop(neg(x), y)[0]), t(6), t(6))
    plan = plan_of(schedule)
    before = next(step.buffers[1] for step in schedule.steps if isinstance(step, Launch))
    (turn,) = (step for step in schedule.steps if isinstance(step, While))
    inner = next(step.buffers[-1] for step in turn.body if isinstance(step, Launch))
    with pytest.raises(GraphError, match="still wanted"):
        verify_plan(tampered(schedule, offsets={**plan.offsets, inner: plan.offsets[before]}))


def test_verifier_finds_places_outside_and_unaligned() -> None:
    schedule = planned(lambda x: exp(neg(x)), t(100))
    (name,) = plan_of(schedule).offsets
    with pytest.raises(GraphError, match="does not fit"):
        verify_plan(tampered(schedule, offsets={name: 64}))
    with pytest.raises(GraphError, match="multiple of 64"):
        verify_plan(tampered(schedule, offsets={name: 4}, arena_bytes=4096))


def test_verifier_finds_donation_that_is_read_later() -> None:
    schedule = planned(lambda p, g: (update(p, g), exp(p)), t(7), t(7))
    with pytest.raises(GraphError, match="still wanted"):
        verify_plan(tampered(schedule, donations={"out0": "in0"}))
