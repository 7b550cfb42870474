"""Modules by name, and parameters by name or number: ModuleDict, ParameterDict, ParameterList."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Module, Parameter
from jitgraph.tensor import Tensor


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
