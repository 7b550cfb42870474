"""Distributions over a finite number of classes."""

from __future__ import annotations

from typing import Any

from jitgraph.torch import functions
from jitgraph.torch.distributions.distribution import Distribution, limits_of

torch: Any = functions


class Categorical(Distribution):
    """The numbers 0 .. n - 1 with probabilities, or with logits, along the last axis."""

    has_enumerate_support = True
    _parameters: tuple[str, ...] = ("probs", "logits")
    _domains = {"probs": "simplex", "value": "nonnegative_integer"}  # noqa: RUF012

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        if given.ndim < 1:
            raise ValueError("`probs` or `logits` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / torch.sum(probs, dim=-1, keepdim=True)
        else:
            self.logits = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        """``logits`` of a distribution of which the probabilities are given, and the other way round."""
        if name == "logits" and "probs" in self.__dict__:
            eps = limits_of(self.probs.dtype).eps
            value = torch.log(torch.clamp(self.probs, min=eps, max=1 - eps))
        elif name == "probs" and "logits" in self.__dict__:
            value = torch.softmax(self.logits, dim=-1)
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__[name] = value
        return value

    @property
    def _param(self) -> Any:
        return self.__dict__.get("probs", self.__dict__.get("logits"))

    @property
    def param_shape(self) -> Any:
        return self._param.size()

    @property
    def mean(self) -> Any:
        return torch.full(tuple(self._batch_shape), float("nan"), dtype=self.probs.dtype)

    @property
    def variance(self) -> Any:
        return self.mean

    @property
    def mode(self) -> Any:
        return torch.argmax(self.probs, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        count = 1
        for size in sample_shape:
            count *= size
        drawn = torch.multinomial(self.probs.detach().reshape(-1, self._num_events), count, True)
        return drawn.t().reshape(*self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return torch.gather(logits, -1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        least = limits_of(self.logits.dtype).min
        return -torch.sum(torch.clamp(self.logits, min=least) * self.probs, dim=-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(self._num_events).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """``Categorical`` whose draws are vectors with a 1 at the class."""

    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def probs(self) -> Any:
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        return self._categorical.logits

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    @property
    def mode(self) -> Any:
        return self._one_hot(self._categorical.mode)

    def _one_hot(self, index: Any) -> Any:
        return (index.unsqueeze(-1) == torch.arange(self._event_shape[0])).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._categorical.log_prob(torch.argmax(value, dim=-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._event_shape[0]
        values = torch.eye(count, dtype=self._categorical._param.dtype)
        values = values.view(count, *(1,) * len(self._batch_shape), count)
        return values.expand(count, *self._batch_shape, count) if expand else values
