"""Modules, their kernels, and launches."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Final

from jitgraph.errors import CompileError
from jitgraph_testing.simulator.calls.codes import INVALID_PTX, INVALID_VALUE, NOT_FOUND, DriverFault
from jitgraph_testing.simulator.calls.devices import ATTRIBUTES
from jitgraph_testing.simulator.calls.pointers import put_handle, put_int
from jitgraph_testing.simulator.calls.state import DriverState, FakeFunction, FakeModule
from jitgraph_testing.simulator.module import SimulatedModule

_ERROR_LOG, _ERROR_LOG_SIZE = 5, 6  # CU_JIT_ERROR_LOG_BUFFER and its size
_MAX_THREADS, _SHARED_SIZE, _MOST_DYNAMIC = 0, 1, 8  # of CUfunction_attribute
_PLAIN_ATTRIBUTES: Final = {2: 0, 3: 0, 4: 32, 5: 90, 6: 90, 7: 0, 9: -1}
_MOST_SHARED: Final = ATTRIBUTES[97]


def _load(state: DriverState, to: int, image: int, count: int, options: int, values: int) -> None:
    device = state.device()
    state.refuse_in_capture()
    if not image:
        raise DriverFault(INVALID_VALUE, "no image")
    ptx = ctypes.string_at(image)
    text = state.texts.get(hashlib.sha256(ptx).digest())
    if text is None:
        note = "PTX of which the simulator was not told the LLVM IR; see FakeDriver.register"
        _write_log(note, count, options, values)
        raise DriverFault(INVALID_PTX, note)
    try:
        module = SimulatedModule(text, device.memory)
        _ = module.kernels
    except CompileError as error:
        _write_log(str(error), count, options, values)
        raise DriverFault(INVALID_PTX, str(error)) from None
    put_handle(to, state.new(FakeModule(device, module)))


def _write_log(note: str, count: int, options: int, values: int) -> None:
    by_option = {}
    for i in range(count):
        option = ctypes.c_int32.from_address(options + 4 * i).value
        by_option[option] = ctypes.c_uint64.from_address(values + 8 * i).value
    size = by_option.get(_ERROR_LOG_SIZE, 0)
    if by_option.get(_ERROR_LOG) and size:
        text = note.encode()[: size - 1] + b"\0"
        ctypes.memmove(by_option[_ERROR_LOG], text, len(text))


def _unload(state: DriverState, handle: int) -> None:
    state.device()
    state.refuse_in_capture()
    module = state.get(handle, FakeModule)
    state.wait(state.streams())
    for function in module.functions.values():
        state.drop(function, FakeFunction)
    state.drop(handle, FakeModule)


def _function(state: DriverState, to: int, handle: int, name: bytes) -> None:
    module = state.get(handle, FakeModule)
    text = (name or b"").decode()
    if text not in module.simulated.kernels:
        raise DriverFault(NOT_FOUND, f"the module has no kernel {text!r}")
    if text not in module.functions:
        module.functions[text] = state.new(FakeFunction(module, text))
    put_handle(to, module.functions[text])


def _set_attribute(state: DriverState, handle: int, attribute: int, value: int) -> None:
    function = state.get(handle, FakeFunction)
    if attribute == _MOST_DYNAMIC:
        most = _MOST_SHARED - function.module.simulated.static_shared_bytes(function.name)
        if not 0 <= value <= most:
            raise DriverFault(INVALID_VALUE, f"{value} bytes of dynamic shared memory; {most} are left")
        function.most_dynamic_shared = value
    elif attribute != 9:
        raise DriverFault(INVALID_VALUE, f"the attribute {attribute} of a kernel cannot be set")


def _get_attribute(state: DriverState, to: int, attribute: int, handle: int) -> None:
    function = state.get(handle, FakeFunction)
    simulated = function.module.simulated
    attributes = {
        **_PLAIN_ATTRIBUTES,
        _MAX_THREADS: simulated.most_threads(function.name),
        _SHARED_SIZE: simulated.static_shared_bytes(function.name),
        _MOST_DYNAMIC: function.most_dynamic_shared,
    }
    if attribute not in attributes:
        raise DriverFault(INVALID_VALUE, f"no attribute {attribute} of a kernel")
    put_int(to, attributes[attribute])


def _launch(
    state: DriverState,
    handle: int,
    grid_x: int,
    grid_y: int,
    grid_z: int,
    block_x: int,
    block_y: int,
    block_z: int,
    shared: int,
    stream_handle: int | None,
    parameters: int | None,
    extra: int | None,
) -> None:
    stream = state.stream(stream_handle)
    function = state.get(handle, FakeFunction)
    simulated = function.module.simulated
    grid, block = (grid_x, grid_y, grid_z), (block_x, block_y, block_z)
    if function.module.device is not state.device():
        raise DriverFault(INVALID_VALUE, "the kernel belongs to another device")
    if extra:
        raise DriverFault(INVALID_VALUE, "arguments are given by kernelParams, not by extra")
    if 0 in grid or 0 in block or grid_y > 65535 or grid_z > 65535 or block_z > 64:
        raise DriverFault(INVALID_VALUE, f"the grid {grid} of blocks {block}")
    most = simulated.most_threads(function.name)
    if block_x * block_y * block_z > most:
        raise DriverFault(INVALID_VALUE, f"a block {block}; {function.name} takes {most} threads")
    if shared > function.most_dynamic_shared:
        allowed = f"{shared} bytes of dynamic shared memory; {function.most_dynamic_shared} were allowed"
        raise DriverFault(INVALID_VALUE, f"{allowed} by cuFuncSetAttribute")
    sizes = simulated.argument_bytes(function.name)
    if sizes and not parameters:
        raise DriverFault(INVALID_VALUE, f"{function.name} takes {len(sizes)} arguments, none are given")
    arguments = [
        ctypes.string_at(ctypes.c_uint64.from_address((parameters or 0) + 8 * i).value, size)
        for i, size in enumerate(sizes)
    ]
    state.launches += 1
    seed = None if state.seed is None else state.seed + state.launches

    def run() -> None:
        simulated.launch(function.name, grid, block, shared, arguments, seed=seed)
        state.scheduler.clock += 1e-9 * grid_x * grid_y * grid_z * block_x * block_y * block_z

    state.submit(stream, function.name, run)


CALLS: Final = {
    "cuModuleLoadDataEx": _load,
    "cuModuleUnload": _unload,
    "cuModuleGetFunction": _function,
    "cuFuncSetAttribute": _set_attribute,
    "cuFuncGetAttribute": _get_attribute,
    "cuLaunchKernel": _launch,
}
"""The driver's functions by symbol."""
