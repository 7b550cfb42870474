"""Which sizes of the arguments are names: those declared, and those seen to vary from call to call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jitgraph.errors import TraceError
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location
from jitgraph.tracing.arguments import Arguments, LeafKey

_MOST = 8  # arguments that an error lists
Position = tuple[int, int]  # leaf, axis


class Family:
    """Calls that differ in sizes alone: the sizes seen, and the positions that a program held to one value."""

    def __init__(self) -> None:
        self.seen: list[dict[Position, int]] = []
        self.pinned: dict[Position, Location | None] = {}

    @staticmethod
    def key(arguments: Arguments) -> Any:
        """Equal for calls of one family."""
        leaves = tuple(
            (key.kind, key.dtype, len(key.shape), key.requires_grad, key.first)
            if key.kind in ("tensor", "array", "float")
            else _fixed(key)
            for key in arguments.keys
        )
        return arguments.structure, leaves

    def note(self, arguments: Arguments) -> None:
        """Remember the sizes of a call (the last 16 kinds)."""
        sizes = _sizes(arguments.keys)
        if sizes not in self.seen:
            self.seen = [*self.seen[-15:], sizes]

    def pin(self, positions: Sequence[Position], location: Location | None) -> None:
        """Name these positions no more; ``location`` is the line that holds them."""
        for position in positions:
            self.pinned.setdefault(position, location)

    def varying(self) -> dict[Position, tuple[int, ...]]:
        """The positions whose size varied, each with the sizes in order; equal histories are one name."""
        if len(self.seen) < 2:
            return {}
        columns = {position: tuple(sizes[position] for sizes in self.seen) for position in self.seen[-1]}
        return {p: column for p, column in columns.items() if len(set(column)) > 1 and p not in self.pinned}


def _fixed(key: LeafKey) -> Any:
    if key.kind == "identity":
        return "identity", id(key.value)
    return (int,) if type(key.value) is int else (key.kind, type(key.value), key.value)


def _sizes(keys: Sequence[LeafKey]) -> dict[Position, int]:
    return {
        (leaf, axis): size
        for leaf, key in enumerate(keys)
        for axis, size in enumerate(key.shape)
        if isinstance(size, int)
    }


def named_keys(
    arguments: Arguments, family: Family, declared: Mapping[str, Mapping[int, str]]
) -> tuple[tuple[LeafKey, ...], dict[str, int], dict[str, list[Position]]]:
    """The keys with names for sizes, the value of each name in this call, and the positions of names chosen here.

    TraceError where a declared name stands for two sizes, or for an argument or axis that is not there.
    """
    shapes: list[list[DimLike]] = [list(key.shape) for key in arguments.keys]
    sizes: dict[str, int] = {}
    for text, axes in declared.items():
        if text not in arguments.texts:
            raise TraceError(
                f"dynamic_shapes names {text!r}, which is no tensor argument",
                hint=f"one of {', '.join(arguments.texts[:_MOST])}{', ...' * (len(arguments.texts) > _MOST)}",
            )
        leaf = arguments.texts.index(text)
        for axis, name in axes.items():
            if not -len(shapes[leaf]) <= axis < len(shapes[leaf]):
                raise TraceError(f"dynamic_shapes names axis {axis} of {text}, whose rank is {len(shapes[leaf])}")
            size = arguments.keys[leaf].shape[axis]
            if not isinstance(size, int):
                continue  # a TensorSpec that names the size itself
            if sizes.setdefault(name, size) != size:
                raise TraceError(f"the size {name!r} is {sizes[name]} and, in {text} on axis {axis}, {size}")
            shapes[leaf][axis] = Dim.name(name)
    chosen: dict[str, list[Position]] = {}
    by_column: dict[tuple[int, ...], str] = {}
    for (leaf, axis), column in family.varying().items():
        if not isinstance(shapes[leaf][axis], int):
            continue
        if column not in by_column:
            by_column[column] = _fresh_name(arguments.texts[leaf], axis, sizes)
            sizes[by_column[column]] = column[-1]
            chosen[by_column[column]] = []
        name = by_column[column]
        size = arguments.keys[leaf].shape[axis]
        assert isinstance(size, int)
        sizes[name] = size
        chosen[name].append((leaf, axis))
        shapes[leaf][axis] = Dim.name(name)
    keys = tuple(key._replace(shape=tuple(shape)) for key, shape in zip(arguments.keys, shapes, strict=True))
    return keys, sizes, chosen


def _fresh_name(text: str, axis: int, taken: Mapping[str, int]) -> str:
    name = re.sub(r"\W+", "_", f"{text}_{axis}").strip("_")
    while name in taken:
        name += "_"
    return name
