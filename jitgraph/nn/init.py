"""Initial values, written into a parameter; the names and formulas are PyTorch's.

Sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming), Saxe et al. 2013 (orthogonal), Martens 2010
(sparse).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph import migration_hints, random
from jitgraph.autograd import no_grad
from jitgraph.dtypes import float64, is_integer
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.elementwise import where

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "fans",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


def _write(tensor: Tensor, new: Tensor) -> Tensor:
    with no_grad():
        tensor._rebind(placement.brought(lifting.cast(new.value, tensor.dtype), tensor.value))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Uniform in [a, b)."""
    return _write(tensor, random.uniform(tensor.shape, a, b, dtype=tensor.dtype, generator=generator))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Normal with the given mean and standard deviation."""
    return _write(tensor, random.normal(tensor.shape, mean, std, dtype=tensor.dtype, generator=generator))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """``val`` everywhere."""
    is_integral = isinstance(val, float) and val.is_integer() and is_integer(tensor.dtype)
    return _write(tensor, wrap(lifting.constant(int(val) if is_integral else val, tensor.dtype, tensor.shape)))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of one unit of a weight ``[out, in, *kernel]``."""
    if tensor.ndim < 2:
        raise ShapeError(f"fan in and out need at least two axes; the shape is {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans  # PyTorch's name, which layers of others read


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity."""
    match nonlinearity:
        case "linear" | "sigmoid" | "conv1d" | "conv2d" | "conv3d":
            return 1.0
        case "tanh":
            return 5.0 / 3.0
        case "relu":
            return math.sqrt(2.0)
        case "leaky_relu":
            return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
        case "selu":
            return 3.0 / 4.0
    raise JitgraphError(f"no gain is known for {nonlinearity!r}")


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / (sum(fans(tensor)) or 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (sum(fans(tensor)) or 1)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise JitgraphError(f"mode {mode!r} is neither 'fan_in' nor 'fan_out'")
    fan = fans(tensor)[0 if mode == "fan_in" else 1]
    gain = calculate_gain(nonlinearity, a)
    return gain / math.sqrt(fan) if fan else 0.0  # a weight of no elements, as of no features, has nothing to draw


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """Uniform in +-sqrt(3) * gain / sqrt(fan)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: random.Generator | None = None,
) -> Tensor:
    """Normal with the given mean and standard deviation, cut off at ``a`` and ``b``."""
    low, high = (a - mean) / std, (b - mean) / std
    drawn = random.truncated_normal(tensor.shape, low, high, dtype=tensor.dtype, generator=generator)
    return _write(tensor, drawn * std + mean)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise ShapeError(f"eye_ takes a matrix; the shape is {tensor.shape}")
    return _write(tensor, asarray(np.eye(*tensor.shape), dtype=tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight [out, in, *kernel] that passes through as many channels of each group as possible."""
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(f"dirac_ takes a weight of 3 to 5 axes; the shape is {tensor.shape}")
    if groups < 1 or tensor.shape[0] % groups:
        raise JitgraphError(f"dirac_: groups={groups} does not divide {tensor.shape[0]} channels")
    each = tensor.shape[0] // groups
    weight = np.zeros(tensor.shape)
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(each, tensor.shape[1])):
            weight[(group * each + channel, channel, *middle)] = 1.0
    return _write(tensor, asarray(weight, dtype=tensor.dtype))


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Orthonormal rows or columns of the tensor as a matrix [size of axis 0, rest], times ``gain``."""
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_ takes two axes or more; the shape is {tensor.shape}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    if rows * columns == 0:
        return tensor
    drawn = np.asarray(random.normal((max(rows, columns), min(rows, columns)), dtype=float64, generator=generator))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # which makes the distribution uniform
    q = q if rows >= columns else q.T
    return _write(tensor, asarray(q.reshape(tensor.shape) * gain, dtype=tensor.dtype))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: random.Generator | None = None) -> Tensor:
    """Normal, with the share ``sparsity`` of each column zero."""
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_ takes a matrix; the shape is {tensor.shape}")
    rows = tensor.shape[0]
    ranks = np.argsort(np.asarray(random.uniform(tensor.shape, generator=generator)), axis=0)
    mask = asarray(ranks >= math.ceil(sparsity * rows))
    drawn = random.normal(tensor.shape, 0.0, std, dtype=tensor.dtype, generator=generator)
    return _write(tensor, where(mask, drawn, 0.0))


def __getattr__(name: str) -> Any:
    hint = migration_hints.of_module(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
