"""What a file of another library or another function is, for the errors of readers: told by its bytes, never opened."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterable
from typing import Final, NamedTuple

_STATE: Final = "model.load_state_dict({key: value.numpy() for key, value in state.items()})"
_ARRAYS: Final = "model.load_state_dict takes its arrays by name"
_TORCH: Final = f"in a Python with PyTorch: state = torch.load(path, weights_only=True); {_STATE}"
_HEAD: Final = 512  # bytes that tell every format here
_HEADER: Final = 1 << 20  # bytes in which the names of a checkpoint's arrays are looked for


class FileFormat(NamedTuple):
    """What a file is, and what to do with it."""

    text: str
    hint: str


_TORCH_STATE: Final = FileFormat("a file of torch.save, a zip with a pickle in it", _TORCH)
TORCH_SCRIPT: Final = FileFormat(
    "a TorchScript program", "jitgraph.torch.jit.load(path) gives the module, which jg.save saves"
)
_TORCH_MOBILE: Final = FileFormat(
    "a program for PyTorch's mobile interpreter, which has its bytecode in place of the code",
    "load the TorchScript program that it was made of: jitgraph.torch.jit.load(path)",
)
TORCH_EXPORT: Final = FileFormat(
    "a program of torch.export",
    "jg.from_torch(path) makes a module of it",
)
_NPZ: Final = FileFormat("an .npz file of NumPy", f"arrays = dict(numpy.load(path)); {_ARRAYS}")
_NPY: Final = FileFormat("an .npy file of NumPy", "jg.asarray(numpy.load(path))")
_KERAS: Final = FileFormat(
    "a Keras model",
    "write the model as a jg.nn.Module, and give it the arrays of keras.models.load_model(path).get_weights()",
)
_HDF5: Final = FileFormat("an HDF5 file, as Keras and h5py write them", f"h5py.File(path) has its arrays; {_ARRAYS}")
_PICKLE: Final = FileFormat(
    "a pickle, as torch.save wrote until version 1.5, and joblib and pickle do; reading one runs code out of it",
    f"only where you trust it, {_TORCH}",
)
ONNX: Final = FileFormat(
    "an ONNX model",
    "jg.onnx.load(path) reads it",
)
SAVED_RUN: Final = FileFormat("a checkpoint of jitgraph", "jg.load_checkpoint(path, model=model) reads it")
SAFETENSORS: Final = FileFormat(
    "a safetensors file: weights without a function",
    "model.load_state_dict(safetensors.numpy.load_file(path))",
)
SAVED_FUNCTION: Final = FileFormat("a function saved by jg.save", "jg.load(path) reads it")
_GGUF: Final = FileFormat("a GGUF file of llama.cpp", f"gguf.GGUFReader(path) has its tensors; {_ARRAYS}")
_TFLITE: Final = FileFormat(
    "a TensorFlow Lite model, which jitgraph does not read", "write the model as a jg.nn.Module"
)
_TAR: Final = FileFormat("a tar archive", "unpack it, and load the file inside")
_GZIP: Final = FileFormat("a file compressed by gzip", "unpack it by gunzip, and load the file inside")
_GRAPH: Final = FileFormat("the text of a graph", "python -m jitgraph.opt reads it")
_OTHER_ZIP: Final = FileFormat("a zip that jg.save did not write", "load the file that jg.save wrote")

_FOLDERS: Final = (
    ("saved_model.pb", FileFormat("the folder of a TensorFlow SavedModel", "write the model as a jg.nn.Module")),
    (
        "model.safetensors",
        FileFormat(
            "a folder with weights in model.safetensors",
            'model.load_state_dict(safetensors.numpy.load_file(path + "/model.safetensors"))',
        ),
    ),
    ("pytorch_model.bin", FileFormat("a folder with weights in pytorch_model.bin, a file of torch.save", _TORCH)),
)


def format_of(path: str | os.PathLike[str]) -> FileFormat | None:
    """What the file or folder at ``path`` is; None for no format known here, and where it cannot be read."""
    try:
        if os.path.isdir(path):
            return next((format for name, format in _FOLDERS if os.path.exists(os.path.join(path, name))), None)
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            if head.startswith(b"PK\x03\x04"):
                with zipfile.ZipFile(file) as archive:
                    return of_members(archive.namelist())
            file_format = _of_head(head, os.path.getsize(path), os.fspath(path))
            if file_format is SAFETENSORS and b'"structure.json"' in head + file.read(_HEADER):
                return SAVED_RUN
            return file_format
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):  # the reader's own error is better then
        return None


def of_members(names: Iterable[str]) -> FileFormat | None:
    """What a zip with these members is."""
    members = list(names)
    ends = {name.rpartition("/")[2] for name in members}
    if "manifest.json" in members:
        return SAVED_FUNCTION
    if "constants.pkl" in ends:
        return TORCH_SCRIPT if any("/code/" in name for name in members) else _TORCH_MOBILE
    if any("archive_format" in name or name.endswith("serialized_exported_program.json") for name in members):
        return TORCH_EXPORT
    if "data.pkl" in ends:
        return _TORCH_STATE
    if "model.weights.h5" in ends:
        return _KERAS
    return _NPZ if members and all(name.endswith(".npy") for name in members) else _OTHER_ZIP


def _of_head(head: bytes, size: int, path: str) -> FileFormat | None:
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return _HDF5
    if head.startswith(b"\x93NUMPY"):
        return _NPY
    if head.startswith(b"GGUF"):
        return _GGUF
    if head[4:8] == b"PTMF":
        return _TORCH_MOBILE
    if head[4:8] == b"TFL3":
        return _TFLITE
    if head[257:262] == b"ustar":
        return _TAR
    if head.startswith(b"\x1f\x8b"):
        return _GZIP
    if len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return _PICKLE
    if len(head) > 9 and head[8:9] == b"{" and 2 <= struct.unpack("<Q", head[:8])[0] <= size - 8:
        return SAFETENSORS
    if head.lstrip().startswith(b"graph @"):
        return _GRAPH
    # a protocol buffer: the version of the format, then the producer's name, its version, a domain or the graph
    is_proto = len(head) > 3 and head[0] == 0x08 and head[1] < 0x20 and head[2] in (0x12, 0x1A, 0x22, 0x28, 0x3A, 0x42)
    return ONNX if is_proto or path.endswith(".onnx") else None
