"""The records that drive the dispatcher, word by word: Python fills them in, code reads them.

``eager/dispatch/`` and ``tracing/call/native/`` write them. All of it is plain memory: machine words of 8 bytes
unless said
otherwise, addresses of objects included. What an object is found under in CPython itself stands in
``cpython/layout.py``.
"""

from __future__ import annotations

from typing import Final

from jitgraph.runtime.cpython.native_fields import offset_of

WORD: Final = 8


def _words(*names: str) -> dict[str, int]:
    return {name: WORD * number for number, name in enumerate(names)}


FUNCTION_WORDS: Final = ("vectorcall", "table", "fallback", "signature")
FUNCTION: Final = {name: offset_of(number) for number, name in enumerate(FUNCTION_WORDS)}
"""A traced function: what CPython calls, the first table, whom to ask otherwise, and its parameters."""

VALUE: Final = {"address": offset_of(0), "block": offset_of(1), "block_bytes": offset_of(2)}
"""The words of an eager value (``runtime/buffer.py``)."""

SIGNATURE: Final = _words("count", "positional", "variadic", "names", "defaults", "function", "defaults_object")
"""Parameters: how many; how many may be positional; whether the last takes all further ones; their names (interned) and
defaults, 0 for none; the function, and the tuple of defaults that it has to have still where one is used."""

TABLE: Final = _words(
    "next", "ops", "values", "handles", "effects", "results", "held", "value_count", "handle_count", "effect_count",
    "result_count", "held_count", "input_count", "result_kind", "entry", "host", "quiet_host", "call", "dims", "owner",
    "finish", "fail", "flags", "hits", "used", "busy", "view",
)  # fmt: skip
"""One specialisation: the checks and operands (``ops``), what is made and written after the call, and the entry.

``owner`` is the object that keeps all of it alive; ``held`` are the registers that are needed after the entry has run.
``finish``, where it is there, makes the result from what is in them, the operands and the outputs; ``fail`` raises what
a code stands for.
"""

VIEW: Final = _words("offset", "rank", "item", "sizes", "steps")
"""The word ``view`` of a table for which no entry runs leads here: its one output is a part of the first operand.

The register with the bytes from the operand's first element to the part's; the rank, -1 where the part shares the
memory; the binary logarithm of the bytes of an element; where the sizes, and the bytes to step along each axis, stand.
"""
MOST_AXES: Final = 8
"""Of a part that is copied."""

UNLOCKED: Final = 1
"""Flag of a table: the interpreter's lock is released while the entry runs, which then may poll for signals."""
PARALLEL: Final = 2
"""Flag of a table: the entry wants a pool of threads."""

RESULT_ONE: Final = 0
RESULT_TUPLE: Final = 1
RESULT_FINISH: Final = 2

HANDLE_DICT: Final = offset_of(0)
"""The attributes that a program gave a handle, 0 for none (``eager/handle.py``)."""

MOST_REGISTERS: Final = 1024
MOST_INPUTS: Final = 256
MOST_VALUES: Final = 128
MOST_HANDLES: Final = 128
MOST_EFFECTS: Final = 512
COUNT_REGISTER: Final = MOST_REGISTERS - 1
"""This register holds how many positional arguments were given, as a number."""

NUMBERS: Final = MOST_REGISTERS * WORD
"""Behind the registers there is a word for each operand, for numbers that are converted."""
NUMBER_DTYPES: Final = {"float64": 0, "float32": 1, "int64": 2, "int32": 3}

RUNTIME_MARK: Final = 0x6A67646973706174
"""What stands in the image where the address of the runtime's words goes before it is mapped."""

OP: Final = {"op": 0, "flags": 1, "source": 2, "target": 4, "number": 8, "a": 16, "b": 24, "offset": 32, "expected": 40}
"""A check: bytes ``op`` and ``flags``, 16-bit numbers of registers, a 32-bit number, then words."""
OP_FORM: Final = "<BBHHxxiiqqqq"
OP_BYTES: Final = 48

OPS: Final = (
    "end", "tensor", "unhooked_tensor", "array", "float", "type", "version", "constant", "field", "field_or_none",
    "attribute",
    "unset_attribute", "shared_keys", "dictionary", "entry", "absent", "length", "keys", "item", "elements", "equal",
    "float_bits", "same", "distinct", "is_tensor", "context", "argument_count", "number", "operand", "value", "whole",
    "view_offset",
)  # fmt: skip

MADE: Final = _words("donor", "donor_handle", "size_class", "bytes", "type", "make")
"""An output: the operand whose memory it may take and the register with its handle (-1: none), the size class of its
block (-1: the memory is another's), its bytes and type; or, for a large one, the function that makes the value."""

HANDLE: Final = _words("value", "requires_grad", "weak", "indexed", "kind")
"""A new tensor: the output that it holds, three bools, and its class, 0 for jitgraph's own."""

EFFECT: Final = _words("register", "offset", "kind", "what")
"""A slot that is written after the call: the object's register, the slot, and what goes there."""

RESULT: Final = _words("kind", "what")
"""One object of the result."""

FROM_VALUE: Final = 0
FROM_HANDLE: Final = 1
FROM_REGISTER: Final = 2
FROM_OBJECT: Final = 3
"""What an effect or a result is: an output's value, a new tensor, what a register holds, or an object by address."""

SIZE_CLASSES: Final = 11
"""Blocks of small results have 64 << class bytes; larger results are made in Python."""
MOST_KEPT_BYTES: Final = 4 << 20
"""Bytes of blocks that wait to be used again."""
MOST_DEPTH: Final = 100
"""Handles that are freed one inside the other, as gradients of gradients are; those further in wait for the first."""
MOST_DEAD: Final = 256
"""Values and handles that wait to be used again, of each kind."""

RUNTIME_FUNCTIONS: Final = (
    "_Py_Dealloc", "PyObject_GC_Track", "PyObject_GC_UnTrack", "PyObject_GC_Del", "PyObject_ClearWeakRefs",
    "PyType_GenericAlloc", "PyDict_GetItemWithError", "PyErr_Clear", "PyErr_Occurred", "PyErr_NoMemory",
    "PyObject_RichCompareBool", "PyObject_Vectorcall", "PyContextVar_Get", "PyTuple_New", "PyList_New",
    "PyLong_FromLong", "PyLong_AsLongLongAndOverflow", "PyEval_SaveThread", "PyEval_RestoreThread", "aligned_alloc",
    "free",
)  # fmt: skip
HANDLE_SLOTS: Final = {"_grad": 24, "_hooks": 32, "_indexed": 40, "_requires_grad": 48, "_value": 56, "_weak": 64}
VALUE_SLOTS: Final = {"_array": 40, "access": 48, "_type": 56, "base": 64, "native": 72, "output": 80, "record": 88}
"""Where CPython puts the slots of tensors (``eager/handle.py``) and of their values (``eager/tape.py``)."""
RUNTIME: Final = _words(
    *RUNTIME_FUNCTIONS, "None", "False", "True", "zero", "own", "Tensor", "Parameter", "TorchTensor", "TorchParameter",
    "EagerValue", "ndarray", "float",
    "attributes", "clock", "handle_weak_references", "value_weak_references",
    "dead_values", "dead_value_count", "dead_handles", "dead_handle_count", "cached_bytes",
    "depth", "pending",
    *(f"free{size_class}" for size_class in range(SIZE_CLASSES)),
)  # fmt: skip
"""What belongs to the process: functions of CPython and libc, objects and classes, how instances keep their attributes
(the minor version of Python), where weak references stand, and what waits to be used again."""

EXPORTS: Final = ("vectorcall", "free_value", "free_handle")
"""The functions of the image, in the order of their numbers."""
