"""How large a dim can be, whatever the sizes: by intervals over its names, each of which is from 0 to 2**63 - 1."""

from __future__ import annotations

from typing import Final, TypeAlias

from jitgraph.ir.dims import Atom, DimLike, Mod

Interval: TypeAlias = "tuple[int, int]"

_LEAST: Final = -(1 << 63)
_GREATEST: Final = (1 << 63) - 1


def stays_in_64_bits(dim: DimLike) -> bool:
    """Whether ``dim``, and all that is divided in it, is an int64 for all sizes, with no divisor that may be 0.

    Then 64-bit arithmetic that wraps computes it: sums and products are right wherever their results fit.
    """
    interval = _interval(dim)
    return interval is not None and _fits(interval)


def _fits(interval: Interval) -> bool:
    return interval[0] >= _LEAST and interval[1] <= _GREATEST


def _interval(dim: DimLike) -> Interval | None:
    """The least and the greatest value of a dim, or values beyond these; None where 64 bits cannot divide in it."""
    if isinstance(dim, int):
        return dim, dim
    least = greatest = 0
    for monomial, coefficient in dim.terms.items():
        term = (coefficient, coefficient)
        for atom in monomial:
            factor = _atom_interval(atom)
            if factor is None:
                return None
            corners = [a * b for a in term for b in factor]
            term = min(corners), max(corners)
        least, greatest = least + term[0], greatest + term[1]
    return least, greatest


def _atom_interval(atom: Atom) -> Interval | None:
    if isinstance(atom, str):
        return 0, _GREATEST
    inner, divisor = _interval(atom.numerator), atom.denominator
    if inner is None or not _fits(inner) or not isinstance(divisor, int) or not 0 < divisor <= _GREATEST:
        return None
    return (0, divisor - 1) if isinstance(atom, Mod) else (inner[0] // divisor, inner[1] // divisor)


def magnitude(dim: DimLike) -> int:
    """A number that the absolute value of ``dim``, and of each term and factor in it, never exceeds."""
    if isinstance(dim, int):
        return abs(dim)
    total = 0
    for monomial, coefficient in dim.terms.items():
        product = abs(coefficient)
        for atom in monomial:
            product *= atom_magnitude(atom)
        total += product
    return total


def atom_magnitude(atom: Atom) -> int:
    """As ``magnitude``, of an atom; at least 1."""
    if isinstance(atom, str):
        return _GREATEST
    return max(1, magnitude(atom.denominator if isinstance(atom, Mod) else atom.numerator))
