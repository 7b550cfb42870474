"""The domain ai.onnx.ml: trees, linear models, and preparation of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx import values
from jitgraph.onnx.registry import ML, define
from jitgraph.tensor import functions as fn


@define("Binarizer", domain=ML)
def binarizer(x: Any, threshold: float = 0.0) -> Any:
    return fn.astype(fn.greater(x, threshold), x.dtype)


@define("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(x: Any, places: Any) -> Any:
    rows = fn.reshape(x, (1, -1)) if x.ndim == 1 else x
    return fn.take(rows, fn.reshape(places, (-1,)), axis=rows.ndim - 1)


@define("Scaler", domain=ML)
def scaler(x: Any, offset: Any = None, scale: Any = None) -> Any:
    wide = fn.astype(x, np.float32)
    return (wide - np.array(offset or [0.0], np.float32)) * np.array(scale or [1.0], np.float32)


@define("Normalizer", domain=ML)
def normalizer(x: Any, norm: str = "MAX") -> Any:
    wide = fn.astype(x, np.float32)
    axis = -1
    if norm == "MAX":
        size = fn.max(wide, axis=axis, keepdims=True)
    elif norm == "L1":
        size = fn.sum(fn.abs(wide), axis=axis, keepdims=True)
    else:
        size = fn.sqrt(fn.sum(wide * wide, axis=axis, keepdims=True))
    return wide / fn.where(size == 0, fn.ones_like(size), size)


@define("Imputer", domain=ML)
def imputer(
    x: Any,
    imputed_value_floats: Any = None,
    imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Any:
    if imputed_value_floats:
        missing = fn.isnan(x) if np.isnan(replaced_value_float) else fn.equal(x, replaced_value_float)
        return fn.where(missing, np.array(imputed_value_floats, np.float32), x)
    return fn.where(fn.equal(x, replaced_value_int64), np.array(imputed_value_int64s, np.int64), x)


@define("FeatureVectorizer", domain=ML)
def feature_vectorizer(*xs: Any, inputdimensions: Any = None) -> Any:
    rows = [fn.reshape(x, (x.shape[0] if x.ndim > 1 else 1, -1)) for x in xs]
    return fn.astype(fn.concat(rows, axis=1), np.float32)


@define("LinearRegressor", domain=ML)
def linear_regressor(
    x: Any, coefficients: Any = None, intercepts: Any = None, post_transform: str = "NONE", targets: int = 1
) -> Any:
    if post_transform != "NONE":
        raise UnsupportedOp(f"LinearRegressor with {post_transform}")
    weights = np.array(coefficients, np.float32).reshape(targets, -1)
    result = fn.matmul(fn.astype(x, np.float32), weights.T)
    return result if not intercepts else result + np.array(intercepts, np.float32)


@define("LabelEncoder", domain=ML, raw=True)
def label_encoder(x: Any, **how: Any) -> Any:
    keys: Any = next((value for name, value in how.items() if name.startswith("keys_") and value is not None), None)
    pair: tuple[Any, Any] = next(
        ((name, value) for name, value in how.items() if name.startswith("values_") and value is not None), (None, None)
    )
    kind, labels = pair
    if kind is None or keys is None:
        raise UnsupportedOp("LabelEncoder of the first version")
    listed = list(keys.flat if isinstance(keys, np.ndarray) else keys)
    own = list(labels.flat if isinstance(labels, np.ndarray) else labels)
    default: Any
    if kind == "values_tensor":
        dtype = labels.dtype
        given = how.get("default_tensor")
        if given is not None:
            default = given.flat[0]
        else:
            default = "_Unused" if dtype.kind == "O" else -1 if dtype.kind in "iu" else -0.0
    else:
        suffix = kind.removeprefix("values_").removesuffix("s")
        dtype = np.dtype({"string": object, "int64": np.int64, "float": np.float32}[suffix])
        default = how.get(f"default_{suffix}")
    array = values.host(x, "a label")
    result = np.empty(array.shape, dtype)
    table = dict(zip(listed, own, strict=True))
    missing = next(
        (value for key, value in table.items() if isinstance(key, float | np.floating) and key != key), default
    )
    for i, each in enumerate(array.flat):
        key = each if isinstance(each, str) else each.item()
        result.flat[i] = missing if key != key else table.get(key, default)
    return result


_COMPARISONS = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@define("TreeEnsemble", domain=ML, raw=True)
def tree_ensemble(x: Any, **how: Any) -> Any:
    rows = values.host(x, "the path through a tree")
    trees = _Trees(how)
    kinds = how.get("aggregate_function", 1)
    result = np.zeros((len(rows), how["n_targets"]), rows.dtype)
    low, high = np.full(result.shape, np.inf), np.full(result.shape, -np.inf)
    for number, row in enumerate(rows):
        for root in how["tree_roots"]:
            leaf = trees.leaf(root, row)
            target, weight = how["leaf_targetids"][leaf], how["leaf_weights"].flat[leaf]
            result[number, target] += weight
            low[number, target], high[number, target] = (
                min(low[number, target], weight),
                max(high[number, target], weight),
            )
    if kinds == 0:
        result = result / len(how["tree_roots"])
    elif kinds in (2, 3):
        result = np.where(np.isfinite(low), low if kinds == 2 else high, 0)
    if how.get("post_transform", 0):
        raise UnsupportedOp(f"TreeEnsemble with post_transform={how['post_transform']}")
    return result.astype(rows.dtype)


class _Trees:
    def __init__(self, how: dict[str, Any]) -> None:
        self._how = how
        self._splits = how["nodes_splits"].reshape(-1)
        self._modes = how["nodes_modes"].reshape(-1)
        self._members: list[list[Any]] = []
        member: list[Any] = []
        for value in [] if how.get("membership_values") is None else how["membership_values"].flat:
            if np.isnan(value):
                self._members.append(member)
                member = []
            else:
                member.append(value)
        in_sets = [i for i, mode in enumerate(self._modes) if mode == 6]
        self._set_of = {node: i for i, node in enumerate(in_sets)}

    def leaf(self, node: int, row: Any) -> int:
        how = self._how
        for _ in range(len(self._splits) + 1):
            value = row[how["nodes_featureids"][node]]
            mode = int(self._modes[node])
            if mode == 6:
                is_true = value in self._members[self._set_of[node]]
            else:
                is_true = bool(_COMPARISONS[mode](value, self._splits[node]))
            missing = how.get("nodes_missing_value_tracks_true")
            if missing and np.isnan(value):
                is_true = bool(missing[node])
            side = "true" if is_true else "false"
            is_leaf = how[f"nodes_{side}leafs"][node]
            node = how[f"nodes_{side}nodeids"][node]
            if is_leaf:
                return node
        raise UnsupportedOp("a tree whose nodes form a cycle")
