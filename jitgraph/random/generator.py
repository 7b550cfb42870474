"""Streams of random words: a generator's state is one tensor ``u64[2]`` of seed and counter.

Philox4x32-10 keyed by a seed: each call advances the counter by the blocks of four words that it used, so that a stream
is the same eager, traced, on any target. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, migration_hints, ops
from jitgraph.autograd import no_grad
from jitgraph.eager import streams
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.types import Constant
from jitgraph.ops.distributions import words_used
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.lifting import TensorLike


class Generator:
    """A separate stream of random numbers; ``jg.random``'s functions use a global one."""

    def __init__(self, seed: int = 0) -> None:
        self.state = wrap(EagerValue(_state(seed)))
        streams.register(self.state)

    def __getattr__(self, name: str) -> Any:
        hint = migration_hints.advice("g", name)
        raise AttributeError(f"a Generator has no attribute {name!r}{hint}")

    def seed(self, seed: int) -> None:
        """Begin the stream that belongs to ``seed`` (0 to 2**64 - 1) anew."""
        self.state._rebind(lifting.value_of(_state(seed)))

    def key(self, words: DimLike) -> Any:
        """The key (a ``u64[2]`` value) for the next ``words`` 32-bit words, which are then used up."""
        value = self.state.value
        with no_grad():
            self.state._rebind(ops.add(value, step_of(words)))
        return value

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that ``jg.save`` takes as state, by name."""
        yield "state", self.state

    def get_state(self) -> Tensor:
        """Where the stream stands, a ``uint64[2]`` of seed and counter, for ``set_state``."""
        return self.state.clone()  # type: ignore[no-any-return]

    def set_state(self, state: TensorLike) -> None:
        """Go on where ``get_state`` was asked. JitgraphError for what is no ``uint64[2]``."""
        value = lifting.value_of(state)
        if value.type != self.state.value.type:
            raise JitgraphError(f"a state is what get_state gave, uint64[2], not {value.type}")
        self.state._rebind(value)


def step_of(words: DimLike) -> Any:
    """What is added to a key (``u64[2]``) to go past the blocks of so many words."""
    blocks = -(-words // 4)
    if isinstance(blocks, int):
        if context.current().emitter is EAGER:
            return _eager_step(blocks)
        return ops.constant(value=Constant(np.array([0, blocks], np.uint64)))
    size = lifting.cast(context.current().trace.size_value(blocks), dtypes.uint64)
    return ops.concat(lifting.constant(0, dtypes.uint64, (1,)), ops.reshape(size, shape=(1,)), axis=0)


@lru_cache(maxsize=64)
def _eager_step(blocks: int) -> EagerValue:
    return EagerValue(np.array([0, blocks], np.uint64))


def _state(seed: int) -> np.ndarray[Any, Any]:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise JitgraphError(f"a seed is an int between 0 and 2**64 - 1, not {seed!r}")
    return np.array([seed, 0], np.uint64)


_GLOBAL: Final = Generator(0)
streams.set_default(_GLOBAL.state)


def current(generator: Generator | None) -> Generator:
    return generator or context.current().random or _GLOBAL


def seed(value: int) -> None:
    """Restart the global stream from a seed.

    ``value`` is an int from 0 to 2**64 - 1, else JitgraphError.
    """
    current(None).seed(value)


def get_state() -> Tensor:
    """The state of the global stream, a ``uint64[2]`` for ``set_state``."""
    return current(None).get_state()


def set_state(state: TensorLike) -> None:
    """Restore the state of the global stream from ``get_state``. JitgraphError unless it is a ``uint64[2]``."""
    current(None).set_state(state)


def stream_key(generator: Generator | None = None) -> Any:
    """The key of a stream of its own, for what uses as many words as it turns out to need.

    Its seed is two words of the generator's stream, which goes on by one block, however many the new one gives.
    """
    words = lifting.cast(ops.random_bits(current(generator).key(4), shape=(2,)), dtypes.uint64)
    shift = ops.constant(value=Constant(np.array([0, 32], np.uint64)))
    number = ops.reduce_sum(ops.shift_left(words, shift), axes=(0,))
    return ops.concat(ops.reshape(number, shape=(1,)), lifting.constant(0, dtypes.uint64, (1,)), axis=0)


def next_key(shape: Any, dtype: dtypes.DType, *, normal: bool = False, generator: Generator | None = None) -> Any:
    """The key for one call of ``ops.uniform`` (or ``ops.normal``) of this shape and dtype; it is used once."""
    return current(generator).key(words_used(tuple(shape), dtype, normal=normal))
