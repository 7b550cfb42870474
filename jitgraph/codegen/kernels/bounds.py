"""Whether an index stays inside its buffer: interval reasoning over axes, and trial by sample sizes where that is
open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Atom, Dim, DimLike, Mod

# ----------------------------------------------------------------------
# Index expressions over arrays of int64.

Array = NDArray[Any]


def evaluate_index(index: DimLike, lookup: Callable[[str], Array]) -> Array:
    """The value of ``index`` where a name has the value ``lookup(name)``; division by zero gives 0."""
    if isinstance(index, int):
        return np.asarray(index, np.int64)
    total: Array = np.asarray(0, np.int64)
    for monomial, coefficient in index.terms.items():
        product: Array = np.asarray(coefficient, np.int64)
        for atom in monomial:
            product = np.asarray(product * _atom(atom, lookup))
        total = np.asarray(total + product)
    return total


def _atom(atom: Atom, lookup: Callable[[str], Array]) -> Array:
    if isinstance(atom, str):
        return lookup(atom)
    numerator, denominator = evaluate_index(atom.numerator, lookup), evaluate_index(atom.denominator, lookup)
    with np.errstate(divide="ignore"):
        return np.asarray((np.remainder if isinstance(atom, Mod) else np.floor_divide)(numerator, denominator))


# ----------------------------------------------------------------------
# Whether an index stays inside its buffer: interval reasoning over axes, and trial by sample sizes where that is open.
#
# The approximation: each axis is put at the end of its range that makes the index least or greatest, a floor division
# or modulo counts as a value of its own between its bounds, and a polynomial over sizes is known to be at least 0 where
# all its coefficients are, after sizes that must be positive were written as 1 + a natural number. What this leaves
# open (correlated divisions, differences of sizes) is evaluated over the axes for a few values of the sizes: no proof.

_SAMPLES = (1, 2, 3, 5, 8, 4, 17, 7, 64)
_POINTS = 4096


def is_inside(
    index: DimLike, size: DimLike, axes: Mapping[str, DimLike], constraints: Sequence[SizeConstraint] = ()
) -> str | None:
    """None where ``0 <= index < size`` for all values of ``axes`` (name to extent, outermost first); else why not.

    Names that are not axes are sizes, each at least 0; ``constraints`` limit the sizes that are tried.
    """
    positive = {name for extent in axes.values() for name in _factors(extent)}
    try:
        low, high = _Intervals(axes).bounds(index)
        if _is_natural(low, positive) and _is_natural(size - 1 - high, positive):
            return None
    except _Unknown:
        pass
    return _trial(index, size, axes, constraints)


def is_natural(dim: DimLike, axes: Mapping[str, DimLike]) -> bool:
    """Whether ``dim`` is proved to be at least 0 for all values of ``axes`` (name to extent)."""
    try:
        return _is_natural(_Intervals(axes).bounds(dim)[0], ())
    except _Unknown:
        return False


class _Unknown(Exception):
    pass


def _factors(extent: DimLike) -> Iterator[str]:
    """Names that are positive where ``extent`` is: those of a product."""
    if isinstance(extent, Dim) and len(extent.terms) == 1:
        yield from (atom for atom in next(iter(extent.terms)) if isinstance(atom, str))


def _is_natural(dim: DimLike, positive: Iterable[str]) -> bool:
    """Whether a polynomial over sizes is proved to be at least 0."""
    shifted = dims.substitute(dim, {name: Dim.name(name) + 1 for name in positive})
    if isinstance(shifted, int):
        return shifted >= 0
    atoms = {atom for monomial in shifted.terms for atom in monomial if not isinstance(atom, str)}
    if not all(_is_natural(atom.numerator, ()) and _is_natural(atom.denominator, ()) for atom in atoms):
        return False
    return all(factor >= 0 for factor in shifted.terms.values())


class _Intervals:
    """Bounds of expressions over axes as expressions over sizes; ``_Unknown`` where they are not found."""

    def __init__(self, axes: Mapping[str, DimLike]) -> None:
        self.ranges: dict[str, tuple[DimLike, DimLike]] = {name: (0, extent - 1) for name, extent in axes.items()}
        self.positive = {name for extent in axes.values() for name in _factors(extent)}
        self.fresh = count()

    def bounds(self, dim: DimLike) -> tuple[DimLike, DimLike]:
        linear = self._without_atoms(dim)
        return self._extreme(linear, high=False), self._extreme(linear, high=True)

    def _without_atoms(self, dim: DimLike) -> DimLike:
        """``dim`` with each atom over axes replaced by a new name, whose range is the atom's."""
        return dims.replaced(dim, self._name)

    def _name(self, atom: Atom) -> DimLike:
        alone = Dim({(atom,): 1})
        if isinstance(atom, str) or not (dims.names(alone) & self.ranges.keys()):
            return alone
        low, high = self.bounds(atom.numerator)
        divisor_low, _ = self.bounds(atom.denominator)
        if not _is_natural(divisor_low - 1, self.positive):
            raise _Unknown
        if isinstance(atom, Mod):
            natural = _is_natural(low, self.positive)
            ends: tuple[DimLike, DimLike] = (0, self.bounds(atom.denominator)[1] - 1)
            if natural and isinstance(high, int) and isinstance(ends[1], int):
                ends = (0, min(high, ends[1]))
        elif isinstance(atom.denominator, int):
            ends = (low // atom.denominator, high // atom.denominator)
        elif _is_natural(low, self.positive) and not (dims.names(atom.denominator) & self.ranges.keys()):
            ends = (0, high // atom.denominator)
        else:
            raise _Unknown
        name = f"_a{next(self.fresh)}"
        self.ranges[name] = ends
        return Dim.name(name)

    def _extreme(self, dim: DimLike, *, high: bool) -> DimLike:
        for name, (least, most) in reversed(self.ranges.items()):
            if isinstance(dim, int) or name not in dims.names(dim):
                continue
            rising: DimLike = 0
            for monomial, factor in dim.terms.items():
                if name in monomial:
                    rest = list(monomial)
                    rest.remove(name)
                    if name in rest:
                        raise _Unknown
                    rising = rising + (Dim({tuple(rest): factor}) if rest else factor)
            if _is_natural(rising, self.positive):  # axes that are left are at least 0 too
                dim = dims.substitute(dim, {name: most if high else least})
            elif _is_natural(-rising, self.positive):
                dim = dims.substitute(dim, {name: least if high else most})
            else:
                raise _Unknown
        return dim


def _trial(
    index: DimLike, size: DimLike, axes: Mapping[str, DimLike], constraints: Sequence[SizeConstraint]
) -> str | None:
    expressions = (index, size, *axes.values(), *(c.left for c in constraints), *(c.right for c in constraints))
    sizes = sorted(set().union(*map(dims.names, expressions)) - axes.keys())
    for values in sample_sizes(sizes, constraints):
        points = _points(axes, values)
        if points is None:
            continue
        indices = evaluate_index(index, lambda name, p=points, v=values: p.get(name, np.asarray(v.get(name, 0))))  # type: ignore[misc]
        limit = dims.evaluate(size, values)
        outside = np.broadcast_to((indices < 0) | (indices >= limit), next(iter(points.values()), indices).shape)
        if outside.any():
            at = [f"{name} = {values[name]}" for name in sizes]
            at += [f"{name} = {int(np.broadcast_to(p, outside.shape)[outside].flat[0])}" for name, p in points.items()]
            worst = int(np.broadcast_to(indices, outside.shape)[outside].flat[0])
            return f"index {worst} is outside of {limit} elements" + (f" where {', '.join(at)}" if at else "")
    return None


def sample_sizes(names: Sequence[str], constraints: Sequence[SizeConstraint] = ()) -> Iterator[dict[str, int]]:
    """A few values for each size, the same and different ones, that satisfy the constraints."""
    for start in range(len(_SAMPLES)) if names else (0,):
        for step in (0, 1) if len(names) > 1 else (0,):
            values = {name: _SAMPLES[(start + step * i) % len(_SAMPLES)] for i, name in enumerate(names)}
            if all(constraint.holds(values) for constraint in constraints):
                yield values


def _points(axes: Mapping[str, DimLike], sizes: Mapping[str, int]) -> dict[str, NDArray[np.int64]] | None:
    """Values of the axes to try: all where they are few, else the ends and random ones; None for no iteration."""
    extents = []
    for extent in axes.values():
        if dims.names(extent) & axes.keys():
            return None  # an extent that depends on another axis: the slow executor is left to find out
        extents.append(dims.evaluate(extent, sizes))
    if any(extent < 1 for extent in extents):
        return None
    total = int(np.prod(extents, dtype=object))
    if total <= _POINTS:
        flat = np.arange(total)
    else:
        flat = np.random.default_rng(0).integers(0, min(total, 2**62), _POINTS)
        flat[:2] = 0, min(total, 2**62) - 1
    return dict(zip(axes, np.unravel_index(flat, extents), strict=True)) if axes else {}
