"""Carries that take one another's values in loops exchange their memory, and mean what they mean in Python."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.coalescing import coalesce_copies
from jitgraph.codegen.kernels.coalescing_verifier import verify_coalescing
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import Branch, Exchange, Launch, Schedule, Step, While, all_steps
from jitgraph.codegen.kernels.schedule_verifier import verify_plan, verify_schedule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select_with_copies
from jitgraph.errors import GraphError
from jitgraph.passes import pipeline
from jitgraph.standalone import write_loaders
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.moved_bytes import moved_bytes
from tests.graphs import TARGET, needs_native


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")
    yield


def double_buffer(x: Any, a: Any) -> Any:
    b = a * 2
    for i in range(x.shape[0]):
        a, b = b, a + b * x[i]
    return a, b


def leapfrog(x: Any, a: Any) -> Any:
    b = a * 2
    for i in range(x.shape[0]):
        new = b * 2 - a
        a = b
        b = new + x[i]
    return b


def stencil(x: Any, a: Any) -> Any:
    for i in range(x.shape[0]):
        a = a + x[i] - jg.concatenate([a[1:], a[:1]])
    return a


def ping_pong(x: Any, a: Any) -> Any:
    a = a * 1
    b = a * 1
    for i in range(x.shape[0]):
        b[1:-1] = a[:-2] + x[i] - a[2:]
        a, b = b, a
    return a


def until_reached(x: Any, a: Any) -> Any:
    b, i = a + 1, 0
    while i < x.shape[0] and a[3] < 1000000:
        a, b, i = b, a + b + x[i], i + 1
    return a, b, i


def left_in_the_middle(x: Any, a: Any) -> Any:
    b, c = a + 1, a - 1
    for i in range(x.shape[0]):
        a, b, c = b, c, a + x[i]
        if a[0] > 60:
            break
    return a, b, c


def nested_rounds(x: Any, a: Any) -> Any:
    b = a * 3
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            a, b = b, a - b + x[j]
        b = b + x[i]
    return a, b


def with_scratch(x: Any, a: Any) -> Any:
    """Where another array of the turn is wanted no more when the one that goes round is computed."""
    b = a * 2
    for i in range(x.shape[0]):
        sums = jg.cumsum(b + x[i])
        a, b = b, jg.cumsum(sums - a) % 1000
    return a, b


WHOLE = {
    double_buffer: 3,
    leapfrog: 3,
    stencil: 4,
    ping_pong: 5,
    until_reached: 3,
    left_in_the_middle: 2,
    nested_rounds: 0,
    with_scratch: 0,
}
"""Loops whose turns compute arrays, with the arrays that a turn reads and writes for that; 0: it is not counted."""


def rotated(x: Any, a: Any) -> Any:
    a = a * 1
    b, c, d, e = a + 1, a + 2, a + 3, a + 4
    for i in range(x.shape[0]):
        a, b, c, d, e = b, c, d, e, a
        a[i] = b[i + 1] + x[i]
    return a, b, c, d, e


def swapped(x: Any, a: Any) -> Any:
    a = a * 1
    b = a + 1
    for i in range(x.shape[0]):
        a, b = b, a
        a[i] = b[i] + x[i]
    return a, b


def swapped_by_choice(x: Any, a: Any) -> Any:
    a = a * 1
    b = a + 1
    for i in range(x.shape[0]):
        if x[i] > 0:
            a, b = b, a
        a[i] = b[i] + x[i]
    return a, b


def written_behind(x: Any, a: Any) -> Any:
    a = a * 1
    b = a + 1
    for i in range(x.shape[0]):
        old = a
        a, b = b, old
        b[i] = a[-1 - i] + x[i]
    return a - b


def two_pairs(x: Any, a: Any) -> Any:
    a = a * 1
    b, c, d = a + 1, a + 2, a + 3
    for i in range(x.shape[0]):
        a, b, c, d = b, a, d, c
        a[i] = d[i]
        if x[i] > 0:
            b, d = d, b
    return a, b, c, d


def inner_swaps(x: Any, a: Any) -> Any:
    a = a * 1
    b = a + 1
    for i in range(x.shape[0]):
        for j in range(3):
            a, b = b, a
            a[i + j] = x[i] + j
        if x[i] > 2:
            a, b = b, a
    return a, b


ELEMENTS = [rotated, swapped, swapped_by_choice, written_behind, two_pairs, inner_swaps]
"""Loops whose turns move as many bytes however long the arrays are."""


def wanted_by_both(x: Any, a: Any) -> Any:
    b = a + 1
    for i in range(x.shape[0]):
        a, b = b, b + x[i]
    return a, b


def duplicated(x: Any, a: Any) -> Any:
    a = a * 1
    b, c = a + 1, a + 2
    for i in range(x.shape[0]):
        a, b, c = b, a, a + 0
        a[i] = c[i] + x[i]
        b[0] = a[1]
    return a, b, c


def from_outside(x: Any, a: Any) -> Any:
    a = a * 1
    first, b = a * 1, a + 1
    for i in range(x.shape[0]):
        a, b = b, first
        a[i] = x[i] + b[i]
    return a, b, first


def seen_each_turn(x: Any, a: Any) -> Any:
    def turn(carry: Any, v: Any) -> Any:
        a, b = carry
        return (b, a + v), b

    return jg.scan(turn, (a, a + 1), x)


HAZARDS = [wanted_by_both, duplicated, from_outside, seen_each_turn]
"""Loops in which a value is wanted in two buffers, or where another one lives, so that some copies stay."""

PROGRAMS = [*WHOLE, *ELEMENTS, *HAZARDS]


def arrays(turns: int, n: int = 40) -> list[np.ndarray]:
    rng = np.random.default_rng(turns)
    return [rng.integers(-9, 9, turns), rng.integers(0, 30, n)]


def results(values: Any) -> list[np.ndarray]:
    leaves = values if isinstance(values, tuple | list) else [values]
    return [one for leaf in leaves for one in (results(leaf) if isinstance(leaf, tuple) else [np.asarray(leaf)])]


def schedule_of(program: Callable[..., Any], turns: int, n: int) -> Schedule:
    schedule: Schedule = jg.script(program).lower(*map(jg.asarray, arrays(turns, n))).stages.schedule
    return schedule


def by_name(program: Callable[..., Any]) -> str:
    return program.__name__


@needs_native
@pytest.mark.parametrize("program", PROGRAMS, ids=by_name)
def test_exchanges_mean_what_they_mean_eagerly(program: Callable[..., Any]) -> None:
    """In numbers of turns of every remainder."""
    for turns in (16, 17, 18, 19):
        due = results(program(*map(jg.asarray, arrays(turns))))
        for x, y in zip(results(jg.script(program)(*map(jg.asarray, arrays(turns)))), due, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("program", [one for one, count in WHOLE.items() if count], ids=by_name)
def test_a_turn_moves_what_it_computes_alone(program: Callable[..., Any]) -> None:
    turns = 100
    small, large = (moved_bytes(schedule_of(program, turns, n), turns=turns) for n in (500, 1000))
    begin_and_end = 16  # arrays that are copied once
    assert large - small <= 500 * 8 * (turns * WHOLE[program] + begin_and_end)


@pytest.mark.parametrize("program", ELEMENTS, ids=by_name)
def test_turns_that_write_elements_move_no_arrays(program: Callable[..., Any]) -> None:
    turns = 100
    small, large = (moved_bytes(schedule_of(program, turns, n), turns=turns) for n in (500, 1000))
    begin_and_end = 24
    assert large - small <= 500 * 8 * begin_and_end


def with_copies(program: Callable[..., Any], turns: int) -> Schedule:
    graph = jg.script(program).lower(*map(jg.asarray, arrays(turns))).graph
    return select_with_copies(pipeline.run(graph, TARGET), CPU)


@pytest.mark.parametrize("program", PROGRAMS, ids=by_name)
def test_schedules_with_and_without_exchanges_agree(program: Callable[..., Any]) -> None:
    """By the executor, which poisons memory that is free, and as proved of contents and of the memory plan."""
    before = with_copies(program, 17)
    coalesced = coalesce_copies(before)
    verify_coalescing(before, coalesced.schedule, coalesced.names)
    planned = plan_memory(coalesced.schedule)
    verify_schedule(planned)
    exchanges = [step for step in all_steps(planned.steps) if isinstance(step, Exchange)]
    assert exchanges or program in HAZARDS
    for x, y in zip(execute_schedule(planned, arrays(17)), execute_schedule(before, arrays(17)), strict=True):
        np.testing.assert_array_equal(x, y)


def changed(steps: Sequence[Step], change: Callable[[Exchange], Sequence[Step]]) -> tuple[Step, ...]:
    """The steps with every exchange changed."""
    result: list[Step] = []
    for step in steps:
        match step:
            case Exchange():
                result += change(step)
            case While():
                result.append(replace(step, body=changed(step.body, change)))
            case Branch(_, then, otherwise):
                result.append(replace(step, then=changed(then, change), otherwise=changed(otherwise, change)))
            case _:
                result.append(step)
    return tuple(result)


@pytest.mark.parametrize("program", [double_buffer, rotated, left_in_the_middle, nested_rounds], ids=by_name)
def test_other_exchanges_are_refused(program: Callable[..., Any]) -> None:
    """None, of one buffer less, and of three or more in the other direction."""
    before = with_copies(program, 17)
    coalesced = coalesce_copies(before)
    changes: list[Callable[[Exchange], Sequence[Step]]] = [
        lambda _: (),
        lambda step: (replace(step, buffers=step.buffers[1:]),),
        lambda step: (replace(step, buffers=step.buffers[::-1]),),
    ]
    for change in changes:
        after = replace(coalesced.schedule, steps=changed(coalesced.schedule.steps, change))
        with pytest.raises(GraphError):
            verify_coalescing(before, after, coalesced.names)


@pytest.mark.parametrize("program", [double_buffer, left_in_the_middle, with_scratch], ids=by_name)
def test_memory_of_what_is_exchanged_is_its_own(program: Callable[..., Any]) -> None:
    """A plan that gives any of its buffers memory that something else has meanwhile is refused."""
    planned = plan_memory(coalesce_copies(with_copies(program, 17)).schedule)
    plan = planned.plan
    assert plan is not None
    exchanged = {name for s in all_steps(planned.steps) if isinstance(s, Exchange) for name in s.buffers}
    (loop,) = (step for step in planned.steps if isinstance(step, While))
    inside = {name for step in all_steps((loop,)) if isinstance(step, Launch) for name in step.buffers}
    arrays = {b.name for b in planned.buffers if b.name in inside and b.role == "temporary" and b.type.shape == (40,)}
    assert program is not with_scratch or arrays - exchanged
    for name, other in itertools.product(arrays | exchanged, exchanged):
        if name != other:
            offsets = {**plan.offsets, name: plan.offsets[other]}
            with pytest.raises(GraphError, match="over"):
                verify_plan(replace(planned, plan=replace(plan, offsets=offsets)))


def products(x: Any, a: Any) -> Any:
    b = a * 0.5
    for i in range(x.shape[0]):
        a, b = b, a * x[i] + jg.sin(b)
    return (a * b).sum()


def products_by_choice(x: Any, a: Any) -> Any:
    b = a * 0.5
    for i in range(x.shape[0]):
        if x[i] > 0:
            a, b = b, a
        a = a * 0.75 + x[i] * b
    return (a - b * 2).sum()


@needs_native
@pytest.mark.parametrize("program", [products, products_by_choice], ids=by_name)
def test_gradients_through_exchanges(program: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    for turns in (17, 18):
        inputs = [jg.asarray(rng.uniform(-1.0, 1.0, turns)), jg.asarray(rng.uniform(-1.0, 1.0, 40))]
        found = jg.trace(lambda x, a: jg.grad(jg.script(program), argnums=(0, 1))(x, a))(*inputs)
        for x, y in zip(found, jg.grad(program, argnums=(0, 1))(*inputs), strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12, atol=1e-14)


@needs_native
@pytest.mark.parametrize("program", [double_buffer, swapped_by_choice, left_in_the_middle, two_pairs], ids=by_name)
def test_exchanges_of_many_samples(program: Callable[..., Any]) -> None:
    inputs = [jg.asarray(np.stack([arrays(17)[which] + k for k in range(3)])) for which in (0, 1)]
    actual = results(jg.trace(jg.vmap(jg.script(program)))(*inputs))
    alone = [results(program(*(one[k] * 1 for one in inputs))) for k in range(3)]
    for number, values in enumerate(actual):
        np.testing.assert_array_equal(values, np.stack([one[number] for one in alone]))


@needs_native
def test_sizes_with_names_exchange_memory_too() -> None:
    """Of any size, the empty one too."""
    traced = jg.script(double_buffer, dynamic_shapes={"a": {0: "n"}})
    for n in (40, 41, 0, 1, 1000):
        due = results(double_buffer(*map(jg.asarray, arrays(19, n))))
        for x, y in zip(results(traced(*map(jg.asarray, arrays(19, n)))), due, strict=True):
            np.testing.assert_array_equal(x, y)


@needs_native
def test_files_exchange_memory(tmp_path: Path) -> None:
    """The file's code is that of the process: in both standalone loaders it is the same image."""
    scripted, inputs = jg.script(left_in_the_middle), list(map(jg.asarray, arrays(17)))
    jg.save(scripted, tmp_path / "model.jg", example_inputs=tuple(inputs))
    write_loaders(tmp_path)
    np.savez(tmp_path / "given.npz", *arrays(17))
    code = (
        "import loader, numpy as np\n"
        "found = loader.load('model.jg')(*np.load('given.npz').values())\n"
        "np.savez('found.npz', *found)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    for x, y in zip(np.load(tmp_path / "found.npz").values(), results(left_in_the_middle(*inputs)), strict=True):
        np.testing.assert_array_equal(x, y)
