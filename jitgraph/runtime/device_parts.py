"""What code for GPUs is made of beside the host's image."""

from __future__ import annotations

from typing import Any

from jitgraph.records import NamedTuple


class DeviceParts(NamedTuple):
    """What a call needs beside the host's image: the PTX, the IR that it was made of, the names of the functions whose
    handles the entry is given, those of the driver's functions that it calls, the constants, whether kernels may
    fail, and the sizes of pinned memory of which the entry is given the greatest: none where it never waits."""

    ptx: bytes
    llvm_ir: str
    functions: tuple[str, ...]
    driver: tuple[str, ...]
    constants: tuple[Any, ...]
    reports: bool
    host_sizes: tuple[int | str, ...] = ()
