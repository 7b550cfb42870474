"""What native calls do is recorded from the functions themselves: the same bits, gradients and errors as by Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager import fused_ops
from jitgraph.eager.dispatch import start
from jitgraph.eager.dispatch.function import MOST_TABLES
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.rules import UFUNCS
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ops import OPS
from jitgraph.tensor import direct_calls
from jitgraph.tensor.call_recording import record
from jitgraph.tensor.functions import elementwise
from tests.eager.dispatch.test_eager_calls import OFTEN, bits, draw, natively
from tests.graphs import needs_native

pytestmark = [
    needs_native,
    pytest.mark.skipif(bool(start.lacking()), reason="no native calls here"),
    pytest.mark.usefixtures("rules_of_their_own"),
]
nn = jg.nn.functional
x, y, row, column = draw(5, 7), draw(5, 7) + 1, draw(7), draw(5, 1)
whole = (10 * draw(5, 7)).astype(np.int32)
short = (10 * draw(5, 7)).astype(np.int8)
mask = draw(5, 7) > 0
CALLS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "add of a row": (lambda x, y: x + y, x, row),
    "a row and a column": (lambda x, y: x * y, row, column),
    "a number": (lambda x, y: x - 2.5, x, y),
    "a number on the left": (lambda x, y: 3 / x, x, y),
    "integers and a number": (lambda x, y: x * 3, whole, y),
    "integers and a float": (lambda x, y: x + 0.5, whole, y),
    "integers divided": (lambda x, y: x / y, whole, short),
    "integers compared": (lambda x, y: x > 3, short, y),
    "floats compared": (lambda x, y: x <= 0.25, x, y),
    "two dtypes": (lambda x, y: x + y, x, whole),
    "square": (lambda x, y: x**2, x, y),
    "cube": (lambda x, y: x**3, x, y),
    "root": (lambda x, y: y**0.5, x, y),
    "power": (lambda x, y: (y * y) ** 2.5, x, y),
    "power of a number": (lambda x, y: 2**x, x, y),
    "integer square": (lambda x, y: x**2, whole, y),
    "where": (lambda x, y: jg.where(y, x, 0.0), x, mask),
    "where of numbers": (lambda x, y: jg.where(y, 1.0, -0.0), x, mask),
    "clip": (lambda x, y: jg.clip(x, -0.5, 1), x, y),
    "clip below": (lambda x, y: jg.clip(x, 0.25), x, y),
    "clip of integers": (lambda x, y: x.clip(-3, 4), whole, y),
    "cast": (lambda x, y: x.astype(jg.float64), x, y),
    "cast to integers": (lambda x, y: x.astype(jg.int32), x, y),
    "sum that keeps its axis": (lambda x, y: x.sum(0, keepdims=True), x, y),
    "sum of integers": (lambda x, y: x.sum(1), short, y),
    "variance": (lambda x, y: x.var(1, correction=1, keepdims=True), x, y),
    "position of the greatest": (lambda x, y: x.argmax(), x, y),
    "position in rows": (lambda x, y: x.argmin(-1), whole, y),
    "batches of products": (lambda x, y: x @ y, draw(3, 5, 7), draw(7, 2)),
    "product with batches": (lambda x, y: x @ y, draw(5, 7), draw(3, 7, 2)),
    "product with a vector": (lambda x, y: x @ y, x, row),
    "concat": (lambda x, y: jg.concat([x, y], axis=-1), x, y),
    "concat of two dtypes": (lambda x, y: jg.concat([x, y]), x, whole),
    "stack": (lambda x, y: jg.stack([x, y, x], axis=1), x, y),
    "less": (lambda x, y: jg.less(x, y), x, row),
    "equal to a number": (lambda x, y: jg.equal(x, 3), whole, y),
    "rounded": (lambda x, y: jg.round(x), x, y),
    "logical": (lambda x, y: jg.logical_and(x, y), mask, whole),
    "isnan": (lambda x, y: jg.isnan(x), x, y),
    "absolute integers": (lambda x, y: jg.abs(x), short, y),
    "relu": (lambda x, y: nn.relu(x), x, y),
    "gelu": (lambda x, y: nn.gelu(x, approximate="tanh"), x, y),
    "silu": (lambda x, y: nn.silu(x), x, y),
    "leaky_relu": (lambda x, y: nn.leaky_relu(x, 0.25), x, y),
    "elu": (lambda x, y: nn.elu(x), x, y),
    "linear": (lambda x, y: nn.linear(x, y), x, draw(3, 7)),
    "layer_norm": (lambda x, y: nn.layer_norm(x, (7,), y, y), x, row),
}
_BY_PYTHON = {"power"}  # two calls


@pytest.mark.parametrize("name", CALLS)
def test_bits_and_gradients_are_those_by_python(name: str) -> None:
    call, *arrays = CALLS[name]
    operands = list(map(jg.asarray, arrays))
    first = bits(call(*operands))
    result, count = natively(lambda: call(*operands))
    assert bits(result) == first
    assert count == (2 if name in _BY_PYTHON else 1)

    def gradients() -> list[Any]:
        leaves = [jg.asarray(a, requires_grad=a.dtype == np.float32) for a in arrays]
        result = call(*leaves)
        if not result.requires_grad:
            return []
        (result * draw(*result.shape)).sum().backward()
        return [None if leaf.grad is None else bits(leaf.grad) for leaf in leaves]

    first = gradients()
    for _ in range(OFTEN):
        assert gradients() == first


def test_a_number_that_is_looked_at_serves_itself_alone() -> None:
    tensor = jg.asarray(x)
    exponents = (2, 3, 0.5, 2.5, 1, 4)
    first = [bits(tensor**n) for n in exponents]
    for n, expected in zip(exponents, first, strict=True):
        natively(lambda n=n: tensor**n)
        assert [bits(tensor**n)] == [expected]
    assert [bits(tensor**n) for n in exponents] == first


def test_one_table_serves_every_number_that_is_not() -> None:
    tensor, integers = jg.asarray(x), jg.asarray(short)
    natively(lambda: tensor * 2.5)
    natively(lambda: integers + 7)
    for number in (0.1, -0.0, float("inf"), 1e300, float("nan")):
        with np.errstate(over="ignore", invalid="ignore"):
            assert bits(tensor * number) == bits(jg.asarray(x * np.float32(number)))
    assert bits(integers + -128) == bits(jg.asarray(short + np.int8(-128)))
    with pytest.raises(jg.errors.NumberError):
        integers + 128


def test_zeros_of_both_signs_are_two_numbers() -> None:
    tensor = jg.asarray(np.array([-1.0, -0.0, 0.0], np.float32))
    for _ in range(OFTEN):
        assert np.signbit(jg.clip(tensor, 0.0, 1.0).numpy()).tolist()[0] is False
        assert np.signbit(jg.clip(tensor, -0.0, 1.0).numpy()).tolist()[0] is True


def test_one_kernel_serves_all_sizes_of_what_takes_several_ops() -> None:
    natively(lambda: jg.asarray(x).sum(0, keepdims=True))
    before = len(fused_ops._SHARED)
    for shape in ((4, 9), (12, 2), (30, 31)):
        array = draw(*shape)
        tensor = jg.asarray(array)
        expected = bits(tensor.sum(0, keepdims=True))
        result, count = natively(lambda tensor=tensor: tensor.sum(0, keepdims=True))
        assert (bits(result), count) == (expected, 1)
    assert len(fused_ops._SHARED) == before


def test_sizes_that_decide_what_is_done_are_not_named() -> None:
    def padded(tensor: Any) -> Any:
        """Another graph where there are many rows."""
        value = tensor.value
        return jg.sum(tensor, 0, keepdims=True) * 2 if value.shape[0] == 5 else jg.sum(tensor, 0, keepdims=True)

    value = jg.asarray(x).value
    assert record(padded, [value], frozenset()).call is None
    assert record(lambda t: jg.sum(t, 0, keepdims=True), [value], frozenset()).call is not None


def test_what_carries_no_gradient_is_not_on_the_tape() -> None:
    leaf, plain = jg.asarray(x).requires_grad_(), jg.asarray(y)
    calls = [lambda: leaf > 0.5, lambda: leaf.argmax(), lambda: jg.where(leaf, plain, 0.0)]
    for call in calls:
        assert not call().requires_grad
        assert not natively(call)[0].requires_grad


@pytest.mark.parametrize(
    "call",
    [
        lambda p, wide: p * wide,
        lambda p, wide: wide - p,
        lambda p, wide: jg.maximum(p, wide),
        lambda p, wide: jg.where(mask, p, wide),
        lambda p, wide: jg.concat([p, wide]),
        lambda p, wide: jg.matmul(wide.T, p),
        lambda p, wide: nn.linear(wide, p),
    ],
)
def test_a_parameter_that_meets_float64_warns_at_each_call(call: Any) -> None:
    wide = jg.asarray(y.astype(np.float64))
    for requires_grad in (True, False):
        plain = jg.asarray(x, requires_grad=requires_grad)
        parameter = jg.nn.Parameter(jg.asarray(x), requires_grad=requires_grad)
        natively(lambda plain=plain: call(plain, wide))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(OFTEN):
                call(parameter, wide)
        assert [warning.category for warning in seen] == [jg.PrecisionWarning] * OFTEN


def test_plain_tensors_of_two_dtypes_go_past_python() -> None:
    narrow, wide = jg.asarray(x, requires_grad=True), jg.asarray(y.astype(np.float64))
    assert natively(lambda: narrow * wide)[1] == 1


def test_other_threads_may_forget_recordings_meanwhile() -> None:
    class Forgetful(dict[Any, Any]):
        """Empty after each question."""

        def __contains__(self, key: object) -> bool:
            known = super().__contains__(key)
            self.clear()
            return known

        def get(self, key: Any, default: Any = None) -> Any:
            value = super().get(key, default)
            self.clear()
            return value

    recordings = direct_calls._Recordings(lambda t: jg.exp(t), frozenset())
    recordings._calls = Forgetful()
    runtime = start.native_runtime()
    assert runtime is not None
    for _ in range(4):
        assert recordings.table_of([jg.asarray(x)], runtime, context.current()) is not None


def test_calls_of_one_kind_have_one_table_whichever_tensors_they_take() -> None:
    clip = elementwise._clip
    before = len(clip._tables)
    for _ in range(6):
        strided, low, high = jg.asarray(draw(8, 7))[::2], jg.asarray(draw(7) - 1), jg.asarray(draw(7) + 1)
        for _ in range(OFTEN):
            jg.clip(strided, low, high)
    assert len(clip._tables) <= min(before + 1, MOST_TABLES)


def test_calls_with_effects_or_without_ops_go_by_python() -> None:
    integers, tensor = jg.asarray(np.abs(whole)), jg.asarray(x)
    for call in (lambda: tensor.astype(jg.float32), lambda: tensor**1):
        expected = bits(call())
        result, count = natively(call)
        assert (bits(result), count) == (expected, 0)
    expected = bits(jg.pow(integers, 5))
    assert bits(natively(lambda: jg.pow(integers, 5))[0]) == expected
    assert record(jg.pow, [integers.value, 5], frozenset()).call is None
    with pytest.raises(ValueError, match="negative power"):
        jg.pow(integers, jg.asarray(-np.ones(7, np.int32)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64, np.uint16, np.bool_])
def test_ufuncs_and_the_kernels_that_take_their_place_have_the_same_bits(dtype: Any) -> None:
    """So no count of calls shows; the payload of a NaN of two NaNs is the one exception."""
    ends: list[Any] = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 3e38]
    if dtype is np.bool_:
        ends = [False, True]
    elif np.issubdtype(dtype, np.integer):
        ends = [0, 1, 7, np.iinfo(dtype).max, np.iinfo(dtype).min]
    pairs = np.array([(a, b) for a in ends for b in ends]).astype(dtype)
    operands = [EagerValue(np.ascontiguousarray(pairs[:, i])) for i in (0, 1)]
    tried = set()
    for name, op in OPS.items():
        ufunc = UFUNCS[op].get(np.dtype(dtype))
        if ufunc is None:
            continue
        values = operands[: ufunc.nin]
        kernel = EAGER.kernel(op, values, {})
        if kernel is None:
            continue
        result = kernel.launch.run(*values)[0].array
        with np.errstate(all="ignore"):
            expected = ufunc(*[value.array for value in values])
        if expected.dtype.kind == "f":
            missing = np.isnan(expected)
            assert np.array_equal(np.isnan(result), missing), name
            result, expected = result[~missing], expected[~missing]
        assert (result.dtype, result.tobytes()) == (expected.dtype, expected.tobytes()), name
        tried.add(name)
    assert {"eq", "bitwise_and" if dtype is np.bool_ else "add"} <= tried
