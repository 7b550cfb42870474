"""Dropout of channels and for SELU networks, as modules."""

from __future__ import annotations

from collections.abc import Callable

from jitgraph.nn.functional import dropouts
from jitgraph.nn.stateless import Dropout
from jitgraph.tensor import Tensor


class _Variant(Dropout):
    """A function of x, ``p`` and whether the module trains."""

    function: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with what was dropped."""
        return type(self).function(input, self.p, self.training, self.inplace)


class Dropout1d(_Variant):
    """``functional.dropout1d`` of x[N, C, L]."""

    function = dropouts.dropout1d


class Dropout2d(_Variant):
    """``functional.dropout2d`` of x[N, C, H, W]."""

    function = dropouts.dropout2d


class Dropout3d(_Variant):
    """``functional.dropout3d`` of x[N, C, D, H, W]."""

    function = dropouts.dropout3d


class AlphaDropout(_Variant):
    """``functional.alpha_dropout`` of x."""

    function = dropouts.alpha_dropout


class FeatureAlphaDropout(_Variant):
    """``functional.feature_alpha_dropout`` of x[N, C, ...]."""

    function = dropouts.feature_alpha_dropout
