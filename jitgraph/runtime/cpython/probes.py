"""Whether the running interpreter keeps things where ``layout.py`` says: each number is compared with live objects."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from jitgraph.runtime import loader
from jitgraph.runtime.cpython import api
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.cpython.api import byte, half_word, word
from jitgraph.runtime.cpython.native_fields import is_object_or_none, is_object_slot, slot_offset

_TP_DEALLOC: Final = 52  # the number of a slot, for ``PyType_GetSlot``


class _Slotted:
    __slots__ = ("slot",)


class _Probe:
    a: object
    b: object


def unlike(slots: Mapping[type, Mapping[str, int]]) -> str:
    """Which objects do not look as ``layout.py`` says, and ``slots`` of classes; only live ones are looked at."""
    minor = sys.version_info[1]
    first, second = object(), object()
    pair, items, table = (first, second), [first, second], {"a": first, "b": second}
    cut = slice(first, second)
    number, array = 0.1, np.zeros((2, 3), np.float32)
    rows = array[:1]

    def function(x: object = first, *, y: object = second) -> object:
        return second

    cell = (function.__closure__ or ())[0]
    keys = word(id(table) + cpython.DICT_KEYS)
    entries = keys + cpython.KEYS_INDEX + (1 << byte(keys + cpython.KEYS_FORM + 1))
    instance, other = _Probe(), _Probe()
    instance.a, instance.b = first, second
    other.b, other.a = second, first
    shared = word(id(_Probe) + cpython.SHARED_KEYS[minor])
    module = types.ModuleType("probe")
    shown = {
        "references": (_more_references(first, 3), 3),
        "type": (word(id(number) + cpython.TYPE), id(float)),
        "tuple": (word(id(pair) + cpython.TUPLE_ITEMS + 8), id(second)),
        "size": (word(id(pair) + cpython.SIZE), 2),
        "list": (word(word(id(items) + cpython.LIST_ITEMS) + 8), id(second)),
        "dict": (word(id(table) + cpython.SIZE), 2),
        "kind of keys": (byte(keys + cpython.KEYS_FORM + 2) != cpython.KEYS_GENERAL, True),
        "count of keys": (word(keys + cpython.KEYS_COUNT), 2),
        "form of keys": (half_word(keys + cpython.KEYS_FORM) & cpython.KEYS_FORM_MASK, 3 | 3 << 8 | 1 << 16),
        "values of a dict": (word(id(table) + cpython.DICT_VALUES), 0),
        "entries": (word(entries + cpython.ENTRY_BYTES + 8), id(second)),
        "float": (word(id(number) + cpython.FLOAT), np.float64(number).view(np.uint64)),
        "slice": (word(id(cut) + cpython.SLICE + 8), id(second)),
        "cell": (word(id(cell) + cpython.CELL), id(second)),
        "module": (word(id(module) + cpython.MODULE_DICT), id(vars(module))),
        "code": (word(id(function) + cpython.FUNCTION_CODE), id(function.__code__)),
        "defaults": (word(id(function) + cpython.FUNCTION_DEFAULTS), id(function.__defaults__)),
        "defaults by name": (word(id(function) + cpython.FUNCTION_KWDEFAULTS), id(function.__kwdefaults__)),
        "array": (word(id(array) + cpython.ARRAY_DATA), loader.address_of(array)),
        "rank": (half_word(id(array) + cpython.ARRAY_RANK), 2),
        "shape": (word(word(id(array) + cpython.ARRAY_SHAPE) + 8), 3),
        "dtype": (word(id(array) + cpython.ARRAY_DTYPE), id(array.dtype)),
        "base": (word(id(rows) + cpython.ARRAY_BASE), id(array)),
        "flags": (half_word(id(array) + cpython.ARRAY_FLAGS) & cpython.ARRAY_DENSE, cpython.ARRAY_DENSE),
        "writeable": (half_word(id(array) + cpython.ARRAY_FLAGS) & cpython.ARRAY_WRITEABLE, cpython.ARRAY_WRITEABLE),
        "way to attributes": (
            word(id(_Probe) + cpython.TYPE_GET_ATTRIBUTE),
            api.address_of("PyObject_GenericGetAttr"),
        ),
        "class flags": (word(id(_Probe) + cpython.TYPE_FLAGS), _Probe.__flags__),
        "basic size": (word(id(_Probe) + cpython.TYPE_BASIC_SIZE), _Probe.__basicsize__),
        "deallocation": (word(id(_Probe) + cpython.TYPE_DEALLOC), api.slot_of_class(_Probe, _TP_DEALLOC)),
        "calls": (word(id(types.FunctionType) + cpython.TYPE_VECTORCALL_OFFSET) in _vectorcall_offsets(function), True),
        "flags of calls": (_have(types.FunctionType, cpython.HAVE_VECTORCALL, cpython.METHOD_DESCRIPTOR), [True, True]),
        "flags of instances": (_have(_Probe, cpython.MANAGED_DICT, cpython.INLINE_VALUES), [True, minor >= 13]),
        "version": _versions(),
        "attribute": (word(_values(instance)), id(first)),
        "order of attributes": (_order(instance) + _order(other), [0, 1, 1, 0]),
        "inline values": (minor < 13 or byte(_values(instance) - cpython.VALUES_13_FIRST + cpython.VALUES_13_VALID), 1),
        "collector": _tracked(items, {"a": 1}),
        "count of shared keys": (word(shared + cpython.KEYS_COUNT), 2),
        "member": (is_object_slot(vars(_Slotted)["slot"]), True),
        "member of C's": (is_object_or_none(vars(types.FunctionType)["__closure__"]), True),
    }
    attributes = vars(other)  # which makes the dict, so it stands behind what is asked of instances without one
    shown["dict of an instance"] = word(id(other) + cpython.INSTANCE_DICT), id(attributes)
    shown["values of a shared dict"] = word(id(attributes) + cpython.DICT_VALUES) != 0, True
    shown |= {
        f"slots of {kind.__name__}": ({name: slot_offset(kind, name) for name in names}, names)
        for kind, names in slots.items()
    }
    wrong = [name for name, (actual, known) in shown.items() if actual != known]
    return f"CPython's objects look otherwise here: {', '.join(wrong)}" if wrong else ""


def _more_references(obj: object, more: int) -> int:
    """By how much the count of an object grows with so many more references."""
    before = half_word(id(obj) + cpython.REFERENCES)
    references = [obj] * more
    after = half_word(id(obj) + cpython.REFERENCES)
    del references
    return after - before


def _tracked(*objects: object) -> tuple[list[bool], list[bool]]:
    """Which objects the collector tracks: by what stands before them, and as it says."""
    return [word(id(obj) + cpython.COLLECTOR_NEXT) != 0 for obj in objects], [gc.is_tracked(obj) for obj in objects]


def _have(kind: type, *flags: int) -> list[bool]:
    return [bool(kind.__flags__ & flag) for flag in flags]


def _vectorcall_offsets(function: Any) -> list[int]:
    """Where in a function the address stands by which it is called."""
    address = api.vectorcall_of(function)
    return [offset for offset in range(16, type(function).__basicsize__, 8) if word(id(function) + offset) == address]


def _versions() -> tuple[list[bool], list[bool]]:
    """Whether a class has a version once an attribute was looked up in it, and when the class has changed."""
    kind: Any = type("Changing", (), {"a": 1})
    seen = [kind.a, half_word(id(kind) + cpython.TYPE_VERSION) != 0]
    kind.a = 2
    return [*seen[1:], half_word(id(kind) + cpython.TYPE_VERSION) != 0], [True, False]


def _order(instance: object) -> list[int]:
    """The order in which the two attributes of an instance without a dict were set."""
    values = _values(instance)
    if sys.version_info[1] < 13:
        return [byte(values + cpython.ORDER_BEFORE_VALUES - number) for number in range(2)]
    capacity = byte(values - cpython.VALUES_13_FIRST)
    return [byte(values + 8 * capacity + number) for number in range(2)]


def _values(instance: object) -> int:
    """Where an instance without a dict keeps its attributes."""
    minor = sys.version_info[1]
    if minor == 11:
        return word(id(instance) + cpython.VALUES_11)
    if minor == 12:
        return word(id(instance) + cpython.INSTANCE_DICT) + 1
    return id(instance) + type(instance).__basicsize__ + cpython.VALUES_13_FIRST
