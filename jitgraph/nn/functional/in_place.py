"""Activations that write into their input: it has the result's value from then on, and is what they give."""

from __future__ import annotations

from jitgraph import random
from jitgraph.nn.functional import activation, more_activations
from jitgraph.tensor import Tensor


def relu_(input: Tensor) -> Tensor:
    """max(x, 0), written into ``input``."""
    return activation.relu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where it is positive, else ``negative_slope * x``, written into ``input``."""
    return activation.leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else ``alpha * (exp(x) - 1)``, written into ``input``."""
    return activation.elu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x held between ``min_val`` and ``max_val``, written into ``input``."""
    return activation.hardtanh(input, min_val, max_val, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """As ``selu``, written into ``input``."""
    return more_activations.selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """As ``celu``, written into ``input``."""
    return more_activations.celu(input, alpha, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where it is greater than ``threshold``, else ``value``, written into ``input``."""
    return more_activations.threshold(input, threshold, value, inplace=True)


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """As ``rrelu``, written into ``input``."""
    return more_activations.rrelu(input, lower, upper, training, inplace=True, generator=generator)


__all__ = ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_"]
