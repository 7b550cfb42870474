"""Differences between two saved functions: of what they take and give, of graphs, of weights, and of results."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jitgraph.ir.printer import print_graph
from jitgraph.saved.reading import SavedModel


class ArrayDifference(NamedTuple):
    """How two arrays of one name differ; ``reason`` is for people, and empty where every bit is the same.

    ``largest`` is the greatest absolute difference and ``relative`` that by the greatest absolute value of the first
    array; NaN where a NaN or an infinity stands in one of them alone, or where shapes or dtypes differ.
    """

    name: str
    reason: str
    elements: int = 0
    differing: int = 0
    largest: float = 0.0
    relative: float = 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the arrays have the same bits, or differ by no more than ``tolerance`` times their greatest value."""
        return not self.reason or self.relative <= tolerance


def array_difference(name: str, a: NDArray[Any], b: NDArray[Any]) -> ArrayDifference:
    """Compare by bits: two NaNs of the same bits are equal, 0.0 and -0.0 are not."""
    if a.dtype != b.dtype or a.shape != b.shape:
        reason = f"{a.dtype.name}{list(a.shape)} and {b.dtype.name}{list(b.shape)}"
        return ArrayDifference(name, reason, max(a.size, b.size), max(a.size, b.size), np.nan, np.nan)
    if not a.size:
        return ArrayDifference(name, "")
    words = [np.ascontiguousarray(each).reshape(-1).view(np.uint8).reshape(each.size, -1) for each in (a, b)]
    unequal = (words[0] != words[1]).any(axis=1)
    differing = int(unequal.sum())
    if not differing:
        return ArrayDifference(name, "", a.size)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    left, right = a.reshape(-1).astype(wide), b.reshape(-1).astype(wide)
    with np.errstate(all="ignore"):
        gaps = np.abs(left[unequal] - right[unequal])
        same = (left[unequal] == right[unequal]) | (np.isnan(left[unequal]) & np.isnan(right[unequal]))
        gaps[same] = 0
        largest = float(gaps.max())
        finite = np.abs(left[np.isfinite(left)])
        scale = float(finite.max()) if finite.size else 0.0
        relative = largest / scale if scale else (0.0 if largest == 0 else np.inf)
    if not np.isfinite(largest):
        largest = relative = np.nan
    of = f"{differing} of {a.size} elements differ"
    reason = f"{of}, by {largest:.2g} at most" if np.isfinite(largest) else f"{of}, some by NaN or an infinity"
    return ArrayDifference(name, reason, a.size, differing, largest, relative)


def array_differences(a: Mapping[str, NDArray[Any]], b: Mapping[str, NDArray[Any]]) -> list[ArrayDifference]:
    """One for each name in either, in the order of ``a``."""
    differences = []
    for name in [*a, *(name for name in b if name not in a)]:
        if name in a and name in b:
            differences.append(array_difference(name, a[name], b[name]))
        else:
            which = "first" if name in a else "second"
            differences.append(ArrayDifference(name, f"only the {which} has it", 0, 0, np.nan, np.nan))
    return differences


def graph_difference(a: SavedModel, b: SavedModel, titles: Sequence[str], *, context: int = 3) -> list[str]:
    """The lines of a unified diff of the texts; none where the graphs are equal, whatever their values are called."""
    if a.graph == b.graph:
        return []
    texts = [print_graph(model.graph, locations=False).splitlines() for model in (a, b)]
    if texts[0] == texts[1]:  # they differ in what stands in the regions of composites
        texts = [print_graph(model.graph, locations=False, full=True).splitlines() for model in (a, b)]
    return list(difflib.unified_diff(texts[0], texts[1], titles[0], titles[1], lineterm="", n=context))


def interface_difference(a: SavedModel, b: SavedModel) -> list[str]:
    """What the two take and give differently, a line each."""
    lines = []
    for what in ("inputs", "outputs"):
        left, right = (", ".join(map(str, getattr(model, what))) or "none" for model in (a, b))
        if left != right:
            lines.append(f"{what}: {left} and {right}")
    left, right = (", ".join(model.signature.constraints) or "none" for model in (a, b))
    return [*lines, f"constraints: {left} and {right}"] if left != right else lines


def weight_differences(a: SavedModel, b: SavedModel) -> list[ArrayDifference]:
    """The differences of the state, by key."""
    states = [{key: tensor.detach().numpy() for key, tensor in model.state.items()} for model in (a, b)]
    return [difference for difference in array_differences(*states) if difference.reason]
