"""Activations and dropout. With ``inplace`` the tensor that is given has the result's value from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import dtypes, ops, random
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError
from jitgraph.nn.functional.arguments import axis_or_dim, floats, written
from jitgraph.tensor import Tensor, elementwise, lifting, wrap
from jitgraph.tensor.functions import elementwise as pointwise
from jitgraph.tensor.functions import reductions
from jitgraph.tensor.lifting import TensorLike


def relu(input: TensorLike, inplace: bool = False) -> Tensor:
    """max(x, 0); the gradient at 0 is 0."""
    return written(input, elementwise(ops.relu, input), inplace)


def relu6(input: TensorLike, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return written(input, hardtanh(input, 0.0, 6.0), inplace)


def hardtanh(input: TensorLike, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x held between ``min_val`` and ``max_val``; the gradient at both is 0, as in PyTorch."""
    x = wrap(floats(input)[0])
    clipped = pointwise.clip(x.detach(), min_val, max_val)
    return written(input, pointwise.where((x > min_val) & (x < max_val), x, clipped), inplace)


def sigmoid(input: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)), without overflow."""
    return elementwise(ops.sigmoid, input, floating=True)


def logsigmoid(input: TensorLike) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return elementwise(ops.log_sigmoid, input, floating=True)


def tanh(input: TensorLike) -> Tensor:
    """Hyperbolic tangent."""
    return elementwise(ops.tanh, input, floating=True)


def silu(input: TensorLike, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return written(input, elementwise(ops.silu, input, floating=True), inplace)


def gelu(input: TensorLike, approximate: str = "none") -> Tensor:
    """x * Phi(x), Phi the normal distribution function; ``approximate="tanh"`` for the cheaper formula."""
    if approximate not in ("none", "tanh"):
        raise JitgraphError(f"gelu: approximate={approximate!r} is neither 'none' nor 'tanh'")
    return wrap(ops.gelu(floats(input)[0], approximate=approximate))


def leaky_relu(input: TensorLike, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where it is positive, else ``negative_slope * x``."""
    return written(input, wrap(ops.leaky_relu(floats(input)[0], negative_slope=float(negative_slope))), inplace)


def elu(input: TensorLike, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where it is positive, else ``alpha * (exp(x) - 1)``."""
    return written(input, wrap(ops.elu(floats(input)[0], alpha=float(alpha))), inplace)


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
