"""Packages whose names load when they are first used, by the ``__init__.pyi`` that type checkers read, too.

A stub is a list of imports, which says of each name where it is defined::

    from jitgraph.nn.losses import BCELoss as BCELoss
    from jitgraph.tensor.functions import *
    from jitgraph.dtypes import bool_

    bool = bool_

``lazy_loader`` of PyPI does the same by ``ast.parse``: 4.3 ms for the names of ``jitgraph``, where this takes 0.4, and
it can neither rename nor take names of other packages. A package's own constants are declared as ``pi: Final``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

from jitgraph.runtime import imports

_STUBS: Final[dict[str, Stub]] = {}
_ATTACHED: Final[set[str]] = set()


class Stub:
    """The names of a package: ``homes`` has the module and name where each is defined; ``constants`` are its own.

    ``marks`` has the words of the comment behind a name: of a function that is a method of the package's tensors, too,
    "method".
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.homes: dict[str, tuple[str, str]] = {}
        self.constants: list[str] = []
        self.marks: dict[str, list[str]] = {}
        unnamed: dict[str, tuple[str, str]] = {}  # what the stub imports without making it a name of the package
        module = ""
        for line in _text(package).splitlines():
            code, _, comment = line.partition("#")
            words = code.replace(",", " ").split()
            if words[:1] == ["from"]:
                module, words = words[1], words[3:]
            if words == ["*"]:
                self.homes |= of(module).homes
            elif words[1:2] == ["as"]:
                self.homes[words[0]] = (module, words[0])
                if comment:
                    self.marks[words[0]] = comment.split()
            elif len(words) == 1 and module:
                unnamed[words[0]] = (module, words[0])
            elif words[1:2] == ["="]:
                self.homes[words[0]] = unnamed.get(words[2]) or self.homes[words[2]]
            elif len(words) > 1 and words[0].endswith(":") and not line[0].isspace():
                self.constants.append(words[0][:-1])

    def marked(self, mark: str) -> list[str]:
        """The names with a mark."""
        return [name for name, marks in self.marks.items() if mark in marks]

    @property
    def names(self) -> list[str]:
        """The public names: those that ``__all__`` has and ``dir`` shows."""
        return sorted({*self.homes, *(name for name in self.constants if not name.startswith("__"))})


def _text(package: str) -> str:
    root, *inner = package.split(".")
    top = sys.modules[root]
    path = os.path.join(os.path.dirname(top.__file__ or ""), *inner, "__init__.pyi")
    source: bytes = top.__loader__.get_data(path)  # type: ignore[union-attr]
    return source.decode()


def of(package: str) -> Stub:
    """The stub of a package, which need not be imported."""
    if package not in _STUBS:
        _STUBS[package] = Stub(package)
    return _STUBS[package]


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package with a stub, which is read when one of them is first called."""
    _ATTACHED.add(package)

    def attribute(name: str) -> Any:
        if name == "__all__":
            return of(package).names
        home = None if name.startswith("__") else of(package).homes.get(name)
        if home is None:
            value = _submodule(package, name)
        elif home == (package, name):
            value = imports.module(f"{package}.{name}")
        else:
            value = getattr(imports.module(home[0]), home[1])
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*of(package).names, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return attribute, names


def _submodule(package: str, name: str) -> Any:
    """A module of the package that no stub has; AttributeError, with what to write instead, for any other name."""
    own = f"{package}.{name}"
    if not name.startswith("__") and name.isidentifier():
        try:
            return imports.module(own)
        except ModuleNotFoundError as error:
            if error.name != own:
                raise
    hint = imports.provided("hints for missing names")(package, name, of(package).homes)
    raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")


def is_loaded_when_used(package: str, name: str) -> bool:
    """Whether a package loads ``name`` when it is first used."""
    return package in _ATTACHED and name in of(package).homes
