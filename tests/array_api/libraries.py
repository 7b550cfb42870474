"""SciPy's, scikit-learn's, einops' and array_api_extra's code paths for the Array API, called with tensors.

Each call is checked eagerly, and traced where the library asks for no values, against the same call with NumPy's
arrays. ``SCIPY_ARRAY_API=1`` has to be set before SciPy is imported, so that these run in a process of their own:
``python -m tests.array_api.libraries scipy`` prints what failed.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import jitgraph as jg

X = np.array(
    [[0.5, -1.25, 3.0, 0.25, 2.0, -0.75], [2.0, 0.25, -0.5, 1.0, 0.75, -3.0], [1.5, 1.25, 4.0, -2.0, 0.5, 0.0]]
)
Calls = dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]]  # of a tensor, of an array, and traced too?


def both(call: Callable[[Any], Any], traced: bool = True) -> tuple[Any, Any, bool]:
    return call, call, traced


def of_einops() -> Calls:
    here, there = importlib.import_module("einops.array_api"), importlib.import_module("einops")
    pairs: dict[str, Callable[..., Any]] = {
        "rearrange": lambda e, x: e.rearrange(x, "a (b c) -> b a c", b=2),
        "reduce": lambda e, x: e.reduce(x, "a (b c) -> b c", "mean", b=2),
        "largest": lambda e, x: e.reduce(x, "a b -> a 1", "max"),
        "repeat": lambda e, x: e.repeat(x, "a b -> (a k) b", k=3),
        "pack": lambda e, x: e.pack([x, x[0, :]], "* b")[0],
        "unpack": lambda e, x: e.unpack(x, [(2,), (4,)], "a *")[1],
    }
    actual = {name: (partial(pair, here), partial(pair, there), True) for name, pair in pairs.items()}
    pairs["einsum"] = lambda e, x: e.einsum(x, x, "a b, c b -> a c")
    pairs["a list"] = lambda e, x: e.rearrange([x, x], "k a b -> a (k b)")
    own = {f"tensors' own {name}": (partial(pair, there), partial(pair, there), True) for name, pair in pairs.items()}
    return actual | own


def of_array_api_extra() -> Calls:
    xpx = importlib.import_module("array_api_extra")
    return {
        "apply_where": (
            lambda x: xpx.apply_where(x > 0, x, jg.sqrt, lambda v: -v),
            lambda x: np.where(x > 0, np.sqrt(np.abs(x)), -x),
            True,
        ),
        "at": (
            lambda x: xpx.at(x)[0, 1:3].set(5.0, copy=True),
            lambda x: np.where((np.arange(3)[:, None] == 0) & (np.arange(6) > 0) & (np.arange(6) < 3), 5.0, x),
            True,
        ),
        "at a mask": (lambda x: xpx.at(x, x > 0).add(1.0, copy=True), lambda x: np.where(x > 0, x + 1, x), True),
        "atleast_nd": (lambda x: xpx.atleast_nd(x, ndim=3), lambda x: x[None], True),
        "cov": (xpx.cov, np.cov, True),
        "create_diagonal": (lambda x: xpx.create_diagonal(x[0, :]), lambda x: np.diag(x[0]), True),
        "isclose": (lambda x: xpx.isclose(x, x + 1e-9), lambda x: np.isclose(x, x + 1e-9), True),
        "kron": (lambda x: xpx.kron(x, x), lambda x: np.kron(x, x), True),
        "nan_to_num": (xpx.nan_to_num, np.nan_to_num, True),
        "nunique": (xpx.nunique, lambda x: np.asarray(len(np.unique(x))), True),
        "pad": (lambda x: xpx.pad(x, 1), lambda x: np.pad(x, 1), True),
        "setdiff1d": (lambda x: xpx.setdiff1d(x[0, :], x[0, :2]), lambda x: np.setdiff1d(x[0], x[0, :2]), False),
        "sinc": (xpx.sinc, np.sinc, True),
    }


def of_scipy() -> Calls:
    special, stats = importlib.import_module("scipy.special"), importlib.import_module("scipy.stats")
    integrate, optimize = importlib.import_module("scipy.integrate"), importlib.import_module("scipy.optimize")
    signal, vq = importlib.import_module("scipy.signal"), importlib.import_module("scipy.cluster.vq")
    return {
        "expit": both(lambda x: special.expit(x)),
        "logsumexp": both(lambda x: special.logsumexp(x, axis=1)),
        "softmax": both(lambda x: special.softmax(x, axis=1)),
        "trapezoid": both(lambda x: integrate.trapezoid(x)),
        "rosen": both(lambda x: optimize.rosen(x)),
        "gmean": both(lambda x: stats.gmean(x * x, axis=1)),
        "zscore": both(lambda x: stats.zscore(x, axis=1)),
        "skew": both(lambda x: stats.skew(x, axis=1)),
        "kurtosis": both(lambda x: stats.kurtosis(x, axis=1)),
        "moment": both(lambda x: stats.moment(x, 2, axis=1), False),
        "entropy": both(lambda x: stats.entropy(x * x, axis=1), False),
        "ttest": both(lambda x: stats.ttest_1samp(x, 0.0, axis=1).pvalue, False),
        "detrend": both(lambda x: signal.detrend(x, type="constant"), False),
        "whiten": both(lambda x: vq.whiten(x)),
    }


def of_sklearn() -> Calls:
    preprocessing = importlib.import_module("sklearn.preprocessing")
    metrics = importlib.import_module("sklearn.metrics")
    pairwise = importlib.import_module("sklearn.metrics.pairwise")
    config_context = importlib.import_module("sklearn").config_context

    def dispatched(call: Callable[[Any], Any], traced: bool = True) -> tuple[Any, Any, bool]:
        def run(x: Any) -> Any:
            with config_context(array_api_dispatch=True, assume_finite=True):
                return call(x)

        return run, call, traced

    return {
        "MinMaxScaler": dispatched(lambda x: preprocessing.MinMaxScaler().fit_transform(x), False),
        "MaxAbsScaler": dispatched(lambda x: preprocessing.MaxAbsScaler().fit_transform(x), False),
        "StandardScaler": dispatched(lambda x: preprocessing.StandardScaler().fit_transform(x), False),
        "Normalizer": dispatched(lambda x: preprocessing.Normalizer().fit_transform(x)),
        "mean_squared_error": dispatched(lambda x: metrics.mean_squared_error(x[0], x[1]), False),
        "r2_score": dispatched(lambda x: metrics.r2_score(x[0], x[1]), False),
        "euclidean_distances": dispatched(pairwise.euclidean_distances),
        "cosine_similarity": dispatched(pairwise.cosine_similarity),
        "rbf_kernel": dispatched(pairwise.rbf_kernel),
    }


LIBRARIES: dict[str, Callable[[], Calls]] = {
    "einops": of_einops,
    "array_api_extra": of_array_api_extra,
    "scipy": of_scipy,
    "sklearn": of_sklearn,
}


def failures(library: str) -> Iterator[str]:
    """A line for each call of a library that does not give what NumPy's arrays give."""
    for name, (call, reference, traced) in LIBRARIES[library]().items():
        wanted = reference(X)
        for way in (call, jg.trace(call)) if traced else (call,):
            result = way(jg.asarray(X))
            if np.ndim(wanted) and not isinstance(result, jg.Tensor):
                yield f"{name}: {type(result).__name__} is no tensor"
            elif not np.allclose(np.asarray(result), wanted, rtol=1e-12, atol=1e-12, equal_nan=True):
                yield f"{name}: {result} is not {wanted}"


if __name__ == "__main__":
    assert os.environ.get("SCIPY_ARRAY_API") == "1"
    warnings.simplefilter("ignore")
    print(*failures(sys.argv[1]), sep="\n")
    print("done", sys.argv[1])
