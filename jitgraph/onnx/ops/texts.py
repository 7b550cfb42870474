"""Texts, which are host values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx.registry import define
from jitgraph.tensor import Tensor


def _mapped(x: Any, function: Any, dtype: Any = object) -> Any:
    result = np.empty(x.shape, dtype)
    for i, text in enumerate(x.flat):
        result.flat[i] = function(str(text))
    return result


@define("StringConcat", raw=True)
def string_concat(x: Any, y: Any) -> Any:
    left, right = np.broadcast_arrays(x, y)
    result = np.empty(left.shape, object)
    for i, (a, b) in enumerate(zip(left.flat, right.flat, strict=True)):
        result.flat[i] = str(a) + str(b)
    return result


@define("StringSplit", raw=True)
def string_split(x: Any, delimiter: str | None = None, maxsplit: int | None = None) -> Any:
    most = -1 if maxsplit is None else maxsplit
    pieces = [str(text).split(delimiter or None, most) for text in x.flat]
    width = max((len(each) for each in pieces), default=0)
    result = np.empty((len(pieces), width), object)
    for i, each in enumerate(pieces):
        result[i] = [*each, *[""] * (width - len(each))]
    counts = np.array([len(each) for each in pieces], np.int64).reshape(x.shape)
    return result.reshape((*x.shape, width)), counts


@define("StringNormalizer", raw=True)
def string_normalizer(
    x: Any,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: Any = None,
) -> Any:
    changes: dict[str, Any] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
    change = changes[case_change_action]
    words = set(stopwords or ())
    if not is_case_sensitive:
        words = {word.lower() for word in words}
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise UnsupportedOp(f"StringNormalizer of shape {x.shape}")
    kept = [str(text) for text in x.flat if (str(text) if is_case_sensitive else str(text).lower()) not in words]
    own = [change(text) for text in kept] or [""]
    return np.array(own, object).reshape((len(own),) if x.ndim == 1 else (1, len(own)))


@define("RegexFullMatch", raw=True)
def regex_full_match(x: Any, pattern: str | None = None) -> Any:
    try:
        own = re.compile(pattern or "")
    except re.error as error:
        raise UnsupportedOp(f"RegexFullMatch with the pattern {pattern!r}: {error}") from None
    return _mapped(x, lambda text: own.fullmatch(text) is not None, bool)


@define("TfIdfVectorizer", raw=True)
def tfidf_vectorizer(
    x: Any,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Any,
    ngram_indexes: Any,
    pool_int64s: Any = None,
    pool_strings: Any = None,
    weights: Any = None,
) -> Any:
    array = np.asarray(x.detach().numpy()) if isinstance(x, Tensor) else x
    pool = [int(each) for each in pool_int64s] if pool_int64s else list(pool_strings or ())
    grams: dict[tuple[Any, ...], int] = {}
    number = 0
    for n, start in enumerate(ngram_counts, 1):
        end = ngram_counts[n] if n < len(ngram_counts) else len(pool)
        for first in range(start, end, n):
            if min_gram_length <= n <= max_gram_length:
                grams[tuple(pool[first : first + n])] = number
            number += 1
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    result = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, tokens in enumerate(rows.tolist()):
        for n in range(min_gram_length, max_gram_length + 1):
            for skip in range(1 if n == 1 else max_skip_count + 1):
                for first in range(len(tokens)):
                    gram = tuple(tokens[first : first + n * (skip + 1) : skip + 1])
                    if len(gram) == n and gram in grams:
                        result[row, ngram_indexes[grams[gram]]] += 1
                if n == 1:
                    break
    factors = np.ones(result.shape[1], np.float32)
    if weights:
        for i, weight in zip(ngram_indexes, weights, strict=True):
            factors[i] = weight
    if mode == "IDF":
        result = (result > 0) * factors
    elif mode == "TFIDF":
        result = result * factors
    own = result.astype(np.float32)
    return own[0] if array.ndim == 1 else own
