"""Habits of users of PyTorch, NumPy and JAX: what works, and what the errors say to write instead."""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.migration_hints import foreign_names
from jitgraph.runtime import stubs

LOGGER = logging.getLogger(__name__)


def vector() -> Any:
    return jg.asarray([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: jg.tensor([1.0]), jg.JitgraphError, r"write jg\.asarray\(data\)"),
        (lambda x: jg.array([1.0]), AttributeError, r"write jg\.asarray"),
        (lambda x: jg.long, AttributeError, r"write jg\.int64"),
        (lambda x: jg.jit(len), AttributeError, r"write jg\.trace"),
        (lambda x: jg.arcsin(x), AttributeError, r"write jg\.asin"),
        (lambda x: jg.random.standard_normal(3), AttributeError, r"write jg\.random\.normal"),
        (lambda x: jg.random.PRNGKey(0), AttributeError, r"write jg\.random\.seed"),
        (lambda x: jg.random.normal(0, 1, (3,)), jg.JitgraphError, r"jg\.random\.normal\(shape, mean, std\)"),
        (lambda x: jg.random.uniform(0, 1, (3,)), jg.JitgraphError, r"jg\.random\.uniform\(shape, low, high\)"),
        (lambda x: jg.nn.RNNBase, AttributeError, r"write jg\.nn\.RNN, jg\.nn\.LSTM or jg\.nn\.GRU"),
        (lambda x: jg.data.unknown, AttributeError, "no attribute 'unknown'$"),
        (lambda x: jg.fori_loop, AttributeError, r"range\(n\): in a @jg\.script"),
        (lambda x: jg.exp(x, out=x), jg.JitgraphError, r"y\[\.\.\.\] = f\(x\)"),
        (lambda x: jg.trace(lambda y: np.median(y))(x), jg.TraceError, r"hint: write jg\.median,"),
        (lambda x: jg.trace(lambda y: math.exp(y[0]))(x), jg.TraceError, r"write jg\.exp for math\.exp"),
        (lambda x: jg.trace(lambda y: LOGGER.warning("y") or y)(x), jg.TraceError, r"LOGGER[\s\S]*jg\.debug\.print"),
        (lambda x: jg.trace(lambda y: logging.info("y") or y)(x), jg.TraceError, r"logging\.info in a traced function"),
        (lambda x: jg.checkpoint(jg.sin, x), jg.JitgraphError, r"hint: jg\.checkpoint\(f\)\(x\)"),
        (lambda x: jg.nn.Unknown, AttributeError, "no attribute 'Unknown'$"),
        (lambda x: jg.unknown, AttributeError, "no attribute 'unknown'$"),
        (lambda x: x.flat, AttributeError, r"x\.reshape\(-1\)"),
        (lambda x: x.at[0].set(1), AttributeError, r"x\[i\] = v"),
        (lambda x: x.abs_(), AttributeError, r"write x\[\.\.\.\] = x\.abs\(\.\.\.\)"),
        (lambda x: x.unknown_(), AttributeError, "no attribute 'unknown_'$"),
        (lambda x: setattr(x, "data", x), jg.JitgraphError, r"x\.data cannot be set"),
        (lambda x: setattr(x, "shape", (3, 1)), jg.JitgraphError, r"x\.reshape\(shape\)"),
        (lambda x: setattr(x, "dtype", jg.int8), jg.JitgraphError, r"x\.astype\(dtype\)"),
        (lambda x: x.to(device="cuda"), jg.DeviceError, "not available"),
        (lambda x: jg.ones(2, 3), jg.JitgraphError, r"hint: jg\.ones\(\(2, 3\)\)"),
        (lambda x: jg.zeros((2,), "float32"), jg.JitgraphError, r"hint: jg\.zeros\(shape, dtype=dtype\)"),
        (lambda x: jg.max(x, x), jg.JitgraphError, r"hint: jg\.maximum\(x, y\)"),
        (lambda x: jg.sum(x, axis="rows"), jg.JitgraphError, "an axis is an int, not a str"),
        (lambda x: jg.trace(lambda y: y, x), jg.TraceError, r"hint: jg\.trace\(function\)\(x\)"),
        (lambda x: jg.grad(x), jg.JitgraphError, r"hint: jg\.grad\(f\)\(x\)"),
        (lambda x: jg.arange("three"), jg.JitgraphError, "arange takes numbers"),
        (lambda x: jg.where(x > 1), jg.JitgraphError, r"np\.nonzero\(np\.asarray\(condition\)\)"),
        (lambda x: f"{x:.2f}", TypeError, "rank 1"),
        (lambda x: np.spacing(x), jg.JitgraphError, r"hint: np\.spacing\(np\.asarray\(x\)\) for an array"),
        (lambda x: np.add.at(x, [0], 1.0), jg.JitgraphError, r"hint: x\[i\] = v, or jg\.index_add"),
        (lambda x: np.add.reduceat(x, [0]), jg.JitgraphError, r"hint: np\.add\.reduceat\(np\.asarray\(x\)\)"),
        (lambda x: np.add.reduce(x, initial=1), jg.JitgraphError, r"np\.add\.reduce of a Tensor"),
        (lambda x: np.add(x, x, where=x > 1), jg.JitgraphError, r"where= and no out=\n  hint: jg\.where"),
        (lambda x: np.sum(x, where=x > 1), jg.JitgraphError, r"takes no where=\n  hint: jg\.where"),
        (lambda x: np.sum(x, out=np.zeros(())), jg.JitgraphError, r"into an array"),
        (lambda x: np.add(x, 0.5, out=jg.arange(3)), jg.DTypeError, "float32 does not fit out= of int64"),
        (lambda x: np.take(x, [5], mode="wrap"), jg.JitgraphError, r"jg\.remainder"),
        (lambda x: np.split(x, 2), jg.ShapeError, r"hint: np\.array_split"),
        (lambda x: np.reshape(x, (3, 1), order="F"), jg.JitgraphError, r"row-major"),
        (lambda x: np.pad(x, 1, mode="edge"), jg.JitgraphError, r"np\.pad\(np\.asarray\(x\)"),
        (lambda x: np.add(x, x, out=np.zeros(3)), jg.JitgraphError, r"np\.asarray\(x\) is an array"),
        (lambda x: np.bincount(x.requires_grad_()), jg.JitgraphError, r"np\.asarray\(x\.detach\(\)\)"),
        (lambda x: jg.from_dlpack([1.0]), jg.JitgraphError, r"hint: jg\.asarray"),
        (lambda x: jg.unique(x, dim=0), jg.JitgraphError, r"write axis"),
        (lambda x: x.data_ptr(), AttributeError, r"np\.asarray\(x\)\.ctypes\.data"),
        (lambda x: x.std(unbiased=False), jg.JitgraphError, r"write correction=1, or correction=0"),
        (lambda x: jg.var(x, ddof=1), jg.JitgraphError, r"write correction$"),
        (lambda x: x.clip(a_min=0), jg.JitgraphError, r"write min$"),
        (lambda x: x.sum(axes=0), jg.JitgraphError, r"write axis$"),
        (lambda x: jg.random.normal(size=(3,)), jg.JitgraphError, "the shape, the first argument"),
    ],
)
def test_errors_say_what_to_write(call: Callable[[Any], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(vector())


def test_keywords_of_numpy_that_are_not_taken_say_which_are() -> None:
    """Each parameter of a function of NumPy that has a namesake here is a parameter, or its error has a hint."""
    functions = {name: getattr(jg, name) for name in stubs.of("jitgraph.tensor.functions").names}
    of_ufuncs = {"out", "where", "casting", "order", "dtype", "subok", "signature"}
    seen = 0
    for name in functions:
        theirs = getattr(np, name, None)
        if not callable(theirs) or name in ("asarray", "arange"):
            continue
        inputs = {} if isinstance(theirs, np.ufunc) else inspect.signature(theirs).parameters
        names = {key for key, p in inputs.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)} or of_ufuncs
        own = inspect.signature(functions[name]).parameters
        for keyword in names - set(own):
            with pytest.raises(jg.JitgraphError, match=f": {keyword}= is not a parameter\n  hint: "):
                functions[name](**{keyword: 1})
            seen += 1
    assert seen > 400
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        jg.sum(vector(), unknown=1)  # type: ignore[call-arg]


def test_save_says_what_it_needs(tmp_path: Any) -> None:
    path, f = tmp_path / "f.jg", jg.trace(lambda x: x + 1)
    with pytest.raises(jg.JitgraphError, match=r"example_inputs=\(x,\)"):
        jg.save(f, path)
    for metadata, message in (
        ({"a": object()}, r"metadata\['a'\] cannot"),
        ({"b": float("nan")}, "JSON"),
        ([1], "dict"),
    ):
        with pytest.raises(jg.JitgraphError, match=message):
            jg.save(f, path, example_inputs=(vector(),), metadata=metadata)
    assert not path.exists()


def test_numpy_functions_without_a_form_give_arrays() -> None:
    x = jg.asarray([[1.0, 2.0], [3.0, 4.0]])
    for actual, wanted in (
        (np.corrcoef(x), [[1, 1], [1, 1]]),
        (np.array_equal(x, x), True),
        (np.allclose(x, 2), False),
    ):
        assert not isinstance(actual, jg.Tensor)
        np.testing.assert_allclose(actual, wanted)
    assert np.shape(x) == (2, 2)
    assert jg.trace(lambda y: y * np.shape(y)[0])(x).tolist() == [[2, 4], [6, 8]]


def test_numpy_operators_give_tensors() -> None:
    x, array = jg.asarray([1.0, 2.0]), np.array([4.0, 2.0], np.float32)
    for actual, wanted in (
        (array * x, [4, 4]),
        (array - x, [3, 0]),
        (np.subtract(x, array), [-3, 0]),
        (array**x, [4, 4]),
        (array @ x, 8),
        (array < x, [False, False]),
        (array == x, [False, True]),
        (np.float32(3) / x, [3, 1.5]),
        (np.greater(x, 1), [False, True]),
    ):
        assert isinstance(actual, jg.Tensor)
        assert actual.tolist() == wanted
    assert (np.float64(2) * x).dtype == (x * np.float64(2)).dtype


def test_small_hints_work() -> None:
    assert jg.sum([1.5, 2.0]).dtype == jg.add([1.5], 1).dtype == jg.float32
    assert jg.sum([np.float64(1.5)]).dtype == jg.float64
    x = jg.asarray([1.5, -2.5])
    assert round(x).tolist() == [2.0, -2.0]
    assert x.to("cpu", jg.float64).dtype == x.to(dtype=jg.float64).dtype == jg.float64
    assert jg.tile(x, 2).tolist() == [1.5, -2.5, 1.5, -2.5]


OWNERS = {"x": jg.ones((1, 1)), "g": jg.Generator(0), "module": jg.nn.Linear(1, 1)}


def find(owner: str) -> Any:
    """What has no name of a table: a module of jitgraph, or an object."""
    result: Any = OWNERS.get(owner, jg)
    for step in owner.split(".")[1:]:
        result = getattr(result, step)
    return result


TABLES = {
    "planned": (foreign_names()["planned"], jg),
    **{name: (names, find(name)) for name, names in foreign_names()["names"].items()},
}


@pytest.mark.parametrize("table", TABLES)
def test_hinted_names_are_missing_and_their_hints_exist(table: str) -> None:
    names, owner = TABLES[table]
    for name, hint in names.items():
        assert not hasattr(owner, name), f"{table}.{name} exists; it needs no hint"
        for path in re.findall(r"\b(jg|np|x)\.((?:\w+\.)*\w+)", hint):
            actual: Any = {"jg": jg, "np": np, "x": jg.ones((1, 1))}[path[0]]
            for step in path[1].split("."):
                actual = getattr(actual, step)
