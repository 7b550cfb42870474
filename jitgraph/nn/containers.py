"""Modules of modules, and parameters by name or number: Sequential, ModuleList, ModuleDict, ParameterDict,
ParameterList.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, overload

from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor

if TYPE_CHECKING:
    from typing import Self

# ----------------------------------------------------------------------
# Modules that hold modules.


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


# ----------------------------------------------------------------------
# Modules by name, and parameters by name or number: ModuleDict, ParameterDict, ParameterList.


class ModuleDict(Module):
    """Submodules by name, in the order in which they were set; it has no forward."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update(() if modules is None else modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Set modules by their names."""
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module

    def __getitem__(self, key: str) -> Module:
        child = vars(self).get(key)
        if not isinstance(child, Module):
            raise KeyError(key)
        return child

    def __setitem__(self, name: str, module: Module) -> None:
        if not isinstance(module, Module):
            raise JitgraphError(f"ModuleDict holds modules, not a {type(module).__name__}")
        if hasattr(type(self), name) or name in ("training", "_persistence"):
            raise JitgraphError(f"ModuleDict: {name!r} is an attribute of modules\n  hint: another name")
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __len__(self) -> int:
        return len(list(self.keys()))

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __contains__(self, name: object) -> bool:
        return name in list(self.keys())

    def keys(self) -> Iterator[str]:
        """The names."""
        return (name for name, _ in self.named_children())

    def values(self) -> Iterator[Module]:
        """The modules."""
        return self.children()

    def items(self) -> Iterator[tuple[str, Module]]:
        """Names and modules."""
        return self.named_children()

    def pop(self, key: str) -> Module:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Take all modules out."""
        for name in list(self):
            del self[name]


def _parameter(value: Any) -> Any:
    """A parameter of a tensor; other values as they are, as in PyTorch."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """Parameters as attributes "0", "1", ...; tensors become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(() if values is None else values)

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end; returns the list."""
        setattr(self, str(self._size), _parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end; returns the list."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ParameterList([self[i] for i in range(self._size)[index]])
        return getattr(self, str(range(self._size)[index]))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(range(self._size)[index]), _parameter(value))

    def pop(self, index: int = -1) -> Any:
        """Take a parameter out and return it; those behind it are numbered anew."""
        values = list(self)
        taken = values.pop(index)
        for number in range(self._size):
            delattr(self, str(number))
        self._size = 0
        self.extend(values)
        return taken

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        return ", ".join(f"({i}): {tuple(x.shape)}" for i, x in enumerate(self) if isinstance(x, Tensor))


class ParameterDict(Module):
    """Parameters by name; tensors become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._names: tuple[str, ...] = ()
        self.update(() if parameters is None else parameters)

    def update(self, parameters: Mapping[str, Any] | ParameterDict | Iterable[tuple[str, Any]]) -> None:
        """Set parameters by their names."""
        for name, value in parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters:
            self[name] = value

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, or ``default``."""
        return dict(self.items()).get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, which becomes ``default`` where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a parameter out and return it."""
        taken = self[key]
        del self[key]
        return taken

    def popitem(self) -> tuple[str, Any]:
        """Take the last parameter out and return its name and itself; KeyError where there is none."""
        if not self._names:
            raise KeyError("the ParameterDict is empty")
        name = self._names[-1]
        return name, self.pop(name)

    def clear(self) -> None:
        """Take all parameters out."""
        for name in self._names:
            del self[name]

    def copy(self) -> ParameterDict:
        """Another ParameterDict of the same parameters."""
        return ParameterDict(dict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another ParameterDict, with ``default`` for each name."""
        return ParameterDict([(name, default) for name in keys])

    def __or__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ior__(self, other: Mapping[str, Any] | ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or name in ("training", "_persistence", "_names") or "." in name:
            raise JitgraphError(f"ParameterDict: {name!r} is an attribute of modules\n  hint: another name")
        setattr(self, name, _parameter(value))
        if name not in self._names:
            self._names = (*self._names, name)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)
        self._names = tuple(other for other in self._names if other != name)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)

    def values(self) -> Iterator[Any]:
        """The parameters."""
        return (self[name] for name in self._names)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and parameters."""
        return ((name, self[name]) for name in self._names)

    def extra_repr(self) -> str:
        return ", ".join(f"({name}): {tuple(x.shape)}" for name, x in self.items() if isinstance(x, Tensor))
