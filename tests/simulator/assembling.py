"""PTX of kernels by LLVM, and what CUDA's assembler says of it, where it is at hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from jitgraph.codegen.llvm import machine

TRIPLE = b"nvptx64-nvidia-cuda"


def ptx(text: str, cpu: str = "sm_90", features: str = "+ptx90") -> str:
    """The PTX of a module; a process ends where LLVM cannot select an instruction."""
    llvm = machine.functions()
    result = llvm.CreateTargetMachine(
        machine._target(TRIPLE), TRIPLE, cpu.encode(), features.encode(), 2, b"", b"", 0, 0, b""
    )
    context = llvm.ContextCreate()
    with machine.returned_text() as message:
        module = llvm.ParseAssembly(context, text.encode(), message.pointer)
        assert module, str(message)
    llvm.SetTarget(module, TRIPLE)
    llvm.SetDataLayout(module, machine._layout(result))
    with machine.returned_text() as message:
        assert not llvm.VerifyModule(module, message.pointer), str(message)
    machine._run_passes(module, result)
    out = machine._emitted(module, result, machine._ASSEMBLY).decode()
    llvm.DisposeModule(module)
    llvm.ContextDispose(context)
    return out


def assembled(text: str, folder: Path, cpu: str = "sm_90") -> None:
    """Assert that ``ptxas`` takes a module's PTX; skipped where there is no ``ptxas``."""
    result = shutil.which("ptxas")
    if result is None:
        pytest.skip("ptxas, CUDA's assembler, is not installed")
    source = folder / "module.ptx"
    source.write_text(ptx(text, cpu))
    command = [result, f"-arch={cpu}", str(source), "-o", str(folder / "module.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + source.read_text()
