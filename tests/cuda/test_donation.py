"""State on a GPU is updated in place where nobody else sees its memory, and is otherwise left as it is."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.placement import DeviceValue
from jitgraph.tracing.call.invocation import InPlaceCall
from tests.graphs import needs_native
from tests.runtime.cuda.machines import Machine, machine

A = np.arange(12, dtype=np.float32).reshape(4, 3)

pytestmark = needs_native


@pytest.fixture
def here() -> Iterator[Machine]:
    with machine(hides=True) as actual:
        yield actual
        gc.collect()


class Model:
    def __init__(self, array: Any) -> None:
        self.weight = jg.asarray(array, device="cuda")

    @property
    def address(self) -> int:
        return int(self.weight._value.buffer.address)


def made(array: Any) -> tuple[Model, Callable[[Any], None]]:
    """A model, and a traced function that adds to its weight."""
    model = Model(array)

    @jg.trace
    def update(x: Any) -> None:
        model.weight += x

    return model, update


def test_state_that_nobody_else_holds_keeps_its_memory(here: Machine) -> None:
    (model, update), x = made(A), jg.asarray(A, device="cuda")
    addresses = set()
    for number in range(1, 5):
        update(x)
        gc.collect()  # cycles of the recording may hold the state that it met
        addresses.add(model.address)
        np.testing.assert_array_equal(model.weight.cpu().numpy(), A * (number + 1))
    assert len(addresses) == 1


SHARING: dict[str, Callable[[Any], Any]] = {
    "another handle": lambda x: x.clone(),
    "detached": lambda x: x.detach(),
    "a value": lambda x: jg.Tensor._of(x._value),
    "dlpack": lambda x: x.__dlpack__(max_version=(1, 0)),
}


@pytest.mark.parametrize("name", SHARING)
def test_memory_that_somebody_else_sees_is_left_as_it_is(here: Machine, name: str) -> None:
    (model, update), x = made(A), jg.asarray(A, device="cuda")
    update(x)
    before = model.address
    held = SHARING[name](model.weight)
    update(x)
    assert model.address != before
    np.testing.assert_array_equal(model.weight.cpu().numpy(), A * 3)
    if isinstance(held, jg.Tensor):
        np.testing.assert_array_equal(held.cpu().numpy(), A * 2)


def test_memory_that_was_shown_is_never_written_again(here: Machine) -> None:
    (model, update), x = made(A), jg.asarray(A, device="cuda")
    shown = model.weight.__cuda_array_interface__["data"][0]
    update(x)
    assert model.address != shown
    model.weight._value.access = "borrowed"
    before = model.address
    update(x)
    assert model.address != before


def test_an_operand_that_is_the_state_itself_is_read_first(here: Machine) -> None:
    model, update = made(A)
    update(model.weight)
    update(model.weight)
    np.testing.assert_array_equal(model.weight.cpu().numpy(), A * 4)


def test_writing_in_place_comes_after_readers_on_other_streams() -> None:
    for seed in range(4):
        with machine(hides=True, seed=seed):
            (model, update), x = made(A), jg.asarray(A, device="cuda")
            update(x)
            with jg.cuda.stream(jg.cuda.Stream()):
                read = model.weight * 1
            for _ in range(3):
                update(x)
            np.testing.assert_array_equal(read.cpu().numpy(), A * 2)
            np.testing.assert_array_equal(model.weight.cpu().numpy(), A * 5)
            del model, update, x, read
            gc.collect()


def test_state_is_not_written_before_a_check_that_may_fail(here: Machine) -> None:
    model, other = Model(A[:2]), jg.asarray(A, device="cuda")
    good, bad = (jg.asarray(np.array(rows), device="cuda") for rows in ([1, 2], [1, 9]))

    @jg.trace
    def step(rows: Any) -> None:
        taken = jg.take(other, rows, axis=0)
        model.weight *= 2
        model.weight += taken

    step(good)
    expected = A[:2] * 2 + A[[1, 2]]
    np.testing.assert_array_equal(model.weight.cpu().numpy(), expected)
    value = model.weight._value
    step(bad)
    with pytest.raises(IndexError):
        jg.cuda.synchronize()
    np.testing.assert_array_equal(value.fetched(), expected)


def test_who_reads_a_handle_while_its_memory_is_overwritten_waits(here: Machine) -> None:
    model = Model(A)
    call, actual = InPlaceCall(1, on_device=True), []
    with call.lock:
        assert call.begin([model.weight], [model.weight._value], [0]) is None
        reader = threading.Thread(target=lambda: actual.append((model.weight + 1).cpu().numpy()))
        reader.start()
        reader.join(0.2)
        assert reader.is_alive()
        call.end([model.weight])
    reader.join()
    np.testing.assert_array_equal(actual[0], A + 1)
    assert type(model.weight._value) is DeviceValue


def test_what_lies_on_the_cpu_is_computed_there_without_waiting(here: Machine) -> None:
    x = jg.asarray(A, device="cuda")
    draw = jg.trace(lambda x: x + jg.random.uniform((4, 3)))
    draw(x)
    before = here.calls("cuMemcpyDtoHAsync_v2")
    results = [draw(x) for _ in range(3)]
    assert here.calls("cuMemcpyDtoHAsync_v2") == before
    assert len({y.cpu().numpy().tobytes() for y in results}) == 3


def test_numbers_that_stay_the_same_are_copied_once(here: Machine) -> None:
    x, weight = jg.asarray(A, device="cuda"), jg.asarray(A, device="cuda")
    weight.requires_grad = True
    scaled = jg.trace(lambda x, rate, shift: x * weight * rate + shift)
    scaled(x, 0.5, 1.5)
    before = here.calls("cuMemcpyHtoDAsync_v2")
    for _ in range(3):
        scaled(x, 0.5, 1.5)
    assert here.calls("cuMemcpyHtoDAsync_v2") == before
    scaled(x, 0.25, 1.5).sum().backward()
    assert here.calls("cuMemcpyHtoDAsync_v2") == before + 2  # the numbers, and the weight of the sum's gradient
    np.testing.assert_allclose(weight.grad.cpu().numpy(), A * 0.25)


def test_a_number_of_the_cpu_gets_its_gradient_there(here: Machine) -> None:
    x, scale = jg.asarray(A, device="cuda"), jg.asarray(2.0)
    scale.requires_grad = True
    for function in (lambda x: (x * scale).sum(), jg.trace(lambda x: (x * scale).sum())):
        scale.grad = None
        function(x).backward()
        assert scale.grad.device == "cpu"
        assert scale.grad.item() == A.sum()
