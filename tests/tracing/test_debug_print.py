"""Printing from compiled code: what is written is what eager writes, whoever runs the code, once and in order."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from tests.programs.prints import PROGRAMS, Program, X, loops, to_errors
from tests.tracing.script.scripts import define

every = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)


def text_of(run: Callable[[], Any]) -> str:
    """What ``run`` writes to standard output of Python."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        run()
    return written.getvalue()


def tensors(program: Program) -> list[Any]:
    return [jg.asarray(array) for array in program.arrays]


def eager(program: Program) -> str:
    return text_of(lambda: program.function(*tensors(program)))


def decorated(program: Program, **options: Any) -> Any:
    return (jg.script if program.staged else jg.trace)(program.function, **options)


@every
def test_compiled_code_writes_what_eager_writes(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")
    wanted, compiled = eager(program), decorated(program)
    assert wanted.strip()
    for _ in range(2):  # the call that records, and one that does not
        assert text_of(lambda: compiled(*tensors(program))) == wanted
    assert compiled.cache_info().misses == 1
    assert text_of(lambda: jg.script(program.function)(*tensors(program))) == wanted


@every
@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads_writes_the_same(program: Program, threads: int) -> None:
    compiled = decorated(program, threads=threads)
    assert text_of(lambda: compiled(*tensors(program))) == eager(program)


@every
def test_the_interpreter_writes_the_same(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    assert text_of(lambda: decorated(program)(*tensors(program))) == eager(program)


@every
def test_the_executor_of_schedules_writes_the_same(program: Program) -> None:
    from jitgraph_testing.kernels.schedule_executor import execute_schedule

    if program.arrays[0].size > 1000:
        pytest.skip("the executor takes too long")
    schedule = decorated(program).lower(*tensors(program)).stages.schedule
    assert text_of(lambda: execute_schedule(schedule, program.arrays)) == eager(program)


@every
def test_verification_writes_once(program: Program) -> None:
    compiled = decorated(program, verify=True)
    for _ in range(2):
        assert text_of(lambda: compiled(*tensors(program))) == eager(program)


@every
def test_every_reader_of_a_file_writes_the_same(program: Program, tmp_path: Path, capfd: Any, c_library: Any) -> None:
    path = tmp_path / "model.jg"
    jg.save(decorated(program), path, example_inputs=tuple(tensors(program)))
    wanted = eager(program)
    assert text_of(lambda: jg.load(path)(*tensors(program))) == wanted
    model = loader.load(path)
    for _ in range(2):
        assert text_of(lambda: model(*program.arrays)) == wanted
    if c_library is not None:
        capfd.readouterr()
        in_c = c_library.load(path)
        in_c(*program.arrays)
        ctypes.CDLL(None).fflush(None)
        in_c.close()
        assert capfd.readouterr().out == wanted


def test_saving_twice_prints_nothing(tmp_path: Path) -> None:
    def save() -> None:
        jg.save(jg.trace(loops), tmp_path / "model.jg", example_inputs=(X,))
        jg.trace(loops).lower(X)

    assert text_of(save) == ""


def test_a_child_writes_to_its_own_output() -> None:
    compiled = jg.trace(loops)
    wanted = text_of(lambda: compiled(jg.asarray(X)))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writing, "w") as sys.stdout:
            compiled(jg.asarray(X))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        assert file.read() == wanted
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- what looks different at each call ------------------------------------------------------------------------------


def test_numbers_look_as_in_python_and_vary_without_retraces() -> None:
    @jg.trace
    def f(x: Any, epoch: int, rate: float) -> Any:
        print("epoch", epoch, rate, {"e": epoch + 1}, f"{3}")
        jg.debug.print("{:>4}|{!r:>6}|{:.2f}", epoch, epoch, rate)
        return x * rate

    calls = [(0, 0.1), (1, 1e-9), (2, 3.0), (3, -0.5), (40, 0.25)]
    for epoch, rate in calls:
        wanted = f"epoch {epoch} {rate} {{'e': {epoch + 1}}} 3\n{epoch:>4}|{epoch!r:>6}|{rate:.2f}\n"
        assert text_of(lambda: f(jg.ones(2), epoch, rate)) == wanted  # noqa: B023
    assert f.cache_info().misses <= 3


def test_sizes_are_those_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any) -> Any:
        print(x.shape, x.shape[0] * 2, x[:, :1])
        jg.debug.print("{:03}", x.shape[0])
        return x

    jg.save(f, tmp_path / "model.jg", example_inputs=(np.ones((4, 2), np.float32),))
    for run in (f, jg.load(tmp_path / "model.jg"), loader.load(tmp_path / "model.jg")):
        for n in (2, 5):
            x = np.ones((n, 2), np.float32)
            wanted = f"({n}, 2) {2 * n} {jg.asarray(x[:, :1])!r}\n{n:03}\n"
            assert text_of(lambda: run(x)) == wanted  # noqa: B023
    assert f.cache_info().misses == 1


def test_state_from_outside_is_read_at_each_call() -> None:
    weight = jg.ones(2)

    @jg.trace
    def f(x: Any) -> Any:
        nonlocal weight
        print("weight", weight)
        weight += x
        print("then", weight)
        return x

    assert text_of(lambda: [f(jg.ones(2)), f(jg.ones(2))]) == text_of(
        lambda: [
            print(name, jg.full(2, k)) for name, k in (("weight", 1.0), ("then", 2.0), ("weight", 2.0), ("then", 3.0))
        ]
    )


# --- streams, and what goes wrong -----------------------------------------------------------------------------------


def test_standard_error_and_the_output_of_the_moment(tmp_path: Path, capfd: Any, c_library: Any) -> None:
    compiled = jg.trace(to_errors)
    x = jg.asarray(X)
    compiled(x)
    assert capfd.readouterr() == (f"out {x}\nout again\n", f"err {x}\n")
    assert text_of(lambda: compiled(x)) == f"out {x}\nout again\n"
    assert capfd.readouterr() == ("", f"err {x}\n")
    jg.save(compiled, tmp_path / "model.jg", example_inputs=(x,))
    loader.load(tmp_path / "model.jg")(X)
    assert capfd.readouterr() == (f"out {x}\nout again\n", f"err {x}\n")
    if c_library is not None:
        c_library.load(tmp_path / "model.jg")(X)
        ctypes.CDLL(None).fflush(None)
        assert capfd.readouterr() == (f"out {x}\nout again\n", f"err {x}\n")


def test_a_file_takes_python_values_alone() -> None:
    class File:
        def write(self, text: str) -> None:
            raise AssertionError(text)

    file = File()

    @jg.trace
    def f(x: Any) -> Any:
        note = io.StringIO()
        print("made here", file=note)
        assert note.getvalue() == "made here\n"
        return x

    f(jg.ones(2))
    with pytest.raises(jg.TraceError, match="to a File") as caught:
        jg.trace(lambda x: print(x, file=file))(jg.ones(2))
    assert "test_debug_print.py" in str(caught.value)


IN_ARGUMENTS = [  # which scripts make when the compiled code runs, and traces cannot
    lambda x: print(f"loss {x}"),
    lambda x: print(f"loss {x.sum():.3f}"),
    lambda x: print(f"loss {x!r}"),
    lambda x: print("loss " + str(x)),
    lambda x: print("loss {}".format(x)),  # noqa: UP032
    lambda x: ORIGINAL(x),
]
TOO_EARLY = [
    lambda x: sys.stdout.write(f"{x}"),
    lambda x: print(repr(x).rjust(60)),
    lambda x: print(f"{x}" == "1"),
    lambda x: print({"a": 1}[f"{x}"]),
    lambda x: print(len(f"{x}")),
    lambda x: print("loss %s" % x),  # noqa: UP031
]


@pytest.mark.parametrize("function", [*IN_ARGUMENTS, *TOO_EARLY])
@pytest.mark.parametrize("decorator", [jg.trace, jg.script])
def test_a_text_made_before_the_print_is_refused(function: Any, decorator: Any) -> None:
    if decorator is jg.script and function in IN_ARGUMENTS:
        wanted = text_of(lambda: function(jg.ones(2)))
        assert text_of(lambda: decorator(function)(jg.ones(2))) == wanted
        return
    with pytest.raises(jg.TraceError, match=r'jg\.debug\.print\("loss \{\}", loss\)') as caught:
        decorator(function)(jg.ones(2))
    assert "test_debug_print.py" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["f'{i}' == '1'", "{'1': 2}[f'{i}']", "len(str(i))", "'%d' % i", "[f'{i}']", "f'{i}' * 2"]
)
def test_a_text_of_a_staged_number_is_made_in_the_argument_of_a_print_alone(text: str) -> None:
    function = define(f"def program(n):\n    for i in range(n):\n        print({text})\n    return n\n")
    with pytest.raises(jg.ScriptError, match=r"(?s)program_\d+\.py:3.*hint"):
        jg.script(function)(jg.asarray(3))


def test_names_that_mean_something_else_are_what_they_are() -> None:
    def shadowed(n: Any) -> Any:
        def str(x: Any) -> Any:
            return x + 1 if x > 1 else x

        for i in range(n):
            print(str(i), "|" + repr(i))
        return n

    def lengths(n: Any) -> Any:
        def print(text: Any) -> Any:
            return len(text)

        total = 0
        for i in range(n):
            total += print(f"{'a' * 3}") + i
        return total

    def compared(n: Any) -> Any:
        def repr(x: Any) -> Any:
            return f"{x}" == "1"

        for i in range(n):
            print(repr(i))
        return n

    n = jg.asarray(4)
    with pytest.raises(jg.ScriptError, match="a text"):
        jg.script(compared)(n)
    assert text_of(lambda: jg.script(shadowed)(n)) == text_of(lambda: shadowed(4))
    assert jg.script(lengths)(n) == lengths(4)


def test_a_text_that_an_object_makes_of_tensors_is_one_of_its_print() -> None:
    class Model:
        def __init__(self, weight: Any) -> None:
            self.weight = weight

        def __str__(self) -> str:
            return f"Model({self.weight})"

    @jg.trace(strict=True)
    def f(x: Any) -> Any:
        print(Model(x * 2))
        return x

    for _ in range(2):
        assert text_of(lambda: f(jg.ones(2))) == f"Model({jg.ones(2) * 2})\n"
    assert f.cache_info().misses == 1


ORIGINAL = print


def test_print_is_itself_again_after_a_trace() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("no")

    jg.trace(lambda x: print(x))(jg.ones(1))
    with pytest.raises(KeyError):
        jg.trace(fails)(jg.ones(1))
    assert print is ORIGINAL


def test_formats_that_do_not_fit_are_refused_when_recorded() -> None:
    x = jg.ones(2)
    for run in (lambda f: f, jg.trace, jg.script):
        with pytest.raises(TypeError, match="does not mention the argument 0"):
            run(lambda x: jg.debug.print("x", x))(x)
        with pytest.raises(TypeError, match="takes a format first"):
            run(lambda x: jg.debug.print(x))(x)
        with pytest.raises(TypeError, match="rank 1"):
            run(lambda x: jg.debug.print("{:.2f}", x))(x)
        with pytest.raises(ValueError, match="Unknown format code 'd'"):
            run(lambda x: jg.debug.print("{:d}", x.sum()))(x)
        with pytest.raises(TypeError, match="sep must be"):
            run(lambda x: print(x, sep=1))(x)


def test_a_print_that_fails_ends_the_call_and_changes_no_state() -> None:
    state = jg.zeros(3)

    @jg.trace
    def step(x: Any) -> Any:
        state[...] = state + x
        print("state", state)
        return state.sum()

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError("nobody reads")

    text_of(lambda: step(jg.ones(3)))
    closed = io.StringIO()
    closed.close()
    for stream, error in ((closed, ValueError), (Broken(), BrokenPipeError)):
        with contextlib.redirect_stdout(stream), pytest.raises(error):
            step(jg.ones(3))
        assert state.tolist() == [1, 1, 1]
    assert text_of(lambda: step(jg.ones(3))) == f"state {jg.full(3, 2.0)}\n"
    assert state.tolist() == [2, 2, 2]


def test_a_signal_between_prints_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython itself drops what a handler raises in a finaliser or a callback of a weak reference; that is no fault."""

    @jg.trace
    def forever(x: Any) -> Any:
        def turn(x: Any) -> Any:
            print(x)
            return x

        return jg.while_loop(lambda x: x > 0, turn, x)

    class Stop(Exception):
        pass

    requested, dropped = [0], [0]

    def stop(*_: object) -> None:
        requested[0] += 1
        raise Stop

    def note(lost: Any) -> None:
        dropped[0] += lost.exc_type is Stop and "ctypes" not in (lost.err_msg or "")

    monkeypatch.setattr(sys, "unraisablehook", note)
    assert text_of(lambda: forever(-jg.ones(()))) == ""  # compiled before the clock runs
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(5):
            requested[0] = dropped[0] = 0
            signal.setitimer(signal.ITIMER_REAL, 0.03, 5.0)  # again, as one that is dropped would let it run for ever
            with pytest.raises(Stop):
                text_of(lambda: forever(jg.ones(())))
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert requested[0] == 1 + dropped[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_no_stream_at_all_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert jg.trace(loops)(jg.asarray(X)).shape == (3,)


# --- order ----------------------------------------------------------------------------------------------------------


def test_prints_stand_before_and_behind_what_raises() -> None:
    @jg.trace
    def f(x: Any, i: Any) -> Any:
        print("one")
        first = x[i]
        print("two", x * 2)
        second = x[i + 1]
        print("three")
        return first + second + x.sum()

    def text(i: int) -> str:
        def run() -> None:
            with contextlib.suppress(IndexError):
                f(jg.asarray(X), jg.asarray(i))

        return text_of(run)

    twice = f"two {jg.asarray(2 * X)}\n"
    assert text(1) == f"one\n{twice}three\n"
    assert text(2) == f"one\n{twice}"
    assert text(7) == "one\n"


def test_equal_prints_are_all_printed() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        for _ in range(3):
            print("x", x)
        return x

    assert text_of(lambda: f(jg.ones(1))) == 3 * f"x {jg.ones(1)}\n"


def test_a_print_in_a_branch_that_is_known() -> None:
    assert (
        text_of(lambda: jg.trace(lambda x: jg.cond(True, lambda: print("a"), lambda: print("b")))(jg.ones(1))) == "a\n"
    )

    @jg.trace
    def f(x: Any) -> Any:
        def yes() -> Any:
            print("yes")
            return x

        return jg.cond(jg.asarray(1) > 0, yes, lambda: x)  # folded

    assert text_of(lambda: f(jg.ones(1))) == "yes\n"


def test_sides_of_a_script_that_raise() -> None:
    @jg.script
    def f(x: Any) -> Any:
        if x.sum() > 0:
            print("left", x)
            if x[0] > 5:
                print("large")
                raise ValueError("large")
            print("small")
            raise IndexError("small")
        print("right")
        return x

    for first, error, text in ((9.0, ValueError, "large"), (1.0, IndexError, "small")):
        x = jg.asarray([first, 0.0])

        def run() -> None:
            with pytest.raises(error, match=text):  # noqa: B023
                f(x)  # noqa: B023

        assert text_of(run) == f"left {x}\n{text}\n"
    assert text_of(lambda: f(-jg.ones(2))) == "right\n"


def test_a_side_of_and_prints_only_where_it_is_asked() -> None:
    def noisy(x: Any) -> Any:
        print("asked", x)
        return x[0] > 0

    @jg.script
    def f(x: Any) -> Any:
        return x.sum() > 0 and noisy(x)

    x = jg.ones(2)
    assert text_of(lambda: f(x)) == f"asked {x}\n"
    assert text_of(lambda: f(-x)) == ""


# --- gradients ------------------------------------------------------------------------------------------------------


def of_loops(x: Any) -> Any:
    def turn(state: Any) -> Any:
        i, y = state
        jg.debug.print("turn {}", i)

        def row(carry: Any, v: Any) -> Any:
            print("row")
            return carry * v, v * carry

        carry, rows = jg.scan(row, jg.ones(()), y)

        def yes() -> Any:
            print("yes")
            return rows * carry

        def no() -> Any:
            print("no")
            return rows + carry

        return i + 1, jg.cond(carry > 0, yes, no)

    y = jg.while_loop(lambda state: state[0] < 3, turn, (jg.asarray(0), x))[1]
    print("sum")
    return (y * y).sum()


def test_a_print_is_printed_once_in_the_order_of_the_forward_part() -> None:
    x = np.array([0.5, -1.25, 2.0], np.float32)
    wanted = text_of(lambda: of_loops(jg.asarray(x)))
    assert wanted.startswith("turn Tensor(0, dtype=int64)\nrow\nrow\nrow\nno\nturn") and wanted.endswith("sum\n")

    def backward(f: Any) -> Any:
        leaf = jg.asarray(x, requires_grad=True)
        f(leaf).backward()
        return leaf.grad

    def whole(x: Any) -> Any:
        leaf = x.detach().requires_grad_(True)
        of_loops(leaf).backward()
        return leaf.grad

    traced = jg.trace(of_loops)
    runs: list[Callable[[], Any]] = [
        lambda: backward(of_loops),
        lambda: backward(traced),
        lambda: jg.grad(traced)(jg.asarray(x)),
        lambda: jg.trace(jg.grad(of_loops))(jg.asarray(x)),
        lambda: jg.trace(whole)(jg.asarray(x)),
        lambda: jg.trace(lambda x: jg.jvp(of_loops, (x,), (x,)))(jg.asarray(x)),
        lambda: jg.trace(jg.hessian(of_loops))(jg.asarray(x)),
    ]
    results = []
    for run in runs:
        assert text_of(lambda: results.append(run())) == wanted  # noqa: B023
    for gradient in results[1:5]:
        np.testing.assert_allclose(gradient.numpy(), results[0].numpy(), rtol=1e-5)


def test_a_print_passes_no_gradient_and_stops_none() -> None:
    def f(x: Any) -> Any:
        y = x * x
        print("y", y)
        return y.sum()

    assert jg.trace(jg.grad(f))(jg.asarray(X)).tolist() == (2 * X).tolist()


def test_gradients_are_printed_too() -> None:
    def f(x: Any) -> Any:
        leaf = x.detach().requires_grad_(True)
        (leaf * leaf).sum().backward()
        print("gradient", leaf.grad)
        return leaf.grad

    x = jg.asarray(X)
    assert text_of(lambda: jg.trace(f)(x)) == text_of(lambda: f(x)) == f"gradient {jg.asarray(2 * X)}\n"


# --- memory, threads, re-entrance -----------------------------------------------------------------------------------


def test_state_is_updated_in_place_behind_the_last_print_alone() -> None:
    def step_of(prints_last: bool) -> tuple[Any, Any]:
        state = jg.zeros(3)

        @jg.trace
        def step(x: Any) -> Any:
            loss = (state * x).sum()
            if not prints_last:
                print("loss", loss)
            state[...] = state + x
            if prints_last:
                print("loss", loss)
            return loss

        return step, state

    for prints_last in (False, True):
        step, state = step_of(prints_last)
        x = jg.ones(3)
        assert text_of(lambda: [step(x) for _ in range(3)]) == "".join(  # noqa: B023
            f"loss {jg.asarray(value)}\n" for value in (0.0, 3.0, 6.0)
        )
        assert state.tolist() == [3, 3, 3]
        donations = step.lower(x).stages.plan.donations
        assert bool(donations) != prints_last


class Noting(io.StringIO):
    """A stream that notes which threads write to it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def write(self, text: str) -> int:
        self.threads.add(threading.get_ident())
        return super().write(text)


def test_the_calling_thread_prints() -> None:
    program = PROGRAMS["large"]
    compiled, stream = jg.trace(program.function, threads=2), Noting()
    with contextlib.redirect_stdout(stream):
        for _ in range(5):
            compiled(*tensors(program))
        assert stream.threads == {threading.get_ident()}
        caller = threading.Thread(target=lambda: compiled(*tensors(program)))
        caller.start()
        caller.join()
    assert len(stream.threads) == 2


def test_calls_of_several_threads_print_whole_texts() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        print("x", x, "and", x * 2)
        return x

    def many(x: Any) -> None:
        for _ in range(50):
            f(x)

    xs = [jg.full(3, float(k)) for k in range(4)]
    f(xs[0])

    def run() -> None:
        callers = [threading.Thread(target=many, args=(x,)) for x in xs]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()

    lines = text_of(run).splitlines()
    assert sorted(lines) == sorted(50 * [f"x {x} and {x * 2}" for x in xs])


def test_a_stream_may_call_the_function_that_prints() -> None:
    compiled = jg.trace(lambda x: print("x", x))

    class Calling(io.StringIO):
        depth = 0

        def write(self, text: str) -> int:
            if self.depth < 2:
                self.depth += 1
                compiled(jg.full(1, float(self.depth)))
            return super().write(text)

    stream = Calling()
    with contextlib.redirect_stdout(stream):
        compiled(jg.zeros(1))
    assert stream.getvalue() == "".join(f"x {jg.full(1, value)}\n" for value in (2.0, 1.0, 0.0))


@pytest.fixture
def recording() -> Iterator[None]:
    """Another thread records a function."""
    inside, leave = threading.Lock(), threading.Lock()
    inside.acquire()
    leave.acquire()

    def slow(x: Any) -> Any:
        inside.release()
        leave.acquire(timeout=10)
        return x

    def record() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # locks cannot be guarded
            jg.trace(slow)(jg.ones(1))

    other = threading.Thread(target=record)
    other.start()
    assert inside.acquire(timeout=10)
    yield
    leave.release()
    other.join()


def test_other_threads_print_as_always_while_one_records(recording: None) -> None:
    assert text_of(lambda: print("here", jg.ones(1))) == f"here {jg.ones(1)}\n"
    child = os.fork()
    if child == 0:
        os._exit(print is not ORIGINAL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("program", ["plain", "staged"])
def test_a_function_that_prints_is_recorded_and_called_while_another_thread_records(
    recording: None, program: str
) -> None:
    """What stands for ``print`` meanwhile stands there before the trace, and still does behind it."""
    compiled = decorated(PROGRAMS[program])
    for _ in range(2):
        assert text_of(lambda: compiled(*tensors(PROGRAMS[program]))) == eager(PROGRAMS[program])
    assert compiled.cache_info()[:2] == (1, 1)


def test_a_function_that_prints_is_not_recorded_again_while_another_thread_records(
    request: pytest.FixtureRequest,
) -> None:
    compiled = decorated(PROGRAMS["plain"])
    wanted = text_of(lambda: compiled(*tensors(PROGRAMS["plain"])))
    request.getfixturevalue("recording")
    assert text_of(lambda: compiled(*tensors(PROGRAMS["plain"]))) == wanted
    assert compiled.cache_info()[:2] == (1, 1)


def test_a_function_that_prints_nothing_has_no_host_of_its_own() -> None:
    low = jg.trace(lambda x: x * 2).lower(X)
    assert not low.stages.schedule.prints and "print" not in low.kernels
