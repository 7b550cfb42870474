"""Where CPython 3.11 to 3.13 (release builds with a global lock) keep what the dispatcher reads, in bytes.

The numbers follow from CPython's headers. ``eager/dispatch/start.py`` compares each with what the running interpreter
shows before anything relies on it.
"""

from __future__ import annotations

from typing import Final

REFERENCES: Final = 0
TYPE: Final = 8
COLLECTOR_NEXT: Final = -16
"""The collector's next object; 0 where it does not track this one."""
COLLECTOR_PREVIOUS: Final = -8
SIZE: Final = 16
"""``ob_size`` of tuples, lists and classes of variable size; ``ma_used`` of dicts."""
TUPLE_ITEMS: Final = 24
LIST_ITEMS: Final = 24
"""The address of the items."""
FLOAT: Final = 16
SLICE: Final = 16
"""Start, stop and step, one after the other."""
CELL: Final = 16
MODULE_DICT: Final = 16

TYPE_DEALLOC: Final = 48
TYPE_VECTORCALL_OFFSET: Final = 56
TYPE_BASIC_SIZE: Final = 32
TYPE_GET_ATTRIBUTE: Final = 144
TYPE_FLAGS: Final = 168
TYPE_VERSION: Final = 384
"""32 bits; 0 where the class has none."""
HAVE_VECTORCALL: Final = 1 << 11
METHOD_DESCRIPTOR: Final = 1 << 17
SHARED_KEYS: Final = {11: 872, 12: 880, 13: 880}
"""``ht_cached_keys`` of a class by the minor version: the keys that its instances share."""

DICT_KEYS: Final = 32
DICT_VALUES: Final = 40
"""0 unless the keys are shared with other dicts."""
KEYS_FORM: Final = 8
"""Four bytes: log2 of the size, log2 of the bytes of the index, the kind of the entries, one unused."""
KEYS_FORM_MASK: Final = 0xFFFFFF
KEYS_COUNT: Final = 24
KEYS_INDEX: Final = 32
KEYS_GENERAL: Final = 0
"""The kind of entries that are of 24 bytes, with hashes; all others are pairs of key and value."""
ENTRY_BYTES: Final = 16
INSTANCE_DICT: Final = -24
"""The dict of an instance whose class has a managed one."""
MANAGED_DICT: Final = 1 << 4
"""The flag of such a class."""
VALUES_11: Final = -32
VALUES_13_VALID: Final = 3
VALUES_13_FIRST: Final = 8
ORDER_BEFORE_VALUES: Final = -3
"""Up to CPython 3.12 the order of the values stands before them, backwards; later, behind them."""
MOST_SHARED: Final = 30

FUNCTION_CODE: Final = 48
FUNCTION_DEFAULTS: Final = 56
FUNCTION_KWDEFAULTS: Final = 64

ARRAY_DATA: Final = 16
ARRAY_RANK: Final = 24
ARRAY_SHAPE: Final = 32
ARRAY_BASE: Final = 48
ARRAY_DTYPE: Final = 56
ARRAY_FLAGS: Final = 64
ARRAY_DENSE: Final = 0x101
"""C-contiguous and aligned."""
ARRAY_WRITEABLE: Final = 0x400
INLINE_VALUES: Final = 1 << 2
"""The flag of a class whose instances have values, in CPython 3.13."""
