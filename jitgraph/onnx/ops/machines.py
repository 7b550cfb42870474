"""The domain ai.onnx.ml: support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx.ops.classical import chosen_labels, labels_of, transformed
from jitgraph.onnx.registry import ML, define
from jitgraph.tensor import functions as fn
from jitgraph.tracing.record.control_flow import scan


def _matrix(numbers: Any, rows: int) -> Any:
    """Coefficients or vectors row by row; UnsupportedOp where they are no such rows."""
    own = np.array(numbers or [], np.float32)
    if not rows or not own.size or own.size % rows:
        raise UnsupportedOp(f"a support vector machine with {own.size} numbers for {rows} rows")
    return own.reshape(rows, -1)


def _kernel(x: Any, vectors: Any, kernel_type: str, parameters: Any) -> Any:
    """What a kernel says of each row and each vector."""
    gamma, coef0, degree = [*(parameters or []), 0.0, 0.0, 0.0][:3]
    if kernel_type == "RBF":
        apart = fn.expand_dims(x, axis=1) - vectors
        return fn.exp(fn.sum(apart * apart, axis=2) * -gamma)
    products = fn.matmul(x, vectors.T)
    if kernel_type == "LINEAR":
        return products
    if kernel_type == "POLY":
        return (products * gamma + coef0) ** degree
    if kernel_type == "SIGMOID":
        return fn.tanh(products * gamma + coef0)
    raise UnsupportedOp(f"a support vector machine with the kernel {kernel_type!r}")


@define("SVMRegressor", domain=ML)
def svm_regressor(
    x: Any,
    coefficients: Any,
    rho: Any,
    kernel_params: Any = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    support_vectors: Any = None,
) -> Any:
    wide, weights = fn.astype(x, np.float32), np.array(coefficients, np.float32)
    if n_supports:
        vectors = _matrix(support_vectors, n_supports)
        wide = _kernel(wide, vectors, kernel_type, kernel_params)
    scores = fn.matmul(wide, weights.reshape(-1, 1)) + float(rho[0])
    if one_class:
        return fn.where(fn.greater(scores, 0), fn.ones_like(scores), fn.zeros_like(scores) - 1)
    return transformed(scores, post_transform)


@define("SVMClassifier", domain=ML)
def svm_classifier(
    x: Any,
    coefficients: Any,
    rho: Any,
    kernel_params: Any = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Any = None,
    prob_b: Any = None,
    support_vectors: Any = None,
    vectors_per_class: Any = None,
    **how: Any,
) -> Any:
    """Each pair of classes decides between the two: the class with most decisions, and probabilities if it has them."""
    labels, wide = labels_of(how), fn.astype(x, np.float32)
    if not vectors_per_class:
        weights = _matrix(coefficients, len(labels))
        scores = _kernel(wide, weights, kernel_type, kernel_params) + float(rho[0])
        return chosen_labels(labels, fn.argmax(scores, axis=1)), transformed(scores, post_transform)
    count, total = len(vectors_per_class), sum(vectors_per_class)
    vectors = _matrix(support_vectors, total)
    weights = _matrix(coefficients, count - 1)
    ends = np.cumsum([0, *vectors_per_class])
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    of_pairs = np.zeros((total, len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), count), np.float32)
    for number, (i, j) in enumerate(pairs):
        of_pairs[ends[i] : ends[i + 1], number] = weights[j - 1, ends[i] : ends[i + 1]]
        of_pairs[ends[j] : ends[j + 1], number] = weights[i, ends[j] : ends[j + 1]]
        votes[0, number, i] = votes[1, number, j] = 1
    decisions = fn.matmul(_kernel(wide, vectors, kernel_type, kernel_params), of_pairs) + np.array(rho, np.float32)
    is_first = fn.astype(fn.greater(decisions, 0), np.float32)
    counts = fn.matmul(is_first, votes[0]) + fn.matmul(1 - is_first, votes[1])
    label = chosen_labels(labels, fn.argmax(counts, axis=1))
    if prob_a:
        own = fn.sigmoid(-(decisions * np.array(prob_a, np.float32) + np.array(prob_b, np.float32)))
        return label, transformed(_coupled(fn.clip(own, 1e-7, 1 - 1e-7), pairs, count), post_transform)
    if count == 2:
        return label, transformed(fn.concat([-decisions, decisions], axis=1), post_transform)
    return label, transformed(decisions, post_transform)


def _coupled(shares: Any, pairs: list[tuple[int, int]], count: int) -> Any:
    """Probabilities of classes from those of pairs: the second method of Wu, Lin and Weng (2004), as libsvm has it.

    At most 100 rounds, until no class is further than 0.005 / count from its equation.
    """
    rows = shares.shape[0]
    columns = {pair: shares[:, number] for number, pair in enumerate(pairs)}
    zero = fn.zeros_like(shares[:, 0])
    r = [
        [zero if i == j else columns[i, j] if i < j else 1 - columns[j, i] for j in range(count)] for i in range(count)
    ]
    matrix = [
        [
            sum((r[k][i] * r[k][i] for k in range(count) if k != i), zero) if i == j else -(r[j][i] * r[i][j])
            for j in range(count)
        ]
        for i in range(count)
    ]
    q = fn.stack([fn.stack(row, axis=1) for row in matrix], axis=1)  # [rows, count, count]

    def round_of(carry: Any, number: Any) -> Any:
        p, is_done = carry
        products = fn.sum(q * fn.expand_dims(p, axis=1), axis=2)
        mean = fn.sum(p * products, axis=1)
        far = fn.max(fn.abs(products - fn.expand_dims(mean, axis=1)), axis=1)
        is_done = fn.logical_or(is_done, fn.less(far, 0.005 / count))
        fresh = p
        for t in range(count):
            own = q[:, t, t]
            change = (mean - products[:, t]) / own
            unit = np.eye(count, dtype=np.float32)[t]
            sum_of = 1 + change
            mean = (mean + change * (change * own + 2 * products[:, t])) / sum_of / sum_of
            products = (products + fn.expand_dims(change, axis=1) * q[:, t]) / fn.expand_dims(sum_of, axis=1)
            fresh = (fresh + fn.expand_dims(change, axis=1) * unit) / fn.expand_dims(sum_of, axis=1)
        return (fn.where(fn.expand_dims(is_done, axis=1), p, fresh), is_done), ()

    first = fn.zeros((rows, count), dtype=np.float32) + 1 / count, fn.zeros((rows,), dtype=bool)
    (p, _), _ = scan(round_of, first, fn.arange(100))
    return p
