"""Convolutions that learn the number of their input channels from their first call. Names and defaults as PyTorch."""

from __future__ import annotations

from typing import Any

from jitgraph.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Window
from jitgraph.nn.lazy import Lazy


class _LazyConv(Lazy):
    """A convolution that takes ``in_channels`` from its first input."""

    spatial: Any
    groups: Any

    def __init__(
        self,
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
        self._begin(
            out_channels=out_channels, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
            groups=groups, bias=bias, padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip

    def _features(self, shape: tuple[Any, ...]) -> int:
        return self._axis(shape, -1 - self.spatial, (self.spatial + 1, self.spatial + 2))

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        return int(shape[1] * self.groups)


class LazyConv1d(_LazyConv, Conv1d):
    """``Conv1d`` that takes ``in_channels`` from its first input."""

    becomes = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """``Conv2d`` that takes ``in_channels`` from its first input."""

    becomes = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """``Conv3d`` that takes ``in_channels`` from its first input."""

    becomes = Conv3d


class _LazyConvTranspose(_LazyConv):
    """A transposed convolution that takes ``in_channels`` from its first input."""

    def __init__(
        self,
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
        self._begin(
            out_channels=out_channels, kernel_size=kernel_size, stride=stride, padding=padding,
            output_padding=output_padding, groups=groups, bias=bias, dilation=dilation, padding_mode=padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip

    def _features_of_weight(self, shape: tuple[int, ...]) -> int:
        return shape[0]


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """``ConvTranspose1d`` that takes ``in_channels`` from its first input."""

    becomes = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """``ConvTranspose2d`` that takes ``in_channels`` from its first input."""

    becomes = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """``ConvTranspose3d`` that takes ``in_channels`` from its first input."""

    becomes = ConvTranspose3d
