"""Random tensors from a counter: Philox4x32-10 keyed by a seed; a stream is the same eager, traced, on any target.

The state is one tensor ``u64[2]`` of seed and counter; each call advances the counter by the blocks of four words that
it used. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import dtypes, migration_hints, ops
from jitgraph.autograd import no_grad
from jitgraph.eager.value import EagerValue
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ir import context, dims
from jitgraph.ir.constant import Constant
from jitgraph.ir.dims import DimLike
from jitgraph.ops.distributions import words_used
from jitgraph.tensor import Tensor, lifting, scalars, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import take
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import argsort
from jitgraph.tensor.lifting import TensorLike

__all__ = ["Generator", "bernoulli", "normal", "permutation", "randint", "seed", "uniform"]


class Generator:
    """A stream of random numbers of its own; ``jg.random``'s functions use a global one."""

    def __init__(self, seed: int = 0) -> None:
        self.state = wrap(EagerValue(_state(seed)))

    def seed(self, seed: int) -> None:
        """Begin the stream that belongs to ``seed`` (0 to 2**64 - 1) anew."""
        self.state._rebind(lifting.value_of(_state(seed)))

    def key(self, words: DimLike) -> Any:
        """The key (a ``u64[2]`` value) for the next ``words`` 32-bit words, which are then used up."""
        value = self.state.value
        blocks = -(-words // 4)
        if isinstance(blocks, int):
            step: Any = ops.constant(value=Constant(np.array([0, blocks], np.uint64)))
        else:
            size = lifting.cast(context.current().trace.size_value(blocks), dtypes.uint64)
            step = ops.concat(lifting.constant(0, dtypes.uint64, (1,)), ops.reshape(size, shape=(1,)), axis=0)
        with no_grad():
            self.state._rebind(ops.add(value, step))
        return value


def _state(seed: int) -> np.ndarray[Any, Any]:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise JitgraphError(f"a seed is an int between 0 and 2**64 - 1, not {seed!r}")
    return np.array([seed, 0], np.uint64)


_GLOBAL: Final = Generator(0)


def _current(generator: Generator | None) -> Generator:
    return generator or context.current().random or _GLOBAL


def seed(value: int) -> None:
    """Begin the global stream anew.

    ``seed`` is an int from 0 to 2**64 - 1, else JitgraphError.
    """
    _current(None).seed(value)


def next_key(shape: Any, dtype: dtypes.DType, *, normal: bool = False, generator: Generator | None = None) -> Any:
    """The key for one call of ``ops.uniform`` (or ``ops.normal``) of this shape and dtype, which is then used up."""
    return _current(generator).key(words_used(tuple(shape), dtype, normal=normal))


def _at(device: str | None, key: Any) -> Any:
    """A key on the device where numbers are to be drawn; the state stays where it is."""
    return key if device is None else wrap(key).to(device).value


def _place_of(x: Any) -> str | None:
    """Where a tensor lies, whose numbers are drawn there, too; None in a trace, which has one place."""
    return x.device if isinstance(x, Tensor) and context.current().trace is None else None


def _kind(dtype: Any) -> dtypes.DType:
    kind = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(kind):
        raise DTypeError(f"these random numbers are floats, not {kind.name}", hint="jg.random.randint for integers")
    return kind


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
) -> Tensor:
    """Uniform in [low, high), float32 unless ``dtype`` is given; the bounds are numbers or 0-d tensors.

    On every ``device`` the numbers are the same.
    """
    _refuse_shape("uniform", low, high)
    sizes, kind = shape_of(shape), _kind(dtype)
    key = _at(device, next_key(sizes, kind, generator=generator))
    unit = wrap(ops.uniform(key, shape=sizes, dtype=kind))
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
) -> Tensor:
    """Normal with this mean and standard deviation, float32 unless ``dtype`` is given; on every ``device`` the same."""
    _refuse_shape("normal", mean, std)
    sizes, kind = shape_of(shape), _kind(dtype)
    key = _at(device, next_key(sizes, kind, normal=True, generator=generator))
    unit = wrap(ops.normal(key, shape=sizes, dtype=kind))
    if scalars.is_scalar(mean) and scalars.is_scalar(std) and (mean, std) == (0, 1):
        return unit
    return (unit * std + mean).astype(kind)  # type: ignore[no-any-return]


def randint(
    low: int,
    high: int,
    shape: Any = (),
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
) -> Tensor:
    """Integers in [low, high), int64 unless ``dtype`` is given; the span is at most 2**32."""
    low, high = scalars.python_int(low), scalars.python_int(high)
    if not 0 < high - low <= 2**32:
        raise JitgraphError(f"randint: [{low}, {high}) is empty or spans more than 2**32 numbers")
    sizes, kind = shape_of(shape), dtypes.int64 if dtype is None else dtypes.canonical(dtype)
    for bound in (low, high - 1):
        scalars.require_representable(bound, kind)
    bits = ops.random_bits(_at(device, _current(generator).key(dims.product(sizes))), shape=sizes)
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
    return uniform(sizes, generator=generator, device=_place_of(p)) < p


def permutation(n: Any, *, generator: Generator | None = None, device: str | None = None) -> Tensor:
    """The numbers 0 to n - 1 in random order (int64), or the rows of a tensor in random order.

    The order is that of n random words, equal ones as they come.
    """
    if isinstance(n, Tensor):
        return take(n, permutation(n.shape[0], generator=generator, device=device or _place_of(n)), axis=0)
    key = _at(device, _current(generator).key(dims.product(shape_of(n))))
    words = ops.random_bits(key, shape=shape_of(n))
    return argsort(wrap(words))


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module 'jitgraph.random' has no attribute {name!r}{migration_hints.advice(name, migration_hints.RANDOM)}"
    )
