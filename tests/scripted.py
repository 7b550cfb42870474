"""Functions with loops and branches that depend on values, for ``jg.script`` in tests of several parts."""

from __future__ import annotations

from typing import Any

import jitgraph as jg


def collatz(n: Any) -> Any:
    """How many steps lead from ``n`` to 1: 16 from 7, 111 from 27."""
    steps = jg.asarray(0)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return steps
