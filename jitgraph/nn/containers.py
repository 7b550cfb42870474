"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

from jitgraph.nn.module import Module


class _Numbered(Module):
    """Submodules as attributes "0", "1", ..., which gives PyTorch's keys."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> _Numbered:
        """Add a module at the end; returns the container."""
        setattr(self, str(len(self)), module)
        return self

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> _Numbered: ...
    def __getitem__(self, index: int | slice) -> Module:
        chosen = list(self.children())[index]
        return _rebuild(self, chosen) if isinstance(chosen, list) else chosen

    def __setitem__(self, index: int, module: Module) -> None:
        """Replace one module; IndexError where there is none."""
        setattr(self, str(range(len(self))[index]), module)


def _rebuild(container: _Numbered, modules: list[Module]) -> _Numbered:
    return Sequential(*modules) if isinstance(container, Sequential) else ModuleList(modules)


class Sequential(_Numbered):
    """Modules applied one after the other."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        """The last module's result of ... of the first one's of x."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list of modules; it has no forward."""
