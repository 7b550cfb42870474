"""Scatters into a vector that combine by product, greatest or least, made of sorts and plain scatters.

``x`` is a vector, ``indices`` (int64, in range and not negative) and ``updates`` are vectors of one length. The results
do not depend on how the updates are divided among threads: products have an order, and the others need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.builder import build
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import (
    add,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    ge,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    select,
    sub,
)
from jitgraph.ops.composite import composite
from jitgraph.ops.control import while_
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full, full_like, iota, zeros_like
from jitgraph.ops.gathering import gather, scatter, scatter_add
from jitgraph.ops.movement import broadcast
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.sorting import sort


def _extreme(x: Any, indices: Any, updates: Any, *, largest: bool) -> Any:
    """Updates are placed from the least to the greatest, so that the greatest, or a NaN, is the one that stays."""
    mirrored = not largest and dtypes.is_float(x.dtype)  # NaN stands last only in ascending order
    if mirrored:
        x, updates = neg(x), neg(updates)
    ordered, order = sort(updates, axis=0, descending=not (largest or mirrored), stable=True)
    scattered = scatter(x, gather(indices, order, axis=0), ordered, axis=0)
    extreme = minimum(x, scattered) if not (largest or mirrored) else maximum(x, scattered)
    return neg(extreme) if mirrored else extreme


def _reached(x: Any, extreme: Any) -> Any:
    """Where x is the value that was found, which may be NaN."""
    same = eq(x, extreme)
    return bitwise_or(same, bitwise_and(ne(x, x), ne(extreme, extreme))) if dtypes.is_float(x.dtype) else same


def _extreme_vjp(ct: Any, out: Any, x: Any, indices: Any, updates: Any, *, largest: bool) -> tuple[Any, None, Any]:
    """Shared equally among the elements that are the extreme one, as in PyTorch."""
    own, update_hits = _reached(x, out), _reached(updates, gather(out, indices, axis=0))
    count = scatter_add(cast(own, dtype=ct.dtype), indices, cast(update_hits, dtype=ct.dtype), axis=0)
    share = div(ct, count)
    taken = gather(share, indices, axis=0)
    return select(own, share, zeros_like(share)), None, select(update_hits, taken, zeros_like(taken))


def _totals(like: Any, indices: Any, updates: Any) -> Any:
    """For each element of ``like`` the product of the updates that go to it; 1 for none.

    Sorted by index, element i takes in the product that ends s places before it where that has its index, for
    s = 1, 2, 4 and so on; the last element of a run then has its product.
    """
    count = indices.shape[0]
    sorted_indices, order = sort(indices, axis=0, descending=False, stable=True)
    factors = gather(updates, order, axis=0)
    types = [TensorType(dtypes.int64, ()), TensorType(like.dtype, (count,)), TensorType(dtypes.int64, (count,))]

    def unfinished(ends: Any, products: Any, sorted_indices: Any) -> Any:
        return lt(ends, full_like(count, ends))

    def double(ends: Any, products: Any, sorted_indices: Any) -> tuple[Any, Any, Any]:
        number = iota(shape=(count,), axis=0, dtype=dtypes.int64)
        before = sub(number, broadcast(ends, shape=(count,), axes=()))
        zero = zeros_like(before)
        source = maximum(before, zero)
        joined = bitwise_and(ge(before, zero), eq(gather(sorted_indices, source, axis=0), sorted_indices))
        doubled = select(joined, mul(gather(products, source, axis=0), products), products)
        return add(ends, ends), doubled, sorted_indices

    regions = (build(unfinished, types, "unfinished"), build(double, types, "double"))
    one = full(shape=(), value=1, dtype=dtypes.int64)
    _, products, _ = while_(one, factors, sorted_indices, regions=regions, num_carries=3)
    return scatter(full_like(1, like), sorted_indices, products, axis=0)


def _product_vjp(ct: Any, out: Any, x: Any, indices: Any, updates: Any) -> tuple[Any, None, Any]:
    """The product of all other factors: of those that are not 0 divided by the factor, where no other one is 0."""
    no_factor, no_update = eq(x, zeros_like(x)), eq(updates, zeros_like(updates))
    products = scatter_product(
        select(no_factor, full_like(1, x), x), indices, select(no_update, full_like(1, updates), updates)
    )
    zeros = scatter_add(cast(no_factor, dtype=dtypes.int64), indices, cast(no_update, dtype=dtypes.int64), axis=0)

    def others(factor: Any, is_zero: Any, product: Any, count: Any) -> Any:
        divided = div(product, select(is_zero, full_like(1, factor), factor))
        left = sub(count, cast(is_zero, dtype=dtypes.int64))
        return select(eq(left, zeros_like(left)), divided, zeros_like(divided))

    dx = mul(ct, others(x, no_factor, products, zeros))
    at = [gather(value, indices, axis=0) for value in (ct, products, zeros)]
    return dx, None, mul(at[0], others(updates, no_update, at[1], at[2]))


def _samples(name: str, **attrs: Any) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.NUMBERS:
            return ()
        rng = generator(name, dtype)
        cases = [
            Sample(
                (
                    values(rng, dtype, (n,), (0.5, 1.5)),
                    np.asarray(indices, np.int64),
                    values(rng, dtype, (m,), (0.5, 1.5)),
                ),
                attrs,
            )
            for n, m, indices in ((4, 5, [0, 2, 2, 3, 2]), (3, 0, []), (1, 1, [0]))
        ]
        if dtypes.is_float(dtype):
            odd = np.array([np.nan, 0.0, -0.0, np.inf, 1.0]).astype(dtype)
            cases.append(Sample((odd, np.array([1, 1, 2, 3, 0]), odd[::-1].copy()), attrs, differentiable=False))
        return cases

    return samples


scatter_extreme: Op = composite(
    "scatter_extreme",
    _extreme,
    vjp=_extreme_vjp,
    samples=lambda dtype: [
        *_samples("scatter_max", largest=True)(dtype),
        *_samples("scatter_min", largest=False)(dtype),
    ],
    doc="Each element of a vector, or the greatest (least) update at its index where that is beyond it; NaN wins.",
)
scatter_product: Op = composite(
    "scatter_product",
    lambda x, indices, updates: mul(x, _totals(x, indices, updates)),
    vjp=_product_vjp,
    samples=_samples("scatter_product"),
    in_float32=True,
    doc="Each element of a vector times the product of the updates at its index.",
)
