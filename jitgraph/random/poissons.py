"""Poisson numbers: by the distribution function for rates below 10, by rejection from there.

Sources: Devroye 1986, "Non-uniform random variate generation", X.3.3, sequential search; Hoermann 1993, "The
transformed rejection method for generating Poisson random variables", PTRS.
"""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir import dims
from jitgraph.random.draws import numbers
from jitgraph.random.generator import Generator, step_of, stream_key
from jitgraph.random.parameters import at, parameters_of, require
from jitgraph.random.rejection import accepted
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import exp, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tracing.control.flow import while_loop

_SMALL: Final = 10.0
_MOST: Final = 2.0**62
_LAST: Final = 200.0  # no float64 uniform reaches it for a rate below 10


@array_function
def poisson(rate: TensorLike, shape: Any = None, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of this rate, int64 unless ``dtype`` is given, of ``shape`` or that of ``rate``.

    ValueError for a rate that does not lie between 0 and 2**62.
    """
    sizes, _, (wide,), device = parameters_of(shape, dtypes.float64, rate)
    usable = (wide >= 0) & (wide <= _MOST)
    require(usable, "poisson: every rate must lie between 0 and 2**62")
    key = wrap(at(device, stream_key(generator)))
    unit = wrap(numbers(ops.uniform, key.value, sizes, dtypes.float64))
    begin = key + wrap(at(device, step_of(dims.product(sizes) * 2)))
    small = wide < _SMALL
    counts = where(small, _searched(where(usable & small, wide, 0), unit), -1.0)
    step = wrap(at(device, step_of(dims.product(sizes) * 4)))
    large = where(usable & ~small, wide, _SMALL)
    counts = accepted(ops.poisson_candidate, large, counts, begin, step)
    return counts.astype(dtypes.int64 if dtype is None else dtype)  # type: ignore[no-any-return]


def _searched(rate: Tensor, unit: Tensor) -> Tensor:
    """The least k whose probability to have k or fewer is above ``unit``."""

    def unfinished(state: Any) -> Tensor:
        k, total, _ = state
        return any_of((unit >= total) & (k < _LAST))

    def turn(state: Any) -> Any:
        k, total, probability = state
        more = unit >= total
        k = where(more, k + 1, k)
        probability = where(more, probability * rate / k, probability)
        return k, where(more, total + probability, total), probability

    least = exp(-rate)
    return while_loop(unfinished, turn, (zeros_like(rate), least, least))[0]  # type: ignore[no-any-return]
