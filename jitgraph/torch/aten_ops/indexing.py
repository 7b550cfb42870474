"""Operators that read and write by indices and masks."""

from __future__ import annotations

from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands


def index_Tensor(self, indices):
    return self[operands.subscript(indices)]


_unsafe_index = index_Tensor


@operands.with_bools
def index_put(self, indices, values, accumulate=False):
    if accumulate:
        return fn.index_put(self, operands.full_indices(self, indices), values, True)
    result = fn.clone(self)
    result[operands.subscript(indices)] = values
    return result


_unsafe_index_put = index_put


def _index_put_impl(self, indices, values, accumulate=False, unsafe=False):
    return index_put(self, indices, values, accumulate)


@operands.with_an_axis
def index_select(self, dim, index):
    return fn.index_select(self, dim, index)


@operands.with_bools
@operands.with_an_axis
def index_add(self, dim, index, source, *, alpha=1):
    places, values = operands.vectors(index, source)
    return fn.index_add(self, dim, places, values, alpha=operands.wrapped(alpha, self.dtype))


@operands.with_an_axis
def index_copy(self, dim, index, source):
    return fn.index_copy(self, dim, *operands.vectors(index, source))


@operands.with_an_axis
def index_fill(self, dim, index, value):
    return fn.index_fill(self, dim, index, value)


@operands.with_an_axis
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    places, values = operands.vectors(index, source)
    return fn.index_reduce(self, dim, places, values, reduce, include_self=include_self)


def gather(self, dim, index, *, sparse_grad=False):
    return fn.gather(self, dim, index)


def take_along_dim(self, indices, dim=None):
    if dim is None:
        return fn.take(fn.ravel(self), fn.ravel(indices))
    axis = dim % self.ndim
    shape = list(fn.broadcast_shapes(operands.without(self.shape, axis), operands.without(indices.shape, axis)))
    values = fn.broadcast_to(self, (*shape[:axis], self.shape[axis], *shape[axis:]))
    return fn.take_along_axis(
        values, fn.broadcast_to(indices, (*shape[:axis], indices.shape[axis], *shape[axis:])), axis
    )


def take(self, index):
    return fn.take(fn.ravel(self), index)


@operands.with_bools
def put(self, index, source, accumulate=False):
    return fn.put(self, index, source, accumulate)


def scatter(self, dim, index, src):
    return fn.scatter(self, dim, index, src)


def scatter_value(self, dim, index, value):
    return fn.scatter(self, dim, index, value)


@operands.with_bools
def scatter_reduce(self, dim, index, src, *, reduce):
    return fn.scatter_reduce(self, dim, index, src, operands.REDUCTION_NAMES[reduce])


@operands.with_bools
def scatter_value_reduce(self, dim, index, value, *, reduce):
    source = fn.full(index.shape, value, dtype=self.dtype)
    return fn.scatter_reduce(self, dim, index, source, operands.REDUCTION_NAMES[reduce])


@operands.with_bools
def scatter_add(self, dim, index, src):
    operands.require_dtype("scatter_add", self, src)
    return fn.scatter_add(self, dim, index, src)


@operands.with_bools
def scatter_reduce_two(self, dim, index, src, reduce, *, include_self=True):
    return fn.scatter_reduce(self, dim, index, src, reduce, include_self=include_self)


def masked_select(self, mask):
    return fn.masked_select(self, mask)


def masked_scatter(self, mask, source):
    values, chosen = fn.broadcast_arrays(self, mask)
    return fn.masked_scatter(values, chosen, source)


def nonzero(self):
    if not self.ndim:
        return fn.zeros((int(operands.number(fn.not_equal(self, 0))), 0), dtype=operands.index_dtype(False))
    return fn.stack(list(fn.nonzero(self)), axis=1)


def nonzero_static(self, *, size, fill_value=-1):
    return fn.stack(list(fn.nonzero(self, size=size, fill_value=fill_value)), axis=1)


argwhere = nonzero


def nonzero_numpy(self):
    return list(fn.nonzero(self))


def searchsorted(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    side = side or ("right" if right else "left")
    if sorted_sequence.ndim == 1:
        positions = fn.searchsorted(sorted_sequence, self, side=side, sorter=sorter)
    else:
        rows = sorted_sequence if sorter is None else fn.take_along_axis(sorted_sequence, sorter, -1)
        before = fn.less_equal if side == "right" else fn.less
        positions = fn.sum(before(fn.expand_dims(rows, -2), fn.expand_dims(self, -1)), -1)
    return fn.astype(positions, operands.index_dtype(out_int32))


def bucketize(self, boundaries, *, out_int32=False, right=False):
    return fn.astype(fn.bucketize(self, boundaries, right=right), operands.index_dtype(out_int32))


def isin(elements, test_elements, *, assume_unique=False, invert=False):
    return fn.isin(elements, test_elements, invert=invert)


def isin_Tensor_Scalar(elements, test_element, *, assume_unique=False, invert=False):
    return fn.isin(elements, test_element, invert=invert)


def isin_Scalar_Tensor(element, test_elements, *, assume_unique=False, invert=False):
    return fn.isin(element, test_elements, invert=invert)


def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    return fn.unique(self, sorted, True, True)


def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    return fn.unique(self, sorted, True, True, dim)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    return fn.unique_consecutive(self, True, True, dim)


def one_hot(self, num_classes=-1):
    return functional.one_hot(self, num_classes)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    rows = None if padding_idx == -1 else padding_idx
    return functional.embedding(indices, weight, rows, None, 2.0, scale_grad_by_freq)


def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    bags = functional.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    return bags, None, None, None  # the last three serve PyTorch's own backward


def embedding_bag_default(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
):
    return embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset
    )


def _embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    padding = None if padding_idx == -1 else padding_idx
    return embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding
    )


_embedding_bag_forward_only = _embedding_bag
