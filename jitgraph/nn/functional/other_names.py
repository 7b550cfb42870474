"""What PyTorch has under other, mostly older names: upsampling, pools with indices, a product with its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.errors import ShapeError
from jitgraph.nn.functional import pooling
from jitgraph.nn.functional.classification_losses import cross_entropy
from jitgraph.nn.functional.interpolation import interpolate
from jitgraph.nn.functional.layers import conv1d, linear
from jitgraph.nn.functional.pooling import max_pool1d, max_pool2d, max_pool3d
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike

Size = int | Sequence[int] | None


def upsample(
    input: TensorLike,
    size: Size = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """``interpolate`` by its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: TensorLike, size: Size = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` in the mode "nearest"."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: TensorLike, size: Size = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` in the mode "bilinear", between the centres of the corner elements."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def max_pool1d_with_indices(input: TensorLike, kernel_size: Any, *settings: Any, **kwargs: Any) -> Any:
    """``max_pool1d`` with ``return_indices``: the greatest elements and their places."""
    return max_pool1d(input, kernel_size, *settings, **{**kwargs, "return_indices": True})


def max_pool2d_with_indices(input: TensorLike, kernel_size: Any, *settings: Any, **kwargs: Any) -> Any:
    """``max_pool2d`` with ``return_indices``: the greatest elements and their places."""
    return max_pool2d(input, kernel_size, *settings, **{**kwargs, "return_indices": True})


def max_pool3d_with_indices(input: TensorLike, kernel_size: Any, *settings: Any, **kwargs: Any) -> Any:
    """``max_pool3d`` with ``return_indices``: the greatest elements and their places."""
    return max_pool3d(input, kernel_size, *settings, **{**kwargs, "return_indices": True})


def adaptive_max_pool1d_with_indices(input: TensorLike, output_size: Any) -> Any:
    """``adaptive_max_pool1d`` with ``return_indices``."""
    return pooling.adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: TensorLike, output_size: Any) -> Any:
    """``adaptive_max_pool2d`` with ``return_indices``."""
    return pooling.adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: TensorLike, output_size: Any) -> Any:
    """``adaptive_max_pool3d`` with ``return_indices``."""
    return pooling.adaptive_max_pool3d(input, output_size, True)


def fractional_max_pool2d_with_indices(input: TensorLike, kernel_size: Any, *settings: Any, **kwargs: Any) -> Any:
    """``fractional_max_pool2d`` with ``return_indices``."""
    return pooling.fractional_max_pool2d(input, kernel_size, *settings, **{**kwargs, "return_indices": True})


def fractional_max_pool3d_with_indices(input: TensorLike, kernel_size: Any, *settings: Any, **kwargs: Any) -> Any:
    """``fractional_max_pool3d`` with ``return_indices``."""
    return pooling.fractional_max_pool3d(input, kernel_size, *settings, **{**kwargs, "return_indices": True})


def conv_tbc(input: TensorLike, weight: TensorLike, bias: TensorLike, pad: int = 0) -> Tensor:
    """``conv1d`` of input[T, N, C] by weight[k, C, out], with ``pad`` zeros at both ends, as [T', N, out]."""
    x, w = (wrap(lifting.value_of(operand)) for operand in (input, weight))
    convolved = conv1d(x.permute_dims((1, 2, 0)), w.permute_dims((2, 1, 0)), bias, padding=pad)
    return moveaxis(convolved, 2, 0)


def linear_cross_entropy(
    input: TensorLike,
    linear_weight: TensorLike,
    target: TensorLike,
    *,
    linear_bias: TensorLike | None = None,
    weight: TensorLike | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """``cross_entropy`` of ``linear(input, linear_weight, linear_bias)``; ``ignore_index`` None is -100.

    A weight [C, *out, in] and a bias [C, *out] of more axes give scores [N, C, *out].
    """
    table = wrap(lifting.value_of(linear_weight))
    if table.ndim > 2:
        if lifting.value_of(input).type.ndim < 2:
            raise ShapeError(f"linear_cross_entropy with a weight {table.value.type} takes a batch of inputs [N, in]")
        bias = None if linear_bias is None else reshape(wrap(lifting.value_of(linear_bias)), (-1,))
        flat = linear(input, reshape(table, (-1, table.shape[-1])), bias)
        logits = reshape(flat, (*flat.shape[:-1], *table.shape[:-1]))
    else:
        logits = linear(input, linear_weight, linear_bias)
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
