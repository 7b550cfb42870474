"""Attention as ONNX Runtime has it, with a past, in groups, rotated: as a formula in NumPy, and as ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from tests.onnx.test_microsoft_operators import Case, agree, by_jitgraph, normal, swapped

N, L, P, H, D = 2, 3, 4, 2, 4
X, QKV, QKV_BIAS = normal(N, L, 8), normal(8, 24), normal(24)
Q, K, V = normal(N, L, 8), normal(N, L, 8), normal(N, L, 8)
PAST_K, PAST_V = normal(N, H, P, D), normal(N, H, P, D)
ANGLES = normal(16, 2 * D)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)


def heads(x: Any, count: int) -> Any:
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def joined(x: Any) -> Any:
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def softmax(x: Any, extra: Any = None) -> Any:
    whole = x if extra is None else np.concatenate([x, np.broadcast_to(extra, (*x.shape[:-1], 1))], -1)
    powers = np.exp(whole - whole.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True))[..., : x.shape[-1]]


def with_past(q: Any, k: Any, v: Any, past_k: Any, past_v: Any, mask: Any, own: Any, **how: Any) -> list[Any]:
    """The formula of Attention and MultiHeadAttention over heads: the result, and keys and values with the past."""
    keys, values = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    rows, columns = q.shape[2], keys.shape[2]
    hidden = np.zeros((q.shape[0], 1, rows, columns), np.float32)
    if mask is not None:
        hidden = hidden + np.where(mask.reshape(q.shape[0], 1, -1, columns) > 0, 0, np.float32(-10000))
    if how.get("unidirectional"):
        limit = np.arange(columns) <= np.arange(rows)[:, None] + columns - rows
        hidden = np.where(limit, hidden, np.finfo(np.float32).min)
    scores = q @ swapped(keys) * np.float32(how.get("scale", 1 / math.sqrt(q.shape[-1]))) + hidden
    weights = softmax(scores if own is None else scores + own)
    return [joined(weights @ values).astype(np.float32), keys, values]


def attention(x: Any, w: Any, bias: Any, mask: Any, past: Any, own: Any = None, **how: Any) -> list[Any]:
    q, k, v = (heads(part, H) for part in np.split(x @ w + bias, 3, -1))
    result, keys, values = with_past(q, k, v, past[0], past[1], mask, own, **how)
    return [result, np.stack([keys, values])]


def multi_head(q: Any, k: Any, v: Any, bias: Any, mask: Any, own: Any, past_k: Any, past_v: Any, **how: Any) -> Any:
    if bias is not None:
        q, k, v = (x + part for x, part in zip((q, k, v), np.split(bias, 3), strict=True))
    return with_past(heads(q, H), heads(k, H), heads(v, H), past_k, past_v, mask, own, **how)


def rotated(x: Any, places: Any, cos: Any, sin: Any, interleaved: int) -> Any:
    c, s = cos[places][:, None], sin[places][:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    turned = a * c - b * s, b * c + a * s
    return np.stack(turned, -1).reshape(x.shape) if interleaved else np.concatenate(turned, -1)


def group_query(
    q: Any,
    k: Any,
    v: Any,
    past_k: Any,
    past_v: Any,
    last: Any,
    total: Any,
    cos: Any = None,
    sin: Any = None,
    places: Any = None,
    own: Any = None,
    sink: Any = None,
    **how: Any,
) -> list[Any]:
    count, groups = how["num_heads"], how["kv_num_heads"]
    if k is None:
        size = q.shape[-1] // (count + 2 * groups)
        q, k, v = np.split(q, [count * size, (count + groups) * size], -1)
    q, k, v = heads(q, count), heads(k, groups), heads(v, groups)
    n, length = q.shape[0], q.shape[2]
    room = max(int(total), past_k.shape[2])
    before = np.zeros(n, int) if int(total) == length else last + 1 - length
    at = before[:, None] + np.arange(length)
    if how.get("do_rotary"):
        q, k = (rotated(x, at, cos, sin, how.get("rotary_interleaved", 0)) for x in (q, k))
    keys, values = (np.zeros((n, groups, room, q.shape[-1]), np.float32) for _ in range(2))
    for i, end in enumerate(before):
        for new, old, fresh in ((keys, past_k, k), (values, past_v, v)):
            new[i, :, :end] = old[i, :, :end]
            new[i, :, end : end + length] = fresh[i]
    wide = [np.repeat(x, count // groups, 1) for x in (keys, values)]
    scores = q @ swapped(wide[0]) * (how.get("scale") or 1 / math.sqrt(q.shape[-1]))
    if how.get("softcap"):
        scores = np.tanh(scores / how["softcap"]) * how["softcap"]
    scores = scores if own is None else scores + own
    columns = np.arange(room)
    live = columns <= at[..., None]
    if how.get("local_window_size", -1) > 0:
        live &= columns > at[..., None] - how["local_window_size"]
    extra = np.zeros((1, 1, 1, 1)) if how.get("smooth_softmax") else None
    extra = extra if sink is None else sink.reshape(1, -1, 1, 1)
    weights = softmax(np.where(live[:, None], scores, -np.inf), extra)
    return [joined(weights @ wide[1]).astype(np.float32), keys, values]


def number(value: int) -> Any:
    return np.array(value, np.int32)


LIVE = np.array([[1] * 5 + [0] * 2, [1] * 7], np.int32)
PRESENT = ("y", "present")
PRESENTS = ("y", "present_key", "present_value")
NOTHING = np.zeros((N, 1, 0, 4 * D), np.float32)
FOUR = {"num_heads": 2, "kv_num_heads": 1}
GQA = (normal(N, L, 32), normal(N, L, 16), normal(N, L, 16))
PAST = (normal(N, 1, P, 4 * D), normal(N, 1, P, 4 * D))
FIRST = (np.array([L - 1, L - 2], np.int32), number(L))
NEXT = (np.array([P, P - 2], np.int32), number(P + 1))
ONE = tuple(x[:, :1] for x in GQA)

CASES = [
    *[
        Case(
            "Attention",
            (X, QKV, QKV_BIAS, mask, np.stack([PAST_K, PAST_V]), own),
            attention,
            {"num_heads": H, **how},
            PRESENT,
        )
        for mask, own, how in (
            (None, None, {}),
            (LIVE, None, {}),
            (None, None, {"unidirectional": 1}),
            (LIVE, None, {"unidirectional": 1, "scale": 0.3}),
        )
    ],
    *[
        Case(
            "MultiHeadAttention",
            (Q, K, V, bias, mask, own, PAST_K, PAST_V),
            multi_head,
            {"num_heads": H, **how},
            PRESENTS,
        )
        for bias, mask, own, how in (
            (None, None, None, {}),
            (QKV_BIAS, None, normal(1, H, L, L + P), {}),
            (None, None, None, {"unidirectional": 1, "scale": 0.4}),
        )
    ],
    *[
        Case("GroupQueryAttention", (*operands, *past, *numbers, *more), group_query, {**FOUR, **how}, PRESENTS)
        for operands, past, numbers, more, how in (
            (GQA, (NOTHING, NOTHING), FIRST, (), {}),
            (GQA, (NOTHING, NOTHING), FIRST, (COS, SIN), {"do_rotary": 1}),
            (ONE, PAST, NEXT, (COS, SIN), {"do_rotary": 1, "rotary_interleaved": 1}),
            (ONE, PAST, NEXT, (), {"scale": 0.3, "softcap": 2.0}),
            (ONE, PAST, NEXT, (), {"local_window_size": 2}),
            (GQA, (NOTHING, NOTHING), FIRST, (), {"local_window_size": 2, "smooth_softmax": 1}),
            ((normal(N, 1, 64), None, None), PAST, NEXT, (COS, SIN), {"do_rotary": 1}),
            (ONE, PAST, NEXT, (None, None, None, normal(1, 1, 1, P + 1)), {}),
            (GQA, (NOTHING, NOTHING), FIRST, (None, None, None, None, normal(2)), {}),
        )
    ],
]
IDS = [f"{case.op}-{i}" for i, case in enumerate(CASES)]


def visible(results: Any, case: Case) -> Any:
    """What counts: tokens behind a row's last one, and their keys, are any numbers."""
    if case.op != "GroupQueryAttention":
        return results
    ends = case.operands[5] + 1
    length = results[0].shape[1]
    for i, end in enumerate(ends):
        if length > 1:
            results[0][i, end:] = 0
        for each in results[1:]:
            each[i, :, end:] = 0
    return results


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_attention_equals_its_formula(case: Case) -> None:
    got = visible([np.array(each.numpy()) for each in by_jitgraph(case)], case)
    for own, want in zip(got, visible(case.want(), case), strict=True):
        agree(own, want)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_formula_equals_onnx_runtime(case: Case) -> None:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(case.model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = visible([np.array(each) for each in session.run(None, case.named())], case)
    for got, want in zip(results, visible(case.want(), case), strict=True):
        agree(got, want)
