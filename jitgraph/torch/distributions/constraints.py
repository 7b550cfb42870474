"""``torch.distributions.constraints``: sets of values that parameters and samples belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgraph.torch as torch


class Constraint:
    """A set of values; ``check(value)`` says of each event in a tensor whether it belongs to it."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        bounds = ", ".join(f"{key}={bound}" for key, bound in vars(self).items())
        name = "".join(word.capitalize() for word in type(self).__name__.strip("_").split("_"))
        return f"{name}({bounds})"


class _Dependent(Constraint):
    """A set that depends on other parameters."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:
        """Whether values are discrete, where that is known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        """The number of axes of an event, where that is known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        """ValueError: what the set is, its owner knows."""
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):  # noqa: N801 - PyTorch's name
    """A property of a distribution that is a constraint; of the class it is a dependent one."""

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class independent(Constraint):  # noqa: N801 - PyTorch's name
    """A set of tensors all of whose elements, along the last axes, belong to a set."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """Whether the elements are discrete."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        """The axes of an event of the base, and those that were joined to it."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        kept = inside.dim() - self.reinterpreted_batch_ndims
        return inside.reshape((*inside.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Of(Constraint):
    """A set by a condition on each element, or on each event of ``event_dim`` axes."""

    def __init__(
        self, text: str, condition: Callable[[Any], Any], *, is_discrete: bool = False, event_dim: int = 0
    ) -> None:
        self._text, self._condition = text, condition
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        return self._condition(value)

    def __repr__(self) -> str:
        return self._text


class greater_than(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers above a bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        """A bool for each element."""
        return value > self.lower_bound


class greater_than_eq(greater_than):  # noqa: N801 - PyTorch's name
    """Numbers from a bound on."""

    def check(self, value: Any) -> Any:
        """A bool for each element."""
        return value >= self.lower_bound


class less_than(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers below a bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """A bool for each element."""
        return value < self.upper_bound


class interval(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers between two bounds, which belong to it."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        """A bool for each element."""
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class half_open_interval(interval):  # noqa: N801 - PyTorch's name
    """Numbers from a bound to below another."""

    def check(self, value: Any) -> Any:
        """A bool for each element."""
        return (value >= self.lower_bound) & (value < self.upper_bound)


class integer_interval(interval):  # noqa: N801 - PyTorch's name
    """Whole numbers between two bounds, which belong to it."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """A bool for each element."""
        return (value % 1 == 0) & super().check(value)


class _integer_greater_than(greater_than_eq):  # noqa: N801 - as the others
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & super().check(value)


class multinomial(Constraint):  # noqa: N801 - PyTorch's name
    """Counts that are not negative and sum to at most the number of trials."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class cat(Constraint):  # noqa: N801 - PyTorch's name
    """Tensors whose parts along an axis belong to one set each."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def is_discrete(self) -> bool:
        """Whether any part is discrete."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        """The most axes of an event of a part."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        parts = value.split(self.lengths, self.dim)
        return torch.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class stack(cat):  # noqa: N801 - PyTorch's name
    """Tensors whose slices at an axis belong to one set each."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        """The most axes of an event of a slice, and the axis itself where that is behind it."""
        inner = super().event_dim
        return inner + 1 if self.dim + inner < 0 else inner

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        slices = value.unbind(self.dim)
        return torch.stack([c.check(part) for c, part in zip(self.cseq, slices, strict=True)], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """What belongs to the set of a mixture's components, whichever it was drawn from."""

    def __init__(self, base_constraint: Any) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """Whether the components are discrete."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """The axes of an event of a component."""
        return int(self.base_constraint.event_dim)

    def check(self, value: Any) -> Any:
        """A bool for each event."""
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return inside.all(-1)


def _is_lower(value: Any) -> Any:
    return (value.tril() == value).reshape((*value.shape[:-2], -1)).all(-1)


def _is_symmetric(value: Any) -> Any:
    return torch.isclose(value, value.mT, atol=1e-6).reshape((*value.shape[:-2], -1)).all(-1)


def _is_definite(value: Any) -> Any:
    return _is_symmetric(value) & (torch.linalg.eigvalsh(value) > 0).all(-1)


def _is_semidefinite(value: Any) -> Any:
    eigenvalues = torch.linalg.eigvalsh(value)
    return _is_symmetric(value) & (eigenvalues >= -1e-6 * eigenvalues.abs().amax(-1, keepdim=True)).all(-1)


def _has_unit_rows(value: Any) -> Any:
    tolerance = torch.finfo(value.dtype).eps * value.size(-1) * 10
    return ((value * value).sum(-1) - 1).abs().lt(tolerance).all(-1)


boolean = _Of("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
corr_cholesky = _Of(
    "CorrCholesky()", lambda x: _has_unit_rows(x) & _is_lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1), event_dim=2
)
dependent = _Dependent()
lower_cholesky = _Of("LowerCholesky()", lambda x: _is_lower(x) & (x.diagonal(0, -2, -1) > 0).all(-1), event_dim=2)
lower_triangular = _Of("LowerTriangular()", _is_lower, event_dim=2)
nonnegative = greater_than_eq(0.0)
nonnegative_integer = _integer_greater_than(0)
one_hot = _Of("OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), is_discrete=True, event_dim=1)
positive = greater_than(0.0)
positive_definite = _Of("PositiveDefinite()", _is_definite, event_dim=2)
positive_integer = _integer_greater_than(1)
positive_semidefinite = _Of("PositiveSemidefinite()", _is_semidefinite, event_dim=2)
real = _Of("Real()", lambda x: x == x)
real_vector = independent(real, 1)
simplex = _Of("Simplex()", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1)
square = _Of("Square()", lambda x: torch.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=torch.bool), event_dim=2)
symmetric = _Of("Symmetric()", _is_symmetric, event_dim=2)
unit_interval = interval(0.0, 1.0)
