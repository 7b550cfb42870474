"""LLVM behind one door: text of LLVM IR in, object code or assembly out, for a Target."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from jitgraph.codegen.llvm.undisturbed import undisturbed
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target
from jitgraph.runtime import forks

TRIPLE: Final = "x86_64-unknown-linux-gnu"
VERSION: Final[tuple[int, int, int]] = llvm.llvm_version_info

# A processor name already stands for its level's features; LLVM would only halve the vectors of x86-64-v4.
_FEATURES: Final = {"x86-64-v2": "", "x86-64-v3": "", "x86-64-v4": "-prefer-256-bit"}

_OPTIMISE: Final = 2  # of LLVM's levels of code generation
_machines: dict[tuple[str, int], list[Any]] = {}  # those that nobody uses just now
_lock = forks.lock()
forks.renew(ffi.lib._lock._lock)  # which llvmlite takes for each of its functions, destructors included


class Unit(NamedTuple):
    """A module of its own, and whether its speed matters."""

    llvm_ir: str
    hot: bool


@contextmanager
def _target_machine(name: str, level: int = _OPTIMISE) -> Iterator[Any]:
    """A target machine for the block alone: one must not be used from two threads at once, nor be in use at a fork."""
    if name not in _FEATURES:
        raise CompileError(f"LLVM code for the target {name!r} is not supported", hint=f"one of {', '.join(_FEATURES)}")
    with forks.whole():  # LLVM has locks of its own
        with _lock:
            idle = _machines.setdefault((name, level), [])
            machine = idle.pop() if idle else _new_machine(name, level)
        yield machine
        idle.append(machine)


def _new_machine(name: str, level: int) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=name, features=_FEATURES[name], opt=level, reloc="pic", codemodel="small"
    )


class _OwnedModule(llvm.ModuleRef):  # type: ignore[misc]
    """A module that LLVM ends with its context.

    What an interrupt left in a cycle of references is ended by the collector in any order, and a module must not be
    ended behind its context.
    """

    _owned = True


def _parsed(ir_text: str, machine: Any) -> Any:
    context = llvm.create_context()  # of its own: contexts belong to one thread
    with ffi.OutputString() as message:
        parsed = ffi.lib.LLVMPY_ParseAssembly(context, ir_text.encode(), message)
        if not parsed:
            raise RuntimeError(f"LLVM cannot read the generated code: {message}")
    module = _OwnedModule(parsed, context)
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    module.verify()
    return module


def _run_passes(module: Any, machine: Any) -> None:
    """The short list, chosen by measurement.

    Emitted code arrives with explicit vectors and without common subexpressions or dead code. Instruction combining
    costs a fifth of the time to compile a row of math functions and changes no measured run time (selection combines
    again); LLVM's own -O1 list costs three to ten times as much and gives the same loops.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    try:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
    finally:
        builder.close()  # what it knows of the module ends before the module does


@undisturbed
def optimise(ir_text: str, target: Target) -> str:
    """The module after the pass list, as text; RuntimeError where LLVM refuses it."""
    with _target_machine(target.name) as machine:
        module = _parsed(ir_text, machine)
        _run_passes(module, machine)
        return str(module)


@undisturbed
def assemble(ir_text: str, target: Target) -> bytes:
    """The module as a relocatable ELF object, position independent; RuntimeError where LLVM refuses it."""
    with _target_machine(target.name) as machine:
        module = _parsed(ir_text, machine)
        _run_passes(module, machine)
        return _object(module, machine)


@cache
def _emit_to_memory() -> Any:
    """LLVM's code generator without the lock that llvmlite puts around every function.

    Threads may run it at once on modules of contexts of their own, each with a target machine of its own.
    """
    locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    function = ctypes.CDLL(ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function


def _object(module: Any, machine: Any) -> bytes:
    with ffi.OutputString() as message:
        buffer = _emit_to_memory()(machine, module, 1, message)
        if not buffer:
            raise RuntimeError(f"LLVM cannot emit the generated code: {message}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@undisturbed
def assemble_unit(unit: Unit, target: Target) -> bytes:
    """As ``assemble``, for one of the units of a module; without optimisation where its speed does not matter."""
    if unit.hot:
        return assemble(unit.llvm_ir, target)
    with _target_machine(target.name, level=0) as machine:
        return _object(_parsed(unit.llvm_ir, machine), machine)


@undisturbed
def asm(ir_text: str, target: Target) -> str:
    """The assembly of what ``assemble`` makes."""
    with _target_machine(target.name) as machine:
        module = _parsed(ir_text, machine)
        _run_passes(module, machine)
        return str(machine.emit_assembly(module))
