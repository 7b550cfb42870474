"""Normalisation of single members and by neighbouring channels, as modules; BatchNorm over three spatial axes."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional import further_norms
from jitgraph.nn.module import Module
from jitgraph.nn.normalization import ChannelNorm, RunningNorm
from jitgraph.tensor import Tensor
from jitgraph.tensor.lifting import value_of


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
        result = further_norms.instance_norm(batched, *running, self.weight, self.bias, own, self.momentum, self.eps)
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
        return further_norms.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
