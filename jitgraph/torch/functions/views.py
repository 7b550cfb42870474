"""Functions whose results are views: they share their elements with their operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.eager.handle import of_its_own
from jitgraph.torch import view_inverses
from jitgraph.torch.adapters import torch_function
from jitgraph.torch.layouts import axis_of, contiguous_strides, is_contiguous, same_layout, storage_positions
from jitgraph.torch.scalar_types import dtype as dtype_class
from jitgraph.torch.tensors import (
    Tensor,
    View,
    detached,
    indexed,
    offset_of,
    reshaped,
    strides_of,
    view_of,
)
from jitgraph.torch.view_steps import ViewStep


def sizes_of(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes that are written one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        return tuple(sizes[0])
    return sizes


def _whole_shape(x: Tensor, sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """A shape with -1 in place of the size that follows; RuntimeError where the elements do not fill it."""
    total = x.numel()
    if not all(type(size) is int for size in (*sizes, total)):
        return tuple(jg.reshape(jg.zeros(tuple(x.shape)), sizes).shape) if -1 in sizes else sizes
    if any(size < -1 for size in sizes):
        raise RuntimeError(f"invalid shape dimension {next(size for size in sizes if size < -1)}")
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    known = math.prod(size for size in sizes if size != -1)
    if -1 in sizes:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {total} elements into shape {list(sizes)} because the unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
        if total % known:
            raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {total}")
        return tuple(total // known if size == -1 else size for size in sizes)
    if known != total:
        raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {total}")
    return sizes


def viewable(shape: tuple[Any, ...], strides: tuple[Any, ...], to: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The strides of a view in another shape; None where no strides have it.

    Axes are joined where they lie densely in one another, and such blocks are cut as the new shape asks.
    """
    if not all(type(size) is int for size in (*shape, *to)):
        return contiguous_strides(to) if is_contiguous(shape, strides) else None
    if 0 in shape:
        return contiguous_strides(to)
    blocks: list[tuple[int, int]] = []  # (elements, stride of the innermost), outermost first
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if blocks and blocks[-1][1] == stride * size:
            blocks[-1] = (blocks[-1][0] * size, stride)
        else:
            blocks.append((size, stride))
    result: list[int] = []
    rest, step = 1, 1
    for size in reversed(to):
        if size == 1:
            result.append(step)
            continue
        if rest == 1:
            if not blocks:
                return None
            rest, step = blocks.pop()
        if rest % size:
            return None
        result.append(step)
        rest //= size
        step *= size
    return tuple(reversed(result)) if rest == 1 and not blocks else None


def view(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape, or their bits in another dtype; RuntimeError where strides forbid it."""
    if len(shape) == 1 and isinstance(shape[0], dtype_class):
        return _of_bits(self, shape[0])
    to = _whole_shape(self, sizes_of(shape))
    if not isinstance(self, View):
        return reshaped(self, to)
    strides = viewable(tuple(self.shape), strides_of(self), to)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return reshaped(self, to, strides)


def _of_bits(x: Tensor, to: dtype_class) -> Tensor:
    if x.dtype == to:
        return alias(x)
    own = x._static.type.dtype
    step = ViewStep("view", lambda t: _bits(t, to.dtype), lambda t, new: _bits(new, own))
    ratio = own.itemsize / to.itemsize
    strides = strides_of(x)
    if ratio != 1:
        if not x.ndim:
            raise RuntimeError("self.dim() cannot be 0 to view a dtype of another size")
        strides = (*(int(stride * ratio) for stride in strides[:-1]), 1)
    return view_of(x, step, (int(offset_of(x) * ratio), strides))


def _bits(x: Any, dtype: Any) -> Any:
    return getattr(jg.Tensor, "view")(x, dtype)  # noqa: B009 - a method that loads when it is used


def view_as(self: Tensor, other: Any) -> Tensor:
    """The same elements in the shape of another tensor."""
    return view(self, tuple(other.shape))


def alias(self: Tensor) -> Tensor:
    """Another handle on the same elements."""
    return view_of(self, ViewStep("alias", lambda t: t, lambda t, new: new), same_layout)


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy."""
    to = _whole_shape(input, sizes_of(shape))
    if not isinstance(input, View):
        return reshaped(input, to)
    strides = viewable(tuple(input.shape), strides_of(input), to)
    return _copy(jg.reshape(input, to)) if strides is None else reshaped(input, to, strides)


def reshape_as(self: Tensor, other: Any) -> Tensor:
    """As ``reshape`` to the shape of another tensor."""
    return reshape(self, tuple(other.shape))


@torch_function
def _copy(x: Any) -> Any:
    return x


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where it lies in row-major order, else a copy that does."""
    return self if self.is_contiguous() else clone(self)


@torch_function
def clone(input: Tensor, *, memory_format: Any = None) -> Any:
    """A copy through which gradients flow."""
    return Tensor._of(of_its_own(input.value))


def permute(input: Tensor, *dims: Any) -> Tensor:
    """A view with the axes in another order."""
    order = tuple(axis_of(dim, input.ndim) for dim in sizes_of(dims))
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    put = lambda t, new: view_inverses.permuted(t, new, order)
    step = ViewStep("permute", lambda t: jg.permute_dims(t, order), put)
    return view_of(input, step, lambda _, of: (of[0], tuple(map(of[1].__getitem__, order))))


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two axes swapped."""
    first, second = axis_of(dim0, input.ndim), axis_of(dim1, input.ndim)
    if not input.ndim:
        return alias(input)
    order = [*range(input.ndim)]
    order[first], order[second] = order[second], order[first]
    return permute(input, order)


swapaxes = swapdims = transpose


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix as a view; vectors and numbers as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return permute(input, 1, 0) if input.ndim == 2 else alias(input)


def adjoint(input: Tensor) -> Any:
    """The last two axes swapped, and conjugated."""
    swapped = transpose(input, -2, -1)
    return swapped.conj() if input.is_complex() else swapped


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """A view with axes at other positions."""
    sources = [axis_of(d, input.ndim) for d in ([source] if isinstance(source, int) else source)]
    targets = [axis_of(d, input.ndim) for d in ([destination] if isinstance(destination, int) else destination)]
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise RuntimeError(f"movedim: repeated or unequal dims: {source}, {destination}")
    order = [axis for axis in range(input.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute(input, order)


moveaxis = movedim


def expand(self: Tensor, *sizes: Any, implicit: bool = False) -> Tensor:
    """A view in which axes of one element are repeated; -1 keeps a size. Of writes it takes ``fill_`` alone."""
    asked, shape = sizes_of(sizes), tuple(self.shape)
    added = len(asked) - len(shape)
    if added < 0:
        raise RuntimeError(
            f"expand({list(shape)}, size={list(asked)}): the number of sizes provided ({len(asked)}) must be greater "
            f"or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    to: list[Any] = []
    strides: list[Any] = []
    for axis, size in enumerate(asked):
        own = shape[axis - added] if axis >= added else None
        keeps = type(size) is int and size == -1
        if own is None and keeps:
            raise RuntimeError(f"expand: the size -1 isn't allowed in a leading, non-existing dimension {axis}")
        if keeps or own is size or (own is not None and own == size):
            to.append(own)
            strides.append(strides_of(self)[axis - added])
        elif own is None or own == 1:
            to.append(size)
            strides.append(0)
        else:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({own}) at non-singleton "
                f"dimension {axis}.  Target sizes: {list(asked)}.  Tensor sizes: {list(shape)}"
            )
    target = tuple(to)
    added_axes = (0,) * added
    ones = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides[added:])
    step = ViewStep(
        "expand",
        lambda t: jg.broadcast_to(t, target),
        lambda t, new: jg.reshape(jg.Tensor.__getitem__(new, (*added_axes, *ones)), shape),
        repeats=0 in strides,
    )
    return view_of(self, step, (offset_of(self), tuple(strides)))


def expand_as(self: Tensor, other: Any) -> Tensor:
    """As ``expand`` to the shape of another tensor."""
    return expand(self, tuple(other.shape))


def broadcast_to(input: Tensor, size: Sequence[Any]) -> Tensor:
    """As ``expand``."""
    return expand(input, size)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A view with an axis of one element more."""
    axis = axis_of(dim, input.ndim + 1)
    shape, strides = [*input.shape], [*strides_of(input)]
    strides.insert(axis, strides[axis] * shape[axis] if axis < len(shape) else 1)
    shape.insert(axis, 1)
    return reshaped(input, tuple(shape), tuple(strides))


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """A view without axes of one element, without all of them or those that are named."""
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {axis_of(d, input.ndim) for d in dims} if input.ndim else set()
    axes = [axis for axis, size in enumerate(input.shape) if axis not in gone or type(size) is not int or size != 1]
    strides = strides_of(input)
    return reshaped(input, tuple(input.shape[axis] for axis in axes), tuple(strides[axis] for axis in axes))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes as one: a view where strides allow it, the tensor itself where there is one axis."""
    first, last = axis_of(start_dim, input.ndim), axis_of(end_dim, input.ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not input.ndim:
        return reshape(input, (1,))
    if first == last:
        return input
    shape = tuple(input.shape)
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def ravel(input: Tensor) -> Tensor:
    """All axes as one."""
    return contiguous(reshape(input, (-1,)))


def unflatten(input: Tensor, dim: int, sizes: Sequence[Any]) -> Tensor:
    """A view with one axis as several."""
    axis, shape = axis_of(dim, input.ndim), tuple(input.shape)
    inner = tuple(sizes)
    if -1 in inner:
        rest = math.prod(size for size in inner if size != -1)
        inner = tuple(shape[axis] // rest if size == -1 else size for size in inner)
    if math.prod(inner) != shape[axis]:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) in "
            "the input tensor"
        )
    return view(input, (*shape[:axis], *inner, *shape[axis + 1 :]))


def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """A view without one axis, at an index of it."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis = axis_of(dim, input.ndim)
    return indexed(input, (*[slice(None)] * axis, index))


def narrow(input: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """A view of ``length`` elements of an axis from ``start`` on; RuntimeError where they are not all there."""
    axis = axis_of(dim, input.ndim)
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = input.shape[axis]
    if isinstance(start, jg.Tensor):
        if start.ndim or not dtypes.is_integer(start._static.type.dtype):
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item() if not isinstance(start, Tensor) or start._value is not None else start
    if all(type(n) is int for n in (size, start, length)):
        if length < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
        if not -size <= start <= size:
            raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
        start = start + size if start < 0 else start
        if start + length > size:
            raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return indexed(input, (*[slice(None)] * axis, slice(start, start + length)))


def slice_of(input: Tensor, dim: int, start: Any, end: Any, step: Any = 1) -> Tensor:
    """A view of a slice of one axis."""
    return indexed(input, (*[slice(None)] * axis_of(dim, input.ndim), slice(start, end, step)))


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views without one axis, one for each index of it."""
    axis = axis_of(dim, input.ndim)
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return tuple(select(input, axis, index) for index in range(input.shape[axis]))


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of an axis: each of one size, the last of what is left, or of the sizes that are listed."""
    axis = axis_of(dim, tensor.ndim)
    size = tensor.shape[axis]
    if isinstance(split_size_or_sections, int):
        width = split_size_or_sections
        if width < 0 or (width == 0 and size):
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={width}")
        starts = range(0, size, width) if size else range(1)
        return tuple(narrow(tensor, axis, start, min(width, size - start)) for start in starts)
    sections = [*split_size_or_sections]
    if sum(sections) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {axis}), "
            f"but got split_sizes={sections}"
        )
    starts_of = [sum(sections[:number]) for number in range(len(sections))]
    return tuple(narrow(tensor, axis, start, length) for start, length in zip(starts_of, sections, strict=True))


def split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """As ``split`` with listed sizes."""
    return split(self, [*split_sizes], dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` parts of an axis, equal but for the last one."""
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.shape[axis_of(dim, input.ndim)]
    return split(input, -(-size // chunks) if size else 0, dim) if size else (alias(input),) * chunks


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of parts of an axis: so many that differ by one element at most, or with these bounds."""
    axis = axis_of(dim, input.ndim)
    size = input.shape[axis]
    if isinstance(indices_or_sections, jg.Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections < 1:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        bounds = [size // sections * k + min(k, size % sections) for k in range(1, sections)]
    else:
        bounds = [*indices_or_sections]
    return tuple(slice_of(input, axis, start, end) for start, end in zip([0, *bounds], [*bounds, size], strict=True))


def _split_along(name: str, least: int, axis_for: Any) -> Any:
    def call(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
                "dimensions!"
            )
        axis = axis_for(input)
        sections = indices_or_sections
        if not isinstance(sections, int | Sequence | jg.Tensor) or isinstance(sections, str):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (Tensor, {type(sections).__name__}), but "
                "expected a number of sections or a sequence of indices"
            )
        if isinstance(sections, int) and (sections <= 0 or input.shape[axis] % sections):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {axis}, but the size of the dimension "
                f"{input.shape[axis]} is not divisible by the split_size {indices_or_sections}!"
            )
        return tensor_split(input, indices_or_sections, axis)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Views of parts of an axis, as ``tensor_split``; {name} says of which."
    return call


hsplit = _split_along("hsplit", 1, lambda x: 0 if x.ndim == 1 else 1)
vsplit = _split_along("vsplit", 2, lambda x: 0)
dsplit = _split_along("dsplit", 3, lambda x: 2)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of the diagonal of two axes, as the last axis."""
    first, second = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    step = ViewStep(
        "diagonal",
        lambda t: jg.diagonal(t, offset, first, second),
        lambda t, new: view_inverses.on_diagonal(t, new, offset, first, second),
    )
    strides = strides_of(input)
    begin = offset * strides[second] if offset >= 0 else -offset * strides[first]
    rest = [stride for axis, stride in enumerate(strides) if axis not in (first, second)]
    return view_of(input, step, (offset_of(input) + begin, (*rest, strides[first] + strides[second])))


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of an axis, which becomes their number; the window is the last axis."""
    axis = axis_of(dimension, self.ndim)
    length = self.shape[axis] if self.ndim else 1
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {axis} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.ndim:
        return reshape(self, (1,)).narrow(0, 0, size)
    shape, strides = [*self.shape], [*strides_of(self)]
    count = (length - size) // step + 1
    new_shape, new_strides = [*shape, size], [*strides, strides[axis]]
    new_shape[axis], new_strides[axis] = count, strides[axis] * step
    return _strided(self, tuple(new_shape), tuple(new_strides), offset_of(self))


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The view of the storage with these sizes and strides; RuntimeError where it would leave the storage."""
    return _strided(input, tuple(size), tuple(stride), offset_of(input) if storage_offset is None else storage_offset)


def _strided(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """A view by places in the storage of the base, which lie in the order of the base's elements."""
    base = x.base if hasattr(x, "base") else x
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if len(shape) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if offset < 0 or any(stride < 0 for stride in strides):
        raise RuntimeError("as_strided: Negative strides and offsets are not supported")
    if 0 not in shape and last >= base.numel():
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} are out of bounds for "
            f"storage of {base.numel()} elements"
        )

    positions = lambda: storage_positions(shape, strides, offset)
    apply = lambda t: jg.take(jg.reshape(t, (-1,)), positions())
    put = lambda t, new: jg.reshape(
        _set(jg.reshape(t, (-1,)), jg.reshape(positions(), (-1,)), jg.reshape(new, (-1,))), tuple(t.shape)
    )
    is_written = 0 in shape or _distinct(shape, strides)
    view = view_of(base, ViewStep("as_strided", apply, put, repeats=not is_written), (offset, strides))
    if not x.requires_grad and base.requires_grad:
        return detached(view)
    return view


def _set(x: Any, places: Any, new: Any) -> Any:
    result = jg.clone(x)
    jg.Tensor.__setitem__(result, places, new)
    return result


def _distinct(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether all elements of a strided view lie at places of their own, as far as strides nest."""
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def view_as_real(input: Tensor) -> Tensor:
    """A view of complex numbers as pairs of floats."""
    if not input.is_complex():
        raise RuntimeError("view_as_real is only supported for complex tensors")
    apply = lambda x: jg.stack([jg.real(x), jg.imag(x)], axis=-1)
    strides = tuple(2 * stride for stride in strides_of(input))
    return view_of(
        input, ViewStep("view_as_real", apply, view_inverses.of_real_pairs), (2 * offset_of(input), (*strides, 1))
    )


def view_as_complex(input: Tensor) -> Tensor:
    """A view of pairs of floats as complex numbers."""
    if not dtypes.is_float(input._static.type.dtype):
        raise RuntimeError("view_as_complex is only supported for floating point tensors")
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    apply = lambda x: jg.complex(x[..., 0], x[..., 1])
    strides = tuple(stride // 2 for stride in strides_of(input)[:-1])
    return view_of(
        input, ViewStep("view_as_complex", apply, view_inverses.of_complex_numbers), (offset_of(input) // 2, strides)
    )


def numel(input: Tensor) -> Any:
    """The number of elements."""
    return input.numel()
