"""Functions whose parameters, or shapes that they take, are other than those of jitgraph's."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph.ir import context
from jitgraph.nn import functional
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import operands


def _along(function: Callable[..., Any], x: Any, dim: int | None, dtype: Any) -> Any:
    """A function along ``dim``, or without one the axis that old code means, with a warning; a number is a vector."""
    name = function.__name__
    if dtype is not None and isinstance(x, jg.Tensor):
        x = operands.cast(x, dtype)  # of complex numbers the real parts
    if dim is not None:
        if x.ndim or dim not in (0, -1):
            return function(x, dim, dtype=dtype)
        return jg.reshape(function(jg.reshape(x, (1,)), 0, dtype=dtype), ())
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=4,
    )
    return _along(function, x, 0 if x.ndim in (0, 1, 3) else 1, dtype)


@torch_function
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along ``dim``."""
    return _along(functional.softmax, input, dim, dtype)


@torch_function
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(-x) along ``dim``."""
    return _along(functional.softmin, input, dim, dtype)


@torch_function
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log(softmax(x)) along ``dim``."""
    return _along(functional.log_softmax, input, dim, dtype)


normalize = with_out(functional.normalize)
avg_pool2d, avg_pool3d = with_out(functional.avg_pool2d), with_out(functional.avg_pool3d)
gelu, hardshrink = with_out(functional.gelu), with_out(functional.hardshrink)
linear, logsigmoid = with_out(functional.linear), with_out(functional.logsigmoid)
softplus, softshrink = with_out(functional.softplus), with_out(functional.softshrink)
native_channel_shuffle = torch_function(functional.channel_shuffle)


def _of_one_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A convolution, whose operands have one dtype unless ``autocast`` casts them."""

    @functools.wraps(function)
    def call(input: Any, weight: Any, bias: Any = None, *args: Any, **keywords: Any) -> Any:
        if context.current().autocast is None:
            for name, other in (("weight", weight), ("bias", bias)):
                if isinstance(other, jg.Tensor) and isinstance(input, jg.Tensor) and other.dtype != input.dtype:
                    raise RuntimeError(f"Input type ({input.dtype}) and {name} type ({other.dtype}) should be the same")
        return function(input, weight, bias, *args, **keywords)

    return torch_function(call)


conv1d, conv2d, conv3d = map(_of_one_dtype, (functional.conv1d, functional.conv2d, functional.conv3d))
conv_transpose1d, conv_transpose2d = map(_of_one_dtype, (functional.conv_transpose1d, functional.conv_transpose2d))
conv_transpose3d = _of_one_dtype(functional.conv_transpose3d)


def _dropout(function: Callable[..., Any], trains: bool) -> Callable[..., Any]:
    """A dropout, which gives its input itself where it drops nothing."""
    compute = torch_function(function)

    @functools.wraps(function)
    def call(input: Any, p: float = 0.5, training: bool = trains, inplace: bool = False, **keywords: Any) -> Any:
        if 0 <= p <= 1 and (p == 0 or not training) and isinstance(input, jg.Tensor):
            return input
        return compute(input, p, training, inplace, **keywords)

    return call


dropout = _dropout(functional.dropout, True)
dropout1d, dropout2d = _dropout(functional.dropout1d, True), _dropout(functional.dropout2d, True)
dropout3d = _dropout(functional.dropout3d, True)
alpha_dropout = _dropout(functional.alpha_dropout, False)
feature_alpha_dropout = _dropout(functional.feature_alpha_dropout, False)


@torch_function
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """The places from which ``grid_sample`` takes elements for an affine map."""
    return functional.affine_grid(theta, tuple(size), bool(align_corners))


@torch_function
def linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *, options: Any = None, **settings: Any) -> Any:
    """``cross_entropy`` of ``linear(input, linear_weight)``; ``options`` chooses among PyTorch's implementations."""
    return functional.linear_cross_entropy(input, linear_weight, target, **settings)


def _of_broadcast(function: Callable[..., Any], warns: bool) -> Callable[..., Any]:
    """A loss whose input and target are broadcast to one shape, where jitgraph refuses to."""

    @functools.wraps(function)
    def call(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if tuple(input.shape) != tuple(target.shape):
            if warns:
                warnings.warn(
                    f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This "
                    "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                    stacklevel=3,
                )
            input, target = jg.broadcast_arrays(input, target)
        return function(input, target, *args, **kwargs)

    return torch_function(call)


mse_loss = _of_broadcast(functional.mse_loss, True)
l1_loss = _of_broadcast(functional.l1_loss, True)
smooth_l1_loss = _of_broadcast(functional.smooth_l1_loss, True)
huber_loss = _of_broadcast(functional.huber_loss, True)
kl_div = _of_broadcast(functional.kl_div, False)
poisson_nll_loss = _of_broadcast(functional.poisson_nll_loss, False)
soft_margin_loss = _of_broadcast(functional.soft_margin_loss, False)
hinge_embedding_loss = _of_broadcast(functional.hinge_embedding_loss, False)
