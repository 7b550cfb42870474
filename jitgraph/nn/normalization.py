"""Layers that normalise by mean and variance. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn import functional, init
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import ones, zeros
from jitgraph.tensor.lifting import value_of
from jitgraph.tensor.scalars import listed


def begin_scale(weight: Tensor | None, bias: Tensor | None) -> None:
    """A weight of ones and a bias of zeros, of those that are there."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)


class RunningNorm(Module):
    """A norm of each channel (axis 1), with running averages of its mean and variance where it tracks them."""

    running_mean: Any
    """A tensor, or None without ``track_running_stats``, as are the next two."""
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.weight = Parameter(ones(num_features)) if affine else None
        self.bias = Parameter(zeros(num_features)) if affine and bias else None
        self.track_running_stats = track_running_stats
        self.register_buffer("running_mean", zeros(num_features) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype="int64") if track_running_stats else None)
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_running_stats(self) -> None:
        """Begin the running averages anew: a mean of 0 and a variance of 1, of no batches."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        """Begin the weight of ones, the bias of zeros and the running averages anew."""
        self.reset_running_stats()
        begin_scale(self.weight, self.bias)

    def extra_repr(self) -> str:
        text = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"
        return f"{text}, bias={self.bias is not None}, track_running_stats={self.track_running_stats}"


class ChannelNorm(RunningNorm):
    """Each channel (axis 1) normalised by the batch's mean and variance, or by running averages when evaluating."""

    ranks: tuple[int, ...] = ()

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input; in training the running averages are updated, with the unbiased variance."""
        input_type = value_of(input).type
        if input_type.ndim not in self.ranks or not context.constraints().same(input_type.shape[1], self.num_features):
            shapes = " or ".join(f"[N, {self.num_features}{', *' * (rank - 2)}]" for rank in self.ranks)
            raise ShapeError(f"{type(self).__name__}({self.num_features}) takes x {shapes}, not {input_type}")
        if not self.track_running_stats:
            return functional.batch_norm(input, None, None, self.weight, self.bias, True, eps=self.eps)
        share: Any = self.momentum
        if self.training:
            self.num_batches_tracked += 1
            if share is None:  # the plain average over all batches
                share = 1.0 / self.num_batches_tracked.astype(self.running_mean.dtype)
        running = (self.running_mean, self.running_var)
        return functional.batch_norm(input, *running, self.weight, self.bias, self.training, share, self.eps)


class BatchNorm1d(ChannelNorm):
    """Batch normalisation of [N, C] or [N, C, L] (Ioffe and Szegedy 2015)."""

    ranks = (2, 3)


class BatchNorm2d(ChannelNorm):
    """Batch normalisation of [N, C, H, W] (Ioffe and Szegedy 2015)."""

    ranks = (4,)


class LayerNorm(Module):
    """The last axes, of sizes ``normalized_shape``, normalised by their own mean and variance (Ba et al. 2016)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = listed(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = Parameter(ones(shape)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape)) if elementwise_affine and bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Begin the weight of ones and the bias of zeros anew."""
        begin_scale(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input, scaled and shifted."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        return f"{text}, bias={self.bias is not None}"


class GroupNorm(Module):
    """Groups of channels of x [N, C, ...] normalised by their own mean and variance (Wu and He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise JitgraphError(f"num_groups={num_groups} must divide num_channels={num_channels}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter(ones(num_channels)) if affine else None
        self.bias = Parameter(zeros(num_channels)) if affine and bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Begin the weight of ones and the bias of zeros anew."""
        begin_scale(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input, scaled and shifted."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
        return f"{text}, bias={self.bias is not None}"


class RMSNorm(Module):
    """The last axes divided by their root mean square, times weight (Zhang and Sennrich 2019)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = listed(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = Parameter(ones(shape)) if elementwise_affine else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Begin the weight of ones anew."""
        begin_scale(self.weight, None)

    def forward(self, x: Tensor) -> Tensor:
        """The scaled x."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class BatchNorm3d(ChannelNorm):
    """Batch normalisation of [N, C, D, H, W] (Ioffe and Szegedy 2015)."""

    ranks = (5,)


class _InstanceNorm(RunningNorm):
    """Each channel of each member standardised (Ulyanov et al. 2016)."""

    spatial: int
    momentum: float

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """The standardised input; in training the running averages are updated where there are any."""
        input_type = value_of(input).type
        alone = input_type.ndim == self.spatial + 1
        batched: Any = input[None] if alone else input
        fits = input_type.ndim in (self.spatial + 1, self.spatial + 2)
        if not fits or not context.constraints().same(input_type.shape[-self.spatial - 1], self.num_features):
            stars = ", *" * self.spatial
            raise ShapeError(f"{type(self).__name__} takes x [N, {self.num_features}{stars}], not {input_type}")
        running: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.track_running_stats:
            running = self.running_mean, self.running_var
        own = self.training or not self.track_running_stats
        result = functional.instance_norm(batched, *running, self.weight, self.bias, own, self.momentum, self.eps)
        return result[0] if alone else result


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of [N, C, L] or [C, L]."""

    spatial = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of [N, C, H, W] or [C, H, W]."""

    spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of [N, C, D, H, W] or [C, D, H, W]."""

    spatial = 3


class LocalResponseNorm(Module):
    """``functional.local_response_norm`` of x."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """The scaled input."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
