"""The domain ai.onnx.ml: trees, support vector machines, linear models and labels, equal to formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

pytest.importorskip("onnx")
from onnx import helper

RNG = np.random.default_rng(11)
X = RNG.standard_normal((6, 3)).astype(np.float32)
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def model_of(op: str, x: Any, outputs: int, **attributes: Any) -> Any:
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", dtype, ["rows", *x.shape[1:]])],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9
    )


def check(model: Any, x: Any, expected: Any) -> None:
    """Node by node, compiled, and by ONNX Runtime where it is installed."""
    module = jg.onnx.load(model)
    for run in (module.forward, module):
        results = run(x)
        for got, want in zip(results if isinstance(results, tuple) else [results], expected, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), want, 1e-4, 1e-5)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


# --- trees ------------------------------------------------------------------------------------------------------------


def forest(kind: str, targets: int, modes: list[str]) -> dict[str, Any]:
    """Two trees of depth 2 with random questions, whose leaves add to every target."""
    rows: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing")
    }
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(2):
        for number in range(7):
            inner = number < 3
            mode = modes[(tree * 3 + number) % len(modes)] if inner else "LEAF"
            children = (2 * number + 1, 2 * number + 2) if inner else (0, 0)
            value = float(np.float32(RNG.standard_normal())) if inner else 0.0
            for name, entry in zip(
                rows, (tree, number, number % 3, value, mode, *children, int(number == 0)), strict=True
            ):
                rows[name].append(entry)
            for target in range(0 if inner else targets):
                for name, entry in zip(leaves, (tree, number, target, float(RNG.standard_normal())), strict=True):
                    leaves[name].append(entry)
    missing = rows.pop("missing")
    nodes = {f"nodes_{name}": values for name, values in rows.items()} | {"nodes_missing_value_tracks_true": missing}
    return nodes | {f"{kind}_{name}": values for name, values in leaves.items()}


def walked(x: Any, how: dict[str, Any], kind: str, targets: int) -> Any:
    """The sums of leaves, walked row by row."""
    compare = dict(
        zip(MODES, (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal), strict=True)
    )
    result = np.zeros((len(x), targets), np.float32)
    for i, row in enumerate(x):
        for tree in range(2):
            node = 0
            while how["nodes_modes"][7 * tree + node] != "LEAF":
                at = 7 * tree + node
                value = row[how["nodes_featureids"][at]]
                yes = compare[how["nodes_modes"][at]](value, np.float32(how["nodes_values"][at]))
                yes |= bool(np.isnan(value) and how["nodes_missing_value_tracks_true"][at])
                node = how[f"nodes_{'true' if yes else 'false'}nodeids"][at]
            for place, key in enumerate(zip(how[f"{kind}_treeids"], how[f"{kind}_nodeids"], strict=True)):
                if key == (tree, node):
                    result[i, how[f"{kind}_ids"][place]] += how[f"{kind}_weights"][place]
    return result


@pytest.mark.parametrize("modes", [["BRANCH_LEQ"], MODES], ids=["one", "all"])
def test_trees_that_give_numbers(modes: list[str]) -> None:
    how = forest("target", 2, modes)
    x = np.concatenate([X, np.array([[np.nan, np.nan, 0], [np.nan, 1, np.nan]], np.float32)])
    expected = walked(x, how, "target", 2) + np.array([0.5, -1], np.float32)
    check(model_of("TreeEnsembleRegressor", x, 1, n_targets=2, base_values=[0.5, -1.0], **how), x, [expected])


def test_trees_that_classify() -> None:
    how = forest("class", 3, MODES)
    scores = walked(X, how, "class", 3)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    expected = [np.array([7, 5, 9])[scores.argmax(1)], powers / powers.sum(1, keepdims=True)]
    model = model_of("TreeEnsembleClassifier", X, 2, classlabels_int64s=[7, 5, 9], post_transform="SOFTMAX", **how)
    check(model, X, expected)


@pytest.mark.parametrize("is_share", [True, False])
def test_trees_that_score_one_of_two_classes(is_share: bool) -> None:
    how = forest("class", 1, ["BRANCH_LEQ"])
    if is_share:
        how["class_weights"] = [abs(weight) / 4 for weight in how["class_weights"]]
    score = walked(X, how, "class", 1)[:, 0]
    label = np.array([3, 8])[(score > (0.5 if is_share else 0)).astype(int)]
    pair = [1 - score, score] if is_share else [-score, score]
    model = model_of("TreeEnsembleClassifier", X, 2, classlabels_int64s=[3, 8], **how)
    check(model, X, [label, np.stack(pair, 1)])


def test_a_tree_in_a_circle_is_refused() -> None:
    how = forest("target", 1, ["BRANCH_LEQ"])
    how["nodes_truenodeids"][1] = 1
    with pytest.raises(jg.UnsupportedOp, match="cycle"):
        jg.onnx.load(model_of("TreeEnsembleRegressor", X, 1, n_targets=1, **how)).forward(X)


@pytest.mark.parametrize("fault", ["a feature", "a node", "a list", "a length"])
def test_unsound_trees_are_refused(fault: str) -> None:
    how = forest("target", 1, ["BRANCH_LEQ"])
    if fault == "a feature":
        how["nodes_featureids"][0] = 3
    elif fault == "a node":
        how["nodes_truenodeids"][0] = 70
    elif fault == "a list":
        del how["target_ids"]
    else:
        how["nodes_values"].pop()
    with pytest.raises(jg.UnsupportedOp, match="tree"):
        jg.onnx.load(model_of("TreeEnsembleRegressor", X, 1, n_targets=1, **how)).forward(X)


# --- other models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vector_machines(kernel: str) -> None:
    vectors = RNG.standard_normal((4, 3)).astype(np.float32)
    weights = RNG.standard_normal(4).astype(np.float32)
    products = X @ vectors.T
    values = {
        "LINEAR": products,
        "POLY": (np.float32(0.4) * products + np.float32(0.3)) ** 3,
        "RBF": np.exp(-np.float32(0.4) * ((X[:, None] - vectors) ** 2).sum(2)),
        "SIGMOID": np.tanh(np.float32(0.4) * products + np.float32(0.3)),
    }[kernel]
    shared = {"kernel_params": [0.4, 0.3, 3.0], "kernel_type": kernel, "support_vectors": vectors.ravel().tolist()}
    how = {**shared, "coefficients": weights.tolist(), "rho": [0.2], "n_supports": 4}
    check(model_of("SVMRegressor", X, 1, **how), X, [(values @ weights + np.float32(0.2))[:, None]])
    decisions = values @ weights + np.float32(0.2)
    how = {**shared, "coefficients": weights.tolist(), "rho": [0.2], "vectors_per_class": [2, 2]}
    expected = [np.where(decisions > 0, 4, 6), np.stack([-decisions, decisions], 1)]
    check(model_of("SVMClassifier", X, 2, classlabels_ints=[4, 6], **how), X, expected)


def test_linear_classifiers_and_their_transforms() -> None:
    weights, bias = RNG.standard_normal((3, 3)).astype(np.float32), np.array([0.1, -0.2, 0.3], np.float32)
    scores = X @ weights.T + bias
    powers = np.exp(scores - scores.max(1, keepdims=True))
    for name, values in {
        "NONE": scores,
        "LOGISTIC": 1 / (1 + np.exp(-scores)),
        "SOFTMAX": powers / powers.sum(1, keepdims=True),
    }.items():
        how = {"coefficients": weights.ravel().tolist(), "intercepts": bias.tolist(), "post_transform": name}
        model = model_of("LinearClassifier", X, 2, classlabels_ints=[2, 4, 8], multi_class=1, **how)
        check(model, X, [np.array([2, 4, 8])[scores.argmax(1)], values])


def test_labels_and_categories_of_numbers_are_compiled() -> None:
    x = np.array([[3, 1], [5, 7]])
    model = model_of("LabelEncoder", x, 1, keys_int64s=[1, 3, 5], values_floats=[0.5, 1.5, 2.5], default_float=-1.0)
    check(model, x, [np.array([[1.5, 0.5], [2.5, -1]], np.float32)])
    model = model_of("OneHotEncoder", x, 1, cats_int64s=[1, 3, 5])
    check(model, x, [np.array([[[0, 1, 0], [1, 0, 0]], [[0, 0, 1], [0, 0, 0]]], np.float32)])


def test_a_dict_of_scores_is_a_result() -> None:
    model = model_of("ZipMap", X, 1, classlabels_strings=["a", "b", "c"])
    kind = helper.make_map_type_proto(8, helper.make_tensor_type_proto(1, []))
    model.graph.output[0].CopyFrom(helper.make_value_info("y0", helper.make_sequence_type_proto(kind)))
    results = jg.onnx.load(model)(X)
    assert [list(row) for row in results] == [["a", "b", "c"]] * len(X)
    np.testing.assert_array_equal([list(row.values()) for row in results], X)
