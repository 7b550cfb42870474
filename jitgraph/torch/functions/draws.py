"""Functions that draw random numbers."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.dtypes import canonical as jg_dtype
from jitgraph.tensor import lifting
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.functions.creation import dtype_or_default, kind_and_device, named_sizes
from jitgraph.torch.metadata import target


def _require_float(name: str, dtype: Any) -> None:
    if not dtypes.is_inexact(dtype):
        raise NotImplementedError(f'"{name}" not implemented for {dtype.name}: numbers are drawn in a float dtype')


def _drawn(name: str, shape: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Numbers of [0, 1) ("rand") or of the standard normal distribution ("randn") in any float or complex dtype."""
    _require_float(name, dtype)
    draw = jg.random.uniform if name == "rand" else jg.random.normal
    if not dtypes.is_complex(dtype):
        return draw(shape, dtype=dtype, generator=generator, device=device)
    parts = [draw(shape, dtype=dtypes.part_of(dtype), generator=generator, device=device) for _ in range(2)]
    return jg.complex(*parts) if name == "rand" else jg.complex(*parts) * 0.5**0.5


def _by_sizes(name: str) -> Any:
    def function(
        *sizes: Any,
        size: Any = None,
        generator: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
    ) -> Any:
        result = _drawn(name, named_sizes(sizes, size), dtype_or_default(dtype), generator, target(device))
        return result.requires_grad_() if requires_grad else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{'Uniform in [0, 1)' if name == 'rand' else 'Standard normal'}, of this shape."
    return with_out(function)


def _by_tensor(name: str) -> Any:
    def function(
        input: Any,
        *,
        generator: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Any:
        kind, where = kind_and_device(input, dtype, device)
        result = _drawn(name, tuple(input.shape), kind, generator, where)
        return result.requires_grad_() if requires_grad else result

    function.__name__ = function.__qualname__ = f"{name}_like"
    function.__doc__ = f"{'Uniform in [0, 1)' if name == 'rand' else 'Standard normal'}, of the shape of a tensor."
    return with_out(function)


rand, randn = _by_sizes("rand"), _by_sizes("randn")
rand_like, randn_like = _by_tensor("rand"), _by_tensor("randn")


def integers(low: Any, high: Any, shape: Any, dtype: Any, generator: Any, device: Any) -> Any:
    """Integers of [low, high) in any dtype; RuntimeError where there are none."""
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if high - low <= 1 << 32:
        return jg.astype(jg.random.randint(low, high, shape, generator=generator, device=device), dtype)
    upper, lower = (jg.random.randint(0, 1 << 32, shape, generator=generator, device=device) for _ in range(2))
    words = jg.astype(upper, jg.uint64) * (1 << 32) + jg.astype(lower, jg.uint64)
    return jg.astype(jg.astype(words % (high - low), jg.int64) + low, dtype)


@with_out
def randint(
    *numbers: Any,
    low: Any = 0,
    high: Any = None,
    size: Any = None,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Integers of [low, high), from 0 without ``low``: ``randint(low, high, size)`` or ``randint(high, size)``."""
    given = list(numbers)
    if size is None:
        size = given.pop()
    if len(given) == 2:
        low, high = given
    elif given:
        low, high = (low, given[0]) if high is None else (given[0], high)
    kind = jg.int64 if dtype is None else jg_dtype(dtype)
    shape = (size,) if isinstance(size, int) else tuple(size)
    result = integers(int(low), int(high), shape, kind, generator, target(device))
    return result.requires_grad_() if requires_grad else result


@with_out
def randint_like(
    input: Any,
    *bounds: Any,
    low: Any = 0,
    high: Any = None,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Any:
    """Integers of [low, high), from 0 without ``low``, of the shape and dtype of a tensor."""
    if len(bounds) == 2:
        low, high = bounds
    elif bounds:
        low, high = (low, bounds[0]) if high is None else (bounds[0], high)
    kind, where = kind_and_device(input, dtype, device)
    result = integers(int(low), int(high), tuple(input.shape), kind, generator, where)
    return result.requires_grad_() if requires_grad else result


@with_out
def randperm(
    n: Any,
    *,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """The numbers 0 to n - 1 in random order."""
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    order = jg.random.permutation(n, generator=generator, device=target(device))
    result = order if dtype is None else jg.astype(order, jg_dtype(dtype))
    return result.requires_grad_() if requires_grad else result


def _stopped(x: Any) -> Any:
    """A tensor without history, by which no gradient flows to a draw."""
    return wrap(x.value).detach() if isinstance(x, jg.Tensor) else x


@with_out
def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probabilities of a tensor, or all with ``p``; else 0."""
    kind = input._static.type.dtype
    chances = _stopped(input if p is None else jg.broadcast_to(jg.asarray(p), tuple(input.shape)))
    _require_float("bernoulli", kind)
    return jg.astype(jg.random.bernoulli(chances, generator=generator), kind)


@with_out
def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """Indices that are drawn with the weights of each row."""
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not dtypes.is_float(input._static.type.dtype):
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    return jg.random.multinomial(_stopped(input), num_samples, replacement, generator=generator)


@torch_function
def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson-distributed numbers of these rates."""
    _require_float("poisson", input._static.type.dtype)
    return jg.astype(jg.random.poisson(_stopped(input), generator=generator), input._static.type.dtype)


@torch_function
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of ``count`` trials succeed, each with probability ``prob``."""
    kind = count._static.type.dtype
    return jg.astype(jg.random.binomial(_stopped(count), _stopped(prob), generator=generator), kind)


@with_out
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Normal numbers of these means and standard deviations: tensors, or numbers and ``size``."""
    tensors = [x for x in (mean, std) if isinstance(x, jg.Tensor)]
    if not isinstance(std, jg.Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not tensors:
        kind, shape = dtype_or_default(dtype), (size,) if isinstance(size, int) else tuple(size)
    else:
        kind, shape = tensors[0]._static.type.dtype, jg.broadcast_shapes(*(tuple(x.shape) for x in tensors))
    unit = _drawn("randn", shape, kind, generator, target(device) if not tensors else tensors[0]._static.device)
    result = lifting.cast((jg.multiply(unit, _stopped(std)) + _stopped(mean)).value, kind)
    return wrap(result).requires_grad_() if requires_grad else wrap(result)
