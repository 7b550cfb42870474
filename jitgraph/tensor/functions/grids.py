"""Shapes that go together, grids of coordinates, and tensors over the memory of other libraries."""

from __future__ import annotations

from typing import Any, Literal

from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.creation import asarray, shape_of
from jitgraph.tensor.functions.manipulation import broadcast_to
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, settled, wrap


@array_function
def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which tensors of these shapes broadcast; ShapeError where they do not."""
    result = lifting.broadcast_shapes(*(shape_of(shape) for shape in shapes))
    trace = context.current().trace
    return result if trace is None else trace.user_shape(result)


@array_function
def meshgrid(*xs: TensorLike, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """The coordinates of a grid: one tensor for each vector, which varies along the axis of that vector.

    indexing: "ij" for axes in the order of the vectors, "xy" for the first two exchanged. ShapeError for tensors of
    higher rank, DTypeError for different dtypes.
    """
    if indexing not in ("xy", "ij"):
        raise JitgraphError(f'meshgrid: indexing is "xy" or "ij", not {indexing!r}')
    values = lifting.together(*(lifting.value_of(settled(x)) for x in xs))
    if any(value.type.ndim > 1 for value in values):
        raise ShapeError(f"meshgrid takes vectors, not {', '.join(str(value.type) for value in values)}")
    if len({value.dtype for value in values}) > 1:
        names = ", ".join(value.dtype.name for value in values)
        raise DTypeError(f"meshgrid of different dtypes: {names}", hint="x.astype(dtype)")
    axes = list(range(len(values)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = 1, 0
    sizes = [value.shape[0] if value.shape else 1 for value in values]
    shape = tuple(sizes[axis] for axis in axes)
    columns = (
        wrap(value).reshape((1,) * axis + (size,) + (1,) * (len(axes) - axis - 1))
        for value, size, axis in zip(values, sizes, axes, strict=True)
    )
    return [broadcast_to(column, shape) for column in columns]


@array_function
def from_dlpack(x: Any, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array of another library, by DLPack; ``device`` and ``copy`` as in ``asarray``.

    JitgraphError for what has no ``__dlpack__``.
    """
    if not hasattr(type(x), "__dlpack__"):
        raise JitgraphError(f"from_dlpack: {type(x).__name__} has no __dlpack__\n  hint: jg.asarray(x)")
    return asarray(x, device=device, copy=copy)
