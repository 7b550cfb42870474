"""Convolutions and transposed convolutions as modules. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn import functional
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.functional.windows import padding_by_word
from jitgraph.nn.layers import begin_affine
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros

Window = int | tuple[int, ...]
_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Conv(Module):
    """Cross-correlation: weight [out, in / groups, *kernel]; ``padding`` of zeros, or "same"/"valid"."""

    spatial: int
    transposed = False
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Window,
        stride: Window = 1,
        padding: Window | str = 0,
        dilation: Window = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = repeated(name, "kernel_size", kernel_size, self.spatial)
        _require_groups(name, in_channels, out_channels, groups, self.kernel_size)
        if padding_mode not in _MODES:
            raise JitgraphError(f"{name}: padding_mode={padding_mode!r} is none of {', '.join(_MODES)}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.stride, self.dilation = (
            repeated(name, what, size, self.spatial) for what, size in (("stride", stride), ("dilation", dilation))
        )
        if isinstance(padding, str):
            padding_by_word(name, padding, self.dilation, self.kernel_size)  # an unknown word is refused here
        self.padding: Any = padding if isinstance(padding, str) else repeated(name, "padding", padding, self.spatial)
        self.groups, self.padding_mode, self.output_padding = groups, padding_mode, (0,) * self.spatial
        self.weight = Parameter(zeros((out_channels, in_channels // groups, *self.kernel_size)))
        self.bias = Parameter(zeros(out_channels)) if bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform between +-1 / sqrt(fan_in)."""
        begin_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The convolution of every member of the batch."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = functional.pad(input, self._pads(), mode=_MODES[self.padding_mode]), 0
        return type(self).function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _pads(self) -> list[int]:
        """(before, after) of the last axis, then of the one before."""
        if isinstance(self.padding, str):
            sides = padding_by_word(type(self).__name__, self.padding, self.dilation, self.kernel_size)
        else:
            sides = tuple((size, size) for size in self.padding)
        return [size for side in reversed(sides) for size in side]

    def extra_repr(self) -> str:
        return _shown(self, padding=0, dilation=1)


def _shown(layer: Any, **plain: int) -> str:
    """The settings of a layer as PyTorch shows them; ``plain`` are sizes that are left out where they are as given."""
    text = f"{layer.in_channels}, {layer.out_channels}, kernel_size={layer.kernel_size}, stride={layer.stride}"
    for name, value in plain.items():
        if getattr(layer, name) != (value,) * layer.spatial:
            text += f", {name}={getattr(layer, name)}"
    text += "" if layer.groups == 1 else f", groups={layer.groups}"
    text += "" if layer.bias is not None else ", bias=False"
    return text if layer.padding_mode == "zeros" else f"{text}, padding_mode={layer.padding_mode}"


def _require_groups(name: str, in_channels: int, out_channels: int, groups: int, kernel: tuple[int, ...]) -> None:
    if min(kernel) < 1:
        raise JitgraphError(f"{name}: kernel_size={kernel} should be positive")
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise JitgraphError(
            f"{name}: groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}"
        )


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


class _ConvTranspose(Module):
    """The transposed convolution: weight [in, out / groups, *kernel] (Dumoulin and Visin 2016)."""

    spatial: int
    transposed = True
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Window,
        stride: Window = 1,
        padding: Window = 0,
        output_padding: Window = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Window = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = repeated(name, "kernel_size", kernel_size, self.spatial)
        _require_groups(name, in_channels, out_channels, groups, self.kernel_size)
        if padding_mode != "zeros":
            raise JitgraphError(f"{name}: padding_mode={padding_mode!r} is not 'zeros', the only one")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.stride, self.padding, self.output_padding, self.dilation = (
            repeated(name, what, size, self.spatial)
            for what, size in (
                ("stride", stride),
                ("padding", padding),
                ("output_padding", output_padding),
                ("dilation", dilation),
            )
        )
        self.padding_mode = padding_mode
        self.weight = Parameter(zeros((in_channels, out_channels // groups, *self.kernel_size)))
        self.bias = Parameter(zeros(out_channels)) if bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform between +-1 / sqrt(fan_in)."""
        begin_affine(self.weight, self.bias)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The result; of the sizes that fit the settings ``output_size`` chooses one."""
        more: Any = self.output_padding if output_size is None else self._more(input, output_size)
        settings = (self.stride, self.padding, more, self.groups, self.dilation)
        return type(self).function(input, self.weight, self.bias, *settings)

    def _more(self, x: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output padding that gives the wanted sizes; ShapeError for sizes that no padding gives."""
        name, out_sizes = type(self).__name__, tuple(output_size)[-self.spatial :]
        steps, pads, gaps = self.stride, self.padding, self.dilation
        least = [
            (size - 1) * step - 2 * pad + gap * (kernel - 1) + 1
            for size, step, pad, gap, kernel in zip(
                x.shape[-self.spatial :], steps, pads, gaps, self.kernel_size, strict=True
            )
        ]
        more = tuple(size - low for size, low in zip(out_sizes, least, strict=True))
        if any(not 0 <= extra < step for extra, step in zip(more, steps, strict=True)):
            raise ShapeError(f"{name}: output_size={out_sizes} does not lie from {least} to less than a stride beyond")
        return more

    def extra_repr(self) -> str:
        return _shown(self, padding=0, dilation=1, output_padding=0)


class ConvTranspose1d(_ConvTranspose):
    """``functional.conv_transpose1d`` of x[N, C, L]."""

    spatial = 1
    function = functional.conv_transpose1d


class ConvTranspose2d(_ConvTranspose):
    """``functional.conv_transpose2d`` of x[N, C, H, W]."""

    spatial = 2
    function = functional.conv_transpose2d


class ConvTranspose3d(_ConvTranspose):
    """``functional.conv_transpose3d`` of x[N, C, D, H, W]."""

    spatial = 3
    function = functional.conv_transpose3d
