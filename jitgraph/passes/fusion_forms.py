"""The forms of fusion groups: what a kernel's loops run over, and which values its nodes may read of one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.op import Fusion
from jitgraph.ir.target import Target
from jitgraph.ir.types import Shape, TensorType
from jitgraph.once import cached_property
from jitgraph.records import dataclass

Index = tuple[DimLike, ...]

MOST_READ: Final = 4  # operands of an index map; a concat of more copies them, one loop for each
# A reduction to no more results than the first number, of at least as many elements each as the second, is split over
# threads, in a kernel of its own.
_GLOBAL: Final = 8, 1 << 14
_GLOBAL_ON_GPU: Final = 64, 1 << 14  # a result is a block's, and there are more blocks at once
_GLOBAL_SCATTERED_ON_GPU: Final = 1 << 14, 1 << 8  # a column, or runs here and there: for one block a walk without end

_OF_KIND: Final[Mapping[str, Fusion]] = {
    "elementwise": "pointwise",
    "movement": "free",
    "creation": "free",
    "contraction": "contraction",
    "reduce": "rows",
}


@dataclass(frozen=True)
class FusionForm:
    """What a group's loops run over; ``axes`` are those that its reductions reduce."""

    kind: Literal["pointwise", "rows", "contraction", "alone"]
    domain: Shape
    axes: tuple[int, ...] = ()

    @cached_property
    def rows(self) -> Shape:
        return tuple(extent for axis, extent in enumerate(self.domain) if axis not in self.axes)

    @cached_property
    def index(self) -> Index:
        return axes_index(self.domain)

    @cached_property
    def row_index(self) -> Index:
        """The part of ``index`` that a value of the rows' shape is read at."""
        return tuple(dim for axis, dim in enumerate(self.index) if axis not in self.axes)

    def is_global(self, target: Target) -> bool:
        """A reduction of much to little: what follows from it has to wait for all of it."""
        if self.kind != "rows":
            return False
        count, extent = dims.product(self.rows), dims.product(self.domain[axis] for axis in self.axes)
        most, least = _GLOBAL if target.sm is None else _GLOBAL_ON_GPU
        if target.sm is not None and self._is_scattered:
            most, least = _GLOBAL_SCATTERED_ON_GPU
        return isinstance(count, int) and count <= most and isinstance(extent, int) and extent >= least

    @property
    def _is_scattered(self) -> bool:
        """Whether a kept axis stands behind a reduced one, so that a row is not one run of memory."""
        reduced = [axis for axis in self.axes if self.domain[axis] != 1]
        return any(extent != 1 and axis > min(reduced, default=axis) for axis, extent in self._kept)

    @property
    def _kept(self) -> list[tuple[int, DimLike]]:
        return [(axis, extent) for axis, extent in enumerate(self.domain) if axis not in self.axes]


@dataclass(frozen=True)
class FusionEdge:
    """A value that a node reads through movement ops: at this index of the value when at index ``_i0, _i1, ...``."""

    value: Value
    producer: Node
    index: Index | None  # None: at several indices, or at one that is computed


def axes_index(shape: Shape) -> Index:
    return tuple(0 if extent == 1 else Dim.name(f"_i{axis}") for axis, extent in enumerate(shape))


def is_free(node: Node) -> bool:
    """Whether the node is an index map, or makes its value from the index: free to be copied into every reader."""
    return _part(node) == "free" and (node.op.kind != "movement" or len(node.inputs) <= MOST_READ)


def _part(node: Node) -> Fusion:
    return node.op.fusion or _OF_KIND.get(node.op.kind, "alone")


def form_of(node: Node) -> FusionForm:
    if any(not isinstance(value.type, TensorType) for value in (*node.inputs, *node.outputs)) or node.regions:
        return FusionForm("alone", ())
    part = _part(node)
    if part == "pointwise" or part == "contraction":
        return FusionForm(part, node.output.shape)
    if part == "rows":
        axes: Any = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
        if axes:
            return FusionForm("rows", node.inputs[0].shape, tuple(axes))
    return FusionForm("alone", ())


def common_form(left: FusionForm, right: FusionForm) -> FusionForm | str:
    """The form of two groups together, or why there is none."""
    if "alone" in (left.kind, right.kind):
        return "it is a kernel of its own"
    if left == right:
        return left if left.kind != "contraction" else "one kernel holds one contraction"
    if right.kind == "contraction" and left.kind != "pointwise":
        return "an operand of a contraction is read many times"
    kinds = {left.kind, right.kind}
    pointwise, other = (left, right) if left.kind == "pointwise" else (right, left)
    if kinds == {"pointwise", "contraction"}:
        return other if pointwise.domain == other.domain else "the shapes differ"
    if kinds == {"pointwise", "rows"}:
        return other if pointwise.domain in (other.domain, other.rows) else "the shapes differ"
    if kinds == {"rows"}:
        return "the reductions are over other axes or shapes"
    if kinds == {"pointwise"}:
        return "the shapes differ"
    return "a reduction needs the whole result of the contraction"


def misread(form: FusionForm, node: Node, edge: FusionEdge, root: Node | None) -> str | None:
    """Why a node of a group of this form cannot read a value of the group; None where it can."""
    if node is root:
        return "an operand of a contraction is read many times"
    if edge.index is None:
        return "it is read at several indices"
    if form.kind != "rows":
        same = edge.index == form.index and edge.value.shape == form.domain
        return None if same else "it is read at another index"
    if node.op.kind == "reduce" or node.outputs[0].shape == form.domain:
        of_domain = edge.index == form.index and edge.value.shape == form.domain
        of_row = edge.index == form.row_index and edge.value.shape == form.rows
        return None if of_domain or of_row else "it is read at another index"
    same = edge.index == axes_index(form.rows) and edge.value.shape == form.rows
    return None if same else "it is read at another index"
