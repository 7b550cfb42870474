"""Maxima of randomly placed windows, as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn.functional import fractional_pooling
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor


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

    function = fractional_pooling.fractional_max_pool2d


class FractionalMaxPool3d(_FractionalMaxPool):
    """``functional.fractional_max_pool3d`` of x[N, C, D, H, W]."""

    function = fractional_pooling.fractional_max_pool3d
