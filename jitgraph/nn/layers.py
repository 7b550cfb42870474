"""Linear layers. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.nn import functional, init
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros


def begin_affine(weight: Tensor, bias: Tensor | None) -> None:
    """Weight and bias as PyTorch begins those of linear layers and convolutions.

    Both are uniform between +-1 / sqrt(fan_in), as kaiming's bound is for a = sqrt(5).
    """
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.fans(weight)
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """``x @ weight.T + bias``: [..., in_features] to [..., out_features]; weight [out_features, in_features]."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((out_features, in_features)))
        self.bias = Parameter(zeros(out_features)) if bias else None
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform between +-1 / sqrt(in_features)."""
        begin_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The affine map of the last axis."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
