"""Texts, which are host values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx.registry import define
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn


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
    pool = [int(each) for each in pool_int64s] if pool_int64s else list(pool_strings or ())
    grams: dict[int, list[tuple[Any, ...]]] = {}
    columns: dict[int, list[int]] = {}
    number = 0
    for n, start in enumerate(ngram_counts, 1):
        end = ngram_counts[n] if n < len(ngram_counts) else len(pool)
        for first in range(start, end, n):
            if min_gram_length <= n <= max_gram_length:
                grams.setdefault(n, []).append(tuple(pool[first : first + n]))
                columns.setdefault(n, []).append(ngram_indexes[number])
            number += 1
    width = max(ngram_indexes) + 1
    rows = x.reshape((1, -1)) if x.ndim == 1 else x
    result: Any = np.zeros((rows.shape[0], width), np.float32)
    for n, listed in grams.items():
        for skip in range(1 if n == 1 else max_skip_count + 1):
            counts = _occurrences(rows, listed, skip + 1)
            if counts is not None:
                places = np.zeros((len(listed), width), np.float32)
                places[np.arange(len(listed)), columns[n]] = 1
                result = result + counts @ places
    factors = np.ones(width, np.float32)
    for i, weight in zip(ngram_indexes, weights or (), strict=False):
        factors[i] = weight
    if mode == "IDF":
        result = (result > 0) * factors
    elif mode == "TFIDF":
        result = result * factors
    return result[0] if x.ndim == 1 else result


def _occurrences(rows: Any, grams: list[tuple[Any, ...]], step: int) -> Any:
    """How often each row has n-grams of one length, whose tokens lie ``step`` places apart; None where it cannot."""
    length = len(grams[0])
    places = rows.shape[1] - (length - 1) * step
    if places <= 0:
        return None
    matches: Any = None
    for i in range(length):
        tokens = rows[:, i * step : i * step + places]
        own = tokens[:, :, None] == np.array(
            [gram[i] for gram in grams], None if isinstance(rows, Tensor) else rows.dtype
        )
        matches = own if matches is None else matches & own
    return fn.sum(matches, axis=1, dtype=np.float32) if isinstance(rows, Tensor) else matches.sum(1, dtype=np.float32)
