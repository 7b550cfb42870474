"""An array of any library is an argument like one of NumPy's: an input, read where it lies at each call."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.sharing import PROTOCOLS, ByArray, ByDLPack, OnCuda, OnDevice, Refusing

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def fresh() -> Any:
    return np.array(DATA)


@pytest.mark.parametrize("make", PROTOCOLS)
@pytest.mark.parametrize("stage", [jg.trace, jg.script])
def test_it_is_read_at_each_call(make: Any, stage: Any) -> None:
    array = fresh()
    inputs = make(array)
    f = stage(lambda x: x * 2 + 1)
    for n in range(4):
        array[0, 0] = n
        np.testing.assert_array_equal(f(inputs).numpy(), array * 2 + 1)
    assert f.cache_info()[:2] == (3, 1)


@pytest.mark.parametrize("make", PROTOCOLS)
def test_it_is_not_copied(make: Any) -> None:
    array = fresh()
    f = jg.trace(lambda x: x * 2)
    f(array)
    (operand,) = f._specialisations[0].match((make(array),))[1]
    assert np.shares_memory(operand.array, array) and operand.access == "borrowed"


def test_one_specialisation_serves_all_arrays_of_a_layout() -> None:
    f = jg.trace(lambda x, scale: x * scale)
    expected = DATA * np.float32(2)
    for make in (np.asarray, *PROTOCOLS):
        np.testing.assert_array_equal(f(make(fresh()), np.float32(2)).numpy(), expected)
        np.testing.assert_array_equal(f(make(fresh()), make(np.array(2, np.float32))).numpy(), expected)
    assert f.cache_info().misses == 1
    assert f(ByDLPack(fresh()[:1]), np.float32(2)).shape == (1, 3)
    assert f(ByArray(fresh().astype(np.float64)), np.float32(2)).dtype == jg.float64
    assert "x has size 1 on axis 0, not 2" in str(f.ledger[1])
    assert "x has dtype float64, not float32" in str(f.ledger[2])


def test_its_sizes_may_have_names() -> None:
    f = jg.trace(lambda x: x.sum(axis=0), dynamic_shapes={"x": {0: "n"}})
    for n in range(1, 6):
        assert f(ByDLPack(np.ones((n, 3), np.float32))).tolist() == [float(n)] * 3
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("make", [*PROTOCOLS, lambda array: array.astype(">f4")])
def test_containers_of_it_stay_the_callers_own(make: Any) -> None:
    @jg.trace
    def step(batch: Any) -> None:
        batch["seen"] = batch["x"] * 2
        batch["count"] += 1

    batch = {"x": make(fresh()), "seen": None, "count": jg.zeros(())}
    inputs = batch["x"]
    for n in range(3):
        batch["seen"] = None
        step(batch)
        assert batch["x"] is inputs and batch["count"].item() == n + 1
        np.testing.assert_array_equal(batch["seen"].numpy(), DATA * 2)
    assert step.cache_info().misses == 1


def test_a_donated_argument_leaves_the_callers_memory_alone() -> None:
    array = fresh()
    state = jg.asarray(ByDLPack(array), copy=False)

    @jg.trace
    def step(x: Any) -> Any:
        state.__iadd__(x)
        return x * 2

    for n in range(4):
        step(ByDLPack(array))
        np.testing.assert_array_equal(array, DATA)
        np.testing.assert_array_equal(state.numpy(), DATA * (n + 2))


def test_lowered_programs_and_eager_mode_take_it() -> None:
    f = jg.trace(lambda x: x * 2)
    np.testing.assert_array_equal(f.lower(ByDLPack(fresh())).compile()(ByArray(fresh())).numpy(), DATA * 2)
    with jg.detect_anomaly():
        np.testing.assert_array_equal(f(ByDLPack(fresh())).numpy(), DATA * 2)
    checked = jg.trace(lambda x: x * 2, verify=True)
    np.testing.assert_array_equal(checked(ByDLPack(fresh())).numpy(), DATA * 2)


def test_what_eager_mode_gives_back_is_no_view_of_an_argument() -> None:
    array = fresh()
    with jg.detect_anomaly():
        result = jg.trace(lambda x: x)(array)
    array[:] = 9
    np.testing.assert_array_equal(result.numpy(), DATA)


@pytest.mark.parametrize("call", [jg.trace(lambda x: x * 2), lambda x: jg.add(x, 1), jg.asarray])
def test_memory_out_of_reach_is_refused(call: Any) -> None:
    for array, message in ((OnDevice(DATA), r"OnDevice on cuda:1[\s\S]*\.get\(\)"), (OnCuda(), "OnCuda on cuda")):
        with pytest.raises(jg.DeviceError, match=message):
            call(array)
    with pytest.raises(jg.SharingError, match=r"Refusing, does not hand over its elements: not today[\s\S]*detach"):
        call(Refusing(DATA))


def test_an_error_names_the_argument_at_a_later_call_too() -> None:
    f = jg.trace(lambda xs: xs["a"] * 2)
    f({"a": fresh()})
    with pytest.raises(jg.DeviceError, match=r"^xs\['a'\] is a "):
        f({"a": OnDevice(DATA)})
    with pytest.raises(jg.DTypeError, match=r"xs\['a'\].*ByArray, is no array of numbers"):
        f({"a": ByArray(np.array([object()]))})


@pytest.mark.parametrize("make", PROTOCOLS)
def test_eager_functions_take_it(make: Any) -> None:
    x, inputs = jg.asarray(DATA), make(fresh())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for result, due in (
            (jg.add(x, inputs), DATA + DATA),
            (jg.multiply(inputs, 2), DATA * 2),
            (x * inputs, DATA * DATA),
            (x @ make(DATA.T.copy()), DATA @ DATA.T),
            (x == inputs, DATA == DATA),
            (jg.where(x > 2, inputs, 0), np.where(DATA > 2, DATA, 0)),
            (jg.sum(inputs, axis=0), DATA.sum(axis=0)),
            (x[make(np.array([1, 0]))], DATA[::-1]),
            (x[make(DATA > 2)], DATA[DATA > 2]),
            (jg.stack([x, inputs]), np.stack([DATA, DATA])),
        ):
            np.testing.assert_array_equal(result.numpy(), due)
    x[0] = make(DATA[1])
    np.testing.assert_array_equal(x.numpy(), DATA[[1, 1]])
