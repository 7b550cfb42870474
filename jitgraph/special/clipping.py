"""Arguments of formulas that hold between two ends, and are chosen by ``where``."""

from __future__ import annotations

import math

from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.elementwise import where


def clipped(x: Tensor, low: float = -math.inf, high: float = math.inf) -> Tensor:
    """``x`` between two ends. At an end itself it has the slope of x, of which ``maximum`` would give the end half."""
    below = x if low == -math.inf else where(x < low, low, x)
    return below if high == math.inf else where(x > high, high, below)
