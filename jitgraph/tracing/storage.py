"""What objects hold, reached without running code of the user's: items, attributes, and the entries of classes."""

from __future__ import annotations

from collections.abc import Mapping
from threading import local
from typing import Any, Final

EXPECTED_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What a step raises where nothing stands."""

MISSING: Final = object()
"""What stands at a place where nothing does."""


def item_of(container: Any, key: Any) -> Any:
    """``container[key]`` without the ``__missing__`` of a mapping, which may put something there; LookupError."""
    if isinstance(container, dict) and hasattr(type(container), "__missing__"):
        found = dict.get(container, key, MISSING)
        if found is MISSING:
            raise KeyError(key)
        return found
    return container[key]


def _way_of(owner: Any) -> Any:
    """The class whose ways of reaching attributes run no code of the user's: a thread local has its own."""
    return local if issubclass(type(owner), local) else object


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute in the way of ``object``: no ``__setattr__`` of the user's is run again."""
    try:
        _way_of(owner).__setattr__(owner, name, value)
    except TypeError:  # the class sets attributes in a way of its own, as classes and what is written in C do
        setattr(owner, name, value)


def delete_attribute(owner: Any, name: str) -> None:
    """Take away an attribute in the way of ``object``."""
    try:
        _way_of(owner).__delattr__(owner, name)
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
    found: dict[str, Any] = _way_of(owner).__getattribute__(owner, "__dict__")
    return found


def attributes_of(owner: Any) -> dict[str, Any] | None:
    """As ``storage_of``; None for an object that keeps no attributes in a dict."""
    try:
        found = storage_of(owner)
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None
