"""Layers with parameters: linear, convolution, normalisation, embedding. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.functions.creation import ones, zeros
from jitgraph.functions.reductions import mean, var
from jitgraph.nn import functional, init
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor


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


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


class Conv2d(Module):
    """Cross-correlation: x [N, C, H, W], weight [out, in / groups, kh, kw]; ``padding`` of zeros, or "same"/"valid"."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise JitgraphError(f"groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = _pair(kernel_size), stride, padding
        self.dilation, self.groups = dilation, groups
        self.weight = Parameter(zeros((out_channels, in_channels // groups, *self.kernel_size)))
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = _uniform_bias(out_channels, init.fans(self.weight)[0]) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of every image of the batch."""
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"


class _BatchNorm(Module):
    """Each channel (axis 1) normalised by the batch's mean and variance, or by running averages when evaluating."""

    ranks: tuple[int, ...] = ()
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = Parameter(ones(num_features)) if affine else None
        self.bias = Parameter(zeros(num_features)) if affine else None
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features))
            self.register_buffer("running_var", ones(num_features))
            self.register_buffer("num_batches_tracked", zeros((), dtype="int64"))

    def forward(self, x: Tensor) -> Tensor:
        """The normalised x; in training the running averages are updated, with the unbiased variance."""
        if x.ndim not in self.ranks:
            raise ShapeError(f"{type(self).__name__} takes rank {' or '.join(map(str, self.ranks))}, not {x.ndim}")
        if not (self.training or not self.track_running_stats):
            return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        if self.training and self.track_running_stats:
            self._track(x.detach())
        return functional.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)

    def _track(self, x: Tensor) -> None:
        axes = (0, *range(2, x.ndim))
        with no_grad():
            self.num_batches_tracked += 1
            share = 1.0 / self.num_batches_tracked.astype(x.dtype) if self.momentum is None else self.momentum
            self.running_mean += (mean(x, axes) - self.running_mean) * share
            self.running_var += (var(x, axes, correction=1) - self.running_var) * share

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [N, C] or [N, C, L] (Ioffe and Szegedy 2015)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of [N, C, H, W] (Ioffe and Szegedy 2015)."""

    ranks = (4,)


class LayerNorm(Module):
    """The last axes, of sizes ``normalized_shape``, normalised by their own mean and variance (Ba et al. 2016)."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        shape = normalized_shape if isinstance(normalized_shape, tuple) else (normalized_shape,)
        self.normalized_shape, self.eps = shape, eps
        self.weight = Parameter(ones(shape)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape)) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The normalised x, scaled and shifted."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class Embedding(Module):
    """Rows of ``weight`` [num_embeddings, embedding_dim] by number; IndexError for a number out of range."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(zeros((num_embeddings, embedding_dim)))
        init.normal_(self.weight)

    def forward(self, indices: Tensor) -> Tensor:
        """[...] integers to [..., embedding_dim]."""
        return functional.embedding(indices, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
