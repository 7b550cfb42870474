"""Eager ops whose calls came back go past Python: with the same bits, on the tape, in threads, and at level memory."""

from __future__ import annotations

import gc
import operator
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.dispatch import start
from jitgraph.eager.dispatch.function import MOST_TABLES
from jitgraph.eager.dispatch.table import NativeTable
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.rules import Rules
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython.api import word
from jitgraph.tensor import tensor
from tests.eager.dispatch.chains import tables_of
from tests.graphs import needs_native

pytestmark = [
    needs_native,
    pytest.mark.skipif(bool(start.lacking()), reason="no native calls here"),
    pytest.mark.usefixtures("rules_of_their_own"),
]
ROUNDS = int(os.environ.get("DISPATCH_ROUNDS", "20000"))
OFTEN = 80  # calls after which everything that can be native is


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def served() -> int:
    """How many native calls there were so far."""
    return 0 if start._START.runtime is None else start._START.runtime.clock


def natively(call: Callable[[], Any]) -> tuple[Any, int]:
    """The result of a call that came back often, and how many native calls it made."""
    for _ in range(OFTEN):
        call()
    before = served()
    return call(), served() - before


def bits(actual: Any) -> Any:
    array = actual.detach().numpy()
    return str(array.dtype), array.shape, array.tobytes()


x, y = draw(5, 7), draw(5, 7)
CALLS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "neg": lambda x, y: -x,
    "exp": lambda x, y: jg.exp(x),
    "tanh": lambda x, y: x.tanh(),
    "maximum": jg.maximum,
    "sum": lambda x, y: x.sum(),
    "sum_of_an_axis": lambda x, y: x.sum(-2),
    "max": lambda x, y: x.max(),
    "min_of_an_axis": lambda x, y: x.min(1),
    "softmax": lambda x, y: x.softmax(0),
    "log_softmax": lambda x, y: x.log_softmax(),
    "matmul": lambda x, y: x @ y,
}


def operands(name: str, dtype: Any) -> tuple[Any, Any]:
    return jg.asarray(draw(5, 7, dtype=dtype)), jg.asarray(draw(*((7, 5) if name == "matmul" else (5, 7)), dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_native_calls_give_python_s_bits(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = operands(name, dtype)
    actual, count = natively(lambda: CALLS[name](x, y))
    assert count == 1
    monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    monkeypatch.setattr(EAGER, "_rules", Rules())
    double = jg.trace(CALLS[name])
    assert bits(actual) == bits(double(x, y))
    for values in ((x.numpy()[::-1], y.numpy()), (x.numpy(), np.flip(y.numpy())), (x.numpy()[:3], y.numpy()[:3])):
        if name == "matmul" and len(values[0]) == 3:
            continue
        others = [jg.asarray(np.ascontiguousarray(v)) for v in values]
        assert bits(CALLS[name](*others)) == bits(double(*others))


@pytest.mark.parametrize("name", CALLS)
def test_calls_on_the_tape_give_a_trace_s_gradients(name: str) -> None:
    x, y = operands(name, np.float32)

    def loss(x: Any, y: Any) -> Any:
        return (CALLS[name](x, y) * 0.5).sum()

    def gradients() -> list[Any]:
        leaves = x.detach().requires_grad_(), y.detach().requires_grad_()
        loss(*leaves).backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    first = list(map(bits, gradients()))
    actual, count = natively(gradients)
    assert count > 1
    assert list(map(bits, actual)) == first
    traced = jg.trace(lambda x, y: jg.grad(loss, (0, 1))(x, y))(x, y)
    assert [bits(one) for one in actual] == [bits(one) for one in traced][: len(actual)]


def test_gradients_of_gradients() -> None:
    x = jg.asarray(draw(6))

    def twice() -> Any:
        leaf = x.detach().requires_grad_()
        (first,) = jg.autograd.grad((jg.exp(leaf) * leaf).sum(), [leaf], create_graph=True)
        (second,) = jg.autograd.grad((first * first).sum(), [leaf])
        return second

    expected = bits(twice())
    actual, count = natively(twice)
    assert bits(actual) == expected
    assert count > 1


def test_operands_that_are_views_borrowed_or_shown() -> None:
    x = draw(8, 6)
    tensor, array = jg.asarray(x), x.copy()
    lent = jg.asarray(array, copy=False)
    natively(lambda: jg.exp(jg.asarray(x.T.copy())))
    expected = bits(jg.exp(jg.asarray(x.T.copy())))
    assert bits(jg.exp(tensor.T)) == expected
    natively(lambda: jg.exp(lent))
    array[:] = 2 * x
    assert bits(jg.exp(lent)) == bits(jg.exp(jg.asarray(2 * x)))
    seen = tensor.numpy()
    assert bits(jg.exp(tensor)) == bits(jg.exp(jg.asarray(seen)))


def test_modes_decide_what_is_recorded() -> None:
    leaf, plain = jg.asarray(draw(9)).requires_grad_(), jg.asarray(draw(9))
    natively(lambda: jg.exp(leaf))
    natively(lambda: jg.exp(plain))
    assert jg.exp(leaf).requires_grad
    assert not jg.exp(plain).requires_grad
    with jg.no_grad():
        actual, count = natively(lambda: jg.exp(leaf))
        assert not actual.requires_grad
        assert count == 1
    with jg.detect_anomaly(), pytest.raises(jg.errors.AnomalyError):
        jg.exp(jg.asarray(np.full(9, 1e9, np.float32)))
    traced = jg.trace(lambda x: jg.exp(x) + x)
    assert bits(traced(plain)) == bits(jg.exp(plain) + plain)


def test_the_line_of_a_native_call_is_the_user_s() -> None:
    leaf = jg.asarray(draw(9)).requires_grad_()
    actual, _ = natively(lambda: leaf * leaf)
    assert "test_eager_calls.py" in repr(actual.grad_fn)


def test_arguments_that_a_table_does_not_take() -> None:
    x = jg.asarray(draw(4))
    natively(lambda: x + x)
    natively(lambda: x.sum())
    assert bits(x + 1.5) == bits(jg.asarray(x.numpy() + np.float32(1.5)))
    assert bits(1 + x) == bits(x + 1)
    assert bits(jg.add(x1=x, x2=x)) == bits(x + x)
    assert (x + x.astype(jg.float64)).dtype == jg.float64
    with pytest.raises(TypeError):
        x + "text"  # type: ignore[operator]
    with pytest.raises(jg.errors.ShapeError):
        x + jg.asarray(draw(5))
    with pytest.raises(jg.errors.JitgraphError, match="out of range"):
        x.sum(3)


def test_many_shapes_take_turns() -> None:
    xs = [jg.asarray(draw(n)) for n in range(1, 3 * MOST_TABLES)]
    expected = [bits(jg.exp(x)) for x in xs]
    for _ in range(20):
        assert [bits(jg.exp(x)) for x in xs] == expected


def test_memory_of_taped_results_is_not_written_in_place() -> None:
    """A record keeps the values that its gradient reads, whoever gives the tensor a new value."""
    leaf = jg.asarray(draw(16)).requires_grad_()
    natively(lambda: jg.exp(leaf))
    step = jg.trace(lambda state, x: state.__setitem__(..., state * 2 + x))
    expected = jg.exp(leaf.detach()).numpy().copy()
    for _ in range(6):
        result = jg.exp(leaf)
        record = result.grad_fn
        with jg.no_grad():
            step(result, jg.ones(16))
        assert (result.numpy() == expected * 2 + 1).all()
        assert (record.outputs[0].array == expected).all()
    assert step.native.hits > 0  # type: ignore[attr-defined]


def test_results_outlive_their_tape() -> None:
    leaf = jg.asarray(draw(16)).requires_grad_()
    natively(lambda: jg.exp(leaf).sum().backward())
    result = jg.exp(leaf)
    expected = jg.exp(leaf.detach()).numpy().copy()
    result.sum().backward()
    others = [jg.exp(leaf) for _ in range(200)]  # which would take its memory
    assert (result.detach().numpy() == expected).all()
    del others


def test_turned_off_everything_goes_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    z = jg.asarray(draw(11, 3))
    for call in (lambda: jg.sinh(z), lambda: z @ z.T, lambda: z - z):
        _, count = natively(call)
        assert count == 0


def test_no_call_goes_by_a_chain_that_is_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that is a circle for a moment would hold a thread that calls then, and the interpreter, for good."""
    adding, follow, changes = tensor._add, NativeTable.follow_with, []

    def checked(table: NativeTable, following: NativeTable | None) -> None:
        follow(table, following)
        changes.append(table)
        if word(id(adding) + layout.FUNCTION["vectorcall"]):
            tables_of(adding)

    monkeypatch.setattr(NativeTable, "follow_with", checked)
    operands = [jg.asarray(draw(n, 11)) for n in range(1, 9)]
    for _ in range(2):
        for number, x in enumerate(operands):
            for _ in range(OFTEN):
                assert np.array_equal((x + x).numpy(), x.numpy() * 2)
            for known in operands[:number]:  # so that the order of use is another one
                assert np.array_equal((known + known).numpy(), known.numpy() * 2)
    assert len(changes) > len(operands)


def test_flags_that_are_no_bools() -> None:
    x = jg.asarray(draw(5, 7))
    for flag in (1, 0, np.bool_(True), np.bool_(False)):
        x.requires_grad = flag
        assert natively(lambda: x * x)[0].requires_grad is bool(flag)


def test_threads_and_calls_inside_calls() -> None:
    xs = [jg.asarray(draw(n)) for n in (3, 16, 65)]
    expected = [bits(jg.exp(x) * x) for x in xs]
    wrong: list[Any] = []

    class Meddler:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            wrong.extend(n for n, x in enumerate(xs) if bits(jg.exp(x) * x) != expected[n])

    def work() -> None:
        for _ in range(300):
            Meddler()
            wrong.extend(n for n, x in enumerate(xs) if bits(jg.exp(x) * x) != expected[n])

    threads = [threading.Thread(target=work) for _ in range(4)]
    threshold = gc.get_threshold()
    gc.set_threshold(20)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*threshold)
    assert not wrong


def paths() -> dict[str, Callable[[], Any]]:
    x, y, m = jg.asarray(draw(16)), jg.asarray(draw(16)), jg.asarray(draw(8, 8))
    leaf = jg.asarray(draw(16)).requires_grad_()
    large = jg.asarray(draw(150, 150))
    turned = large.T  # a view with gaps

    def backward() -> None:
        leaf.grad = None
        (jg.exp(leaf) * y).sum().backward()

    return {
        "tensors": lambda: x + y,
        "shown": lambda: jg.exp(x).numpy(),
        "a reduction": lambda: x.sum(),
        "a product": lambda: m @ m,
        "a composite": lambda: m.softmax(-1),
        "large results": lambda: jg.exp(large),
        "recorded": lambda: jg.exp(leaf),
        "there and back": backward,
        "declined": lambda: jg.exp(turned),
    }


def resident() -> int:
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", list(paths()))
def test_references_and_memory_stay_level(name: str) -> None:
    run = paths()[name]
    rounds = ROUNDS // 5 if name in ("large results", "there and back") else ROUNDS
    for _ in range(1000):
        run()
    gc.collect()
    hits = served()
    before = len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(jg.Tensor), sys.getrefcount(0), resident()
    for _ in range(rounds):
        run()
    gc.collect()
    after = len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(jg.Tensor), sys.getrefcount(0), resident()
    assert after[0] - before[0] < 100  # there may be fewer: what other tests left goes, too
    for kept, actual in zip(before[1:4], after[1:4], strict=True):
        assert abs(actual - kept) < 100
    assert after[4] - before[4] < 16 << 20
    assert (served() - hits >= rounds) == (name != "declined")


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_a_number_beyond_the_dtype_gets_no_table(compare: Callable[..., Any]) -> None:
    values = [-(2**31), -1, 2**31 - 1]
    x = jg.asarray(np.array(values, np.int32))
    assert natively(lambda: compare(x, 5))[1] == 1
    for huge in (2**70, -(2**70), 2**31, -(2**31) - 1):
        for _ in range(OFTEN * 5):
            assert compare(x, huge).tolist() == [compare(number, huge) for number in values]
            assert compare(huge, x).tolist() == [compare(huge, number) for number in values]
