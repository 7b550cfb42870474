"""Losses as modules: each reduction, weights, smoothing, places that are ignored, lengths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.models.case import LayerCase, call_of, labels, normal, positive

X, Y = normal(6, 5) * 2, normal(6, 5, seed=1)
CLASSES = labels(5, 6)
IMAGE, PLACES = normal(2, 5, 3, 4), labels(5, 2, 3, 4)
SIGNS = np.sign(normal(6, 5, seed=3))
PROBABILITIES = np.exp(Y) / np.exp(Y).sum(axis=1, keepdims=True)
WEIGHT = positive(5) + 0.2
SPARSE = np.where(labels(4, 6) == 0, 3, CLASSES)


def tensor(lib: Any, array: Any) -> Any:
    return lib.asarray(array) if lib.__name__ == "jitgraph" else lib.tensor(array)


def made(name: str, *inputs: Any, call: Any = None, fixed: Any = (), **options: Any) -> LayerCase:
    shown = {key: "given" if isinstance(value, np.ndarray) else value for key, value in options.items()}
    words = ", ".join([name, *(f"{key}={value}" for key, value in shown.items())])

    def make(lib: Any) -> Any:
        arguments = {key: tensor(lib, x) if isinstance(x, np.ndarray) else x for key, x in options.items()}
        return getattr(lib.nn, name)(**arguments)

    more = {} if call is None else {"call": call}
    return LayerCase(words, make, inputs, fixed=fixed, **more)


def reductions(name: str, *inputs: Any, **options: Any) -> list[LayerCase]:
    return [made(name, *inputs, reduction=word, **options) for word in ("mean", "sum", "none")]


def aligned(lib: Any, module: Any, scores: Any, targets: Any, steps: Any, sizes: Any) -> Any:
    """CTC behind a log_softmax, where PyTorch's gradient is the true one."""
    return module(lib.nn.functional.log_softmax(scores, dim=-1), targets, steps, sizes)


def weighted(name: str, word: str) -> LayerCase:
    """A functional loss with a weight for each element, which has a gradient as well."""
    return LayerCase(
        f"{name}, weight, {word}",
        lambda lib: getattr(lib.nn.functional, name),
        (X, Y, positive(6, 5)),
        call=lambda lib, function, x, y, w: function(x, y, reduction=word, weight=w),
    )


SCORES, TEXT = normal(12, 3, 6), labels(5, 3, 4) + 1
STEPS, SIZES = np.array([12, 9, 11]), np.array([4, 2, 3])
REPEATED = np.array([[1, 1, 2, 2], [3, 3, 3, 1], [2, 4, 4, 4]])
SHORT = np.array([3, 9, 4])

ROWS, WORDS = normal(7, 12), np.array([0, 29, 4, 3, 11, 12, 28])


def adaptive(words: str, *inputs: Any, call: Any = call_of, **options: Any) -> LayerCase:
    """Of 30 classes in three clusters: a target at each end of each of them."""
    settings = {"in_features": 12, "n_classes": 30, "cutoffs": [4, 12], **options}
    return LayerCase(
        f"AdaptiveLogSoftmaxWithLoss{words}",
        lambda lib: lib.nn.AdaptiveLogSoftmaxWithLoss(**settings),
        inputs,
        call=call,
    )


CASES = [
    adaptive("", ROWS, WORDS),
    adaptive(", div_value=2, head_bias=True", ROWS, WORDS, div_value=2.0, head_bias=True),
    adaptive(", one cluster in use", ROWS, WORDS % 4),
    adaptive(", clusters of one class", ROWS, WORDS, cutoffs=[1, 2, 29]),
    adaptive(", no feature in a cluster", ROWS, WORDS, div_value=5.0),
    adaptive(" of one row", ROWS[0], np.array(17)),
    adaptive(".log_prob", ROWS, call=lambda lib, module, x: module.log_prob(x)),
    adaptive(".predict", normal(64, 12) * 4, call=lambda lib, module, x: module.predict(x)),
    *reductions("L1Loss", X, Y),
    *reductions("MSELoss", X, Y),
    *reductions("SmoothL1Loss", X, Y, beta=0.7),
    *reductions("HuberLoss", X, Y, delta=0.7),
    *reductions("CrossEntropyLoss", X, CLASSES),
    *reductions("CrossEntropyLoss", X, CLASSES, weight=WEIGHT, label_smoothing=0.1, ignore_index=3),
    *reductions("CrossEntropyLoss", X, PROBABILITIES, label_smoothing=0.2),
    made("CrossEntropyLoss", X, PROBABILITIES, weight=WEIGHT),
    made("CrossEntropyLoss", X, PROBABILITIES, weight=WEIGHT, label_smoothing=0.2),
    made("CrossEntropyLoss", IMAGE, PLACES, ignore_index=2),
    made("CrossEntropyLoss", IMAGE, PLACES, weight=WEIGHT, label_smoothing=0.3),
    made("CrossEntropyLoss", X[0], np.array(2)),
    *reductions("NLLLoss", X, SPARSE, ignore_index=3, weight=WEIGHT),
    made("NLLLoss", IMAGE, PLACES),
    made("NLLLoss2d", IMAGE, PLACES),
    *reductions("BCELoss", positive(6, 5), positive(6, 5, seed=1)),
    made("BCELoss", positive(6, 5), positive(6, 5, seed=1), weight=WEIGHT),
    *reductions("BCEWithLogitsLoss", X, positive(6, 5)),
    made("BCEWithLogitsLoss", X, positive(6, 5), fixed=(1,), weight=WEIGHT, pos_weight=WEIGHT * 2),
    *(
        made("KLDivLoss", np.log(PROBABILITIES), positive(6, 5), reduction=word)
        for word in ("mean", "sum", "none", "batchmean")
    ),
    made("KLDivLoss", np.log(PROBABILITIES), np.log(positive(6, 5)), log_target=True),
    made("KLDivLoss", np.log(PROBABILITIES), np.maximum(Y, 0.0), fixed=(1,)),
    *(
        made("PoissonNLLLoss", positive(6, 5), np.abs(X) * 3, fixed=(1,), log_input=log, full=full)
        for log, full in product((True, False), repeat=2)
    ),
    made("GaussianNLLLoss", X, Y, positive(6, 5)),
    made("GaussianNLLLoss", X, Y, positive(6, 1), full=True),
    made("GaussianNLLLoss", X, Y, positive(6), reduction="sum"),
    *reductions("MarginRankingLoss", X, Y, SIGNS, fixed=(2,), margin=0.3),
    *reductions("HingeEmbeddingLoss", X, SIGNS, fixed=(1,), margin=0.8),
    *reductions("SoftMarginLoss", X, SIGNS, fixed=(1,)),
    *reductions("MultiLabelSoftMarginLoss", X, (SIGNS + 1) / 2, fixed=(1,), weight=WEIGHT),
    *reductions("MultiMarginLoss", X, CLASSES),
    made("MultiMarginLoss", X, CLASSES, p=2, margin=0.7, weight=WEIGHT),
    made("MultiMarginLoss", X[0], np.array(3)),
    *reductions("MultiLabelMarginLoss", X, np.array([[0, 3, -1, 1, 2], [4, -1, 0, 0, 0], [1, 2, 3, 4, 0]] * 2)),
    made("MultiLabelMarginLoss", X[0], np.array([3, 1, -1, 0, 0])),
    *reductions("CosineEmbeddingLoss", X, Y, SIGNS[:, 0], fixed=(2,), margin=0.2),
    *reductions("TripletMarginLoss", X, Y, normal(6, 5, seed=7), margin=2.0),
    made("TripletMarginLoss", X, Y, normal(6, 5, seed=7), p=1, swap=True),
    made("TripletMarginWithDistanceLoss", X, Y, normal(6, 5, seed=7), swap=True),
    *(weighted(name, word) for name in ("mse_loss", "l1_loss", "huber_loss") for word in ("mean", "sum", "none")),
    LayerCase("pdist", lambda lib: lib.nn.functional.pdist, (X,)),
    made("CosineSimilarity", X, Y),
    made("CosineSimilarity", IMAGE, IMAGE[::-1] * 1.0, dim=2),
    made("PairwiseDistance", X, Y),
    made("PairwiseDistance", X, Y, p=1.0, keepdim=True),
    *(made("CTCLoss", SCORES, TEXT, STEPS, SIZES, reduction=word, call=aligned) for word in ("mean", "sum", "none")),
    made("CTCLoss", SCORES, REPEATED, STEPS, np.array([4, 4, 4]), call=aligned),
    made("CTCLoss", SCORES, REPEATED - 1, STEPS, SIZES, blank=5, call=aligned),
    made("CTCLoss", SCORES, REPEATED, SHORT, np.array([4, 4, 2]), zero_infinity=True, call=aligned),
    made("CTCLoss", SCORES, np.concatenate([TEXT[0], TEXT[1][:2], TEXT[2][:3]]), STEPS, SIZES, call=aligned),
    made("CTCLoss", SCORES, TEXT, STEPS, np.array([0, 2, 1]), call=aligned),
]
