"""LLVM's functions, as the shared library of llvmlite exports them, called by ctypes.

llvmlite's own Python code takes five times as long to import as the library takes to load, and puts one lock around all
functions. LLVM needs none where each thread has contexts and target machines of its own, which ``machine.py`` sees to.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from typing import Any, Final

from jitgraph.codegen.llvm import room
from jitgraph.runtime import forks

_TEXT: Final = ctypes.POINTER(c_char_p)

_DATA: Final = 40 << 20
"""Bytes that the library writes at most until its targets are initialised: relocated tables, and memory of its own."""

_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {  # the type of the result, then those of the arguments
    "ContextCreate": (c_void_p,),
    "ContextDispose": (None, c_void_p),
    "CopyStringRepOfTargetData": (None, c_void_p, _TEXT),
    "CreateNewModulePassManager": (c_void_p,),
    "CreatePassBuilder": (c_void_p, c_void_p, c_void_p),
    "CreatePipelineTuningOptions": (c_void_p,),
    "CreateTargetMachine": (c_void_p, c_void_p, *[c_char_p] * 3, c_int, *[c_char_p] * 2, c_int, c_int, c_char_p),
    "CreateTargetMachineData": (c_void_p, c_void_p),
    "DisposeMemoryBuffer": (None, c_void_p),
    "DisposeNewFunctionPassManger": (None, c_void_p),
    "DisposeModule": (None, c_void_p),
    "DisposeNewModulePassManger": (None, c_void_p),
    "DisposePassBuilder": (None, c_void_p),
    "DisposePipelineTuningOptions": (None, c_void_p),
    "DisposeString": (None, c_char_p),
    "DisposeTargetData": (None, c_void_p),
    "buildFunctionSimplificationPipeline": (c_void_p, c_void_p, c_int),
    "GetNamedFunction": (c_void_p, c_void_p, c_char_p),
    "RunNewFunctionPassManager": (None, c_void_p, c_void_p, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetTargetFromTriple": (c_void_p, c_char_p, _TEXT),
    "InitializeAllAsmPrinters": (None,),
    "InitializeAllTargetInfos": (None,),
    "InitializeAllTargetMCs": (None,),
    "InitializeAllTargets": (None,),
    "InitializeNativeAsmParser": (None,),
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "PrintModuleToString": (None, c_void_p, _TEXT),
    "RunNewModulePassManager": (None, c_void_p, c_void_p, c_void_p),
    "SetDataLayout": (None, c_void_p, c_char_p),
    "SetTarget": (None, c_void_p, c_char_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
    "VerifyModule": (c_int, c_void_p, _TEXT),
    "module_AddAlwaysInlinerPass": (None, c_void_p),
    "module_AddGlobalDCEPass": (None, c_void_p),
    "module_AddSROAPass": (None, c_void_p),
    "module_AddSimplifyCFGPass": (None, c_void_p),
}


def folder() -> str:
    """The folder of llvmlite, which is not imported; ModuleNotFoundError where it is not installed."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'llvmlite', whose LLVM makes native code", name="llvmlite")
    return spec.submodule_search_locations[0]


def functions() -> Any:
    """The functions by name, without the prefix that llvmlite gives them; targets are initialised.

    MemoryError where a limit on memory leaves no room for the library.
    """
    if not _loaded:
        with forks.whole(), _lock:  # of two threads one loads it: there may be no room to be asked for twice
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


_loaded: Final[list[Any]] = []
_lock: Final = forks.lock()


def _load() -> Any:
    path = os.path.join(folder(), "binding", "libllvmlite.so")
    room.require(os.path.getsize(path) + _DATA, _DATA, "LLVM's library")
    library = ctypes.CDLL(path)
    api: Any = _Functions()
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(api, name, function)
    for part in "TargetInfos", "Targets", "TargetMCs", "AsmPrinters":
        getattr(api, f"InitializeAll{part}")()
    api.InitializeNativeAsmParser()  # for inline assembly
    return api


class _Functions:
    """One attribute for each function."""


class LlvmText:
    """Where a function puts a text; falsy as long as none did."""

    def __init__(self) -> None:
        self.pointer = c_char_p(None)

    def __bool__(self) -> bool:
        return bool(self.pointer)

    def __str__(self) -> str:
        return (self.pointer.value or b"").decode("utf-8", "replace")


@contextmanager
def text() -> Iterator[LlvmText]:
    """A place for a text that LLVM makes, for the block alone."""
    llvm_text = LlvmText()
    try:
        yield llvm_text
    finally:
        if llvm_text:
            functions().DisposeString(llvm_text.pointer)
