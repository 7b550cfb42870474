"""What code for GPUs is made of beside the host's image."""

from __future__ import annotations

from typing import Any, Final

from jitgraph.records import NamedTuple

WORKSPACE_BYTES: Final = 32 << 20
"""Of device memory for a product that a library computes; what NVIDIA recommends for its largest GPUs."""

LIBRARY_FAILED: Final = -1000
"""Above which entries never return results of the driver negated: below are those of a library, as far below as theirs
are above 0."""

LIBRARY_SLOTS: Final = ("function", "handle", "product", "one", "left", "right", "none", "result", "algorithm")
"""What entries find, an address each, where they are told what a library needs for a product; ``one`` and ``none`` are
the factors of the product and of what was there before."""

Matrix = tuple[int, int, int, int, int]
"""Rows, columns and the distance of columns in memory, in elements; whether the factor is the matrix transposed; and
how far the next product's matrix lies."""


class LibraryProduct(NamedTuple):
    """``batch`` products that a library computes, by columns as it counts them: the factors' matrices and the result's.

    ``tf32`` lets it round operands of float32.
    """

    dtype: str
    result_dtype: str
    tf32: bool
    batch: int
    left: Matrix
    right: Matrix
    result: Matrix


class DevicePayload(NamedTuple):
    """What a call needs beside the host's image: the PTX, the IR that it was made of, the names of the functions whose
    handles the entry is given, those of the driver's functions that it calls, the constants, whether kernels may
    fail, the sizes of pinned memory of which the entry is given the greatest (none where it never waits), how many
    launches every call asks for (0 where its calls are not replayed), and the products of a library that are launches
    as well."""

    ptx: bytes
    llvm_ir: str
    functions: tuple[str, ...]
    driver: tuple[str, ...]
    constants: tuple[Any, ...]
    reports: bool
    host_sizes: tuple[int | str, ...] = ()
    launches: int = 0
    products: tuple[LibraryProduct, ...] = ()
