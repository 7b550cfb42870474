"""attention, softmax(q k' scale + mask) v, and its gradient: composites that GPUs take whole, without the scores.

``attention`` gives the result and ``spread``, the logarithm of each row's sum of exponentials, with which the weights
follow from the scores again (Dao et al. 2022). The definitions write the scores down: they are what the ops mean, and
what targets run that do not keep them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import DType, bfloat16, float16, float32, int64, is_bool
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, mul
from jitgraph.ops.broadcasting import reduce_sum, restore
from jitgraph.ops.comparison import eq, ge, select
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, iota, zeros_like
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.statistics import masked_softmax, shifted_powers, softmax
from jitgraph.ops.transcendental import log

MOST_FEATURES: Final = 128
"""Columns of q and k, and of v, up to which a GPU's kernel has a block's rows of the result in registers."""


def attention_weights(q: Any, k: Any, mask: Any, *, scale: float, causal: bool) -> Any:
    """The softmax of each row of scores; 0 for a row in which nothing may be seen."""
    seen = _seen(q, k, mask, causal=causal)
    scores = _scores(q, k, seen, scale)
    return _softmax_of(seen)(scores, axis=len(scores.shape) - 1)


def _seen(q: Any, k: Any, mask: Any, *, causal: bool) -> Any:
    """The mask, or for a causal one that of keys that come no later than their query."""
    if not causal:
        return mask
    shape, last = (*q.shape[:-1], k.shape[-2]), len(q.shape) - 1
    places = [iota(shape=shape, axis=axis, dtype=int64) for axis in (last - 1, last)]
    return ge(*places)


def _scores(q: Any, k: Any, seen: Any, scale: float) -> Any:
    """q[..., L, E] k[..., S, E]' scale, -inf where a key is not seen, or plus a mask of numbers."""
    last = len(q.shape) - 1
    raw = dot(q, k, batch=_batch(q), contract=((last,), (last,)))
    scores = mul(raw, full_like(scale, raw))
    if seen is None:
        return scores
    return select(seen, scores, full_like(-np.inf, scores)) if is_bool(seen.dtype) else add(scores, seen)


def _softmax_of(seen: Any) -> Op:
    return softmax if seen is None else masked_softmax


def _batch(q: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    axes = tuple(range(len(q.shape) - 2))
    return axes, axes


def _widened(x: Any) -> Any:
    return cast(x, dtype=float32) if x.dtype in rules.HALF else x


def _attention(q: Any, k: Any, v: Any, mask: Any = None, *, scale: float, causal: bool) -> tuple[Any, Any]:
    _require("attention", q, k, v, mask, causal=causal)
    seen, last = _seen(q, k, mask, causal=causal), len(q.shape) - 1
    scores = _scores(q, k, seen, scale)
    out = dot(_softmax_of(seen)(scores, axis=last), v, batch=_batch(q), contract=((last,), (last - 1,)))
    powers, top = shifted_powers(_widened(scores), last, masked=seen is not None)
    total = reduce_sum(powers, axes=(last,))
    spread = add(top, log(total))
    if seen is not None:
        spread = select(eq(total, zeros_like(total)), full_like(np.inf, spread), spread)
    return out, spread


def _attention_vjp(
    ct: Any, out: Any, q: Any, k: Any, v: Any, mask: Any = None, *, scale: float, causal: bool
) -> tuple[Any, ...]:
    """With ``across``, the row sums of ct * out, which are those of the weights and their cotangents."""
    attrs: dict[str, Any] = {"scale": scale, "causal": causal}
    if ct[1] is not None or ct[0] is None:
        *found, scores = _gradients(ct[0], ct[1], q, k, v, mask, **attrs)
    else:
        across = reduce_sum(mul(_widened(ct[0]), _widened(out[0])), axes=(len(q.shape) - 1,))
        masks = () if mask is None else (mask,)
        found = attention_gradient(ct[0], q, k, v, out[1], across, *masks, **attrs)
        numbers = mask is not None and not is_bool(mask.dtype)
        scores = _gradients(ct[0], None, q, k, v, mask, **attrs)[3] if numbers else None
    if mask is None:
        return tuple(found)
    return (*found, None if is_bool(mask.dtype) else scores)


def _gradients(
    ct: Any, ct_spread: Any, q: Any, k: Any, v: Any, mask: Any, *, scale: float, causal: bool
) -> tuple[Any, Any, Any, Any]:
    """The cotangents of q, k and v, and of the scores as the mask has left them."""
    seen, last = _seen(q, k, mask, causal=causal), len(q.shape) - 1
    batch, rule = _batch(q), _softmax_of(seen)
    scores = _scores(q, k, seen, scale)
    weights = rule(scores, axis=last)
    ct = zeros_like(dot(weights, v, batch=batch, contract=((last,), (last - 1,)))) if ct is None else ct
    of_weights = dot(ct, v, batch=batch, contract=((last,), (last,)))
    assert rule.vjp is not None
    (of_scores,) = rule.vjp(of_weights, weights, scores, axis=last)
    if ct_spread is not None:
        wide = _widened(weights)
        of_scores = add(of_scores, cast(mul(restore(ct_spread, wide.type, (last,)), wide), dtype=weights.dtype))
    of_raw = of_scores
    if seen is not None and is_bool(seen.dtype):
        of_raw = select(seen, of_raw, zeros_like(of_raw))
    of_raw = mul(of_raw, full_like(scale, of_raw))
    dq = dot(of_raw, k, batch=batch, contract=((last,), (last - 1,)))
    dk = dot(of_raw, q, batch=batch, contract=((last - 1,), (last - 1,)))
    dv = dot(weights, ct, batch=batch, contract=((last - 1,), (last - 1,)))
    return dq, dk, dv, of_scores


def _attention_gradient(
    ct: Any, q: Any, k: Any, v: Any, spread: Any, across: Any, mask: Any = None, *, scale: float, causal: bool
) -> tuple[Any, Any, Any]:
    """``spread`` and ``across`` say nothing that does not follow from the others."""
    _require("attention_gradient", q, k, v, mask, causal=causal)
    dq, dk, dv, _ = _gradients(ct, None, q, k, v, mask, scale=scale, causal=causal)
    return dq, dk, dv


def _require(name: str, q: Any, k: Any, v: Any, mask: Any, *, causal: bool) -> None:
    if len({len(x.shape) for x in (q, k, v)}) != 1 or len(q.shape) < 2:
        given = f"{q.type}, {k.type} and {v.type}"
        raise ShapeError(f"{name}: expected q[..., L, E], k[..., S, E] and v[..., S, V], not {given}")
    if mask is None:
        return
    if causal:
        raise ShapeError(f"{name}: a causal one has no mask beside it, here {mask.type}")
    if not is_bool(mask.dtype) and mask.dtype != q.dtype:
        raise DTypeError(f"{name}: expected a mask of bool or {q.dtype.name}, not {mask.type}")


def _is_whole(q: TensorType, v: TensorType) -> bool:
    known = all(isinstance(count, int) and 0 < count <= MOST_FEATURES for count in (q.shape[-1], v.shape[-1]))
    return known and q.dtype in (bfloat16, float16, float32)


_SHAPES: Final[tuple[tuple[Any, ...], ...]] = (  # of q, k, v and the mask
    ((2, 3), (4, 3), (4, 2), None, False),
    ((2, 3, 4), (2, 5, 4), (2, 5, 3), (2, 3, 5), False),
    ((1, 5, 3), (1, 3, 3), (1, 3, 3), None, True),
    ((2, 4), (3, 4), (3, 1), "bool", False),
    ((0, 2), (3, 2), (3, 2), None, False),
)


def _samples(gradient: bool) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.FLOATS:
            return ()
        rng, found = generator("attention", dtype), []
        for q, k, v, mask, causal in _SHAPES:
            scale = 0.5 if causal else 0.25
            arrays = [values(rng, dtype, shape) for shape in (q, k, v)]
            if gradient:
                wide = float32 if dtype in rules.HALF else dtype
                arrays = [values(rng, dtype, (*q[:-1], v[-1])), *arrays, *(values(rng, wide, q[:-1]) for _ in range(2))]
            if mask == "bool":
                arrays.append(np.array([[False] * k[0], *[[True] + [False] * (k[0] - 1)] * (q[0] - 1)]))
            elif mask is not None:
                arrays.append(values(rng, dtype, mask))
            found.append(Sample(tuple(arrays), {"scale": scale, "causal": causal}, differentiable=mask != "bool"))
        return found

    return samples


attention: Op = composite(
    "attention",
    _attention,
    vjp=_attention_vjp,
    samples=_samples(False),
    lowering="attention",
    is_whole=lambda q, k, v, mask=None, **attrs: _is_whole(q, v),
    doc="softmax(q[..., L, E] k[..., S, E]' scale + mask[..., L, S]) v[..., S, V], and the logs of the rows' sums.",
)
attention_gradient: Op = composite(
    "attention_gradient",
    _attention_gradient,
    samples=_samples(True),
    lowering="attention_gradient",
    is_whole=lambda ct, q, k, v, *rest, **attrs: _is_whole(q, v),
    doc="The cotangents of q, k and v for one of attention's result, with the logs and the row sums of ct * out.",
)
