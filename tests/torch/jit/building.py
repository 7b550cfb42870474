"""Archives that tests write themselves: a text of code, and the attributes of one module."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from typing import Any

import numpy as np

STORAGES = {"float32": "FloatStorage", "float64": "DoubleStorage", "int64": "LongStorage", "bool": "BoolStorage"}


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


class Writer:
    """Writes pickles as PyTorch does; ``storages`` are the bytes that their tensors refer to."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []

    def written(self, value: Any) -> bytes:
        """The opcodes of a value: plain ones and arrays."""
        if isinstance(value, np.ndarray):
            return self.tensor(value)
        if isinstance(value, dict):
            items = b"".join(self.written(key) + self.written(item) for key, item in value.items())
            return b"}(" + items + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(map(self.written, value)) + b"e"
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self.written, value)) + b"t"
        return pickle.dumps(value, 2)[2:-1]

    def tensor(self, array: np.ndarray[Any, Any], *, offset: int = 0, size: Any = None, stride: Any = None) -> bytes:
        """The opcodes of a tensor in a storage of its own; where it lies in it may be said otherwise."""
        key = str(len(self.storages))
        self.storages.append(array.tobytes())
        shape = array.shape if size is None else size
        steps = tuple(n // array.itemsize for n in array.strides) if stride is None else stride
        storage = b"(" + _text("storage") + f"ctorch\n{STORAGES[array.dtype.name]}\n".encode()
        storage += _text(key) + _text("cpu") + self.written(array.size) + b"tQ"
        parts = storage + self.written(offset) + self.written(shape) + self.written(steps)
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + parts + b"\x89ccollections\nOrderedDict\n)RtR"

    def module(self, name: str, state: dict[str, Any]) -> bytes:
        """The pickle of an instance of ``__torch__.name``."""
        return b"\x80\x02c__torch__\n" + name.encode() + b"\n)\x81" + self.written(state) + b"b."


def packed(members: dict[str, bytes], *, folder: str = "m") -> io.BytesIO:
    """A zip of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{folder}/{name}", data)
    file.seek(0)
    return file


def members_of(code: str, state: dict[str, Any], *, version: int = 3) -> dict[str, bytes]:
    """The members of an archive with one module of class ``M``."""
    writer = Writer()
    data = writer.module("M", state)
    storages = {f"data/{number}": content for number, content in enumerate(writer.storages)}
    return {
        **storages,
        "data.pkl": data,
        "code/__torch__.py": code.encode(),
        "constants.pkl": b"\x80\x02).",
        "version": f"{version}\n".encode(),
    }


def archive_of(code: str, state: dict[str, Any], *, version: int = 3) -> io.BytesIO:
    """An archive with one module of class ``M``."""
    return packed(members_of(code, state, version=version))
