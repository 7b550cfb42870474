"""The order of a contraction's sum: blocks of ``BLOCK_STEPS`` steps, merged by a tree.

In a block p = fma(left, right, p) in order of k from p = 0. The blocks' sums merge as T(c blocks) = T(largest power of
two below c) + T(rest). So c blocks err by at most (BLOCK_STEPS + ceil(log2 c)) u sum |left * right|, and any aligned
run of 2^q blocks is a part of the sum that can be had by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

BLOCK_STEPS: Final = 384
"""Steps of k in a block; part of the meaning of dot and conv, whatever the target."""


def merged(sums: Iterable[T], add: Callable[[T, T], T]) -> T | None:
    """The tree T over the blocks' sums, ``add`` having the earlier ones on its left; None of no sums."""
    waiting: list[T] = []
    for number, total in enumerate(sums):
        while number & 1:
            total = add(waiting.pop(), total)
            number >>= 1
        waiting.append(total)
    while len(waiting) > 1:
        last = waiting.pop()
        waiting.append(add(waiting.pop(), last))
    return waiting[0] if waiting else None
