"""LLVM behind one door: text of LLVM IR in, object code or assembly out, for a Target or any other processor."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from jitgraph.codegen.llvm import library, room
from jitgraph.codegen.llvm.undisturbed import undisturbed
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target
from jitgraph.runtime import forks, loader
from jitgraph.runtime.loader.pool import can_start

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

# A loop over vectors, for which LLVM makes most of the tables that it makes once a process.
_FIRST: Final = """
define i32 @entry(ptr %from, ptr %to, i64 %count) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %read = getelementptr float, ptr %from, i64 %i
  %x = load <8 x float>, ptr %read, align 4
  %y = call <8 x float> @llvm.sqrt.v8f32(<8 x float> %x)
  %z = fadd <8 x float> %y, splat (float 1.0)
  %write = getelementptr float, ptr %to, i64 %i
  store <8 x float> %z, ptr %write, align 4
  %next = add i64 %i, 8
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""


class Unit(NamedTuple):
    """A module of its own, whether its speed matters, and the function in it, if any, that loops over scalars."""

    llvm_ir: str
    hot: bool
    scalar_loops: str = ""


def start(name: str) -> None:
    """Let LLVM load and initialise itself for a target in a thread, beside what Python has to do; once a process.

    Not where memory is limited: who asks for code gets the error that there is too little, and no thread before.
    """
    if room.is_limited():
        return
    if _started.acquire(blocking=False) and loader.processors() > 1:
        can_start(threading.Thread(target=_start, args=(Target.named(name),), name="jitgraph-llvm-start"))


def _start(target: Target) -> None:
    for hot in True, False:
        assemble_unit(Unit(_FIRST, hot), target)


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
    llvm = library.functions()
    triple, cpu, features = (text.encode() for text in processor)
    with library.text() as message:
        target = llvm.GetTargetFromTriple(triple, message.pointer)
        if not target:
            raise RuntimeError(f"LLVM has no target {processor.triple}: {message}")
    return llvm.CreateTargetMachine(target, triple, cpu, features, level, b"pic", b"small", 0, 0, b"")


@contextmanager
def _opened(ir_text: str, processor: Processor, level: int = _OPTIMISE) -> Iterator[tuple[Any, Any]]:
    """The module of a text and a machine for it, for the block alone; MemoryError where there is no room for LLVM."""
    library.functions()
    with (
        room.claimed(room.needed_by(ir_text), "LLVM"),
        _target_machine(processor, level) as machine,
        _parsed(ir_text, machine, processor.triple) as module,
    ):
        yield module, machine


@contextmanager
def _parsed(ir_text: str, machine: Any, triple: str) -> Iterator[Any]:
    """The module of a text, verified, for the block alone."""
    llvm = library.functions()
    context = llvm.ContextCreate()  # of its own: contexts belong to one thread
    try:
        with library.text() as message:
            module = llvm.ParseAssembly(context, ir_text.encode(), message.pointer)
            if not module:
                raise RuntimeError(f"LLVM cannot read the generated code: {message}")
        try:
            llvm.SetTarget(module, triple.encode())
            llvm.SetDataLayout(module, _layout(machine))
            with library.text() as message:
                if llvm.VerifyModule(module, message.pointer):
                    raise RuntimeError(str(message))
            yield module
        finally:
            llvm.DisposeModule(module)  # before its context
    finally:
        llvm.ContextDispose(context)


def _layout(machine: Any) -> bytes:
    llvm = library.functions()
    data = llvm.CreateTargetMachineData(machine)
    with library.text() as layout:
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
    llvm = library.functions()
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
    with _opened(ir_text, _processor(target.name)) as (module, machine), library.text() as text:
        _run_passes(module, machine)
        library.functions().PrintModuleToString(module, text.pointer)
        return str(text)


@undisturbed
def assemble(ir_text: str, target: Target, scalar_loops: str = "") -> bytes:
    """The module as a relocatable ELF object, position independent; RuntimeError where LLVM refuses it."""
    with _opened(ir_text, _processor(target.name)) as (module, machine):
        _run_passes(module, machine, scalar_loops)
        return _emitted(module, machine, _OBJECT)


def _emitted(module: Any, machine: Any, kind: int) -> bytes:
    llvm = library.functions()
    with library.text() as message:
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
