"""Tensors go out by DLPack and come in by it: the same memory, read-only, never used again while somebody has it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitgraph as jg
from jitgraph.dtypes import DTYPES
from jitgraph.runtime import dlpack
from tests.sharing import PROTOCOLS, ByArray, ByDLPack, ByInterface, ByOldDLPack

BY_NUMPY = [dtype for dtype in (*DTYPES, jg.complex64, jg.complex128) if dtype != jg.bfloat16]


class OfAnotherType(ByDLPack):
    """An array that says in its capsule that its elements are of a type nobody here knows."""

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        dlpack._set_type(dlpack.descriptor(capsule), (2, 8, 1))
        return capsule


class OnAnotherDevice(ByDLPack):
    """An array that says in its capsule alone that it is in the memory of a GPU."""

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        dlpack.descriptor(capsule).device[0] = 2
        return capsule


@pytest.mark.parametrize("dtype", BY_NUMPY, ids=str)
def test_numpy_sees_the_memory_and_may_not_write(dtype: Any) -> None:
    x = jg.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    array = np.from_dlpack(x)
    assert array.dtype == dtype and np.shares_memory(array, x._value.array) and not array.flags.writeable
    np.testing.assert_array_equal(array, x.numpy())
    assert x.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (3, 4)])
@pytest.mark.parametrize("kind", [ByDLPack, ByOldDLPack])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_dtype_comes_back_as_it_went(dtype: Any, kind: Any, shape: Any) -> None:
    x = jg.asarray(np.arange(int(np.prod(shape))).reshape(shape).astype(dtype))
    y = jg.asarray(kind(x))
    assert y.dtype == x.dtype and y.shape == shape
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_views_go_out_as_they_lie() -> None:
    x = jg.asarray(np.arange(24, dtype=np.float32).reshape(4, 6))
    for view in (x.T, x[1:, ::2]):
        np.testing.assert_array_equal(np.from_dlpack(view), np.asarray(view))


def test_a_capsule_keeps_the_memory_alive() -> None:
    x = jg.asarray(np.arange(3.0))
    held = weakref.ref(x._value.array)
    capsule = x.__dlpack__(max_version=(1, 0))
    x[0] = 7
    array = np.from_dlpack(dlpack._Borrowed(capsule))
    del capsule
    gc.collect()
    assert array.tolist() == [0.0, 1.0, 2.0] and held() is not None
    del array
    gc.collect()
    assert held() is None


def test_a_capsule_that_nobody_took_lets_the_memory_go() -> None:
    for dtype in (jg.float32, jg.bfloat16):
        x = jg.ones(3, dtype=dtype)
        held = weakref.ref(x._value.array)
        for options in ({}, {"max_version": (1, 0)}):
            x.__dlpack__(**options)
        del x
        gc.collect()
        assert held() is None


def test_a_caller_of_before_version_1_gets_a_copy() -> None:
    x = jg.asarray(np.arange(3.0))
    for array in (np.from_dlpack(ByOldDLPack(x)), np.from_dlpack(x, copy=True)):
        assert array.tolist() == [0.0, 1.0, 2.0] and not np.shares_memory(array, x._value.array)
    with pytest.raises(jg.SharingError, match=r"read-only without a copy[\s\S]*max_version=\(1, 0\)"):
        x.__dlpack__(copy=False)
    assert np.shares_memory(np.from_dlpack(x, copy=False), x._value.array)
    names = [repr(x.__dlpack__(max_version=version)) for version in (None, (0, 8), (1, 0), (2, 3))]
    assert ["dltensor_versioned" in name for name in names] == [False, False, True, True]


@pytest.mark.parametrize("options", [{"stream": 1}, {"dl_device": (2, 0)}])
def test_what_the_cpu_has_not_is_refused_as_the_protocol_says(options: Any) -> None:
    with pytest.raises(BufferError, match=r"on the CPU[\s\S]*leave"):
        jg.ones(3).__dlpack__(max_version=(1, 0), **options)


def test_a_tensor_with_a_gradient_or_in_a_trace_gives_no_memory() -> None:
    p = jg.ones(3).requires_grad_()
    for use in (np.from_dlpack, np.asarray, lambda x: x.numpy()):
        with pytest.raises(jg.SharingError, match=r"requires a gradient[\s\S]*detach"):
            use(p)
    with pytest.raises(jg.TraceError, match="DLPack"):
        jg.trace(lambda x: np.from_dlpack(x) * 2)(jg.ones(3))


def test_other_interfaces_are_not_there() -> None:
    x = jg.ones(3)
    assert not hasattr(x, "__cuda_array_interface__") and not hasattr(x, "__array_interface__")
    with pytest.raises(AttributeError, match="on the CPU"):
        x.__cuda_array_interface__  # noqa: B018
    with pytest.raises(AttributeError, match="rebound"):
        x.__array_interface__  # noqa: B018


def test_elements_without_a_dtype_here_are_named() -> None:
    with pytest.raises(jg.DTypeError, match=r"\(2, 8, 1\)"):
        jg.asarray(OfAnotherType(np.ones(3, np.uint8)))
    with pytest.raises(jg.DTypeError, match="not supported"):
        jg.asarray(ByArray(np.ones(3, np.clongdouble)))
    with pytest.raises(jg.DTypeError, match="float8"):
        jg.asarray(ByArray(np.ones(3, ml_dtypes.float8_e4m3fn)))


@pytest.mark.parametrize("dtype", BY_NUMPY, ids=str)
def test_what_numpy_refuses_for_another_reason_is_no_matter_of_elements(dtype: Any) -> None:
    for take in (jg.asarray, jg.trace(lambda x: x + x)):
        with pytest.raises(jg.SharingError, match=r"does not hand over its elements: .*device"):
            take(OnAnotherDevice(np.ones(3, dtype)))


@pytest.mark.parametrize("make", [np.asarray, *PROTOCOLS])
def test_asarray_copies_what_could_be_written_to_and_borrows_when_told(make: Any) -> None:
    for copy in (None, True):
        array = np.arange(3, dtype=np.float32)
        x = jg.asarray(make(array), copy=copy)
        array[0] = 9
        assert x.tolist() == [0.0, 1.0, 2.0] and x._value.access == "own"
    x = jg.asarray(make(array), copy=False)
    array[1] = 9
    assert x.tolist() == [9.0, 9.0, 2.0] and x._value.access == "borrowed"
    assert jg.asarray(make(array), dtype=jg.int64).tolist() == [9, 9, 2]


def test_copy_true_copies_and_keeps_gradients() -> None:
    array = np.arange(3, dtype=np.float32)
    frozen = np.frombuffer(array.tobytes(), np.float32)
    assert np.shares_memory(jg.asarray(frozen)._value.array, frozen)
    assert not np.shares_memory(jg.asarray(frozen, copy=True)._value.array, frozen)
    x = jg.asarray(array, copy=False).requires_grad_()
    y = x * 2
    z = jg.asarray(y, copy=True)
    assert not np.shares_memory(z._value.array, y._value.array)
    z.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0] * 3
    assert jg.asarray(y, copy=False)._value is y._value


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda: [1.0, 2.0], "a list cannot be borrowed, as it is no array"),
        (lambda: np.ones(3, ">f8"), "bytes are in the other order"),
        (lambda: np.frombuffer(bytes(25), np.uint8)[1:].view(np.float64), "not aligned"),
        (lambda: np.ones(3, np.float32), "elements are float32, not float64"),
        (lambda: jg.ones(3), "float32 is no float64"),
        (lambda: ByInterface(np.ones(3, np.int64)), "elements are int64, not float64"),
    ],
)
def test_copy_false_says_why_it_cannot_borrow(give: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"{message}[\s\S]*leave copy out"):
        jg.asarray(give(), copy=False, dtype=jg.float64)
