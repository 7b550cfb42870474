"""Tensors: handles on immutable values, promotion, and errors that name what to write."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes

# --- values and handles ---------------------------------------------------------------------------------------------


def test_a_writable_array_is_copied() -> None:
    array = np.ones(3, np.float32)
    x, y = jg.asarray(array), jg.asarray(array[::2])
    array[:] = 5
    assert x.tolist() == [1.0, 1.0, 1.0] and y.tolist() == [1.0, 1.0]


def test_borrowing_is_explicit() -> None:
    array = np.ones(3, np.float32)
    x = jg.asarray(array, copy=False)
    assert np.shares_memory(x.numpy(), array)
    for refused in ([1.0], np.ones(3, ">f4"), 1.0):
        with pytest.raises(jg.JitgraphError, match="cannot be borrowed"):
            jg.asarray(refused, copy=False)
    with pytest.raises(jg.JitgraphError, match="cannot be borrowed"):
        jg.asarray(array, dtype=jg.float64, copy=False)


def test_views_given_out_are_read_only() -> None:
    x = jg.zeros((3,))
    for view in (x.numpy(), np.asarray(x), x.reshape(3, 1).numpy()):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1


def test_in_place_rebinds_the_handle_that_a_caller_passed() -> None:
    def change(t: jg.Tensor) -> None:
        t += 1
        t[0] = 10

    x = jg.zeros((2,))
    same, other, view, row = x, x.clone(), x.numpy(), x[0]
    change(x)
    assert same is x and x.tolist() == [10.0, 1.0]
    assert other.tolist() == [0.0, 0.0] and view.tolist() == [0.0, 0.0] and row.item() == 0.0


DERIVED = [lambda x: x.reshape(4), lambda x: x.T, lambda x: x[0], lambda x: jg.asarray(x), lambda x: +x]


@pytest.mark.parametrize("derive", DERIVED)
def test_no_other_tensor_ever_changes(derive: Any) -> None:
    x = jg.asarray(np.arange(4.0).reshape(2, 2))
    y = derive(x)
    before = y.tolist()
    x[...] = 7
    assert y.tolist() == before
    values = x.tolist()
    y *= 0
    assert x.tolist() == values


def test_writing_to_an_unnamed_result_of_indexing_is_refused() -> None:
    x = jg.zeros((2, 2))
    with pytest.raises(jg.JitgraphError, match=r"write x\[i, j\] = v"):
        x[0][1] = 1
    with pytest.raises(jg.JitgraphError, match=r"write x\[i, j\] = v"):
        x[0][1] += 1
    row = x[0]
    row[1] = 1  # a name for it: the write is seen through the name
    rows = [x[0], x[1]]
    rows[0][0] = 3
    assert row.tolist() == [0.0, 1.0] and rows[0].tolist() == [3.0, 0.0] and x.sum().item() == 0
    x[0, 1] = 1
    x[0] += 1
    assert x.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_in_place_keeps_shape_and_dtype() -> None:
    x = jg.zeros((2,), dtype=jg.int32)
    x += jg.asarray([1, 2])
    assert x.dtype == jg.int32 and x.tolist() == [1, 2]
    with pytest.raises(jg.DTypeError, match="would turn int32 into float32"):
        x += 1.5
    with pytest.raises(jg.ShapeError, match="would change the shape"):
        x += jg.zeros((3, 2), dtype=jg.int32)
    flag = jg.asarray([True])
    with pytest.raises(jg.DTypeError, match="would turn bool into int64"):
        flag += 1
    f = jg.zeros((1,))
    f += jg.asarray([1.0], dtype=jg.float64)
    assert f.dtype == jg.float32


def test_copies() -> None:
    x = jg.asarray([1.0], requires_grad=True)
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    (y * 3).sum().backward()
    assert y.requires_grad and y.grad is not None and y.grad.item() == 5.0 and x.grad is not None and x.grad.item() == 2
    with pytest.raises(jg.JitgraphError, match="deepcopy of a tensor"):
        copy.deepcopy(x * 2)
    model = jg.nn.Linear(2, 2)
    twin = copy.deepcopy(model)
    with jg.no_grad():
        model.weight += 1
    assert not np.array_equal(model.state_dict()["weight"], twin.state_dict()["weight"])


# --- what a tensor says of itself -----------------------------------------------------------------------------------


def test_description() -> None:
    x = jg.zeros((2, 3), dtype=jg.int16)
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, x.strides) == ((2, 3), 2, 6, 12, 2, (6, 2))
    assert x.device == "cpu" and len(x) == 2 and x.T.shape == (3, 2) and x.mT.shape == (3, 2)
    assert x.__array_namespace__() is jg
    assert repr(jg.asarray([1.0, 2.0])) == "Tensor([1., 2.], dtype=float32)"
    assert f"{jg.asarray(1.25):.1f}" == "1.2" and f"{jg.asarray([1])}" == "Tensor([1], dtype=int64)"


def test_zero_dimensional_and_empty() -> None:
    x = jg.asarray(3)
    assert (x.shape, x.size, x.item(), int(x), float(x), bool(x), range(5)[x]) == ((), 1, 3, 3, 3.0, True, 3)
    with pytest.raises(TypeError, match="0-d"):
        len(x)
    with pytest.raises(TypeError, match="0-d"):
        iter(x)
    e = jg.zeros((0, 3))
    assert (e.size, e.tolist(), (e + 1).shape, e.sum().item()) == (0, [], (0, 3), 0.0)
    assert e.sum(axis=0).tolist() == [0.0] * 3 and e.all().item() and not e.any().item()
    assert (e @ jg.zeros((3, 2))).shape == (0, 2) and jg.concat([e, jg.ones((1, 3))]).shape == (1, 3)
    with pytest.raises(jg.ShapeError, match="bool"):
        bool(jg.zeros((2,)))
    with pytest.raises(jg.ShapeError, match="item"):
        jg.zeros((2,)).item()


def test_size_counts_as_a_number() -> None:
    x = jg.ones((4,))
    assert (x.sum() / x.size).item() == 1.0 and jg.zeros(x.size).shape == (4,)


# --- making ---------------------------------------------------------------------------------------------------------


def test_defaults_of_asarray() -> None:
    assert [jg.asarray(x).dtype for x in (1.0, [1.0, 2], 1, [1], True, [True])] == [
        jg.float32,
        jg.float32,
        jg.int64,
        jg.int64,
        jg.bool,
        jg.bool,
    ]
    assert jg.asarray(np.float64(1)).dtype == jg.float64 and jg.asarray(np.ones(2)).dtype == jg.float64
    assert jg.asarray([np.float64(1)]).dtype == jg.float64 and jg.asarray([]).dtype == jg.float32
    assert jg.asarray([1.7, -1.7, float("nan"), 1e30], dtype=jg.int8).tolist() == [1, -1, 0, 127]
    assert jg.asarray(np.ones(2, ">i4")).numpy().dtype.isnative
    assert jg.asarray(memoryview(b"ab")).tolist() == [97, 98]


class Exported:
    """An object that speaks DLPack alone."""

    def __init__(self) -> None:
        self.array = np.arange(3.0)

    def __dlpack__(self, **settings: Any) -> Any:
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_asarray_of_dlpack_copies() -> None:
    source = Exported()
    x = jg.asarray(source)
    source.array[:] = 7
    assert x.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jg.asarray(1j).astype(jg.float32), jg.DTypeError, "drop the imaginary part"),
        (lambda: jg.asarray(np.ones(1, np.clongdouble)), jg.DTypeError, "not supported"),
        (lambda: jg.asarray(1j) < 1, jg.DTypeError, "complex numbers have no order"),
        (lambda: jg.asarray("text"), jg.DTypeError, "not supported"),
        (lambda: jg.asarray(None), jg.JitgraphError, "cannot take NoneType"),
        (lambda: jg.asarray([[1], [1, 2]]), jg.JitgraphError, "not all of one length"),
        (lambda: jg.asarray([300], dtype=jg.uint8), OverflowError, r"300 does not fit uint8 \(0 to 255\)"),
        (lambda: jg.asarray([2**70]), OverflowError, "does not fit int64"),
        (lambda: jg.full((2,), -1, dtype=jg.uint8), OverflowError, "-1 does not fit uint8"),
        (lambda: jg.asarray([1], dtype=jg.int8) + 128, OverflowError, "128 does not fit int8"),
        (lambda: jg.asarray(1, dtype="float31"), jg.DTypeError, "is not a dtype"),
        (lambda: jg.zeros((2, -1)), jg.ShapeError, "negative size"),
        (lambda: jg.zeros((2.5,)), jg.ShapeError, "a size must be an integer"),
        (lambda: jg.zeros(2, device="cuda:0"), jg.DeviceError, "not available"),
        (lambda: jg.ones(2).cuda(), jg.DeviceError, "not available"),
        (lambda: jg.Tensor([1.0]), jg.JitgraphError, r"jg\.asarray\(data\)"),
        (lambda: jg.ones((2, 3)).sum(dim=1), jg.JitgraphError, "dim= is not a parameter\n  hint: write axis"),
        (lambda: jg.ones((2, 3)).sum(axis=0, keepdim=True), jg.JitgraphError, "write keepdims"),
        (lambda: jg.concat([jg.ones(1)], dim=0), jg.JitgraphError, "write axis"),
        (lambda: jg.ones((2, 3)).size(0), jg.JitgraphError, r"write x\.shape\[0\]"),
        (lambda: jg.ones((2, 3)).size(), jg.JitgraphError, r"write x\.shape"),
        (lambda: jg.ones(2).data, AttributeError, r"with jg\.no_grad"),
        (lambda: jg.ones(2).view(1, 2), jg.JitgraphError, r"x\.reshape"),
        (lambda: jg.ones(2).nothing, AttributeError, "no attribute 'nothing'"),
        (lambda: jg.from_numpy(np.ones(1)), AttributeError, r"write jg\.asarray"),
        (lambda: jg.cat([]), AttributeError, r"write jg\.concat"),
        (lambda: jg.ones(2) + jg.ones(3), jg.ShapeError, "sizes 2 and 3 meet on axis -1"),
        (lambda: jg.ones((2, 3)) @ jg.ones((2, 3)), jg.ShapeError, "inner sizes 3 and 2 differ"),
        (lambda: jg.ones((2, 3)).T.T.reshape(4), jg.ShapeError, "6 elements against 4"),
        (lambda: jg.ones(3).T, jg.ShapeError, "for matrices"),
        (lambda: jg.ones((2, 3)).sum(axis=2), IndexError, "axis 2 is out of range for a tensor of rank 2"),
        (lambda: jg.ones((2, 3)).sum(axis=(0, -2)), jg.JitgraphError, "names an axis twice"),
        (lambda: jg.asarray([1]) & jg.asarray([1], dtype=jg.uint64), jg.DTypeError, "bitwise_and takes an integer"),
        (lambda: jg.ones(2) & jg.ones(2), jg.DTypeError, "bitwise_and takes an integer or bool"),
        (lambda: jg.asarray([True]) - jg.asarray([True]), jg.DTypeError, "sub takes a number"),
        (lambda: jg.zeros((0, 2)).max(axis=0), jg.ShapeError, "max of no elements"),
        (lambda: jg.zeros((0,)).argmin(), jg.ShapeError, "argmin of no elements"),
        (lambda: jg.ones((2, 2)).cumsum(), jg.ShapeError, "needs an axis"),
        (lambda: jg.ones(2) + "a", TypeError, "unsupported operand"),
        (lambda: jg.ones(2) - [1, 2], TypeError, "unsupported operand"),
    ],
)
def test_errors_name_the_way_out(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_errors_name_the_line() -> None:
    with pytest.raises(jg.ShapeError) as info:
        jg.ones(2) + jg.ones(3)
    assert info.value.location is not None and info.value.location.file.endswith("test_tensor.py")


# --- promotion ------------------------------------------------------------------------------------------------------

_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2}


def expected_promotion(a: Any, b: Any) -> Any:
    """The Array API's table (with bfloat16 beside float16), and where it is silent the float's dtype."""
    pair = {a.name, b.name}
    if a == b:
        return a
    if pair == {"float16", "bfloat16"}:
        return jg.float32
    kinds = ["f" if d in (jg.float16, jg.bfloat16, jg.float32, jg.float64) else d.kind for d in (a, b)]
    if kinds[0] != kinds[1] and (_ORDER[kinds[0]] != _ORDER[kinds[1]]):
        return max((a, b), key=lambda d: _ORDER["f" if d.name.startswith(("float", "bfloat")) else d.kind])
    if set(kinds) == {"i", "u"}:
        return np.promote_types(a, b)
    return max((a, b), key=lambda d: d.itemsize)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(dtypes.DTYPES, repeat=2)), ids=str)
def test_promotion_table(a: Any, b: Any) -> None:
    x, y = jg.ones((2,), dtype=a), jg.ones((2,), dtype=b)
    expected = expected_promotion(a, b)
    assert jg.concat([x, y]).dtype == jg.stack([y, x]).dtype == jg.where(x == 1, x, y).dtype == expected
    assert (x == y).dtype == jg.bool
    if expected != jg.bool:
        assert (x + y).dtype == (y * x).dtype == expected


@pytest.mark.parametrize("dtype", dtypes.DTYPES, ids=str)
def test_python_scalars_are_weak(dtype: Any) -> None:
    x = jg.ones((2,), dtype=dtype)
    is_float = dtypes.is_float(dtype)
    assert (x + 1).dtype == (1 + x).dtype == (jg.int64 if dtype == jg.bool else dtype)
    assert (x * 1.5).dtype == (1.5 * x).dtype == (dtype if is_float else jg.float32)
    assert (x / 2).dtype == (dtype if is_float else jg.float32)
    assert jg.where(x == 1, x, True).dtype == dtype


def test_numpy_operands_are_strong_and_defer() -> None:
    x = jg.ones((2,))
    for result in (np.ones(2) * x, x * np.ones(2), np.float64(2) * x, x - np.float64(1)):
        assert isinstance(result, jg.Tensor) and result.dtype == jg.float64
    assert (np.ones((2, 2), np.float32) @ x).tolist() == [2.0, 2.0]
    assert (2**x).dtype == jg.float32 and (2.5 ** jg.asarray([1, 2])).dtype == jg.float32


def test_comparison_with_what_is_no_number() -> None:
    x = jg.ones(2)
    assert (x == None) is False and (x != "a") is True  # noqa: E711


def test_scalars_that_compare_equal_are_kept_apart() -> None:
    x = jg.zeros((1,))
    assert np.signbit((x * -0.0).item()) and not np.signbit((x * 0.0).item())
    y = jg.asarray([2])
    assert ((y + 1).dtype, (y + 1.0).dtype, (y + True).dtype) == (jg.int64, jg.float32, jg.int64)
