"""Elementwise ops of operands that broadcast, as one op each."""

from __future__ import annotations

from functools import cache
from typing import Any

from jitgraph.eager.fused_ops import fused_op
from jitgraph.ir.op import Op
from jitgraph.tensor import lifting


@cache
def broadcasting(op: Op) -> Op:
    """An elementwise op of operands of one dtype, which are broadcast to their common shape."""

    def body(*values: Any, **attrs: Any) -> Any:
        shape = lifting.broadcast_shapes(*(value.type.shape for value in values))
        return op(*(lifting.broadcast_to(value, shape) for value in values), **attrs)

    return fused_op(op, "broadcast", body, ["pointwise", *op.traits & {"nondifferentiable"}])
