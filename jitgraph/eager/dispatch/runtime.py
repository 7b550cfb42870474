"""The dispatcher in this process: its image, the words that all tables share, and the classes that it serves."""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import Any, Final

import numpy as np

from jitgraph.eager.handle import PARAMETERS, ValueHandle
from jitgraph.eager.value import EagerValue
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import loader
from jitgraph.runtime.cpython import api
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.cpython.memory import put_word

_MARK: Final = struct.pack("<Q", layout.RUNTIME_MARK)


class NativeRuntime:
    """One image with its words. It stays for as long as the process does: objects end by it after modules have gone."""

    def __init__(self, image: bytes, handles: type[ValueHandle]) -> None:
        """``handles`` is the class of the tensors that calls make. LoadError for another kind of image."""
        if image.count(_MARK) != 1:
            raise loader.LoadError("the image of the dispatcher has no place for its runtime")
        self._words = (ctypes.c_uint64 * (max(layout.RUNTIME.values()) // layout.WORD + 1))()
        address = struct.pack("<Q", ctypes.addressof(self._words))
        self._image = loader.Image(image.replace(_MARK, address))
        self._export = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int64)(self._image.export("entry"))
        for name in layout.RUNTIME_FUNCTIONS:
            self._put(name, api.address_of(name) or loader.function_address(getattr(loader.libc, name)))
        self._objects: dict[str, Any] = {
            "None": None, "False": False, "True": True, "zero": 0, "own": _own(), "Tensor": handles,
            "Parameter": handles, "EagerValue": EagerValue, "ndarray": np.ndarray, "float": float,
        }  # fmt: skip
        for name, obj in self._objects.items():
            self._put(name, id(obj))
        self._put("attributes", sys.version_info[1])
        self._put("handle_weak_references", _unsigned(handles.__weakrefoffset__))
        self._put("value_weak_references", _unsigned(EagerValue.__weakrefoffset__))
        self.vectorcall = self._address("vectorcall")
        _immortal.append(self)
        put_word(id(EagerValue) + cpython.TYPE_DEALLOC, self._address("free_value"))
        put_word(id(handles) + cpython.TYPE_DEALLOC, self._address("free_handle"))

    def knows(self, kind: type) -> bool:
        """Whether handles of a class are read natively: tensors, and the parameters of modules."""
        if kind in PARAMETERS and kind is not self._objects["Parameter"]:
            self._objects["Parameter"] = kind
            self._put("Parameter", id(kind))
        return kind is self._objects["Tensor"] or kind is self._objects["Parameter"]

    @property
    def clock(self) -> int:
        """How many calls the dispatcher has served."""
        return int(self._words[layout.RUNTIME["clock"] // layout.WORD])

    def _address(self, name: str) -> int:
        return int(self._export(layout.EXPORTS.index(name)))

    def _put(self, name: str, value: int) -> None:
        self._words[layout.RUNTIME[name] // layout.WORD] = value


def _unsigned(offset: int) -> int:
    return offset % (1 << 64)


def _own() -> str:
    """The very text that every buffer of ours has for its access."""
    return EagerValue(np.zeros(0)).access


_immortal: Final[list[Any]] = []
api.never_free(_immortal)


@cache
def runtime_of(image: bytes, handles: type[Any]) -> NativeRuntime:
    """The runtime of an image, made once."""
    return NativeRuntime(image, handles)
