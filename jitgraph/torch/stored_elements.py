"""The elements of a tensor in its storage, as files describe them: sizes, strides and an offset, in elements.

Files may say anything, so what they say is checked before memory is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_LARGEST_REPEATED: Final = 1 << 24  # elements of a tensor that repeats those of its storage
_MOST_AXES: Final = 32


def require_within(
    available: int, sizes: tuple[Any, ...], strides: tuple[Any, ...], offset: Any, refused: Callable[[str], Exception]
) -> None:
    """Raise what ``refused`` makes of a text, unless the tensor lies in a storage of ``available`` elements."""
    numbers = (offset, *sizes, *strides)
    if len(sizes) != len(strides) or any(type(n) is not int or n < 0 for n in numbers):
        raise refused(f"a tensor with the sizes {sizes} and strides {strides}")
    if len(sizes) > _MOST_AXES:
        raise refused(f"a tensor of {len(sizes)} dimensions")
    count = math.prod(sizes)
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    if count > max(available, _LARGEST_REPEATED):
        raise refused(f"a tensor of {count} elements in a storage of {available}")
    if (count and last >= available) or offset > available:
        raise refused(f"a tensor reaches element {last} of a storage of {available}")


def part_of(
    values: np.ndarray[Any, Any], sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> np.ndarray[Any, Any]:
    """The tensor as a read-only view of the elements of its storage, within which ``require_within`` has found it."""
    steps = tuple(step * values.itemsize for step in strides)
    return np.lib.stride_tricks.as_strided(values[offset:], sizes, steps, writeable=False)
