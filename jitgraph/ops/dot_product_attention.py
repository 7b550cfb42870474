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
from jitgraph.ops.arithmetic import add, eq, ge, mul, select
from jitgraph.ops.composite import composite
from jitgraph.ops.contraction import dot
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, iota, zeros_like
from jitgraph.ops.distributions import dropout as drop
from jitgraph.ops.movement import reduce_sum, restore
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.statistics import masked_softmax, shifted_powers, softmax
from jitgraph.ops.transcendental import log

MOST_FEATURES: Final = 128
"""Columns of q and k, and of v, up to which a GPU's kernel has a block's rows of the result in registers."""


def _seen(q: Any, k: Any, mask: Any, *, causal: bool) -> Any:
    """The mask, or for a causal one that of keys that come no later than their query."""
    if not causal:
        return mask
    shape, last = (*q.shape[:-1], k.shape[-2]), len(q.shape) - 1
    positions = [iota(shape=shape, axis=axis, dtype=int64) for axis in (last - 1, last)]
    return ge(*positions)


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


def _mask_and_key(rest: tuple[Any, ...], dropout: float) -> tuple[Any, Any]:
    """The operands behind q, k and v: a mask or None, and with dropout the key of its random numbers."""
    *masks, key = rest if dropout else (*rest, None)
    return (masks[0] if masks else None), key


def _attention(q: Any, k: Any, v: Any, *rest: Any, scale: float, causal: bool, dropout: float) -> tuple[Any, Any]:
    mask, key = _mask_and_key(rest, dropout)
    _require("attention", q, k, v, mask, causal=causal)
    seen, last = _seen(q, k, mask, causal=causal), len(q.shape) - 1
    scores = _scores(q, k, seen, scale)
    weights = _dropped(_softmax_of(seen)(scores, axis=last), key, dropout)
    out = dot(weights, v, batch=_batch(q), contract=((last,), (last - 1,)))
    powers, top = shifted_powers(_widened(scores), last, masked=seen is not None)
    total = reduce_sum(powers, axes=(last,))
    spread = add(top, log(total))
    if seen is not None:
        spread = select(eq(total, zeros_like(total)), full_like(np.inf, spread), spread)
    return out, spread


def _dropped(x: Any, key: Any, p: float) -> Any:
    """``x`` as dropout leaves it; that is also the gradient of dropout."""
    return drop(x, key, p=p) if p else x


def _attention_vjp(
    ct: Any, out: Any, q: Any, k: Any, v: Any, *rest: Any, scale: float, causal: bool, dropout: float
) -> tuple[Any, ...]:
    """With ``across``, the row sums of ct * out, which are those of the weights and their cotangents."""
    attrs: dict[str, Any] = {"scale": scale, "causal": causal, "dropout": dropout}
    mask, _ = _mask_and_key(rest, dropout)
    numbers = mask is not None and not is_bool(mask.dtype)
    if ct[1] is not None or ct[0] is None:
        *gradients, scores = _gradients(ct[0], ct[1], q, k, v, *rest, **attrs)
    else:
        across = reduce_sum(mul(_widened(ct[0]), _widened(out[0])), axes=(len(q.shape) - 1,))
        gradients = attention_gradient(ct[0], q, k, v, out[1], across, *rest, **attrs)
        scores = _gradients(ct[0], None, q, k, v, *rest, **attrs)[3] if numbers else None
    return (*gradients, scores if numbers else None, None)[: 3 + len(rest)]


def _gradients(
    ct: Any, ct_spread: Any, q: Any, k: Any, v: Any, *rest: Any, scale: float, causal: bool, dropout: float
) -> tuple[Any, Any, Any, Any]:
    """The cotangents of q, k and v, and of the scores as the mask has left them."""
    mask, key = _mask_and_key(rest, dropout)
    seen, last = _seen(q, k, mask, causal=causal), len(q.shape) - 1
    batch, rule = _batch(q), _softmax_of(seen)
    scores = _scores(q, k, seen, scale)
    weights = rule(scores, axis=last)
    dropped = _dropped(weights, key, dropout)
    ct = zeros_like(dot(dropped, v, batch=batch, contract=((last,), (last - 1,)))) if ct is None else ct
    of_weights = _dropped(dot(ct, v, batch=batch, contract=((last,), (last,))), key, dropout)
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
    dv = dot(dropped, ct, batch=batch, contract=((last - 1,), (last - 1,)))
    return dq, dk, dv, of_scores


def _attention_gradient(
    ct: Any, q: Any, k: Any, v: Any, spread: Any, across: Any, *rest: Any, scale: float, causal: bool, dropout: float
) -> tuple[Any, Any, Any]:
    """``spread`` and ``across`` say nothing that does not follow from the others."""
    _require("attention_gradient", q, k, v, _mask_and_key(rest, dropout)[0], causal=causal)
    dq, dk, dv, _ = _gradients(ct, None, q, k, v, *rest, scale=scale, causal=causal, dropout=dropout)
    return dq, dk, dv


def _require(name: str, q: Any, k: Any, v: Any, mask: Any, *, causal: bool) -> None:
    if len({len(x.shape) for x in (q, k, v)}) != 1 or len(q.shape) < 2:
        actual = f"{q.type}, {k.type} and {v.type}"
        raise ShapeError(f"{name}: expected q[..., L, E], k[..., S, E] and v[..., S, V], not {actual}")
    if mask is None:
        return
    if causal:
        raise ShapeError(f"{name}: a causal one has no mask beside it, here {mask.type}")
    if not is_bool(mask.dtype) and mask.dtype != q.dtype:
        raise DTypeError(f"{name}: expected a mask of bool or {q.dtype.name}, not {mask.type}")


def _is_whole(q: TensorType, v: TensorType, dropout: float) -> bool:
    known = all(isinstance(count, int) and 0 < count <= MOST_FEATURES for count in (q.shape[-1], v.shape[-1]))
    return known and q.dtype in (bfloat16, float16, float32) and dropout < 1.0


_CASES: Final[tuple[tuple[Any, ...], ...]] = (  # shapes of q, k, v and the mask, whether causal, dropout
    ((2, 3), (4, 3), (4, 2), None, False, 0.25),
    ((2, 3, 4), (2, 5, 4), (2, 5, 3), (2, 3, 5), False, 0.0),
    ((1, 5, 3), (1, 3, 3), (1, 3, 3), None, True, 0.0),
    ((2, 4), (3, 4), (3, 1), "bool", False, 0.5),
    ((0, 2), (3, 2), (3, 2), None, False, 0.0),
)


def _samples(gradient: bool) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.FLOATS:
            return ()
        rng, cases = generator("attention", dtype), []
        wide = float32 if dtype in rules.HALF else dtype
        for q, k, v, mask, causal, dropout in _CASES:
            arrays = [values(rng, dtype, shape) for shape in (q, k, v)]
            if gradient:
                arrays = [values(rng, dtype, (*q[:-1], v[-1])), *arrays, *(values(rng, wide, q[:-1]) for _ in range(2))]
            if mask == "bool":  # of the first row nothing is seen
                arrays.append(np.array([[False] * k[0], *[[True] + [False] * (k[0] - 1)] * (q[0] - 1)]))
            elif mask is not None:
                arrays.append(values(rng, dtype, mask))
            if dropout:
                arrays.append(np.array([7, 3], np.uint64))
            attrs = {"scale": 0.25, "causal": causal, "dropout": dropout}
            cases.append(Sample(tuple(arrays), attrs, differentiable=mask != "bool"))
        return cases

    return samples


attention: Op = composite(
    "attention",
    _attention,
    vjp=_attention_vjp,
    samples=_samples(False),
    lowering="attention",
    is_whole=lambda q, k, v, *rest, dropout, **attrs: _is_whole(q, v, dropout),
    doc="softmax(q[..., L, E] k[..., S, E]' scale + mask[..., L, S]) v[..., S, V], and the logs of the rows' sums.",
    traits=["autocast_low"],
)
attention_gradient: Op = composite(
    "attention_gradient",
    _attention_gradient,
    samples=_samples(True),
    lowering="attention_gradient",
    is_whole=lambda ct, q, k, v, *rest, dropout, **attrs: _is_whole(q, v, dropout),
    doc="The cotangents of q, k and v for one of attention's result, with the logs and the row sums of ct * out.",
)
