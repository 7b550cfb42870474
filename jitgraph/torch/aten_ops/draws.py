"""Operators that draw random numbers, from jitgraph's generator."""

from __future__ import annotations

from jitgraph import random
from jitgraph.nn import functional
from jitgraph.tensor import functions as fn
from jitgraph.torch.aten_ops import operands


def dropout(input, p, train):
    return functional.dropout(input, p, train)


def native_dropout(input, p, train):
    if not train:
        return input, fn.full(input.shape, True)
    kept = fn.greater_equal(random.uniform(input.shape), p)
    return fn.where(kept, operands.scaled(input, 1 / (1 - p) if p < 1 else 0.0), 0.0), kept


def feature_dropout(input, p, train):
    return functional.dropout2d(input, p, train) if input.ndim > 3 else functional.dropout1d(input, p, train)


def alpha_dropout(input, p, train):
    return functional.alpha_dropout(input, p, train)


def feature_alpha_dropout(input, p, train):
    return functional.feature_alpha_dropout(input, p, train)


def rand(size, *, generator=None, names=None, dtype=None, layout=None, device=None, pin_memory=None):
    return random.uniform(tuple(size), dtype=dtype, generator=generator)


def randn(size, *, generator=None, names=None, dtype=None, layout=None, device=None, pin_memory=None):
    return random.normal(tuple(size), dtype=dtype, generator=generator)


def rand_like(self, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return random.uniform(self.shape, dtype=dtype or self.dtype, generator=generator)


def randn_like(self, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return random.normal(self.shape, dtype=dtype or self.dtype, generator=generator)


def randint(high, size, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return random.randint(0, high, tuple(size), dtype=dtype, generator=generator)


def randint_low_generator(low, high, size, *, generator, dtype=None, layout=None, device=None, pin_memory=None):
    return random.randint(low, high, tuple(size), dtype=dtype, generator=generator)


def randint_low(low, high, size, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return random.randint(low, high, tuple(size), dtype=dtype, generator=generator)


def randint_like_default(self, high, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return operands.cast(random.randint(0, high, self.shape), dtype or self.dtype)


def randint_like_low_dtype(
    self, low, high, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None
):
    return operands.cast(random.randint(low, high, self.shape), dtype or self.dtype)


def randperm(n, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return operands.cast(random.permutation(n, generator=generator), dtype)


def bernoulli(self, *, generator=None):
    return fn.astype(random.bernoulli(self, generator=generator), self.dtype)


def bernoulli_p(self, p=0.5, *, generator=None):
    return fn.astype(fn.less(random.uniform(self.shape, generator=generator), p), self.dtype)


def bernoulli_float(self, p=0.5, *, generator=None):
    return bernoulli_p(self, p, generator=generator)


def bernoulli_Tensor(self, p, *, generator=None):
    return fn.astype(random.bernoulli(fn.broadcast_to(p, self.shape), generator=generator), self.dtype)


def multinomial(self, num_samples, replacement=False, *, generator=None):
    return random.multinomial(self, num_samples, replacement, generator=generator)


def poisson(self, generator=None):
    return fn.astype(random.poisson(self, generator=generator), self.dtype)


def uniform(self, from_=0.0, to=1.0, *, generator=None):
    return random.uniform(self.shape, from_, to, dtype=self.dtype, generator=generator)


def normal_functional(self, mean=0.0, std=1.0, *, generator=None):
    return random.normal(self.shape, mean, std, dtype=self.dtype, generator=generator)


normal_default = normal_functional


def normal_float_Tensor(mean, std, *, generator=None):
    return random.normal(std.shape, mean, std, dtype=std.dtype, generator=generator)


def normal_float_float(mean, std, size, *, generator=None, dtype=None, layout=None, device=None, pin_memory=None):
    return random.normal(tuple(size), mean, std, dtype=dtype, generator=generator)


def normal_Tensor_float(mean, std=1.0, *, generator=None):
    return random.normal(mean.shape, mean, std, dtype=mean.dtype, generator=generator)


def normal_Tensor_Tensor(mean, std, *, generator=None):
    return random.normal(fn.broadcast_shapes(mean.shape, std.shape), mean, std, dtype=mean.dtype, generator=generator)


def exponential(self, lambd=1.0, *, generator=None):
    return random.exponential(self.shape, 1.0 / lambd, dtype=self.dtype, generator=generator)


def log_normal(self, mean=1.0, std=2.0, *, generator=None):
    return random.lognormal(self.shape, mean, std, dtype=self.dtype, generator=generator)


def cauchy(self, median=0.0, sigma=1.0, *, generator=None):
    return random.cauchy(self.shape, median, sigma, dtype=self.dtype, generator=generator)


def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    return functional.rrelu(self, lower, upper, training, generator=generator)


def geometric(self, p, *, generator=None):
    return fn.astype(random.geometric(fn.full(self.shape, p), generator=generator), self.dtype)


def random_default(self, *, generator=None):
    top = 1 << 24 if not operands.is_integral(self) else 1 << 31
    return fn.astype(random.randint(0, top, self.shape, generator=generator), self.dtype)


def random_to(self, to, *, generator=None):
    return fn.astype(random.randint(0, to, self.shape, generator=generator), self.dtype)


def random_from(self, from_, to, *, generator=None):
    return fn.astype(random.randint(from_, to, self.shape, generator=generator), self.dtype)


def binomial(count, prob, generator=None):
    return fn.astype(random.binomial(count, prob, generator=generator), count.dtype)


def _standard_gamma(self, generator=None):
    return random.gamma(self, generator=generator)


def _sample_dirichlet(self, generator=None):
    return random.dirichlet(self, generator=generator)
