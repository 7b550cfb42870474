"""Operators along axes: sums and their kin, extrema, orders, running sums, softmax."""

from __future__ import annotations

import math

from jitgraph import dtypes, linalg
from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands, pointwise

# ----------------------------------------------------------------------
# Sums, products, moments, norms.


@operands.with_an_axis
def sum(self, dim=None, keepdim=False, *, dtype=None):
    return fn.sum(self, operands.axes(dim), dtype=operands.sum_dtype(self, dtype), keepdims=keepdim)


@operands.with_an_axis
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    return operands.cast(fn.nansum(self, operands.axes(dim), keepdims=keepdim), operands.sum_dtype(self, dtype))


@operands.with_an_axis
def mean(self, dim=None, keepdim=False, *, dtype=None):
    x = operands.cast(self, dtype)
    if not dtypes.is_inexact(x.dtype):
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype.name}"
        )
    return fn.mean(x, operands.axes(dim), keepdims=keepdim)


@operands.with_an_axis
def nanmean(self, dim=None, keepdim=False, *, dtype=None):
    return fn.nanmean(operands.cast(self, dtype), operands.axes(dim), keepdims=keepdim)


def prod_default(self, *, dtype=None):
    return fn.prod(self, dtype=operands.sum_dtype(self, dtype))


@operands.with_an_axis
def prod(self, dim, keepdim=False, *, dtype=None):
    if dtype is not None and dtypes.is_bool(dtypes.canonical(dtype)):
        return fn.all(self, dim, keepdims=keepdim)
    return fn.prod(self, dim, dtype=operands.sum_dtype(self, dtype), keepdims=keepdim)


@operands.with_an_axis
def var(self, dim=None, *, correction=None, keepdim=False):
    return fn.var(self, operands.axes(dim), correction=1 if correction is None else correction, keepdims=keepdim)


def var_default(self, unbiased=True):
    return fn.var(self, correction=int(unbiased))


@operands.with_an_axis
def var_dim(self, dim, unbiased=True, keepdim=False):
    return fn.var(self, operands.axes(dim), correction=int(unbiased), keepdims=keepdim)


@operands.with_an_axis
def std(self, dim=None, *, correction=None, keepdim=False):
    return fn.std(self, operands.axes(dim), correction=1 if correction is None else correction, keepdims=keepdim)


def std_default(self, unbiased=True):
    return fn.std(self, correction=int(unbiased))


@operands.with_an_axis
def std_dim(self, dim, unbiased=True, keepdim=False):
    return fn.std(self, operands.axes(dim), correction=int(unbiased), keepdims=keepdim)


@operands.with_an_axis
def var_mean(self, dim=None, *, correction=None, keepdim=False):
    return fn.var_mean(self, operands.axes(dim), correction=1 if correction is None else correction, keepdims=keepdim)


def var_mean_default(self, unbiased=True):
    return fn.var_mean(self, correction=int(unbiased))


@operands.with_an_axis
def var_mean_dim(self, dim, unbiased=True, keepdim=False):
    return fn.var_mean(self, operands.axes(dim), correction=int(unbiased), keepdims=keepdim)


@operands.with_an_axis
def std_mean(self, dim=None, *, correction=None, keepdim=False):
    return fn.std_mean(self, operands.axes(dim), correction=1 if correction is None else correction, keepdims=keepdim)


def std_mean_default(self, unbiased=True):
    return fn.std_mean(self, correction=int(unbiased))


@operands.with_an_axis
def std_mean_dim(self, dim, unbiased=True, keepdim=False):
    return fn.std_mean(self, operands.axes(dim), correction=int(unbiased), keepdims=keepdim)


@operands.with_an_axis
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    return linalg.vector_norm(operands.cast(self, dtype), axis=operands.axes(dim), keepdims=keepdim, ord=ord)


def linalg_norm(self, ord=None, dim=None, keepdim=False, *, dtype=None):
    return linalg.norm(operands.cast(self, dtype), ord, operands.axes(dim), keepdim)


linalg_norm_ord_str = linalg_norm


def norm_Scalar(self, p=2):
    return linalg.vector_norm(self, ord=p)


@operands.with_an_axis
def norm(self, p, dim=None, keepdim=False, *, dtype=None):
    order = 2 if p is None else p
    return linalg.vector_norm(operands.cast(self, dtype), axis=operands.axes(dim), keepdims=keepdim, ord=order)


def norm_ScalarOpt_dtype(self, p, *, dtype):
    return norm(self, p, dtype=dtype)


@operands.with_an_axis
def logsumexp(self, dim, keepdim=False):
    axes, x = operands.axes(dim), operands.to_inexact(self)
    if not operands.is_complex(x):
        return fn.logsumexp(x, axes, keepdims=keepdim)
    greatest = fn.max(fn.real(x), axes, keepdims=True)
    level = fn.where(fn.isfinite(greatest), greatest, 0)
    total = fn.sum(fn.exp(fn.subtract(x, level)), axes, keepdims=keepdim)
    return fn.add(fn.log(total), level if keepdim else fn.squeeze(level, axes))


special_logsumexp = logsumexp


@operands.with_an_axis
def count_nonzero(self, dim=None):
    return fn.count_nonzero(self, operands.axes(dim))


def trace(self):
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    return operands.cast(linalg.trace(self), operands.sum_dtype(self, None))


def dist(self, other, p=2):
    return fn.dist(self, other, p)


# ----------------------------------------------------------------------
# Truth of all or any elements, extrema, positions.


@operands.with_an_axis
def all(self, dim=None, keepdim=False):
    return operands.truth(self, fn.all(self, operands.axes(dim), keepdims=keepdim))


@operands.with_an_axis
def any(self, dim=None, keepdim=False):
    return operands.truth(self, fn.any(self, operands.axes(dim), keepdims=keepdim))


@operands.with_an_axis
def amax(self, dim=(), keepdim=False):
    operands.require_elements("amax", self, dim)
    return fn.max(self, operands.axes(dim), keepdims=keepdim)


@operands.with_an_axis
def amin(self, dim=(), keepdim=False):
    operands.require_elements("amin", self, dim)
    return fn.min(self, operands.axes(dim), keepdims=keepdim)


@operands.with_an_axis
def aminmax(self, *, dim=None, keepdim=False):
    operands.require_elements("aminmax", self, dim)
    return fn.aminmax(self, dim, keepdims=keepdim)


@operands.with_an_axis
def argmax(self, dim=None, keepdim=False):
    operands.require_elements("argmax", self, dim)
    return fn.argmax(self, dim, keepdims=keepdim)


@operands.with_an_axis
def argmin(self, dim=None, keepdim=False):
    operands.require_elements("argmin", self, dim)
    return fn.argmin(self, dim, keepdims=keepdim)


def max_default(self):
    return fn.max(self)


@operands.with_an_axis
def max_dim(self, dim, keepdim=False):
    operands.require_elements("max", self, dim)
    return operands.at_positions(self, fn.argmax(self, dim, keepdims=True), dim, keepdim)


def max_other(self, other):
    return pointwise.maximum(self, other)


def min_default(self):
    return fn.min(self)


@operands.with_an_axis
def min_dim(self, dim, keepdim=False):
    operands.require_elements("min", self, dim)
    return operands.at_positions(self, fn.argmin(self, dim, keepdims=True), dim, keepdim)


def min_other(self, other):
    return pointwise.minimum(self, other)


def median_default(self):
    return fn.median(self)


@operands.with_an_axis
def median_dim(self, dim, keepdim=False):
    return fn.median(self, dim, keepdims=keepdim)


def nanmedian_default(self):
    return fn.nanmedian(self)


@operands.with_an_axis
def nanmedian_dim(self, dim, keepdim=False):
    return fn.nanmedian(self, dim, keepdims=keepdim)


@operands.with_an_axis
def mode(self, dim=-1, keepdim=False):
    return fn.mode(self, dim, keepdims=keepdim)


@operands.with_an_axis
def kthvalue(self, k, dim=-1, keepdim=False):
    return fn.kthvalue(self, k, dim, keepdims=keepdim)


def quantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
    return fn.quantile(self, q, dim, keepdims=keepdim, interpolation=interpolation)


def nanquantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
    return fn.nanquantile(self, q, dim, keepdims=keepdim, interpolation=interpolation)


def histc(self, bins=100, min=0, max=0):
    return fn.histc(self, bins, min, max)


def bincount(self, weights=None, minlength=0):
    return fn.bincount(self, weights, minlength)


def equal(self, other):
    return fn.array_equal(self, other)


def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return fn.allclose(self, other, rtol, atol, equal_nan)


# ----------------------------------------------------------------------
# Orders.


@operands.with_an_axis
def sort(self, dim=-1, descending=False):
    return operands.at_positions(self, fn.argsort(self, dim, descending=descending), dim, True)


def sort_stable(self, *, stable=None, dim=-1, descending=False):
    return sort(self, dim, descending)


@operands.with_an_axis
def argsort(self, dim=-1, descending=False):
    return fn.argsort(self, dim, descending=descending)


def argsort_stable(self, *, stable, dim=-1, descending=False):
    return argsort(self, dim, descending)


def msort(self):
    return fn.msort(self)


@operands.with_an_axis
def topk(self, k, dim=-1, largest=True, sorted=True):
    return fn.topk(self, k, dim, largest, sorted)


# ----------------------------------------------------------------------
# Running sums, extrema and differences.


@operands.with_an_axis
def cumsum(self, dim, *, dtype=None):
    return fn.cumsum(self, dim, dtype=operands.sum_dtype(self, dtype))


@operands.with_an_axis
def cumprod(self, dim, *, dtype=None):
    return fn.cumprod(self, dim, dtype=operands.sum_dtype(self, dtype))


@operands.with_bools
@operands.with_an_axis
def cummax(self, dim):
    return fn.cummax(self, dim)


@operands.with_bools
@operands.with_an_axis
def cummin(self, dim):
    return fn.cummin(self, dim)


@operands.with_an_axis
def logcumsumexp(self, dim):
    return fn.logcumsumexp(self, dim)


def diff(self, n=1, dim=-1, prepend=None, append=None):
    return fn.diff(self, dim, n, prepend=prepend, append=append) if n else self


def trapezoid_x(y, x, *, dim=-1):
    return fn.trapezoid(y, x, axis=dim)


def trapezoid_dx(y, *, dx=1, dim=-1):
    return fn.trapezoid(y, dx=dx, axis=dim)


def cumulative_trapezoid_x(y, x, *, dim=-1):
    return fn.cumulative_trapezoid(y, x, axis=dim)


def cumulative_trapezoid_dx(y, *, dx=1, dim=-1):
    return fn.cumulative_trapezoid(y, dx=dx, axis=dim)


# ----------------------------------------------------------------------
# Softmax.


@operands.with_an_axis
def softmax(self, dim, dtype=None):
    return fn.softmax(operands.cast(self, dtype), dim)


special_softmax = softmax


@operands.with_an_axis
def _softmax(self, dim, half_to_float):
    return fn.softmax(operands.cast(self, dtypes.float32 if half_to_float else None), dim)


@operands.with_an_axis
def _safe_softmax(self, dim, dtype=None):
    x = operands.cast(self, dtype)
    nothing = fn.all(fn.equal(x, -math.inf), dim, keepdims=True)
    return fn.where(nothing, 0.0, fn.softmax(fn.where(nothing, 0.0, x), dim))


@operands.with_an_axis
def log_softmax(self, dim, dtype=None):
    return fn.log_softmax(operands.cast(self, dtype), dim)


special_log_softmax = log_softmax


@operands.with_an_axis
def _log_softmax(self, dim, half_to_float):
    return fn.log_softmax(operands.cast(self, dtypes.float32 if half_to_float else None), dim)


def glu(self, dim=-1):
    return functional.glu(self, dim)


# ----------------------------------------------------------------------
# Histograms, segments, gradients along axes.


def histogram_bins_tensor(self, bins, *, weight=None, density=False):
    return fn.histogram(self, bins, weight=weight, density=density)


def histogram_bin_ct(self, bins=100, *, range=None, weight=None, density=False):
    limits = None if range is None else tuple(range)
    return fn.histogram(self, bins, range=limits, weight=weight, density=density)


def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    return fn.segment_reduce(data, reduce, lengths=lengths, offsets=offsets, axis=axis, initial=initial)


def _logcumsumexp(self, dim):
    return fn.logcumsumexp(self, dim)


def _aminmax(self):
    return fn.aminmax(self)


def _aminmax_dim(self, dim, keepdim=False):
    return fn.aminmax(self, dim, keepdims=keepdim)
