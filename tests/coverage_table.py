"""What the loop over the op table has tried: counts of samples by op and way of running, printed after the run.

Tests call ``note``; each pytest worker hands its counts to the process that prints. A line a family is always printed;
the whole table goes to a file, and with ``--coverage-table`` to the terminal too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.ir.op import Op
from jitgraph.ops import OPS

COLUMNS = ("eager", "interpreter", "executor", "native", "named sizes", "gradient", "programs")
CORNERS = {
    "0": lambda x: x.ndim == 0,
    "e": lambda x: x.size == 0,
    "s": lambda x: not x.flags.c_contiguous,
    "n": lambda x: dtypes.is_float(x.dtype) and bool(np.isnan(x.astype(np.float64)).any()),
    "i": lambda x: dtypes.is_float(x.dtype) and bool(np.isinf(x.astype(np.float64)).any()),
    "-": lambda x: dtypes.is_float(x.dtype) and bool(((x == 0) & np.signbit(x.astype(np.float64))).any()),
    "x": lambda x: dtypes.is_integer(x.dtype) and bool((x == np.iinfo(x.dtype).max).any()),
}
LEGEND = "corners: 0-d, empty, strided, NaN, infinite, -0.0, integer extremes (0 e s n i - x)"

counts: Counter[tuple[str, str]] = Counter()


def note(op: str, column: str, samples: int = 1) -> None:
    """``samples`` more samples of ``op`` have come out right."""
    assert column in COLUMNS, column
    counts[op, column] += samples


def reason(op: Op, column: str) -> str | None:
    """Why a column does not apply to an op; None where it does."""
    if op.name == "grad":
        return "a transform, gone before anything runs"
    if "called_by_name" in op.traits:
        return "stands for a function of the user's: tried in tests/tensor/test_custom_op.py"
    if column == "programs" and op.name in ("stack_new", "stack_push", "stack_pop", "full", "iota", "constant"):
        return "takes no float that a gradient could reach"
    if op.name in ("stack_new", "stack_push", "stack_pop", "token", "print") and column not in (
        "interpreter",
        "gradient",
    ):
        return "tokens and stacks live inside graphs: tried in programs"
    if column == "named sizes" and (op.kind in ("control", "effect")):
        return "regions and tokens have no shape of their own"
    if column == "named sizes" and op.name == "constant":
        return "a constant's shape is concrete"
    if column in ("gradient", "programs") and (op.effect != "none" or "nondifferentiable" in op.traits):
        return "no gradient passes"
    if _is_complex(op) and (column in ("executor", "programs") or (column == "gradient" and op.vjp is None)):
        return "taken apart by a pass before there are kernels: its gradients are in tests/tensor/test_complex.py"
    return None


@cache
def _is_complex(op: Op) -> bool:
    """Whether an op takes or gives complex numbers in all of its samples."""
    samples = op.samples(dtypes.float32) if op.samples is not None else ()
    results = [x for sample in samples for x in sample.inputs if isinstance(x, np.ndarray)]
    return op.name in ("complex", "rfft") or (bool(results) and all(dtypes.is_complex(x.dtype) for x in results))


def dump() -> list[tuple[str, str, int]]:
    """The counts of this process, as plain data."""
    return [(op, column, count) for (op, column), count in counts.items()]


def merge(actual: Iterable[tuple[str, str, int]]) -> None:
    """Add the counts of another process."""
    for op, column, count in actual:
        counts[op, column] += count


def corners(op: Op) -> str:
    """Which corners the op's samples reach, a letter each."""
    arrays = [
        np.asarray(x)
        for dtype in dtypes.DTYPES
        for sample in (op.samples(dtype) if op.samples else ())
        for x in sample.inputs
        if isinstance(x, np.ndarray | np.generic)
    ]
    return "".join(letter for letter, holds in CORNERS.items() if any(map(holds, arrays)))


def short() -> list[str]:
    """A line for each family of ops, and the gaps."""
    families: dict[str, list[Op]] = {}
    for op in OPS.values():
        families.setdefault(op.kind, []).append(op)
    lines = [_line("family", "ops", COLUMNS)]
    for family, members in families.items():
        lines.append(_line(family, str(len(members)), [_sum(members, column) for column in COLUMNS]))
    lines.append(_line("all", str(len(OPS)), [_sum(OPS.values(), column) for column in COLUMNS]))
    tried = {column for (_, column), count in counts.items() if count}
    for column in COLUMNS:
        absent = [op.name for op in OPS.values() if not counts[op.name, column] and not reason(op, column)]
        if column in tried and absent:
            lines.append(f"not tried in {column}: {', '.join(absent)}")
    return lines


def full() -> list[str]:
    """A line for each op; ``-`` and why where a column does not apply."""
    lines = [LEGEND, _line("op", "dtypes", COLUMNS) + "  corners"]
    for name, op in OPS.items():
        kinds = sum(bool(op.samples and op.samples(dtype)) for dtype in dtypes.DTYPES)
        cells = [str(counts[name, column] or ("-" if reason(op, column) else "0")) for column in COLUMNS]
        why: Mapping[str, Any] = dict.fromkeys(
            r for column in COLUMNS if not counts[name, column] and (r := reason(op, column))
        )
        lines.append(_line(name, str(kinds), cells) + f"  {corners(op):7}  {'; '.join(why)}".rstrip())
    return lines


def _sum(members: Iterable[Op], column: str) -> str:
    return str(sum(counts[op.name, column] for op in members))


def _line(first: str, second: str, rest: Iterable[str]) -> str:
    return f"{first:24} {second:>6} " + " ".join(f"{cell:>12}" for cell in rest)
