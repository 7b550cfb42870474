"""Eager products of floats run compiled kernels: a trace's bits, whatever the sizes, strides, threads and forks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.eager import launch
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.kernels import EagerKernels
from jitgraph.eager.launch import KernelCall
from jitgraph.eager.rules import runs_kernel
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op
from jitgraph.ops.contraction import dot
from jitgraph.ops.convolution import conv
from tests.processes import FORKS, in_child


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def run(kernels: EagerKernels, op: Op, arrays: Any, attrs: Any) -> Any:
    """What a kernel makes of arrays; None where the evaluation shall serve."""
    prepared = kernels.prepare(op, tuple(x.dtype for x in arrays), tuple(x.shape for x in arrays), attrs)
    return None if prepared is None else KernelCall(prepared).run(*[EagerValue(x) for x in arrays])[0].array


PLAIN = {"batch": ((), ()), "contract": ((1,), (0,))}
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("left", "right", "attrs"),
    [
        ((5, 400), (400, 7), PLAIN),
        ((1, 400), (400, 7), PLAIN),
        ((30, 900), (900, 1), PLAIN),
        ((900,), (900,), {"batch": ((), ()), "contract": ((0,), (0,))}),
        ((3,), (4,), {"batch": ((), ()), "contract": ((), ())}),
        ((2, 20, 30, 3), (3, 2, 30, 20, 4), {"batch": ((0, 3), (1, 0)), "contract": ((1, 2), (3, 2))}),
        ((), (), {"batch": ((), ()), "contract": ((), ())}),
        ((0, 3), (3, 4), PLAIN),
        ((2, 0), (0, 4), PLAIN),
    ],
    ids=str,
)
def test_products_have_the_bits_of_the_definition(left: Any, right: Any, attrs: Any, dtype: Any) -> None:
    x, y = draw(*left, dtype=dtype), draw(*right, dtype=dtype)
    actual, expected = run(EagerKernels(), dot, [x, y], attrs), dot.evaluate(x, y, **attrs)
    if 0 in (*left, *right):
        assert actual is None
    else:
        assert actual is not None
        assert actual.tobytes() == expected.tobytes()
    eager = ops.dot(EagerValue(x), EagerValue(y), **attrs).array
    assert (eager.dtype, eager.shape, eager.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.mark.parametrize(
    ("image", "filters", "attrs"),
    [
        ((2, 3, 8, 9), (4, 3, 3, 2), {}),
        ((2, 4, 8, 9), (6, 2, 3, 3), {"groups": 2, "strides": (2, 1), "padding": ((1, 1), (0, 2))}),
        ((1, 1, 30, 30), (2, 1, 20, 20), {"lhs_dilation": (2, 1), "rhs_dilation": (1, 1)}),  # as a weight gradient's
        ((3, 500, 1, 2), (2, 500, 1, 1), {}),
    ],
    ids=str,
)
def test_convolutions_have_the_bits_of_the_definition(image: Any, filters: Any, attrs: Any) -> None:
    attrs = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "groups": 1} | attrs
    attrs = {"lhs_dilation": (1, 1), "rhs_dilation": (1, 1)} | attrs
    x, w = draw(*image), draw(*filters)
    result = run(EagerKernels(), conv, [x, w], attrs)
    assert result is not None
    assert result.tobytes() == conv.evaluate(x, w, **attrs).tobytes()


def test_one_kernel_serves_all_sizes() -> None:
    kernels = EagerKernels()
    attrs = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "groups": 1}
    attrs |= {"lhs_dilation": (1, 1), "rhs_dilation": (1, 1)}
    for n in (2, 3, 17, 400):
        assert run(kernels, dot, [draw(n, n + 1), draw(n + 1, 5)], PLAIN) is not None
        assert run(kernels, conv, [draw(2, 4, 9, n + 8), draw(n, 4, 3, 3)], attrs) is not None
    assert len(kernels._made) == 2


def test_operands_may_lie_anyhow() -> None:
    x, y = draw(40, 60), draw(60, 50)
    expected = dot.evaluate(x[::2, ::-3], y.T[:20, 5:25].T[::-1][:20], **PLAIN)
    result = run(EagerKernels(), dot, [x[::2, ::-3], y.T[:20, 5:25].T[::-1][:20]], PLAIN)
    assert result is not None
    assert result.tobytes() == expected.tobytes()
    tensor = jg.asarray(x)
    assert (tensor.T @ tensor).numpy().tobytes() == dot.evaluate(x.T, x, **PLAIN).tobytes()


def test_the_evaluation_serves_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = draw(20, 900), draw(900, 30)
    kernels = EagerKernels()
    compiled = run(kernels, dot, [x, y], PLAIN)
    assert compiled is not None
    monkeypatch.setenv("JITGRAPH_TARGET_CPU", "x86-64-v2")  # which has no fused multiply-add
    assert run(kernels, dot, [x, y], PLAIN) is None
    monkeypatch.delenv("JITGRAPH_TARGET_CPU")
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    assert run(kernels, dot, [x, y], PLAIN) is None
    assert (jg.asarray(x) @ jg.asarray(y)).numpy().tobytes() == compiled.tobytes()


def test_integers_are_evaluated() -> None:
    integer = np.dtype(np.int32)
    assert not runs_kernel(dot, (integer, integer), ((2, 3), (3, 2)), PLAIN)
    assert runs_kernel(dot, (np.dtype(np.float32),) * 2, ((2, 3), (3, 2)), PLAIN)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: jg.nn.functional.relu(x @ w.T) @ w,
        lambda x, w: jg.nn.functional.linear(x, w) * 2,
        lambda x, w: jg.nn.functional.conv2d(x.reshape(2, 3, 20, 20), w.reshape(3, 3, 20, 20)[:, :, :4, :5]),
    ],
    ids=["chain", "linear", "conv"],
)
def test_gradients_have_a_trace_s_bits(function: Callable[..., Any]) -> None:
    x, w = jg.asarray(draw(6, 400)), jg.asarray(draw(9, 400))

    def gradient(x: jg.Tensor, w: jg.Tensor) -> Any:
        return jg.grad(lambda x, w: (function(x, w) * 0.5).sum(), (0, 1))(x, w)

    for eager, traced in zip(gradient(x, w), jg.trace(gradient)(x, w), strict=True):
        assert eager.numpy().tobytes() == traced.numpy().tobytes()


def test_anomalies_are_found() -> None:
    x = jg.asarray(np.full((3, 3), 1e38, np.float32))
    with jg.detect_anomaly(), pytest.raises(jg.errors.AnomalyError, match="dot gave inf"):
        x @ x


def test_threads_may_multiply_at_once() -> None:
    x, y = draw(150, 400), draw(400, 120)
    expected = dot.evaluate(x, y, **PLAIN).tobytes()
    kernels, wrong = EagerKernels(), []

    def work() -> None:
        for _ in range(20):
            result = run(kernels, dot, [x, y], PLAIN)
            if result is None or result.tobytes() != expected:
                wrong.append(result)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORK = """
import os
import numpy as np
import jitgraph as jg

x = jg.asarray(np.random.default_rng(0).standard_normal((300, 500)).astype(np.float32))
expected = (x @ x.T).numpy().tobytes()
for again in (x.T, x):  # the first is compiled in the child
    child = os.fork()
    if child == 0:
        (again.T @ again).numpy()
        os._exit((x @ x.T).numpy().tobytes() != expected)
    assert os.waitpid(child, 0)[1] == 0
print("fine")
"""


def test_a_fork_multiplies_on() -> None:
    assert in_child(FORK, *FORKS) == "fine\n"


def test_results_that_are_held_stay() -> None:
    x = jg.asarray(np.arange(8, dtype=np.float32))
    held = [(x * i).exp() for i in range(5)]
    views = [(x * i).exp()[2:] for i in range(5)]
    arrays = [(x * i).exp().numpy() for i in range(5)]
    for i in range(5):
        wanted = jg.trace(lambda x: x.exp())(x * i).numpy()
        assert held[i].numpy().tobytes() == arrays[i].tobytes() == wanted.tobytes()
        assert views[i].numpy().tobytes() == wanted[2:].tobytes()


def test_memory_of_results_is_used_again() -> None:
    x = jg.asarray(np.arange(8, dtype=np.float32))
    assert len({x.exp().value.address for _ in range(9)}) < 4


def test_a_gradient_runs_as_its_op_did_whatever_flags_say_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jg.asarray(np.linspace(-1, 1, 6, dtype=np.float32), requires_grad=True)
    loss = jg.sum(jg.tanh(x * 1.25) ** 2)
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    loss.backward()
    values = np.tanh(np.linspace(-1, 1, 6) * 1.25)
    np.testing.assert_allclose(x.grad.numpy(), 2.5 * values * (1 - values**2), rtol=1e-5)


def test_what_ran_while_graphs_were_interpreted_runs_kernels_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    x = draw(2, 1, 5, 1, 7)  # a shape of this test alone
    with monkeypatch.context() as patch:
        patch.setenv("JITGRAPH_INTERPRET", "1")
        interpreted = jg.cos(jg.asarray(x)).numpy()
    kernel = jg.trace(jg.cos)(x).numpy()
    assert (interpreted != kernel).any()
    np.testing.assert_array_equal(jg.cos(jg.asarray(x)).numpy(), kernel)


def test_a_kernel_that_ran_for_long_gives_place_to_one_for_given_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (jg.asarray(np.random.default_rng(2).normal(size=shape)) for shape in ((37, 41), (41, 43)))
    attrs = {"batch": ((), ()), "contract": ((1,), (0,))}

    def sizes() -> Sequence[str]:
        kernel = EAGER.kernel(ops.dot, [x.value, y.value], attrs)
        assert kernel is not None
        return kernel.launch.entry.signature.dims

    expected = (x @ y).numpy().tobytes()
    assert len(sizes()) == 3
    monkeypatch.setattr(launch, "LONG", 0)
    for _ in range(12):
        assert (x @ y).numpy().tobytes() == expected
    assert len(sizes()) == 0
    other = jg.asarray(np.ones((41, 44)))
    assert (x @ other).shape == (37, 44), "others go on by names"
    with pytest.raises(ShapeError):
        x @ jg.ones((40, 43), dtype=jg.float64)


def test_threads_change_kernels_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "LONG", 200_000)
    x = jg.asarray(np.random.default_rng(3).normal(size=(129, 131)))
    expected = (x @ x.T).numpy().tobytes()
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda _: (x @ x.T).numpy().tobytes(), range(200)))
    assert set(actual) == {expected}
