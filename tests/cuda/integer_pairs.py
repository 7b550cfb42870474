"""Every first integer op before every second one, in one kernel, with the values where a narrow register shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jitgraph as jg

Operation = Callable[[Any], Any]

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

FIRST: dict[str, Operation] = {
    "neg": lambda x: -x,
    "abs": abs,
    "invert": lambda x: ~x,
    "add": lambda x: x + 100,
    "sub": lambda x: 100 - x,
    "mul": lambda x: x * 3,
    "square": lambda x: x * x,
    "shift_left": lambda x: x << 1,
    "max": lambda x: jg.maximum(x, 7),
    "xor": lambda x: x ^ 85,
}

SECOND: dict[str, Operation] = {
    "floor_divide": lambda x: x // 3,
    "remainder": lambda x: x % 3,
    "divide_by_two": lambda x: x // 2,
    "shift_right": lambda x: x >> 1,
    "shift_left": lambda x: x << 3,
    "sign": jg.sign,
    "neg": lambda x: -x,
    "abs": abs,
    "invert": lambda x: ~x,
    "add": lambda x: x + 1,
    "mul": lambda x: x * 5,
    "square": lambda x: x * x,
    "min": lambda x: jg.minimum(x, 5),
    "and": lambda x: x & 60,
    "less": lambda x: x < 3,
    "is_true": lambda x: x != 0,
    "sum": jg.sum,
    "cumsum": lambda x: jg.cumsum(x, axis=0),
    "greatest": jg.max,
    "int32": lambda x: x.astype("int32"),
    "uint32": lambda x: x.astype("uint32"),
    "int64": lambda x: x.astype("int64"),
}


def edges(dtype: str) -> Any:
    """The least and greatest values, those beside them and beside 0, and powers of two of both signs."""
    info = np.iinfo(dtype)
    powers = [sign * 2**k + more for k in range(info.bits) for sign in (1, -1) for more in (-1, 0, 1)]
    inside = sorted({v for v in (*powers, int(info.min), int(info.max)) if info.min <= v <= info.max})
    return np.array(inside, dtype)


def pair(first: str, second: str) -> Operation:
    """One op after the other."""
    return lambda x: SECOND[second](FIRST[first](x))


def of_one_dtype(firsts: list[str], seconds: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """All pairs of these ops, each as an output of one function."""
    return lambda x: tuple(pair(first, second)(x) for first in firsts for second in seconds)
