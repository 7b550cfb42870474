"""An order of groups in which each stands after what it reads, kept while groups are merged.

Whether a merge would make a cycle is one walk back from the later of the two groups that never leaves the window
between them; a merge moves groups inside that window alone. Positions of the groups' nodes in the graph would not do as
the bound of the walk: a group that holds an early and a late node lies before and behind the same group.

After D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs" (2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class GroupOrder(Generic[T]):
    """The order; ``reads`` gives the groups that a group reads, itself among them or not."""

    def __init__(self, groups: Sequence[T], reads: Callable[[T], Iterable[T]]) -> None:
        self._places: list[T | None] = list(groups)
        self._place = {group: position for position, group in enumerate(groups)}
        self._reads = reads

    def between(self, left: T, right: T) -> set[T] | None:
        """The groups that the later of the two depends on and that stand between; None where one reads the earlier.

        None says that merging the two would make a cycle. That the later reads the earlier directly makes none.
        """
        first, last = sorted((left, right), key=self._place.__getitem__)
        start = self._place[first]
        dependencies: set[T] = set()
        pending = [last]
        while pending:
            group = pending.pop()
            for before in self._reads(group):
                if before is first and group is not last:
                    return None
                if self._place[before] > start and before is not last and before not in dependencies:
                    dependencies.add(before)
                    pending.append(before)
        return dependencies

    def merge(self, left: T, right: T, merged: T, between: set[T]) -> None:
        """Put ``merged`` in the place of both, behind the groups ``between`` that ``between(left, right)`` gave."""
        start, end = sorted((self._place.pop(left), self._place.pop(right)))
        inside = [group for group in self._places[start + 1 : end] if group is not None]
        window: list[T | None] = [group for group in inside if group in between]
        window += [merged, *(group for group in inside if group not in between)]
        window += [None] * (end + 1 - start - len(window))
        self._places[start : end + 1] = window
        for position, group in enumerate(window, start):
            if group is not None:
                self._place[group] = position
