"""Branches, loops, stacks and prints: run by the host, and as one block; the bits of the executor either way."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.cuda import block_loops
from jitgraph.codegen.kernels.schedule import Exchange, all_steps
from jitgraph.ir.interpreter import interpret
from jitgraph.passes.autodiff import expand_grads
from jitgraph.runtime import loader
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda import loop_programs
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import code_of, schedule_of
from tests.codegen.cuda.loop_programs import PROGRAMS, taking, taking_while, traced
from tests.codegen.cuda.planned import Planned
from tests.codegen.cuda.programs import floats
from tests.graphs import needs_native
from tests.op_loop import require_same

pytestmark = needs_native
FORMS = ("host", "block", "few_turns")
WAITING = {
    "gradient_of_while",
    "nested",
    "newton",
    "swapped",
    "exchanged",
    "no_turns_of_while",
    "one_long_row",
    "printing",
    "products",
}
"""Programs whose entry looks at the device although their loops are blocks: of unknown length, with stacks, prints."""


LONG = {"exchanged", "gradient_of_while", "nested", "one_long_row", "rnn", "rotated"}
"""Programs that take more than the few turns."""


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Loops as the host's, as one block, and as blocks of few turns a launch."""
    if request.param == "host":
        monkeypatch.setattr(block_loops, "MOST_STATEMENTS", 0)
    if request.param == "few_turns":
        monkeypatch.setattr(block_loops, "MOST_NESTS", 14)
    return str(request.param)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_give_the_bits_of_the_executor(name: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    if form == "few_turns" and name not in LONG:
        pytest.skip("few turns are all of its turns")
    graph, arguments = traced(name)
    schedule = schedule_of(graph)
    expected = execute_schedule(schedule, arguments)
    if form == "block":
        for evaluated, executed in zip(interpret(expand_grads(graph), arguments), expected, strict=True):
            require_same([np.asarray(evaluated)], [executed], ulps=64, scale=float(np.abs(executed).max(initial=1)))
    planned = Planned(schedule, arguments, races=form == "block" and name != "powers")
    assert planned.run() == loader.OK
    require_same(expected, planned.results(), ulps=0)
    if form == "block":
        assert planned.code.waits == (name in WAITING)


@pytest.mark.parametrize("name", ["exchanged", "rotated"])
def test_programs_that_exchange_do_so_here(name: str) -> None:
    assert any(isinstance(step, Exchange) for step in all_steps(schedule_of(traced(name)[0]).steps))


@needs_native
def test_a_print_has_what_its_operands_were_then(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    graph, arguments = traced("printing")
    schedule = schedule_of(graph)
    planned = Planned(schedule, arguments)
    assert planned.run() == loader.OK
    for site, arrays in planned.printed:
        schedule.prints[site].write(arrays)
    printed = capsys.readouterr().out
    execute_schedule(schedule, arguments)
    assert printed == capsys.readouterr().out
    assert printed.count("c = ") == 3


def test_a_failed_check_ends_its_loop(form: str) -> None:
    index = np.array([1, 5, 9, 2, 7])
    for function, arguments, value in (
        (taking, (floats(6, 3), jg.asarray(index)), 9),
        (taking_while, (floats(6, 3), jg.asarray(2)), 6),
    ):
        schedule = schedule_of(jg.trace(function).lower(*arguments).graph)
        planned = Planned(schedule, [argument.numpy() for argument in arguments])
        planned.stop_after = 40
        assert planned.run() == loader.OK
        _, order, reported, bound, check = planned.record
        assert order != -1
        assert (reported, bound) == (value, 6)
        assert schedule.checks[check].kind == "IndexError"


def test_a_loop_without_end_asks_whether_to_stop(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "block":
        monkeypatch.setattr(block_loops, "MOST_NESTS", 1000)

    def forever(x):
        return jg.while_loop(lambda c: jg.max(c) >= 0, lambda c: (c + 1) % 7, x)

    argument = jg.asarray(np.arange(4))
    planned = Planned(schedule_of(jg.trace(forever).lower(argument).graph), [argument.numpy()])
    planned.stop_after = 1
    assert planned.run() == loader.INTERRUPTED
    assert planned.polls == 2


def test_loops_over_named_sizes(form: str) -> None:
    x = floats(5, 4, 8)
    lowered = jg.trace(loop_programs.rnn, dynamic_shapes={"x": {0: "n"}, "h": {}, "w": {}}).lower(
        x, floats(4, 8), floats(8, 8)
    )
    arguments = [x.numpy(), floats(4, 8).numpy(), floats(8, 8).numpy()]
    schedule = schedule_of(lowered.graph)
    assert schedule.sizes == ("n",)
    for length in (5, 0, 1):
        arguments[0] = x.numpy()[:length]
        planned = Planned(schedule, arguments)
        assert planned.run() == loader.OK
        require_same(execute_schedule(schedule, arguments), planned.results(), ulps=0)


def test_a_scan_is_one_launch_and_waits_for_nothing() -> None:
    graph, arguments = traced("rnn")
    planned = Planned(schedule_of(graph), arguments)
    assert planned.run() == loader.OK
    assert not planned.code.waits
    assert planned.driver.calls == ["cuLaunchKernel"] * 3  # the carry's beginning, the counter's, the loop


def test_a_large_scan_waits_for_nothing_either() -> None:
    arguments = floats(3, 70, 70), floats(70, 70)
    schedule = schedule_of(
        jg.trace(lambda x, w: jg.scan(lambda c, v: (c @ w + v, None), x[0], x)[0]).lower(*arguments).graph
    )
    planned = Planned(schedule, [argument.numpy() for argument in arguments])
    assert planned.run() == loader.OK
    assert "cuStreamSynchronize" not in planned.driver.calls
    require_same(execute_schedule(schedule, planned.arguments), planned.results(), ulps=0)


def test_a_stack_grows_and_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(x):
        return jg.sum(jg.while_loop(lambda c: jg.sum(c) < 1e6, lambda c: jg.sinh(c * 0) + c * 1.5, x))

    argument = floats(3000) ** 2
    planned = Planned(schedule_of(jg.trace(jg.grad(doubled)).lower(argument).graph), [argument.numpy()])
    assert planned.run() == loader.OK
    assert planned.driver.calls.count("cuMemAllocAsync") > 1
    assert planned.driver.calls.count("cuMemAllocAsync") == planned.driver.calls.count("cuMemFreeAsync")
    require_same(execute_schedule(planned.schedule, planned.arguments), planned.results(), ulps=0)


@pytest.mark.parametrize("symbol", ["cuStreamSynchronize", "cuMemAllocAsync", "cuMemcpyDtoDAsync_v2"])
def test_what_the_driver_refuses_in_a_loop_ends_the_entry(symbol: str) -> None:
    graph, arguments = traced("gradient_of_while")
    planned = Planned(schedule_of(graph), arguments)
    planned.driver.result[symbol] = 719
    assert planned.run() == -719
    assert symbol in planned.driver.calls


@needs_ptxas
def test_blocks_are_assembled_and_spill_nothing() -> None:
    codes = [code_of(schedule_of(traced(name)[0])).texts["ptx"] for name in PROGRAMS]
    results = [function for function in assemble(codes, "sm_90") if function.name.startswith("k_loop")]
    assert len(results) > 10
    assert not [function for function in results if function.spilled]
