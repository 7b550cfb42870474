"""cuBLASLt, by ctypes: handles, and what a product needs before it is asked for; entries of images call it.

The library is that of the wheel ``nvidia-cublas`` (or ``nvidia-cublas-cu12``), found beside the wheel's package, and it
serves in this process alone: no file has any of it. Matrices lie by columns. Sums of 16-bit floats are kept in float32,
also where several blocks share one, so that errors stay within the bound of all products.

Source: cublasLt.h of cuBLAS 13.0, https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from jitgraph.errors import CudaError
from jitgraph.runtime import forks
from jitgraph.runtime.device_payload import LIBRARY_SLOTS, WORKSPACE_BYTES, LibraryProduct, Matrix

_PLACES: Final = (("cu13", "libcublasLt.so.13"), ("cublas", "libcublasLt.so.12"))
"""Where the wheels have it inside of the package ``nvidia``, the newest first."""

FUNCTIONS: Final = {
    "cublasLtCreate": "p",
    "cublasLtDestroy": "p",
    "cublasLtMatmulDescCreate": "pii",
    "cublasLtMatmulDescSetAttribute": "pipz",
    "cublasLtMatmulDescDestroy": "p",
    "cublasLtMatrixLayoutCreate": "piqqq",
    "cublasLtMatrixLayoutSetAttribute": "pipz",
    "cublasLtMatrixLayoutDestroy": "p",
    "cublasLtMatmulPreferenceCreate": "p",
    "cublasLtMatmulPreferenceSetAttribute": "pipz",
    "cublasLtMatmulPreferenceDestroy": "p",
    "cublasLtMatmulAlgoGetHeuristic": "pppppppipp",
    "cublasLtMatmul": "ppppppppppppppzp",
}
"""The functions that are called, with the C types of their parameters as ``driver.py`` writes them; ``q`` is
uint64_t or int64_t. Each returns a cublasStatus_t, of which 0 is success."""

TYPES: Final = {"p": ctypes.c_void_p, "i": ctypes.c_int, "z": ctypes.c_size_t, "q": ctypes.c_uint64}

DATA_TYPES: Final = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
"""cudaDataType_t: CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF."""

COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
"""cublasComputeType_t."""

TRANSPOSE_LEFT, TRANSPOSE_RIGHT = 3, 4
"""cublasLtMatmulDescAttributes_t, each of an int32: CUBLASLT_MATMUL_DESC_TRANSA and TRANSB; 1 is CUBLAS_OP_T."""

BATCH_COUNT, BATCH_STRIDE = 5, 6
"""cublasLtMatrixLayoutAttribute_t: an int32, and an int64 in elements."""

MOST_WORKSPACE, REDUCTION_SCHEMES, LEAST_ALIGNMENTS = 1, 3, (5, 6, 7, 8)
"""cublasLtMatmulPreferenceAttributes_t: an uint64, and uint32 each, in bytes of A, B, C and D."""

IN_COMPUTE_TYPE: Final = 2
"""CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: blocks that share a sum exchange it as it is summed."""

ALIGNMENT: Final = 16

_STATUS: Final = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t, whose first field is a cublasLtMatmulAlgo_t."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def error(status: int, action: str) -> CudaError:
    """The error of a call that gave ``status``."""
    name = _STATUS.get(status, f"status {status}")
    return CudaError(
        f"{action}: {name} of cuBLASLt", code=status, hint="leave JITGRAPH_CUDA_ORDER out for kernels of jitgraph's own"
    )


class CublasLibrary:
    """The functions of the library, by their addresses; they must live as long as this."""

    def __init__(self, addresses: dict[str, int], name: str) -> None:
        self.name = name
        self.addresses = addresses
        self._functions: dict[str, Callable[..., int]] = {
            symbol: ctypes.CFUNCTYPE(ctypes.c_int, *[TYPES[letter] for letter in letters])(addresses[symbol])
            for symbol, letters in FUNCTIONS.items()
        }

    def call(self, symbol: str, *arguments: Any) -> None:
        """Call a function; CudaError where it gives no success."""
        status = self._functions[symbol](*arguments)
        if status:
            raise error(status, symbol)

    def created(self, symbol: str, *arguments: Any) -> int:
        """What a function writes to the address that is its first argument."""
        out = ctypes.c_void_p()
        self.call(symbol, ctypes.addressof(out), *arguments)
        return out.value or 0


class CublasProducts:
    """Products of one device: a handle in its context, and what each product needs, kept until the end."""

    def __init__(self, library: CublasLibrary) -> None:
        """The device's context is current; CudaError where the library does not serve it."""
        self.library = library
        self._lock = forks.lock()
        self._handle = library.created("cublasLtCreate")
        self._kept: dict[LibraryProduct, Any] = {}
        self._made: list[tuple[str, int]] = []

    def prepared(self, product: LibraryProduct) -> int:
        """The address of what entries need for a product (``LIBRARY_SLOTS``); CudaError where it cannot be had."""
        with self._lock:
            record = self._kept.get(product)
            if record is None:
                record = self._kept[product] = self._prepare(product)
        return ctypes.addressof(record[0])

    def close(self) -> None:
        """Give everything back; the device has no work left."""
        with self._lock:
            for symbol, handle in reversed(self._made):
                self.library.call(symbol, handle)
            self._made.clear()
            self._kept.clear()
            self.library.call("cublasLtDestroy", self._handle)

    def _prepare(self, product: LibraryProduct) -> Any:
        library = self.library
        wide = product.dtype == "float64"
        compute = COMPUTE_64F if wide else COMPUTE_32F_FAST_TF32 if product.tf32 else COMPUTE_32F
        described = self._new("cublasLtMatmulDesc", compute, DATA_TYPES["float64" if wide else "float32"])
        for attribute, matrix in ((TRANSPOSE_LEFT, product.left), (TRANSPOSE_RIGHT, product.right)):
            self._set("cublasLtMatmulDesc", described, attribute, ctypes.c_int32(matrix[3]))
        left, right = (self._layout(product.dtype, product.batch, each) for each in (product.left, product.right))
        result = self._layout(product.result_dtype, product.batch, product.result)
        algorithm = self._algorithm(described, left, right, result)
        factor = ctypes.c_double if wide else ctypes.c_float
        one, none = factor(1), factor(0)
        values = {
            "function": library.addresses["cublasLtMatmul"],
            "handle": self._handle,
            "product": described,
            "one": ctypes.addressof(one),
            "left": left,
            "right": right,
            "none": ctypes.addressof(none),
            "result": result,
            "algorithm": ctypes.addressof(algorithm),
        }
        return (ctypes.c_uint64 * len(LIBRARY_SLOTS))(*[values[slot] for slot in LIBRARY_SLOTS]), one, none, algorithm

    def _algorithm(self, described: int, left: int, right: int, result: int) -> HeuristicResult:
        preference = self._new("cublasLtMatmulPreference")
        self._set("cublasLtMatmulPreference", preference, MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        self._set("cublasLtMatmulPreference", preference, REDUCTION_SCHEMES, ctypes.c_uint32(IN_COMPUTE_TYPE))
        for attribute in LEAST_ALIGNMENTS:
            self._set("cublasLtMatmulPreference", preference, attribute, ctypes.c_uint32(ALIGNMENT))
        heuristic, count = HeuristicResult(), ctypes.c_int()
        outputs = ctypes.addressof(heuristic), ctypes.addressof(count)
        matrices = described, left, right, result, result
        self.library.call("cublasLtMatmulAlgoGetHeuristic", self._handle, *matrices, preference, 1, *outputs)
        if not count.value or heuristic.state:
            raise error(heuristic.state or 15, "an algorithm of cuBLASLt for a product")
        return heuristic

    def _layout(self, dtype: str, batch: int, matrix: Matrix) -> int:
        rows, columns, ld, _, across = matrix
        layout = self._new("cublasLtMatrixLayout", DATA_TYPES[dtype], rows, columns, ld)
        if batch > 1:
            self._set("cublasLtMatrixLayout", layout, BATCH_COUNT, ctypes.c_int32(batch))
            self._set("cublasLtMatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64(across))
        return layout

    def _new(self, kind: str, *arguments: int) -> int:
        handle = self.library.created(f"{kind}Create", *arguments)
        self._made.append((f"{kind}Destroy", handle))
        return handle

    def _set(self, kind: str, handle: int, attribute: int, value: Any) -> None:
        address, size = ctypes.addressof(value), ctypes.sizeof(value)
        self.library.call(f"{kind}SetAttribute", handle, attribute, address, size)


def load() -> CublasLibrary | None:
    """The library of an installed wheel; None where there is none."""
    for path in _paths():
        if os.path.exists(path):
            return of_library(ctypes.CDLL(path), path)
    return None


def of_library(library: ctypes.CDLL, name: str) -> CublasLibrary:
    """The library whose symbols a shared object has; CudaError where it lacks some."""
    addresses = {}
    for symbol in FUNCTIONS:
        try:
            addresses[symbol] = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
        except AttributeError:
            raise CudaError(f"{name} has no {symbol}", code=15, hint="pip install -U nvidia-cublas") from None
    return CublasLibrary(addresses, name)


def _paths() -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for part, name in _PLACES:
            yield os.path.join(folder, part, "lib", name)
