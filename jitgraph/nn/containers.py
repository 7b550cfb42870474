"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Module


class _Numbered(Module):
    """Submodules as attributes "0", "1", ..., which gives PyTorch's keys."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> _Numbered:
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
        name, _ = list(self.named_children())[index]
        setattr(self, name, self._required(module))


def _rebuild(container: _Numbered, modules: list[Module]) -> _Numbered:
    return Sequential(*modules) if isinstance(container, Sequential) else ModuleList(modules)


class Sequential(_Numbered):
    """Modules applied one after the other: ``Sequential(first, second)``, or a dict of names and modules."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            super().__init__()
            for name, module in modules[0].items():
                setattr(self, name, self._required(module))
        else:
            super().__init__(modules)  # type: ignore[arg-type]

    def forward(self, x: Any) -> Any:
        """The last module's result of ... of the first one's of x."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list of modules; it has no forward."""
