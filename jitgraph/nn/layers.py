"""Linear layers. Names, keys, layouts and defaults as PyTorch."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.nn import functional, init
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros


def uniform_bias(size: int, fan_in: int) -> Parameter:
    """A bias as PyTorch begins it: uniform between +-1 / sqrt(fan_in)."""
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    bias = Parameter(zeros(size))
    init.uniform_(bias, -bound, bound)
    return bias


class Linear(Module):
    """``x @ weight.T + bias``: [..., in_features] to [..., out_features]; weight [out_features, in_features]."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(zeros((out_features, in_features)))
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = uniform_bias(out_features, in_features) if bias else None
        self.to(device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """The affine map of the last axis."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
