"""Modules that hold modules."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, overload

from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Module

if TYPE_CHECKING:
    from typing import Self


class _Numbered(Module):
    """Submodules as attributes "0", "1", ..., which gives PyTorch's keys."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        for module in () if modules is None else modules:
            self.append(module)

    def append(self, module: Module) -> Self:
        """Add a module at the end; returns the container. JitgraphError for anything else."""
        setattr(self, str(len(self)), self._required(module))
        return self

    def _required(self, module: Any) -> Module:
        if isinstance(module, Module):
            return module
        kind = type(self).__name__
        if isinstance(module, list | tuple):
            form = f"{kind}(*modules)" if kind == "Sequential" else f"{kind}(modules), or append one by one"
            raise JitgraphError(f"{kind} holds modules, not a {type(module).__name__}\n  hint: write {form}")
        if isinstance(module, type):
            raise JitgraphError(f"{kind} holds modules, not classes\n  hint: write {module.__name__}()")
        hint = "jg.nn.ReLU() instead of jg.relu, or call the function in a forward() of your own"
        raise JitgraphError(f"{kind} holds modules, not a {type(module).__name__}\n  hint: {hint}")

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; returns the container."""
        for module in [self._required(each) for each in modules]:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the one at ``index``, counted as a list does, and number the rest anew."""
        modules = list(self.children())
        modules.insert(index, self._required(module))
        self._number(modules)
        return self

    def pop(self, key: int = -1) -> Module:
        """Take a module out and return it; the rest is numbered anew."""
        modules = list(self.children())
        taken = modules.pop(key)
        self._number(modules)
        return taken

    def _number(self, modules: list[Module]) -> None:
        """Hold these modules by the names "0", "1", ... and no others."""
        for name in [name for name, _ in self.named_children()]:
            delattr(self, name)
        for number, module in enumerate(modules):
            setattr(self, str(number), module)

    def __len__(self) -> int:
        return sum(1 for _ in self.children())

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Module:
        chosen = list(self.named_children())[index]
        return self._part(chosen) if isinstance(chosen, list) else chosen[1]

    def _part(self, chosen: list[tuple[str, Module]]) -> Self:
        return type(self)([module for _, module in chosen])

    def __setitem__(self, index: int, module: Module) -> None:
        """Replace one module; IndexError where there is none."""
        name, _ = list(self.named_children())[index]
        setattr(self, name, self._required(module))

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self.children())
        del modules[index]
        self._number(modules)

    def __add__(self, other: Iterable[Module]) -> Self:
        if not isinstance(other, _Numbered):
            return NotImplemented
        return self._part([(str(number), module) for number, module in enumerate([*self, *other])])

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)


class Sequential(_Numbered):
    """Modules applied one after another: ``Sequential(first, second)``, or a dict of names and modules."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            super().__init__()
            for name, module in modules[0].items():
                setattr(self, name, self._required(module))
        else:
            super().__init__(modules)  # type: ignore[arg-type]

    def _part(self, chosen: list[tuple[str, Module]]) -> Self:
        return type(self)(dict(chosen))

    def forward(self, input: Any) -> Any:
        """The last module's result of ... of the first one's of input."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules; it has no forward."""

    def _shown_children(self) -> list[str]:
        """Neighbours that look alike are shown once, with how many they are."""
        shown: list[str] = []
        for text, alike in itertools.groupby(enumerate(self), lambda pair: repr(pair[1])):
            numbers = [number for number, _ in alike]
            many = f"-{numbers[-1]}): {len(numbers)} x " if len(numbers) > 1 else "): "
            head = f"({numbers[0]}{many}"
            shown.append(head + text.replace("\n", "\n  "))
        return shown
