"""Applying an op that draws: outside of traces by one kernel for all shapes, once draws were many.

Such an op takes its shape as an attribute, where a kernel takes sizes from operands. The fused op of it here draws as
many numbers as an operand has, which is never read. Numbers lie in the stream in row-major order, so that those of a
shape are the same as those in a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.value import EagerValue
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op, OpenShape
from jitgraph.ops import rules

_WORTH: Final = 64  # draws of a few numbers op by op take as long as compiling the kernel
_NUMBERS: Final = 8192  # take as long as a draw of a few
_spent: Final[dict[Op, int]] = {}


def numbers(op: Op, key: Any, shape: Sequence[DimLike], dtype: DType) -> Any:
    """The numbers that ``op`` draws for a key, with the same bits whichever way."""
    return _drawn(op, key, tuple(shape), {"dtype": dtype}, dtype)


def words(key: Any, shape: Sequence[DimLike]) -> Any:
    """The 32-bit words that belong to a key, likewise."""
    return _drawn(ops.random_bits, key, tuple(shape), {}, dtypes.uint32)


def _drawn(op: Op, key: Any, sizes: tuple[Any, ...], attrs: Attrs, dtype: DType) -> Any:
    draw: Any = op
    if context.current().emitter is EAGER and isinstance(key, EagerValue):
        count = math.prod(sizes)
        spent = _spent[op] = _spent.get(op, 0) + 1 + count // _NUMBERS
        if count and spent > _WORTH:
            row: Any = _in_a_row(op)
            return ops.reshape(row(key, EagerValue(np.empty(count, dtype)), **attrs), shape=sizes)
    return draw(key, shape=sizes, **attrs)


@cache
def _in_a_row(op: Any) -> Op:
    from jitgraph.eager.fused_ops import fused_op  # here, as many programs draw nothing twice

    def body(key: Any, like: Any, **attrs: Any) -> Any:
        return op(key, shape=like.type.shape, **attrs)

    return fused_op(op, "in_a_row", body, ["nondifferentiable"], _open)


def _open(key: tuple[int, ...], like: tuple[int, ...], **attrs: Any) -> tuple[OpenShape, OpenShape]:
    return key, (rules.open_extent(like[0], "n"),)
