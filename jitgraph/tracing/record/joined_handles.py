"""Handles that a staged loop carries: after ``while t: c = a`` the name c is a tensor of its own in the graph, and in
Python it may be the tensor a. As long as neither is written in place, nobody can tell. After a write through one of
them the values of the others depend on how often the loop ran, so that reading them raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.tensor import Tensor


class JoinedHandles:
    """Which handles of one trace may be the same tensor in Python."""

    def __init__(self) -> None:
        self._pairs: dict[int, dict[int, Tensor]] = {}

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def others(self, handle: Tensor) -> Iterable[Tensor]:
        """The handles that may be the same tensor as ``handle``."""
        return tuple(self._pairs.get(id(handle), {}).values())

    def may_be(self, a: Tensor, b: Tensor) -> bool:
        """Whether both may be the same tensor."""
        return a is b or id(b) in self._pairs.get(id(a), {})

    def pair(self, a: Tensor, b: Tensor) -> None:
        """Both may be the same tensor."""
        if a is not b:
            self._pairs.setdefault(id(a), {})[id(b)] = b
            self._pairs.setdefault(id(b), {})[id(a)] = a

    def join(self, joins: Sequence[tuple[Tensor, Sequence[Any]]]) -> None:
        """Each join is a new handle with what it is on each side of a statement, by order of the sides."""
        joins = [(handle, sources) for handle, sources in joins if any(isinstance(x, Tensor) for x in sources)]
        found = [
            (handle, known)
            for handle, sources in joins
            for source in sources
            if isinstance(source, Tensor)
            for known in (source, *self.others(source))
        ]
        found += [
            (handle, other)
            for number, (handle, sources) in enumerate(joins)
            for other, others in joins[:number]
            if any(
                isinstance(a, Tensor) and isinstance(b, Tensor) and self.may_be(a, b)
                for a, b in zip(sources, others, strict=True)
            )
        ]
        for handle, known in found:
            self.pair(handle, known)


def unknown_write(location: Location | None) -> ScriptError:
    """The error where a tensor was perhaps written by the line ``location`` through another name."""
    return ScriptError(
        "a tensor is written in place that may be another one, too, as a loop on a tensor carries them, "
        "and that other one is used after the write",
        location=location,
        hint="copy what is carried (c = a.clone()), or compute a new tensor (c = c + 1, not c += 1)",
    )
