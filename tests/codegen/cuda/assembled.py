"""CUDA's assembler over many modules at once, and what it says of each function."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

PTXAS = shutil.which("ptxas")
_ALL = ("sm_90", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120")
PROCESSORS = _ALL if os.environ.get("CUDA_PROCESSORS") == "all" else _ALL[:1]
"""Those that kernels are assembled for; ``make nightly`` takes all that code is made for."""

_VERSION = "8.7"  # of PTX, which all of them take

needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="no ptxas here")

_HEAD = re.compile(r"^\.(?:version|target|address_size).*$", re.MULTILINE)
_FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)\s*\(")
_VARIABLE = re.compile(r"^\s*(?:\.visible )?\.(?:shared|global|const)[^\n;(]*?\s([\w$]+)\[", re.MULTILINE)
_AT_ONCE = 40
"""Modules in one file: a start of the assembler costs as much as some of them."""


@dataclass(frozen=True)
class FunctionUsage:
    """What a kernel takes of the processor."""

    name: str
    registers: int
    shared: int
    stack: int
    spilled: int


def assemble(modules: Sequence[str], arch: str) -> list[FunctionUsage]:
    """What the kernels of ``modules`` take; AssertionError with the assembler's words where it refuses one."""
    results: list[FunctionUsage] = []
    for start in range(0, len(modules), _AT_ONCE):
        results += _assembled(_together(modules[start : start + _AT_ONCE], arch), arch)
    return results


def _together(modules: Sequence[str], arch: str) -> str:
    """The modules as one, in which each has names of its own."""
    head = "\n".join(_HEAD.findall(modules[0]))
    parts = [re.sub(r"\.target \S+", f".target {arch}", re.sub(r"\.version \S+", f".version {_VERSION}", head))]
    for number, module in enumerate(modules):
        body = _HEAD.sub("", module)
        names = sorted({*_FUNCTION.findall(body), *_VARIABLE.findall(body)}, key=len, reverse=True)
        for name in names:
            body = re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", f"{name}_m{number}", body)
        parts.append(body)
    return "\n".join(parts)


def _assembled(ptx: str, arch: str) -> Iterator[FunctionUsage]:
    assert PTXAS is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "all.ptx"
        source.write_text(ptx)
        command = [PTXAS, f"-arch={arch}", "-v", str(source), "-o", str(Path(folder) / "all.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    for text in done.stderr.split("Compiling entry function ")[1:]:
        name = text.split("'")[1]
        numbers = [
            int(match.group(1)) if (match := re.search(pattern, text)) else 0
            for pattern in (
                r"Used (\d+) registers",
                r"(\d+) bytes smem",
                r"(\d+) bytes stack frame",
                r"(\d+) bytes spill stores",
            )
        ]
        yield FunctionUsage(name, *numbers)
