"""Functions that join, repeat and rearrange tensors, and whose Python signatures differ from ATen's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgraph as jg
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import movement
from jitgraph.torch.functions import views
from jitgraph.torch.metadata import Size
from jitgraph.torch.promotion import cast, result_type_of
from jitgraph.torch.tensors import Tensor, adopted


def _listed(tensors: tuple[Any, ...]) -> list[Any]:
    """Tensors that come one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        return list(tensors[0])
    return list(tensors)


def _in_one_dtype(tensors: Sequence[Any], name: str) -> list[Any]:
    """The tensors in their common dtype; TypeError or RuntimeError where there are none."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {_class_of(tensors)}")
    if not tensors:
        raise (ValueError if name == "torch.cat" else RuntimeError)(f"{name}(): expected a non-empty list of Tensors")
    for position, x in enumerate(tensors):
        if not isinstance(x, jg.Tensor):
            raise TypeError(f"expected Tensor as element {position} in argument 0, but got {_class_of(x)}")
    dtype = result_type_of(*tensors)
    return [cast(x, dtype) for x in tensors]


def _class_of(x: Any) -> str:
    return type(x).__name__


@with_out
def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors one behind the other along an axis; empty vectors are left out."""
    return movement.cat(_in_one_dtype(tensors, "torch.cat"), dim)


concat = concatenate = cat


@with_out
def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape along a new axis."""
    return movement.stack(_in_one_dtype(tensors, "stack"), dim)


def _joined(name: str, join: Callable[[Any], Any]) -> Any:
    def function(tensors: Any) -> Any:
        return join(_in_one_dtype(tensors, name))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Tensors side by side along the axis that the name says."
    return with_out(function)


hstack, vstack, dstack = (
    _joined("hstack", movement.hstack),
    _joined("vstack", movement.vstack),
    _joined("dstack", movement.dstack),
)
column_stack, row_stack = _joined("column_stack", movement.column_stack), vstack


@torch_function
def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of one of zeros."""
    return movement.block_diag(_in_one_dtype(_listed(tensors), "block_diag"))


def _of_rank(name: str, make: Callable[[Any], Any]) -> Any:
    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], jg.Tensor):
            return make(tensors[0])
        return tuple(make(x) for x in _listed(tensors))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Tensors as views with at least {name[-2]} axes."
    return function


def _with_axes(x: Tensor, before: int, behind: int) -> Tensor:
    for _ in range(before):
        x = views.unsqueeze(x, 0)
    for _ in range(behind):
        x = views.unsqueeze(x, -1)
    return x


atleast_1d = _of_rank("atleast_1d", lambda x: _with_axes(x, int(x.ndim < 1), 0))
atleast_2d = _of_rank("atleast_2d", lambda x: _with_axes(x, max(2 - x.ndim, 0), 0))
atleast_3d = _of_rank("atleast_3d", lambda x: _with_axes(x, max(2 - x.ndim, 0), int(x.ndim < 3)))


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of tensors in the shape that they have in common."""
    xs = _listed(tensors)
    shape = broadcast_shapes(*(tuple(x.shape) for x in xs))
    return tuple(views.expand(x, shape) for x in xs)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which all are broadcast; RuntimeError where there is none."""
    sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    return Size(jg.broadcast_shapes(*sizes))


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Vectors as views along the axes of a grid; the first two are swapped for "xy"."""
    xs = [views.reshape(x, (-1,)) if not x.ndim else x for x in _listed(tensors)]
    if not xs:
        raise ValueError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(x.ndim > 1 for x in xs):
        raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {xs[0]}")
    if any(x.dtype != xs[0].dtype for x in xs):
        raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(xs) > 1
    if swapped:
        xs[:2] = xs[1::-1]
    shape = tuple(x.shape[0] for x in xs)
    grids = []
    for axis, x in enumerate(xs):
        along = tuple(shape[axis] if other == axis else 1 for other in range(len(xs)))
        grids.append(views.expand(views.view(x, along), shape))
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@torch_function
def cartesian_prod(*tensors: Any) -> Any:
    """All choices of one element of each vector, a row each."""
    vectors = _listed(tensors)
    if any(x.ndim != 1 for x in vectors):
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(next(x.shape for x in vectors if x.ndim != 1))}")
    return movement.cartesian_prod(vectors) if len(vectors) > 1 else views.reshape(vectors[0], (-1,))


def _by_counts(name: str, operator: Callable[..., Any], word: str) -> Any:
    """A function of a tensor and numbers, which come one by one, as one sequence or by name."""

    def function(input: Any, *numbers: Any, **named: Any) -> Any:
        if named.keys() - {word} or bool(numbers) == bool(named):
            raise TypeError(f"{name}() takes a tensor and {word}")
        return operator(input, named[word] if named else views.sizes_of(numbers))

    function.__name__ = function.__qualname__ = name
    return torch_function(function)


def _repeated(x: Any, repeats: Any) -> Any:
    counts = (repeats,) if isinstance(repeats, int) else tuple(repeats)
    if len(counts) < x.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return movement.repeat(x, counts)


repeat = _by_counts("repeat", _repeated, "repeats")
tile = _by_counts("tile", lambda x, dims: movement.tile(x, (dims,) if isinstance(dims, int) else dims), "dims")
flip = _by_counts("flip", lambda x, dims: movement.flip(x, (dims,) if isinstance(dims, int) else dims), "dims")


@torch_function
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """The elements moved along axes, those beyond the end to the beginning; along all as one without ``dims``."""
    counts = shifts if isinstance(shifts, int) else tuple(shifts)
    axes = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not axes and not isinstance(counts, int):
        if len(counts) > 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(counts)}, dims:0")
        counts = counts[0]
    if axes:
        counts = (counts,) if isinstance(counts, int) else counts
        if len(counts) != len(axes):
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(counts)}, dims:{len(axes)}")
    return movement.roll(input, counts, axes)


@torch_function
def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *, output_size: Any = None) -> Any:
    """Each element along an axis so many times; without ``repeats`` the indices that the counts ``input`` choose."""
    if repeats is None:
        return movement.repeat_interleave_Tensor(input, output_size=output_size)
    if isinstance(repeats, jg.Tensor):
        return movement.repeat_interleave_self_Tensor(input, repeats, dim, output_size=output_size)
    return movement.repeat_interleave_self_int(input, repeats, dim, output_size=output_size)


@torch_function
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of r elements of a vector, a row each."""
    return movement.combinations(input, r, with_replacement)


@torch_function
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """The plane of two axes turned by k quarters, from the first axis to the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    return movement.rot90(input, k, tuple(dims))


unsafe_chunk, unsafe_split, unsafe_split_with_sizes = views.chunk, views.split, views.split_with_sizes


@with_out
def view_copy(input: Any, size: Any) -> Any:
    """The elements in another shape, or their bits in another dtype, as a copy."""
    return adopted(jg.clone(views.view(input, *([size] if not isinstance(size, list | tuple) else size))))


def _copied(name: str, view: Callable[..., Any]) -> Any:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return jg.clone(view(input, *args, **kwargs))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As ``{view.__name__}``, as a copy."
    return with_out(function)


squeeze_copy, unfold_copy = _copied("squeeze_copy", views.squeeze), _copied("unfold_copy", views.unfold)


@with_out
def as_strided_copy(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """As ``as_strided``, as a copy."""
    return jg.clone(views.as_strided(input, size, stride, storage_offset))


@with_out
def view_as_real_copy(input: Any) -> Any:
    """Complex numbers as pairs of floats, as a copy."""
    return jg.clone(views.view_as_real(input))


@with_out
def view_as_complex_copy(input: Any) -> Any:
    """Pairs of floats as complex numbers, as a copy."""
    return jg.clone(views.view_as_complex(input))


@torch_function
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A copy of the tensor with new elements where ``as_strided`` finds them."""
    result = views.clone(input)
    views.as_strided(result, size, stride, storage_offset).copy_(src)
    return result


def _letter(index: Any) -> str:
    """The letter of an index of the sublist form, which is a number from 0 to 51."""
    return "..." if index is Ellipsis else chr(ord("A") + index if index < 26 else ord("a") + index - 26)


@with_out
def einsum(equation: Any, *operands_: Any) -> Any:
    """Sums of products of elements that indices name: ``einsum("ij,jk->ik", x, y)``, or in sublist form."""
    if isinstance(equation, str):
        return jg.einsum(equation, *_listed(operands_))
    everything = [equation, *operands_]
    tensors, lists = everything[0 : len(everything) // 2 * 2 : 2], everything[1::2]
    words = [",".join("".join(map(_letter, indices)) for indices in lists)]
    if len(everything) % 2:
        words.append("".join(map(_letter, everything[-1])))
    return jg.einsum("->".join(words), *tensors)


@with_out
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over axes: the last of a and the first of b, or those that two lists name."""
    if isinstance(dims, jg.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return jg.tensordot(a, b, dims)
    first, second = ([x] if isinstance(x, int) else list(x) for x in dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    for one, two in zip(first, second, strict=True):  # an axis of one element meets all of the other's
        if a.shape[one] == 1:
            b = jg.sum(b, axis=two, keepdims=True, dtype=b._static.type.dtype)
        elif b.shape[two] == 1:
            a = jg.sum(a, axis=one, keepdims=True, dtype=a._static.type.dtype)
    return jg.tensordot(a, b, (tuple(first), tuple(second)))


@with_out
def chain_matmul(*matrices: Any) -> Any:
    """The product of matrices in the order of least work."""
    return jg.linalg.multi_dot(list(matrices)) if len(matrices) > 1 else matrices[0]


@torch_function
def unravel_index(indices: Any, shape: Any) -> Any:
    """The coordinates of flat indices in a shape, a tensor for each axis."""
    return tuple(jg.unravel_index(indices, (shape,) if isinstance(shape, int) else tuple(shape)))
