"""The C loader as a library of this process, by ctypes: what a C program does, with arrays in place of files."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jitgraph.runtime import loader
from jitgraph.standalone import write_loaders

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128")  # fmt: skip


class CError(Exception):
    """What ``jg_error`` said."""


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("kind", ctypes.c_char * 24), ("message", ctypes.c_char * 1000)]


class Tensor(ctypes.Structure):
    """``jg_tensor``."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 64), ("on", ctypes.c_void_p),
    ]  # fmt: skip


class Library:
    """The written loader.c, compiled in ``folder``."""

    def __init__(self, folder: Path, *flags: str) -> None:
        actual = folder / "loader.so"
        write_loaders(folder)
        source = str(folder / "loader.c")
        command = ["gcc", "-std=c11", "-O1", *flags, "-shared", "-fPIC", source, "-lpthread", "-o", str(actual)]
        subprocess.run(command, check=True)
        self.c = ctypes.CDLL(str(actual))
        self.c.jg_load_on.restype = ctypes.c_void_p
        self.c.jg_output_count.restype = ctypes.c_size_t
        self.c.jg_device.restype = self.c.jg_target.restype = ctypes.c_char_p

    def load(self, path: Path, device: str | None = None) -> Model:
        return Model(self, path, device)


class Model:
    """A model in C; runs its main entry."""

    def __init__(self, library: Library, path: Path, device: str | None) -> None:
        self.c = library.c
        self.error = _Error()
        name = None if device is None else device.encode()
        self.model = ctypes.c_void_p(self.c.jg_load_on(str(path).encode(), name, ctypes.byref(self.error)))
        self.check(self.error.status)

    @property
    def place(self) -> tuple[str, str]:
        """The device, and whose code runs."""
        return self.c.jg_device(self.model).decode(), self.c.jg_target(self.model).decode()

    def state(self, key: str) -> Any:
        """A copy of the state of that key."""
        value = Tensor()
        self.check(self.c.jg_state_get(self.model, key.encode(), ctypes.byref(value), ctypes.byref(self.error)))
        return self.taken(value)

    def set_state(self, key: str, array: Any) -> None:
        value = given(array)
        self.check(self.c.jg_state_set(self.model, key.encode(), ctypes.byref(value), ctypes.byref(self.error)))

    def save_state(self, path: Path) -> None:
        self.check(self.c.jg_state_save(self.model, str(path).encode(), ctypes.byref(self.error)))

    def load_state(self, path: Path) -> None:
        self.check(self.c.jg_state_load(self.model, str(path).encode(), ctypes.byref(self.error)))

    def check(self, status: int) -> None:
        if status:
            raise CError(self.error.message.decode(errors="replace"))

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs for these inputs; CError where the loader refuses."""
        outputs = [Tensor() for _ in range(self.c.jg_output_count(self.model, None))]
        self.run(list(map(given, arrays)), outputs)
        return [self.taken(output) for output in outputs]

    def run(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """As ``jg_run``, which fills in the outputs; CError where the loader refuses."""
        results = (Tensor * max(1, len(outputs)))(*outputs)
        status = self.c.jg_run(
            self.model, None, (Tensor * max(1, len(inputs)))(*inputs), ctypes.c_size_t(len(inputs)), results,
            ctypes.c_size_t(len(outputs)), ctypes.byref(self.error),
        )  # fmt: skip
        self.check(status)
        for output, result in zip(outputs, results, strict=False):
            ctypes.memmove(ctypes.addressof(output), ctypes.addressof(result), ctypes.sizeof(Tensor))

    def free(self, tensor: Tensor) -> None:
        """As ``jg_tensor_free``."""
        self.c.jg_tensor_free(ctypes.byref(tensor))

    def taken(self, output: Any) -> Any:
        """The array in an output in the host's memory, which is freed."""
        data = ctypes.string_at(output.data, output.bytes)
        self.c.jg_tensor_free(ctypes.byref(output))
        dtype = loader.dtype_named(DTYPES[output.dtype])
        return np.frombuffer(data, dtype).reshape(output.shape[: output.rank])

    def close(self) -> None:
        self.c.jg_close(self.model)


def given(array: Any) -> Tensor:
    """An array as a tensor in the host's memory; None for one that is left out."""
    if array is None:  # left out
        return Tensor()
    name = "bfloat16" if array.dtype == loader.dtype_named("bfloat16") else array.dtype.name
    shape: Sequence[int] = array.shape
    return Tensor(array.ctypes.data, array.nbytes, DTYPES.index(name), array.ndim, tuple(shape))
