"""Pools, those of random windows too, and padding, as modules; what they compute stands in ``functional``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn import functional
from jitgraph.nn.functional import pooling
from jitgraph.nn.functional.arguments import repeated
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor
from jitgraph.tensor.scalars import for_each

# ----------------------------------------------------------------------
# Padding of the last one, two or three axes, as modules.


class _Pad(Module):
    """``padding`` on every side, or (before, after) of the last axis, then of the one before."""

    spatial: int
    mode: str

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        sizes = for_each(padding, 2 * self.spatial)
        if len(sizes) != 2 * self.spatial:
            raise JitgraphError(f"{type(self).__name__}: padding={padding} is neither a number nor {2 * self.spatial}")
        self.padding = sizes

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return functional.pad(input, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Padding with one number."""

    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return functional.pad(input, self.padding, value=self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    """Padding with zeros."""

    mode = "constant"


def _padded(base: type[_Pad], name: str, spatial: int) -> type[_Pad]:
    axes = ("x[..., L]", "x[..., H, W]", "x[..., D, H, W]")[spatial - 1]
    members = {
        "spatial": spatial,
        "__doc__": f"{(base.__doc__ or '').removesuffix('.')}, of {axes}.",
        "__module__": __name__,
    }
    return type(name, (base,), members)


class _ReflectionPad(_Pad):
    """Padding with the elements next to each edge, mirrored."""

    mode = "reflect"


class _ReplicationPad(_Pad):
    """Padding with the elements at the edges."""

    mode = "replicate"


class _CircularPad(_Pad):
    """Padding with the elements at the opposite end."""

    mode = "circular"


ConstantPad1d, ConstantPad2d, ConstantPad3d = (_padded(_ConstantPad, f"ConstantPad{n}d", n) for n in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_padded(_ZeroPad, f"ZeroPad{n}d", n) for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (
    _padded(_ReflectionPad, f"ReflectionPad{n}d", n) for n in (1, 2, 3)
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _padded(_ReplicationPad, f"ReplicationPad{n}d", n) for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (_padded(_CircularPad, f"CircularPad{n}d", n) for n in (1, 2, 3))


# ----------------------------------------------------------------------
# Pools as modules, with PyTorch's parameters; what they compute stands in ``functional``.

Window = int | tuple[int, ...]


class _MaxPool(Module):
    """The greatest element of each window, and with ``return_indices`` its place in the flat spatial axes."""

    function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Window,
        stride: Window | None = None,
        padding: Window = 0,
        dilation: Window = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The maxima, or (maxima, places)."""
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """``functional.max_pool1d`` of x[N, C, L]."""

    function = functional.max_pool1d


class MaxPool2d(_MaxPool):
    """``functional.max_pool2d`` of x[N, C, H, W]."""

    function = functional.max_pool2d


class MaxPool3d(_MaxPool):
    """``functional.max_pool3d`` of x[N, C, D, H, W]."""

    function = functional.max_pool3d


class _AvgPool(Module):
    """The mean of each window, over all its places or those inside x alone."""

    function: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: Window,
        stride: Window | None = None,
        padding: Window = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        settings = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return type(self).function(input, *settings, self.divisor_override)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """``functional.avg_pool1d`` of x[N, C, L]."""

    def __init__(
        self,
        kernel_size: Window,
        stride: Window | None = None,
        padding: Window = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(
            repeated("AvgPool1d", "kernel_size", kernel_size, 1),
            repeated("AvgPool1d", "stride", kernel_size if stride is None else stride, 1),
            repeated("AvgPool1d", "padding", padding, 1),
            ceil_mode,
            count_include_pad,
        )

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        settings = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return functional.avg_pool1d(input, *settings)


class AvgPool2d(_AvgPool):
    """``functional.avg_pool2d`` of x[N, C, H, W]."""

    function = functional.avg_pool2d


class AvgPool3d(_AvgPool):
    """``functional.avg_pool3d`` of x[N, C, D, H, W]."""

    function = functional.avg_pool3d


class _LPPool(Module):
    """(sum of x^p)^(1 / p) of each window."""

    function: Callable[..., Tensor]

    def __init__(
        self, norm_type: float, kernel_size: Window, stride: Window | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The power means."""
        return type(self).function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """``functional.lp_pool1d`` of x[N, C, L]."""

    function = functional.lp_pool1d


class LPPool2d(_LPPool):
    """``functional.lp_pool2d`` of x[N, C, H, W]."""

    function = functional.lp_pool2d


class LPPool3d(_LPPool):
    """``functional.lp_pool3d`` of x[N, C, D, H, W]."""

    function = functional.lp_pool3d


class _MaxUnpool(Module):
    """Zeros with the maxima of a pool put back to their places."""

    function: Callable[..., Tensor]

    def __init__(self, kernel_size: Window, stride: Window | None = None, padding: Window = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The spread input; ``output_size`` where the pool did not use all elements."""
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """``functional.max_unpool1d`` of x[N, C, L]."""

    function = functional.max_unpool1d


class MaxUnpool2d(_MaxUnpool):
    """``functional.max_unpool2d`` of x[N, C, H, W]."""

    function = functional.max_unpool2d


class MaxUnpool3d(_MaxUnpool):
    """``functional.max_unpool3d`` of x[N, C, D, H, W]."""

    function = functional.max_unpool3d


class _AdaptiveAvgPool(Module):
    """Means of windows that make a result of ``output_size``; None keeps an axis."""

    function: Callable[..., Tensor]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """``functional.adaptive_avg_pool1d`` of x[N, C, L]."""

    function = functional.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """``functional.adaptive_avg_pool2d`` of x[N, C, H, W]."""

    function = functional.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """``functional.adaptive_avg_pool3d`` of x[N, C, D, H, W]."""

    function = functional.adaptive_avg_pool3d


class _AdaptiveMaxPool(Module):
    """Maxima of windows that make a result of ``output_size``; None keeps an axis."""

    function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """The maxima, or (maxima, places)."""
        return type(self).function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """``functional.adaptive_max_pool1d`` of x[N, C, L]."""

    function = functional.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """``functional.adaptive_max_pool2d`` of x[N, C, H, W]."""

    function = functional.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """``functional.adaptive_max_pool3d`` of x[N, C, D, H, W]."""

    function = functional.adaptive_max_pool3d


# ----------------------------------------------------------------------
# Maxima of randomly placed windows, as modules.


class _FractionalMaxPool(Module):
    """Windows placed anew at each call; ``output_size`` of them, or ``output_ratio`` of each axis."""

    function: Callable[..., Any]
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise JitgraphError(f"{type(self).__name__} takes one of output_size and output_ratio")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        """The maxima, or (maxima, places)."""
        settings = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices)
        return type(self).function(input, *settings, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """``functional.fractional_max_pool2d`` of x[N, C, H, W]."""

    function = pooling.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """``functional.fractional_max_pool3d`` of x[N, C, D, H, W]."""

    function = pooling.fractional_max_pool3d
