"""Saving and loading: the file's loader, ``jg.load`` and the function itself agree bit for bit."""

from __future__ import annotations

import collections
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.ir.types import Constant
from jitgraph.runtime import loader
from jitgraph.tensor import wrap
from tests.bits import bits_of
from tests.processes import in_child


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.jg"


def test_a_named_batch_is_saved_once_and_runs_at_any_size(path: Path) -> None:
    w, b = jg.asarray(normal(5, 6)), jg.asarray(normal(6, seed=1))

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def f(x: jg.Tensor) -> jg.Tensor:
        return jg.softmax(jg.tanh(x @ w + b))

    jg.save(f, path, example_inputs=(normal(4, 5),))
    alone, again = loader.load(path), jg.load(path)
    for batch in (1, 2, 7, 100, 0):
        x = normal(batch, 5, seed=batch)
        assert bits_of(alone(x)) == bits_of(f(x)) == bits_of(again(x))
        assert alone(x).shape == (batch, 6)


def test_the_portable_image_runs_too(path: Path) -> None:
    jg.save(lambda x: jg.exp(x) * 2.0, path, example_inputs=(normal(33),))
    x = normal(33, seed=3)
    portable = loader.load(path, level="x86-64-v3")(x)
    np.testing.assert_allclose(portable, np.exp(x) * 2, rtol=1e-6)


def test_results_keep_their_structure(path: Path) -> None:
    @jg.trace
    def f(x: jg.Tensor) -> object:
        return {"a": x + 1, "b": [x.sum(), None, (x, 3, "text", True)]}

    jg.save(f, path, example_inputs=(normal(3),))
    x = normal(3, seed=1)
    for model in (loader.load(path), jg.load(path)):
        result = model(x)
        np.testing.assert_array_equal(np.asarray(result["a"]), x + 1)
        assert result["b"][1] is None
        assert result["b"][2][1:] == (3, "text", True)
        np.testing.assert_array_equal(np.asarray(result["b"][2][0]), x)


def test_results_keep_their_names(path: Path) -> None:
    """A dict's keys name the outputs in every reader; places in tuples and lists are numbered."""
    total = jg.zeros(2)

    @jg.trace
    def run(x: Any) -> Any:
        nonlocal total
        total += x
        return {"logits": x * 2, "hidden": (x + 1, [x - 1]), "b.c": x, "b": {"c": -x}}

    names = ["logits", "hidden.0", "hidden.1.0", "b.c", "b.c_2"]
    jg.save(run, path, example_inputs=(np.ones(2, np.float32),))
    model = loader.load(path)
    assert [spec.name for spec in model.outputs] == [spec.name for spec in jg.load(path).outputs] == names
    result = model(np.ones(2, np.float32))
    assert list(result) == ["logits", "hidden", "b.c", "b"]
    np.testing.assert_array_equal(result["b"]["c"], [-1, -1])
    jg.save(lambda x: (x, [x * 2, {"k": x}]), path, example_inputs=(np.ones(2, np.float32),))
    assert [spec.name for spec in loader.load(path).outputs] == ["out0", "out1.0", "out1.1.k"]
    jg.save(lambda x: x * 2, path, example_inputs=(np.ones(2, np.float32),))
    assert [spec.name for spec in loader.load(path).outputs] == ["out0"]


def test_the_loaders_state_is_set(path: Path) -> None:
    """To copies, all of the keys or none, seen by later calls and by what calls write back."""
    total, scale = jg.zeros(2), jg.ones(())

    @jg.trace
    def add(x: Any) -> Any:
        nonlocal total
        total += x * scale
        return total * 1

    x = np.ones(2, np.float32)
    jg.save(add, path, example_inputs=(x,))
    model = loader.load(path)
    (total_key,) = (key for key, value in model.state.items() if value.shape == (2,))
    (scale_key,) = (key for key, value in model.state.items() if value.shape == ())
    before = model.state
    new = np.array([10, 20], np.float32)
    model.set_state({total_key: new, scale_key: 3.0})
    new[:] = 0
    np.testing.assert_array_equal(model(x), [13, 23])
    np.testing.assert_array_equal(model(x), [16, 26])
    np.testing.assert_array_equal(before[total_key], [0, 0])
    model.set_state({total_key: model.state[total_key][::-1]})
    for values, message in (
        ({scale_key: np.float32(5), "nothing": x}, "there is no state 'nothing'; the model has"),
        ({scale_key: np.float32(5), total_key: np.ones(3, np.float32)}, r"expected .*: float32\[2\], got float32\[3\]"),
        ({scale_key: np.float32(5), total_key: np.ones(2)}, r"got float64\[2\]; convert it"),
    ):
        with pytest.raises(loader.ArgumentError, match=message):
            model.set_state(values)
    np.testing.assert_array_equal(model(x), [29, 19])


def test_state_is_written_back_by_both_loaders(path: Path) -> None:
    total = jg.zeros((3,))

    @jg.trace
    def add(x: jg.Tensor) -> jg.Tensor:
        nonlocal total
        total += x
        return total * 2

    jg.save(add, path, example_inputs=(normal(3),))
    alone, again = loader.load(path), jg.load(path)
    x = normal(3, seed=4)
    for repeat in (1, 2, 3):
        np.testing.assert_allclose(alone(x), 2 * repeat * x, rtol=1e-6)
        np.testing.assert_allclose(again(x).numpy(), 2 * repeat * x, rtol=1e-6)
    np.testing.assert_array_equal(total.numpy(), np.zeros(3))


def test_a_training_step_is_saved_and_trained_further(path: Path) -> None:
    jg.random.seed(1)
    weight = jg.nn.Parameter(jg.asarray(normal(4, 3)))
    optimizer = jg.optim.SGD([weight], lr=0.1, momentum=0.9)
    x, y = normal(8, 4, seed=1), normal(8, 3, seed=2)

    @jg.trace
    def step(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        loss = ((x @ weight - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    jg.save(step, path, example_inputs=(x, y))
    alone = loader.load(path)
    losses = [float(alone(x, y)) for _ in range(10)]
    here = [step(jg.asarray(x), jg.asarray(y)).item() for _ in range(10)]
    assert losses == here
    assert losses[-1] < losses[0]


def test_loaded_models_differentiate(path: Path) -> None:
    w = jg.asarray(normal(4, 3))
    jg.save(lambda x: jg.tanh(x @ w).sum(), path, example_inputs=(normal(2, 4),))
    model = jg.load(path)
    x = jg.asarray(normal(2, 4, seed=5), requires_grad=True)
    model(x).backward()
    expected = (1 - np.tanh(x.detach().numpy() @ w.numpy()) ** 2) @ w.numpy().T
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_large_constants_travel_with_the_weights(path: Path) -> None:
    table = normal(200, 3)

    def f(x: jg.Tensor) -> jg.Tensor:

        return x @ wrap(ops.constant(value=Constant(table)))

    jg.save(f, path, example_inputs=(normal(2, 200),))
    x = normal(2, 200, seed=1)
    np.testing.assert_allclose(loader.load(path)(x), x @ table, rtol=1e-4, atol=1e-4)
    assert bits_of(jg.load(path)(x)) == bits_of(loader.load(path)(x))


def test_a_module_is_saved_as_it_is(path: Path) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(4, 8), jg.nn.ReLU(), jg.nn.Linear(8, 2))
    jg.save(model, path, example_inputs=(normal(3, 4),))
    x = normal(3, 4, seed=9)
    np.testing.assert_allclose(loader.load(path)(x), model(jg.asarray(x)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_the_loader_alone_needs_nothing_of_jitgraph(path: Path, written: Path) -> None:
    jg.save(lambda x: x * 2 + 1, path, example_inputs=(normal(5),))
    code = (
        f"import sys; sys.path.insert(0, {str(written)!r}); import loader, numpy as np\n"
        f"y = loader.load({str(path)!r})(np.arange(5, dtype='f4'))\n"
        "assert y.tolist() == [1, 3, 5, 7, 9], y\n"
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('jitgraph', 'llvmlite', 'networkx')]\n"
        "assert not heavy, heavy"
    )
    in_child(code, "-I")


def test_a_spec_stands_for_an_example(path: Path) -> None:
    model = jg.nn.Linear(4, 2)
    jg.save(model, path, example_inputs=(jg.TensorSpec(("n", 4), jg.float32),))
    for rows in (1, 5):
        x = normal(rows, 4, seed=rows)
        np.testing.assert_allclose(loader.load(path)(x), model(jg.asarray(x)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_an_argument_that_is_not_used_is_still_an_argument(path: Path) -> None:
    jg.save(lambda x, unused: x * 2, path, example_inputs=(normal(2), normal(3)))
    assert [spec.name for spec in loader.load(path).inputs] == ["x", "unused"]
    np.testing.assert_array_equal(loader.load(path)(normal(2), normal(3)), normal(2) * 2)


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        ({"w": normal(2)}, (), "not a state dict: there is ndarray under 'w'"),
        ({}, {}, "not a state dict: it is empty"),
        ({"double": lambda x: 2 * x}, {"double": normal(2)}, r"example_inputs=\{'double': \(x,\)\}"),
        (3, (), "saves a function"),
        (lambda x: x, normal(2), "in a tuple"),
        (lambda x: object(), (normal(2),), "returns a object"),
        (lambda x: (x, float("inf")), (normal(2),), "returns the number inf"),
        (lambda x: {0: x, 1: x * 2}, (normal(2),), r"dict with the key 0, [\s\S]*\{str\(key\): value for key"),
    ],
)
def test_what_cannot_be_saved_says_why(path: Path, function: object, inputs: object, message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        jg.save(function, path, example_inputs=inputs)
    assert not path.exists()


def test_a_rebound_argument_is_refused(path: Path) -> None:
    def f(x: jg.Tensor) -> jg.Tensor:
        x += 1
        return x

    with pytest.raises(jg.JitgraphError, match="rebinds its argument x"):
        jg.save(f, path, example_inputs=(jg.asarray(normal(2)),))


def test_bad_files_and_calls_say_what_is_wrong(path: Path) -> None:
    jg.save(lambda x: x + 1, path, example_inputs=(normal(3),))
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    for read in (loader.load, jg.load):
        with pytest.raises(jg.LoadError, match="was cut or changed"):
            read(path)
    path.write_bytes(good)
    with pytest.raises(jg.ArgumentError, match="x"):
        loader.load(path)(normal(4))
    with pytest.raises(jg.JitgraphError, match="an argument has size 4"):
        jg.load(path)(normal(4))


def test_a_result_that_is_the_old_state_is_the_old_state(path: Path) -> None:
    state = jg.asarray(normal(3))

    @jg.trace
    def advance(x: jg.Tensor) -> jg.Tensor:
        nonlocal state
        old = state.clone()
        state += x
        return old

    jg.save(advance, path, example_inputs=(normal(3),))
    alone, again = loader.load(path), jg.load(path)
    before = state.numpy().copy()
    x = normal(3, seed=2)
    for step in (advance, alone, again):
        np.testing.assert_array_equal(np.asarray(step(x)), before)
        np.testing.assert_array_equal(np.asarray(step(x)), before + x)
    np.testing.assert_array_equal(state.numpy(), before + x + x)


def test_composites_travel_with_their_regions(path: Path) -> None:
    jg.save(lambda x: jg.softmax(x), path, example_inputs=(normal(2, 3),))
    text = zipfile.ZipFile(path).read("graph.jgir").decode()
    assert re.search(r"= softmax\(%x\) .*\[.*\n\s+graph @softmax", text), text


def test_keys_of_a_dict_may_hold_anything(path: Path) -> None:
    """They may be words of Python, begin with a digit or have spaces; arguments given by name have such keys, too."""
    keys = ("class", "2nd", "a b", "ß", "_", "-", "lambda x")
    arguments = {key: normal(2, seed=number) for number, key in enumerate(keys)}
    jg.save(lambda d: sum(d[key] * number for number, key in enumerate(keys)), path, example_inputs=(arguments,))
    assert bits_of(jg.load(path)(arguments)) == bits_of(loader.load(path)(arguments))
    assert [spec.name for spec in loader.load(path).inputs] == [f"d.{key}" for key in keys]


def test_a_python_float_reaches_a_loaded_function_unrounded(path: Path) -> None:
    jg.save(lambda x, rate: x * rate, path, example_inputs=(np.ones(3), 0.5))
    for f in (jg.load(path), loader.load(path)):
        assert bits_of(f(np.ones(3), 0.1)) == bits_of(f(np.ones(3), rate=0.1)) == bits_of(np.full(3, 0.1))


def test_a_float_that_has_a_default_keeps_it(path: Path) -> None:
    @jg.trace
    def f(x: jg.Tensor, rate: float = 0.1, *, shift: float = 0.25) -> jg.Tensor:
        return x * rate + shift

    jg.save(f, path, example_inputs=(np.ones(3), 0.5))
    for g in (jg.load(path), loader.load(path)):
        assert [spec.default for spec in g.inputs] == [None, 0.1, 0.25]
        assert bits_of(g(np.ones(3))) == bits_of(np.full(3, 0.1) + 0.25)
        assert bits_of(g(np.ones(3), shift=0.0)) == bits_of(np.full(3, 0.1))

    @jg.trace
    def behind(rate: float = 0.1, x: object = None) -> object:
        return x * rate  # type: ignore[operator]

    jg.save(behind, path, example_inputs=(0.5, np.ones(3)))
    assert [spec.default for spec in jg.load(path).inputs] == [None, None]  # an array stands behind it


def test_what_was_loaded_is_trained_further_and_saved_again(tmp_path: Path) -> None:
    model = jg.nn.Linear(4, 1)
    optimizer = jg.optim.Adam(model.parameters(), lr=0.1)

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def step(x: jg.Tensor) -> jg.Tensor:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    first, second, x = tmp_path / "first.jg", tmp_path / "second.jg", normal(8, 4)
    jg.save(step, first, example_inputs=(x,))
    loaded = jg.load(first)
    loaded(x)
    jg.save(loaded, second, example_inputs=(x,))
    again, alone = jg.load(second), loader.load(second)
    assert again.inputs == loaded.inputs and list(again.state) == list(loaded.state)
    assert "model.weight" in again.state
    for batch in (x, x[:3]):  # the batch is free still
        assert bits_of(loaded(batch)) == bits_of(again(batch)) == bits_of(alone(batch))
    assert str(jg.explain(loaded, x)).startswith("forward: forward(x: f32[batch, 4]")
    assert repr(loaded).startswith("<saved forward(x: float32[batch, 4], lr: float64[]")
    with pytest.raises(TypeError, match=r"^forward\(\) missing 1 required positional argument: 'x'"):
        loaded()


@pytest.mark.parametrize("compiled", [lambda model: model, jg.trace, jg.script])
def test_a_module_is_saved_with_its_hooks(path: Path, compiled: Callable[..., Any]) -> None:
    model = jg.nn.Linear(3, 2)
    model.register_forward_hook(lambda module, args, result: result * 2)
    jg.save(compiled(model), path, example_inputs=(normal(4, 3),))
    assert list(loader.load(path).state) == ["Linear.bias", "Linear.weight"]
    assert bits_of(loader.load(path)(normal(4, 3))) == bits_of(model(normal(4, 3)))


def test_a_wrong_name_among_many_arguments_is_answered_shortly() -> None:
    f = jg.trace(lambda xs: xs[0], dynamic_shapes={"x": {0: "n"}})
    with pytest.raises(jg.TraceError, match=r"one of (xs\[\d\], ){8}\.\.\.$"):
        f([np.ones(2)] * 100)


def test_a_named_tuple_is_a_tuple_in_a_file(tmp_path: Path) -> None:
    """Its fields name the outputs."""
    kind = collections.namedtuple("Pair", "low high")
    jg.save(lambda x: kind(-x, (x, kind(x + 1, x + 2))), tmp_path / "m.jg", example_inputs=(jg.ones(2),))
    low, (x, (one, two)) = jg.load(tmp_path / "m.jg")(np.ones(2, np.float32))
    assert [part.tolist()[0] for part in (low, x, one, two)] == [-1.0, 1.0, 2.0, 3.0]
    saved = loader.load(tmp_path / "m.jg")
    assert [spec.name for spec in saved.outputs] == ["low", "high.0", "high.1.low", "high.1.high"]
