"""Modules that move elements or change sizes, and the bilinear form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgraph.nn import functional, init
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.arrangement import unflatten
from jitgraph.tensor.functions.creation import zeros


class Unflatten(Module):
    """Axis ``dim`` as several axes of the sizes ``unflattened_size``, one of which may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """The unflattened input."""
        return unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Upsample(Module):
    """``functional.interpolate`` of x[N, C, ...] to ``size``, or by ``scale_factor``."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.mode = size, mode
        self.scale_factor: Any = scale_factor
        if scale_factor is not None:
            self.scale_factor = (
                tuple(map(float, scale_factor)) if isinstance(scale_factor, Sequence) else float(scale_factor)
            )
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The resampled input."""
        settings = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return functional.interpolate(input, *settings)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest elements of x[N, C, H, W]."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Bilinear interpolation of x[N, C, H, W] between the centres of its corner elements."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Module):
    """``functional.pixel_shuffle`` of x."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """``input[..., C * r * r, H, W]`` as [..., C, H * r, W * r]."""
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """``functional.pixel_unshuffle`` of x."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """``input[..., C, H * r, W * r]`` as [..., C * r * r, H, W]."""
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """``functional.channel_shuffle`` of x."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """``input[N, C, ...]`` with its channels dealt out."""
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class _Columns(Module):
    """The settings of windows over [H, W]."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def extra_repr(self) -> str:
        settings = (self.kernel_size, self.dilation, self.padding, self.stride)
        return "kernel_size={}, dilation={}, padding={}, stride={}".format(*settings)


class Unfold(_Columns):
    """``functional.unfold`` of x[N, C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """The windows as columns."""
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Columns):
    """``functional.fold`` of columns to x[N, C, *output_size]."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The sums of the windows."""
        settings = (self.kernel_size, self.dilation, self.padding, self.stride)
        return functional.fold(input, self.output_size, *settings)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for each output k; weight [out, in1, in2]."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(zeros((out_features, in1_features, in2_features)))
        self.bias = Parameter(zeros(out_features)) if bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform between +-1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features) if self.in1_features else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """[..., in1] and [..., in2] to [..., out]."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{sizes}, out_features={self.out_features}, bias={self.bias is not None}"
