"""What objects hold, reached without running code of the user's: items, attributes, entries of classes, containers."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from threading import local
from types import MappingProxyType
from typing import Any, Final

# ----------------------------------------------------------------------
# What objects hold, reached without running code of the user's: items, attributes, and the entries of classes.

EXPECTED_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What a step raises where nothing stands."""

MISSING: Final = object()
"""What stands at a place where nothing does."""


_BASES: Final = (list, tuple, OrderedDict, dict, set, frozenset, deque)
_PLAIN: Final = frozenset({list, tuple, dict, OrderedDict, set, frozenset})
_ACCESS: Final = (
    *("__getitem__", "__iter__", "__len__", "__contains__", "keys", "values", "items", "get"),
    *("__setitem__", "__delitem__", "append", "clear", "add", "discard"),
)
_COPIES: Final[dict[Any, Callable[[Any], Any]]] = {
    list: lambda value: [*list.__iter__(value)],
    tuple: lambda value: tuple(tuple.__iter__(value)),
    OrderedDict: lambda value: dict(OrderedDict.items(value)),
    dict: lambda value: dict(dict.items(value)),
    set: frozenset,
    frozenset: frozenset,
    deque: lambda value: deque(deque.__iter__(value)),
}
"""By built-in class, a copy of what an instance holds that asks no method of a class derived from it."""


@lru_cache(maxsize=4096)
def _base_of(kind: Any) -> Any:
    return next((base for base in _BASES if base in kind.__mro__), None)


def base_of(value: Any) -> Any:
    """The built-in class of containers whose instance a value is, maybe by a class derived from it; None for none."""
    kind: Any = type(value)
    return _base_of(kind)


def is_by_base(value: Any) -> bool:
    """Whether it is a container whose class has methods of the user's by which items are read or changed."""
    kind: Any = type(value)
    base = None if kind in _PLAIN else _base_of(kind)
    return base is not None and any(getattr(kind, name, None) is not getattr(base, name, None) for name in _ACCESS)


def contents_of(value: Any) -> Any:
    """What a container holds, by the methods of its built-in class: itself where those are its own, else a copy."""
    return _COPIES[base_of(value)](value) if is_by_base(value) else value


def elements_of(container: Any) -> Collection[Any]:
    """The elements that a container holds, of a mapping its values; a copy only where one is needed."""
    contents = contents_of(container)
    return contents.values() if isinstance(contents, dict) else contents


def is_by_storage(container: Any) -> bool:
    """Whether ``container[key]`` asks no method of the user's and no ``__missing__``."""
    return not hasattr(type(container), "__missing__") and not is_by_base(container)


def item_of(container: Any, key: Any) -> Any:
    """What a container holds under a key, by the method of its built-in class and no ``__missing__``; LookupError."""
    if isinstance(container, dict):
        value = dict.get(container, key, MISSING)
        if value is MISSING:
            raise KeyError(key)
        return value
    base = base_of(container)
    return container[key] if base is None else base.__getitem__(container, key)


def set_item(container: Any, key: Any, value: Any) -> None:
    """Put a value into a container by the method of its built-in class."""
    base_of(container).__setitem__(container, key, value)


def delete_item(container: Any, key: Any) -> None:
    """Take an item out of a container by the method of its built-in class."""
    base_of(container).__delitem__(container, key)


def _lookup_of(owner: Any) -> Any:
    """The class whose ways of reaching attributes run no code of the user's: a thread local has its own."""
    return local if issubclass(type(owner), local) else object


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute in the way of ``object``: no ``__setattr__`` of the user's is run again."""
    try:
        _lookup_of(owner).__setattr__(owner, name, value)
    except TypeError:  # the class sets attributes in a way of its own, as classes and what is written in C do
        setattr(owner, name, value)


def delete_attribute(owner: Any, name: str) -> None:
    """Take away an attribute in the way of ``object``."""
    try:
        _lookup_of(owner).__delattr__(owner, name)
    except TypeError:
        delattr(owner, name)


_ENTRIES: Final[Any] = type.__dict__["__dict__"].__get__


def entries_of(kind: type) -> Mapping[str, Any]:
    """What stands in a class itself."""
    entries: Mapping[str, Any] = _ENTRIES(kind)
    return entries


def class_entry(kind: type, name: str, default: Any = None) -> Any:
    """What a class, or the first of its bases that has something under ``name``, holds there itself."""
    return next((entries[name] for entries in map(entries_of, kind.__mro__) if name in entries), default)


def storage_of(owner: Any) -> dict[str, Any]:
    """The attributes that an instance itself has, found without code of the user's; AttributeError for none."""
    storage: dict[str, Any] = _lookup_of(owner).__getattribute__(owner, "__dict__")
    return storage


def attributes_of(owner: Any) -> dict[str, Any] | None:
    """As ``storage_of``; None for an object that keeps no attributes in a dict."""
    try:
        storage = storage_of(owner)
    except (AttributeError, TypeError):
        return None
    return storage if type(storage) is dict else None


# ----------------------------------------------------------------------
# Containers of Python's own and what derives from them, and how much of what they hold is guarded.

MAX_ELEMENTS: Final = 64  # of a container that is guarded element by element
MAX_BYTES: Final = 1 << 20  # of an array whose contents are guarded, where NumPy and not a graph used it


def is_container(value: Any) -> bool:
    """True for the built-in containers and what derives from them."""
    return base_of(value) is not None


def same_extent(a: Any, b: Any) -> bool:
    """Whether two containers have the same keys in order, the same members, or the same length."""
    if isinstance(a, dict | MappingProxyType):
        return tuple(a) == tuple(b)
    return frozenset(a) == frozenset(b) if isinstance(a, set | frozenset) else len(a) == len(b)
