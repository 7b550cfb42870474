"""``torch.load`` and ``torch.save``: PyTorch's files of tensors in plain containers, read and written without pickle.

A file is a zip with ``data.pkl``, the object, and ``data/0``, ``data/1`` ..., the elements of its tensors. Reading one
runs nothing of it (``torchscript/unpickle.py``); what is written PyTorch reads with ``weights_only=True``.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any, Final

import numpy as np

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.errors import LoadError
from jitgraph.nn import Parameter as JitgraphParameter
from jitgraph.torch.jit import load as load_script
from jitgraph.torch.metadata import Size, device
from jitgraph.torch.nn.parameter import Parameter
from jitgraph.torch.scalar_types import dtype, scalar_type
from jitgraph.torch.tensors import adopted
from jitgraph.torch.torchscript.archive import Archive
from jitgraph.torch.torchscript.unpickle import DeviceName, Instance, SizeData, Storage, TensorData, Unpickler

_MAGIC: Final = 0x1950A86A20F9469CFC6C
"""The number with which files begin that PyTorch wrote before version 1.6."""

_STORAGES: Final = {
    dtypes.float64: "DoubleStorage", dtypes.float32: "FloatStorage", dtypes.float16: "HalfStorage",
    dtypes.bfloat16: "BFloat16Storage", dtypes.int64: "LongStorage", dtypes.int32: "IntStorage",
    dtypes.int16: "ShortStorage", dtypes.int8: "CharStorage", dtypes.uint8: "ByteStorage", dtypes.bool_: "BoolStorage",
    dtypes.complex64: "ComplexFloatStorage", dtypes.complex128: "ComplexDoubleStorage",
}  # fmt: skip


# ----------------------------------------------------------------------
# Reading


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object that ``torch.save`` wrote: tensors, numbers, texts, and lists, tuples, dicts and sets of them.

    ``map_location`` is the device of the tensors (the CPU). Nothing of the file is run, with ``weights_only=False``
    neither: a pickled object of any other class is a LoadError, as is a file that is no sound one. An archive of
    TorchScript gives its module.
    """
    if pickle_module is not None:
        raise RuntimeError("torch.load(pickle_module=...) is not supported: no pickle is run here")
    where = None if map_location is None or callable(map_location) else map_location
    if not isinstance(f, str | os.PathLike) and not _is_seekable(f):
        f = io.BytesIO(f.read())
    if not zipfile.is_zipfile(f):
        return _placed(_of_old_file(f), where)
    if not isinstance(f, str | os.PathLike):
        f.seek(0)
    with Archive(f) as archive:
        if "constants.pkl" not in archive:
            return _placed(_of_archive(archive), where)
    if not isinstance(f, str | os.PathLike):
        f.seek(0)
    return load_script(f, where)


def _is_seekable(f: Any) -> bool:
    return bool(hasattr(f, "seekable") and f.seekable())


def _of_archive(archive: Archive) -> Any:
    if "data.pkl" not in archive:
        raise archive.error("no file of torch.save")
    swapped = "byteorder" in archive and archive.text("byteorder").strip() == "big"

    def storage(key: str, kind: Any, count: int) -> Storage:
        name = f"data/{key}"
        if archive.size(name) < count * np.dtype(kind).itemsize:
            raise archive.error(f"{name} has fewer bytes than its {count} elements need")
        return Storage(lambda: archive.read(name), kind, count, swapped)

    return _Reader().read(Unpickler(archive.read("data.pkl"), storage, name=f"{archive.name}: data.pkl").load())


def _of_old_file(f: str | os.PathLike[str] | IO[bytes]) -> Any:
    """The object of a file that is several pickles one after the other, then the storages."""
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            data = file.read()
    else:
        f.seek(0)
        data = f.read()
    name = os.fspath(f) if isinstance(f, str | os.PathLike) else "the file"
    if not data.startswith(b"\x80\x02\x8a\x0a" + _MAGIC.to_bytes(10, "little")):
        raise LoadError(f"{name}: no file of torch.save")

    def nothing(key: str, kind: Any, count: int) -> Storage:
        size = count * np.dtype(kind).itemsize
        if size > len(data):
            raise LoadError(f"{name}: a storage of {size} bytes in a file of {len(data)}")
        return Storage(lambda: bytearray(size), kind, count, False)

    at = 0
    for _ in range(3):  # the magic number, the protocol, facts of the system
        at = _end_of(data, at, nothing, name)[1]
    start = at
    kinds: dict[str, tuple[Any, int]] = {}

    def noted(key: str, kind: Any, count: int) -> Storage:
        kinds[key] = kind, count
        return nothing(key, kind, count)

    at = _end_of(data, at, noted, name)[1]
    keys, at = _end_of(data, at, nothing, name)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise LoadError(f"{name}: the storages have no names")
    storages: dict[str, Storage] = {}
    for key in keys:
        if key not in kinds or at + 8 > len(data):
            raise LoadError(f"{name}: the storage {key!r} is not there, or belongs to no tensor")
        kind, count = kinds[key]
        size = struct.unpack_from("<q", data, at)[0] * np.dtype(kind).itemsize
        at += 8
        if size < count * np.dtype(kind).itemsize or at + size > len(data):
            raise LoadError(f"{name}: the storage {key!r} is cut off")
        storages[key] = Storage(_part(data, at, size), kind, count, False)
        at += size

    def known(key: str, kind: Any, count: int) -> Storage:
        if key not in storages:
            raise LoadError(f"{name}: the storage {key!r} is not there")
        return storages[key]

    return _Reader().read(_end_of(data, start, known, name)[0])


def _part(data: bytes, at: int, size: int) -> Callable[[], bytearray]:
    return lambda: bytearray(data[at : at + size])


def _end_of(data: bytes, at: int, storage: Callable[[str, Any, int], Storage], name: str) -> tuple[Any, int]:
    """The object of the pickle that begins at a byte, and where it ends."""
    reader = Unpickler(memoryview(data)[at:], storage, name=name)
    value = reader.load()
    return value, at + reader.position


class _Reader:
    """Makes PyTorch's objects of what a pickle has; equal tensors, lists and dicts are one object, as there."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._alive: list[Any] = []

    def read(self, value: Any) -> Any:
        """The object; LoadError where it is nested too deep, or holds itself."""
        try:
            return self.value(value)
        except RecursionError:
            raise LoadError("the object is nested too deep, or holds itself") from None

    def value(self, value: Any, depth: int = 0) -> Any:
        if depth > 200:
            raise RecursionError
        match value:
            case TensorData():
                return self._tensor(value)
            case np.dtype():
                return scalar_type(value)
            case SizeData():
                return Size(value)
            case DeviceName():
                return device(str(value))
            case Instance():
                raise LoadError("the file has an object of a class that is not read here")
            case list() | dict() | tuple() | set():
                return self._container(value, depth + 1)
        return value

    def _container(self, value: Any, depth: int) -> Any:
        if id(value) in self._known:
            return self._known[id(value)]
        made: Any
        if isinstance(value, dict):
            made = type(value)() if type(value) in (dict, OrderedDict) else dict(value)
            made.update((self.value(key, depth), self.value(item, depth)) for key, item in value.items())
        else:
            made = type(value)(self.value(item, depth) for item in value)
        self._known[id(value)] = made
        self._alive.append(value)
        return made

    def _tensor(self, data: TensorData) -> Any:
        key = data.key, data.is_parameter
        if key not in self._known:
            if data.quantisation is not None:
                raise LoadError("the file has a quantised tensor outside of a module")
            made = adopted(jg.asarray(np.array(data.array)))
            if data.is_parameter:
                made = Parameter(made, requires_grad=data.requires_grad)
            elif data.requires_grad:
                made.requires_grad_()
            self._known[key] = made
        return self._known[key]


def _placed(value: Any, where: Any) -> Any:
    """A value with its tensors on a device."""
    if where is None or str(where) == "cpu":
        return value
    if isinstance(value, jg.Tensor):
        return value.to(str(where))
    if isinstance(value, dict):
        return type(value)((key, _placed(item, where)) for key, item in value.items())
    if isinstance(value, list | tuple) and not isinstance(value, Size):
        return type(value)(_placed(item, where) for item in value)
    return value


# ----------------------------------------------------------------------
# Writing


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, numbers, texts, and lists, tuples, dicts and sets of them to a file that PyTorch reads.

    TypeError for objects of other classes: of a module save its ``state_dict()``.
    """
    writer = _Writer()
    data = b"\x80\x02" + writer.written(obj) + b"."
    members = {"data.pkl": data, "byteorder": b"little"}
    members |= {f"data/{number}": content for number, content in enumerate(writer.storages)}
    members["version"] = b"3\n"
    with zipfile.ZipFile(f, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0)), content)


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


class _Writer:
    """Writes the opcodes of values; what stands in several places is written once."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []
        self._written: dict[int, int] = {}
        self._alive: list[Any] = []
        self._open: set[int] = set()

    def written(self, value: Any) -> bytes:
        """The opcodes of a value; TypeError for what files of weights do not have."""
        if value is None or isinstance(value, bool | int | float):
            plain = (
                value
                if value is None or isinstance(value, bool)
                else int(value)
                if isinstance(value, int)
                else float(value)
            )
            return pickle.dumps(plain, 2)[2:-1]
        if isinstance(value, device):
            return b"ctorch\ndevice\n" + _text(str(value)) + b"\x85R"
        if isinstance(value, str):
            return _text(str(value))
        if isinstance(value, bytes):
            return b"c_codecs\nencode\n" + _text(value.decode("latin1")) + _text("latin1") + b"\x86R"
        if isinstance(value, dtype):
            return f"ctorch\n{value.name}\n".encode()
        if isinstance(value, np.ndarray | np.generic):
            value = jg.asarray(value) if isinstance(value, np.ndarray) else value.item()
            if not isinstance(value, jg.Tensor):
                return self.written(value)
        if id(value) in self._written:
            return b"j" + struct.pack("<I", self._written[id(value)])
        if id(value) in self._open:
            raise TypeError("torch.save: a container holds itself")
        self._open.add(id(value))
        opcodes = self._of_object(value)
        self._open.discard(id(value))
        number = self._written[id(value)] = len(self._written)
        self._alive.append(value)
        return opcodes + b"r" + struct.pack("<I", number)

    def _of_object(self, value: Any) -> bytes:
        if isinstance(value, jg.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            items = b"".join(self.written(key) + self.written(item) for key, item in value.items())
            start = b"ccollections\nOrderedDict\n)R" if isinstance(value, OrderedDict) else b"}"
            return start + b"(" + items + b"u"
        if isinstance(value, Size):
            return b"ctorch\nSize\n(" + b"".join(map(self.written, value)) + b"t\x85R"
        if type(value) is list:
            return b"](" + b"".join(map(self.written, value)) + b"e"
        if type(value) is tuple:
            return b"(" + b"".join(map(self.written, value)) + b"t"
        if type(value) is set:
            return b"c__builtin__\nset\n](" + b"".join(map(self.written, value)) + b"e\x85R"
        raise TypeError(
            f"torch.save takes tensors, numbers, texts and containers of them, not a {type(value).__name__}\n"
            "  hint: of a module or optimiser save its state_dict()"
        )

    def _tensor(self, value: Any) -> bytes:
        array = np.ascontiguousarray(np.asarray(value.detach().cpu()))
        kind = dtypes.canonical(array.dtype)
        if kind not in _STORAGES:
            raise TypeError(f"torch.save of a tensor of {kind.name}, for which PyTorch's files have no storage")
        shape = array.shape if value.ndim else ()
        strides: list[int] = []
        step = 1
        for size in reversed(shape):
            strides.append(step)
            step *= max(size, 1)
        storage = b"(" + _text("storage") + f"ctorch\n{_STORAGES[kind]}\n".encode() + _text(str(len(self.storages)))
        storage += _text("cpu") + self.written(array.size) + b"tQ"
        self.storages.append(array.tobytes())
        sizes, steps = (b"(" + b"".join(map(self.written, part)) + b"t" for part in (shape, strides[::-1]))
        is_parameter = isinstance(value, JitgraphParameter)
        flag = b"\x88" if value.requires_grad else b"\x89"
        tail = b"ccollections\nOrderedDict\n)RtR"
        start = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + self.written(0) + sizes + steps
        if not is_parameter:
            return start + flag + tail
        return b"ctorch._utils\n_rebuild_parameter\n(" + start + b"\x89" + tail + flag + tail
