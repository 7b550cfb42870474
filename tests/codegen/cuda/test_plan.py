"""The entry of the host: what it asks of a driver that notes everything, held against the table of launches."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.codegen.cuda.backend import CudaCode
from jitgraph.codegen.cuda.failures import LAUNCH_SHIFT
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.kernels.schedule_executor import execute_schedule
from jitgraph.ir import context, dims
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver_functions import FUNCTIONS, SLOTS
from jitgraph.simulator.module import SimulatedModule
from tests.codegen.cuda.launched import code_of, schedule_of, sizes_of
from tests.codegen.cuda.programs import floats, traced
from tests.graphs import needs_native
from tests.op_loop import require_same, samples_by_names

pytestmark = needs_native
TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p}
FIRST_HANDLE = 0x1000


class NotingDriver:
    """A driver that runs launches in the simulator at once; any of its functions may be made to fail."""

    def __init__(self, code: CudaCode) -> None:
        self.code = code
        self.module = SimulatedModule(code.texts["llvm"])
        self.calls: list[str] = []
        self.result: dict[str, int] = {}
        self._kept: list[Any] = []
        self.table = (ctypes.c_uint64 * len(FUNCTIONS))()
        for symbol, function in (
            ("cuLaunchKernel", self.launch),
            ("cuMemsetD32Async", self.fill),
            ("cuMemcpyDtoHAsync_v2", self.copy),
        ):
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *[TYPES[letter] for letter in FUNCTIONS[symbol]])
            made = kind(self.noted(symbol, function))
            self._kept.append(made)
            self.table[SLOTS[symbol]] = ctypes.cast(made, ctypes.c_void_p).value or 0

    def noted(self, symbol: str, function: Callable[..., None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(symbol)
            if self.result.get(symbol):
                return self.result[symbol]
            function(*arguments)
            return 0

        return call

    def launch(self, handle: int, *rest: Any) -> None:
        *grid_and_block, shared, stream, parameters, extra = rest
        assert (shared, stream, extra) == (0, 77, None)
        name = self.code.functions[handle - FIRST_HANDLE]
        sizes = self.module.argument_bytes(name)
        places = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        arguments = [ctypes.string_at(place, size) for place, size in zip(places, sizes, strict=True)]
        self.module.launch(name, grid_and_block[:3], grid_and_block[3:], 0, arguments, seed=1)

    def fill(self, address: int, value: int, count: int, stream: int) -> None:
        self.module.memory.bytes_at(address, 4 * count)[:] = np.frombuffer(struct.pack("<I", value) * count, np.uint8)

    def copy(self, to: int, address: int, size: int, stream: int) -> None:
        ctypes.memmove(to, self.module.memory.bytes_at(address, size).tobytes(), size)


class Planned:
    """The image of a schedule on arrays: outputs, the error record, and what the driver was asked."""

    def __init__(self, schedule: Schedule, arguments: list[Any]) -> None:
        self.schedule, self.code = schedule, code_of(schedule)
        self.arguments = arguments
        self.driver = NotingDriver(self.code)
        self.record = np.zeros(5, np.int64)
        self.call = loader.Call(stream=77)

    def run(self, **sizes: int) -> int:
        """The code that the entry returns."""
        memory, schedule = self.driver.module.memory, self.schedule
        sizes = {**sizes_of(schedule, self.arguments), **sizes}
        self.image = loader.Image(self.code.image)
        entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(self.image.export("entry"))
        arena_bytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.image.export("arena_bytes"))
        names = (ctypes.c_int64 * max(1, len(schedule.sizes)))(*[sizes[name] for name in schedule.sizes])
        places = [self.put(np.asarray(argument)) for argument in self.arguments]
        outputs = sorted((b for b in schedule.buffers if b.role == "output"), key=lambda b: b.position)
        self.outputs = [(b, memory.allocate(max(1, dims.evaluate(b.bytes, sizes)), b.name)) for b in outputs]
        places += [address for _, address in self.outputs]
        places += [self.put(value.value) for _, value in self.code.constants]
        if self.code.reports:
            places.append(self.record.ctypes.data)
        places += [FIRST_HANDLE + number for number in range(len(self.code.functions))]
        size = arena_bytes(names)
        self.call.arena = memory.allocate(max(1, size), "arena")
        host = loader.Host(abi_version=loader.ABI_VERSION, driver=ctypes.addressof(self.driver.table))
        given = (ctypes.c_void_p * len(places))(*places)
        self.sizes = sizes
        return int(entry(ctypes.byref(host), ctypes.byref(self.call), given, names))

    def put(self, array: Any) -> int:
        memory = self.driver.module.memory
        address = memory.allocate(max(1, array.nbytes))
        memory.bytes_at(address, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)
        return int(address)

    def results(self) -> list[Any]:
        found = []
        for buffer, address in self.outputs:
            flat = self.driver.module.memory.bytes_at(address, dims.evaluate(buffer.bytes, self.sizes))
            shape = tuple(dims.evaluate(extent, self.sizes) for extent in buffer.type.shape)
            found.append(flat.copy().view(buffer.type.dtype).reshape(shape))
        return found


@contextmanager
def _made(name: str) -> Iterator[Planned]:
    graph, arguments = traced(name)
    yield Planned(schedule_of(graph), arguments)


@pytest.mark.parametrize("name", ["sum_of_all", "gradient_of_layer_norm", "cross_entropy", "batched_product"])
def test_an_entry_launches_all_steps_in_order(name: str) -> None:
    with _made(name) as planned:
        assert planned.run() == loader.OK
        launched = ["cuLaunchKernel"] * len(planned.code.launches)
        around = (["cuMemsetD32Async"], ["cuMemcpyDtoHAsync_v2"]) if planned.code.reports else ([], [])
        assert planned.driver.calls == [*around[0], *launched, *around[1]]
        assert planned.record[1] == (-1 if planned.code.reports else 0)
        require_same(execute_schedule(planned.schedule, planned.arguments), planned.results(), ulps=0)


def test_sizes_by_name_become_grids() -> None:
    samples = samples_by_names("reduce_sum", np.dtype(np.float32))
    planned = Planned(schedule_of(samples.graph), list(samples.arguments))
    assert planned.run() == loader.OK
    require_same(execute_schedule(planned.schedule, planned.arguments), planned.results(), ulps=0)
    assert planned.run(**{planned.schedule.sizes[0]: -1}) == loader.SIZES_REFUSED


def test_a_grid_without_blocks_is_not_launched() -> None:
    builder = GraphBuilder()
    with context.using(emitter=builder, constraints=builder.constraints):
        x = builder.input(TensorType(dtypes.float32, (Dim.name("n"),)))
        outputs = builder.emit(OPS["exp"], [x], {}, ())
    planned = Planned(schedule_of(builder.graph(outputs, "empty")), [np.zeros(0, np.float32)])
    assert planned.run() == loader.OK
    assert planned.driver.calls == []


def test_a_failed_check_is_in_the_record_of_the_call() -> None:
    arguments = [floats(4, 5).numpy(), np.array([2, 9, 1])]
    schedule = schedule_of(jg.trace(lambda x, i: jg.take(x, i, axis=1) + 1).lower(*map(jg.asarray, arguments)).graph)
    planned = Planned(schedule, arguments)
    assert planned.run() == loader.OK
    _, order, value, bound, check = planned.record
    assert (order >> LAUNCH_SHIFT, value, bound) == (0, 9, 5)
    assert schedule.checks[check].kind == "IndexError"


@pytest.mark.parametrize("symbol", ["cuMemsetD32Async", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2"])
def test_what_the_driver_refuses_ends_the_entry(symbol: str) -> None:
    with _made("cross_entropy") as planned:
        planned.driver.result[symbol] = 719
        assert planned.run() == -719
        assert planned.driver.calls[-1] == symbol
        assert planned.call.error.check_id == (len(planned.code.launches) if symbol.startswith("cuMemcpy") else 0)
