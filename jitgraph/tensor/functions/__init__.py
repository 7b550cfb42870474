"""The array functions of ``jg``; importing this package attaches the methods of Tensor."""

from __future__ import annotations

from jitgraph.tensor.functions import (
    complex_numbers,
    creation,
    elementwise,
    later,
    linear_algebra,
    manipulation,
    method,
    reductions,
    shapes,
)

_MODULES = (elementwise, reductions, linear_algebra, shapes, manipulation, creation, complex_numbers)

_LOADED = {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
}
FUNCTIONS = later.ArrayFunctions({name: value for name, value in _LOADED.items() if hasattr(value, "__wrapped__")})
later.attach()

__all__ = [
    "FUNCTIONS",
    "complex_numbers",
    "creation",
    "elementwise",
    "later",
    "linear_algebra",
    "manipulation",
    "method",
    "reductions",
    "shapes",
]
