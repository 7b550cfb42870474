"""Parts of tensors and numbers in calls past Python: whose memory a part is, which numbers a table takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.eager.dispatch.test_eager_calls import bits, natively, pytestmark

__all__ = ["pytestmark"]


def rows() -> Any:
    return jg.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))


def test_a_part_lies_in_the_memory_of_its_tensor_and_outlives_it() -> None:
    tensors = [rows()]
    part, count = natively(lambda: tensors[0][1])
    assert count == 1
    tensors.clear()
    others = [rows() * 2 for _ in range(100)]
    assert part.numpy().tolist() == [4, 5, 6, 7]
    assert part[1:3].reshape(2, 1).numpy().tolist() == [[5], [6]]
    del others


def test_a_traced_call_does_not_write_to_a_part_in_place() -> None:
    double = jg.trace(lambda state: state.__setitem__(..., state * 2))
    x = rows() + 0.0
    natively(lambda: x[1])
    for _ in range(20):
        part = x[1]
        double(part)
        assert x.numpy()[1].tolist() == [4, 5, 6, 7]
        assert part.numpy().tolist() == [8, 10, 12, 14]


def test_a_part_of_a_caller_s_memory_shows_what_the_caller_writes() -> None:
    x = rows()
    natively(lambda: x[:, 1])
    natively(lambda: x.mT)
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    lent = jg.asarray(array, copy=False)
    column, turned = lent[:, 1], lent.mT
    array[:] = 7
    assert column.numpy().tolist() == [7, 7, 7]
    assert (turned.numpy() == 7).all()


def test_ints_of_an_index_are_in_range() -> None:
    x = rows()
    natively(lambda: x[1])
    assert [x[i].numpy()[0] for i in range(-3, 3)] == [0, 4, 8, 0, 4, 8]
    for device in (3, -4, 10**30):
        with pytest.raises(IndexError, match=f"index {device} is out of range for axis 0 with size 3"):
            x[device]
    assert x[True].shape == (1, *x.shape)  # a bool is a mask of rank 0, and no number


def test_a_result_of_indexing_is_not_written_to_without_a_name() -> None:
    x = rows()
    natively(lambda: x[0])
    with pytest.raises(jg.errors.JitgraphError, match="unnamed"):
        x[0][0] = 1


def test_an_exponent_is_the_number_that_a_table_was_made_for() -> None:
    x = rows() + 0.1
    for exponent in (2, 3, 0.5, 2.5, 2.0):
        expected = bits(jg.trace(lambda x, n=exponent: x**n)(x))
        actual, count = natively(lambda n=exponent: x**n)
        assert (bits(actual), count) == (expected, 1)
    assert bits(x**3) != bits(x**2)


def test_numbers_that_a_dtype_does_not_hold_are_left_to_python() -> None:
    x, n = rows(), jg.asarray(np.arange(4))
    natively(lambda: x * 2.0)
    natively(lambda: n + 1)
    natively(lambda: n < 1)
    assert bits(x * True) == bits(x)
    assert (n + 1.5).dtype == jg.float32
    assert bool((n < 2**70).all())
    with pytest.raises(jg.errors.NumberError):
        n + 2**70
    assert bits(x * (2**24 + 1)) == bits(x * float(2**24))
    with pytest.raises(jg.errors.NumberError):
        x * 10**400
    assert np.signbit((jg.asarray(np.float32(0)) * -1.0).numpy())


def test_gradients_of_parts_add_up_as_those_of_a_trace() -> None:
    """A cotangent of -0.0 stays where it is the only one, and becomes 0.0 where zeros of another are added."""
    weights = jg.asarray(np.array([-0.0, 1.0, -0.0, 2.0], np.float32))

    def one(x: Any) -> Any:
        return (x[1:2, :] * weights).sum()

    def two(x: Any) -> Any:
        return (x[:, 1] * 3.0).sum() + (x[2, 1:] * weights[1:]).sum() + (x[0] * weights).sum()

    for loss in (one, two):

        def gradient(loss: Any = loss) -> Any:
            leaf = rows().requires_grad_()
            loss(leaf).backward()
            return leaf.grad

        actual, _ = natively(gradient)
        assert bits(actual) == bits(jg.trace(jg.grad(loss))(rows()))


def test_gradients_of_gradients_of_parts() -> None:
    def loss(x: Any) -> Any:
        return (x[1, 1:3] ** 3).sum() + (x[::2, None, -1] ** 3).sum()

    def second(x: Any) -> Any:
        return jg.grad(lambda x: (jg.grad(loss)(x) * 2.0).sum())(x)

    actual, _ = natively(lambda: second(rows()))
    assert bits(actual) == bits(jg.trace(second)(rows()))
