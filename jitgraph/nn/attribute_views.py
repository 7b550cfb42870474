"""What a module holds of one kind, as a dict by name: a view of the module's attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, TypeVar

T = TypeVar("T")


class AttributeView(MutableMapping[str, T]):
    """The attributes of a module of which ``pick(name, value)`` is true; what is set or deleted is set there.

    A name that holds None there, as a bias that was left out, gives None without being listed.
    """

    def __init__(self, module: Any, pick: Callable[[str, Any], bool]) -> None:
        self._module, self._pick = module, pick

    def _names(self) -> list[str]:
        return [name for name, value in vars(self._module).items() if self._pick(name, value)]

    def __getitem__(self, name: str) -> T:
        attributes = vars(self._module)
        if name not in attributes or not (attributes[name] is None or self._pick(name, attributes[name])):
            raise KeyError(name)
        return attributes[name]  # type: ignore[no-any-return]

    def __setitem__(self, name: str, value: T) -> None:
        if value is None or self._pick(name, value):
            setattr(self._module, name, value)
        else:  # a plain tensor in the place of a parameter, which is meant where it is set here
            vars(self._module)[name] = value

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))
