"""A stand-in for cuBLASLt over the simulator: descriptors are checked, and products computed in their stream's order.

A product is what its descriptors say, whatever the caller meant: factors are read where they lie by columns, summed in
float64, and rounded once. What the library would refuse, or read beyond its memory, is a status, with a note.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from jitgraph.records import dataclass
from jitgraph.runtime.cuda.cublas import (
    ALIGNMENT,
    BATCH_COUNT,
    BATCH_STRIDE,
    COMPUTE_32F,
    COMPUTE_32F_FAST_TF32,
    COMPUTE_64F,
    FUNCTIONS,
    IN_COMPUTE_TYPE,
    LEAST_ALIGNMENTS,
    MOST_WORKSPACE,
    REDUCTION_SCHEMES,
    TRANSPOSE_LEFT,
    TRANSPOSE_RIGHT,
    TYPES,
    CublasLibrary,
    HeuristicResult,
)
from jitgraph_testing.simulator.calls.codes import DriverFault
from jitgraph_testing.simulator.driver import FakeDriver
from jitgraph_testing.simulator.faults import SimulationError

_INVALID, _UNSUPPORTED = 7, 15
_DTYPES: Final[dict[int, Any]] = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
_SCALES: Final = {COMPUTE_32F: 0, COMPUTE_32F_FAST_TF32: 0, COMPUTE_64F: 1}
_SIZES: Final = {
    "product": {TRANSPOSE_LEFT: 4, TRANSPOSE_RIGHT: 4},
    "layout": {BATCH_COUNT: 4, BATCH_STRIDE: 8},
    "preference": {MOST_WORKSPACE: 8, REDUCTION_SCHEMES: 4, **dict.fromkeys(LEAST_ALIGNMENTS, 4)},
}
"""Bytes of the attributes that are simulated."""
_ALGORITHM: Final = 0x5EED


class _Refused(Exception):
    def __init__(self, status: int, note: str) -> None:
        super().__init__(note)
        self.status = status


@dataclass(eq=False)
class _Described:
    """A descriptor: its kind, what it was made of, and the attributes that were set."""

    kind: str
    given: tuple[int, ...]
    attributes: dict[int, int]


class FakeCublas:
    """A library of its own for the devices of a simulated driver; it must live as long as anybody has its addresses.

    ``products`` are those that were asked for, as (m, n, k, batch); ``notes`` say what was refused, and why.
    """

    def __init__(self, fake: FakeDriver, hidden: int = 0) -> None:
        """Addresses from ``hidden`` on are those of device memory, so much higher than it lies."""
        self._driver, self._hidden = fake, hidden
        self._held: dict[int, _Described] = {}
        self._next = 0x10
        self.products: list[tuple[int, int, int, int]] = []
        self.notes: list[str] = []
        self.serves = True
        self._functions = [self._function(symbol, letters) for symbol, letters in FUNCTIONS.items()]
        addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._functions]
        self.library = CublasLibrary(dict(zip(FUNCTIONS, addresses, strict=True)), "the simulator's cuBLASLt")

    @property
    def live(self) -> list[str]:
        """The kinds of what was made and not given back."""
        return [each.kind for each in self._held.values()]

    def _function(self, symbol: str, letters: str) -> Any:
        do: Any = {
            "cublasLtCreate": self._create,
            "cublasLtMatmulDescCreate": lambda to, compute, scale: self._describe(to, compute, scale),
            "cublasLtMatrixLayoutCreate": lambda to, *given: self._lay_out(to, *given),
            "cublasLtMatmulPreferenceCreate": lambda to: self._new(to, "preference"),
            "cublasLtMatmulDescSetAttribute": lambda *given: self._set("product", *given),
            "cublasLtMatrixLayoutSetAttribute": lambda *given: self._set("layout", *given),
            "cublasLtMatmulPreferenceSetAttribute": lambda *given: self._set("preference", *given),
            "cublasLtDestroy": lambda handle: self._drop(handle, "handle"),
            "cublasLtMatmulDescDestroy": lambda handle: self._drop(handle, "product"),
            "cublasLtMatrixLayoutDestroy": lambda handle: self._drop(handle, "layout"),
            "cublasLtMatmulPreferenceDestroy": lambda handle: self._drop(handle, "preference"),
            "cublasLtMatmulAlgoGetHeuristic": self._find_algorithm,
            "cublasLtMatmul": self._multiply,
        }[symbol]

        def call(*arguments: Any) -> int:
            with self._driver.lock:
                try:
                    do(*arguments)
                except _Refused as refused:
                    self.notes.append(f"{symbol}: {refused}")
                    return refused.status
                except DriverFault as fault:
                    self.notes.append(f"{symbol}: {fault.note}")
                    return 14
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, *[TYPES[letter] for letter in letters])(call)

    # --- descriptors -------------------------------------------------------------------------------------------------

    def _new(self, to: int, kind: str, *args: int) -> None:
        self._next += 0x10
        self._held[self._next] = _Described(kind, args, {})
        ctypes.c_uint64.from_address(to).value = self._next

    def _get(self, handle: int | None, kind: str) -> _Described:
        described = self._held.get(handle or 0)
        if described is None or described.kind != kind:
            raise _Refused(_INVALID, f"{handle or 0:#x} is no {kind}")
        return described

    def _drop(self, handle: int, kind: str) -> None:
        self._get(handle, kind)
        del self._held[handle]

    def _create(self, to: int) -> None:
        if not self.serves:
            raise _Refused(1, "no device is served")
        self._new(to, "handle", self._driver.state.device().ordinal)

    def _describe(self, to: int, compute: int, scale: int) -> None:
        if _SCALES.get(compute) != scale:
            raise _Refused(_UNSUPPORTED, f"the type {compute} of sums with the type {scale} of factors")
        self._new(to, "product", compute)

    def _lay_out(self, to: int, dtype: int, rows: int, columns: int, ld: int) -> None:
        if dtype not in _DTYPES or not rows or not columns or ld < rows:
            raise _Refused(_INVALID, f"a matrix {rows} x {columns} of type {dtype}, columns {ld} apart")
        self._new(to, "layout", dtype, rows, columns, ld)

    def _set(self, kind: str, handle: int, attribute: int, value: int, size: int) -> None:
        if _SIZES[kind].get(attribute) != size:
            raise _Refused(_INVALID, f"the attribute {attribute} of a {kind} in {size} bytes")
        self._get(handle, kind).attributes[attribute] = int.from_bytes(ctypes.string_at(value, size), "little")

    def _find_algorithm(
        self, handle: int, product: int, a: int, b: int, c: int, d: int, preference: int, most: int, to: int, count: int
    ) -> None:
        self._get(handle, "handle")
        self._fitting(product, a, b, c, d)
        attributes = self._get(preference, "preference").attributes
        if most < 1 or any(attributes.get(attribute) != ALIGNMENT for attribute in LEAST_ALIGNMENTS):
            raise _Refused(_INVALID, f"{most} algorithms for alignments of {attributes}")
        result = HeuristicResult.from_address(to)
        result.algorithm[0], result.state, result.workspace = _ALGORITHM, 0, attributes.get(MOST_WORKSPACE, 0)
        if attributes.get(REDUCTION_SCHEMES) != IN_COMPUTE_TYPE:
            result.algorithm[0] = 0  # one whose sums are not kept as wide
        ctypes.c_int.from_address(count).value = 1

    def _fitting(self, product: int, *handles: int) -> tuple[list[_Described], list[bool], tuple[int, int, int, int]]:
        """The layouts, which factors are transposed, and m, n, k and the number of products."""
        described = self._get(product, "product")
        layouts = [self._get(handle, "layout") for handle in handles]
        turned = [bool(described.attributes.get(each, 0)) for each in (TRANSPOSE_LEFT, TRANSPOSE_RIGHT)]
        (m, k), (k_too, n) = (
            tuple(layout.given[1:3][::-1] if turn else layout.given[1:3])
            for layout, turn in zip(layouts[:2], turned, strict=True)
        )
        batches = {layout.attributes.get(BATCH_COUNT, 1) for layout in layouts}
        if k != k_too or len(batches) > 1 or any(layout.given[1:3] != (m, n) for layout in layouts[2:]):
            shapes = [layout.given[1:3] for layout in layouts]
            raise _Refused(_INVALID, f"matrices of {shapes}, transposed {turned}, by {sorted(batches)}")
        types = [layout.given[0] for layout in layouts]
        wide = described.given[0] == COMPUTE_64F
        results = {0} | ({types[0]} if types[0] in (2, 14) else set())
        if types[0] != types[1] or types[2] != types[3] or (types[0] == 1) != wide:
            raise _Refused(_UNSUPPORTED, f"matrices of types {types}")
        if types[3] not in ({1} if wide else results):
            raise _Refused(_UNSUPPORTED, f"a result of type {types[3]} for factors of type {types[0]}")
        return layouts, turned, (m, n, k, batches.pop())

    # --- products ----------------------------------------------------------------------------------------------------

    def _multiply(self, handle: int, product: int, *rest: int) -> None:
        one, a, a_layout, b, b_layout, none, c, c_layout, d, d_layout, algorithm, workspace, size, stream = rest
        state = self._driver.state
        if self._get(handle, "handle").given[0] != state.device().ordinal:
            raise _Refused(_INVALID, "the handle is another device's")
        layouts, turned, sides = self._fitting(product, a_layout, b_layout, c_layout, d_layout)
        factor: Any = ctypes.c_double if self._get(product, "product").given[0] == COMPUTE_64F else ctypes.c_float
        if factor.from_address(one).value != 1 or factor.from_address(none).value != 0 or c != d:
            raise _Refused(_INVALID, "the product is not asked for as it is")
        if HeuristicResult.from_address(algorithm).algorithm[0] != _ALGORITHM:
            raise _Refused(_INVALID, "the algorithm was not found for these preferences")
        addresses = [self._real(address) for address in (a, b, d, workspace)]
        if any(address % ALIGNMENT for address in addresses):
            raise _Refused(_INVALID, f"matrices or memory at {[hex(x) for x in addresses]} are not aligned")
        self.products.append(sides)

        def run() -> None:
            memory = state.devices[self._get(handle, "handle").given[0]].memory
            memory.bytes_at(addresses[3], size)[:] = 0xFF  # which holds nothing before and after
            views = [
                _matrices(memory.bytes_at, address, layout, sides[3])
                for address, layout in zip(addresses[:3], (layouts[0], layouts[1], layouts[3]), strict=True)
            ]
            left, right = (
                (view.swapaxes(1, 2) if turn else view).astype(np.float64)
                for view, turn in zip(views[:2], turned, strict=True)
            )
            with np.errstate(all="ignore"):
                views[2][...] = (left @ right).astype(views[2].dtype)

        state.submit(state.stream(stream), "cublasLtMatmul", run)

    def _real(self, address: int) -> int:
        return address - self._hidden if self._hidden and address >= self._hidden else address


def _matrices(bytes_at: Any, address: int, layout: _Described, batch: int) -> NDArray[Any]:
    """Views of matrices by columns, as (number, row, column); SimulationError where they leave their memory."""
    dtype, rows, columns, ld = layout.given
    item = np.dtype(_DTYPES[dtype]).itemsize
    across = layout.attributes.get(BATCH_STRIDE, 0)
    length = (batch - 1) * across + (columns - 1) * ld + rows
    if batch < 1:
        raise SimulationError("no products were asked for")
    flat = bytes_at(address, length * item).view(_DTYPES[dtype])
    strides = across * item, item, ld * item
    return np.lib.stride_tricks.as_strided(flat, (batch, rows, columns), strides)
