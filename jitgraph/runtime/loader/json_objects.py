"""JSON read with suspicion: at most so many bytes and values, no key twice, each member of the type that is due."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from jitgraph.runtime.loader.errors import LoadError

Json: TypeAlias = Any
MAX_JSON_BYTES: Final = 16 << 20  # bytes: of the manifest, and of the header of the weights
_MAX_JSON_VALUES: Final = 1 << 20  # roughly; each costs about a hundred bytes once it is read


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return mapping


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def parse_json(data: bytes, where: str) -> dict[str, Json]:
    """The object that ``data`` holds as JSON; LoadError where it is malformed, too large or no object."""
    if len(data) > MAX_JSON_BYTES:
        raise LoadError(f"{where} is {len(data)} bytes long, more than the {MAX_JSON_BYTES} allowed")
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MAX_JSON_VALUES:
        raise LoadError(f"{where} has more than {_MAX_JSON_VALUES} values; save the model again")
    import json  # here, as hashlib in artifact.py: a process that reads no artifact does not wait for them

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{where} is not sound JSON: {error}; save the model again") from None
    if not isinstance(value, dict):
        raise LoadError(f"{where} is not a JSON object but a {type(value).__name__}; save the model again")
    return value


def get_typed(source: Json, key: str, kind: type | tuple[type, ...], where: str, default: Json = None) -> Json:
    """``source[key]`` of type ``kind``, or ``default``; LoadError where it is missing or of another type."""
    if not isinstance(source, dict):
        raise LoadError(f"{where} is not a JSON object but a {type(source).__name__}")
    if key not in source:
        if default is None:
            raise LoadError(f"{where} lacks {key!r}; the file is damaged or from another writer")
        return default
    value = source[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        expected = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise LoadError(f"{where}: {key!r} is {value!r:.60}, expected {expected}")
    return value
