"""What code for GPUs is made of beside the host's image."""

from __future__ import annotations

from typing import Any

from jitgraph.records import NamedTuple


class DeviceParts(NamedTuple):
    """What a call needs beside the host's image: the PTX, the IR that it was made of, the names of the functions whose
    handles the entry is given, those of the driver's functions that it calls, the constants, and whether kernels may
    fail."""

    ptx: bytes
    llvm_ir: str
    functions: tuple[str, ...]
    driver: tuple[str, ...]
    constants: tuple[Any, ...]
    reports: bool
