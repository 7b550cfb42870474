"""Index expressions over arrays of int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.ir.dims import Atom, DimLike, Mod

Array = NDArray[Any]


def evaluate_index(index: DimLike, lookup: Callable[[str], Array]) -> Array:
    """The value of ``index`` where a name has the value ``lookup(name)``; division by zero gives 0."""
    if isinstance(index, int):
        return np.asarray(index, np.int64)
    total: Array = np.asarray(0, np.int64)
    for monomial, coefficient in index.terms.items():
        product: Array = np.asarray(coefficient, np.int64)
        for atom in monomial:
            product = np.asarray(product * _atom(atom, lookup))
        total = np.asarray(total + product)
    return total


def _atom(atom: Atom, lookup: Callable[[str], Array]) -> Array:
    if isinstance(atom, str):
        return lookup(atom)
    numerator, denominator = evaluate_index(atom.numerator, lookup), evaluate_index(atom.denominator, lookup)
    with np.errstate(divide="ignore"):
        return np.asarray((np.remainder if isinstance(atom, Mod) else np.floor_divide)(numerator, denominator))
