"""The tables of docs/accuracy.md: ``python -m bench accuracy`` prints them, in some 15 minutes.

``python -m bench.accuracy TABLE ...`` prints some, ``python -m bench.accuracy --write [TABLE ...]`` puts them into the
page, between the comments that name them there. Tables: math, special, linalg. Needs mpmath.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bench import accuracy_float32, accuracy_linalg, accuracy_math, accuracy_special

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
STRIDE = 509
"""Between the float32 patterns that are tried."""


def math() -> None:
    """Every function of ``jitgraph/ops/math_functions``: at many float32 patterns, and against 50 digits."""
    print("| function | float32, patterns | float32, 50 digits | float64, 50 digits | worst float64 argument found |")
    print("| --- | --- | --- | --- | --- |")
    for name in sorted(accuracy_math.FUNCTIONS):
        (single, _), (double, where) = (accuracy_math.worst(name, dtype, 4000) for dtype in (np.float32, np.float64))
        patterns = "-"
        if name not in accuracy_float32.UNMEASURED:
            with np.errstate(all="ignore"):
                error, _, _ = accuracy_float32.measure(name, STRIDE * accuracy_float32.SLOW.get(name, 1))
            patterns = f"{error:.2f}"
        print(f"| {name} | {patterns} | {single:.2f} | {double:.2f} | {where} |", flush=True)


TABLES: Mapping[str, Callable[[], None]] = {
    "math": math,
    "special": accuracy_special.main,
    "linalg": accuracy_linalg.main,
}


class _Both(io.StringIO):
    """What is printed, kept as well."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        return super().write(text)


def written(page: str, name: str, table: str) -> str:
    """The page with the table of that name replaced."""
    begin, end = f"<!-- {name}: python -m bench accuracy -->\n", f"\n<!-- end of {name} -->"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    actual, count = re.subn(pattern, lambda _: begin + table.rstrip("\n") + end, page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{PAGE.name} has {count} places for the table {name}")
    return actual


def main(arguments: list[str] | None = None) -> int:
    arguments = arguments or []
    write = "--write" in arguments
    names = [name for name in arguments if name != "--write"] or list(TABLES)
    if unknown := set(names) - set(TABLES):
        print(f"no table {min(unknown)!r}; there are {', '.join(TABLES)}")
        return 2
    for name in names:
        both = _Both()
        with contextlib.redirect_stdout(both):
            TABLES[name]()
        if write:
            PAGE.write_text(written(PAGE.read_text(), name, both.getvalue()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
