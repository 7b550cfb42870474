"""Batch norms folded into the layer before them, for inference: one layer with the weights of both."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import ones_like, zeros_like
from jitgraph.tensor.functions.elementwise import sqrt
from jitgraph.tensor.functions.shapes import reshape

Layer = TypeVar("Layer", bound=Module)


def fuse_conv_bn_eval(conv: Layer, bn: Module, transpose: bool = False) -> Layer:
    """A new convolution that equals ``conv`` followed by ``bn``; ``transpose`` for a transposed one.

    JitgraphError unless both are in eval mode and ``bn`` has running statistics.
    """
    return _fused("fuse_conv_bn_eval", conv, bn, transpose)


def fuse_linear_bn_eval(linear: Layer, bn: Module) -> Layer:
    """A new linear layer that equals ``linear`` followed by ``bn``, for [N, C]; errors as of fuse_conv_bn_eval."""
    return _fused("fuse_linear_bn_eval", linear, bn, False)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one convolution that equals a convolution followed by a batch norm.

    Weights are [O, I / groups, ...], or [I, O / groups, ...] under ``transpose``. ShapeError where they do not fit.
    """
    channels, own = int(bn_rm.shape[0]), int(conv_w.shape[int(transpose)])
    groups = channels // own if transpose and own else 1
    if own * groups != channels:
        raise ShapeError(f"a batch norm of {channels} channels does not fit a weight of shape {tuple(conv_w.shape)}")
    rest = (1,) * (conv_w.ndim - 2)
    with no_grad():
        deviation = sqrt(bn_rv + bn_eps)
        scale = (ones_like(bn_rm) if bn_w is None else bn_w) / deviation
        bias = ((zeros_like(bn_rm) if conv_b is None else conv_b) - bn_rm) * scale
        bias = bias if bn_b is None else bias + bn_b
        if not transpose:
            weight = conv_w * reshape(scale, (channels, 1, *rest))
        else:
            inputs = int(conv_w.shape[0])
            parts = reshape(conv_w, (groups, inputs // groups, own, *conv_w.shape[2:]))
            weight = reshape(parts * reshape(scale, (groups, 1, own, *rest)), conv_w.shape)
        bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
        fused = weight.astype(conv_w.dtype), bias.astype(bias_dtype)
    learns = conv_w.requires_grad, conv_b is None or conv_b.requires_grad
    return Parameter(fused[0], learns[0]), Parameter(fused[1], learns[1])


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight [O, I] and bias of the one linear layer that equals a linear layer followed by a batch norm."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(name: str, layer: Layer, norm: Module, transpose: bool) -> Layer:
    bn: Any = norm
    if layer.training or bn.training:
        raise JitgraphError(f"{name}: a batch norm in training has other statistics\n  hint: call model.eval() before")
    if bn.running_mean is None or bn.running_var is None:
        raise JitgraphError(f"{name}: the batch norm has no running statistics\n  hint: track_running_stats=True")
    fused: Any = copy.deepcopy(layer)
    statistics = bn.running_mean, bn.running_var, bn.eps
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, *statistics, bn.weight, bn.bias, transpose
    )
    return fused  # type: ignore[no-any-return]
