"""The domain ai.onnx.ml: linear models, labels, and preparation of features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jitgraph import special
from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx import values
from jitgraph.onnx.registry import ML, define
from jitgraph.tensor import Tensor
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


# ----------------------------------------------------------------------
# Linear models, and what all classifiers give.


def transformed(scores: Any, name: str) -> Any:
    """Scores behind a post_transform, class by class."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return fn.sigmoid(scores)
    if name == "SOFTMAX":
        return F.softmax(scores, -1)
    if name == "SOFTMAX_ZERO":
        is_zero = fn.equal(scores, 0)
        powers = fn.where(is_zero, fn.zeros_like(scores), fn.exp(scores - fn.max(scores, axis=-1, keepdims=True)))
        return powers / fn.sum(powers, axis=-1, keepdims=True)
    if name == "PROBIT":
        return math.sqrt(2) * special.erfinv(2 * scores - 1)
    raise UnsupportedOp(f"the post_transform {name!r}")


def labels_of(how: Mapping[str, Any]) -> Any:
    """The names of the classes: an array of integers or texts."""
    names = next((how[key] for key in ("classlabels_ints", "classlabels_int64s") if how.get(key)), None)
    if names is not None:
        return np.array(names, np.int64)
    texts = how.get("classlabels_strings")
    if not texts:
        raise UnsupportedOp("a classifier without names of its classes")
    return np.array(texts, object)


def chosen_labels(labels: Any, index: Any) -> Any:
    """The names of classes by their numbers; texts are known node by node alone."""
    if labels.dtype.kind == "O":
        return labels[values.host(index, "a name of a class")]
    return fn.take(labels, index, axis=0)


@define("LinearRegressor", domain=ML)
def linear_regressor(
    x: Any, coefficients: Any = None, intercepts: Any = None, post_transform: str = "NONE", targets: int = 1
) -> Any:
    weights = np.array(coefficients, np.float32).reshape(targets, -1)
    result = fn.matmul(fn.astype(x, np.float32), weights.T)
    return transformed(result if not intercepts else result + np.array(intercepts, np.float32), post_transform)


@define("LinearClassifier", domain=ML)
def linear_classifier(
    x: Any,
    coefficients: Any,
    intercepts: Any = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
    **how: Any,
) -> Any:
    labels = labels_of(how)
    columns = x.shape[-1]
    weights = np.array(coefficients, np.float32).reshape(-1, columns)
    scores = fn.matmul(fn.astype(fn.reshape(x, (-1, columns)), np.float32), weights.T)
    scores = scores if not intercepts else scores + np.array(intercepts, np.float32)
    if len(weights) == 1 and len(labels) == 2:
        raise UnsupportedOp("LinearClassifier of two classes with the coefficients of one")
    return chosen_labels(labels, fn.argmax(scores, axis=1)), transformed(scores, post_transform)


@define("OneHotEncoder", domain=ML, raw=True)
def one_hot_encoder(x: Any, cats_int64s: Any = None, cats_strings: Any = None, zeros: int = 1) -> Any:
    """A column for each category; a value that is none has zeros alone, or is an error."""
    if isinstance(x, np.ndarray):
        columns = np.array(cats_strings, object) if values.is_text(x) else np.array(cats_int64s, np.int64)
        result = (x.astype(columns.dtype)[..., None] == columns).astype(np.float32)
        if not zeros and not result.any(-1).all():
            raise UnsupportedOp("OneHotEncoder of a value that is no category")
        return result
    if not zeros:
        raise UnsupportedOp("OneHotEncoder that refuses what is no category")
    columns = np.array(cats_int64s, np.int64)
    return fn.astype(fn.equal(fn.expand_dims(fn.astype(x, np.int64), axis=x.ndim), columns), np.float32)


@define("ZipMap", domain=ML, raw=True)
def zip_map(x: Any, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> Any:
    """For each row a dict of its scores by the names of classes."""
    names = classlabels_int64s or classlabels_strings
    rows = values.host(values.tensor(x), "a dict of scores")
    return [dict(zip(names, row.tolist(), strict=True)) for row in rows.reshape(-1, len(names))]


# ----------------------------------------------------------------------
# Labels.


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
    if isinstance(x, Tensor) and dtype.kind != "O" and not any(isinstance(key, str) for key in listed):
        return _encoded(x, np.array(listed), np.array(own, dtype), dtype.type(default))
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


def _encoded(x: Any, keys: Any, labels: Any, default: Any) -> Any:
    """The labels of numbers among ``keys``; NaN among these stands for NaN."""
    own = fn.expand_dims(x, axis=x.ndim)
    equal = fn.equal(own, keys.astype(x.dtype))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        equal = fn.logical_or(equal, fn.logical_and(fn.isnan(own), np.isnan(keys)))
    found = fn.take(labels, fn.argmax(fn.astype(equal, np.int32), axis=x.ndim), axis=0)
    return fn.where(fn.any(equal, axis=x.ndim), found, default)
