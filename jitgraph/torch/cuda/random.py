"""``torch.cuda.random``: seeds. One generator serves all devices here; without a GPU these functions leave it alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgraph import cuda
from jitgraph.torch import random


def manual_seed(seed: int) -> None:
    """Seed the generator where there is a GPU."""
    if cuda.is_available():
        random.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seed the generator by chance where there is a GPU."""
    if cuda.is_available():
        random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the generator."""
    return random.initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the generator."""
    return random.get_rng_state()


def get_rng_state_all() -> list[Any]:
    """The state of the generator for each device."""
    return [get_rng_state() for _ in range(cuda.device_count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set the state of the generator."""
    random.set_rng_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the state of the generator to the one that ``get_rng_state_all`` gave."""
    for state in new_states:
        set_rng_state(state)
