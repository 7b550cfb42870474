"""Where dicts and instances keep what they have under a name now, in the words of CPython's objects."""

from __future__ import annotations

import sys
from typing import Any, Final

from jitgraph.records import NamedTuple
from jitgraph.runtime.cpython import layout
from jitgraph.runtime.cpython.api import address_of, byte, half_word, word

_MINOR: Final = sys.version_info[1]


class DictEntry(NamedTuple):
    """Where a dict has an entry: the address of its keys (0: it has to be searched for), and what is expected there."""

    keys: int
    offset: int
    number: int
    form: int


class SharedKeys(NamedTuple):
    """The keys that instances share, and how many they are: none of them is the name."""

    keys: int
    length: int


def has_generic_lookup(kind: type) -> bool:
    """Whether objects of a class find attributes as ``object`` does."""
    return word(id(kind) + layout.TYPE_GET_ATTRIBUTE) == address_of("PyObject_GenericGetAttr")


def entry_of(mapping: dict[Any, Any], name: str) -> DictEntry:
    """Where a dict has its entry of an interned text."""
    keys = word(id(mapping) + layout.DICT_KEYS)
    number, form = _number_of(keys, name), half_word(keys + layout.KEYS_FORM) & layout.KEYS_FORM_MASK
    if number is None:
        return DictEntry(0, 0, 0, form)
    return DictEntry(keys, _entries(keys) - keys + layout.ENTRY_BYTES * number, number, form)


def slot_of(obj: Any, name: str) -> int | SharedKeys | None:
    """The number of an attribute among the values of an instance; None for one that has a dict, or never has values."""
    kind = type(obj)
    if not kind.__flags__ & layout.MANAGED_DICT:
        return None
    if _MINOR == 11 and not word(id(obj) + layout.VALUES_11):
        return None
    if _MINOR == 12 and not word(id(obj) + layout.INSTANCE_DICT) & 1:
        return None
    if _MINOR == 13 and not (
        kind.__flags__ & layout.INLINE_VALUES and byte(id(obj) + kind.__basicsize__ + layout.VALUES_13_VALID)
    ):
        return None
    keys = word(id(kind) + layout.SHARED_KEYS[_MINOR])
    if not keys:
        return None
    number = _number_of(keys, sys.intern(name))
    if number is None:
        return SharedKeys(keys, word(keys + layout.KEYS_COUNT))
    return number if number < layout.MOST_SHARED else None


def _entries(keys: int) -> int:
    return keys + layout.KEYS_INDEX + (1 << byte(keys + layout.KEYS_FORM + 1))


def _number_of(keys: int, name: str) -> int | None:
    """The number of an entry among keys that are texts; None where there is none, or keys are of other kinds."""
    if byte(keys + layout.KEYS_FORM + 2) == layout.KEYS_GENERAL:
        return None
    entries = _entries(keys)
    for number in range(word(keys + layout.KEYS_COUNT)):
        if word(entries + layout.ENTRY_BYTES * number) == id(name):
            return number
    return None
