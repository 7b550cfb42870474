"""LLVM behind one interface, by ctypes: text of LLVM IR in, object code or assembly out, for a Target or any other
processor.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from jitgraph.errors import CompileError
from jitgraph.ir.target import Target
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks, loader, system
from jitgraph.runtime.loader.pool import can_start

# ----------------------------------------------------------------------
# Room for LLVM in a process whose memory is limited: LLVM ends the process where an allocation fails.
#
# Under a finite RLIMIT_AS or RLIMIT_DATA each piece of work claims beforehand what it may need at most. It waits while
# other threads have claimed too much for both, and is refused with a MemoryError where it alone would not fit.

_BASE_BYTES: Final = 16 << 20
_BYTES_PER_CHARACTER: Final = 256
"""What a module takes at most: measured are 2 MB for the tables of the first and 20 to 130 bytes a character."""

_PATIENCE: Final = 1.0  # seconds after which room is looked for again, as other code frees memory without a word

_claims: Final[dict[object, int]] = {}  # bytes of those at work
_changed: Final = threading.Condition(forks.lock())


def is_limited() -> bool:
    """Whether this process has a finite limit on its memory."""
    return bool(system.memory_limits())


def needed_by(llvm_ir: str) -> int:
    """The bytes that LLVM takes at most to make code of a module."""
    return _BASE_BYTES + _BYTES_PER_CHARACTER * len(llvm_ir)


def require(mapped: int, data: int, what: str) -> None:
    """Refuse ``what`` with a MemoryError where limits leave less than it maps, or less than its ``data``."""
    for limit in system.memory_limits():
        size = data if limit.name == "RLIMIT_DATA" else mapped
        if limit.free < size:
            raise MemoryError(_refusal(limit, size, what))


@contextmanager
def claimed(size: int, what: str) -> Iterator[None]:
    """Room for ``size`` bytes in the block alone, for ``what``; MemoryError where there is none."""
    if not is_limited():
        yield
        return
    claim = object()
    with _changed:
        while lacking := _lacking(size + sum(_claims.values())):
            if not _claims:
                raise MemoryError(_refusal(lacking, size, what))
            _changed.wait(_PATIENCE)
        _claims[claim] = size
    try:
        with forks.unfinished(partial(_withdraw, claim)):  # a child does not have the thread that claimed it
            yield
    finally:
        with _changed:
            _withdraw(claim)
            _changed.notify_all()


def _withdraw(claim: Any) -> None:
    _claims.pop(claim, None)


def _lacking(size: int) -> system.MemoryLimit | None:
    return next((limit for limit in system.memory_limits() if limit.free < size), None)


def _refusal(limit: system.MemoryLimit, size: int, what: str) -> str:
    return (
        f"{what} may need {_megabytes(size)} MB, and {limit.name} of {_megabytes(limit.bytes)} MB leaves "
        f"{limit.free >> 20} MB (hint: raise the limit, as `{limit.command}` shows it, or compile in a process without "
        "one: the compile cache and jg.save keep its code)"
    )


def _megabytes(size: int) -> int:
    return -(-size >> 20)


# ----------------------------------------------------------------------
# Work that no handler of a signal may cut: it runs in a thread of its own, as Python runs handlers in the main one.
#
# What a handler raises between two of LLVM's functions would leave a module, a context or a target machine behind for
# as long as the process lives, and a lock of the package taken.

_P = ParamSpec("_P")
_R = TypeVar("_R")

"""Seconds after which the main thread looks whether it is in a child, where the other thread is not."""


def undisturbed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """``function``, which an exception from a handler does not leave half done: the call ends, the work goes on."""

    @functools.wraps(function)
    def call(*args: _P.args, **keywords: _P.kwargs) -> _R:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **keywords)
        results: list[_R] = []
        failures: list[BaseException] = []
        running = _thread.allocate_lock()  # a plain one: Python's own events are Python code that can be cut

        def work() -> None:
            try:
                results.append(function(*args, **keywords))
            except BaseException as error:
                failures.append(error)
            finally:
                running.release()

        process = os.getpid()
        running.acquire()
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError:  # the system gives no thread: better a call that can be cut than none
            return function(*args, **keywords)
        while not running.acquire(timeout=_PATIENCE):
            if os.getpid() != process:
                break
        if failures:
            raise failures[0]
        return results[0] if results else function(*args, **keywords)

    return call


# ----------------------------------------------------------------------
# LLVM's functions, as the shared library of llvmlite exports them, called by ctypes.
#
# llvmlite's own Python code takes five times as long to import as the library takes to load, and puts one lock around
# all functions. LLVM needs none where each thread has contexts and target machines of its own, which ``machine.py``
# sees to.

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
    "InitializeNativeAsmPrinter": (None,),
    "InitializeNativeTarget": (None,),
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
    """The functions by name, without the prefix that llvmlite gives them; this processor's target is initialised.

    MemoryError where a limit on memory leaves no room for the library.
    """
    if not _loaded:
        with forks.whole(), _loading_lock:  # of two threads one loads it: there may be no room to be asked for twice
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


_loaded: Final[list[Any]] = []
_loading_lock: Final = forks.lock()


def _load() -> Any:
    path = os.path.join(folder(), "binding", "libllvmlite.so")
    require(os.path.getsize(path) + _DATA, _DATA, "LLVM's library")
    library = ctypes.CDLL(path)
    api: Any = _Functions()
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"LLVMPY_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(api, name, function)
    api.InitializeNativeTarget()
    api.InitializeNativeAsmPrinter()
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
def returned_text() -> Iterator[LlvmText]:
    """A place for a text that LLVM makes, for the block alone."""
    llvm_text = LlvmText()
    try:
        yield llvm_text
    finally:
        if llvm_text:
            functions().DisposeString(llvm_text.pointer)


# ----------------------------------------------------------------------
# LLVM behind one interface: text of LLVM IR in, object code or assembly out, for a Target or any other processor.

TRIPLE: Final = "x86_64-unknown-linux-gnu"


class Processor(NamedTuple):
    """What LLVM makes code for. A triple or features that it does not know end the process or are ignored."""

    triple: str
    cpu: str
    features: str


# A processor name already stands for its level's features; LLVM would only halve the vectors of x86-64-v4.
_FEATURES: Final = {"x86-64-v2": "", "x86-64-v3": "", "x86-64-v4": "-prefer-256-bit"}

_OPTIMISE: Final = 2  # of LLVM's levels of code generation
_SIMPLIFY: Final = 1  # of LLVM's levels of optimisation
_ASSEMBLY, _OBJECT = 0, 1
_machines: dict[tuple[Processor, int], list[Any]] = {}  # those that nobody uses just now
_lock = forks.lock()
_started = threading.Lock()  # taken for good by the first who starts LLVM

_EMPTY: Final = "define void @entry() {\n  ret void\n}\n"


class Unit(NamedTuple):
    """A module of its own, whether its speed matters, and the function in it, if any, that loops over scalars."""

    llvm_ir: str
    hot: bool
    scalar_loops: str = ""


def start(name: str) -> None:
    """Let LLVM load and initialise itself for a target in a thread, beside what Python has to do; once a process.

    Not where memory is limited: who asks for code gets the error that there is too little, and no thread before.
    """
    if is_limited():
        return
    if _started.acquire(blocking=False) and loader.processors() > 1:
        can_start(threading.Thread(target=_start, args=(Target.named(name),), name="jitgraph-llvm-start"))


def _start(target: Target) -> None:
    assemble_unit(Unit(_EMPTY, hot=True), target)  # LLVM makes most of the tables for it that it makes once a process


def _processor(name: str) -> Processor:
    """A level of x86-64."""
    if name not in _FEATURES:
        raise CompileError(f"LLVM code for the target {name!r} is not supported", hint=f"one of {', '.join(_FEATURES)}")
    return Processor(TRIPLE, name, _FEATURES[name])


@contextmanager
def _target_machine(processor: Processor, level: int = _OPTIMISE) -> Iterator[Any]:
    """A target machine for the block alone: one must not be used from two threads at once, nor be in use at a fork."""
    with forks.whole():  # LLVM has locks of its own
        with _lock:
            idle = _machines.setdefault((processor, level), [])
            machine = idle.pop() if idle else _new_machine(processor, level)
        try:
            yield machine
        finally:
            idle.append(machine)


def _new_machine(processor: Processor, level: int) -> Any:
    triple, cpu, features = (text.encode() for text in processor)
    return functions().CreateTargetMachine(_target(triple), triple, cpu, features, level, b"pic", b"small", 0, 0, b"")


def _target(triple: bytes) -> Any:
    """The target of a triple; RuntimeError where there is none. Others than this processor's are initialised for it."""
    llvm = functions()
    for parts in (), ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
        for part in parts:
            getattr(llvm, f"InitializeAll{part}")()
        with returned_text() as message:
            target = llvm.GetTargetFromTriple(triple, message.pointer)
            fault = str(message)
        if target:
            return target
    raise RuntimeError(f"LLVM has no target {triple.decode()}: {fault}")


@contextmanager
def _opened(ir_text: str, processor: Processor, level: int = _OPTIMISE) -> Iterator[tuple[Any, Any]]:
    """The module of a text and a machine for it, for the block alone; MemoryError where there is no room for LLVM."""
    functions()
    with (
        claimed(needed_by(ir_text), "LLVM"),
        _target_machine(processor, level) as machine,
        _parsed(ir_text, machine, processor.triple) as module,
    ):
        yield module, machine


@contextmanager
def _parsed(ir_text: str, machine: Any, triple: str) -> Iterator[Any]:
    """The module of a text, verified, for the block alone."""
    llvm = functions()
    context = llvm.ContextCreate()  # of its own: contexts belong to one thread
    try:
        with returned_text() as message:
            module = llvm.ParseAssembly(context, ir_text.encode(), message.pointer)
            if not module:
                raise RuntimeError(f"LLVM cannot read the generated code: {message}")
        try:
            llvm.SetTarget(module, triple.encode())
            llvm.SetDataLayout(module, _layout(machine))
            with returned_text() as message:
                if llvm.VerifyModule(module, message.pointer):
                    raise RuntimeError(str(message))
            yield module
        finally:
            llvm.DisposeModule(module)  # before its context
    finally:
        llvm.ContextDispose(context)


def _layout(machine: Any) -> bytes:
    llvm = functions()
    data = llvm.CreateTargetMachineData(machine)
    with returned_text() as layout:
        llvm.CopyStringRepOfTargetData(data, layout.pointer)
        llvm.DisposeTargetData(data)
        return str(layout).encode()


def _run_passes(module: Any, machine: Any, scalar_loops: str = "") -> None:
    """The short list, chosen by measurement; of a function of ``scalar_loops`` LLVM simplifies all that it can.

    Such a function is kernels of a few scalars inlined into loops: its checks of indices, sizes and conversions follow
    from each other, and what LLVM proves of them makes loops over elements two to four times as fast. Other emitted
    code arrives with explicit vectors and without common subexpressions or dead code. Instruction combining costs a
    fifth of the time to compile a row of math functions and changes no measured run time (selection combines again);
    LLVM's own -O1 list costs three to ten times as much and gives the same loops.
    """
    llvm = functions()
    options, passes = llvm.CreatePipelineTuningOptions(), llvm.CreateNewModulePassManager()
    builder = llvm.CreatePassBuilder(machine, options)
    llvm.module_AddAlwaysInlinerPass(passes)
    llvm.module_AddGlobalDCEPass(passes)
    llvm.module_AddSROAPass(passes)
    llvm.module_AddSimplifyCFGPass(passes)
    llvm.RunNewModulePassManager(passes, module, builder)
    function = llvm.GetNamedFunction(module, scalar_loops.encode()) if scalar_loops else None
    if function:
        simplification = llvm.buildFunctionSimplificationPipeline(builder, _SIMPLIFY)
        llvm.RunNewFunctionPassManager(simplification, function, builder)
        llvm.DisposeNewFunctionPassManger(simplification)
    llvm.DisposePassBuilder(builder)  # what it knows of the module ends before the module does
    llvm.DisposeNewModulePassManger(passes)
    llvm.DisposePipelineTuningOptions(options)


@undisturbed
def optimise(ir_text: str, target: Target) -> str:
    """The module after the pass list, as text; RuntimeError where LLVM refuses it."""
    with _opened(ir_text, _processor(target.name)) as (module, machine), returned_text() as text:
        _run_passes(module, machine)
        functions().PrintModuleToString(module, text.pointer)
        return str(text)


@undisturbed
def assemble(ir_text: str, target: Target, scalar_loops: str = "") -> bytes:
    """The module as a relocatable ELF object, position independent; RuntimeError where LLVM refuses it."""
    with _opened(ir_text, _processor(target.name)) as (module, machine):
        _run_passes(module, machine, scalar_loops)
        return _emitted(module, machine, _OBJECT)


def _emitted(module: Any, machine: Any, kind: int) -> bytes:
    llvm = functions()
    with returned_text() as message:
        buffer = llvm.TargetMachineEmitToMemory(machine, module, kind, message.pointer)
        if not buffer:
            raise RuntimeError(f"LLVM cannot emit the generated code: {message}")
    try:
        return ctypes.string_at(llvm.GetBufferStart(buffer), llvm.GetBufferSize(buffer))
    finally:
        llvm.DisposeMemoryBuffer(buffer)


@undisturbed
def assemble_unit(unit: Unit, target: Target) -> bytes:
    """As ``assemble``, for one of the units of a module; without optimisation where its speed does not matter."""
    if unit.hot:
        return assemble(unit.llvm_ir, target, unit.scalar_loops)
    with _opened(unit.llvm_ir, _processor(target.name), level=0) as (module, machine):
        return _emitted(module, machine, _OBJECT)


def asm(ir_text: str, target: Target, scalar_loops: str = "") -> str:
    """The assembly of what ``assemble`` makes."""
    return assembly(ir_text, _processor(target.name), scalar_loops)


@undisturbed
def assembly(ir_text: str, processor: Processor, scalar_loops: str = "") -> str:
    """The module as assembly for any processor; RuntimeError where LLVM refuses it."""
    with _opened(ir_text, processor) as (module, machine):
        _run_passes(module, machine, scalar_loops)
        return _emitted(module, machine, _ASSEMBLY).decode()
