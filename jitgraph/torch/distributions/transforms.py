"""``torch.distributions.transforms``: invertible functions with the logarithms of their volume factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jitgraph.torch as torch
from jitgraph.torch.distributions import constraints
from jitgraph.torch.distributions.distribution import summed, tiny


def _softplus(x: Any) -> Any:
    return torch.logaddexp(x, torch.zeros_like(x))


class Transform:
    """A function y = f(x) with ``inv`` and ``log_abs_det_jacobian(x, y)``; ``cache_size=1`` remembers the last pair."""

    bijective = False
    domain: Any
    codomain: Any
    sign: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """The axes of an event, of which domain and codomain have equally many."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse as a transform."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The transform with this size of cache."""
        if self._cache_size == cache_size:
            return self
        import copy

        other = copy.copy(self)
        other._cache_size, other._last = cache_size, (None, None)
        return other

    def __call__(self, x: Any) -> Any:
        if self._cache_size and x is self._last[0]:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size and y is self._last[1]:
            return self._last[0]
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx| of each event."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for one of x."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for one of y."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._of = transform

    @property
    def domain(self) -> Any:
        return self._of.codomain

    @property
    def codomain(self) -> Any:
        return self._of.domain

    @property
    def bijective(self) -> bool:
        return self._of.bijective

    @property
    def sign(self) -> Any:
        return self._of.sign

    @property
    def inv(self) -> Transform:
        return self._of

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._of.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._of == other._of

    __hash__ = None

    def __call__(self, x: Any) -> Any:
        return self._of._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._of.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same parts with this size of cache."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = None

    def _sizes(self) -> list[int]:
        """The axes of an event of x, then after each part."""
        size = 0
        for part in reversed(self.parts):
            size = max(part.domain.event_dim, size + part.domain.event_dim - part.codomain.event_dim)
        sizes = [size]
        for part in self.parts:
            sizes.append(sizes[-1] + part.codomain.event_dim - part.domain.event_dim)
        return sizes

    @property
    def domain(self) -> Any:
        """What the first part takes."""
        return _widened(self.parts[0].domain, self._sizes()[0]) if self.parts else constraints.real

    @property
    def codomain(self) -> Any:
        """What the last part gives."""
        return _widened(self.parts[-1].codomain, self._sizes()[-1]) if self.parts else constraints.real

    @property
    def bijective(self) -> bool:
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        """The inverses in reverse order."""
        return ComposeTransform([part.inv for part in reversed(self.parts)], self._cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the parts' logarithms."""
        if not self.parts:
            return torch.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        for part, size, before, after in zip(self.parts, self._sizes()[:-1], values[:-1], values[1:], strict=True):
            total = total + summed(part.log_abs_det_jacobian(before, after), size - part.domain.event_dim)
        return total

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for one of x."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for one of y."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {inner}\n)"


def _widened(constraint: Any, size: int) -> Any:
    extra = size - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch axes count to the event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective, self.sign = base_transform.bijective, getattr(base_transform, "sign", None)
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the base's over the axes that were joined."""
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for one of x."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for one of y."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events in another shape of equally many elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = torch.Size(in_shape), torch.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Zeros."""
        return torch.zeros(tuple(x.shape[: x.dim() - len(self.in_shape)]), dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of y for one of x."""
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of x for one of y."""
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Any, old: Any, new: Any) -> Any:
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {tuple(shape)[cut:]} but got {tuple(old)}")
    return torch.Size((*shape[:cut], *new))


class _Elementwise(Transform):
    """A monotonic function of each element."""

    bijective = True
    domain = constraints.real
    codomain = constraints.real
    sign = 1

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = None


class ExpTransform(_Elementwise):
    """exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class PowerTransform(_Elementwise):
    """x ** exponent of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, torch.Tensor) else torch.tensor(float(exponent))
        self.sign = self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(_Elementwise):
    """The logistic function."""

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return torch.sigmoid(x).clamp(min=torch.finfo(x.dtype).tiny, max=1.0 - tiny(x))

    def _inverse(self, y: Any) -> Any:
        inside = y.clamp(min=torch.finfo(y.dtype).tiny, max=1.0 - tiny(y))
        return inside.log() - (-inside).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log(y (1 - y))."""
        return -_softplus(-x) - _softplus(x)


class SoftplusTransform(_Elementwise):
    """log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return _softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the logistic function."""
        return -_softplus(-x)


class TanhTransform(_Elementwise):
    """The hyperbolic tangent."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log(1 - tanh(x)**2), in a form that is exact for large x."""
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class AbsTransform(Transform):
    """The absolute value, of whose two inverses the positive one is given."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """loc + scale * x."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self.domain = self.codomain = (
            constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        )

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        if isinstance(self.scale, torch.Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def __eq__(self, other: object) -> bool:
        def same(a: Any, b: Any) -> bool:
            return bool((torch.as_tensor(a) == torch.as_tensor(b)).all())

        return isinstance(other, AffineTransform) and same(self.loc, other.loc) and same(self.scale, other.scale)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |scale|, summed over the event."""
        scale = self.scale if isinstance(self.scale, torch.Tensor) else torch.full_like(x, float(self.scale))
        return summed(scale.abs().log().expand(x.shape), self.event_dim)


class SoftmaxTransform(Transform):
    """Positive numbers that sum to 1 of any vector; its inverse gives one of the vectors."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return torch.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """A vector of n numbers as n + 1 that sum to 1: each takes its share of what those before left of a stick."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = None

    def _offsets(self, n: int, like: Any) -> Any:
        return torch.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Any) -> Any:
        z = SigmoidTransform()(x - self._offsets(x.shape[-1], x))
        left = (1 - z).cumprod(-1)
        one = torch.ones_like(left[..., :1])
        return torch.cat([z, one], -1) * torch.cat([one, left], -1)

    def _inverse(self, y: Any) -> Any:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._offsets(head.shape[-1], y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of log(share) + log(what was left) + log(1 - share)."""
        moved = x - self._offsets(x.shape[-1], x)
        return (y[..., :-1].log() - moved - _softplus(-moved)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """One more."""
        return torch.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """One fewer."""
        return torch.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """A matrix as a lower triangular one with a positive diagonal: exp of its own."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = None

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(LowerCholeskyTransform):
    """A matrix as a positive definite one, of which the lower triangular one is the Cholesky factor."""

    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = super()._call(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return super()._inverse(torch.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers as the Cholesky factor of a correlation matrix: tanh gives partial correlations."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = tiny(x)
        r = _lower_of(torch.tanh(x).clamp(min=-1 + eps, max=1 - eps))
        left = (1 - r * r).sqrt().cumprod(-1)
        r = r + torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * torch.cat([torch.ones_like(left[..., :1]), left[..., :-1]], -1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - (y * y).cumsum(-1)
        before = torch.cat([torch.ones_like(left[..., :1]), left[..., :-1]], -1)
        return torch.atanh(_vector_of(y) / _vector_of(before).sqrt())

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        """Of the products of roots of what is left, and of tanh."""
        left = 1 - (y * y).cumsum(-1)
        products = 0.5 * _vector_of(left, -2).log().sum(-1)
        return products - 2 * (x + _softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """The side of the matrix for a number of entries below its diagonal."""
        count = shape[-1]
        side = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return torch.Size((*shape[:-1], side, side))

    def inverse_shape(self, shape: Any) -> Any:
        """The entries below the diagonal."""
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return torch.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _below(side: int, offset: int = -1) -> Any:
    return torch.tril_indices(side, side, offset)


def _lower_of(vector: Any) -> Any:
    """The matrix whose entries below the diagonal are a vector, row by row."""
    side = round((0.25 + 2 * vector.shape[-1]) ** 0.5 + 0.5)
    rows, columns = _below(side)
    flat = torch.zeros((*vector.shape[:-1], side * side), dtype=vector.dtype, device=vector.device)
    return flat.index_copy(-1, rows * side + columns, vector).reshape((*vector.shape[:-1], side, side))


def _vector_of(matrix: Any, offset: int = -1) -> Any:
    rows, columns = _below(matrix.shape[-1], offset)
    return matrix[..., rows, columns]


class CatTransform(Transform):
    """Transforms of the parts of a tensor along an axis."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def _parts(self, x: Any) -> Any:
        return zip(self.transforms, x.split(self.lengths, self.dim), strict=True)

    def _call(self, x: Any) -> Any:
        return torch.cat([t(part) for t, part in self._parts(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.cat([t.inv(part) for t, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Those of the parts, put together, or added where the axis belongs to the event."""
        size = max(t.event_dim for t in self.transforms)
        parts = [
            summed(t.log_abs_det_jacobian(a, b), size - t.event_dim)
            for (t, a), b in zip(self._parts(x), y.split(self.lengths, self.dim), strict=True)
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + size
        return torch.cat(parts, dim) if dim < 0 else sum(parts)


class StackTransform(Transform):
    """Transforms of the slices of a tensor at an axis."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def _slices(self, x: Any) -> Any:
        return zip(self.transforms, x.unbind(self.dim), strict=True)

    def _call(self, x: Any) -> Any:
        return torch.stack([t(part) for t, part in self._slices(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return torch.stack([t.inv(part) for t, part in self._slices(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Those of the slices, stacked."""
        slices = zip(self._slices(x), y.unbind(self.dim), strict=True)
        return torch.stack([t.log_abs_det_jacobian(a, b) for (t, a), b in slices], self.dim)


class CumulativeDistributionTransform(Transform):
    """The probability of at most x in a distribution."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the density."""
        return self.distribution.log_prob(x)
