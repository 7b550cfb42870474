"""What a case is: one call, written for jitgraph and for PyTorch, and its operands."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """``ours(jg, *operands)`` shall be ``theirs(torch, *operands)``.

    Operands that are arrays of float64 are differentiated; ``tolerance`` is relative to the largest element.
    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    operands: tuple[np.ndarray[Any, Any], ...]
    tolerance: float = 1e-9
    traced: bool = True
    gradient: bool = True
    second: bool = True


def case(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any] | None, *operands: Any, **options: Any
) -> Case:
    """A case; ``theirs`` is None where PyTorch is called in the same way.

    An operand is an array, a shape (of normal numbers), or a function of a generator that makes one.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    arrays = tuple(_operand(rng, operand) for operand in operands)
    return Case(name, ours, theirs or ours, arrays, **options)


def _operand(rng: np.random.Generator, argument: Any) -> np.ndarray[Any, Any]:
    if isinstance(argument, tuple):
        return np.asarray(rng.normal(size=argument))
    return np.asarray(argument(rng) if callable(argument) else argument)


def uniform(shape: tuple[int, ...], low: float = 0.1, high: float = 0.9) -> Callable[[np.random.Generator], Any]:
    """Uniform numbers, for functions that are not defined everywhere."""
    return lambda rng: rng.uniform(low, high, shape)


def integers(shape: tuple[int, ...], low: int, high: int) -> Callable[[np.random.Generator], Any]:
    """Integers from ``low`` to ``high - 1``, as indices or operands."""
    return lambda rng: rng.integers(low, high, shape)


def positive(shape: tuple[int, ...]) -> Callable[[np.random.Generator], Any]:
    """Numbers from 0.3 to 3."""
    return uniform(shape, 0.3, 3.0)
