"""LLVM behind one door: text of LLVM IR in, object code or assembly out, for a Target."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from jitgraph.errors import CompileError
from jitgraph.ir.target import Target

TRIPLE: Final = "x86_64-unknown-linux-gnu"
VERSION: Final[tuple[int, int, int]] = llvm.llvm_version_info

# A processor name already stands for its level's features; LLVM would only halve the vectors of x86-64-v4.
_FEATURES: Final = {"x86-64-v2": "", "x86-64-v3": "", "x86-64-v4": "-prefer-256-bit"}

# One pass manager or target machine must not be used from two threads at once.
_lock = threading.Lock()


@cache
def _target_machine(name: str) -> Any:
    if name not in _FEATURES:
        raise CompileError(f"LLVM code for the target {name!r} is not supported", hint=f"one of {', '.join(_FEATURES)}")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=name, features=_FEATURES[name], opt=2, reloc="pic", codemodel="small"
    )


def _parsed(ir_text: str, target: Target) -> tuple[Any, Any]:
    machine = _target_machine(target.name)
    try:
        module = llvm.parse_assembly(ir_text)
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses the generated code: {str(error).strip()}") from None
    return module, machine


def _run_passes(module: Any, machine: Any) -> None:
    """The short list, chosen by measurement.

    Emitted code arrives with explicit vectors and without common subexpressions, so LLVM's own -O1 list costs three to
    ten times as much (20 ms against 4 for a register tile of a matrix product) and gives the same loops. NewGVN, the
    only value numbering that llvmlite offers alone, is left out: LLVM itself does not enable it.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_dead_store_elimination_pass()
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


def optimise(ir_text: str, target: Target) -> str:
    """The module after the pass list, as text; CompileError where LLVM refuses it."""
    with _lock:
        module, machine = _parsed(ir_text, target)
        _run_passes(module, machine)
        return str(module)


def assemble(ir_text: str, target: Target) -> bytes:
    """The module as a relocatable ELF object, position independent; CompileError where LLVM refuses it."""
    with _lock:
        module, machine = _parsed(ir_text, target)
        _run_passes(module, machine)
        return bytes(machine.emit_object(module))


def asm(ir_text: str, target: Target) -> str:
    """The assembly of what ``assemble`` makes."""
    with _lock:
        module, machine = _parsed(ir_text, target)
        _run_passes(module, machine)
        return str(machine.emit_assembly(module))
