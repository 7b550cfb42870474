"""Where an element stands after a reshape: from an index under one shape to the index under another.

The axes of both shapes are cut into the shortest groups of equal size, so that axes that a reshape leaves alone keep
their plain index, and only within a group is the index made linear and taken apart again, with // and % where they
must be.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of a mixed-radix number: ``index`` in ``0 .. extent - 1``."""

    index: DimLike
    extent: DimLike


def reshaped_index(
    index: Sequence[DimLike], shape: Sequence[DimLike], source: Sequence[DimLike]
) -> tuple[DimLike, ...]:
    """The index into a tensor of shape ``source`` of the element at ``index`` of its reshape to ``shape``.

    Where a shape has an extent 0 there is no element, and the result means nothing.
    """
    if any(extent == 0 for extent in (*shape, *source)):
        return (0,) * len(source)
    digits = [Digit(i, extent) for i, extent in zip(index, shape, strict=True) if extent != 1]
    extents = [extent for extent in source if extent != 1]
    coordinates = iter(_regroup(digits, extents))
    return tuple(0 if extent == 1 else next(coordinates) for extent in source)


def _regroup(digits: list[Digit], extents: list[DimLike]) -> list[DimLike]:
    result: list[DimLike] = []
    while digits and extents:
        taken, num_extents = _group(digits, extents)
        result += _convert(digits[:taken], extents[:num_extents])
        digits, extents = digits[taken:], extents[num_extents:]
    # what is left over has one element only, known by a constraint rather than as the int 1
    return result + [0] * len(extents)


def _group(digits: list[Digit], extents: list[DimLike]) -> tuple[int, int]:
    """How many digits and how many wanted extents make the first group of equal size."""
    taken, num_extents = 1, 1
    left, right = digits[0].extent, extents[0]
    while left != right:
        if taken == len(digits) and num_extents == len(extents):
            break  # equal by a constraint only
        grow_left = _smaller(left, right) if taken < len(digits) and num_extents < len(extents) else taken < len(digits)
        if grow_left:
            left, taken = left * digits[taken].extent, taken + 1
        else:
            right, num_extents = right * extents[num_extents], num_extents + 1
    return taken, num_extents


def _smaller(left: DimLike, right: DimLike) -> bool:
    """Whether ``left`` is the size that has to grow to meet ``right``: by value, or because it divides it."""
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    if left % right == 0:
        return False
    return right % left == 0 or isinstance(left, int)


def _convert(digits: list[Digit], extents: list[DimLike]) -> list[DimLike]:
    """The same number in the radices ``extents``."""
    result: list[DimLike] = []
    for position, extent in enumerate(extents):
        high, _ = _split(digits, dims.product(extents[position + 1 :]))
        result.append(_number(high if position == 0 else _split(high, extent)[1]))
    return result


def _split(digits: list[Digit], size: DimLike) -> tuple[list[Digit], list[Digit]]:
    """The number divided by ``size``: the digits of the quotient and those of the remainder."""
    below: DimLike = 1
    for cut in range(len(digits), -1, -1):
        if below == size:
            return digits[:cut], digits[cut:]
        if cut and (larger := _straddles(digits[cut - 1], below, size, leading=cut == 1)):
            high, low = larger
            return [*digits[: cut - 1], high], [low, *digits[cut:]]
        if cut:
            below = below * digits[cut - 1].extent
    total, count = _number(digits), dims.product(digit.extent for digit in digits)
    return [Digit(total // size, count // size)], [Digit(total % size, size)]


def _straddles(digit: Digit, below: DimLike, size: DimLike, *, leading: bool) -> tuple[Digit, Digit] | None:
    """``digit`` of weight ``below`` cut in two at ``size``, where ``size`` is a multiple that divides its reach.

    What a leading digit reaches matters to no other one.
    """
    part, rest = size // below, size % below
    if rest != 0 or (digit.extent % part != 0 and not (leading and isinstance(part, int))):
        return None
    if isinstance(part, int) and isinstance(digit.extent, int) and part > digit.extent:
        return None
    return Digit(digit.index // part, digit.extent // part), Digit(digit.index % part, part)


def _number(digits: Sequence[Digit]) -> DimLike:
    total: DimLike = 0
    for digit in digits:
        total = total * digit.extent + digit.index
    return total
