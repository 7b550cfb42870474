"""Operators that move elements, or say again what a tensor is: shapes, joins, slices, orders of axes, copies."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands

# ----------------------------------------------------------------------
# Copies, dtypes.


def alias(self):
    return self


alias_copy = alias
lift = alias
lift_fresh = alias
lift_fresh_copy = alias


def detach(self):
    return self.detach()


detach_copy = detach


def clone(self, *, memory_format=None):
    return fn.positive(self) if not operands.is_bool(self) else self


def contiguous(self, *, memory_format=None):
    return self


def copy(self, src, non_blocking=False):
    return fn.broadcast_to(fn.astype(src, self.dtype), self.shape)


def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    return operands.cast(self, dtype)


def to_dtype(self, dtype, non_blocking=False, copy=False, memory_format=None):
    return operands.cast(self, dtype)


def to_dtype_layout(
    self,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    non_blocking=False,
    copy=False,
    memory_format=None,
):
    return operands.cast(self, dtype)


def to_device(self, device, dtype, non_blocking=False, copy=False, memory_format=None):
    return operands.cast(self, dtype)


def to_other(self, other, non_blocking=False, copy=False, memory_format=None):
    return fn.astype(self, other.dtype)


def type_as(self, other):
    return fn.astype(self, other.dtype)


def view_dtype(self, dtype):
    return fn.view(self, dtype)


# ----------------------------------------------------------------------
# Shapes.


def view(self, size):
    return fn.reshape(self, tuple(size))


view_copy = view
view_copy_dtype = view_dtype
_unsafe_view = view
_reshape_copy = view


def reshape(self, shape):
    return fn.reshape(self, tuple(shape))


def view_as(self, other):
    return fn.reshape(self, other.shape)


reshape_as = view_as


def expand(self, size, *, implicit=False):
    lead = len(size) - self.ndim
    own = (None,) * lead + tuple(self.shape)
    return fn.broadcast_to(
        self, tuple(have if operands.is_minus_one(want) else want for want, have in zip(size, own, strict=True))
    )


def expand_as(self, other):
    return fn.broadcast_to(self, other.shape)


def broadcast_to(self, size):
    return expand(self, size)


def broadcast_tensors(tensors):
    return fn.broadcast_arrays(*tensors)


def flatten(self, start_dim=0, end_dim=-1):
    return fn.flatten(self, start_dim, end_dim)


def ravel(self):
    return fn.ravel(self)


def unflatten(self, dim, sizes):
    return fn.unflatten(self, dim, tuple(sizes))


def squeeze_default(self):
    return fn.squeeze(self, tuple(axis for axis, size in enumerate(self.shape) if size == 1))


def squeeze(self, dim):
    dims = (dim,) if isinstance(dim, int) else dim
    axes = {axis % max(self.ndim, 1) for axis in dims}
    return fn.squeeze(self, tuple(axis for axis in sorted(axes) if self.ndim and self.shape[axis] == 1))


def unsqueeze(self, dim):
    return fn.expand_dims(self, dim)


def permute(self, dims):
    return fn.permute_dims(self, tuple(dims))


def transpose(self, dim0, dim1):
    return fn.swapaxes(self, dim0, dim1) if self.ndim else self


def swapaxes(self, axis0, axis1):
    return transpose(self, axis0, axis1)


swapdims = transpose


def t(self):
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self if self.ndim < 2 else fn.swapaxes(self, 0, 1)


def numpy_T(self):
    return fn.permute_dims(self, tuple(reversed(range(self.ndim))))


def mT(self):
    return fn.matrix_transpose(self)


def adjoint(self):
    return fn.conj(fn.matrix_transpose(self))


def movedim(self, source, destination):
    return fn.moveaxis(self, source, destination)


moveaxis = movedim


def atleast_1d(self):
    return fn.atleast_1d(self)


def atleast_1d_Sequence(tensors):
    return [fn.atleast_1d(tensor) for tensor in tensors]


def atleast_2d(self):
    return fn.atleast_2d(self)


def atleast_2d_Sequence(tensors):
    return [fn.atleast_2d(tensor) for tensor in tensors]


def atleast_3d(self):
    return fn.atleast_3d(self)


def atleast_3d_Sequence(tensors):
    return [fn.atleast_3d(tensor) for tensor in tensors]


permute_copy, expand_copy, transpose_copy, t_copy = permute, expand, transpose, t
squeeze_copy, squeeze_copy_default, unsqueeze_copy = squeeze, squeeze_default, unsqueeze

# ----------------------------------------------------------------------
# Joins and splits.


def cat(tensors, dim=0):
    present = [tensor for tensor in tensors if not (tensor.ndim == 1 and operands.is_empty(tensor))]
    return fn.concat(present or tensors, dim)


concat = cat
concatenate = cat


def stack(tensors, dim=0):
    return fn.stack(tensors, dim)


def hstack(tensors):
    return fn.hstack(tensors)


def vstack(tensors):
    return fn.vstack(tensors)


def dstack(tensors):
    return fn.dstack(tensors)


def column_stack(tensors):
    return fn.column_stack(tensors)


def block_diag(tensors):
    return fn.block_diag(*tensors)


def split(self, split_size, dim=0):
    return fn.split(self, split_size, dim)


def split_sizes(self, split_size, dim=0):
    return fn.split(self, list(split_size), dim)


def split_with_sizes(self, split_sizes, dim=0):
    return fn.split(self, list(split_sizes), dim)


split_default = split_with_sizes
split_copy = split
split_with_sizes_copy = split_with_sizes
unsafe_split = split
unsafe_split_with_sizes = split_with_sizes


def chunk(self, chunks, dim=0):
    return fn.chunk(self, chunks, dim)


unsafe_chunk = chunk


def tensor_split_sections(self, sections, dim=0):
    return fn.tensor_split(self, sections, dim)


def tensor_split_indices(self, indices, dim=0):
    return fn.tensor_split(self, indices, dim)


def unbind(self, dim=0):
    return list(fn.unstack(self, dim))


unbind_copy = unbind


def repeat(self, repeats):
    return fn.tile(self, tuple(repeats))


def tile(self, dims):
    return fn.tile(self, tuple(dims))


def repeat_interleave_self_int(self, repeats, dim=None, *, output_size=None):
    return fn.repeat(self, repeats, dim)


def repeat_interleave_self_Tensor(self, repeats, dim=None, *, output_size=None):
    return fn.repeat(self, repeats, dim, size=output_size)


def repeat_interleave_Tensor(repeats, *, output_size=None):
    return fn.repeat(fn.arange(repeats.shape[0]), repeats, 0, size=output_size)


def meshgrid(tensors, *, indexing="ij"):
    return fn.meshgrid(*tensors, indexing=indexing)


def cartesian_prod(tensors):
    return fn.cartesian_prod(*tensors)


def combinations(self, r=2, with_replacement=False):
    return fn.combinations(self, r, with_replacement)


# ----------------------------------------------------------------------
# Slices, diagonals, orders of elements, padding.


def slice(self, dim=0, start=None, end=None, step=1):
    return self[operands.along(self, dim, operands.bounds(start, end, step))]


slice_copy = slice


def select(self, dim, index):
    return self[operands.along(self, dim, index)]


select_copy = select


def narrow(self, dim, start, length):
    return fn.narrow(self, dim, start, length)


narrow_copy = narrow


def select_scatter(self, src, dim, index):
    return fn.select_scatter(self, src, dim, index)


def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    limits = operands.bounds(start, end, step)
    return fn.slice_scatter(self, src, dim, limits.start, limits.stop, limits.step)


def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    return fn.diagonal_scatter(self, src, offset, dim1, dim2)


def flip(self, dims):
    return fn.flip(self, tuple(dims))


def fliplr(self):
    return fn.fliplr(self)


def flipud(self):
    return fn.flipud(self)


def roll(self, shifts, dims=()):
    return fn.roll(self, shifts, operands.axes(dims))


def rot90(self, k=1, dims=(0, 1)):
    return fn.rot90(self, k, dims)


def diag(self, diagonal=0):
    return fn.diag(self, diagonal)


def diagonal(self, offset=0, dim1=0, dim2=1):
    return fn.diagonal(self, offset, dim1, dim2)


diagonal_copy = diagonal


def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    return fn.diagonal(A, offset, dim1, dim2)


def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    return fn.diag_embed(self, offset, dim1, dim2)


def diagflat(self, offset=0):
    return fn.diagflat(self, offset)


def tril(self, diagonal=0):
    return fn.tril(self, diagonal)


def triu(self, diagonal=0):
    return fn.triu(self, diagonal)


def unfold(self, dimension, size, step):
    return fn.unfold(self, dimension, size, step) if self.ndim else fn.reshape(self, (1,))


unfold_copy = unfold


def constant_pad_nd(self, pad, value=0):
    return functional.pad(self, tuple(pad), value=int(value) if operands.is_integral(self) else value)


def pad(self, pad, mode="constant", value=None):
    return functional.pad(self, tuple(pad), mode, value)


def _pad_circular(self, pad):
    return functional.pad(self, tuple(pad), "circular")


def reflection_pad1d(self, padding):
    return functional.pad(self, tuple(padding), "reflect")


reflection_pad2d = reflection_pad1d
reflection_pad3d = reflection_pad1d


def replication_pad1d(self, padding):
    return functional.pad(self, tuple(padding), "replicate")


replication_pad2d = replication_pad1d
replication_pad3d = replication_pad1d


def pixel_shuffle(self, upscale_factor):
    return functional.pixel_shuffle(self, upscale_factor)


def pixel_unshuffle(self, downscale_factor):
    return functional.pixel_unshuffle(self, downscale_factor)


def channel_shuffle(self, groups):
    return functional.channel_shuffle(self, groups)


def im2col(self, kernel_size, dilation, padding, stride):
    return functional.unfold(self, kernel_size, dilation, padding, stride)


def col2im(self, output_size, kernel_size, dilation, padding, stride):
    return functional.fold(self, output_size, kernel_size, dilation, padding, stride)


# ----------------------------------------------------------------------
# More joins, parts and forms.


def hsplit_int(self, sections):
    return fn.hsplit(self, sections)


def hsplit_array(self, indices):
    return fn.hsplit(self, indices)


def vsplit_int(self, sections):
    return fn.vsplit(self, sections)


def vsplit_array(self, indices):
    return fn.vsplit(self, indices)


def dsplit_int(self, sections):
    return fn.dsplit(self, sections)


def dsplit_array(self, indices):
    return fn.dsplit(self, indices)


def row_stack(tensors):
    return fn.vstack(tensors)


def _stack(tensors, dim=0):
    return fn.stack(tensors, dim)


def mH(self):
    return fn.conj(fn.matrix_transpose(self))


def matrix_H(self):
    return mH(self)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    longest = max(sequence.shape[0] for sequence in sequences)
    rows = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        ends = (0, missing) if padding_side == "right" else (missing, 0)
        rows.append(functional.pad(sequence, (0, 0) * (sequence.ndim - 1) + ends, value=padding_value))
    return fn.stack(rows, 0 if batch_first else 1)


def as_strided(self, size, stride, storage_offset=None):
    return operands.strided(self, size, stride, storage_offset or 0)


as_strided_copy = as_strided


def native_channel_shuffle(self, groups):
    return functional.channel_shuffle(self, groups)


def unflatten_dense_tensors(flat, tensors):
    sizes = [tensor.size for tensor in tensors]
    return [fn.reshape(part, tensor.shape) for part, tensor in zip(fn.split(flat, sizes), tensors, strict=True)]


def flatten_dense_tensors(tensors):
    return fn.concat([fn.ravel(tensor) for tensor in tensors])
