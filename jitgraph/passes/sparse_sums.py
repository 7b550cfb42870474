"""Cotangents that are zero but in one place, added to another in that place alone.

The cotangent of a tensor of which a loop reads an element is zeros with the element's written into them. In the body of
a loop the sum with what there is so far is a write of the element, and not a sum over the whole tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.graph import Node, Value
from jitgraph.ops import add, dynamic_slice, dynamic_update_slice, full, reshape, scatter_add
from jitgraph.passes.rewriter import uniform_value


def added_in_place(known: Value, cotangent: Value, nodes: Sequence[Node]) -> Value | None:
    """``known + cotangent`` as a write of a part of ``known``; None where the cotangent is not known to be so sparse.

    ``nodes`` are what has been recorded so far. Of several updates only those of distinct elements are taken, so that
    each is one sum, as it would be in zeros; a zero of ``known`` keeps its sign.
    """
    node = _producer(cotangent, nodes)
    if node is None:
        return None
    if "alias" in node.op.traits and len(node.inputs) == 1:
        (source,) = node.inputs
        inner = added_in_place(reshape(known, shape=source.shape), source, nodes) if _is_sparse(source, nodes) else None
        return None if inner is None else _value(reshape(inner, shape=known.shape))
    if not _is_sparse(cotangent, nodes):
        return None
    match node.op.lowering:
        case "scatter":
            attrs: Any = node.attrs
            return _value(scatter_add(known, *node.inputs[1:], **attrs))
        case "dynamic_update_slice":
            update, starts = node.inputs[1], node.inputs[2:]
        case _:
            update = node.inputs[0]
            low: Any = node.attrs["low"]
            starts = tuple(full(shape=(), value=start, dtype=int64) for start in low)
    part = add(dynamic_slice(known, *starts, sizes=update.shape), update)
    return _value(dynamic_update_slice(known, part, *starts))


def _value(value: object) -> Value:
    assert isinstance(value, Value)
    return value


def _producer(value: Value, nodes: Sequence[Node]) -> Node | None:
    return next((node for node in reversed(nodes) if value in node.outputs), None)


def _is_sparse(value: Value, nodes: Sequence[Node]) -> bool:
    """Whether a value is zeros with one update of a part of them, behind changes of its shape or not."""
    node = _producer(value, nodes)
    if node is None:
        return False
    if "alias" in node.op.traits and len(node.inputs) == 1:
        return _is_sparse(node.inputs[0], nodes)
    match node.op.lowering:
        case "scatter" if node.op.reduction is not None:
            zero, indices, _ = node.inputs
            return _is_zero(zero, nodes) and dims.product(indices.shape) == 1
        case "dynamic_update_slice":
            return _is_zero(node.inputs[0], nodes) and _is_part(node.inputs[1], value)
    if node.op.batch != "pad":
        return False
    update, zero = node.inputs
    gaps: Any = node.attrs["interior"]
    return not any(gaps) and _is_zero(zero, nodes) and _is_part(update, value)


def _is_zero(value: Value, nodes: Sequence[Node]) -> bool:
    number: object = uniform_value(_producer(value, nodes))
    return number == 0


def _is_part(update: Value, target: Value) -> bool:
    """Whether an update is known to be no more than half of what it is written into."""
    some, every = update.tensor.size, target.tensor.size
    return isinstance(some, int) and isinstance(every, int) and 2 * some <= every
