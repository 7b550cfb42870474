"""The digest of a code object: equal in any process that compiled the same source, in the same file, at the same lines.

``marshal`` would tell codes apart by which constants happened to be shared, and by the order of sets of strings.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from jitgraph.runtime import digests

_FRACTION: Final = struct.Struct("<d")


@lru_cache(maxsize=4096)
def _digest(identity: int, code: CodeType) -> str:
    digest = digests.sha256()
    _add(code, digest)
    return digest.hexdigest()[:40]


def digest_of(code: CodeType) -> str:
    """What tells a code object from any other: its instructions, constants, names, file and lines."""
    return _digest(id(code), code)  # by identity first: equal codes may stand in other files


def _add(value: Any, digest: Any) -> None:
    """Add a constant with its type, so that 1, 1.0 and True differ, and floats by their bits."""
    kind = type(value)
    if kind is CodeType:
        _add_code(value, digest)
    elif kind in (tuple, frozenset):
        parts = list(value)
        if kind is frozenset:
            parts.sort(key=_of_constant)
        _add_bytes(kind.__name__.encode(), digest)
        _add_bytes(str(len(parts)).encode(), digest)
        for part in parts:
            _add(part, digest)
    else:
        _add_bytes(kind.__name__.encode(), digest)
        _add_bytes(_data(value), digest)


def _of_constant(value: Any) -> str:
    digest = digests.sha256()
    _add(value, digest)
    return digest.hexdigest()


def _data(value: Any) -> bytes:
    if type(value) is float:
        return _FRACTION.pack(value)
    if type(value) is complex:
        return _FRACTION.pack(value.real) + _FRACTION.pack(value.imag)
    if type(value) is bytes:
        return value
    return repr(value).encode("utf-8", "surrogatepass")


def _add_bytes(data: bytes, digest: Any) -> None:
    digest.update(struct.pack("<Q", len(data)) + data)


def _add_code(code: CodeType, digest: Any) -> None:
    texts = (code.co_name, code.co_qualname, code.co_filename)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno)
    _add_bytes(repr((texts, names, counts)).encode("utf-8", "surrogatepass"), digest)
    for data in (code.co_code, code.co_linetable, code.co_exceptiontable):
        _add_bytes(data, digest)
    _add(code.co_consts, digest)
