"""Methods that fill a tensor with random numbers in place."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.torch.functions.draws import bernoulli, integers, normal, rand
from jitgraph.torch.tensors import Tensor
from jitgraph.torch.writing import overwritten


def _float_of(x: Tensor, name: str) -> Any:
    kind = x._static.type.dtype
    if not dtypes.is_inexact(kind):
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind.name}'")
    return kind


def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Any = None, **named: float) -> Tensor:
    """Uniform numbers of [from, to)."""
    low = named.pop("from", from_)
    if low > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
    kind = _float_of(self, "uniform_")
    unit = rand(tuple(self.shape), dtype=self.dtype, generator=generator, device=self.device)
    result = unit if (low, to) == (0, 1) else jg.astype(unit * (to - low) + low, kind)
    return overwritten(self, result)


def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Normal numbers of this mean and standard deviation."""
    _float_of(self, "normal_")
    shape = tuple(self.shape)
    return overwritten(self, normal(mean, std, shape, dtype=self.dtype, generator=generator, device=self.device))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """1 with probability p, a number or a tensor of them, else 0."""
    if isinstance(p, float | int) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    chances = jg.broadcast_to(jg.asarray(p, dtype=None if isinstance(p, jg.Tensor) else jg.float32), tuple(self.shape))
    return overwritten(self, jg.astype(bernoulli(chances, generator=generator), self._static.type.dtype))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Exponentially distributed numbers of this rate."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    kind = _float_of(self, "exponential_")
    return overwritten(self, jg.random.exponential(tuple(self.shape), 1 / lambd, dtype=kind, generator=generator))


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Exponentials of normal numbers of this mean and standard deviation."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    kind = _float_of(self, "log_normal_")
    return overwritten(self, jg.random.lognormal(tuple(self.shape), mean, std, dtype=kind, generator=generator))


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Cauchy-distributed numbers."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    kind = _float_of(self, "cauchy_")
    return overwritten(self, jg.random.cauchy(tuple(self.shape), median, sigma, dtype=kind, generator=generator))


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """How many trials, each of which succeeds with probability p, it takes to the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    drawn = jg.random.geometric(p, tuple(self.shape), generator=generator)
    return overwritten(self, jg.astype(drawn, self._static.type.dtype))


def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Any = None, **named: int
) -> Tensor:
    """Integers of [from, to), of [0, to), or of all that the dtype has exactly."""
    low = named.pop("from", from_)
    if to is None and low is not None and "from" not in named:
        low, to = 0, low
    kind = self._static.type.dtype
    return overwritten(
        self,
        integers(
            low or 0, _end_of(kind) if to is None else to, tuple(self.shape), kind, generator, self._static.device
        ),
    )


def _end_of(dtype: Any) -> int:
    """One past the largest integer up to which a dtype has all."""
    if dtypes.is_bool(dtype):
        return 2
    if dtypes.is_float(dtype):
        return {2: 2**11 + 1, 4: 2**24 + 1, 8: 2**53 + 1}[dtype.itemsize] if dtype != dtypes.bfloat16 else 2**8 + 1
    return int(min(jg.iinfo(dtype).max, 2**63 - 2)) + 1
