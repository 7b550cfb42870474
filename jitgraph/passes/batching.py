"""Batching rules: what an op does on operands that have one more axis, in front, with a value for each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jitgraph import dtypes, ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.op import Batching, Op
from jitgraph.ir.types import TensorType, TokenType, Type
from jitgraph.records import NamedTuple

# ----------------------------------------------------------------------
# Batching rules: what an op does on operands that have one more axis, in front, with a value for each sample.
#
# A rule is called ``rule(op, size, values, flags, attrs)``: the operands, of which those flagged have a first axis of
# extent ``size``, at least one of them. It gives the outputs over Op calls, all with such an axis, or None where the
# generic way (``passes/vmap.py``: one sample after another) has to be taken. An op names its rule in its column
# ``batch``; elementwise ops and reductions have the rule of their kind.

Values: TypeAlias = Sequence[Any]
Flags: TypeAlias = Sequence[bool]
Attrs: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Op, DimLike, Values, Flags, Attrs], Any]


def repeated(value: Any, size: DimLike) -> Any:
    """``value`` for each of ``size`` samples."""
    shape = value.shape
    return ops.broadcast(value, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))


def together(values: Values, flags: Flags, size: DimLike) -> list[Any]:
    """All of them with an axis of samples."""
    return [value if flag else repeated(value, size) for value, flag in zip(values, flags, strict=True)]


def moved(value: Any, source: int, target: int) -> Any:
    """``value`` with the axis ``source`` at ``target``."""
    if source == target:
        return value
    rest = [axis for axis in range(len(value.shape)) if axis != source]
    return ops.transpose(value, permutation=(*rest[:target], source, *rest[target:]))


def alike(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """The op on operands of one shape, whatever it is."""
    return op(*together(values, flags, size), **attrs)


def shifted(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """The op along axes that ``axis``, ``axes`` or ``permutation`` numbers, of operands of one rank."""
    moved_attrs = dict(attrs)
    if "axis" in attrs:
        moved_attrs["axis"] = attrs["axis"] + 1
    if "axes" in attrs:
        moved_attrs["axes"] = tuple(axis + 1 for axis in attrs["axes"])
    if "permutation" in attrs:
        moved_attrs["permutation"] = (0, *(axis + 1 for axis in attrs["permutation"]))
    return op(*together(values, flags, size), **moved_attrs)


def leading(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """An op that works on the last axes of its first operand, in which the others are the same for all samples."""
    return op(*values, **attrs) if flags[0] and not any(flags[1:]) else None


def reshaped(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    return op(values[0], shape=(size, *attrs["shape"]))


def broadcasted(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    return op(values[0], shape=(size, *attrs["shape"]), axes=(0, *(axis + 1 for axis in attrs["axes"])))


def sliced(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    starts, stops, strides = attrs["starts"], attrs["stops"], attrs["strides"]
    return op(values[0], starts=(0, *starts), stops=(size, *stops), strides=(1, *strides))


def padded(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """Padding with one value is the op itself; with one for each sample, a choice between it and the elements."""
    wider = {name: (0, *attrs[name]) for name in ("low", "high", "interior")}
    (x, value), (varies, fills) = values, flags
    x = x if varies else repeated(x, size)
    if not fills:
        return op(x, value, **wider)
    inside = op(x, ops.full(shape=(), value=x.dtype.type(0).item(), dtype=x.dtype), **wider)
    yes = ops.full(shape=x.shape, value=True, dtype=dtypes.bool_)
    mask = op(yes, ops.full(shape=(), value=False, dtype=dtypes.bool_), **wider)
    return ops.select(mask, inside, ops.broadcast(value, shape=inside.shape, axes=(0,)))


def multiplied(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """Samples on both sides are a batch axis of the product; on one side they are rows or columns of one product."""
    batch, contract = attrs["batch"], attrs["contract"]
    (x, y), (left, right) = values, flags

    def after(axes: tuple[int, ...], flag: bool) -> tuple[int, ...]:
        return tuple(axis + 1 for axis in axes) if flag else axes

    sides = [(after(batch[i], flag), after(contract[i], flag)) for i, flag in enumerate(flags)]
    if left and right:
        return op(x, y, batch=((0, *sides[0][0]), (0, *sides[1][0])), contract=(sides[0][1], sides[1][1]))
    product = op(x, y, batch=(sides[0][0], sides[1][0]), contract=(sides[0][1], sides[1][1]))
    count = len(batch[0])
    batch_axis = count if left else count + len(x.shape) - count - len(contract[0])
    return moved(product, batch_axis, 0)


def convolved(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """Samples of x alone are more images; of w alone, more output channels; of both, groups of channels."""
    (x, w), (images, kernels) = values, flags
    if not kernels:
        folded = ops.reshape(x, shape=(size * x.shape[1], *x.shape[2:]))
        out = op(folded, w, **attrs)
        return ops.reshape(out, shape=(size, x.shape[1], *out.shape[1:]))
    if not isinstance(size, int) or size == 0:
        return None
    groups, channels, rest = attrs["groups"], w.shape[1], w.shape[2:]
    per_group = channels // groups
    if images:
        folded = moved(x, 0, 1)
        folded = ops.reshape(folded, shape=(x.shape[1], size * x.shape[2], *x.shape[3:]))
        out = op(folded, ops.reshape(w, shape=(size * channels, *rest)), **{**attrs, "groups": groups * size})
        out = ops.reshape(out, shape=(out.shape[0], size, channels, *out.shape[2:]))
        return moved(out, 1, 0)
    split = ops.reshape(w, shape=(size, groups, per_group, *rest))
    turned = ops.transpose(split, permutation=(1, 0, *range(2, len(split.shape))))
    out = op(x, ops.reshape(turned, shape=(groups * size * per_group, *rest)), **attrs)
    out = ops.reshape(out, shape=(out.shape[0], groups, size, per_group, *out.shape[2:]))
    out = moved(out, 2, 0)
    return ops.reshape(out, shape=(size, out.shape[1], channels, *out.shape[4:]))


def _own(size: DimLike, shape: tuple[DimLike, ...], indices: Any, name: str, negative: bool) -> Any:
    """Indices of each sample along an axis as numbers of rows, ``shape`` being the axes up to it.

    IndexError for one that is out of range. The result has all axes of ``shape`` but the last, then those of indices.
    """
    extent = shape[-1]
    kind = indices.shape

    def of(number: DimLike) -> Any:
        return ops.full(shape=kind, value=number, dtype=dtypes.int64)

    axes = tuple(range(len(kind)))
    inside = ops.logical_and(ops.ge(indices, of(-extent if negative else 0)), ops.lt(indices, of(extent)))
    ops.check(
        ops.reduce_min(inside, axes=axes),
        kind="IndexError",
        message=f"{name}: an index of a sample is out of range for an axis of {extent} elements",
    )
    own = ops.select(ops.lt(indices, of(0)), ops.add(indices, of(extent)), indices)
    full = (size, *shape[:-1], *kind[1:])
    own = ops.broadcast(own, shape=full, axes=(0, *range(len(shape), len(full))))
    return _numbered(own, (size, *shape))


def _numbered(own: Any, shape: tuple[DimLike, ...]) -> Any:
    """The index along the last axis of ``shape`` and those of the axes before it, the first of ``own``, as one."""
    step: DimLike = shape[-1]
    for axis in reversed(range(len(shape) - 1)):
        number = ops.iota(shape=own.shape, axis=axis, dtype=dtypes.int64)
        own = ops.add(own, ops.mul(number, ops.full(shape=own.shape, value=step, dtype=dtypes.int64)))
        step = step * shape[axis]
    return own


def _as_rows(x: Any, axes: int) -> Any:
    """``x`` with its first axes as one."""
    return ops.reshape(x, shape=(dims.product(x.shape[:axes]), *x.shape[axes:]))


def gathered(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """With indices of each sample's own, the rows of all samples stand behind each other."""
    (x, indices), (varies, chooses) = values, flags
    axis, negative = attrs["axis"], attrs.get("negative", True)
    if not chooses:
        return op(x, indices, **{**attrs, "axis": axis + 1})
    if not varies:
        return moved(op(x, indices, **attrs), axis, 0)
    rows = _own(size, x.shape[1 : axis + 2], indices, op.name, negative)
    return op(_as_rows(x, axis + 2), rows, axis=0)


def scattered(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """As ``gathered``; duplicates keep their order within a sample."""
    x, indices, updates = values
    axis, negative = attrs["axis"], attrs.get("negative", True)
    x = x if flags[0] else repeated(x, size)
    updates = updates if flags[2] else repeated(updates, size)
    if not flags[1]:
        return op(x, indices, updates, **{**attrs, "axis": axis + 1})
    rows = _own(size, x.shape[1 : axis + 2], indices, op.name, negative)
    rest = {name: value for name, value in attrs.items() if name not in ("axis", "negative")}
    return ops.reshape(op(_as_rows(x, axis + 2), rows, updates, axis=0, **rest), shape=x.shape)


def _window(size: DimLike, shape: tuple[DimLike, ...], sizes: tuple[DimLike, ...], starts: Values) -> tuple[Any, int]:
    """The rows that a window of each sample takes, and how many axes are numbered: all behind them are whole.

    ``shape`` and ``sizes`` are those of one sample; ``starts`` are those that the samples share, or have as a vector.
    """
    count = max((axis + 1 for axis in range(len(shape)) if shape[axis] != sizes[axis]), default=0)
    full = (size, *sizes[:count])
    rows: Any = None
    step: DimLike = 1
    for axis in reversed(range(count)):
        start = starts[axis]
        bounds = (
            ops.full(shape=start.shape, value=0, dtype=dtypes.int64),
            ops.full(shape=start.shape, value=shape[axis] - sizes[axis], dtype=dtypes.int64),
        )
        start = ops.minimum(ops.maximum(start, bounds[0]), bounds[1])
        offsets = ops.broadcast(start, shape=full, axes=tuple(range(len(start.shape))))
        offsets = ops.add(offsets, ops.iota(shape=full, axis=axis + 1, dtype=dtypes.int64))
        offsets = ops.mul(offsets, ops.full(shape=full, value=step, dtype=dtypes.int64))
        rows = offsets if rows is None else ops.add(rows, offsets)
        step = step * shape[axis]
    sample = ops.mul(
        ops.iota(shape=full, axis=0, dtype=dtypes.int64), ops.full(shape=full, value=step, dtype=dtypes.int64)
    )
    return (sample if rows is None else ops.add(rows, sample)), count + 1


def windowed(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """dynamic_slice; with starts of each sample's own a gather of rows."""
    x, *starts = values
    sizes = attrs["sizes"]
    if not any(flags[1:]):
        return op(x, ops.full(shape=(), value=0, dtype=dtypes.int64), *starts, sizes=(size, *sizes))
    x = x if flags[0] else repeated(x, size)
    rows, axes = _window(size, x.shape[1:], sizes, starts)
    return ops.gather(_as_rows(x, axes), rows, axis=0)


def updated(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """dynamic_update_slice; with starts of each sample's own a scatter of rows."""
    x, update = together(values[:2], flags[:2], size)
    starts = values[2:]
    if not any(flags[2:]):
        return op(x, update, ops.full(shape=(), value=0, dtype=dtypes.int64), *starts)
    rows, axes = _window(size, x.shape[1:], update.shape[1:], starts)
    return ops.reshape(ops.scatter(_as_rows(x, axes), rows, update, axis=0), shape=x.shape)


def barred(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """A barrier, whose operands need not be alike."""
    return op(*together(values[:1], flags[:1], size), *values[1:], **attrs)


def checked(op: Op, size: DimLike, values: Values, flags: Flags, attrs: Attrs) -> Any:
    """A check of all samples; its number is the least of those that fail."""
    holds, *number = together(values, flags, size)
    if number:
        most = ops.full(shape=number[0].shape, value=2**63 - 1, dtype=dtypes.int64)
        number = [ops.reduce_min(ops.select(holds, most, number[0]), axes=(0,))]
    return op(ops.reduce_min(holds, axes=(0,)), *number, **attrs)


RULES: Final[Mapping[Batching, Rule]] = {
    "alike": alike,
    "shifted": shifted,
    "leading": leading,
    "reshape": reshaped,
    "broadcast": broadcasted,
    "slice": sliced,
    "pad": padded,
    "dot": multiplied,
    "conv": convolved,
    "gather": gathered,
    "scatter": scattered,
    "dynamic_slice": windowed,
    "dynamic_update_slice": updated,
    "barrier": barred,
    "check": checked,
}

_OF_KIND: Final[Mapping[str, Batching]] = {"elementwise": "alike", "reduce": "shifted"}


def rule_of(op: Op) -> Rule | None:
    """The rule that the op names, or that of its kind; None for one that is taken sample by sample."""
    if callable(op.batch):
        return op.batch
    name = op.batch or _OF_KIND.get(op.kind)
    if name is None and "pointwise" in op.traits:
        name = "alike"
    return None if name is None else RULES[name]


# ----------------------------------------------------------------------
# Lane: the value that represents one of a graph's values when the graph is run on many samples at once.


class Lane(NamedTuple):
    """A value; where it ``varies``, its first axis has an element for each sample.

    In a region that some samples run, a ``raw`` lane has for the others what they have themselves, of which nothing may
    be computed. With an ``origin`` that is what they have at the input of the region with this number.
    """

    value: Any
    varies: bool
    raw: bool = False
    origin: int | None = None


def each(sample: Lane, size: DimLike) -> Lane:
    """The sample with an axis of its own; tokens have none."""
    if sample.varies or isinstance(sample.value.type, TokenType):
        return sample
    return Lane(repeated(sample.value, size), True)


def batched_type(type: Type, size: DimLike) -> TensorType:
    """The type of ``size`` values of a type."""
    if not isinstance(type, TensorType):
        raise UnsupportedOp(f"vmap over {type}")
    return TensorType(type.dtype, (size, *type.shape))


def over(mask: Any, like: Any) -> Any:
    """A mask of samples as one of all their elements."""
    return mask if len(like.shape) == 1 else ops.broadcast(mask, shape=like.shape, axes=(0,))


def chosen(mask: Any, yes: Any, no: Any) -> Any:
    """For each sample, ``yes`` where the mask is true, else ``no``."""
    return ops.select(over(mask, yes), yes, no)


def any_of(mask: Any) -> Any:
    """Whether the mask is true for a sample."""
    return ops.reduce_max(mask, axes=(0,))


# ----------------------------------------------------------------------
# Ops for some of the samples: the others keep what they have, or stand aside with the operands of one that is active.
#
# What is computed for samples that do not take a branch, or are done with a loop, meets operands of a sample for which
# it is wanted: checks hold, loops end and gradients, which are multiplied by zero, are finite. That copies the operand,
# so it is put off: an array of the samples' own (``Lane.raw``) stays that through index maps and reads of elements, of
# which the few results are replaced. A write into it is one for all samples, where those that are not active write what
# is there: the result differs from the array for active samples alone, and no choice between whole arrays is left to
# make.

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
