"""``torch.nn.utils.fusion``: batch norms folded into the layer before them."""

from __future__ import annotations

from typing import Any

from jitgraph.nn.utils import fusion
from jitgraph.torch.nn.parameter import adopt


def _adopted(result: Any) -> Any:
    for parameter in result:
        adopt(parameter)
    return result


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A new convolution that equals ``conv`` followed by ``bn``; ``transpose`` for a transposed one."""
    return fusion.fuse_conv_bn_eval(conv, bn, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A new linear layer that equals ``linear`` followed by ``bn``, for [N, C]."""
    return fusion.fuse_linear_bn_eval(linear, bn)


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> Any:
    """Weight and bias of the one convolution that equals a convolution followed by a batch norm."""
    return _adopted(fusion.fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose))


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> Any:
    """Weight and bias of the one linear layer that equals a linear layer followed by a batch norm."""
    return _adopted(fusion.fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b))
