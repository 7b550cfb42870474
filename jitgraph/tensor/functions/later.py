"""Families of array functions that load when one of theirs is first used, as a function of ``jg`` or as a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jitgraph.runtime import imports
from jitgraph.tensor.tensor import Tensor

METHODS: Final[dict[str, str]] = {  # family -> its functions that are methods of Tensor, too
    "repeating": "repeat",
    "searching": "count_nonzero diff isin nonzero searchsorted",
    "sets": "unique_all unique_counts unique_inverse unique_values",
}
FUNCTIONS: Final[dict[str, str]] = {  # family -> its functions that are no methods
    "grids": "broadcast_shapes from_dlpack meshgrid",
}
HOMES: Final = {
    name: family for table in (METHODS, FUNCTIONS) for family, names in table.items() for name in names.split()
}


def _load(name: str) -> Any:
    return getattr(imports.module(f"{__package__}.{HOMES[name]}"), name)


class ArrayFunctions(Mapping[str, Any]):
    """The array functions by their names: those that are there, and those that load when they are looked up."""

    def __init__(self, loaded: Mapping[str, Any]) -> None:
        self._loaded = dict(loaded)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded and name in HOMES:
            self._loaded[name] = _load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._loaded, *HOMES)))

    def __len__(self) -> int:
        return len({*self._loaded, *HOMES})


class _LaterMethod:
    """What stands in Tensor for a method until its family is loaded, which puts the method itself there."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Tensor | None, owner: type[Tensor]) -> Any:
        _load(self.name)
        return getattr(owner if tensor is None else tensor, self.name)


def attach() -> None:
    """Give Tensor the methods of all families."""
    for names in METHODS.values():
        for name in names.split():
            setattr(Tensor, name, _LaterMethod(name))
