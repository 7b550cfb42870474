"""Activations and dropout, of whole channels too, in PyTorch's names; activations compute integers in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops, random
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, OptionError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.arguments import axis_or_dim, floats, lowered, written
from jitgraph.tensor import Tensor, elementwise, lifting, wrap
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.functions import elementwise as pointwise
from jitgraph.tensor.functions import reductions
from jitgraph.tensor.functions.elementwise import abs, exp, maximum, minimum, where
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.method import axis_of
from jitgraph.tensor.functions.reductions import argmax
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step

# ----------------------------------------------------------------------
# Activations and dropout, in PyTorch's names; activations compute integers in float32.
#
# With ``inplace``, or by a name that ends in ``_``, the input has the result's value from then on.


def _direct(op: str, *, floating: bool = True) -> Any:
    """The elementwise op of this name."""
    return direct_call(lambda x: elementwise(getattr(ops, op), x, floating=floating), 1)


def _logistic(op: Any, of_complex: Callable[[Any], Any]) -> Any:
    """The elementwise op, which is defined for real numbers, and its formula for complex ones."""

    def compute(x: TensorLike) -> Any:
        value = lifting.value_of(x)
        return of_complex(wrap(value)) if dtypes.is_complex(value.dtype) else elementwise(op, x, floating=True)

    return direct_call(compute, 1)


_relu = _direct("relu", floating=False)
_log_sigmoid, _tanh = map(_direct, ("log_sigmoid", "tanh"))
_sigmoid = _logistic(ops.sigmoid, lambda z: 1 / (1 + exp(-z)))
_silu = _logistic(ops.silu, lambda z: z / (1 + exp(-z)))


def relu(input: TensorLike, inplace: bool = False) -> Tensor:
    """max(x, 0); the gradient at 0 is 0."""
    return written(input, _relu(input), inplace)


@one_step
def relu6(input: TensorLike, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return written(input, hardtanh(input, 0.0, 6.0), inplace)


@one_step
def hardtanh(input: TensorLike, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x held between ``min_val`` and ``max_val``; the gradient at both is 0, as in PyTorch."""
    if min_val > max_val:
        raise OptionError(f"hardtanh: min_val={min_val} is greater than max_val={max_val}")
    x = wrap(floats(input)[0])
    clipped = pointwise.clip(x.detach(), min_val, max_val)
    return written(input, pointwise.where((x > min_val) & (x < max_val), x, clipped), inplace)


def sigmoid(input: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)), without overflow."""
    return _sigmoid(input)  # type: ignore[no-any-return]


def logsigmoid(input: TensorLike) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return _log_sigmoid(input)  # type: ignore[no-any-return]


def tanh(input: TensorLike) -> Tensor:
    """Hyperbolic tangent."""
    return _tanh(input)  # type: ignore[no-any-return]


def silu(input: TensorLike, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return written(input, _silu(input), inplace)


def gelu(input: TensorLike, approximate: str = "none") -> Tensor:
    """x * Phi(x), Phi the normal distribution function; ``approximate="tanh"`` for the cheaper formula."""
    if approximate not in ("none", "tanh"):
        raise JitgraphError(f"gelu: approximate={approximate!r} is neither 'none' nor 'tanh'")
    return _gelus[approximate](input)  # type: ignore[no-any-return]


_gelus = DirectCalls(lambda form: direct_call(lambda x: wrap(ops.gelu(floats(x)[0], approximate=form)), 1))


def leaky_relu(input: TensorLike, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else ``negative_slope * x``."""
    return written(input, _leaky_relu(input, negative_slope), inplace)


_leaky_relu = direct_call(lambda x, slope: wrap(ops.leaky_relu(floats(x)[0], negative_slope=float(slope))), 2)


def elu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else ``alpha * (exp(x) - 1)``."""
    return written(input, _elu(input, alpha), inplace)


_elu = direct_call(lambda x, alpha: wrap(ops.elu(floats(x)[0], alpha=float(alpha))), 2)


@one_step
def softplus(input: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, without overflow; x itself where beta * x is greater than ``threshold``.

    Of thresholds from 20 on the function is computed: the two are the same number in float32.
    """
    x = wrap(floats(input)[0])
    bent = elementwise(ops.softplus, x) if beta == 1 else elementwise(ops.softplus, x * beta) / beta
    return bent if threshold >= 20 else pointwise.where(x * beta > threshold, x, bent)


def _along(
    function: Callable[[Tensor, int], Tensor], name: str, input: TensorLike, dim: int | None, dtype: Any
) -> Tensor:
    value = floats(input)[0]
    if dtype is not None:
        value = lifting.cast(value, dtypes.canonical(dtype))
    if dim is None:
        raise JitgraphError(f"{name}: along which axis?\n  hint: pass dim=-1 for the last one")
    return function(wrap(value), dim)


@axis_or_dim
def softmax(input: TensorLike, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``, without overflow; computed in ``dtype`` where it is given."""
    return _along(reductions.softmax, "softmax", input, dim, dtype)


@axis_or_dim
def log_softmax(input: TensorLike, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """log(softmax(x)) along ``dim``, without overflow; computed in ``dtype`` where it is given."""
    return _along(reductions.log_softmax, "log_softmax", input, dim, dtype)


def dropout(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """While training each element zero with probability ``p``, the others divided by 1 - p; else x."""
    if not 0.0 <= p <= 1.0:
        raise JitgraphError(f"dropout: p={p} is not a probability")
    value = floats(input)[0]
    if not training or p == 0.0:
        return written(input, wrap(value), inplace)
    key = random.next_key(value.shape, dtypes.float32, generator=generator)
    with placement.beside(value):  # the key comes from the CPU
        return written(input, wrap(ops.dropout(value, key, p=float(p))), inplace)


_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946


def _float(input: TensorLike) -> Tensor:
    return wrap(floats(input)[0])


def selu(input: TensorLike, inplace: bool = False) -> Tensor:
    """``scale * elu(x, alpha)`` with the fixed point's constants (Klambauer et al. 2017)."""
    return written(input, elu(input, _SELU_ALPHA) * _SELU_SCALE, inplace)


@one_step
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


@one_step
def hardsigmoid(input: TensorLike, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6; the gradient is 0 at both bends."""
    x = _float(input)
    inside = (x > -3) & (x < 3)
    return written(input, where(inside, x / 6 + 0.5, where(x >= 3, 1.0, where(x <= -3, 0.0, x))), inplace)


@one_step
def hardswish(input: TensorLike, inplace: bool = False) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)."""
    x = _float(input)
    bent = where((x > -3) & (x < 3), x, 0.0)  # without what overflows, whose gradient would be NaN
    return written(input, where(x <= -3, 0.0, where(x >= 3, x, where(x == x, bent * (bent + 3) / 6, x))), inplace)


@one_step
def hardshrink(input: TensorLike, lambd: float = 0.5) -> Tensor:
    """x where |x| > ``lambd``, else 0; NaN stays."""
    x = _float(input)
    return where((x >= -lambd) & (x <= lambd), 0.0, x)


@one_step
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


@one_step
def threshold(input: TensorLike, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is greater than ``threshold`` or NaN, else ``value``."""
    return _above(input, threshold, value, inplace)


def _above(input: TensorLike, threshold: float, value: float, inplace: bool) -> Tensor:
    x = _float(input)
    return written(input, where(x <= threshold, float(value), x), inplace)


@one_step
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
@one_step
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


# --- written into their input ---------------------------------------------------------------------------------------


def relu_(input: Tensor) -> Tensor:
    """max(x, 0), written into ``input``."""
    return relu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where it is positive, else ``negative_slope * x``, written into ``input``."""
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else ``alpha * (exp(x) - 1)``, written into ``input``."""
    return elu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x held between ``min_val`` and ``max_val``, written into ``input``."""
    return hardtanh(input, min_val, max_val, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """As ``selu``, written into ``input``."""
    return selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """As ``celu``, written into ``input``."""
    return celu(input, alpha, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where it is greater than ``threshold``, else ``value``, written into ``input``."""
    return _above(input, threshold, value, inplace=True)


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """As ``rrelu``, written into ``input``."""
    return rrelu(input, lower, upper, training, inplace=True, generator=generator)


# ----------------------------------------------------------------------
# Dropout of whole channels, and the form that keeps mean and variance of SELU networks.

_SATURATED: Final = -1.7580993408473766  # -scale * alpha of SELU


def _ones_like(x: Tensor, shape: tuple[Any, ...]) -> Tensor:
    with placement.beside(x.value):
        return wrap(lifting.repeated(1.0, x.dtype, shape))


def _by_channels(
    name: str, spatial: int, input: TensorLike, p: float, training: bool, generator: random.Generator | None
) -> Tensor:
    x = wrap(floats(input)[0])
    if x.ndim not in (spatial + 1, spatial + 2):
        raise ShapeError(f"{name} takes x of {spatial + 1} or {spatial + 2} axes, not {x.value.type}")
    channels = (*x.value.type.shape[: x.ndim - spatial], *(1,) * spatial)
    if not training or p == 0.0:
        return dropout(x, p, False)
    return x * dropout(_ones_like(x, channels), p, True, generator=generator)


def dropout1d(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Dropout of whole channels of x[N, C, L] or x[C, L] (Tompson et al. 2015)."""
    return written(input, _by_channels("dropout1d", 1, input, p, training, generator), inplace)


def dropout2d(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Dropout of whole channels of x[N, C, H, W] or x[C, H, W] (Tompson et al. 2015)."""
    return written(input, _by_channels("dropout2d", 2, input, p, training, generator), inplace)


def dropout3d(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Dropout of whole channels of x[N, C, D, H, W] or x[C, D, H, W] (Tompson et al. 2015)."""
    return written(input, _by_channels("dropout3d", 3, input, p, training, generator), inplace)


def _alpha(x: Tensor, shape: tuple[Any, ...], p: float, training: bool, generator: random.Generator | None) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise JitgraphError(f"alpha_dropout: p={p} is not a probability")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    mask = dropout(_ones_like(x, shape), p, True, generator=generator) > 0
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _SATURATED**2))
    result: Tensor = where(mask, x, _SATURATED) * scale - scale * _SATURATED * p
    return result


def alpha_dropout(
    input: TensorLike,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """While training elements become SELU's limit with probability ``p``, and all are scaled and shifted.

    Mean 0 and variance 1 are kept (Klambauer et al. 2017).
    """
    x = wrap(floats(input)[0])
    return written(input, _alpha(x, x.value.type.shape, p, training, generator), inplace)


def feature_alpha_dropout(
    input: TensorLike,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """``alpha_dropout`` of whole channels of x[N, C, ...]."""
    x = wrap(floats(input)[0])
    if training and x.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout takes x[N, C, ...], not {x.value.type}")
    return written(input, _alpha(x, (*x.value.type.shape[:2], *(1,) * (x.ndim - 2)), p, training, generator), inplace)
