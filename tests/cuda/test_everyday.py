"""What PyTorch users do with tensors of a GPU on any day: indices, numbers, optimisers that follow, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DeviceError, HostAccessError
from tests.cuda.places import Machine
from tests.graphs import needs_native

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = np.array([0, 1, 1])
ROWS = np.array([2, 0])

pytestmark = needs_native


READS: dict[str, Callable[[Any], Any]] = {
    "a list": lambda x: x[[2, 0]],
    "an array": lambda x: x[:, ROWS],
    "a tensor of the CPU": lambda x: x[jg.asarray(ROWS)],
    "two indices": lambda x: x[[0, 1], np.array([1, 2])],
    "a mask on the device": lambda x: x[x > 5],
    "a mask on the CPU": lambda x: x[X > 5],
    "take": lambda x: jg.take(x, [2, 0], axis=0),
    "take_along_axis": lambda x: jg.take_along_axis(x, np.array([[0], [1], [2]]), 1),
    "unsigned": lambda x: x[jg.asarray(ROWS.astype(np.uint64))],
    "cummax": lambda x: jg.cummax(x, 0)[1],
    "one_hot": lambda x: jg.nn.functional.one_hot(x.astype(jg.int64)[0], 5),
    "where of numbers": lambda x: jg.where(x > 5, 1.0, 0.0),
    "where with a tensor of no axes": lambda x: jg.where(x > 5, jg.asarray(2.0), x),
}

WRITES: dict[str, tuple[Any, Any]] = {
    "a row": (0, 1.0),
    "a column": ((slice(None), 1), [1.0, 2.0, 3.0]),
    "a tensor of the CPU": (0, lambda: jg.asarray(X[1])),
    "a list of rows": ([2, 0], 5),
    "all": (..., X + 1),
    "a mask on the CPU": (X > 5, 0.0),
    "a mask of rows": (np.array([True, False, True]), np.float32(3)),
    "an array": ((slice(1, 3), slice(0, 2)), np.eye(2, dtype=np.float32)),
}


@pytest.mark.parametrize("name", READS)
def test_indices_and_numbers_may_lie_on_the_cpu(here: Machine, name: str) -> None:
    result = READS[name](jg.asarray(X, device="cuda"))
    assert result.device == "cuda:0"
    np.testing.assert_array_equal(result.cpu().numpy(), READS[name](jg.asarray(X)).numpy())


@pytest.mark.parametrize("name", WRITES)
def test_an_assignment_copies_what_is_written(here: Machine, name: str) -> None:
    index, new = WRITES[name]
    expected, x = X.copy(), jg.asarray(X, device="cuda")
    value = new() if callable(new) else new
    expected[index] = np.asarray(value)
    x[index] = value
    assert x.device == "cuda:0"
    np.testing.assert_array_equal(x.cpu().numpy(), expected)


def test_a_mask_on_the_device_is_written_and_has_gradients(here: Machine) -> None:
    x = jg.asarray(X, device="cuda")
    x[x > 5] = 0.0
    np.testing.assert_array_equal(x.cpu().numpy(), np.where(X > 5, 0, X))
    weight = jg.asarray(X[0], requires_grad=True)
    x[0] = weight * 2
    (x * 3).sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), np.full(4, 6, np.float32))


def test_what_needs_the_host_names_the_way_out(here: Machine) -> None:
    x = jg.asarray(X, device="cuda")
    with pytest.raises(HostAccessError, match=r"np\.asarray\(x\.cpu\(\)"):
        np.asarray(x)
    with pytest.raises(DeviceError, match=r'jg\.asarray\(x, device="cuda:0"\) an array'):
        x + X
    with pytest.raises(DeviceError, match=r'x\.to\("cuda:0"\) brings a tensor there'):
        jg.asarray(X)[jg.asarray(ROWS, device="cuda")]


@pytest.mark.parametrize("is_traced", [True, False])
def test_an_optimiser_follows_its_parameters(here: Machine, is_traced: bool) -> None:
    def losses(device_name: str, when: int) -> list[float]:
        jg.random.seed(4)
        model = jg.nn.Linear(4, 2)
        optimizer = jg.optim.Adam(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = jg.nn.functional.cross_entropy(jg.nn.functional.dropout(model(x), 0.25), y)
            loss.backward()
            optimizer.step()
            return loss

        run, actual = jg.trace(step) if is_traced else step, []
        for number in range(3):
            there = device_name if number >= when else "cpu"
            if number == when:
                model.to(there, non_blocking=True)
            x, y = (jg.asarray(array).to(there, non_blocking=True) for array in (X / 12, Y))
            actual.append(run(x, y).item())
        return actual

    np.testing.assert_allclose(losses("cuda", 1), losses("cpu", 1), rtol=1e-5)


def test_random_numbers_are_the_same_wherever_they_are_drawn(here: Machine) -> None:
    results = []
    for device_name in ("cpu", "cuda"):
        jg.random.seed(2)
        drawn = [
            jg.random.normal((3,), device=device_name),
            jg.random.uniform((3,), 2, 3, device=device_name),
            jg.random.randint(0, 9, (5,), device=device_name),
            jg.random.permutation(jg.asarray(X, device=device_name)),
            jg.random.bernoulli(jg.full((6,), 0.5, device=device_name)),
            jg.trace(lambda: jg.random.normal((2,), device=device_name))(),  # noqa: B023 - called here
            jg.trace(lambda: jg.random.randint(-3, 9, (7,), device=device_name))(),  # noqa: B023 - called here
            jg.random.randint(-3, 9, (), dtype=jg.int16, device=device_name),
        ]
        assert {x.device.partition(":")[0] for x in drawn} == {device_name}
        results.append([x.cpu().numpy() for x in drawn])
    for x, y in zip(*results, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_who_reads_an_empty_result_meets_its_error(here: Machine) -> None:
    x = jg.asarray(np.zeros((3, 0), np.float32), device="cuda")
    with pytest.raises(IndexError, match="index 7 is out of range for an axis of 3 elements"):
        jg.take(x, jg.asarray(np.array([0, 7]), device="cuda"), axis=0).cpu()


@pytest.mark.parametrize("name", [name for name in jg.nn.init.__all__ if name.endswith("_")])
def test_initial_values_are_written_where_a_parameter_lies(here: Machine, name: str) -> None:
    more = {"constant_": (2.0,), "sparse_": (0.5,)}.get(name, ())
    shape = (4, 3, 2) if name == "dirac_" else (4, 3)
    written = []
    for device in ("cpu", "cuda"):
        jg.random.seed(2)
        parameter = jg.nn.Parameter(jg.zeros(shape, device=device))
        getattr(jg.nn.init, name)(parameter, *more)
        assert parameter.device.startswith(device)
        written.append(parameter.detach().cpu().numpy())
    np.testing.assert_array_equal(*written)
