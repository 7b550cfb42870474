"""Plain values (``plain.py``) as JSON and back: each a list of a kind's name and data. Nothing else is read or made."""

from __future__ import annotations

import binascii
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.plain import Plain

_CONSTANTS: Final = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
_NAMES: Final = {id(value): name for name, value in _CONSTANTS.items()}
_LONGEST_INT: Final = 4000  # digits, which Python reads without a special permission
_DTYPES: Final = frozenset("biufcSUV")


class NotStorableError(Exception):
    """What cannot be written for other processes; the message says why."""


def write_bytes(data: bytes) -> str:
    """Bytes as text."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def read_bytes(text: Any) -> bytes:
    """The bytes of a text; LoadError where it is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (TypeError, ValueError):
        raise LoadError("a text of bytes is malformed") from None


def write_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as text; NotStorableError for one with fields or objects."""
    known = dtypes.SHORT_NAMES.get(dtype)
    if known is not None:
        return f"jg:{known}"
    if dtype.fields or dtype.hasobject or dtype.subdtype or dtype.kind not in _DTYPES or np.dtype(dtype.str) != dtype:
        raise NotStorableError(f"the dtype {dtype}")
    return dtype.str


def read_dtype(text: Any) -> np.dtype[Any]:
    """The dtype of a text; LoadError where there is none."""
    if not isinstance(text, str) or len(text) > 40 or "," in text:
        raise LoadError("a dtype is malformed")
    try:
        dtype = dtypes.BY_SHORT_NAME[text[3:]] if text.startswith("jg:") else np.dtype(text)
    except (KeyError, TypeError, ValueError):
        raise LoadError(f"{text!r} is no dtype") from None
    if dtype.hasobject or dtype.fields:
        raise LoadError(f"{text!r} is no dtype of plain values")
    return dtype


def write_plain(plain: Plain) -> list[Any]:
    """A plain value for JSON; NotStorableError for what JSON cannot hold."""
    kind, data = plain
    match kind:
        case "int":
            text = hex(data)
            if len(text) > _LONGEST_INT:
                raise NotStorableError("a very long int")
            return [kind, text]
        case "str":
            try:
                data.encode("utf-8")
            except UnicodeEncodeError:
                raise NotStorableError("a text that no file can hold") from None
            return [kind, data]
        case "float":
            return [kind, data]
        case "bytes" | "bytearray":
            return [kind, write_bytes(data)]
        case "complex":
            return [kind, *data]
        case "constant":
            return [kind, _NAMES[id(data)]]
        case "dtype":
            return [kind, write_dtype(data)]
        case "scalar":
            return [kind, write_dtype(data[0]), write_bytes(data[1])]
        case "range" | "slice" | "tuple":
            return [kind, [write_plain(part) for part in data]]
        case "frozenset":
            return [kind, sorted(write_plain(part) for part in data)]
    raise NotStorableError(f"a value of the kind {kind}")


def read_plain(encoded: Any, depth: int = 16) -> Plain:
    """The plain value; LoadError where the list is malformed."""
    try:
        return _read(encoded, depth)
    except (KeyError, TypeError, ValueError, OverflowError, IndexError):
        raise LoadError("a plain value is malformed") from None


def _read(encoded: Any, depth: int) -> Plain:
    kind, *data = encoded
    if depth < 0:
        raise LoadError("plain values are nested too deeply")
    match kind:
        case "int":
            if len(data[0]) > _LONGEST_INT:
                raise LoadError("an int is too long")
            return Plain("int", int(data[0], 16))
        case "str":
            return Plain("str", _text(data[0]))
        case "float":
            return Plain("float", float.fromhex(data[0]).hex())
        case "bytes" | "bytearray":
            return Plain(kind, read_bytes(data[0]))
        case "complex":
            return Plain("complex", (float.fromhex(data[0]).hex(), float.fromhex(data[1]).hex()))
        case "constant":
            return Plain("constant", _CONSTANTS[data[0]])
        case "dtype":
            return Plain("dtype", read_dtype(data[0]))
        case "scalar":
            dtype, content = read_dtype(data[0]), read_bytes(data[1])
            if len(content) != dtype.itemsize:
                raise LoadError("a scalar has another length than its dtype")
            return Plain("scalar", (dtype, content))
        case "range" | "slice" | "tuple" | "frozenset":
            parts = tuple([_read(part, depth - 1) for part in data[0]])
            plain = Plain(kind, frozenset(parts) if kind == "frozenset" else parts)
            plain.value  # noqa: B018 - a range of a step 0 is none
            return plain
    raise LoadError(f"{kind!r} is no kind of plain values")


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise LoadError("a text is malformed")
    return data
