"""Distributions of vectors and matrices: multivariate normal ones, Wishart, correlation matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch.distributions import constraints, gammas
from jitgraph.torch.distributions.distribution import Distribution, ExponentialFamily, Lazy
from jitgraph.torch.distributions.positive import Beta
from jitgraph.torch.tensors import adopted


def solved_lower(factor: Any, right: Any) -> Any:
    """factor^-1 right for lower triangular matrices, of one batch shape."""
    batch = torch.broadcast_shapes(factor.shape[:-2], right.shape[:-2])
    factor = factor.expand((*batch, *factor.shape[-2:]))
    right = right.expand((*batch, *right.shape[-2:]))
    return adopted(jg.linalg.solve_triangular(factor, right, upper=False))


def squared_distance(factor: Any, difference: Any) -> Any:
    """|factor^-1 difference|**2 along the last axis."""
    return solved_lower(factor, difference.unsqueeze(-1)).squeeze(-1).square().sum(-1)


def half_log_det(factor: Any) -> Any:
    """The sum of the logarithms of a diagonal."""
    return factor.diagonal(0, -2, -1).log().sum(-1)


def _factor_of_precision(precision: Any) -> Any:
    """The Cholesky factor of the inverse, by the factor of the matrix in reverse order."""
    reversed_factor = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    upper = torch.flip(reversed_factor, (-2, -1)).mT
    eye = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solved_lower(upper, eye)


class _OfCovariance(Distribution):
    """What has a covariance matrix, or in its place the inverse or the Cholesky factor."""

    _given: str

    def _take(self, refusal: str, **matrices: Any) -> Any:
        """The one matrix that there is, whose name is noted; ValueError with this text for none and for more."""
        given = [name for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError(refusal)
        (self._given,) = given
        return matrices[self._given]

    @Lazy
    def scale_tril(self: Any) -> Any:
        """The Cholesky factor of the covariance."""
        if self._given == "covariance_matrix":
            return torch.linalg.cholesky(self.covariance_matrix)
        return _factor_of_precision(self.precision_matrix)

    @Lazy
    def covariance_matrix(self: Any) -> Any:
        """The covariance matrix."""
        return self.scale_tril @ self.scale_tril.mT

    @Lazy
    def precision_matrix(self: Any) -> Any:
        """The inverse of the covariance matrix."""
        return torch.linalg.inv(self.covariance_matrix)


class MultivariateNormal(_OfCovariance):
    """Normal vectors of this mean, and covariance matrix, or precision, or Cholesky factor of the covariance."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrix = self._take(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril,
        )  # fmt: skip
        if matrix.dim() < 2:
            raise ValueError(f"{self._given} must be at least two-dimensional, with optional leading batch dimensions")
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        n = loc.shape[-1]
        self.loc = loc.expand((*batch, n))
        vars(self)[self._given] = matrix.expand((*batch, n, n))
        super().__init__(batch, (n,), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """loc."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self.scale_tril.pow(2).sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        shape = tuple(self._extended_shape(sample_shape))
        z = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        distance = squared_distance(self.scale_tril, value - self.loc)
        return -0.5 * (self.event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det(self.scale_tril)

    def entropy(self) -> Any:
        """Half of n (1 + log(2 pi)), and half of the log-determinant."""
        return 0.5 * self.event_shape[0] * (1.0 + math.log(2 * math.pi)) + half_log_det(self.scale_tril)

    def _parameters(self) -> Any:
        return ("loc", self._given)

    def __repr__(self) -> str:
        return f"MultivariateNormal(loc: {self.loc.size()}, {self._given}: {vars(self)[self._given].size()})"


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance W W^T + diag(d), computed with in the size of W's columns."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        n = loc.shape[-1]
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape ({n},)")
        batch = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand((*batch, n)), cov_diag.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, n, cov_factor.shape[-1]))
        super().__init__(batch, (n,), validate_args=validate_args)

    @Lazy
    def _capacitance(self: Any) -> Any:
        """The Cholesky factor of 1 + W^T diag(d)^-1 W."""
        scaled = self.cov_factor / self.cov_diag.unsqueeze(-1)
        eye = torch.eye(scaled.shape[-1], dtype=scaled.dtype, device=scaled.device)
        return torch.linalg.cholesky(self.cov_factor.mT @ scaled + eye)

    @property
    def mean(self) -> Any:
        """loc."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Any:
        """W W^T + diag(d)."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Any:
        """Its Cholesky factor."""
        return torch.linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Any:
        """Its inverse."""
        return torch.linalg.inv(self.covariance_matrix)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        shape = tuple(self._extended_shape(sample_shape))
        kind = {"dtype": self.loc.dtype, "device": self.loc.device}
        z = torch.randn((*shape[:-1], self.cov_factor.shape[-1]), **kind)
        own = self.cov_diag.sqrt() * torch.randn(shape, **kind)
        return self.loc + (self.cov_factor @ z.unsqueeze(-1)).squeeze(-1) + own

    def _log_det(self) -> Any:
        return 2 * half_log_det(self._capacitance) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, by the identities of Woodbury and of the determinant."""
        self._validate_sample(value)
        difference = value - self.loc
        scaled = (difference / self.cov_diag).unsqueeze(-1)
        inner = squared_distance(self._capacitance, (self.cov_factor.mT @ scaled).squeeze(-1))
        distance = (difference.square() / self.cov_diag).sum(-1) - inner
        return -0.5 * (self.event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        return 0.5 * (self.event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())


class Wishart(ExponentialFamily, _OfCovariance):
    """Positive definite matrices: sums of ``df`` outer products of normal vectors, by Bartlett's decomposition."""

    has_rsample = True
    arg_constraints: ClassVar[Any] = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        matrix = self._take(
            "Expected exactly one of covariance_matrix or precision_matrix or scale_tril.",
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril,
        )  # fmt: skip
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, torch.Tensor) else torch.tensor(float(df), dtype=matrix.dtype)
        batch = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
        n = matrix.shape[-1]
        self.df = df.expand(batch)
        vars(self)[self._given] = matrix.expand((*batch, n, n))
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        super().__init__(batch, (n, n), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """df times the matrix."""
        return self.df.reshape((*self.df.shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        """(df - n - 1) times the matrix, NaN where that is negative."""
        factor = self.df - self.event_shape[-1] - 1
        factor = torch.where(factor <= 0, math.nan, factor)
        return factor.reshape((*factor.shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        """df (v_ij**2 + v_ii v_jj)."""
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self.df.reshape((*self.df.shape, 1, 1)) * (v.pow(2) + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """Draws through which gradients reach the parameters."""
        shape = tuple(self._extended_shape(sample_shape))
        n = shape[-1]
        kind = {"dtype": self.df.dtype, "device": self.df.device}
        half = (self.df.unsqueeze(-1) - torch.arange(n, **kind)) / 2
        chi = (2 * gammas.standard_gamma(half.expand(shape[:-1]))).sqrt()
        noise = torch.randn(shape, **kind).tril(-1) + chi.diag_embed()
        factor = self.scale_tril @ noise
        return factor @ factor.mT

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        n, half = self.event_shape[-1], self.df / 2
        inner = solved_lower(self.scale_tril, value)
        trace = solved_lower(self.scale_tril, inner.mT).diagonal(0, -2, -1).sum(-1)
        log_det = 2 * half_log_det(torch.linalg.cholesky(value))
        norm = -half * (n * math.log(2) + 2 * half_log_det(self.scale_tril)) - torch.mvlgamma(half, n)
        return norm + (self.df - n - 1) / 2 * log_det - trace / 2

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        n, half = self.event_shape[-1], self.df / 2
        offsets = torch.arange(n, dtype=half.dtype) / 2
        digammas = torch.digamma(half.unsqueeze(-1) - offsets).sum(-1)
        log_det = 2 * half_log_det(self.scale_tril)
        return (
            (n + 1) / 2 * (log_det + n * math.log(2))
            + torch.mvlgamma(half, n)
            - (self.df - n - 1) / 2 * digammas
            + self.df * n / 2
        )

    def _parameters(self) -> Any:
        return ("df", self._given)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, with a density in proportion to det**(concentration - 1)."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        given = concentration if isinstance(concentration, torch.Tensor) else torch.tensor(float(concentration))
        self.concentration = given
        super().__init__(given.size(), (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws by the onion method: each row is a direction, with a Beta number as its squared length."""
        with torch.no_grad():
            shape = (*sample_shape, *self._batch_shape)
            kind = {"dtype": self.concentration.dtype, "device": self.concentration.device}
            rows = torch.arange(1, self.dim, **kind)
            b = (self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 1 - rows)).expand((*shape, self.dim - 1))
            square = Beta((rows / 2).expand(b.shape), b, validate_args=False).sample()
            normal = torch.randn((*shape, self.dim, self.dim), **kind).tril(-1)[..., 1:, :]
            row = normal / normal.norm(dim=-1, keepdim=True) * square.sqrt().unsqueeze(-1)
            factor = torch.cat([torch.zeros_like(row[..., :1, :]), row], -2)
            diagonal = (1 - factor.square().sum(-1)).clamp(min=torch.finfo(kind["dtype"]).tiny).sqrt()
            return factor + diagonal.diag_embed()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        self._validate_sample(value)
        eta, n = self.concentration, self.dim
        order = torch.arange(2, n + 1, dtype=eta.dtype, device=eta.device)
        powers = 2 * (eta - 1).unsqueeze(-1) + n - order
        unnormalised = (powers * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        alpha = eta + 0.5 * (n - 1)
        norm = 0.5 * (n - 1) * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, n - 1) - (n - 1) * torch.lgamma(alpha)
        return unnormalised - norm

    def _other_arguments(self) -> dict[str, Any]:
        return {"dim": self.dim}
