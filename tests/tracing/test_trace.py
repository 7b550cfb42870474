"""Traced functions: results, write-back, specialisations, sizes, gradients, errors."""

from __future__ import annotations

import queue
import threading
import types
import warnings
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree
from jitgraph.tracing import TracedFunction


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here is the tracing; compiled code has tests of its own."""
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def same(a: Any, b: Any, rtol: float = 1e-6) -> None:
    """Equal structures with equal leaves."""
    left, shape = tree.flatten(a)
    right, other = tree.flatten(b)
    assert shape == other
    for x, y in zip(left, right, strict=True):
        if isinstance(x, jg.Tensor):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=rtol, atol=1e-7)
        else:
            assert type(x) is type(y) and x == y


@dataclass
class Pair:
    left: Any
    right: Any


class Point(NamedTuple):
    x: Any
    y: Any


def test_results_and_pytrees() -> None:
    def f(a: Any, b: dict[str, Any], *rest: Any, scale: float = 2.0, **named: Any) -> Any:
        return {"a": a * scale, "rest": [r + b["x"] for r in rest]}, Point(b["y"][0], named["k"]), None, 3, "text"

    x = jg.asarray(array(3))
    args = (Pair(x, 1).left, {"x": x, "y": [x * 2]}, x, x + 1)
    t = jg.trace(f)
    same(t(*args, k=x), f(*args, k=x))
    same(t(*args, k=x, scale=3.5), f(*args, k=x, scale=3.5))
    assert t.cache_info() == (1, 1, 1), "a Python float is an input and not part of the key"


def test_dataclass_argument_and_result() -> None:
    @jg.trace
    def f(p: Pair) -> Pair:
        return Pair(p.left * p.right, p.right)

    result = f(Pair(jg.asarray(array(2)), 3.0))
    assert isinstance(result, Pair) and result.right == 3.0 and type(result.right) is float
    np.testing.assert_allclose(result.left.numpy(), array(2) * 3)


def test_numpy_arguments_are_borrowed() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        return x + 1

    source = array(4)
    np.testing.assert_allclose(f(source).numpy(), source + 1)
    source[:] = 5
    np.testing.assert_allclose(f(source).numpy(), 6)
    np.testing.assert_allclose(f(array(4).astype(">f4")).numpy(), array(4) + 1)
    assert f.cache_info().misses == 1

    @jg.trace
    def g(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(jg.TraceError, match="borrowed"):
        g(source)


def test_rebinding_is_written_back_after_success_only() -> None:
    total = jg.asarray(np.zeros(2, np.float32))

    @jg.trace
    def f(x: Any, fail: Any) -> Any:
        nonlocal total
        x += 1
        total += x
        total[0] = 9.0
        return x, jg.take(x, fail)

    x = jg.asarray(np.zeros(2, np.float32))
    assert f(x, jg.asarray(1))[0] is x
    np.testing.assert_array_equal(x.numpy(), [1, 1])
    np.testing.assert_array_equal(total.numpy(), [9, 1])
    with pytest.raises(IndexError):
        f(x, jg.asarray(7))
    np.testing.assert_array_equal(x.numpy(), [1, 1])
    np.testing.assert_array_equal(total.numpy(), [9, 1])


def test_an_exception_while_tracing_changes_nothing() -> None:
    class Box:
        count = 0

    box, x = Box(), jg.asarray(np.zeros(2, np.float32))

    @jg.trace
    def f(x: Any) -> Any:
        box.count = 5
        x += 1
        raise KeyError("stop")

    with pytest.raises(KeyError):
        f(x)
    assert box.count == 0 and "count" not in vars(box)
    np.testing.assert_array_equal(x.numpy(), [0, 0])


def test_the_same_handle_twice_is_one_input() -> None:
    @jg.trace
    def f(x: Any, y: Any) -> Any:
        x += 1
        return y * 2

    a, b = jg.asarray(1.0), jg.asarray(1.0)
    assert f(a, b).item() == 2.0
    assert f(a, a).item() == 6.0
    assert f(b, a).item() == 6.0
    assert f.cache_info().misses == 2


def test_a_captured_tensor_that_is_also_an_argument() -> None:
    w = jg.asarray(2.0)
    tied = {"a": w, "b": w}
    f = jg.trace(lambda x: x * w)
    assert f(w).item() == 4 and f(jg.asarray(3.0)).item() == 6 and f(w).item() == 4
    g = jg.trace(lambda: tied["a"] * tied["b"])
    assert g().item() == 4
    tied["b"] = jg.asarray(5.0)
    assert g().item() == 10


def test_results_keep_identity() -> None:
    w = jg.asarray(array(2))

    @jg.trace
    def f(x: Any) -> Any:
        y = x * 2
        return y, y, x, w

    x = jg.asarray(array(2))
    for _ in range(2):
        first, second, same_x, same_w = f(x)
        assert first is second and same_x is x and same_w is w and first is not x


def test_attribute_of_an_object_is_set_at_each_call() -> None:
    class Cell:
        def __init__(self) -> None:
            self.h = jg.asarray(np.zeros(2, np.float32))
            self.calls = 0

        @jg.trace
        def step(self, x: Any) -> Any:
            self.h = self.h + x
            self.state = {"last": (x * 2, "kept")}
            return self.h

    cell, other, x = Cell(), Cell(), jg.asarray(np.ones(2, np.float32))
    for n in range(1, 4):
        assert cell.step(x) is cell.h
        np.testing.assert_array_equal(cell.h.numpy(), n)
    np.testing.assert_array_equal(cell.state["last"][0].numpy(), 2)
    assert cell.state["last"][1] == "kept"
    assert cell.step.cache_info().misses == 1
    other.step(x)
    np.testing.assert_array_equal(other.h.numpy(), 1)
    np.testing.assert_array_equal(cell.h.numpy(), 3)


@pytest.mark.parametrize(
    "result",
    [
        lambda x: (x * i for i in range(3)),
        lambda x: zip([x], [x + 1], strict=True),
        lambda x: {x + 1},
        lambda x: lambda: x * 2,
        lambda x: types.SimpleNamespace(y=x + 1),
    ],
)
def test_results_that_a_later_call_cannot_make_again(result: Any) -> None:
    with pytest.raises(jg.TraceError, match="the result"):
        jg.trace(result)(jg.ones(2))


def test_an_outer_object_that_holds_new_tensors_is_returned_as_it_is() -> None:
    w = jg.nn.Parameter(jg.ones(2))
    optimizer = jg.optim.Adam([w])

    @jg.trace
    def step(x: Any) -> Any:
        (w * x).sum().backward()
        optimizer.step()
        return optimizer

    assert all(step(jg.ones(2)) is optimizer for _ in range(3))


def test_a_leaked_tensor_says_where_it_was_made() -> None:
    held: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @jg.trace
    def f(x: Any) -> Any:
        y = x * 2
        held.put(y)
        return y

    with pytest.warns(RuntimeWarning, match=r"recorded anew[\s\S]*held"):
        f(jg.asarray(1.0))
    with pytest.raises(jg.TraceError, match=r"outside of it[\s\S]*test_trace.py"):
        held.get() + 1


def test_an_attribute_set_by_a_partial_is_set_at_each_call() -> None:
    class Hook:
        seen: Any = None

    hook = Hook()

    @jg.trace(strict=True)
    def f(x: Any) -> Any:
        y = x * 2
        leak(hook, y)
        return y

    def leak(hook: Any, y: Any) -> None:
        partial(object.__setattr__, hook)("seen", y)

    for value in (1.0, 2.0):
        f(jg.asarray(value))
        assert hook.seen.item() == 2 * value
    assert f.cache_info().misses == 1


# --- specialisations ----------------------------------------------------------------------------------------------


def test_a_size_that_varies_costs_one_compilation_more() -> None:
    @jg.trace
    def f(x: Any, w: Any) -> Any:
        return (x @ w).sum(axis=0) / x.shape[0]

    w = jg.asarray(array(4, 3))
    for n in (3, 5, 7, 1, 2, 9):
        x = jg.asarray(array(n, 4, seed=n))
        same(f(x, w), f.__wrapped__(x, w), rtol=1e-5)
    assert f.cache_info().misses == 2
    assert "size 5 on axis 0, not 3" in f.ledger[1].reason


def test_two_sizes_that_vary_together_and_then_apart() -> None:
    @jg.trace
    def f(x: Any, y: Any) -> Any:
        return x.sum() + y.sum()

    for n, m in ((3, 3), (4, 4), (5, 6), (7, 8)):
        assert f(jg.ones(n), jg.ones(m)).item() == n + m
    assert f.cache_info().misses == 3


def test_a_size_that_cannot_be_named_is_pinned_with_its_line() -> None:
    w = jg.asarray(array(5))

    @jg.trace
    def f(x: Any) -> Any:
        return sum((x[i] for i in range(x.shape[0])), jg.asarray(0.0))

    for n in (2, 3, 4, 5):
        np.testing.assert_allclose(f(jg.ones(n)).item(), n)
    assert f.cache_info().misses == 4

    @jg.trace
    def g(x: Any) -> Any:
        return x + w

    same(g(jg.ones(1)), jg.ones(1) + w)  # broadcast
    same(g(jg.ones(5)), jg.ones(5) + w)
    same(g(jg.ones(1)), jg.ones(1) + w)
    with pytest.raises(jg.ShapeError):
        g(jg.ones(4))


def test_declared_sizes() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}})
    def f(x: Any, y: Any) -> Any:
        return x * y

    for n in (2, 3, 4):
        assert f(jg.ones((n, 2)), jg.ones((n, 2))).shape == (n, 2)
    assert f.cache_info().misses == 1
    with pytest.raises(jg.TraceError, match="batch"):
        f(jg.ones((2, 2)), jg.ones((3, 2)))

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def g(x: Any) -> Any:
        return [x * i for i in range(x.shape[0])]

    with pytest.raises(jg.TraceError, match=r"batch[\s\S]*test_trace.py"):
        g(jg.ones(3))


def test_questions_about_sizes_become_guards() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 3 else x * 3

    for n, factor in ((2, 3), (5, 2), (3, 3), (4, 2), (9, 2)):
        assert f(jg.ones(n))[0].item() == factor
    assert f.cache_info().misses == 2


def test_static_arguments() -> None:
    @jg.trace(static_argnames=("mode",), static_argnums=(1,))
    def f(x: Any, power: float, mode: str = "a") -> Any:
        return x * 2 if power > 1.5 else x if mode == "a" else -x

    x = jg.asarray(1.0)
    assert [f(x, 2.0).item(), f(x, 1.0).item(), f(x, 1.0, mode="b").item(), f(x, 1.0).item()] == [2, 1, -1, 1]
    assert f.cache_info() == (1, 3, 3)
    with pytest.raises(jg.TraceError, match="mode"):
        jg.trace(lambda x: x, static_argnames="mode")


def test_least_recently_used_with_one_warning() -> None:
    @jg.trace
    def f(x: Any, n: int) -> Any:
        return sum((x for _ in range(n)), x * 0)

    x = jg.asarray(1.0)
    with pytest.warns(RuntimeWarning, match="n is 8, not 7; n used as a Python int"):
        for n in range(9):
            assert f(x, n).item() == n
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x, 0)
    assert f.cache_info().currsize == 8
    f.cache_clear()
    assert f.cache_info() == (0, 0, 0)


def test_bool_and_int_are_different_keys() -> None:
    @jg.trace
    def f(x: Any, flag: Any) -> Any:
        return x + 1 if flag is True else x + 2

    assert f(jg.asarray(0.0), True).item() == 1
    assert f(jg.asarray(0.0), 1).item() == 2


def test_gradient_mode_is_part_of_the_key() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        return x * 2

    x = jg.asarray(1.0, requires_grad=True)
    assert f(x).requires_grad
    with jg.no_grad():
        assert not f(x).requires_grad


def test_threads_compile_once() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        return jg.tanh(x) + 1

    x, results = jg.asarray(array(8)), []
    threads = [threading.Thread(target=lambda: results.append(f(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and f.cache_info().misses == 1 and f.cache_info().hits == 3


def test_disabled_jit_is_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISABLE_JIT", "1")

    @jg.trace
    def f(x: Any) -> Any:
        assert x.sum() > 0  # works eagerly only
        return x * 2

    np.testing.assert_array_equal(f(np.ones(2, np.float32)).numpy(), [2, 2])
    assert f.cache_info().misses == 0


# --- gradients ------------------------------------------------------------------------------------------------------


def test_training_step_is_one_graph() -> None:
    def make() -> tuple[Any, Any]:
        w = jg.asarray(array(3, 2), requires_grad=True)

        def step(x: Any) -> Any:
            loss = (jg.tanh(x @ w) ** 2).sum()
            w.grad = None
            loss.backward()
            with jg.no_grad():
                w.__isub__(w.grad * 0.1)
            return loss

        return w, step

    (w, eager), (v, step) = make(), make()
    traced = jg.trace(step)
    x = jg.asarray(array(4, 3))
    for _ in range(3):
        same(traced(x), eager(x).detach(), rtol=1e-5)
    same(v, w, rtol=1e-5)
    same(v.grad, w.grad, rtol=1e-5)
    assert v.requires_grad and traced.cache_info().misses == 1


def test_gradients_accumulate_as_in_eager() -> None:
    x = jg.asarray([1.0, 2.0], requires_grad=True)

    @jg.trace
    def f() -> None:
        (x * x).sum().backward()

    for n in range(1, 4):
        f()
        np.testing.assert_allclose(x.grad.numpy(), [2 * n, 4 * n])
    assert f.cache_info().misses == 2  # without and with a gradient to add to


def test_no_grad_stops_gradients_in_a_trace() -> None:
    def f(x: Any) -> Any:
        with jg.no_grad():
            y = x * 3
        return jg.grad(lambda x: (x * y + x.detach() * x).sum())(x)

    x = jg.asarray([1.0, 2.0])
    same(jg.trace(f)(x), f(x))


def test_gradient_through_a_traced_call() -> None:
    w, x = jg.asarray(array(3, 2), requires_grad=True), jg.asarray(array(4, 3), requires_grad=True)

    def f(x: Any) -> Any:
        y = jg.tanh(x @ w)
        return y, y.sum(axis=0)

    def gradients(function: Any) -> list[Any]:
        w.grad = x.grad = None
        y, s = function(x * 2)
        ((y * y).sum() + s.sum()).backward()
        return [w.grad, x.grad]

    same(gradients(jg.trace(f)), gradients(f), rtol=1e-5)


def test_second_derivative_through_a_traced_call() -> None:
    def f(x: Any) -> Any:
        return jg.sin(x) * x

    x = jg.asarray(0.7)
    second = jg.grad(jg.grad(jg.trace(f)))(x)
    np.testing.assert_allclose(second.item(), 2 * np.cos(0.7) - 0.7 * np.sin(0.7), rtol=1e-5)
    inside = jg.trace(lambda x: jg.grad(jg.grad(f))(x))(x)
    np.testing.assert_allclose(inside.item(), second.item(), rtol=1e-5)


def test_backward_beyond_the_trace_is_refused() -> None:
    x = jg.asarray([1.0], requires_grad=True)
    y = x * 2

    @jg.trace
    def f(y: Any) -> None:
        (y * y).sum().backward()

    with pytest.raises(jg.TraceError, match="before the trace"):
        f(y)


# --- what a trace cannot do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, "jg.script"),
        (lambda x: float(x.sum()), "compute with the tensor"),
        (lambda x: int(x.sum()), "compute with the tensor"),
        (lambda x: x.sum().item(), "jg.script"),
        (lambda x: x.numpy(), "return it and call numpy"),
        (lambda x: np.asarray(x), "compute with tensors"),
        (lambda x: x.tolist(), "return it and call tolist"),
        (lambda x: [0, 1][x.sum().astype(jg.int64)], "make the array a tensor"),
    ],
)
def test_values_of_traced_tensors_are_refused(use: Any, hint: str) -> None:
    with pytest.raises(jg.TraceError, match=rf"hint: [\s\S]*{hint}") as error:
        jg.trace(use)(jg.ones(3))
    assert "test_trace.py" in str(error.value)


def test_a_decision_on_a_python_float_is_a_guard() -> None:
    f = jg.trace(lambda x, s: x * s if s > 1 else -x)
    for s in (2.0, 3.0, 0.5, 1.0, 4.0):
        assert f(jg.asarray(1.0), s).item() == (s if s > 1 else -1.0)
    assert f.cache_info().misses == 2


def test_wrong_uses_of_the_decorator() -> None:
    with pytest.raises(jg.DeviceError):
        jg.trace(lambda x: x, device="cuda")
    with pytest.raises(jg.TraceError):
        jg.trace(3)  # type: ignore[arg-type]
    with pytest.raises(jg.TraceError, match="one by one"):

        @jg.trace
        def rows(x: Any) -> Any:
            yield x

    with pytest.raises(TypeError):
        jg.trace(lambda x: x)()
    with pytest.raises(jg.TraceError, match="no number of bytes"):
        jg.trace(lambda x: x, max_bytes="much")


def test_max_bytes_is_checked_at_each_call() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}}, max_bytes="1KB")
    def f(x: Any) -> Any:
        return x + 1

    f(jg.ones(10))
    with pytest.raises(jg.TraceError, match="max_bytes"):
        f(jg.ones(1000))


def test_verify_names_the_first_op_that_differs() -> None:
    ticks: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(100):
        ticks.put(number)

    def tick() -> int:
        return ticks.get()  # nothing that a guard can see

    @jg.trace(verify=True)
    def good(x: Any) -> Any:
        x += 1
        return jg.tanh(x).sum()

    x = jg.ones(3)
    good(x)
    np.testing.assert_array_equal(x.numpy(), 2)

    @jg.trace(verify=True)
    def bad(x: Any) -> Any:
        y = jg.tanh(x)
        return y * tick()

    anew = pytest.warns(RuntimeWarning, match="recorded anew")
    with anew, pytest.raises(jg.TraceError, match=r"mul differs[\s\S]*test_trace.py"):
        bad(x)


def test_verify_takes_no_op_of_a_backward_sweep_for_one_of_the_same_line() -> None:
    w = jg.asarray(array(3))

    @jg.trace(verify=True)
    def descend(x: Any) -> Any:
        return w - 0.1 * jg.grad(lambda w: (x * w * w).sum())(w) * (x * x).sum()

    x = array(3)
    np.testing.assert_allclose(descend(x), w.numpy() - 0.2 * x * w.numpy() * (x * x).sum(), rtol=1e-6)


def test_verify_takes_arrays_for_tensors_as_the_trace_does() -> None:
    @jg.trace(verify=True)
    def f(x: Any, batch: Any, scale: Any) -> Any:
        return (x * x).sum(axis=0) * scale + (batch["y"] + batch["y"]) * 2

    x, y = array(3, 4), array(4)
    same(f(x, {"y": y}, np.float32(3)), jg.asarray((x * x).sum(axis=0) * 3 + 4 * y))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("x",), "dynamic_shapes is a tuple, not a dict"),
        (True, "dynamic_shapes is a bool"),
        ({"x": 0}, r"dynamic_shapes\['x'\] is 0, which names no axis"),
        ({"x": "batch"}, r"dynamic_shapes\['x'\] is 'batch', which names no axis"),
        ({"x": {"batch": 0}}, "the axis 'batch', which is no number"),
        ({"x": {0: 8}}, "8 is not a name"),
        ({"x": [0]}, "0 is not a name"),
    ],
)
def test_dynamic_shapes_of_another_form_say_the_form(wrong: Any, message: str) -> None:
    with pytest.raises(jg.TraceError, match=message + r'[\s\S]*hint: dynamic_shapes=\{"x": \{0: "batch"\}\}'):
        jg.trace(lambda x: x, dynamic_shapes=wrong)


@pytest.mark.parametrize("value", [jg.ones(3), (1, jg.ones(3))])
def test_a_static_argument_holds_no_tensor(value: Any) -> None:
    with pytest.raises(jg.TraceError, match="static argument w holds a Tensor"):
        jg.trace(lambda x, w: x, static_argnames="w")(jg.ones(3), value)


# --- lower and explain ----------------------------------------------------------------------------------------------


def test_lower_with_specs() -> None:
    w = jg.asarray(array(4, 2))

    @jg.trace
    def f(x: Any, s: float) -> Any:
        return jg.tanh(x @ w) * s

    low = f.lower(jg.TensorSpec(("batch", 4)), 2.0)
    assert [str(v.type) for v in low.graph.inputs] == ["f32[batch, 4]", "f64[]", "f32[4, 2]"]
    exe = low.compile()
    for n in (1, 5):
        same(exe(jg.asarray(array(n, 4)), 3.0), f.__wrapped__(jg.asarray(array(n, 4)), 3.0))
    with pytest.raises(jg.ArgumentError, match="size 3 on axis 1, not 4"):
        exe(array(2, 3), 1.0)
    with pytest.raises(jg.DeviceError):
        _ = exe.ptx
    assert exe.cost.flops > 0
    with pytest.raises(jg.TraceError, match="batch"):
        jg.trace(lambda x: x if x.shape[0] > 2 else -x).lower(jg.TensorSpec(("batch",)))


def test_explain_lists_what_was_found() -> None:
    w, settings = jg.asarray(array(4)), {"k": 3}

    @jg.trace
    def f(x: Any) -> Any:
        return x * w * settings["k"]

    f(jg.ones(4))
    report = jg.explain(f, jg.ones(4))
    for text in ("captured", "settings['k'] == 3", "ledger", "the first call"):
        assert text in report


def test_traced_inside_traced_is_one_graph() -> None:
    inner = jg.trace(lambda x: x * 2)
    outer = jg.trace(lambda x: inner(x) + 1)
    assert outer(jg.asarray(1.0)).item() == 3 and inner.cache_info().misses == 0
    assert isinstance(inner, TracedFunction)


def test_a_second_backward_needs_the_graph_retained_as_in_eager() -> None:
    def run(body: Any, wrap: Any) -> Any:
        w = jg.asarray([2.0, 3.0]).requires_grad_()
        v = jg.asarray([1.0, 4.0]).requires_grad_()
        try:
            wrap(lambda: body(w, v))()
        except jg.JitgraphError as error:
            return str(error).splitlines()[-1]
        return [None if t.grad is None else t.grad.tolist() for t in (w, v)]

    def shared(w: Any, v: Any) -> None:
        product = w * v
        product.sum().backward()
        (product * 2).sum().backward()

    def twice(w: Any, v: Any, **options: Any) -> None:
        loss = (w * v).sum()
        loss.backward(**options)
        loss.backward()

    def after_grad(w: Any, v: Any, **options: Any) -> None:
        loss = (w * w * v).sum()
        jg.autograd.grad(loss, v, **options)
        loss.backward()

    def beside(w: Any, v: Any) -> None:
        doubled = w * 2
        jg.autograd.grad((doubled * v).sum(), v)
        (doubled * doubled).sum().backward()

    def of_gradients(w: Any, v: Any) -> None:
        loss = (w * w * v).sum()
        (g,) = jg.autograd.grad(loss, w, create_graph=True)
        (g * g).sum().backward()
        loss.backward()

    bodies = [shared, twice, after_grad, beside, of_gradients]
    bodies += [partial(f, retain_graph=True) for f in (twice, after_grad)]
    bodies += [partial(f, create_graph=True) for f in (twice, after_grad)]
    outputs = [(run(body, lambda f: f), run(body, jg.trace)) for body in bodies]
    for eager, traced in outputs:
        assert traced == eager
    assert sum("retain_graph" in str(eager) for eager, _ in outputs) == 3


def test_requires_grad_is_set_at_each_call() -> None:
    def run(wrap: Any) -> list[Any]:
        w, v = (jg.asarray(data).requires_grad_() for data in ([1.0, 2.0], [3.0, 4.0]))
        outputs: list[Any] = []

        def freeze(x: Any, flag: bool) -> Any:
            w.requires_grad_(flag)
            loss = (w * v * x).sum()
            loss.backward()

        def adversary(x: Any, flag: bool) -> Any:
            (w * x).sum().backward()
            w.requires_grad_(False)
            (w * v * x).sum().backward()
            w.requires_grad_(True)
            if flag:
                (w * w * x).sum().backward()

        def local(x: Any, flag: bool) -> Any:
            y = (x * 2).requires_grad_()
            (y * y * v).sum().backward()
            g = y.grad
            y.requires_grad_(False)
            y.grad = None
            (y * v).sum().backward()
            return g, y.grad is None

        for body in (freeze, adversary, local):
            function = wrap(body)
            for flag in (True, False, False, True, False):
                w.grad = v.grad = None
                w.requires_grad_(True)
                result = function(jg.asarray([1.0, -1.0]), flag)
                outputs.append((w.requires_grad, *(t.grad is not None and t.grad.tolist() for t in (w, v))))
                outputs.append(None if result is None else (result[0].tolist(), result[1]))
        return outputs

    assert run(jg.trace) == run(lambda f: f)


def test_an_exception_puts_requires_grad_back() -> None:
    w = jg.asarray([1.0]).requires_grad_()

    @jg.trace
    def f(x: Any) -> Any:
        w.requires_grad_(False)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        f(w * 2)
    assert w.requires_grad
    with pytest.raises(jg.TraceError, match="requires_grad of a tensor from outside"):
        jg.trace(lambda x: jg.scan(lambda c, v: (c * w.requires_grad_(False)[0], v), x[0], x))(jg.ones(2))
    assert w.requires_grad


def test_state_of_a_module_that_is_traced_itself() -> None:
    class Smoothed(jg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = jg.nn.Parameter(jg.ones(2))
            self.state = jg.zeros(2)

        def forward(self, x: jg.Tensor) -> jg.Tensor:
            self.state = (self.state * 0.5 + x).detach()
            return self.state * self.scale if self.training else x

    module = Smoothed()
    traced = jg.trace(module)
    assert [traced(jg.ones(2)).tolist()[0] for _ in range(3)] == [1.0, 1.5, 1.75]
    module.state = jg.ones(2)
    module.scale = jg.nn.Parameter(jg.ones(2) * 2)
    assert traced(jg.ones(2)).tolist() == [3.0, 3.0]
    assert traced.cache_info().misses == 1
    module.eval()
    assert traced(jg.ones(2)).tolist() == [1.0, 1.0]


def test_state_of_an_object_that_later_calls_cannot_find() -> None:
    class Box:
        def __init__(self) -> None:
            self.total = jg.zeros(2)

    box = Box()
    reference = weakref.ref(box)

    @jg.trace
    def f(x: jg.Tensor) -> jg.Tensor:
        actual = reference()
        actual.total = actual.total + x  # type: ignore[union-attr]
        return actual.total  # type: ignore[union-attr]

    with pytest.warns(RuntimeWarning, match=r"recorded anew[\s\S]*reference[\s\S]*test_trace.py"):
        assert f(jg.ones(2)).tolist() == [1.0, 1.0]
    assert f(jg.ones(2)).tolist() == [2.0, 2.0]
    assert box.total.tolist() == [2.0, 2.0]
    assert f.cache_info() == (0, 2, 0)
    with pytest.raises(jg.TraceError, match="cannot be guarded"):
        jg.trace(f.__wrapped__, strict=True)(jg.ones(2))
    assert box.total.tolist() == [2.0, 2.0]


class _Held:
    pass


def test_objects_that_share_a_part_share_a_part_of_their_own_at_each_call() -> None:
    def function(x: Any) -> Any:
        numbers, array, first, second = {1}, np.ones(2), _Held(), _Held()
        first.numbers = second.numbers = numbers  # type: ignore[attr-defined]
        first.other, first.array = second, array  # type: ignore[attr-defined]
        return {"n": numbers, "a": array, "first": first, "second": second, "x": x}

    traced = jg.trace(function)
    for _ in range(3):
        actual = traced(jg.asarray([1.0]))
        first, second = actual["first"], actual["second"]
        assert first.numbers is second.numbers is actual["n"] and actual["n"] == {1}
        assert first.other is second and first.array is actual["a"] and actual["a"].tolist() == [1.0, 1.0]
        actual["n"].add(2)
        actual["a"][0] = 5
    assert traced.cache_info().currsize == 1


def test_a_new_container_that_stands_at_several_places_is_one_container() -> None:
    def function(x: Any, own: dict[str, Any]) -> Any:
        rows: list[Any] = [x * 2]
        state.first, state.second, state.both = rows, {"rows": rows}, (rows, rows)
        history.append(rows)
        own["rows"] = rows
        return rows, {"rows": rows, "of": [history]}

    state, history = _Held(), list[Any]()
    traced = jg.trace(function)
    for number in range(1, 4):
        own: dict[str, Any] = {}
        rows, more = traced(jg.asarray([1.0]), own)
        positions = [state.first, state.second["rows"], *state.both, history[-1], own["rows"], more["rows"]]  # type: ignore[attr-defined]
        assert all(position is rows for position in positions) and [row.tolist() for row in rows] == [[2.0]]
        assert len({id(kept) for kept in history}) == number and more["of"][0] is history
        rows.append(0)


def test_a_container_that_holds_itself_is_refused() -> None:
    def function(x: Any) -> Any:
        own: dict[str, Any] = {"x": x}
        own["own"] = own
        return own

    with pytest.raises(jg.errors.TraceError, match="holds a dict that holds itself"):
        jg.trace(function)(jg.asarray([1.0]))


def test_immutable_containers_of_plain_values_are_set_at_each_call() -> None:
    def function(x: Any) -> Any:
        state.seen = state.seen | {len(state.seen)}  # type: ignore[attr-defined]
        state.steps = range(len(state.seen))  # type: ignore[attr-defined]
        return x * len(state.seen)  # type: ignore[attr-defined]

    state = _Held()
    state.seen = frozenset()  # type: ignore[attr-defined]
    traced = jg.trace(function)
    for count in range(1, 4):
        assert traced(jg.asarray([1.0])).tolist() == [count]
        assert state.seen == set(range(count)) and state.steps == range(count)  # type: ignore[attr-defined]
