"""``torch.random``: generators of random numbers and their seeds; the stream of numbers is jitgraph's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

import jitgraph as jg
from jitgraph.random import generator as streams
from jitgraph.torch import metadata
from jitgraph.torch.tensors import Tensor


class Generator(jg.random.Generator):
    """A stream of random numbers of its own."""

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(_UNSEEDED)
        self.device = metadata.device(device)

    def manual_seed(self, seed: int) -> Generator:
        """Begin the stream that belongs to a seed; negative ones count from 2**64 down. Gives the generator."""
        super().seed(_unsigned(seed))
        return self

    def seed(self) -> int:  # type: ignore[override]
        """Begin a stream that chance chooses; gives its seed."""
        number = secrets.randbits(64)
        super().seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return int(self.state.numpy()[0])

    def get_state(self) -> Tensor:
        """Where the stream stands, as bytes for ``set_state``."""
        return Tensor._of(jg.asarray(np.array(self.state.numpy()).view(np.uint8)).value)

    def set_state(self, state: Any) -> Generator:  # type: ignore[override]
        """Go on where ``get_state`` was asked."""
        data = np.asarray(state.numpy())
        if data.dtype != np.uint8:
            raise TypeError("expected a torch.ByteTensor, but got " + state.type())
        if data.size != 16:
            raise RuntimeError(f"RNG state is wrong size: {data.size} bytes, where get_state() gives 16")
        super().set_state(data.view(np.uint64))
        return self

    def clone_state(self) -> Generator:
        """A generator that goes on from where this one stands."""
        other = Generator(self.device)
        other.set_state(self.get_state())
        return other

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: Generator) -> None:
        """Go on where another generator stands."""
        self.set_state(state.get_state())

    def __reduce__(self) -> Any:
        return _restored, (str(self.device), self.get_state().numpy().tobytes())


_UNSEEDED: Final = 67280421310721  # the seed of a generator that was given none, as in PyTorch


def _restored(device: str, state: bytes) -> Generator:
    result = Generator(device)
    result.set_state(Tensor._of(jg.asarray(np.frombuffer(state, np.uint8)).value))
    return result


def _unsigned(seed: Any) -> int:
    number = int(seed)
    if not -(2**63) <= number < 2**64:
        raise RuntimeError(f"Overflow when unpacking long long: a seed is between -2**63 and 2**64 - 1, not {number}")
    return number % 2**64


class _Default(Generator):
    """The generator of functions that are given none: jitgraph's global stream."""

    def __init__(self) -> None:
        self.device = metadata.device("cpu")

    @property
    def state(self) -> Any:  # type: ignore[override]
        return streams.current(None).state


default_generator: Final = _Default()


def manual_seed(seed: int) -> Generator:
    """Begin the stream of a seed in the default generator, which is given back."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Begin a stream that chance chooses in the default generator; gives its seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Where the default generator stands, as bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Let the default generator go on where ``get_rng_state`` was asked."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """A block after which the default generator stands where it stood before."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """The generator of a worker of a data loader, None elsewhere."""
    return None
