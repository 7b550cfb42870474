"""Numbers that vary where a graph needs a size, or a parameter of an op."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.errors import ShapeError
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.tensor import scalars
from jitgraph.tracing.symbolic.number import SymbolicNumber


def to_dim(x: Any) -> DimLike:
    """The size that ``x`` (an int, a number that varies or a Dim) means; ShapeError for anything else."""
    if isinstance(x, Dim):
        return x
    if scalars.is_named_size(x):
        return x.dim  # type: ignore[no-any-return]
    if isinstance(x, bool) or not isinstance(x, int | np.integer):
        raise ShapeError(f"a size must be an integer, not {x!r}")
    return int(x)


def without_numbers(value: Any) -> Any:
    """An attribute of an op with plain numbers, to which they are held."""
    if scalars.is_computed(value):
        value.__index__()  # raises
    if type(value) is SymbolicNumber:
        return value.hold("{} as a parameter of an operation")
    if type(value) is tuple and any(type(x) in (SymbolicNumber, tuple) for x in value):
        return tuple(map(without_numbers, value))
    return value
