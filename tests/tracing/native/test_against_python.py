"""Programs whose state changes between calls, natively and by Python: results, effects and errors are the same."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.dispatch.start import lacking
from jitgraph.tracing.call.native import native_calls
from tests.graphs import needs_native

pytestmark = [needs_native, pytest.mark.skipif(bool(lacking()), reason="no native calls here")]


def filled(factor: float = 1.0, count: int = 4) -> Any:
    return jg.asarray(np.arange(1, count + 1, dtype=np.float32) * np.float32(factor))


class Run:
    """One run of a program: what every call gave or raised, and what was looked at between."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.functions: list[Any] = []

    def trace(self, function: Callable[..., Any], **options: Any) -> Any:
        self.functions.append(jg.trace(function, **options))
        return self.functions[-1]

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        for _ in range(4):
            try:
                self.see(function(*args, **kwargs))
            except Exception as error:
                self.seen.append((type(error).__name__, str(error)))

    def see(self, *actual: Any) -> None:
        self.seen.extend(map(shown, actual))

    @property
    def hits(self) -> int:
        return sum(function.native.hits for function in self.functions)


def shown(actual: Any) -> Any:
    if isinstance(actual, jg.Tensor):
        return "tensor", actual.requires_grad, shown(actual.detach().numpy())
    if isinstance(actual, np.ndarray):
        return str(actual.dtype), actual.shape, actual.tobytes()
    if isinstance(actual, list | tuple):
        return type(actual).__name__, [shown(item) for item in actual]
    return type(actual).__name__, bytes(actual) if isinstance(actual, memoryview) else repr(actual)


def attributes(run: Run) -> None:
    class Model:
        k = 5

    class Other(Model):
        k = 77

    model: Any = Model()
    model.w, model.c = filled(), 2
    f = run.trace(lambda x: x * model.w * model.c + model.k)
    kind: Any = Model
    changes: list[Callable[[], Any]] = [
        lambda: None, lambda: setattr(model, "c", 3), lambda: setattr(model, "w", filled(3)),
        lambda: setattr(model, "k", 7), lambda: delattr(model, "k"), lambda: setattr(kind, "k", 8),
        lambda: setattr(model, "__dict__", {"w": filled(), "c": 9}), lambda: delattr(model, "c"),
        lambda: setattr(model, "c", True), lambda: setattr(model, "c", -0.0),
        lambda: setattr(kind, "c", property(lambda self: 100)), lambda: delattr(kind, "c"),
        lambda: setattr(model, "__class__", Other), lambda: setattr(kind, "w", property(lambda self: filled(7))),
    ]  # fmt: skip
    for change in changes:
        change()
        run(f, filled())


def containers(run: Run) -> None:
    table: dict[str, Any] = {"a": filled(), "b": 2.0}
    items: list[Any] = [filled(), 2.0]
    f = run.trace(lambda x: sum(v * x for v in table.values()) + items[0] * items[1])
    changes: list[Callable[[], Any]] = [
        lambda: None, lambda: table.update(b=3.0), lambda: table.update(c=4.0), lambda: table.pop("c"),
        lambda: table.update(a=table.pop("a")), lambda: items.append(1), lambda: items.__setitem__(1, 5.0),
        lambda: items.reverse(), lambda: items.clear(), lambda: items.extend([filled(), filled()]),
        lambda: [table.update({f"k{n}": 0.0}) for n in range(100)], lambda: table.clear(),
    ]  # fmt: skip
    for change in changes:
        change()
        run(f, filled())


def keys_in_order(run: Run) -> None:
    class Box:
        pass

    table: dict[str, Any] = {"a": 1.0, "b": 2.0, "c": 3.0}
    box = Box()
    box.a, box.b = 5.0, 7.0  # type: ignore[attr-defined]
    f = run.trace(lambda x: sum(x * k for k, _ in enumerate(table)) + len(next(iter(table))) + ord([*table][1]))
    g = run.trace(lambda x: x + ord(next(iter(vars(box)))))
    for change in (
        lambda: None, lambda: table.update(a=table.pop("a")), lambda: table.update(d=table.pop("b")),
        lambda: setattr(box, "a", vars(box).pop("a")), lambda: delattr(box, "b"),
    ):  # fmt: skip
        change()
        run(f, filled())
        run(g, filled())


def held_floats(run: Run) -> None:
    class Box:
        limit = 0.5

    box = Box()
    f = run.trace(lambda x: x * 2 if box.limit > 0.4 else x * 3)
    for limit in (0.5, 0.6, 0.1, 0.0, -0.0, float("nan"), 0.5, 1, True):
        box.limit = limit
        run(f, filled())


def numbers(run: Run) -> None:
    f = run.trace(lambda x, n: x * n + n)
    integers = [0, 1, 2, 5, True, -1, 2**24, 2**24 + 1, 2**31, 2**40 + 1, 2**60 + 2**36 + 1, 2**63, 10**40]
    for n in [*integers, 1.5, -0.0, 0.0, float("nan"), float("inf"), 1e39, 1e300, np.float32(2)]:
        run(f, filled(), n)
        run(f, jg.asarray(np.arange(4)), n)


def numbers_on_the_tape(run: Run) -> None:
    f = run.trace(lambda x, n: (x * n * x).sum())
    for n in (2, 3, 4, 2.5, 3.5, 4.5):

        def gradient(n: float = n) -> Any:
            x = filled().requires_grad_()
            f(x, n).backward()
            return x.grad

        run(gradient)


def static_arguments(run: Run) -> None:
    f = run.trace(lambda x, n: x if n is True else x * 3, static_argnames=["n"])
    for n in (True, 1, 2, "a", 1.0, False, None, True):
        run(f, filled(), n)


def arguments(run: Run) -> None:
    def function(x: Any, y: float = 2.0, *, z: float = 3.0) -> Any:
        return x * y + z

    f = run.trace(function)
    for defaults in ((2.0,), (20.0,), None):
        function.__defaults__ = defaults
        run(f, filled())
        run(f, filled(), 5.0)
        run(f, x=filled(), y=6.0)
        run(f, filled(), z=1.0)
        run(f, filled(), x=filled())
        run(f)
    g = run.trace(lambda a, *more: sum(more, a))
    for count in (0, 1, 2, 0):
        run(g, filled(), *[filled()] * count)


def parameters_in_another_order(run: Run) -> None:
    def function(x: Any, y: Any) -> Any:
        return x * 2 - y

    def other(y: Any, x: Any) -> Any:
        return x * 5 - y

    f = run.trace(function)
    for code in (function.__code__, other.__code__):
        function.__code__ = code
        run(f, filled(3), filled())
        run(f, y=filled(3), x=filled())


def members_of_classes_in_c(run: Run) -> None:
    dialect = csv.reader([]).dialect
    f = run.trace(lambda x: x * (2 if dialect.strict else 3))
    run(f, filled())
    g = run.trace(lambda x: x * 2)
    run(g, filled())


def state_in_place(run: Run) -> None:
    state = filled()

    def update(x: Any) -> Any:
        state[:] = state + x
        return state

    f = run.trace(update)
    x = filled()
    holds: list[Callable[[], Any]] = [
        lambda: None, state.numpy, state.detach, lambda: state[1:], lambda: state.reshape(2, 2),
        lambda: memoryview(state.numpy()), lambda: np.from_dlpack(state), lambda: state._value,
    ]  # fmt: skip
    for hold in holds:
        run(f, x)
        held = hold()
        run(f, x)
        run(f, state)
        run.see(state, f(x) is state, getattr(held, "array", held) if held is not None else 0)
        state[:] = x


def failing_kernels(run: Run) -> None:
    state = filled()

    def update(at: Any) -> Any:
        state[:] = state + 1
        return state[at]

    f = run.trace(update)
    for at in (1, 10, 2, -9, 3):
        run(f, jg.asarray(at))
        run.see(state)


def modes(run: Run) -> None:
    w = filled().requires_grad_()
    f = run.trace(lambda x: (x * w).sum())

    def without() -> Any:
        with jg.no_grad():
            return f(filled())

    def gradient() -> Any:
        w.grad = None
        f(filled()).backward()
        return w.grad

    for call in (gradient, without, gradient):
        run(call)


def tensors_and_arrays(run: Run) -> None:
    f = run.trace(lambda x: x)
    array, tensor = np.ones(4, np.float32), filled()
    run(f, array)
    run(lambda: f(tensor) is tensor)
    run(f, array)
    for other in (array[::2], array.astype(">f4"), array.reshape(2, 2), np.float32(1)):
        run(f, other)


def what_python_alone_checks(run: Run) -> None:
    members: set[Any] = {1, 2}
    table: dict[Any, Any] = {1: 2.0, "a": 3.0}
    numbers = np.arange(3.0, dtype=np.float32)
    functions = [
        run.trace(lambda x: x * sum(members)),
        run.trace(lambda x: x * len([key for key in table if key != "b"])),
        run.trace(lambda x: x * float(np.sum(numbers))),
        run.trace(lambda x: x + 1),  # natively
    ]
    changes: list[Callable[[], Any]] = [
        lambda: None, lambda: members.add(3), lambda: table.update({2: 1.0}), lambda: numbers.fill(5),
        lambda: members.discard(1), lambda: table.update({"b": table.pop(2)}), lambda: members.clear(),
    ]  # fmt: skip
    for change in changes:
        change()
        for function in functions:
            run(function, filled())


def results(run: Run) -> None:
    f = run.trace(lambda x: (x, x * 1, None, 3))
    for count in (0, 1, 16384, 16385, 40000):
        run(f, filled(1, count))
    kept = [f(filled(n, 40000))[1] for n in range(5)]
    run.see(kept)


PROGRAMS = [
    attributes, containers, keys_in_order, held_floats, numbers, numbers_on_the_tape, static_arguments, arguments,
    parameters_in_another_order, members_of_classes_in_c, state_in_place, failing_kernels, modes, tensors_and_arrays,
    what_python_alone_checks, results,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_native_calls_do_what_python_does(program: Callable[[Run], None], monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for flag in ("0", "1"):
        monkeypatch.setenv("JITGRAPH_DISPATCH", flag)
        run = Run()
        program(run)
        runs.append(run)
    python, native = runs
    assert native.seen == python.seen
    assert python.hits == 0 < native.hits


def test_a_tensor_is_no_array_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's check as well: a call recorded for an array makes a new tensor of what it gives back."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    same = jg.trace(lambda x: x)
    tensor = filled()
    for _ in range(2):
        same(np.ones(4, np.float32))
    assert same(tensor) is tensor


def test_threads_that_begin_together_share_one_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would take the place of the first, to whose tables the function's words lead."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    outputs = []
    original = native_calls.dispatcher_for

    def slowly(function: Any, binder: Any) -> Any:
        time.sleep(0.05)
        outputs.append(original(function, binder))
        return outputs[-1]

    monkeypatch.setattr(native_calls, "dispatcher_for", slowly)
    double = jg.trace(lambda x: x * 2)
    double(filled())
    threads = [threading.Thread(target=double, args=(filled(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outputs) == 1
