"""Loaded ONNX models are modules: named sizes, parameters, gradients, copies, and files."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader

pytest.importorskip("onnx")
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((8, 5)).astype(np.float32)
BIAS = RNG.standard_normal(5).astype(np.float32)


def info(name: str, shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], opset: int = 21, functions: Any = (), **arrays: Any
) -> Any:
    initializers = [
        numpy_helper.from_array(np.asarray(array), name.replace("__", ".")) for name, array in arrays.items()
    ]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def classifier() -> Any:
    """A linear classifier that computes the shape of its Reshape."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "axes"], ["rows"]),
        node("Concat", ["rows", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["flat"]),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"]),
        node("Softmax", ["logits"], ["y"], axis=1),
    ]
    arrays = {
        "fc__weight": WEIGHT,
        "fc__bias": BIAS,
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([-1]),
    }
    return model_of(nodes, [info("x", ["batch", 2, 4])], [info("y", ["batch", 5])], **arrays)


def expected(x: Any) -> Any:
    logits = x.reshape(len(x), 8) @ WEIGHT + BIAS
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def batch(size: int) -> Any:
    return RNG.standard_normal((size, 2, 4)).astype(np.float32)


def test_one_trace_serves_all_sizes_that_the_model_names() -> None:
    module = jg.onnx.load(classifier())
    for size in (3, 5):
        np.testing.assert_allclose(module(batch(size)).detach().numpy().shape, (size, 5))
        x = batch(size)
        np.testing.assert_allclose(module(x).detach().numpy(), expected(x), 1e-5)
        np.testing.assert_allclose(module.forward(x).detach().numpy(), expected(x), 1e-5)
    assert module.traced.cache_info().misses == 1


def test_float_initializers_are_parameters_by_their_names_and_are_trained() -> None:
    module = jg.onnx.load(classifier())
    assert [name for name, _ in module.named_parameters()] == ["fc.weight", "fc.bias"]
    optimizer = jg.optim.SGD(module.parameters(), lr=0.5)

    @jg.trace
    def step(x: Any) -> Any:
        loss = (module(x) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x = batch(4)
    assert float(step(x)) > float(step(x)) > float(step(x))


def test_files_of_jg_save_run_at_any_batch_size(tmp_path: Path) -> None:
    module, path, x = jg.onnx.load(classifier()), tmp_path / "model.jg", batch(7)
    jg.save(module, path, example_inputs=(batch(2),))
    np.testing.assert_allclose(jg.load(path)(x).numpy(), expected(x), 1e-5)
    np.testing.assert_allclose(loader.load(path)(x), expected(x), 1e-5)


def test_copies_have_parameters_of_their_own() -> None:
    module, x = jg.onnx.load(classifier()), batch(3)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        with jg.no_grad():
            twin.fc.bias[...] = 0
        np.testing.assert_allclose(module.forward(x).detach().numpy(), expected(x), 1e-5)


def test_arguments_are_checked_against_the_model() -> None:
    module = jg.onnx.load(classifier())
    with pytest.raises(jg.ShapeError, match=r"the model takes \(batch, 2, 4\)"):
        module(np.zeros((3, 3, 4), np.float32))
    with pytest.raises(jg.DTypeError, match=r"x is float64.*float32"):
        module(np.zeros((3, 2, 4)))


def test_an_error_names_the_node() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    module = jg.onnx.load(model_of(nodes, [info("x", None)], [info("y", None)], w=WEIGHT))
    with pytest.raises(jg.ShapeError) as caught:
        module.forward(np.zeros((2, 3), np.float32))
    assert "in node 'product' (MatMul) of the model" in caught.value.__notes__


def test_an_operator_that_is_not_known_is_refused_by_name() -> None:
    nodes = [helper.make_node("Strange", ["x"], ["y"], domain="own", name="odd")]
    with pytest.raises(jg.UnsupportedOp, match=r"node 'odd' \(own::Strange\) is not supported"):
        jg.onnx.load(model_of(nodes, [info("x", [1])], [info("y", [1])]))


def test_functions_are_inlined_with_their_attributes() -> None:
    body = [
        helper.make_node("Constant", [], ["factor"]),
        helper.make_node("Mul", ["a", "factor"], ["b"]),
    ]
    reference = body[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "by", onnx.AttributeProto.FLOAT
    function = helper.make_function("own", "Scaled", ["a"], ["b"], body, [helper.make_opsetid("", 21)], ["by"])
    nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="own", by=3.0)]
    module = jg.onnx.load(model_of(nodes, [info("x", [2])], [info("y", [2])], functions=[function]))
    assert module(np.array([1, 2], np.float32)).tolist() == [3, 6]


def branches() -> Any:
    """x + 1 where the sum of x is positive, else x * w, by an If that reads x from around."""
    node = helper.make_node
    then = helper.make_graph([node("Add", ["x", "one"], ["a"])], "then", [], [info("a", [3])])
    other = helper.make_graph([node("Mul", ["x", "w"], ["b"])], "else", [], [info("b", [3])])
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["is_positive"]),
        node("If", ["is_positive"], ["y"], then_branch=then, else_branch=other),
    ]
    arrays = {"one": np.float32(1), "zero": np.float32(0), "w": np.array([1, 2, 3], np.float32)}
    return model_of(nodes, [info("x", [3])], [info("y", [3])], **arrays)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_on_a_tensor_is_compiled_and_differentiated(sign: int) -> None:
    module = jg.onnx.load(branches())
    x = np.array([1, 2, 3], np.float32) * sign
    result = module(x)
    assert result.tolist() == (x + 1 if sign > 0 else x * [1, 2, 3]).tolist()
    result.sum().backward()
    assert module.w.grad.tolist() == ([0, 0, 0] if sign > 0 else x.tolist())


@pytest.mark.parametrize("limit", [None, 3])
def test_a_loop_whose_condition_is_a_tensor_is_compiled(limit: int | None) -> None:
    """Doubles a number while it is below 100, or for at most three times."""
    node = helper.make_node
    body = helper.make_graph(
        [node("Add", ["v", "v"], ["w"]), node("Less", ["w", "hundred"], ["again"])],
        "body",
        [info("i", [], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("v", [])],
        [info("again", [], TensorProto.BOOL), info("w", [])],
    )
    nodes = [
        node("Less", ["x", "hundred"], ["start"]),
        node("Loop", ["most" if limit else "", "start", "x"], ["y"], body=body),
    ]
    arrays = {"hundred": np.float32(100)} | ({"most": np.array(limit)} if limit else {})
    module = jg.onnx.load(model_of(nodes, [info("x", [])], [info("y", [])], **arrays))
    for start, result in ((3, 24 if limit else 192), (150, 150)):
        assert float(module(np.float32(start))) == result == float(module.forward(np.float32(start)))


def test_external_data_are_read_within_the_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "model.onnx"
    onnx.save(classifier(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = batch(2)
    np.testing.assert_allclose(jg.onnx.load(path).forward(x).detach().numpy(), expected(x), 1e-5)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../weights.bin"
    (tmp_path / "weights.bin").write_bytes((tmp_path / "inner" / "weights.bin").read_bytes())
    path.write_bytes(model.SerializeToString())
    with pytest.raises(jg.LoadError, match="outside of the model's folder"):
        jg.onnx.load(path)


def test_models_of_old_operator_sets_mean_what_they_did() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=0)]
    module = jg.onnx.load(
        model_of(nodes, [info("x", [2, 3])], [info("y", [2, 3])], 6, w=np.array([10, 20], np.float32))
    )
    assert module(np.zeros((2, 3), np.float32)).tolist() == [[10] * 3, [20] * 3]


def test_sizes_are_named_but_for_those_that_are_static() -> None:
    """x[batch, n] in rows of n / 2, by the size as a float, which no name can follow into a shape: n is static."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Slice", ["sizes", "one", "two"], ["n"]),
        node("Cast", ["n"], ["wide"], to=TensorProto.FLOAT),
        node("Mul", ["wide", "half"], ["product"]),
        node("Cast", ["product"], ["count"], to=TensorProto.INT64),
        node("Concat", ["minus", "count"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    arrays = {"one": np.array([1]), "two": np.array([2]), "minus": np.array([-1]), "half": np.array([0.5], np.float32)}
    model = model_of(nodes, [info("x", ["batch", "n"])], [info("y", None)], **arrays)
    for module in (jg.onnx.load(model, static_sizes=["n"]), jg.onnx.load(model)):
        for rows, columns in ((2, 4), (3, 4), (2, 6)):
            assert module(np.zeros((rows, columns), np.float32)).shape == (rows * 2, columns // 2)
        assert module.traced.cache_info().misses == 2


def test_a_model_whose_input_is_a_shape_is_computed_node_by_node() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    module = jg.onnx.load(model_of(nodes, [info("x", None), info("shape", [2], TensorProto.INT64)], [info("y", None)]))
    assert module.traced is None
    assert module(np.zeros(6, np.float32), np.array([2, 3])).shape == (2, 3)


def test_host_values_are_exact_and_follow_the_operators() -> None:
    """What the shape of a Reshape is computed from: integers as in C and in Python, with their limits."""
    from jitgraph.onnx.ops import on_host

    x, y = np.array([7, -7, 7, -7, 5]), np.array([2, 2, -2, -2, 0])
    assert on_host.exactly(on_host.quotient)(x, y).tolist() == [3, -3, -3, 3, 0]
    assert on_host.exactly(on_host.rest)(x, y).tolist() == [1, -1, 1, -1, 0]
    assert on_host.exactly(on_host.modulo)(x, y).tolist() == [1, 1, -1, -1, 0]
    assert on_host.exactly(on_host.power)(x, np.array(2.0, np.float32)).dtype == np.int64
    with pytest.raises(jg.NumberError, match="no int64"):
        on_host.exactly(on_host.power)(np.array([10]), np.array([19]))


def test_initializers_with_the_names_of_attributes_and_of_each_other_have_places() -> None:
    names = ("inputs", "traced", "forward", "a.forward", "a.b", "a", "a.b.c", "training", "x y/z", ".", "_paths")
    nodes, last = [], "x"
    for i, name in enumerate(names):
        nodes.append(helper.make_node("Add", [last, name], [f"sum{i}"]))
        last = f"sum{i}"
    model = model_of(nodes, [info("x", [1])], [info(last, [1])])
    for i, name in enumerate(names):
        model.graph.initializer.append(numpy_helper.from_array(np.array([2.0**i], np.float32), name))
    module = jg.onnx.load(model)
    assert len(list(module.parameters())) == len(names) and module.training is True
    for each in (module, copy.deepcopy(module)):
        assert each(np.zeros(1, np.float32)).tolist() == [2.0 ** len(names) - 1]
