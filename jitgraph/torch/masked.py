"""``torch.masked``: reductions and normalisations of the elements that a mask selects.

An element that is not selected counts as the operation's identity; where nothing is selected the identity results.
"""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.torch import functions, linalg
from jitgraph.torch.scalar_types import iinfo, scalar_type

torch: Any = functions
_INF = float("inf")


def _filled(input: Any, mask: Any, identity: Any, dtype: Any = None) -> Any:
    x = input if dtype is None else input.to(dtype)
    if mask is None:
        return x
    return torch.where(torch.broadcast_to(mask, tuple(x.shape)), x, torch.tensor(identity, dtype=x.dtype))


def _axes(dim: Any, x: Any) -> Any:
    """Axes as a list: all of them for None and ()."""
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return list(range(x.ndim))
    return list(dim) if isinstance(dim, tuple | list) else [dim]


def _least(x: Any) -> Any:
    kind = x.dtype.dtype
    limits: Any = iinfo
    return -_INF if dtypes.is_inexact(kind) else False if dtypes.is_bool(kind) else limits(x.dtype).min


def _greatest(x: Any) -> Any:
    kind = x.dtype.dtype
    limits: Any = iinfo
    return _INF if dtypes.is_inexact(kind) else True if dtypes.is_bool(kind) else limits(x.dtype).max


def _exact(input: Any, dtype: Any) -> Any:
    """The dtype in which sums and products are: int64 of integers, unless another one is asked for."""
    if dtype is not None or dtypes.is_inexact(input.dtype.dtype):
        return dtype
    return scalar_type(dtypes.int64)


def _counted(input: Any, mask: Any, dim: Any, keepdim: bool) -> Any:
    ones = torch.ones(tuple(input.shape), dtype=scalar_type(dtypes.int64))
    return torch.sum(_filled(ones, mask, 0), dim=_axes(dim, input), keepdim=keepdim)


def sum(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The sum of the selected elements, 0 of none."""
    return torch.sum(_filled(input, mask, 0, _exact(input, dtype)), dim=_axes(dim, input), keepdim=keepdim)


def prod(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The product of the selected elements, 1 of none."""
    result = _filled(input, mask, 1, _exact(input, dtype))
    for axis in sorted((axis % max(1, input.ndim) for axis in _axes(dim, input)), reverse=True):
        result = torch.prod(result, axis, keepdim)
    return result


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sums along an axis."""
    return torch.cumsum(_filled(input, mask, 0, _exact(input, dtype)), dim)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running products along an axis."""
    return torch.cumprod(_filled(input, mask, 1, _exact(input, dtype)), dim)


def amax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The greatest selected element."""
    return torch.amax(_filled(input, mask, _least(input), dtype), _axes(dim, input), keepdim)


def amin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The least selected element."""
    return torch.amin(_filled(input, mask, _greatest(input), dtype), _axes(dim, input), keepdim)


def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The position of the greatest selected element, in the dtype of the elements as in PyTorch."""
    position = torch.argmax(_filled(input, mask, _least(input), dtype), dim, keepdim)
    return position.to(input.dtype if dtype is None else dtype)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The position of the least selected element, in the dtype of the elements as in PyTorch."""
    position = torch.argmin(_filled(input, mask, _greatest(input), dtype), dim, keepdim)
    return position.to(input.dtype if dtype is None else dtype)


def mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The mean of the selected elements, NaN of none."""
    x = input if dtype is None else input.to(dtype)
    return torch.sum(_filled(x, mask, 0), dim=_axes(dim, x), keepdim=keepdim) / _counted(x, mask, dim, keepdim)


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The median of the selected elements along an axis, NaN of none."""
    return torch.nanmedian(_filled(input, mask, float("nan"), dtype), dim, keepdim).values


def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of the sum of exponentials of the selected elements."""
    return torch.logsumexp(_filled(input, mask, -_INF, dtype), _axes(dim, input), keepdim)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """log(exp(input) + exp(other)) of the elements that each mask selects."""
    return torch.logaddexp(_filled(input, input_mask, -_INF, dtype), _filled(other, other_mask, -_INF, dtype))


def norm(
    input: Any, ord: Any = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The norm of the selected elements."""
    identity = 0 if ord >= 0 else _INF
    return linalg.vector_norm(_filled(input, mask, identity, dtype), ord, _axes(dim, input), keepdim)


def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The variance of the selected elements."""
    lost = (0 if unbiased is False else 1) if correction is None else correction
    x = input if dtype is None else input.to(dtype)
    if not dtypes.is_inexact(x.dtype.dtype):
        x = x.to(scalar_type(dtypes.float32))
    center = mean(x, dim, keepdim=True, mask=mask)
    squares = torch.abs(_filled(x - center, mask, 0)) ** 2
    left = torch.clamp(_counted(x, mask, dim, keepdim) - lost, min=0)
    return torch.sum(squares, dim=_axes(dim, x), keepdim=keepdim) / left


def std(input: Any, dim: Any = None, unbiased: bool | None = None, **form: Any) -> Any:
    """The standard deviation of the selected elements."""
    return torch.sqrt(var(input, dim, unbiased, **form))


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """exp(x) over the sum of the selected ones."""
    return torch.softmax(_filled(input, mask, -_INF, dtype), dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of ``softmax``."""
    return torch.log_softmax(_filled(input, mask, -_INF, dtype), dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """``softmax`` of -x."""
    return torch.softmax(-_filled(input, mask, _INF, dtype), dim)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The elements over the norm of the selected ones along an axis, which is at least ``eps``."""
    denominator = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    x = _filled(input, mask, 0 if ord >= 0 else _INF, dtype)
    return x / torch.maximum(denominator, torch.full_like(denominator, eps))
