"""Arrays that are more than their elements (masked ones, matrices, quantities), and arrays of other libraries.

An array is ``numpy.ndarray`` itself or a memory map, which is one. What another subclass adds (a mask, a unit, another
meaning of ``*``) would be lost without a word, so it is refused with the way to say what is meant.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.errors import DTypeError, TraceError
from jitgraph.location import Location

PLAIN: Final = frozenset({np.ndarray, np.memmap})
_PROTOCOLS: Final = ("__array__", "__dlpack__", "__array_interface__", "__cuda_array_interface__")


def require_plain(array: np.ndarray[Any, Any], text: str = "the operand") -> None:
    """DTypeError for a subclass of ``numpy.ndarray`` that is more than its elements; ``text`` names the array."""
    if type(array) in PLAIN:
        return
    if isinstance(array, np.ma.MaskedArray):
        raise DTypeError(
            f"{text} is a masked array, whose mask would be dropped",
            hint=f"{_name(text)}.filled(value), or jg.where(mask, value, data) of its mask and its data",
        )
    if isinstance(array, np.matrix):
        raise DTypeError(
            f"{text} is a numpy.matrix, whose * is a product of matrices", hint=f"np.asarray({_name(text)}) and @"
        )
    raise DTypeError(
        f"{text} is a {_kind(array)}, and what that is beside its elements would be dropped",
        hint=f"np.asarray({_name(text)}) for the elements alone",
    )


def is_array(x: Any) -> bool:
    """Whether x, which is no array of NumPy's, offers its elements as an array of another library does."""
    if isinstance(x, np.ndarray | np.generic | type):
        return False
    kind = type(x)
    return any(hasattr(kind, protocol) for protocol in _PROTOCOLS)


def refuse(x: Any, text: str, location: Location | None = None) -> None:
    """TraceError for an array of another library, which a trace would keep with the elements that it has now."""
    if not is_array(x):
        return
    ways = [f"{text}.{method}()" for method in ("numpy", "to_numpy") if hasattr(type(x), method)]
    raise TraceError(
        f"{text} is a {_kind(x)}: a traced function would keep the elements that it has now",
        location=location,
        hint=f"pass {' or '.join(ways) or f'np.asarray({text})'} as an argument",
    )


def _kind(x: object) -> str:
    kind = type(x)
    return f"{kind.__module__}.{kind.__qualname__}"


def _name(text: str) -> str:
    return "x" if " " in text else text
