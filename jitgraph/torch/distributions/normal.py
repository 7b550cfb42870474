"""Normal distributions, of numbers and of vectors with independent parts."""

from __future__ import annotations

import math
from typing import Any

import jitgraph as jg
from jitgraph.torch import functions
from jitgraph.torch.distributions.distribution import Distribution, broadcast_all, shape_of

torch: Any = functions

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(Distribution):
    """The normal distribution of a mean and a standard deviation."""

    has_rsample = True
    _parameters: tuple[str, ...] = ("loc", "scale")
    _domains = {"loc": "real", "scale": "positive", "value": "real"}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(shape_of(loc, scale, tensor=self.loc), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev**2

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = torch.randn(*self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - torch.log(self.scale) - _HALF_LOG_TAU

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 0.5 * (1 + torch.erf((value - self.loc) / self.scale / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + _HALF_LOG_TAU + torch.log(self.scale)


class LogNormal(Distribution):
    """exp of a normal distribution."""

    has_rsample = True
    _parameters: tuple[str, ...] = ("loc", "scale")
    _domains = {"loc": "real", "scale": "positive", "value": "positive"}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Normal(loc, scale, validate_args)
        self.loc, self.scale = self.base_dist.loc, self.base_dist.scale
        super().__init__(self.base_dist.batch_shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return torch.exp(self.loc + self.scale**2 / 2)

    @property
    def mode(self) -> Any:
        return torch.exp(self.loc - self.scale**2)

    @property
    def variance(self) -> Any:
        return torch.expm1(self.scale**2) * torch.exp(2 * self.loc + self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return torch.exp(Normal.rsample(self, sample_shape))  # type: ignore[arg-type]

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        logarithm = torch.log(value)
        return Normal(self.loc, self.scale, validate_args=False).log_prob(logarithm) - logarithm

    def cdf(self, value: Any) -> Any:
        return Normal(self.loc, self.scale, validate_args=False).cdf(torch.log(value))

    def entropy(self) -> Any:
        return 0.5 + _HALF_LOG_TAU + torch.log(self.scale) + self.loc


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by its covariance matrix, the inverse of it, or its Cholesky factor."""

    has_rsample = True
    _parameters: tuple[str, ...] = ("loc", "scale_tril")

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if given[0].ndim < 2:
            raise ValueError("the matrix must be at least two-dimensional, with optional leading batch dimensions")
        if scale_tril is None and precision_matrix is not None:
            factor = jg.linalg.cholesky(jg.linalg.inv(precision_matrix))
        else:
            factor = jg.linalg.cholesky(covariance_matrix) if scale_tril is None else scale_tril
        batch = jg.broadcast_shapes(tuple(loc.shape[:-1]), tuple(factor.shape[:-2]))
        size = loc.shape[-1]
        self.loc = torch.broadcast_to(loc, (*batch, size))
        self.scale_tril = torch.broadcast_to(factor, (*batch, size, size))
        super().__init__(batch, (size,), validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def covariance_matrix(self) -> Any:
        return torch.matmul(self.scale_tril, self.scale_tril.mT)

    @property
    def precision_matrix(self) -> Any:
        return torch.cholesky_inverse(self.scale_tril)

    @property
    def variance(self) -> Any:
        return torch.sum(self.scale_tril**2, dim=-1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = torch.randn(*self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + torch.matmul(self.scale_tril, noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Any:
        return torch.sum(torch.log(torch.diagonal(self.scale_tril, dim1=-2, dim2=-1)), dim=-1)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        difference = (value - self.loc).unsqueeze(-1)
        from jitgraph.torch import linalg

        scaled = linalg.solve_triangular(self.scale_tril, difference, upper=False).squeeze(-1)
        count = self._event_shape[0]
        return -0.5 * torch.sum(scaled**2, dim=-1) - self._half_log_det() - count * _HALF_LOG_TAU

    def entropy(self) -> Any:
        return self._event_shape[0] * (0.5 + _HALF_LOG_TAU) + self._half_log_det()
