"""The same elements in another shape, or their axes in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph import ops
from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops import rules
from jitgraph.tensor import direct, lifting
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.method import axes_of, axis_of, method
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import items, listed
from jitgraph.tensor.tensor import Tensor, wrap


@method
def reshape(x: TensorLike, shape: Any = (), *more: Any, copy: bool | None = None) -> Tensor:
    """The same elements in row-major order in another shape, a tuple or sizes one by one; one size may be -1.

    ``copy`` is the Array API's, and makes no difference: a value is never changed in place.
    """
    sizes = (shape, *more) if more else shape if shape.__class__ is tuple else listed(shape)
    if set(map(type, sizes)) <= {int}:
        return _reshapes[tuple(sizes)](x)  # type: ignore[no-any-return]
    return _reshape(x, sizes)


def _reshape(x: TensorLike, sizes: Sequence[Any]) -> Tensor:
    if set(map(type, sizes)) <= {int} and min(sizes, default=0) >= -1:  # NumPy takes any negative size for -1
        view = direct.view(x, lambda array: array.reshape(sizes))
        if view is not None:
            return wrap(view)
    value = lifting.value_of(x)
    return wrap(ops.reshape(value, shape=_resolve(value.type.shape, sizes)))


def _reshaped_by(shape: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Tensor]:
    """The function of a tensor and an attribute that gives its elements the shape ``shape(type, attribute)``."""

    def general(x: TensorLike, attribute: Any) -> Tensor:
        value = lifting.value_of(x)
        return wrap(ops.reshape(value, shape=shape(value.type, attribute)))

    return general


def _direct(function: Callable[[Any, Any], Tensor]) -> DirectCalls:
    """``function(x, attribute)``, for each attribute a function of its own, whose calls may go past Python."""
    return DirectCalls(lambda attribute: direct_call(lambda x: function(x, attribute), 1))


def _resolve(old: tuple[DimLike, ...], sizes: Sequence[Any]) -> tuple[DimLike, ...]:
    """The new shape with -1 replaced; ShapeError where the numbers of elements differ."""
    holes = [i for i, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    known = shape_of(tuple(1 if i in holes else size for i, size in enumerate(sizes)))
    total, part = dims.product(old), dims.product(known)
    shown = tuple(-1 if i in holes else size for i, size in enumerate(known))
    if len(holes) > 1:
        raise ShapeError(f"reshape to {shown}: only one size may be -1")
    if holes:
        left = rules.quotient(f"reshape of {old} to {shown}: {total} elements", total, part)
        return tuple(left if i in holes else size for i, size in enumerate(known))
    if not context.constraints().same(total, part):
        raise ShapeError(f"reshape of {old} to {shown}: {total} elements against {part}")
    return known


_reshapes = _direct(_reshape)


@method
def permute_dims(x: TensorLike, axes: Sequence[int]) -> Tensor:
    """Axes in another order: axis i of the result is axis ``axes[i]`` of x."""
    if axes.__class__ is tuple and set(map(type, axes)) <= {int}:
        return _permutations[axes](x)  # type: ignore[no-any-return]
    return _permute(x, axes)


def _permute(x: TensorLike, axes: Sequence[int]) -> Tensor:
    view = direct.view(x, lambda array: array.transpose(axes)) if axes.__class__ is tuple else None
    if view is not None:
        return wrap(view)
    value = lifting.value_of(x)
    listed_axes = listed(axes)
    order = tuple(axis_of(a, value.type.ndim, "permute_dims") for a in listed_axes)
    if sorted(order) != list(range(value.type.ndim)):
        raise ShapeError(f"permute_dims: {listed_axes} is not an order of the axes of {value.type}")
    return wrap(ops.transpose(value, permutation=order))


_permutations = _direct(_permute)


@method
def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """All axes reversed; with two axes (PyTorch) those are swapped; with a tuple or more (NumPy) the new order."""
    if set(map(type, axes)) <= {int}:
        return _transposes[axes](x)  # type: ignore[no-any-return]
    return _transpose(x, axes)


def _transpose(x: TensorLike, axes: tuple[Any, ...]) -> Tensor:
    value = lifting.value_of(x)
    return permute_dims(wrap(value), _order(value.type.ndim, axes))


def _order(ndim: int, axes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The order of axes that ``transpose`` is asked for."""
    listed_axes = items(axes[0]) if len(axes) == 1 else None
    permutation = axes if listed_axes is None else listed_axes
    if not permutation:
        permutation = tuple(reversed(range(ndim)))
    elif len(axes) == 2:
        first, second = (axis_of(a, ndim, "transpose") for a in axes)
        order = list(range(ndim))
        order[first], order[second] = second, first
        permutation = tuple(order)
    return permutation


_transposes = _direct(_transpose)


@method
def matrix_transpose(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    return x.mT


@method
def flatten(x: TensorLike, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Axes ``start_axis`` to ``end_axis`` as one."""
    if start_axis.__class__ is int and end_axis.__class__ is int:
        return _flattened[start_axis, end_axis](x)  # type: ignore[no-any-return]
    return _reshaped_by(_merged)(x, (start_axis, end_axis))


def _merged(type: Any, ends: tuple[int, int]) -> tuple[DimLike, ...]:
    shape = type.shape
    if not shape:
        return (1,)
    first, last = (axis_of(axis, len(shape), "flatten") for axis in ends)
    return (*shape[:first], dims.product(shape[first : last + 1]), *shape[last + 1 :])


@method
def squeeze(x: TensorLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """Axes of size 1 dropped: the given ones, which must have size 1, or all for None."""
    if axis is None or axis.__class__ is int:
        return _squeezed[axis](x)  # type: ignore[no-any-return]
    return _reshaped_by(_without)(x, axis)


def _without(type: Any, axis: int | Sequence[int] | None) -> tuple[DimLike, ...]:
    shape = type.shape
    if axis is None:
        dropped: tuple[int, ...] = tuple(i for i, size in enumerate(shape) if isinstance(size, int) and size == 1)
    else:
        dropped = axes_of(axis, len(shape), "squeeze")
        for i in dropped:
            if not context.constraints().same(shape[i], 1):
                raise ShapeError(f"squeeze: axis {i} of {type} does not have size 1")
    return tuple(s for i, s in enumerate(shape) if i not in dropped)


@method
def expand_dims(x: TensorLike, axis: int | Sequence[int] = 0) -> Tensor:
    """New axes of size 1 at the positions ``axis`` of the result: one, or several."""
    if axis.__class__ is int:
        return _expanded[axis](x)  # type: ignore[no-any-return]
    return _reshaped_by(_with_axis)(x, axis)


def _with_axis(type: Any, axis: int | Sequence[int]) -> tuple[DimLike, ...]:
    shape = type.shape
    for position in axes_of(listed(axis), type.ndim + len(listed(axis)), "expand_dims"):
        shape = (*shape[:position], 1, *shape[position:])
    return shape  # type: ignore[no-any-return]


_flattened, _squeezed, _expanded = (_direct(_reshaped_by(shape)) for shape in (_merged, _without, _with_axis))


@method
def unsqueeze(x: TensorLike, axis: int) -> Tensor:
    """PyTorch's name of ``expand_dims``."""
    return expand_dims(x, axis)
