"""Functions along axes whose signatures have several forms: sums, moments, extrema, orders, distinct elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.ir import context
from jitgraph.torch import return_types
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import operands, reductions
from jitgraph.torch.layouts import axis_of
from jitgraph.torch.tensors import Tensor

_whole_numbers = range  # which is the name of an argument, too


@with_out
def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product along an axis, or of all elements."""
    return reductions.prod_default(input, dtype=dtype) if dim is None else reductions.prod(
        input, dim, keepdim, dtype=dtype
    )  # fmt: skip


def _moment(name: str, operator: Callable[..., Any]) -> Any:
    """A function with the forms ``f(x, unbiased)``, ``f(x, dim, unbiased, keepdim)``, ``f(x, dim, correction=)``."""

    def function(
        input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if not dtypes.is_inexact(input._static.type.dtype):
            raise RuntimeError(f"{name}: input should be a floating point or complex tensor, not {input.dtype}")
        return operator(input, dim, correction=int(unbiased) if correction is None else correction, keepdim=keepdim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} along axes, divided by the number of elements less ``correction``."
    return with_out(function)


var, std = _moment("var", reductions.var), _moment("std", reductions.std)
var_mean, std_mean = _moment("var_mean", reductions.var_mean), _moment("std_mean", reductions.std_mean)


def _extremum(name: str, whole: Any, along: Any, pairwise: Any, results: Any) -> Any:
    """``f(x)``, ``f(x, dim, keepdim)`` with the positions, and ``f(x, y)`` element by element."""

    def function(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if isinstance(dim, jg.Tensor):
            dim, other = None, dim
        if other is not None:
            return pairwise(input, other)
        if dim is None:
            _require_elements(name, input)
            return whole(input)
        return results(*along(input, dim, keepdim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name}imum of all elements; along an axis with its indices; or of two tensors."
    return with_out(function)


def _require_elements(name: str, x: Any) -> None:
    if operands.is_empty(x):
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )


max = _extremum("max", reductions.max_default, reductions.max_dim, reductions.max_other, return_types.max)
min = _extremum("min", reductions.min_default, reductions.min_dim, reductions.min_other, return_types.min)


@with_out
def aminmax(input: Any, *, dim: Any = None, keepdim: bool = False) -> Any:
    """The least and the greatest elements, of all or along an axis."""
    return return_types.aminmax(*reductions.aminmax(input, dim=dim, keepdim=keepdim))


def _middle(name: str, whole: Any, along: Any, results: Any) -> Any:
    def function(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return whole(input) if dim is None else results(*along(input, dim, keepdim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The median, the lower one of two: of all elements, or along an axis with its indices."
    return with_out(function)


median = _middle("median", reductions.median_default, reductions.median_dim, return_types.median)
nanmedian = _middle("nanmedian", reductions.nanmedian_default, reductions.nanmedian_dim, return_types.nanmedian)


@with_out
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent elements along an axis, the least of several, and an index of each."""
    return return_types.mode(*reductions.mode(input, dim, keepdim))


@with_out
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest elements along an axis, from 1 on, and their indices."""
    return return_types.kthvalue(*reductions.kthvalue(input, k, dim, keepdim))


@with_out
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    """The elements along an axis in order, equal ones as they come, and their indices."""
    return return_types.sort(*reductions.sort(input, dim, descending))


@torch_function
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices that sort a tensor along an axis, equal elements as they come."""
    return reductions.argsort(input, dim, descending)


@with_out
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k greatest or smallest elements along an axis in order, and their indices."""
    size = input.shape[axis_of(dim, input.ndim)] if input.ndim else 1
    if isinstance(k, int) and isinstance(size, int) and not 0 <= k <= size:
        raise RuntimeError(f"selected index k out of range: {k} of {size}")
    return return_types.topk(*reductions.topk(input, k, dim, largest, sorted))


@with_out
def cummax(input: Any, dim: int) -> Any:
    """The greatest elements so far along an axis, and their indices."""
    return return_types.cummax(*reductions.cummax(input, dim))


@with_out
def cummin(input: Any, dim: int) -> Any:
    """The least elements so far along an axis, and their indices."""
    return return_types.cummin(*reductions.cummin(input, dim))


@with_out
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The p-norm of the elements along axes; "fro" is 2, "nuc" the sum of a matrix's singular values."""
    if p == "nuc":
        axes = dim if dim is not None else tuple(range(input.ndim))
        return jg.linalg.norm(operands.cast(input, dtype), "nuc", tuple(axes), keepdim)
    return reductions.norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


def _by_fractions(name: str, operator: Callable[..., Any]) -> Any:
    def function(
        input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
    ) -> Any:
        if not input.ndim:
            input, dim, keepdim = jg.reshape(input, (1,)), None if dim is None else axis_of(dim, 0), False
        return operator(input, q, dim, keepdim, interpolation=interpolation)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name}s along an axis at fractions from 0 to 1, a number or a vector of them."
    return with_out(function)


quantile = _by_fractions("quantile", reductions.quantile)
nanquantile = _by_fractions("nanquantile", reductions.nanquantile)


@with_out
def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """The 2-norm of the elements along axes."""
    return norm(input, 2, dim, keepdim)


@with_out
def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of the singular values of matrices."""
    return norm(input, "nuc", dim, keepdim)


@torch_function
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norms of the slices along an axis, which alone keeps its size; of all elements for -1."""
    if dim == -1:
        return norm(v, pow)
    axis = axis_of(dim, v.ndim)
    return norm(v, pow, [other for other in _whole_numbers(v.ndim) if other != axis], True)


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and elements."""
    return bool(jg.array_equal(input, other))


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements of two tensors are close: ``|x - y| <= atol + rtol * |y|``."""
    return bool(jg.allclose(input, other, rtol, atol, equal_nan))


def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule."""
    if x is not None:
        return _adopted(reductions.trapezoid_x(y, x, dim=dim))
    return _adopted(reductions.trapezoid_dx(y, dx=1 if dx is None else dx, dim=dim))


trapz = trapezoid


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integrals up to each point along an axis by the trapezoidal rule."""
    if x is not None:
        return _adopted(reductions.cumulative_trapezoid_x(y, x, dim=dim))
    return _adopted(reductions.cumulative_trapezoid_dx(y, dx=1 if dx is None else dx, dim=dim))


_adopted = torch_function(lambda result: result)


@torch_function
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """Central differences along axes, one tensor for each."""
    axes = list(_whole_numbers(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    repeated = [axis for axis in axes if axes.count(axis) > 1]
    if repeated:
        raise RuntimeError(f"dim {repeated[0]} appears multiple times in the list of dims")
    steps = list(spacing) if isinstance(spacing, list | tuple) else [1 if spacing is None else spacing] * len(axes)
    if len(steps) != len(axes):
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar or a list of {len(axes)}")
    return tuple(
        jg.gradient(input, step, axis=axis, edge_order=edge_order) for step, axis in zip(steps, axes, strict=True)
    )


def _number_of_one(matrix: Any) -> Any:
    """A matrix of one element as that element."""
    return jg.reshape(matrix, ()) if tuple(matrix.shape) == (1, 1) else matrix


def _require_weights(name: str, kind: str, is_kind: Any, weights: Any, count: Any) -> None:
    """RuntimeError for weights of observations of another kind, count or sign."""
    if weights.ndim > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {weights.ndim}")
    if not is_kind(weights._static.type.dtype):
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {weights.dtype}")
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {count}"
        )
    if context.current().trace is None and bool(jg.any(jg.less(weights, 0))):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@torch_function
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariances of the rows."""
    count = input.shape[-1] if input.ndim else 1
    for name, kind, is_kind, weights in (
        ("fweights", "integral", dtypes.is_integer, fweights),
        ("aweights", "floating point", dtypes.is_float, aweights),
    ):
        if weights is not None:
            _require_weights(name, kind, is_kind, weights, count)
    return _number_of_one(jg.cov(input, correction=correction, fweights=fweights, aweights=aweights))


@torch_function
def corrcoef(input: Any) -> Any:
    """The correlation coefficients of the rows."""
    return _number_of_one(jg.corrcoef(input))


@torch_function
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """Sums, means, extrema or products of segments that lie one behind the other along an axis."""
    return jg.segment_reduce(data, reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial)


@torch_function
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements or slices in ascending order, with the indices that restore the input, and counts."""
    return jg.unique(input, sorted, return_inverse, return_counts, dim)


@torch_function
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The input without what equals the element or slice before it."""
    return jg.unique_consecutive(input, return_inverse, return_counts, dim)


@with_out
def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """How many elements lie in each bin, and the bounds of the bins."""
    counts, edges = jg.histogram(input, bins, range=range, weight=weight, density=density)
    kind = input._static.type.dtype
    return return_types.histogram(jg.astype(counts, kind), jg.astype(edges, kind))


@torch_function
def histogramdd(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """How many rows lie in each box, and the bounds of the boxes."""
    points = jg.reshape(input, (-1, input.shape[-1]))
    weight = weight if weight is None else jg.reshape(weight, (-1,))
    counts, edges = jg.histogramdd(points, bins, range=range, weight=weight, density=density)
    kind = input._static.type.dtype
    return return_types.histogramdd(jg.astype(counts, kind), tuple(jg.astype(edge, kind) for edge in edges))


def is_nonzero(input: Any) -> bool:
    """Whether the one element is not zero."""
    return bool(input)


def sum_to_size(self: Tensor, *size: Any) -> Any:
    """The sum over the axes by which a shape was broadcast to that of this tensor."""
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = self.ndim - len(shape)
    if lead < 0 or any(want not in (1, have) for want, have in zip(shape, self.shape[lead:], strict=True)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    axes = [*_whole_numbers(lead)]
    axes += [lead + axis for axis, want in enumerate(shape) if want == 1 and self.shape[lead + axis] != 1]
    result = reductions.sum(self, tuple(axes), True) if axes or not self.ndim else self
    return _adopted(jg.reshape(result, shape))
