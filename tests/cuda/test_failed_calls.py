"""What is left of a call on a GPU whose check failed: nothing of it is ever taken for a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DeviceError
from jitgraph.runtime.cuda.deferred_errors import DeferredError, joined
from tests.cuda.places import Machine, needs_two
from tests.graphs import needs_native

A = np.arange(12, dtype=np.float32).reshape(4, 3)

pytestmark = needs_native


def on(*arrays: Any) -> list[Any]:
    return [jg.asarray(array, device="cuda") for array in arrays]


def taken(x: Any, i: Any) -> Any:
    return jg.take(x, i, axis=0)


def is_lost(x: Any) -> None:
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"was not computed, as a call that it follows from failed: .*index 9"):
            x.cpu()


@needs_two
def test_state_of_a_failed_call_and_what_follows_from_it_is_lost(here: Machine) -> None:
    state, other, good, bad = on(A[:2] * 0, A, np.array([2, 0]), np.array([0, 9]))

    @jg.trace
    def update(i: Any) -> None:
        state[...] = state + jg.take(other, i, axis=0)

    update(good)
    before = state.cpu().numpy()
    update(bad)
    follows, apart = state * 2, other + 1
    copied = follows.to("cuda:1") + 1
    with pytest.raises(IndexError, match="index 9 is out of range"):
        jg.cuda.synchronize("cuda:0")
    for x in (state, follows, copied):
        is_lost(x)
    with pytest.raises(DeviceError, match="was not computed"):
        state + 1
    np.testing.assert_array_equal(apart.cpu().numpy(), A + 1)
    state[...] = jg.asarray(before)  # what was lost is loaded again
    update(good)
    np.testing.assert_array_equal(state.cpu().numpy(), 2 * A[[2, 0]])


def test_of_several_failures_one_is_raised_and_all_are_lost(here: Machine) -> None:
    """The error is raised by whatever next asks after it was seen: a later call, or the wait for all."""
    x, bad, good = on(A, np.array([9]), np.array([1]))
    failed, raised = [], 0
    well = taken(x, good)
    for wait in (lambda: failed.append(taken(x, bad)),) * 2 + (jg.cuda.synchronize,) * 3:
        try:
            wait()
        except IndexError:
            raised += 1
    assert failed and 1 <= raised <= 2
    jg.cuda.synchronize()
    for y in failed:
        is_lost(y)
    np.testing.assert_array_equal(well.cpu().numpy(), A[[1]])


def test_work_of_other_streams_is_lost_with_what_it_read(here: Machine) -> None:
    x, bad = on(A, np.array([9]))
    failed = taken(x, bad)
    with jg.cuda.stream(jg.cuda.Stream()):
        follows = failed + 1
        with pytest.raises(IndexError):
            follows.cpu()
        is_lost(follows)


def test_doubts_end_when_all_that_they_rest_on_is_known() -> None:
    first, second = DeferredError(is_open=True), DeferredError(is_open=True)
    both = joined([first, second, first])
    assert both is not None
    assert joined([first, first]) is first
    assert joined([]) is None
    third = DeferredError((both,), is_open=True)
    third.close(None)
    assert not third.is_clear
    first.close(None)
    assert third.settle() is None
    assert not third.is_clear
    error = IndexError("index 9")
    second.close(error)
    assert third.settle() is error
    fine = DeferredError((first,), is_open=True)
    fine.close(None)
    assert fine.is_clear


def test_what_is_known_to_be_well_is_forgotten(here: Machine) -> None:
    x, good = on(A, np.array([1, 0, 3, 2]))
    for _ in range(5):
        x = taken(x, good)
    jg.cuda.synchronize()
    buffer = x._value.buffer
    assert buffer.deferred_error is not None
    (x + 1).cpu()
    assert buffer.deferred_error is None
