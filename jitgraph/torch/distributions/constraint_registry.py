"""``torch.distributions.constraint_registry``: the transform of unconstrained numbers into a constraint's set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.torch.distributions import constraints, transforms


class ConstraintRegistry:
    """Factories of transforms by the class of the constraint, or by the constraint itself."""

    def __init__(self) -> None:
        self._factories: list[tuple[Any, Callable[[Any], Any]]] = []

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Let ``factory(constraint)`` make the transform; without one a decorator."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        if not isinstance(constraint, constraints.Constraint | type):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._factories.append((constraint, factory))
        return factory

    def __call__(self, constraint: Any) -> Any:
        for key, factory in reversed(self._factories):
            if constraint is key or type(constraint) is key:
                return factory(constraint)
        raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, float | int) and isinstance(high, float | int) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _above(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _below(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


for _registry in (biject_to, transform_to):
    _registry.register(constraints.real, lambda constraint: transforms.identity_transform)
    _registry.register(constraints.greater_than, _above)
    _registry.register(constraints.greater_than_eq, _above)
    _registry.register(constraints.positive, lambda constraint: transforms.ExpTransform())
    _registry.register(constraints.nonnegative, lambda constraint: transforms.ExpTransform())
    _registry.register(constraints.less_than, _below)
    _registry.register(constraints.interval, _to_interval)
    _registry.register(constraints.half_open_interval, _to_interval)
    _registry.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
    _registry.register(constraints.positive_definite, lambda constraint: transforms.PositiveDefiniteTransform())
    _registry.register(constraints.positive_semidefinite, lambda constraint: transforms.PositiveDefiniteTransform())
    _registry.register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
    _registry.register(
        constraints.independent,
        lambda constraint, to=_registry: transforms.IndependentTransform(
            to(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    _registry.register(
        constraints.cat,
        lambda constraint, to=_registry: transforms.CatTransform(
            [to(c) for c in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    _registry.register(
        constraints.stack,
        lambda constraint, to=_registry: transforms.StackTransform([to(c) for c in constraint.cseq], constraint.dim),
    )
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
