"""Uniform and normal numbers, integers, truth values and orders."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import JitgraphError
from jitgraph.ir import dims
from jitgraph.random.draws import numbers, words
from jitgraph.random.generator import Generator, current, next_key
from jitgraph.random.parameters import at, device_of, drawn, kind_of, moved
from jitgraph.tensor import Tensor, lifting, scalars, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import take
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import argsort
from jitgraph.tensor.lifting import TensorLike


def _refuse_shape(name: str, *numbers: Any) -> None:
    """JitgraphError where a shape stands behind, as NumPy has it."""
    if any(isinstance(number, tuple | list) for number in numbers):
        form = "shape, low, high" if name == "uniform" else "shape, mean, std"
        raise JitgraphError(f"{name}: the shape comes first\n  hint: jg.random.{name}({form})")


@array_function
def uniform(
    shape: Any = (),
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [low, high), float32 unless ``dtype`` is given; the bounds are numbers or 0-d tensors.

    On every ``device`` the numbers are the same.
    """
    _refuse_shape("uniform", low, high)
    sizes, kind = shape_of(shape), kind_of(dtype)
    unit = drawn(ops.uniform, sizes, kind, generator, device)
    if scalars.is_scalar(low) and scalars.is_scalar(high) and (low, high) == (0, 1):
        return unit
    start, stop = (wrap(lifting.cast(lifting.value_of(bound, kind), kind)) for bound in (low, high))
    scaled = unit * (stop - start) + start
    return where(scaled < stop, scaled, start)  # what rounds up to the end goes to the start


@array_function
def normal(
    shape: Any = (),
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with this mean and standard deviation, float32 unless ``dtype`` is given; on every ``device`` the same."""
    _refuse_shape("normal", mean, std)
    sizes, kind = shape_of(shape), kind_of(dtype)
    key = at(device, next_key(sizes, kind, normal=True, generator=generator))
    return moved(wrap(numbers(ops.normal, key, sizes, kind)), mean, std)


@array_function
def randint(
    low: int,
    high: int,
    shape: Any = (),
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high), int64 unless ``dtype`` is given; the span is at most 2**32."""
    low, high = scalars.python_int(low), scalars.python_int(high)
    if not 0 < high - low <= 2**32:
        raise JitgraphError(f"randint: [{low}, {high}) is empty or spans more than 2**32 numbers")
    sizes, kind = shape_of(shape), dtypes.int64 if dtype is None else dtypes.canonical(dtype)
    for bound in (low, high - 1):
        scalars.require_representable(bound, kind)
    bits = words(at(device, current(generator).key(dims.product(sizes))), sizes)
    wide = wrap(lifting.cast(bits, dtypes.uint64))
    scaled = (wide * (high - low)) >> 32  # Lemire 2019, without the rejection: biased by less than span / 2**32
    return (scaled.astype(dtypes.int64) + low).astype(kind)  # type: ignore[no-any-return]


def bernoulli(p: TensorLike, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """True with probability ``p`` (a number or a tensor), of ``shape`` or that of ``p``.

    JitgraphError for a Python number that does not lie between 0 and 1; of a tensor one below counts as 0, above as 1.
    """
    if isinstance(p, int | float) and not 0.0 <= p <= 1.0:
        raise JitgraphError(f"bernoulli: p={p} is not a probability")
    sizes = shape if shape is not None else getattr(p, "shape", ())
    return uniform(sizes, generator=generator, device=device_of(p)) < p


@array_function
def permutation(
    n: Any, *, generator: Generator | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """The numbers 0 to n - 1 in random order (int64), or the rows of a tensor in random order.

    The order is that of n random words, equal ones as they come.
    """
    if isinstance(n, Tensor):
        return take(n, permutation(n.shape[0], generator=generator, device=device or device_of(n)), axis=0)
    key = at(device, current(generator).key(dims.product(shape_of(n))))
    return argsort(wrap(words(key, shape_of(n))))
