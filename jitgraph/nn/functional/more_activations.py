"""Further activations in PyTorch's names, made of elementwise functions; all compute integers in float32."""

from __future__ import annotations

from typing import Any, Final

from jitgraph import random
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.activation import elu, sigmoid, softmax, softplus, tanh
from jitgraph.nn.functional.arguments import axis_or_dim, floats, lowered, written
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import abs, exp, maximum, minimum, where
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.method import axis_of
from jitgraph.tensor.functions.reductions import argmax
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike

_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946


def _float(input: TensorLike) -> Tensor:
    return wrap(floats(input)[0])


def selu(input: TensorLike, inplace: bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the fixed point's constants (Klambauer et al. 2017)."""
    return written(input, elu(input, _SELU_ALPHA) * _SELU_SCALE, inplace)


def celu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1)) (Barron 2017); ``alpha`` is not 0."""
    if alpha == 0:
        raise JitgraphError("celu: alpha=0 divides by zero\n  hint: jg.nn.functional.relu(x)")
    x = _float(input)
    if alpha < 0:
        return written(input, _celu_of_negative(x, alpha), inplace)
    return written(input, where(x > 0, x, elu(where(x > 0, 0.0, x) / alpha, 1.0) * alpha), inplace)


def _celu_of_negative(x: Tensor, alpha: float) -> Tensor:
    bent = (exp(minimum(x / alpha, 700.0)) - 1.0) * alpha
    return maximum(x, 0.0) + minimum(bent, 0.0)


def mish(input: TensorLike, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019)."""
    x = _float(input)
    return written(input, x * tanh(softplus(x)), inplace)


def hardsigmoid(input: TensorLike, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6; the gradient is 0 at both bends."""
    x = _float(input)
    inside = (x > -3) & (x < 3)
    return written(input, where(inside, x / 6 + 0.5, where(x >= 3, 1.0, where(x <= -3, 0.0, x))), inplace)


def hardswish(input: TensorLike, inplace: bool = False) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)."""
    x = _float(input)
    bent = where((x > -3) & (x < 3), x, 0.0)  # without what overflows, whose gradient would be NaN
    return written(input, where(x <= -3, 0.0, where(x >= 3, x, where(x == x, bent * (bent + 3) / 6, x))), inplace)


def hardshrink(input: TensorLike, lambd: float = 0.5) -> Tensor:
    """x where |x| > ``lambd``, else 0; NaN stays."""
    x = _float(input)
    return where((x >= -lambd) & (x <= lambd), 0.0, x)


def softshrink(input: TensorLike, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by ``lambd``, and 0 where it would pass it; JitgraphError for a negative ``lambd``."""
    if lambd < 0:
        raise JitgraphError(f"softshrink: lambd={lambd} is negative")
    x = _float(input)
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0.0))


def tanhshrink(input: TensorLike) -> Tensor:
    """x - tanh(x), to full precision where both are nearly the same."""
    x = _float(input)
    near = (x > -1) & (x < 1)
    small = where(near, x, 0.0)
    square = small * small
    rest = square / 19
    for odd in range(17, 2, -2):  # Lambert's continued fraction: tanh(x) = x / (1 + rest)
        rest = square / (odd + rest)
    return where(near, small * (rest / (1 + rest)), x - tanh(where(near, 0.0, x)))


def softsign(input: TensorLike) -> Tensor:
    """x / (1 + |x|)."""
    x = _float(input)
    return x / (1 + abs(x))


def threshold(input: TensorLike, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is greater than ``threshold`` or NaN, else ``value``."""
    x = _float(input)
    return written(input, where(x <= threshold, float(value), x), inplace)


def prelu(input: TensorLike, weight: TensorLike) -> Tensor:
    """x, or ``weight * x`` where x is not positive: one weight, or one for each channel on axis 1 (He et al. 2015)."""
    operand, slope = floats(input, weight)
    count = slope.shape[0] if slope.shape else 1
    if len(slope.shape) > 1:
        raise ShapeError(f"prelu takes a weight of rank 0 or 1, not {slope.type}")
    if count != 1 and (len(operand.shape) < 2 or not context.constraints().same(operand.shape[1], count)):
        raise ShapeError(f"prelu with {count} weights takes x[N, {count}, ...], not {operand.type}")
    shape = (count, *(1,) * (len(operand.shape) - 2)) if count != 1 else ()
    x, w = lowered(wrap(operand)), reshape(lowered(wrap(slope)), shape)
    return where(x > 0, x, w * x)


def rrelu(
    input: TensorLike,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """x, or a slope times x where x is negative: random between the bounds while training, else their mean."""
    if lower > upper:
        raise JitgraphError(f"rrelu: lower={lower} is greater than upper={upper}")
    x = _float(input)
    if not training:
        return written(input, where(x >= 0, x, x * ((lower + upper) / 2)), inplace)
    with placement.beside(x.value):
        drawn = random.uniform(x.shape, lower, upper, dtype=x.dtype, generator=generator)
    return written(input, where(x >= 0, x, x * drawn), inplace)


@axis_or_dim
def glu(input: TensorLike, dim: int = -1) -> Tensor:
    """The first half of x along ``dim`` times the sigmoid of the second (Dauphin et al. 2017)."""
    x = _float(input)
    axis = axis_of(dim, x.ndim, "glu")
    size = x.value.type.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(f"glu along the named size {size}", hint="name the other axes alone")
    if size % 2:
        raise ShapeError(f"glu: axis {dim} of {x.value.type} has an odd size")
    half = size // 2
    first = tuple(slice(half) if i == axis else slice(None) for i in range(x.ndim))
    second = tuple(slice(half, None) if i == axis else slice(None) for i in range(x.ndim))
    left: Tensor = x[first]
    return left * sigmoid(x[second])


@axis_or_dim
def softmin(input: TensorLike, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """softmax(-x) along ``dim``."""
    return softmax(-_float(input), dim, dtype=dtype)


@axis_or_dim
def gumbel_softmax(
    logits: TensorLike,
    tau: float = 1.0,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """A sample of the Gumbel-softmax distribution (Jang et al. 2017); ``hard`` gives one-hot with the soft gradient.

    ``eps`` changes nothing, as in PyTorch: no logarithm of 0 is taken.
    """
    x = _float(logits)
    noise = random.gumbel(x.shape, dtype=x.dtype, generator=generator)
    soft = softmax((x + noise) / tau, dim)
    if not hard:
        return soft
    last = moveaxis(soft, dim, -1)
    indices = argmax(last, -1, keepdims=True)
    kinds = wrap(lifting.positions_along(last.value.type.shape, last.ndim - 1, last.value))
    firm: Tensor = moveaxis((kinds == indices).astype(x.dtype), -1, dim)
    return firm - soft.detach() + soft


__all__ = [
    "celu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "mish",
    "prelu",
    "rrelu",
    "selu",
    "softmin",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]
