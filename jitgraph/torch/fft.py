"""``torch.fft``: PyTorch's names and parameters over ``jg.fft``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import fft as transforms
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.functions.creation import dtype_or_default
from jitgraph.torch.metadata import canonical

Dims = int | tuple[int, ...] | list[int] | None


def _along_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A transform along one axis."""

    def transform(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        return function(input, n, dim, norm)

    return _named(transform, function)


def _along_several(function: Callable[..., Any], dims: Dims = None) -> Callable[..., Any]:
    """A transform along several axes, by default ``dims``, else as many of the last as ``s`` has sizes."""

    def transform(input: Any, s: Dims = None, dim: Dims = dims, norm: str | None = None) -> Any:
        axes: Any = [dim] if isinstance(dim, int) else dim
        sizes: Any = [s] if isinstance(s, int) else s
        if sizes is not None:
            if axes is None:
                axes = range(-len(sizes), 0)
            if len(axes) != len(sizes):
                raise RuntimeError("When given, dim and shape arguments must have the same length")
            sizes = [input.shape[axis] if n == -1 else n for n, axis in zip(sizes, axes, strict=True)]
        if axes is not None and len({axis % max(1, input.ndim) for axis in axes}) != len(axes):
            raise RuntimeError("FFT dims must be unique")
        return function(input, sizes, axes, norm)

    return _named(transform, function)


def _named(transform: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    transform.__name__ = transform.__qualname__ = function.__name__
    transform.__doc__ = function.__doc__
    return with_out(transform)


fft = _along_one(transforms.fft)
ifft = _along_one(transforms.ifft)
rfft = _along_one(transforms.rfft)
irfft = _along_one(transforms.irfft)
hfft = _along_one(transforms.hfft)
ihfft = _along_one(transforms.ihfft)
fft2 = _along_several(transforms.fft2, (-2, -1))
ifft2 = _along_several(transforms.ifft2, (-2, -1))
rfft2 = _along_several(transforms.rfft2, (-2, -1))
irfft2 = _along_several(transforms.irfft2, (-2, -1))
hfft2 = _along_several(transforms.hfft2, (-2, -1))
ihfft2 = _along_several(transforms.ihfft2, (-2, -1))
fftn = _along_several(transforms.fftn)
ifftn = _along_several(transforms.ifftn)
rfftn = _along_several(transforms.rfftn)
irfftn = _along_several(transforms.irfftn)
hfftn = _along_several(transforms.hfftn)
ihfftn = _along_several(transforms.ihfftn)


@with_out
def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """The frequencies of ``fft``'s elements for samples ``d`` apart."""
    kind = dtype_or_default(dtype)
    return transforms.fftfreq(n, d, dtype=kind, device=canonical(device), requires_grad=requires_grad)


@with_out
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """The frequencies of ``rfft``'s elements for samples ``d`` apart."""
    kind = dtype_or_default(dtype)
    return transforms.rfftfreq(n, d, dtype=kind, device=canonical(device), requires_grad=requires_grad)


@torch_function
def fftshift(input: Any, dim: Dims = None) -> Any:
    """The element of frequency 0 moved to the middle of each axis."""
    return transforms.fftshift(input, dim)


@torch_function
def ifftshift(input: Any, dim: Dims = None) -> Any:
    """The inverse of ``fftshift``."""
    return transforms.ifftshift(input, dim)
