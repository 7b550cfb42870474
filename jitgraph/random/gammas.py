"""Gamma numbers, and those that are made of them: beta and Dirichlet.

Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables": candidates are drawn for all
elements until each has one that is accepted, which is so for 95 of 100 at least. A concentration below 1 is raised by 1
and the result multiplied by u ** (1 / concentration); that factor is kept as a logarithm, for it may underflow.
"""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError
from jitgraph.ir import dims
from jitgraph.random.draws import numbers
from jitgraph.random.generator import Generator, step_of, stream_key
from jitgraph.random.parameters import at, parameters_of, require
from jitgraph.random.rejection import accepted
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import full_like, shape_of
from jitgraph.tensor.functions.elementwise import exp, isfinite, log, sigmoid, where
from jitgraph.tensor.functions.manipulation import broadcast_to
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import softmax
from jitgraph.tensor.lifting import TensorLike


def _parts(name: str, concentration: Tensor, generator: Generator | None, device: str | None) -> tuple[Tensor, Tensor]:
    """Gamma numbers as factors: one of a concentration of 1 or more, and the logarithm of the other, at most 0."""
    usable = (concentration > 0) & isfinite(concentration)
    require(usable, f"{name}: every concentration must be positive and finite")
    small = concentration < 1
    raised = where(usable, where(small, concentration + 1, concentration), 1)  # what is refused must end the loop, too
    shape, dtype = concentration.value.shape, concentration.dtype
    words = dims.product(shape) * (6 if dtype == dtypes.float64 else 3)
    step = wrap(at(device, step_of(words)))
    key = wrap(at(device, stream_key(generator)))
    factor = wrap(numbers(ops.exponential, key.value, shape, dtype))
    samples = accepted(ops.gamma_candidate, raised, full_like(raised, -1), key + step, step)
    return samples, where(small, -factor / where(usable, concentration, 1), 0)


@array_function
def gamma(
    concentration: TensorLike,
    shape: Any = None,
    *,
    scale: TensorLike = 1.0,
    dtype: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """Gamma numbers of this concentration (numbers or tensors) times ``scale``, of ``shape`` or that of the parameters.

    ValueError for a concentration that is not positive and finite.
    """
    _, kind, (alpha,), device = parameters_of(shape, dtype, concentration)
    samples, logarithm = _parts("gamma", alpha, generator, device)
    return (samples * exp(logarithm) * scale).astype(kind)  # type: ignore[no-any-return]


@array_function
def beta(
    a: TensorLike, b: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Beta numbers of these two concentrations, in [0, 1]; ValueError for one that is not positive and finite."""
    _, kind, (left, right), device = parameters_of(shape, dtype, a, b)
    logarithms = [log(draw) + power for draw, power in (_parts("beta", x, generator, device) for x in (left, right))]
    return sigmoid(logarithms[0] - logarithms[1]).astype(kind)  # type: ignore[no-any-return]


@array_function
def dirichlet(
    concentration: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Dirichlet numbers: along the last axis, that of ``concentration``, they sum to 1.

    ``shape`` is what stands before that axis, by default what stands there in ``concentration``. ValueError for a
    concentration that is not positive and finite.
    """
    _, kind, (alpha,), device = parameters_of(None, dtype, concentration)
    if not alpha.ndim:
        raise ShapeError("dirichlet: the concentrations stand along an axis; these are 0-d")
    if shape is not None:
        alpha = broadcast_to(alpha, (*shape_of(shape), alpha.shape[-1]))
    samples, power = _parts("dirichlet", alpha, generator, device)
    return softmax(log(samples) + power, axis=-1).astype(kind)  # type: ignore[no-any-return]
