"""The watch of ``jg.detect_anomaly()``: which op makes a NaN or an infinity of operands that are all finite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jitgraph.dtypes import is_inexact
from jitgraph.errors import AnomalyError


def check_finite(name: str, operands: Iterable[Any], results: Sequence[Any]) -> None:
    """AnomalyError with the index of the first result that is not finite, where all operands are; both are arrays."""
    finite = None
    for array in results:
        if not isinstance(array, np.ndarray) or not is_inexact(array.dtype):
            continue
        bad = ~np.isfinite(_wide(array))
        if not bad.any():
            continue
        if finite is None:
            finite = all(np.isfinite(_wide(x)).all() for x in operands if isinstance(x, np.ndarray))
        if finite:
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise AnomalyError(f"{name} gave {array[index]} at index {index}")


def _wide(array: Any) -> Any:
    """An array as NumPy tests it, which does not know bfloat16."""
    return array if array.dtype.kind == "c" else array.astype(np.float64)
