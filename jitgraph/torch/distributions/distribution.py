"""What all distributions have: shapes, moments, and the forms of their draws and densities."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import jitgraph as jg
from jitgraph.ir import context
from jitgraph.torch import functions
from jitgraph.torch.metadata import Size
from jitgraph.torch.scalar_types import finfo, get_default_dtype

torch: Any = functions


def broadcast_all(*values: Any) -> Any:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors, or the default one."""
    dtype = next((value.dtype for value in values if isinstance(value, jg.Tensor)), get_default_dtype())
    tensors = [value if isinstance(value, jg.Tensor) else torch.tensor(value, dtype=dtype) for value in values]
    return torch.broadcast_tensors(*tensors)


def limits_of(dtype: Any) -> Any:
    """The least and greatest numbers of a float dtype, and its precision."""
    return finfo(dtype)


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last ``dims`` axes."""
    return value if dims == 0 else torch.sum(value, dim=list(range(-dims, 0)))


class Distribution:
    """A distribution over batches of independent events.

    ``batch_shape`` is the shape of the parameters, ``event_shape`` that of one draw; ``sample(shape)`` has the shape
    ``shape + batch_shape + event_shape``, ``log_prob`` the shape of the batch. ValueError for parameters and values
    outside of their domain, unless ``validate_args`` is False; in traces nothing is checked.
    """

    has_rsample: ClassVar[bool] = False
    has_enumerate_support: ClassVar[bool] = False
    _parameters: tuple[str, ...] = ()
    _domains: ClassVar[dict[str, str]] = {}
    _validate_args = True

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, domain in self._domains.items():
                value = self.__dict__.get(name)
                if isinstance(value, jg.Tensor):
                    self._require(value, domain, f"parameter {name}")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether domains are checked where ``validate_args`` is not given."""
        Distribution._validate_args = value

    def _require(self, value: Any, domain: str, what: str) -> None:
        if context.current().trace is not None:
            return
        good = {
            "real": lambda: value == value,
            "positive": lambda: value > 0,
            "nonnegative": lambda: value >= 0,
            "unit_interval": lambda: (value >= 0) & (value <= 1),
            "boolean": lambda: (value == 0) | (value == 1),
            "nonnegative_integer": lambda: (value % 1 == 0) & (value >= 0),
            "simplex": lambda: torch.all(value >= 0, dim=-1) & (torch.abs(torch.sum(value, dim=-1) - 1) < 1e-6),
        }[domain]()
        if bool(torch.all(good)):
            return
        raise ValueError(
            f"Expected {what} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
            f"to satisfy the constraint {domain}, but found invalid values:\n{value}"
        )

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, jg.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = len(self._event_shape)
        if event and tuple(value.shape[value.ndim - event :]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = tuple(self._batch_shape) + tuple(self._event_shape)
        for i, j in zip(reversed(tuple(value.shape)), reversed(expected), strict=False):
            if 1 not in (i, j) and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        if self._validate_args and "value" in self._domains:
            self._require(value, self._domains["value"], "value argument")

    @property
    def batch_shape(self) -> Any:
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        return self._event_shape

    @property
    def mean(self) -> Any:
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Any:
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        return torch.sqrt(self.variance)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws without a gradient."""
        with jg.no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample")

    def sample_n(self, n: int) -> Any:
        """``n`` draws."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, of a value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """exp(entropy)."""
        return torch.exp(self.entropy())

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution along a first axis."""
        raise NotImplementedError

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its batch broadcast to a shape."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        shape = tuple(batch_shape)
        for name, value in self.__dict__.items():
            if name in self._parameters and isinstance(value, jg.Tensor):
                own = value.ndim - len(self._batch_shape)
                tail = tuple(value.shape[value.ndim - own :]) if own else ()
                new.__dict__[name] = value.expand(*shape, *tail)
        new._batch_shape = Size(shape)
        return new

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def __repr__(self) -> str:
        values = {name: self.__dict__[name] for name in self._parameters if name in self.__dict__}
        shown = [f"{name}: {v if not v.ndim else v.size()}" for name, v in values.items() if isinstance(v, jg.Tensor)]
        return f"{type(self).__name__}({', '.join(shown)})"


def shape_of(*values: Any, tensor: Any) -> Any:
    """The batch shape of parameters: () of numbers alone."""
    return () if all(isinstance(value, numbers.Number) for value in values) else tensor.shape
