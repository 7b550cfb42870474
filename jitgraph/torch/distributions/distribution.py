"""``Distribution``, what all of ``torch.distributions`` have: shapes, samples, densities, checks of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jitgraph.torch as torch
from jitgraph.ir import context
from jitgraph.torch.distributions import constraints

_checks = {"default": __debug__}


class Distribution:
    """Distributions of events of shape ``event_shape``, one for each index of ``batch_shape``.

    Parameters and values are checked where they are known, which in a trace they are not: ValueError for those outside
    of ``arg_constraints`` and ``support``, unless ``validate_args=False``.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[Any] = {}
    support: Any = constraints.dependent

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        self._validate_args = _checks["default"] if validate_args is None else validate_args
        if self._validate_args and context.current().trace is None:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check parameters and values from here on, or not."""
        if value not in (True, False):
            raise ValueError
        _checks["default"] = value

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or name not in vars(self):
                continue
            value = vars(self)[name]
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape = tuple(value.shape)
        own = (*self._batch_shape, *self._event_shape)
        if shape[len(shape) - len(self._event_shape) :] != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {list(shape)} vs {list(self._event_shape)}."
            )
        for i, j in zip(reversed(shape), reversed(own), strict=False):
            if i != j and 1 not in (i, j):
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {own}.")
        if context.current().trace is not None or constraints.is_dependent(self.support):
            return
        if not bool(self.support.check(value).all()):
            raise ValueError(
                f"Expected value argument (Tensor of shape {shape}) to be within the support "
                f"({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The expected square of the distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws of shape ``sample_shape + batch_shape + event_shape``, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """``n`` draws."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or probability, of each event."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All events, along a new first axis."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The expected negative logarithm of the density."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp of the entropy."""
        return torch.exp(self.entropy())

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions with another batch shape, to which their parameters are expanded."""
        own = {name: vars(self)[name] for name in self._parameters() if name in vars(self)}
        shape = torch.Size(batch_shape)
        sizes = {name: self.arg_constraints[name].event_dim for name in own}
        grown = {name: x.expand((*shape, *x.shape[x.dim() - sizes[name] :])) for name, x in own.items()}
        return type(self)(**grown, **self._other_arguments(), validate_args=False)

    def _parameters(self) -> Any:
        return self.arg_constraints

    def _other_arguments(self) -> dict[str, Any]:
        """Arguments of the constructor that are no parameters."""
        return {}

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return torch.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def __repr__(self) -> str:
        named = [(name, vars(self)[name]) for name in self.arg_constraints if name in vars(self)]
        parts = [f"{name}: {x if x.numel() == 1 else x.size()}" for name, x in named]
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions with a density exp(<parameters, statistics> - log normaliser) times a base measure."""


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Parameters as tensors of one shape; numbers have the dtype and device of the tensors, or the default ones."""
    for value in values:
        if not isinstance(value, torch.Tensor | int | float):
            raise ValueError(f"Input arguments must all be instances of Number, Tensor, not {type(value).__name__}")
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    like: dict[str, Any] = {"dtype": torch.get_default_dtype()}
    if tensors:
        like = {"dtype": tensors[0].dtype, "device": tensors[0].device}
    made = [x if isinstance(x, torch.Tensor) else torch.tensor(float(x), **like) for x in values]
    return tuple(torch.broadcast_tensors(*made))


class Lazy:
    """A property that is computed once, when it is first asked for."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with torch.enable_grad():
            value = vars(instance)[self._name] = self._function(instance)
        return value


def one_of(name: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    """ValueError unless exactly one of two parameters is there."""
    if (first[1] is None) == (second[1] is None):
        raise ValueError(f"Either `{first[0]}` or `{second[0]}` must be specified, but not both.")


def tiny(x: Any) -> Any:
    """The smallest step at 1 in the dtype of x."""
    return torch.finfo(x.dtype).eps


def logits_of(probs: Any, is_binary: bool = False) -> Any:
    """The logits of probabilities, which stay away from 0 and 1."""
    eps = tiny(probs)
    inside = probs.clamp(min=eps, max=1 - eps)
    return torch.log(inside) - torch.log1p(-inside) if is_binary else torch.log(inside)


def summed(value: Any, count: int) -> Any:
    """The sum over the last ``count`` axes."""
    return value.sum(tuple(range(-count, 0))) if count else value
