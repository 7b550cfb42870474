"""Whether this interpreter is one that the dispatcher knows, by its name and by what its objects show."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from functools import cache

import numpy as np

from jitgraph.eager.dispatch.memory import byte, half_word, word
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.value import EagerValue
from jitgraph.runtime import cpython_api, loader
from jitgraph.runtime import cpython_layout as cpython
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.native_fields import slot_offset


@cache
def lacking() -> str:
    """What native calls need and this interpreter or system lacks, in words; empty where it lacks nothing."""
    if reason := cpython_api.unknown():
        return reason
    if cpython_api.interpreter_number():
        return "this is a subinterpreter"
    return loader.lacking_system() or _unlike()


class _Probe:
    pass


def _unlike() -> str:
    """Which objects do not look as ``runtime/cpython_layout.py`` says; only live ones are looked at."""
    minor = sys.version_info[1]
    first, second = object(), object()
    pair, items, table = (first, second), [first, second], {"a": first, "b": second}
    cut = slice(first, second)
    number, array = 0.1, np.zeros((2, 3), np.float32)
    rows = array[:1]

    def function(x: object = first) -> object:
        return second

    cell = (function.__closure__ or ())[0]
    keys = word(id(table) + cpython.DICT_KEYS)
    entries = keys + cpython.KEYS_INDEX + (1 << byte(keys + cpython.KEYS_FORM + 1))
    instance = _Probe()
    instance.a = first  # type: ignore[attr-defined]
    shared = word(id(_Probe) + cpython.SHARED_KEYS[minor])
    module = types.ModuleType("probe")
    shown = {
        "type": (word(id(number) + cpython.TYPE), id(float)),
        "tuple": (word(id(pair) + cpython.TUPLE_ITEMS + 8), id(second)),
        "size": (word(id(pair) + cpython.SIZE), 2),
        "list": (word(word(id(items) + cpython.LIST_ITEMS) + 8), id(second)),
        "dict": (word(id(table) + cpython.SIZE), 2),
        "kind of keys": (byte(keys + cpython.KEYS_FORM + 2) != cpython.KEYS_GENERAL, True),
        "count of keys": (word(keys + cpython.KEYS_COUNT), 2),
        "entries": (word(entries + cpython.ENTRY_BYTES + 8), id(second)),
        "set": (word(id({first, second}) + cpython.SET_USED), 2),
        "float": (word(id(number) + cpython.FLOAT), np.float64(number).view(np.uint64)),
        "slice": (word(id(cut) + cpython.SLICE + 8), id(second)),
        "cell": (word(id(cell) + cpython.CELL), id(second)),
        "module": (word(id(module) + cpython.MODULE_DICT), id(vars(module))),
        "code": (word(id(function) + cpython.FUNCTION_CODE), id(function.__code__)),
        "globals": (word(id(function) + cpython.FUNCTION_GLOBALS), id(function.__globals__)),
        "defaults": (word(id(function) + cpython.FUNCTION_DEFAULTS), id(function.__defaults__)),
        "array": (word(id(array) + cpython.ARRAY_DATA), loader.address_of(array)),
        "rank": (half_word(id(array) + cpython.ARRAY_RANK), 2),
        "shape": (word(word(id(array) + cpython.ARRAY_SHAPE) + 8), 3),
        "dtype": (word(id(array) + cpython.ARRAY_DTYPE), id(array.dtype)),
        "base": (word(id(rows) + cpython.ARRAY_BASE), id(array)),
        "flags": (half_word(id(array) + cpython.ARRAY_FLAGS) & cpython.ARRAY_DENSE, cpython.ARRAY_DENSE),
        "writeable": (half_word(id(array) + cpython.ARRAY_FLAGS) & cpython.ARRAY_WRITEABLE, cpython.ARRAY_WRITEABLE),
        "way to attributes": (
            word(id(_Probe) + cpython.TYPE_GET_ATTRIBUTE),
            cpython_api.address_of("PyObject_GenericGetAttr"),
        ),
        "class flags": (word(id(_Probe) + cpython.TYPE_FLAGS), _Probe.__flags__),
        "basic size": (word(id(_Probe) + cpython.TYPE_BASIC_SIZE), _Probe.__basicsize__),
        "shared keys": (word(word(_values(instance)) + cpython.TYPE), id(object)),
        "tensors": (_slots(ValueHandle, layout.HANDLE_SLOTS), layout.HANDLE_SLOTS),
        "values": (_slots(EagerValue, layout.VALUE_SLOTS), layout.VALUE_SLOTS),
        "collector": (bool(word(id(items) + cpython.COLLECTOR_NEXT)), True),
        "count of shared keys": (word(shared + cpython.KEYS_COUNT), 1),
    }
    wrong = [name for name, (actual, known) in shown.items() if actual != known]
    return f"CPython's objects look otherwise here: {', '.join(wrong)}" if wrong else ""


def _slots(kind: type, slots: Mapping[str, int]) -> Mapping[str, int]:
    """Where the slots of a class lie."""
    return {name: slot_offset(kind, name) for name in slots}


def _values(instance: object) -> int:
    """Where an instance without a dict keeps its attributes."""
    minor = sys.version_info[1]
    if minor == 11:
        return word(id(instance) + cpython.VALUES_11)
    if minor == 12:
        return word(id(instance) + cpython.INSTANCE_DICT) + 1
    return id(instance) + type(instance).__basicsize__ + cpython.VALUES_13_FIRST
