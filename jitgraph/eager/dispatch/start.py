"""The dispatcher in this process: where its image comes from, the words that all tables share, the classes that it
serves.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from functools import cache
from typing import Any, Final

import numpy as np

from jitgraph import config
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.handle import NATIVE_CLASSES, Api, ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.runtime import dispatch_records, forks, imports, loader
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import api
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.cpython.api import put_word
from jitgraph.runtime.loader.pool import can_start

# ----------------------------------------------------------------------
# The dispatcher in this process: its image, the words that all tables share, and the classes that it serves.

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
            "Parameter": handles, "TorchTensor": handles, "TorchParameter": handles,
            "EagerValue": EagerValue, "ndarray": np.ndarray, "float": float,
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
        which = (kind._api, kind._is_parameter) if issubclass(kind, ValueHandle) else ("", False)
        if NATIVE_CLASSES.get(which) is not kind:
            return False
        word = _CLASS_WORDS[which]
        if self._objects[word] is not kind:
            self._objects[word] = kind
            self._put(word, id(kind))
        return True

    @property
    def clock(self) -> int:
        """How many calls the dispatcher has served."""
        return int(self._words[layout.RUNTIME["clock"] // layout.WORD])

    def _address(self, name: str) -> int:
        return int(self._export(layout.EXPORTS.index(name)))

    def _put(self, name: str, value: int) -> None:
        self._words[layout.RUNTIME[name] // layout.WORD] = value


_CLASS_WORDS: Final[dict[tuple[Api, bool], str]] = {
    ("", False): "Tensor", ("", True): "Parameter", ("torch", False): "TorchTensor", ("torch", True): "TorchParameter",
}  # fmt: skip


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


# ----------------------------------------------------------------------
# Where the dispatcher's image comes from, an earlier process or LLVM, and whether this interpreter is one that it
# knows.

# ----------------------------------------------------------------------
# Whether this interpreter is one that the dispatcher knows, by its name and by what its objects show.


@cache
def lacking() -> str:
    """What native calls need and this interpreter or system lacks, in words; empty where it lacks nothing."""
    if reason := api.unknown():
        return reason
    if api.interpreter_number():
        return "this is a subinterpreter"
    slots = {ValueHandle: dispatch_records.HANDLE_SLOTS, EagerValue: dispatch_records.VALUE_SLOTS}
    from jitgraph.runtime.cpython import probes  # here: a call by Python asks for none

    return loader.lacking_system() or probes.unlike(slots)


# ----------------------------------------------------------------------
# Where the dispatcher's image comes from: an earlier process, or LLVM, at once or while the program goes on.

_PATIENCE: Final = 200
"""Calls after which an image that no earlier process has made is made in a thread."""


class _Start:
    """The image of this process, or the way to it."""

    def __init__(self) -> None:
        self.runtime: NativeRuntime | None = None
        self.handles: Any = None  # the class of tensors
        self.refused: str | None = None  # why there will never be one
        self._asked = 0
        self._lock = forks.lock()
        self._thread: threading.Thread | None = None

    def get(self) -> NativeRuntime | None:
        """The runtime, or None while there is none."""
        if self.runtime is None and self.refused is None and self.handles is not None:
            if self._thread is not None and self._thread.is_alive():  # which makes it
                return None
            with self._lock:
                if self.runtime is None and self.refused is None:
                    self._look()
        return self.runtime

    def _look(self) -> None:

        self.refused = lacking() or None
        if self.refused:
            return
        self._asked += 1
        if self._asked == 1 and self._begin_with_ready():
            return
        if config.DISPATCH.raw() and config.DISPATCH.is_on():
            self._make()
        elif self._asked >= _PATIENCE:  # of a thread that a fork lost, too
            self._thread = threading.Thread(target=self._try, name="jitgraph-dispatcher")
            if not can_start(self._thread):  # calls go on by Python, and one of them asks again
                self._thread = None

    def _begin_with_ready(self) -> bool:
        """Begin with the image that the package brought along or an earlier process made; False where there is none."""
        from jitgraph.runtime.dispatcher_image import DispatcherImage
        from jitgraph.runtime.loader import LoadError

        ready = DispatcherImage()
        for image, refuse in (ready.built_in, lambda reason: None), (ready.cached, ready.refuse_cached):
            ready_image = image()
            if ready_image is not None:
                try:
                    self._begin(ready_image)
                    return True
                except LoadError as error:  # it is made again
                    refuse(str(error))
        return False

    def _try(self) -> None:
        try:
            self._make()
        except Exception as error:  # calls go on by Python
            self.refused = f"its code could not be made: {error}"

    def _make(self) -> None:
        from jitgraph.runtime.dispatcher_image import DispatcherImage
        from jitgraph.runtime.loader import LoadError

        image_store = DispatcherImage()
        with imports.importing():
            from jitgraph.codegen.dispatch.calls import dispatcher_image
        image = dispatcher_image()
        image_store.store(image)
        try:
            self._begin(image)
        except LoadError as error:
            self.refused = str(error)

    def _begin(self, image: bytes) -> None:

        self.runtime = runtime_of(image, self.handles)


def is_supported() -> bool:
    """Whether this interpreter is one of those whose objects the dispatcher knows, as far as its name says."""
    return not api.unknown()


_START: Final = _Start()
_TURNED_OFF: Final = "it is turned off"


def make_handles_of(kind: type[ValueHandle]) -> None:
    """Say of which class the tensors are that native calls make: the one that stands above this."""
    _START.handles = kind


def native_runtime() -> NativeRuntime | None:
    """What native calls go by; None while it is not there yet. Unsupported says why it will never be."""
    if config.DISPATCH.raw() and not config.DISPATCH.is_on():
        raise Unsupported(_TURNED_OFF)
    runtime = _START.get()
    if _START.refused is not None:
        raise Unsupported(_START.refused)
    return runtime
