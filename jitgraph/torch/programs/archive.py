"""``.pt2`` files: a zip with a program as JSON and tensors as the bytes of their storages. PyTorch is not needed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.errors import LoadError
from jitgraph.torch.programs import document
from jitgraph.torch.programs.program import Program
from jitgraph.torch.stored_elements import part_of, require_within

_FORMAT: Final = "archive_format"
_OLD_PROGRAM: Final = "serialized_exported_program.json"
_AGAIN: Final = "torch.export.save(torch.export.load(path), new_path) in a Python with PyTorch 2.8 or newer"
_LARGEST_TEXT: Final = 1 << 30

Array = np.ndarray[Any, Any]


class Contents(NamedTuple):
    """A program and its tensors by name; names with the same array share one tensor."""

    program: Program
    tensors: dict[str, Array]
    trainable: dict[str, bool]


class _Archive:
    """The members of a zip below its one folder; each is read once."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._members = {info.filename.partition("/")[2] or info.filename: info for info in file.infolist()}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def names(self, folder: str, ending: str) -> list[str]:
        """What stands in a folder under names with an ending, without both."""
        below = [name.removeprefix(folder) for name in self._members if name.startswith(folder)]
        return sorted(name.removesuffix(ending) for name in below if name.endswith(ending) and "/" not in name)

    def bytes_of(self, name: str) -> bytes:
        """A member; LoadError where it is missing, compressed, or damaged."""
        info = self._members.get(name)
        if info is None:
            raise LoadError(f"the file has no {name}")
        if info.compress_type != zipfile.ZIP_STORED:
            raise LoadError(f"{name} is compressed, which torch.export.save does not do")
        try:
            return self._file.read(info)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
            raise LoadError(f"{name} cannot be read: {error}") from None

    def json_of(self, name: str) -> Any:
        """A member that is JSON."""
        text = self.bytes_of(name)
        if len(text) > _LARGEST_TEXT:
            raise LoadError(f"{name} has {len(text)} bytes")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise LoadError(f"{name} is no JSON") from None


def read(path: str | os.PathLike[str], model: str | None = None) -> Contents:
    """The program of a file, by its name where the file has several. LoadError for files that are damaged or hostile.

    FileNotFoundError for a path that is not there.
    """
    try:
        with zipfile.ZipFile(path) as file:
            return _contents(_Archive(file), model)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise LoadError(f"{os.fspath(path)} is no file of torch.export.save: {error}") from None


def _contents(archive: _Archive, model: str | None) -> Contents:
    if _OLD_PROGRAM in archive:
        raise LoadError(
            f"the file is one of torch.export.save before PyTorch 2.8{_schema_of_old(archive)}\n  hint: {_AGAIN}"
        )
    if _FORMAT not in archive or archive.bytes_of(_FORMAT) != b"pt2":
        raise LoadError(f"this is no file of torch.export.save as PyTorch writes it since 2.8\n  hint: {_AGAIN}")
    if "byteorder" in archive and archive.bytes_of("byteorder") != b"little":
        raise LoadError("the file has big-endian tensors")
    models = archive.names("models/", ".json")
    if model is None and len(models) > 1:
        raise LoadError(
            f"the file has the programs {', '.join(models)}\n  hint: from_torch(path, model=...) chooses one"
        )
    name = model or (models[0] if models else "model")
    program = document.program_of(archive.json_of(f"models/{name}.json"))
    tensors: dict[str, Array] = {}
    trainable: dict[str, bool] = {}
    shared: dict[Any, Array] = {}
    for folder, config in (("weights", f"{name}_weights_config"), ("constants", f"{name}_constants_config")):
        path = f"data/{folder}/{config}.json"
        entries = document.member(archive.json_of(path), "config", dict) if path in archive else {}
        for target, entry in entries.items():
            tensors[target] = _tensor(archive, folder, target, entry, shared)
            meta = document.member(entry, "tensor_meta", dict)
            trainable[target] = document.member(meta, "requires_grad", bool)
    _require(program, tensors)
    return Contents(program, tensors, trainable)


def _schema_of_old(archive: _Archive) -> str:
    """Which version of PyTorch's schema a file of the old layout has, where it says."""
    name = "version"
    text = archive.bytes_of(name)[:32] if name in archive else b""
    parts = text.decode("ascii", "replace").strip().split(".")
    return f", by version {'.'.join(parts)} of its schema" if all(part.isdecimal() for part in parts) else ""


def _tensor(archive: _Archive, folder: str, target: str, entry: Any, shared: dict[Any, Array]) -> Array:
    member = document.member
    if member(entry, "use_pickle", bool):
        raise LoadError(
            f"{target} is stored as a pickle, which is not read\n"
            "  hint: a plain torch.Tensor in the model's place is stored as its bytes"
        )
    meta = member(entry, "tensor_meta", dict)
    dtype = np.dtype(document.dtype_of(member(meta, "dtype", int)))
    shape, strides = (_numbers(member(meta, name, list), target) for name in ("sizes", "strides"))
    (offset,) = _numbers([member(meta, "storage_offset", dict)], target)
    path = member(entry, "path_name", str)
    key = folder, path, dtype, shape, strides, offset
    if key not in shared:
        shared[key] = _placed(archive.bytes_of(f"data/{folder}/{path}"), dtype, shape, strides, offset, target)
    return shared[key]


def _numbers(values: Any, target: str) -> tuple[int, ...]:
    numbers = []
    for value in values:
        number = value.get("as_int") if isinstance(value, dict) else None
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 62:
            raise LoadError(f"{target} has a size, stride or offset that is no number")
        numbers.append(number)
    return tuple(numbers)


def _placed(
    storage: bytes, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, name: str
) -> Array:
    """The elements of a tensor in its storage, as an array of its own."""
    elements = np.frombuffer(storage, dtype, len(storage) // dtype.itemsize)
    require_within(len(elements), shape, strides, offset, lambda text: LoadError(f"{name} is {text}"))
    return np.array(part_of(elements, shape, strides, offset), order="C") if 0 not in shape else np.empty(shape, dtype)


def _require(program: Program, tensors: Mapping[str, Array]) -> None:
    """LoadError where a tensor that the program reads is missing, or not of the dtype and shape that it has there."""
    for entry in program.inputs:
        if entry.kind not in ("parameter", "buffer", "constant"):
            continue
        array, meta = tensors.get(entry.target), program.graph.metas.get(entry.name)
        if array is None:
            raise LoadError(f"the file has no tensor {entry.target}")
        if meta is not None and (tuple(array.shape) != meta.shape or array.dtype != meta.dtype):
            raise LoadError(f"{entry.target} is {array.dtype}{list(array.shape)}, and the program has another in mind")
