"""Layers with parameters: linear, convolution, embedding. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError
from jitgraph.nn import functional, init
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros


def _uniform_bias(size: int, fan_in: int) -> Parameter:
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    bias = Parameter(zeros(size))
    init.uniform_(bias, -bound, bound)
    return bias


class Linear(Module):
    """``x @ weight.T + bias``: [..., in_features] to [..., out_features]; weight [out_features, in_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((out_features, in_features)))
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = _uniform_bias(out_features, in_features) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The affine map of the last axis."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class _Conv(Module):
    """Cross-correlation: weight [out, in / groups, *kernel]; ``padding`` of zeros, or "same"/"valid"."""

    spatial: int
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise JitgraphError(
                f"groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = repeated(type(self).__name__, "kernel_size", kernel_size, self.spatial)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = Parameter(zeros((out_channels, in_channels // groups, *self.kernel_size)))
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = _uniform_bias(out_channels, init.fans(self.weight)[0]) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of every member of the batch."""
        function = type(self).function
        return function(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"


class Conv1d(_Conv):
    """Cross-correlation of x [N, C, L]: weight [out, in / groups, k]; ``padding`` of zeros or a word."""

    spatial = 1
    function = functional.conv1d


class Conv2d(_Conv):
    """Cross-correlation of x [N, C, H, W]: weight [out, in / groups, kh, kw]; ``padding`` of zeros or a word."""

    spatial = 2
    function = functional.conv2d


class Conv3d(_Conv):
    """Cross-correlation of x [N, C, D, H, W]: weight [out, in / groups, kd, kh, kw]; ``padding`` of zeros or a word."""

    spatial = 3
    function = functional.conv3d


class Embedding(Module):
    """Rows of ``weight`` [num_embeddings, embedding_dim] by number; IndexError for a number out of range.

    Row ``padding_idx`` begins as zeros and gets no gradient.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise JitgraphError(f"padding_idx={padding_idx} is not one of {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = Parameter(zeros((num_embeddings, embedding_dim)))
        init.normal_(self.weight)
        if padding_idx is not None:
            with no_grad():
                self.weight[padding_idx] = 0.0

    def forward(self, indices: Tensor) -> Tensor:
        """[...] integers to [..., embedding_dim]."""
        return functional.embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
