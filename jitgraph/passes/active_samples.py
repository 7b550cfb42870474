"""Ops for some of the samples: the others keep what they have, or stand aside with the operands of one that is active.

What is computed for samples that do not take a branch, or are done with a loop, meets operands of a sample for which it
is wanted: checks hold, loops end and gradients, which are multiplied by zero, are finite. That copies the operand, so
it is put off: an array of the samples' own (``Lane.raw``) stays that through index maps and reads of elements, of which
the few results are replaced. A write into it is one for all samples, where those that are not active write what is
there: the result differs from the array for active samples alone, and no choice between whole arrays is left to make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType, TokenType
from jitgraph.passes.batched import Lane, chosen, each, over
from jitgraph.passes.batching import repeated, rule_of

_MOVES: Final = ("reshape", "broadcast", "slice", "gather", "dynamic_slice")
"""The rules of ops that read one operand at other indices; axes are numbered anew for index maps without one."""


class ActiveSamples:
    """The samples for which a region is run: a mask of the region, true somewhere."""

    def __init__(self, mask: Any, size: DimLike) -> None:
        self.mask = mask
        self.size = size
        self._first: Any = None
        self._replaced: dict[Any, Lane] = {}

    def standing_in(self, sample: Lane) -> Lane:
        """A raw lane with the elements of an active sample in place of those of samples that are not."""
        if not sample.raw:
            return sample
        known = self._replaced.get(sample.value)
        if known is None:
            if self._first is None:
                number = ops.iota(shape=(self.size,), axis=0, dtype=dtypes.int64)
                last = ops.full(shape=(self.size,), value=self.size, dtype=dtypes.int64)
                self._first = ops.reduce_min(ops.select(self.mask, number, last), axes=(0,))
            other = repeated(ops.gather(ops.stop_gradient(sample.value), self._first, axis=0), self.size)
            known = self._replaced[sample.value] = Lane(chosen(self.mask, sample.value, other), True)
        return known

    def apply(self, node: Node, inputs: Sequence[Lane]) -> Lane | None:
        """The output of an index map of, or a write into, a raw lane; None for other ops, whose operands stand in."""
        first, *rest = inputs
        if "chooses" in node.op.traits:
            return self._select(*inputs)
        if not first.raw:
            return None
        others = [self.standing_in(sample) for sample in rest]
        match node.op.batch:
            case "scatter":
                indices, updates = others
                updates = each(updates, self.size)
                if node.op.reduction is None:
                    old = self._batched(ops.gather, [first, indices], node.attrs)
                else:
                    old = ops.neg(ops.zeros_like(updates.value))  # -0.0 in floats, which changes no addend
                operands = [first, indices, self._or_else(updates, old)]
            case "dynamic_update_slice":
                update, *starts = others
                old = self._batched(ops.dynamic_slice, [first, *starts], {"sizes": node.inputs[1].shape})
                operands = [first, self._or_else(update, old), *starts]
            case batch:
                if batch in _MOVES or (batch == "shifted" and not rest and node.op.index_map is not None):
                    moved = self._batched(node.op, [first, *others], node.attrs)
                    return Lane(moved, True, True, first.origin if batch == "reshape" else None)
                return None
        return Lane(self._batched(node.op, operands, node.attrs), True, True, first.origin)

    def _select(self, test: Lane, yes: Lane, no: Lane) -> Lane | None:
        """A choice between a raw lane and something else: samples that are not active choose the lane."""
        values = [each(sample, self.size).value for sample in (test, yes, no)]
        mask = over(self.mask, values[1])
        if no.raw:
            return Lane(ops.select(ops.logical_and(values[0], mask), values[1], values[2]), True, True, no.origin)
        if yes.raw:
            keeps = ops.logical_or(values[0], ops.logical_not(mask))
            return Lane(ops.select(keeps, values[1], values[2]), True, True, yes.origin)
        return None

    def _or_else(self, update: Lane, old: Any) -> Lane:
        """The update of active samples, and ``old`` of the others."""
        return Lane(chosen(self.mask, each(update, self.size).value, old), True)

    def _batched(self, op: Op, inputs: Sequence[Lane], attrs: Mapping[str, Any]) -> Any:
        rule = rule_of(op)
        assert rule is not None
        values, flags = [sample.value for sample in inputs], [sample.varies for sample in inputs]
        return rule(op, self.size, values, flags, attrs)


def may_be_raw(value: Any) -> bool:
    """Whether an operand is an array of each sample; one number of each stands in at once, which is cheap."""
    return isinstance(value.type, TensorType) and len(value.shape) > 1


def entering(sample: Lane, position: int, active: ActiveSamples) -> Lane:
    """A varying operand of a region for ``active`` samples, at this position among the region's inputs."""
    if not sample.varies or isinstance(sample.value.type, TokenType):
        return Lane(sample.value, sample.varies)
    raw = Lane(sample.value, True, True, position)
    return raw if may_be_raw(sample.value) else active.standing_in(raw)
