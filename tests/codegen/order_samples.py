"""The order of a sum as its definition says it, and kernels in text over a dtype T whose reduce loops have one.

SLOTS, CHAIN and PART stand for numbers, WIDTH for a number or a size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def ordered(x: Array, slots: int, chain: int) -> Array:
    """The sum of a vector in slots, chains and a tree; -0.0 for none."""
    step = slots * chain
    chunks = []
    for start in range(0, max(1, len(x)), step):
        chunk = np.full(slots, -0.0, x.dtype)
        for k in range(start, min(start + step, len(x)), slots):
            part = x[k : k + slots]
            chunk[: len(part)] += part
        chunks.append(chunk)

    def tree(run: list[Array]) -> Array:
        half = 1 << ((len(run) - 1).bit_length() - 1) if len(run) > 1 else 0
        return tree(run[:half]) + tree(run[half:]) if half else run[0]  # type: ignore[no-any-return]

    total = tree(chunks)
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    return total[0]  # type: ignore[no-any-return]


ROW = """
kernel @row(read x: T[m*n], write y: T[m]) sizes(m, n) {
  parallel _i0 < m {
    _v0: T = const -0.0
    _v1: T = reduce _i1 < n lanes SLOTS chain CHAIN carry(_v2: T = _v0) {
      _v3: T = load x[n*_i0 + _i1]
      next _v3
    } combine(_v4: T with _v5: T) {
      _v6: T = add(_v4, _v5)
      next _v6
    }
    store y[_i0] = _v1
  }
}
"""

COLUMN = """
kernel @column(read x: T[m*n], write y: T[m]) sizes(m, n) {
  vector _i0 < m {
    _v0: T = const -0.0
    _v1: T = reduce _i1 < n chain CHAIN carry(_v2: T = _v0) {
      _v3: T = load x[m*_i1 + _i0]
      next _v3
    } combine(_v4: T with _v5: T) {
      _v6: T = add(_v4, _v5)
      next _v6
    }
    store y[_i0] = _v1
  }
}
"""

SHORT_ROWS = """
kernel @short_rows(read x: T[WIDTH*n], read w: T[n], write y: T[1]) sizes(n) {
  _v0: T = const -0.0
  _v1: T = reduce _i0 < n chain CHAIN carry(_v2: T = _v0) {
    _v3: T = load w[_i0]
    _v4: T = reduce _i1 < WIDTH lanes SLOTS chain CHAIN carry(_v5: T = _v0) {
      _v6: T = load x[WIDTH*_i0 + _i1]
      _v7: T = mul(_v6, _v3)
      next _v7
    } combine(_v8: T with _v9: T) {
      _v10: T = add(_v8, _v9)
      next _v10
    }
    _v11: T = sub(_v4, _v3)
    next _v11
  } combine(_v12: T with _v13: T) {
    _v14: T = add(_v12, _v13)
    next _v14
  }
  store y[0] = _v1
}
"""

PARTS = """
kernel @parts(read x: T[n], readwrite w: T[SLOTS*((n + PART - 1) // PART)], write y: T[1]) sizes(n) {
  parallel _i0 < (n + PART - 1) // PART {
    _v0: T = const -0.0
    _v1: T = reduce _i1 < n from PART*_i0 span PART lanes SLOTS chain CHAIN carry(_v2: T = _v0) {
      _v3: T = load x[_i1]
      next _v3
    } combine(_v4: T with _v5: T) {
      _v6: T = add(_v4, _v5)
      next _v6
    } slots _i2 {
      store w[SLOTS*_i0 + _i2] = _v1
    }
  }
  _v7: T = const -0.0
  _v8: T = reduce _i3 < SLOTS lanes SLOTS chain 1 carry(_v9: T = _v7) {
    _v10: T = reduce _i4 < (n + PART - 1) // PART chain 1 carry(_v11: T = _v7) {
      _v12: T = load w[SLOTS*_i4 + _i3]
      next _v12
    } combine(_v13: T with _v14: T) {
      _v15: T = add(_v13, _v14)
      next _v15
    }
    next _v10
  } combine(_v16: T with _v17: T) {
    _v18: T = add(_v16, _v17)
    next _v18
  }
  store y[0] = _v8
}
"""


def order_sample(text: str, short: str, slots: int, chain: int, part: int = 0, width: int | str = 0) -> str:
    """The text of a sample for a dtype and an order."""
    for word, value in (("SLOTS", slots), ("CHAIN", chain), ("PART", part), ("WIDTH", width)):
        text = text.replace(word, str(value))
    return text.replace(": T", f": {short}")
