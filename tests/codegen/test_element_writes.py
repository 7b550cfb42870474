"""Writes of elements in compiled loops go into the carry's own memory, and mean what they mean in NumPy."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph.codegen.kernels.coalescing import _renamed, coalesce_copies
from jitgraph.codegen.kernels.coalescing_verifier import verify_coalescing
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.schedules.gpu import GPU
from jitgraph.codegen.lower.select import select, select_with_copies
from jitgraph.errors import GraphError
from jitgraph.passes import pipeline
from jitgraph.standalone import write_loaders
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.moved_bytes import moved_bytes
from tests.graphs import TARGET, needs_native
from tests.programs import writes
from tests.tracing.script.scripts import define

COUNT = int(os.environ.get("WRITE_PROGRAMS", "12"))


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")
    yield


def element(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        out[i] = x[i] * 2
    return out


def neighbours(x: Any, out: Any) -> Any:
    for i in range(1, x.shape[0] - 1):
        out[i] = out[i - 1] + out[i] * 3 - x[i + 1]
    return out


def from_the_end(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        out[-1 - i] += x[i]
    return out


def swapped(x: Any, out: Any) -> Any:
    for i in range(x.shape[0] // 2):
        out[i], out[-1 - i] = out[-1 - i], out[i]
        out[0], out[1] = out[1], out[0]
    return out


def in_branches(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        if x[i] > 3:
            out[i] = 1
        elif x[i] > 1:
            j = i
            if i > 2:
                j = i - 1
            out[j] = x[i]
    return out


def until(x: Any, out: Any) -> Any:
    i = 0
    while i < x.shape[0] and out[i] < 50:
        if x[i] % 2 == 0:
            out[i] = x[i]
        i += 1
    return out


def two_arrays(x: Any, out: Any) -> Any:
    other = out * 1
    for i in range(x.shape[0]):
        j = (i * 7) % x.shape[0]
        out[i], other[j] = other[i] + 1, out[j] - x[i]
    return out, other


def in_a_list(x: Any, out: Any) -> Any:
    state = [out, x[0]]
    for i in range(x.shape[0]):
        state[0][i] = state[1]
        state[1] = state[1] + x[i]
    return state[0], state[1]


def rows(x: Any, out: Any) -> Any:
    table = jg.zeros((x.shape[0], 3), dtype=jg.int64)
    for i in range(x.shape[0]):
        table[i] = x[i]
        table[i, 1] = out[i]
        table[i, 1:3] = table[i, 0:2] + 1
    return table


def nested(x: Any, out: Any) -> Any:
    table = jg.zeros((x.shape[0], 4), dtype=jg.int64)
    for i in range(1, x.shape[0]):
        for j in range(1, 4):
            if x[i] > out[j]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = table[i, j - 1] - table[i - 1, j]
    return table


def counted(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        out[abs(x[i]) % out.shape[0]] += 1
    return out


def summed(x: Any, out: Any) -> Any:
    for i in range(x.shape[0]):
        out[i] = out[i - 1] + x[i]
    return out.max() - out.min()


CONSTANT = [
    element, neighbours, from_the_end, swapped, in_branches, until, two_arrays, in_a_list, rows, nested, counted,
    summed,
]  # fmt: skip
"""Loops of which a turn moves as many bytes whatever the length of their arrays."""


def exchanged(x: Any, out: Any) -> Any:
    other = out * 2
    for i in range(x.shape[0]):
        out[i] = other[i] + x[i]
        out, other = other, out
    return out, other


def used_afterwards(x: Any, out: Any) -> Any:
    total = x[0] * 0
    for i in range(x.shape[0]):
        before = out * 1
        out[i] = x[i]
        total = total + before[i] * 2 + before.sum()
    return out, total


def copied_by_each_turn(x: Any, out: Any) -> Any:
    pattern = jg.roll(out, 1) + x
    total = x * 0
    for i in range(x.shape[0]):
        row = pattern * 1
        row[i] = total[0]
        total = total + row
    return total


def returned_twice(x: Any, out: Any) -> Any:
    other = out
    for i in range(x.shape[0]):
        out = out * 1
        out[i] = x[i] + other[i]
    return out, out, other


def captured(x: Any, out: Any) -> Any:
    first = out * 1
    moving = first * 1
    for i in range(x.shape[0]):
        moving[i] = first[-1 - i] + x[i]
    return moving, first


def carried_and_captured(x: Any, out: Any) -> Any:
    first = out + 1

    def turn(carry: Any, i: Any) -> Any:
        new = first[x.shape[0] - 1 - i] + x[i]
        return jg.dynamic_update_slice(carry, new.reshape(1), (i,)), first[i]

    return jg.scan(turn, first, jg.arange(x.shape[0]))


def kept_in_turns(x: Any, out: Any) -> Any:
    def turn(carry: Any, i: Any) -> Any:
        carry = carry * 1
        carry[i] = carry[i - 1] + 1
        return carry, carry

    return jg.scan(turn, out, jg.arange(x.shape[0]))


HAZARDS = [
    exchanged, used_afterwards, copied_by_each_turn, returned_twice, captured, carried_and_captured, kept_in_turns
]  # fmt: skip
"""Loops in which the old value is wanted after the write, so that some copies stay."""


def arrays(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.integers(-9, 9, n), rng.integers(0, 30, n)]


def results(actual: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in (actual if isinstance(actual, tuple | list) else [actual])]


def schedule_of(program: Callable[..., Any], n: int) -> Schedule:
    lowered = jg.script(program).lower(*map(jg.asarray, arrays(n)))
    schedule: Schedule = lowered.stages.schedule
    return schedule


@needs_native
@pytest.mark.parametrize("program", [*CONSTANT, *HAZARDS], ids=lambda program: program.__name__)
def test_writes_mean_what_they_mean_eagerly(program: Callable[..., Any]) -> None:
    for n in (4, 9):
        due = results(program(*map(jg.asarray, arrays(n))))
        for x, y in zip(results(jg.script(program)(*map(jg.asarray, arrays(n)))), due, strict=True):
            np.testing.assert_array_equal(x, y)


@needs_native
@pytest.mark.parametrize("program", CONSTANT, ids=lambda program: program.__name__)
def test_a_turn_moves_no_more_bytes_in_longer_arrays(program: Callable[..., Any]) -> None:
    small, large = (moved_bytes(schedule_of(program, n), turns=n) for n in (500, 1000))
    assert large < 2.2 * small, f"{small} bytes for 500 elements, {large} for 1,000"
    assert large < 1000 * 1000


def test_the_count_tells_a_copy_of_the_carry() -> None:
    small, large = (moved_bytes(schedule_of(used_afterwards, n), turns=n) for n in (500, 1000))
    assert large > 3.5 * small


def with_copies(program: Callable[..., Any], n: int) -> Schedule:
    graph = jg.script(program).lower(*map(jg.asarray, arrays(n))).graph
    return select_with_copies(pipeline.run(graph, TARGET), CPU)


@pytest.mark.parametrize("program", [*CONSTANT, *HAZARDS], ids=lambda program: program.__name__)
def test_schedules_with_and_without_copies_agree(program: Callable[..., Any]) -> None:
    """By the executor, and as proved."""
    before = with_copies(program, 5)
    coalesced = coalesce_copies(before)
    verify_coalescing(before, coalesced.schedule, coalesced.names)
    due = execute_schedule(before, arrays(5))
    for x, y in zip(execute_schedule(coalesced.schedule, arrays(5)), due, strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_verifier_refuses_merges_that_change_results() -> None:
    """Of buffers merged at random some pairs may be one; for all others there is a step that reads another value."""
    told = Counter[str]()
    for program in (swapped, two_arrays, in_branches, nested, *HAZARDS):
        before = with_copies(program, 5)
        due = execute_schedule(before, arrays(5))
        alike = [
            (a.name, b.name)
            for a, b in itertools.permutations(before.buffers, 2)
            if a.role == "temporary" and (a.type.dtype, a.type.size) == (b.type.dtype, b.type.size)
        ]
        for name, other in random.Random(1).sample(alike, min(20, len(alike))):
            names = {name: other}
            kept = tuple(buffer for buffer in before.buffers if buffer.name != name)
            after = replace(before, steps=_renamed(before.steps, names), buffers=kept)
            try:
                verify_coalescing(before, after, names)
            except GraphError:
                told["refused"] += 1
                continue
            told["accepted"] += 1
            for x, y in zip(execute_schedule(after, arrays(5)), due, strict=True):
                np.testing.assert_array_equal(x, y, err_msg=f"{program.__name__}: {name} as {other}")
    assert told["refused"] > 40 and told["accepted"] > 20, told


def running_products(x: Any, out: Any) -> Any:
    out = out * 1.0
    for i in range(1, x.shape[0]):
        out[i] = out[i - 1] * x[i] + out[i] * x[i - 1]
    return out


def rows_of_products(x: Any, out: Any) -> Any:
    table = jg.zeros((x.shape[0], 3), dtype=jg.float64)
    for i in range(1, x.shape[0]):
        table[i] = table[i - 1] * x[i] + out[i]
        table[i, 1] = x[i] * table[i, 0]
        table[i, 1:3] = table[i, 0:2] * 0.5
    return table


def products_in_branches(x: Any, out: Any) -> Any:
    out = out * 1.0
    i = 0
    while i < x.shape[0] and out[i] < 50:
        if x[i] > 0:
            out[i] = x[i] * out[i - 1]
        i += 1
    return out


def products_in_two_loops(x: Any, out: Any) -> Any:
    out = out * 1.0
    for i in range(x.shape[0]):
        for j in range(3):
            out[i] = out[i] * x[j] + x[i] * 0.5
    return out


GRADIENTS = [running_products, rows_of_products, products_in_branches, products_in_two_loops]


def floats(n: int) -> list[jg.Tensor]:
    rng = np.random.default_rng(n)
    return [jg.asarray(rng.uniform(-1.0, 1.0, n)), jg.asarray(rng.uniform(0.5, 1.5, n))]


def gradient(program: Callable[..., Any], prepared: Callable[..., Any]) -> Any:
    inner = prepared(program)
    return lambda x, out: jg.grad(lambda x, out: (inner(x, out) * 0.5).sum(), argnums=(0, 1))(x, out)


@needs_native
@pytest.mark.parametrize("program", GRADIENTS, ids=lambda program: program.__name__)
def test_gradients_of_writes(program: Callable[..., Any]) -> None:
    """As of the plain loop, with as many bytes a turn in longer arrays, residuals included."""
    traced = jg.trace(gradient(program, jg.script))
    for x, y in zip(traced(*floats(7)), gradient(program, lambda plain: plain)(*floats(7)), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12)
    small, large = (moved_bytes(traced.lower(*floats(n)).stages.schedule, turns=n) for n in (300, 600))
    assert large < 2.2 * small, f"{small} bytes for 300 elements, {large} for 600"


def slices_by_samples(x: Any, out: Any) -> Any:
    for i in range(x.shape[0] - 2):
        if x[i] > 0:
            j = x[i] % 3
            out[j : j + 1] = out[i : i + 1] + 1
            out[i : i + 2] = out[j] + x[i]
            if out[j] % 2 == 0:
                out[j] -= 7
    return out


def lists_by_samples(x: Any, out: Any) -> Any:
    index = jg.asarray(np.array([0, 2, -1, 2]))
    for i in range(x.shape[0]):
        if out[i] > 10:
            out[(index + i + x[i]) % 4] = x[i] + index
            out[x[i] % 4] += 1
        else:
            out[-1 - i] = out[i]
    return out


def columns_by_samples(x: Any, out: Any) -> Any:
    table = jg.zeros((3, x.shape[0]), dtype=jg.int64)
    for i in range(x.shape[0]):
        if x[i] > 0:
            table[:, x[i] % 3] = x[i]
            table[x[i] % 3, i] = 5
        elif x[i] < -4:
            break
        else:
            table[1:, i] = table[:2, -1 - i]
    return table


def inner_loops(x: Any, out: Any) -> Any:
    other = out + 1
    for i in range(x.shape[0]):
        if x[i] > 0:
            k = 0
            while k < 3 and other[i - k] > 4:
                out[i - k], k = other[i] + k, k + 1
            for j in range(3):
                other[j] = other[j] + out[i]
        elif out[i] > 20:
            break
    return out, other


BY_SAMPLES = [slices_by_samples, lists_by_samples, columns_by_samples, inner_loops]
"""Whose samples go different ways, and write at indices of their own."""


def samples(n: int, count: int = 3) -> list[jg.Tensor]:
    return [jg.asarray(np.stack([arrays(n)[which] + k for k in range(count)])) for which in (0, 1)]


@needs_native
@pytest.mark.parametrize("program", [*CONSTANT, *HAZARDS, *BY_SAMPLES], ids=lambda program: program.__name__)
def test_writes_of_many_samples(program: Callable[..., Any]) -> None:
    """As each sample alone, with as many bytes a turn in longer arrays, though samples branch and end as they like."""
    mapped = jg.trace(jg.vmap(jg.script(program)))
    alone = [results(program(*(one[k] * 1 for one in samples(6)))) for k in range(3)]
    for number, actual in enumerate(results(mapped(*samples(6)))):
        np.testing.assert_array_equal(actual, np.stack([one[number] for one in alone]))
    if program in HAZARDS:
        return
    schedules = [select(mapped.lower(*samples(n)).optimized, CPU) for n in (300, 600)]
    if program is inner_loops:  # whose inner loop would count as long as the array
        small, large = (moved_bytes(schedule, turns=5) for schedule in schedules)
        assert large < 1.3 * small, f"{small} bytes in 5 turns for 300 elements, {large} for 600"
        return
    small, large = (moved_bytes(schedule, turns=n) for schedule, n in zip(schedules, (300, 600), strict=True))
    assert large < 2.2 * small, f"{small} bytes for 300 elements, {large} for 600"


@pytest.mark.parametrize("program", [in_branches, until, *BY_SAMPLES[:3]], ids=lambda program: program.__name__)
def test_writes_of_many_samples_on_gpus(program: Callable[..., Any]) -> None:
    """By the executor, and in bytes, for more samples than are updated one after another."""
    count = 20
    graph = jg.trace(jg.vmap(jg.script(program))).lower(*samples(6, count)).optimized
    alone = [np.asarray(program(*(one[k] * 1 for one in samples(6, count)))) for k in range(count)]
    (actual,) = execute_schedule(select(graph, GPU, verify=True), [np.asarray(one) for one in samples(6, count)])
    np.testing.assert_array_equal(actual, np.stack(alone))
    mapped = jg.trace(jg.vmap(jg.script(program)))
    graphs = [mapped.lower(*samples(n, count)).optimized for n in (300, 600)]
    small, large = (moved_bytes(select(graph, GPU), turns=n) for graph, n in zip(graphs, (300, 600), strict=True))
    assert large < 2.2 * small, f"{small} bytes for 300 elements, {large} for 600"


@needs_native
def test_saved_loops_write_in_place(tmp_path: Path) -> None:
    """The file's code is that of the process: in both standalone loaders it is the same image."""
    scripted, arguments = jg.script(nested), list(map(jg.asarray, arrays(9)))
    jg.save(scripted, tmp_path / "nested.jg", example_inputs=tuple(arguments))
    write_loaders(tmp_path)
    code = (
        "import loader, numpy as np, sys\n"
        "found = loader.load('nested.jg')(*np.load('given.npz').values())\n"
        "np.save('found.npy', found)\n"
    )
    np.savez(tmp_path / "given.npz", *arrays(9))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), np.asarray(nested(*arguments)))


@needs_native
@pytest.mark.parametrize("index", [6, -7])
def test_an_index_out_of_range_is_an_error_at_the_line(index: int) -> None:
    @jg.script
    def written(out: Any, k: Any) -> Any:
        for i in range(3):
            out[k + i * 0] = 1
        return out

    @jg.script
    def within(out: Any, k: Any) -> Any:
        for i in range(3):
            out[i, k] = 1
            out[i, k, 1:2] = 4
        return out

    with pytest.raises(IndexError, match="out of range"):
        written(jg.zeros(6), jg.asarray(index))
    with pytest.raises(IndexError, match="out of range"):
        within(jg.zeros((3, 6, 3)), jg.asarray(index))


@needs_native
def test_random_programs_write_what_numpy_writes() -> None:
    covered: Counter[str] = Counter()

    @settings(
        max_examples=COUNT,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=(Phase.generate,),  # programs are small, and shrinking one takes minutes
    )
    @given(writes.programs(), st.integers(0, 9), st.integers(0, 1000))
    def run(source: str, n: int, seed: int) -> None:
        program = define(source)
        rng = np.random.default_rng(seed)
        a, b, c = (rng.integers(0, 97, shape) for shape in ((40,), (40,), (3, 4)))  # long enough to be exchanged
        due = program(a, b, c, n)
        found = jg.script(program)(*map(jg.asarray, (a, b, c)), jg.asarray(n))
        for x, y in zip(found, due, strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=source)
        covered.update(
            word
            for word in ("if", "while", "break", "a, b = b, a", "a, b, d = b, d, a", "where", "[::2]")
            if word in source
        )

    run()
    print(covered)


def test_select_proves_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the analysis is an error under JITGRAPH_VERIFY, with the step that would read another value."""
    graph = jg.script(used_afterwards).lower(*map(jg.asarray, arrays(4))).graph
    monkeypatch.setattr("jitgraph.codegen.kernels.coalescing._Classes._meet", lambda self, one, others: None)
    with pytest.raises(GraphError, match=r"does not contain the value of|twice|written"):
        select(pipeline.run(graph, TARGET), CPU, verify=True)


def test_a_branch_that_copies_nothing_is_no_step() -> None:
    def either(x: Any, p: Any) -> Any:
        return tuple(jg.cond(p, lambda x: x, lambda x: x, ~x) for _ in range(2))

    graph = jg.trace(either).lower(jg.zeros((3, 0), dtype="bool"), jg.asarray(True)).graph
    before = select_with_copies(pipeline.run(graph, TARGET), CPU)
    coalesced = coalesce_copies(before)
    verify_coalescing(before, coalesced.schedule, coalesced.names)
    assert not before.steps and not coalesced.schedule.steps
