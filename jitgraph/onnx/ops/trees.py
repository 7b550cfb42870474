"""The domain ai.onnx.ml: ensembles of trees, walked level by level for all rows and trees at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx.ops.classical import chosen_labels, labels_of, transformed
from jitgraph.onnx.records import Array
from jitgraph.onnx.registry import ML, define
from jitgraph.tensor import functions as fn

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_COMPARISONS = (fn.less_equal, fn.less, fn.greater_equal, fn.greater, fn.equal, fn.not_equal)


class Forest(NamedTuple):
    """Trees as arrays over all their nodes; a leaf leads to itself.

    ``members`` has the sets of nodes that ask for membership, filled up with NaN. ``weights`` [nodes, targets] has what
    a leaf adds to each target, ``reached`` where it adds anything.
    """

    roots: Array
    features: Array
    splits: Array
    modes: Array
    if_true: Array
    if_false: Array
    missing_is_true: Array
    members: Array
    weights: Array
    reached: Array


def _depth(forest: Forest) -> int:
    """The number of questions on the longest path; UnsupportedOp for nodes that lead in a circle."""
    at, count = forest.roots, len(forest.features)
    for depth in range(count + 1):
        inner = np.unique(at[(forest.if_true[at] != at) | (forest.if_false[at] != at)])
        if not inner.size:
            return depth
        at = np.concatenate([forest.if_true[inner], forest.if_false[inner]])
    raise UnsupportedOp("a tree whose nodes form a cycle")


def _summed(x: Any, forest: Forest, aggregate: str) -> Any:
    """What the leaves of a row's paths add to each target: [rows, targets]."""
    rows, trees = x.shape[0], len(forest.roots)
    if x.ndim != 2 or not trees or forest.features.min() < 0 or forest.features.max() >= x.shape[1]:
        raise UnsupportedOp(f"trees that ask about features up to {forest.features.max(initial=0)} of {x.value.type}")
    kinds = np.unique(forest.modes[forest.if_true != np.arange(len(forest.if_true))])
    at = fn.broadcast_to(fn.expand_dims(fn.asarray(forest.roots), axis=0), (rows, trees))
    for _ in range(_depth(forest)):
        value = fn.gather(x, 1, fn.take(forest.features, at, axis=0))
        split = fn.take(forest.splits.astype(x.dtype), at, axis=0)
        answer: Any = None
        for kind in kinds:
            if kind == 6:
                sets = fn.take(forest.members.astype(x.dtype), at, axis=0)
                own = fn.any(fn.equal(fn.expand_dims(value, axis=2), sets), axis=2)
            else:
                own = _COMPARISONS[kind](value, split)
            answer = (
                own if answer is None else fn.where(fn.equal(fn.take(forest.modes, at, axis=0), int(kind)), own, answer)
            )
        if forest.missing_is_true.any():
            answer = fn.logical_or(answer, fn.logical_and(fn.isnan(value), fn.take(forest.missing_is_true, at, axis=0)))
        at = fn.where(answer, fn.take(forest.if_true, at, axis=0), fn.take(forest.if_false, at, axis=0))
    added = fn.take(forest.weights.astype(x.dtype), at, axis=0)
    if aggregate in ("MIN", "MAX"):
        there = fn.take(forest.reached, at, axis=0)
        least = aggregate == "MIN"
        hidden = fn.where(there, added, fn.zeros_like(added) + (np.inf if least else -np.inf))
        best = (fn.min if least else fn.max)(hidden, axis=1)
        return fn.where(fn.any(there, axis=1), best, fn.zeros_like(best))
    total = fn.sum(added, axis=1)
    return total / trees if aggregate == "AVERAGE" else total


def _members(modes: Array, values: Any) -> Array:
    """The sets of nodes that ask for membership: in ``values`` each ends with NaN."""
    sets: list[list[Any]] = [[]]
    for value in [] if values is None else np.asarray(values).flat:
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    result = np.full((len(modes), max(map(len, sets))), np.nan)
    for node, own in zip(np.flatnonzero(modes == 6), sets, strict=False):
        result[node, : len(own)] = own
    return result


# ----------------------------------------------------------------------
# The operator of version 5.


@define("TreeEnsemble", domain=ML)
def tree_ensemble(x: Any, **how: Any) -> Any:
    modes = how["nodes_modes"].reshape(-1).astype(np.int64)
    inner, leaves = len(modes), len(how["leaf_targetids"])
    sides = {}
    for side in ("true", "false"):
        ids, is_leaf = np.array(how[f"nodes_{side}nodeids"]), np.array(how[f"nodes_{side}leafs"], bool)
        sides[side] = np.concatenate([np.where(is_leaf, ids + inner, ids), inner + np.arange(leaves)])
    weights = np.zeros((inner + leaves, how["n_targets"]))
    reached = np.zeros(weights.shape, bool)
    places = inner + np.arange(leaves), np.array(how["leaf_targetids"])
    weights[places], reached[places] = how["leaf_weights"].reshape(-1), True

    def filled(values: Any) -> Array:
        return np.concatenate([np.asarray(values).reshape(-1), np.zeros(leaves, np.asarray(values).dtype)])

    missing = how.get("nodes_missing_value_tracks_true") or np.zeros(inner, np.int64)
    forest = Forest(
        np.array(how["tree_roots"]),
        filled(how["nodes_featureids"]),
        filled(how["nodes_splits"]),
        filled(modes),
        sides["true"],
        sides["false"],
        filled(missing).astype(bool),
        _members(filled(modes), how.get("membership_values")),
        weights,
        reached,
    )
    _check(forest)
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[how.get("aggregate_function", 1)]
    scores = _summed(x, forest, aggregate)
    return transformed(scores, ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[how.get("post_transform", 0)])


def _check(forest: Forest) -> None:
    count = len(forest.features)
    for ids in (forest.roots, forest.if_true, forest.if_false):
        if ids.size and (ids.min() < 0 or ids.max() >= count):
            raise UnsupportedOp("a tree with a node that there is not")
    if forest.modes.size and (forest.modes.min() < 0 or forest.modes.max() > 6):
        raise UnsupportedOp("a tree with a comparison that is not known")


# ----------------------------------------------------------------------
# Those before it.


def _forest(how: dict[str, Any], kind: str, count: int) -> Forest:
    """The trees of TreeEnsembleClassifier (``kind`` is class) and TreeEnsembleRegressor (target)."""

    def numbers(name: str) -> Array:
        own = how.get(f"{name}_as_tensor")
        return np.asarray(how.get(name) or [] if own is None else own).reshape(-1)

    _lists(
        how, *(f"nodes_{name}" for name in ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids"))
    )
    _lists(how, *(f"{kind}_{name}" for name in ("treeids", "nodeids", "ids")))
    if len(numbers("nodes_values")) != len(how["nodes_modes"]) or len(numbers(f"{kind}_weights")) != len(
        how[f"{kind}_ids"]
    ):
        raise UnsupportedOp("trees without a value for each node, or a weight for each leaf")
    keys = list(zip(how["nodes_treeids"], how["nodes_nodeids"], strict=True))
    place = {key: i for i, key in enumerate(keys)}
    names = how["nodes_modes"]
    if unknown := set(names) - {*_MODES[:6], "LEAF"}:
        raise UnsupportedOp(f"a tree with the comparison {sorted(unknown)[0]!r}")
    modes = np.array([0 if name == "LEAF" else _MODES.index(name) for name in names])
    sides = []
    for side in ("true", "false"):
        try:
            sides.append(
                np.array(
                    [
                        i if name == "LEAF" else place[tree, child]
                        for i, (name, (tree, _), child) in enumerate(
                            zip(names, keys, how[f"nodes_{side}nodeids"], strict=True)
                        )
                    ],
                    np.int64,
                )
            )
        except KeyError as error:
            raise UnsupportedOp(f"a tree with a node {error} that there is not") from None
    inner = np.array([name != "LEAF" for name in names])
    children = {*sides[0][inner].tolist(), *sides[1][inner].tolist()}
    roots = np.array([i for i in range(len(keys)) if i not in children], np.int64)
    weights = np.zeros((len(keys), count))
    reached = np.zeros(weights.shape, bool)
    rows = zip(
        how[f"{kind}_treeids"], how[f"{kind}_nodeids"], how[f"{kind}_ids"], numbers(f"{kind}_weights"), strict=True
    )
    for tree, node, target, weight in rows:
        if (tree, node) not in place or not 0 <= target < count:
            raise UnsupportedOp(f"a leaf ({tree}, {node}) for {target}, which there is not")
        weights[place[tree, node], target] += weight
        reached[place[tree, node], target] = True
    missing = how.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    return Forest(
        roots,
        np.array(how["nodes_featureids"]),
        numbers("nodes_values"),
        modes,
        sides[0],
        sides[1],
        np.array(missing, bool),
        np.full((len(keys), 1), np.nan),
        weights,
        reached,
    )


def _lists(how: dict[str, Any], *names: str) -> None:
    """UnsupportedOp where attributes are not there, or are not of one length."""
    if len({len(how[name]) if how.get(name) is not None else -1 for name in names}) != 1 or how.get(names[0]) is None:
        raise UnsupportedOp(f"trees whose {', '.join(names)} are not there, or not of one length")


def _base(how: dict[str, Any]) -> Array:
    own = how.get("base_values_as_tensor")
    return np.asarray(how.get("base_values") or [] if own is None else own, np.float32).reshape(-1)


def _wide(x: Any) -> Any:
    return x if x.dtype == np.float64 else fn.astype(x, np.float32)


@define("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(
    x: Any, n_targets: int = 1, aggregate_function: str = "SUM", post_transform: str = "NONE", **how: Any
) -> Any:
    base = _base(how)
    scores = fn.astype(_summed(_wide(x), _forest(how, "target", n_targets), aggregate_function), np.float32)
    return transformed(scores + base if base.size else scores, post_transform)


@define("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(x: Any, post_transform: str = "NONE", **how: Any) -> Any:
    """Where two classes have weights for one alone, its score decides, beside 0.5 where all weights are positive."""
    labels, base = labels_of(how), _base(how)
    ids: Sequence[int] = how["class_ids"]
    count = max(len(labels), max(ids, default=0) + 1)
    forest = _forest(how, "class", count)
    scores = fn.astype(_summed(_wide(x), forest, "SUM"), np.float32)
    if len(labels) != 2 or len(set(ids)) != 1:
        scores = scores + base if base.size else scores
        return chosen_labels(labels, fn.argmax(scores, axis=1)), transformed(scores, post_transform)
    score = fn.sum(scores, axis=1)
    if base.size == 2:
        score = score + base[1]
    elif base.size == 1:
        score = score + base[0]
    is_share = bool((forest.weights >= 0).all())
    label = chosen_labels(labels, fn.astype(fn.greater(score, 0.5 if is_share else 0.0), np.int64))
    if post_transform == "PROBIT":
        return label, transformed(fn.expand_dims(score, axis=1), post_transform)
    if is_share:
        pair = (1 - score, score)
    elif post_transform == "LOGISTIC":
        pair = (fn.sigmoid(-score), fn.sigmoid(score))
    else:
        pair = (-score, score)
    return label, fn.stack(pair, axis=1)
