"""Control flow on a simulated GPU as users write it: scripts, scans, gradients, prints; the bits of the CPU."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.cuda import block_loops
from jitgraph.eager import placement
from jitgraph.eager.device_emitter import program_for
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.tape import EagerValue, LeafRecord
from jitgraph.ir.op import Sample
from jitgraph.ops import OPS
from jitgraph.runtime import loader
from jitgraph.runtime.loader.abi import ASKED_TYPE, function_address
from jitgraph.runtime.loader.host import Guarded, Runtime
from tests import scripted
from tests.codegen.cuda.loop_programs import newton, printing, rnn, shrink, taking
from tests.codegen.cuda.programs import floats
from tests.graphs import needs_native
from tests.op_loop import require_same
from tests.runtime.cuda.machines import Machine, machine
from tests.transforms import test_elementwise as elements

pytestmark = needs_native


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(seed=5, hides=True, must_end_clean=False) as actual:
        yield actual


def arrays_of(result: Any) -> list[Any]:
    return [leaf.detach().cpu().numpy() for leaf in (result if isinstance(result, tuple | list) else (result,))]


def require_the_bits_of_the_cpu(function: Callable[..., Any], *arguments: Any) -> None:
    expected = arrays_of(function(*arguments))
    actual = function(*[argument.to("cuda") for argument in arguments])
    assert {leaf.device for leaf in (actual if isinstance(actual, tuple | list) else (actual,))} == {"cuda:0"}
    require_same(expected, arrays_of(actual), ulps=0)


collatz = jg.script(scripted.collatz)


@jg.script
def clipped(x, most):
    total = x * 0
    for i in range(x.shape[0]):
        if x[i] > most:
            total = total + most
        else:
            total = total + x
        if jg.sum(total) > 50:
            break
    return total


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jg.split(x @ w + h @ u, 6, axis=-1)
        c = jg.sigmoid(f) * c + jg.sigmoid(i) * jg.tanh(g)
        h = jg.sigmoid(o) * jg.tanh(c)
        return (h, c), h

    (h, c), seen = jg.scan(step, (h, c), x)
    return jg.sum(seen * seen) + jg.sum(c)


def test_scripts(here: Machine) -> None:
    for n, steps in ((1, 0), (7, 16), (27, 111)):
        assert collatz(jg.asarray(n).to("cuda")) == collatz(jg.asarray(n)) == steps
    x = jg.asarray(np.arange(9, dtype=np.float32))
    for most in (2.0, 100.0):
        require_the_bits_of_the_cpu(clipped, x, jg.asarray(np.float32(most)))


def test_an_lstm_by_scan_with_gradients(here: Machine) -> None:
    arguments = floats(4, 3, 5), floats(3, 6), floats(3, 6), floats(5, 24), floats(6, 24)
    require_the_bits_of_the_cpu(jg.trace(jg.grad(lstm, argnums=(0, 1, 2, 3, 4))), *arguments)


def test_a_call_on_the_tape_goes_back_through_its_loops(here: Machine) -> None:
    for function, arguments in (
        (jg.trace(lambda *xs: jg.sum(rnn(*xs)[1] ** 2)), (floats(3, 2, 4), floats(2, 4), floats(4, 4))),
        (jg.trace(shrink), (jg.abs(floats(4)) + 1,)),
    ):
        gradients = []
        for device in ("cpu", "cuda"):
            leaves = [jg.asarray(argument.numpy(), device=device).requires_grad_() for argument in arguments]
            function(*leaves).backward()
            gradients.append(arrays_of([leaf.grad for leaf in leaves]))
        require_same(gradients[0], gradients[1], ulps=0)


def test_what_fails_in_a_loop_names_its_line(here: Machine) -> None:
    function = jg.trace(taking)
    x = floats(6, 3).to("cuda")
    with pytest.raises(IndexError, match=r"index 9 is out of range .*\n  at .*loop_programs.py:"):
        function(x, jg.asarray(np.array([1, 9, 2])).to("cuda"))[0].cpu()
    require_same(arrays_of(jg.trace(newton)(jg.abs(x) + 1)), arrays_of(jg.trace(newton)(jg.abs(x.cpu()) + 1)), ulps=0)


def test_prints_come_in_the_order_and_the_words_of_the_cpu(here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    function, x = jg.trace(printing), floats(3, 2)
    function(x)
    expected = capsys.readouterr().out
    assert expected.count("\n") >= 4
    function(x.to("cuda")).cpu()
    assert capsys.readouterr().out == expected


def test_what_a_print_raises_ends_the_call(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, text: str) -> None:
            raise OSError("no space left")

    function, x = jg.trace(printing), floats(3, 2).to("cuda")
    function(floats(3, 2).to("cuda"))
    with monkeypatch.context() as block:
        block.setattr("sys.stdout", Full())
        with pytest.raises(OSError, match="no space left"):
            function(x)


def test_what_a_handler_raises_ends_a_loop_without_end(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator's driver is Python, where signals would be handled; so the host's poll raises by itself."""

    def forever(x):
        return jg.while_loop(lambda c: jg.max(c) >= 0, lambda c: (c + 1) % 7, x)

    def stop() -> None:
        raise TimeoutError("enough")

    monkeypatch.setattr(block_loops, "MOST_NESTS", 64)
    graph = jg.trace(forever).lower(jg.asarray(np.arange(4))).graph
    executable = program_for(graph, here.device).executable
    runtime = executable.entry.runtime = Runtime()
    runtime.signals = Guarded(stop, loader.INTERRUPTED, 2)
    poll = ASKED_TYPE(runtime.signals.ask)
    runtime.host.poll = function_address(poll)
    with pytest.raises(TimeoutError, match="enough"):
        executable.run([np.arange(4)])


def test_a_stack_takes_memory_that_nobody_uses(here: Machine) -> None:
    function, x = jg.trace(jg.grad(shrink)), jg.abs(floats(4)) + 1
    here.fake.fail("cuMemAllocAsync")
    require_same(arrays_of(function(x)), arrays_of(function(x.to("cuda"))), ulps=0)
    assert here.calls("cuMemAllocAsync") >= 2


def _samples() -> list[tuple[str, int]]:
    actual = []
    for name in ("cond", "scan", "while"):
        samples = OPS[name].samples(np.dtype(np.float32))  # type: ignore[misc]
        actual += [(name, number) for number, sample in enumerate(samples) if _floats(sample)]
    return actual


def _floats(sample: Sample) -> list[int]:
    return [number for number, x in enumerate(sample.inputs) if np.asarray(x).dtype == np.float32]


@pytest.mark.parametrize(("name", "number"), _samples())
def test_gradients_of_control_flow_that_is_applied_at_once(here: Machine, name: str, number: int) -> None:
    op = OPS[name]
    sample = op.samples(np.dtype(np.float32))[number]  # type: ignore[misc]
    chosen, arrays = _floats(sample), [np.asarray(x) for x in sample.inputs]
    results = []
    for make in (EagerValue, lambda array: placement.of_array(array, "cuda:0")):
        handles = [jg.zeros(()) for _ in chosen]
        values = [make(array) for array in arrays]
        for handle, device_name in zip(handles, chosen, strict=True):
            values[device_name] = values[device_name].recorded(LeafRecord(handle))
        outputs = EAGER.emit(op, values, sample.attrs, sample.regions)
        taped = next(x for x in outputs if x.record is not None)
        seeds = [make(np.ones(x.shape, x.dtype)) if x.record is not None else None for x in outputs]
        results.append([None if x is None else _array(x) for x in taped.record.backward(seeds)])
    for want, got in zip(*results, strict=True):
        assert (want is None) == (got is None)
        if want is not None:
            require_same([want], [got], ulps=4)


def _array(value: Any) -> Any:
    return value.array if isinstance(value, EagerValue) else value.fetched()


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Python's handler, also where a process in the background has inherited that the signal is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("loop", ["the host's", "a block's"])
def test_ctrl_c_ends_a_loop(loop: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One that comes while the simulator works is not lost, and the device serves afterwards."""
    size = 100 if loop == "the host's" else 3

    @jg.trace
    def forever(x: Any) -> Any:
        return jg.while_loop(lambda x: x.sum() < 1e9, lambda x: jg.tanh(x @ x) * 0.5, x)

    with machine(hides=False):
        x = jg.asarray(np.eye(size, dtype=np.float32), device="cuda")
        forever.lower(x).compile()
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            forever(x)
        timer.join()
        assert (x + 1).sum().cpu().item() == size * size + size
    assert "ignored" not in capfd.readouterr().err


def test_pinned_memory_of_a_call_that_failed_serves_again() -> None:
    """But not before the copies to it, which were asked for before the failure, are done."""

    @jg.trace
    def far(x: Any) -> Any:
        return jg.while_loop(lambda x: x.sum() < 1e3, lambda x: jg.cos(x @ x) + x, x)

    with machine(hides=False) as actual:
        x = jg.asarray(np.ones((100, 100), np.float32), device="cuda")
        want = far(x).cpu().numpy()
        pinned = len(actual.fake.state.pinned)
        for _ in range(3):
            actual.fake.fail("cuStreamSynchronize", code=1)
            with pytest.raises(jg.errors.CudaError, match="launch"):
                far(x)
            np.testing.assert_array_equal(far(x).cpu().numpy(), want)
        assert len(actual.fake.state.pinned) <= pinned + 1


@pytest.mark.parametrize("steps", [4 * 384 + 3, 9 * 384])
def test_a_long_product_in_a_small_loop(here: Machine, steps: int) -> None:
    """One that is cut into parts, in a loop that is one launch, and in one of which each turn is some."""
    rows = 2 if steps < 2000 else 20
    y = np.random.default_rng(0).standard_normal((steps, rows)).astype(np.float32)

    def function(y: Any) -> Any:
        return jg.scan(lambda c, _: (jg.tanh(c @ y) @ y.T, c[0, 0]), y.T, jg.zeros(3, device=y.device))

    actual, expected = (jg.trace(function)(jg.asarray(y, device=device_name)) for device_name in ("cuda", "cpu"))
    for one, other in zip(arrays_of(actual), arrays_of(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("function", [elements.shrink, elements.poles, elements.halvings])
def test_functions_of_elements(here: Machine, function: Callable[..., Any]) -> None:
    op = jg.elementwise(function)
    x = jg.asarray(np.asarray([[0.0, -0.75, 2.5], [9.0, -33.0, 0.25]], np.float32))
    require_the_bits_of_the_cpu(jg.trace(lambda x: op(x * 2) + 1), x)
    require_the_bits_of_the_cpu(jg.trace(jg.grad(lambda x: op(x).sum())), x)
