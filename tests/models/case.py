"""One layer, loss or function of ``nn`` that both libraries have, and the arrays it is called with."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def call_of(lib: Any, module: Callable[..., Any], *inputs: Any) -> Any:
    """The plain call."""
    return module(*inputs)


@dataclass(frozen=True)
class LayerCase:
    """``make(lib)`` builds the module (or a function without parameters) from ``lib.nn``, lib being torch or jitgraph.

    inputs: float64 and integer arrays, of which the floats need gradients but for those numbered in ``fixed``.
    call: ``call(lib, module, *tensors)``. mode: "train" or "eval". tolerance: of the largest element. traced: whether
    the call has a trace. reason: why results differ, where they do.
    """

    name: str
    make: Callable[[Any], Callable[..., Any]]
    inputs: tuple[Array, ...]
    call: Callable[..., Any] = call_of
    mode: str = "train"
    tolerance: float = 1e-9
    traced: bool = True
    fixed: tuple[int, ...] = ()
    reason: str = ""


def modules() -> list[str]:
    """The names of the modules that have cases."""
    folder = str(Path(__file__).parent)
    return sorted(m.name for m in pkgutil.iter_modules([folder]) if m.name.endswith("_cases"))


def normal(*shape: int, seed: int = 0) -> Array:
    """Normal numbers in float64, the same for each shape and seed."""
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def positive(*shape: int, seed: int = 0) -> Array:
    """Numbers between 0.05 and 0.95 in float64."""
    return np.random.default_rng([seed, *shape]).uniform(0.05, 0.95, size=shape)


def labels(high: int, *shape: int, seed: int = 0) -> Array:
    """Integers from 0 to below ``high``."""
    return np.random.default_rng([seed, high, *shape]).integers(0, high, size=shape)
