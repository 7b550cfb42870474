"""For which sizes one kernel serves: the shapes of an eager call with names in place of extents.

An axis of one element is known, as it may be repeated or a product with a vector. Operands of a pointwise op are one
row, beside which there may be numbers, and axes that a reduction keeps side by side are one axis.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op, OpenShape
from jitgraph.ops.rules import open_extent
from jitgraph.records import NamedTuple

Shapes: TypeAlias = "tuple[tuple[int, ...], ...]"


class SizePattern(NamedTuple):
    """What a kernel is compiled for: operands with these open shapes, under these attributes.

    ``shapes`` are the operands' extents as the kernel sees them.
    """

    open: tuple[OpenShape, ...]
    attrs: Attrs
    shapes: Shapes

    @property
    def known(self) -> SizePattern:
        """The same for these extents alone."""
        return SizePattern(self.shapes, self.attrs, self.shapes)


def is_pointwise(op: Op) -> bool:
    """Whether an element of the result depends on elements of the operands at the same index alone."""
    return op.kind == "elementwise" or "pointwise" in op.traits


def common_shape(shapes: Shapes) -> tuple[int, ...] | None:
    """The shape of all operands but numbers of rank 0, () where there are no others; None where shapes differ."""
    wide = {shape for shape in shapes if shape}
    return None if len(wide) > 1 else wide.pop() if wide else ()


def pattern_of(op: Op, shapes: Shapes, attrs: Attrs) -> SizePattern:
    """The pattern of a call; its shapes were not looked at, and need not fit each other."""
    common = common_shape(shapes) if is_pointwise(op) else None
    if common is not None:
        row = (prod(common),)
        rows = tuple([() if common and not shape else row for shape in shapes])
        return SizePattern(tuple([tuple([open_extent(n, "n") for n in each]) for each in rows]), attrs, rows)
    if op.kind == "reduce":
        return _reduction(shapes[0], attrs)
    if op.open_shapes is not None:
        return SizePattern(op.open_shapes(*shapes, **attrs), attrs, shapes)
    return SizePattern(open_shapes_of(shapes), attrs, shapes)


def open_shapes_of(shapes: Shapes) -> tuple[OpenShape, ...]:
    """Shapes with names for extents: of several operands one for each extent, as equal ones may have to be equal."""
    if len(shapes) == 1:
        return (tuple([open_extent(n, f"n{axis}") for axis, n in enumerate(shapes[0])]),)
    names: dict[int, str] = {}
    return tuple([tuple([open_extent(n, names.setdefault(n, f"n{len(names)}")) for n in shape]) for shape in shapes])


def _reduction(shape: tuple[int, ...], attrs: Attrs) -> SizePattern:
    """Neighbouring axes that are kept become one: the order of a reduction asks only which axis is the last."""
    key = "axes" if "axes" in attrs else "axis"
    raw_axes: Any = attrs[key]
    reduced = raw_axes if key == "axes" else (raw_axes,)
    extents: list[int] = []
    axes = []
    retained = False
    for axis, extent in enumerate(shape):
        if axis in reduced:
            axes.append(len(extents))
        if retained and axis not in reduced:
            extents[-1] *= extent
        else:
            extents.append(extent)
        retained = axis not in reduced
    open_shape = tuple([open_extent(extent, f"n{axis}") for axis, extent in enumerate(extents)])
    merged: dict[str, Any] = {**attrs, key: tuple(axes) if key == "axes" else axes[0]}
    return SizePattern((open_shape,), merged, (tuple(extents),))


def exact(attrs: Attrs) -> tuple[Any, ...]:
    """The attributes as a key that keeps apart what compares equal and is another: 1, 1.0 and True, and the zeros."""
    return tuple([(name, x, x.__class__) if x else (name, repr(x), x.__class__) for name, x in attrs.items()])
