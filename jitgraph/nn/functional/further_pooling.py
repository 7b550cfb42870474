"""Power means of windows, and maxima put back to where they stood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.nn.functional import general_pooling as general
from jitgraph.tensor import Tensor
from jitgraph.tensor.lifting import TensorLike


def lp_pool1d(
    input: TensorLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^p)^(1 / p) of each window of x[N, C, L]."""
    return general.lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: TensorLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^p)^(1 / p) of each window of x[N, C, H, W]."""
    return general.lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: TensorLike, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x^p)^(1 / p) of each window of x[N, C, D, H, W]."""
    return general.lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


def max_unpool1d(
    input: TensorLike,
    indices: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of x[N, C, L] at ``indices``, as ``max_pool1d`` gave them."""
    return general.max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: TensorLike,
    indices: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of x[N, C, H, W] at ``indices``, as ``max_pool2d`` gave them."""
    return general.max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: TensorLike,
    indices: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of x[N, C, D, H, W] at ``indices``, as ``max_pool3d`` gave them."""
    return general.max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)
