"""``jg.save_checkpoint`` and ``jg.load_checkpoint``: everything of a run in one safetensors file, without pickle.

The tensors stand under numbers, and ``structure.json`` (bytes, as a tensor) says what they belong to: dicts, lists,
numbers and text as JSON, floats in hexadecimal, and a CRC-32 of each tensor; ``structure.crc32`` is its own.
"""

from __future__ import annotations

import json
import os
import random as python_random
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitgraph import random
from jitgraph.artifact import safetensors
from jitgraph.errors import JitgraphError, LoadError
from jitgraph.foreign_files import SAFETENSORS, SAVED_RUN, format_of
from jitgraph.runtime.atomic_file import replacing
from jitgraph.runtime.loader.artifact import read_safetensors
from jitgraph.runtime.loader.json_objects import parse_json
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray

_STRUCTURE: Final = "structure.json"
_SUM: Final = "structure.crc32"
_VERSION: Final = 1
_RANDOM: Final = "random state"
_EXACT: Final = 2**53
"""Ints below it are numbers of JSON, which other readers may hold as doubles."""


class _Writer:
    """A tree as JSON, and the arrays that it names."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def __call__(self, value: Any, where: str) -> Any:
        match value:
            case None | bool() | str():
                return value
            case np.bool_() | np.number():
                return {"kind": "scalar", "array": self._array(np.asarray(value))}
            case int():
                return value if abs(value) < _EXACT else {"kind": "int", "value": str(value)}
            case float():
                return {"kind": "float", "value": value.hex()}
            case complex():
                return {"kind": "complex", "parts": [value.real.hex(), value.imag.hex()]}
            case bytes():
                return {"kind": "bytes", "array": self._array(np.frombuffer(value, np.uint8))}
            case Tensor():
                array = np.asarray(value.detach().cpu().numpy())
                return {"kind": "tensor", "array": self._array(array)}
            case np.ndarray():
                return {"kind": "array", "array": self._array(value)}
            case Mapping():
                kind = "counter" if isinstance(value, Counter) else "dict"
                items = [[self(key, where), self(entry, f"{where}[{key!r}]")] for key, entry in value.items()]
                return {"kind": kind, "items": items}
            case tuple() | list():
                kind = "tuple" if isinstance(value, tuple) else "list"
                return {"kind": kind, "items": [self(entry, f"{where}[{i}]") for i, entry in enumerate(value)]}
        raise JitgraphError(
            f"save_checkpoint: {where} is a {type(value).__name__}, which a checkpoint cannot hold\n"
            "  hint: arrays, numbers, text, bytes, and dicts, lists and tuples of them, or what has a state_dict()"
        )

    def _array(self, array: Any) -> str:
        if array.dtype.kind not in "biufcV" or array.dtype.names:
            raise JitgraphError(f"save_checkpoint: an array of dtype {array.dtype}\n  hint: bools and numbers alone")
        name = str(len(self.arrays))
        self.arrays[name] = np.array(array, array.dtype.newbyteorder("="), order="C")  # 0-d stays 0-d
        return name


def _read(entry: Any, arrays: Mapping[str, Any]) -> Any:
    """The tree that ``_Writer`` wrote; LoadError for anything else."""
    if entry is None or isinstance(entry, bool | str | int):
        return entry
    try:
        kind = entry["kind"]
        match kind:
            case "int":
                return int(entry["value"])
            case "float":
                return float.fromhex(entry["value"])
            case "complex":
                return complex(*map(float.fromhex, entry["parts"]))
            case "bytes":
                return arrays[entry["array"]].tobytes()
            case "scalar":
                return arrays[entry["array"]][()]
            case "array":
                return np.array(arrays[entry["array"]])
            case "tensor":
                return asarray(np.array(arrays[entry["array"]]))
            case "dict" | "counter":
                mapping = {_read(key, arrays): _read(value, arrays) for key, value in entry["items"]}
                return Counter(mapping) if kind == "counter" else mapping
            case "tuple" | "list":
                items = [_read(value, arrays) for value in entry["items"]]
                return tuple(items) if kind == "tuple" else items
    except (KeyError, TypeError, ValueError) as error:
        raise LoadError(f"{_STRUCTURE}: an entry that is none: {error!r}") from None
    raise LoadError(f"{_STRUCTURE}: an entry of the unknown kind {str(kind)[:40]!r}")


def _state_of(part: Any) -> Any:
    if hasattr(part, "state_dict"):
        return part.state_dict()
    return part.get_state() if hasattr(part, "get_state") and hasattr(part, "set_state") else part


def _has_state(part: Any) -> bool:
    return hasattr(part, "load_state_dict") or (hasattr(part, "get_state") and hasattr(part, "set_state"))


def _restore(part: Any, state: Any) -> None:
    if hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    else:
        part.set_state(state)


def _random_states() -> dict[str, Any]:
    return {"jitgraph": random.get_state(), "numpy": np.random.get_state(), "python": python_random.getstate()}


def _set_random_states(states: Any) -> None:
    """LoadError for what is none."""
    try:
        random.set_state(states["jitgraph"])
        np.random.set_state(states["numpy"])
        python_random.setstate(states["python"])
    except (KeyError, TypeError, ValueError, IndexError, JitgraphError) as error:
        raise LoadError(f"the checkpoint's {_RANDOM} is none: {error}") from None


def save_checkpoint(path: str | os.PathLike[str], **parts: Any) -> None:
    """Save the parts of a run at ``path`` atomically.

    A part is a model, an optimiser, a schedule, a scaler or anything else with ``state_dict()``, a generator, or
    arrays, numbers, text, bytes and dicts, lists and tuples of these. The random states of ``jg.random``, NumPy and
    Python go with them. JitgraphError for a part that a file cannot hold, OSError as for files.
    """
    if _RANDOM in parts:
        raise JitgraphError(f"save_checkpoint: {_RANDOM!r} is taken")
    writer = _Writer()
    try:
        encoded = {name: writer(_state_of(part), name) for name, part in parts.items()}
    except RecursionError:
        raise JitgraphError("save_checkpoint: a part is nested too deeply, or holds itself") from None
    encoded[_RANDOM] = writer(_random_states(), _RANDOM)
    sums = {name: zlib.crc32(array.tobytes()) for name, array in writer.arrays.items()}
    text = json.dumps({"jitgraph checkpoint": _VERSION, "parts": encoded, "crc32": sums}, separators=(",", ":"))
    writer.arrays[_STRUCTURE] = np.frombuffer(text.encode(), np.uint8)
    writer.arrays[_SUM] = np.array(zlib.crc32(text.encode()), np.uint32)
    with replacing(path) as file:
        for chunk in safetensors(writer.arrays)[1]:
            file.write(chunk)


def load_checkpoint(path: str | os.PathLike[str], *, restore_random: bool = True, **parts: Any) -> dict[str, Any]:
    """Restore the saved state of the parts of a run, all or none, and return the plain values of the file.

    A part is named as it was for ``save_checkpoint``; what the file holds beyond them is returned by name. Random
    states are restored unless ``restore_random`` is False. LoadError for a file that is no sound checkpoint,
    JitgraphError for a part that it does not hold; what ``load_state_dict`` raises leaves all parts as they were.
    """
    contents = _contents(path)
    states = contents.pop(_RANDOM, None)
    missing = [name for name in parts if name not in contents]
    if missing:
        raise JitgraphError(f"load_checkpoint: {os.fspath(path)} holds {sorted(contents)}, and not {missing}")
    for name, part in parts.items():
        if not _has_state(part):
            raise JitgraphError(
                f"load_checkpoint: {name} is a {type(part).__name__}, which has no load_state_dict()\n"
                "  hint: plain values are returned by name; leave it out"
            )
    before: list[tuple[Any, Any]] = []
    present = _random_states()
    try:
        for name, part in parts.items():
            before.append((part, _state_of(part)))
            _restore(part, contents[name])
        if restore_random:
            _set_random_states(states)
    except BaseException:
        _set_random_states(present)
        for part, state in reversed(before):
            _restore(part, state)
        raise
    return {name: value for name, value in contents.items() if name not in parts}


def _contents(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The parts of a file by their names."""
    try:
        arrays = read_safetensors(memoryview(Path(path).read_bytes()))
    except LoadError as error:
        file_format = format_of(path)
        if file_format is None or file_format in (SAVED_RUN, SAFETENSORS):
            raise
        reads = "load_checkpoint reads what save_checkpoint wrote"
        raise LoadError(f"{os.fspath(path)} is {file_format.text}; {reads}\n  hint: {file_format.hint}") from error
    if _STRUCTURE not in arrays or arrays[_STRUCTURE].dtype != np.uint8:
        raise LoadError(
            f"{os.fspath(path)} is a safetensors file, and no checkpoint: it has no {_STRUCTURE}\n"
            f"  hint: {SAFETENSORS.hint}"
        )
    structure, own = arrays.pop(_STRUCTURE).tobytes(), arrays.pop(_SUM, None)
    if own is None or own.dtype != np.uint32 or own.shape or zlib.crc32(structure) != int(own):
        raise LoadError(f"{os.fspath(path)}: {_STRUCTURE} has changed since it was saved; save it again")
    described = parse_json(structure, _STRUCTURE)
    version, parts, sums = (described.get(key) for key in ("jitgraph checkpoint", "parts", "crc32"))
    if version != _VERSION:
        raise LoadError(f"{os.fspath(path)} is a checkpoint of version {version!r}; this one reads {_VERSION}")
    if not isinstance(parts, dict) or not isinstance(sums, dict) or set(sums) != set(arrays):
        raise LoadError(f"{os.fspath(path)}: {_STRUCTURE} does not describe the tensors of the file")
    for name, array in arrays.items():
        if zlib.crc32(array.tobytes()) != sums[name]:
            raise LoadError(f"{os.fspath(path)}: tensor {name} has changed since it was saved; save it again")
    try:
        return {name: _read(entry, arrays) for name, entry in parts.items()}
    except RecursionError:
        raise LoadError(f"{os.fspath(path)}: {_STRUCTURE} is nested too deeply") from None
