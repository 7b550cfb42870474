"""Runs kernels and schedules natively on given memory, with the process's thread pool."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.codegen.cpu.backend import build_image
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import CheckSite, Launch, Schedule, ScheduleBuffer
from jitgraph.errors import JitgraphError
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader
from jitgraph.runtime.loader.abi import libc

Array = NDArray[Any]


class NativeCheckError(JitgraphError):
    """A check failed in native code: its number, and what it reports."""

    def __init__(self, check: int, value: int, bound: int) -> None:
        super().__init__(f"check {check} failed (value {value}, bound {bound})")
        self.check, self.value, self.bound = check, value, bound


def schedule_of(*kernels: Kernel) -> Schedule:
    """The kernels one after another; params of the same name are the same buffer. All buffers are the caller's."""
    params = {param.name: param for kernel in kernels for param in kernel.params}
    buffers = tuple(
        ScheduleBuffer(name, TensorType(param.dtype, (param.size,)), "input", position)
        for position, (name, param) in enumerate(params.items())
    )
    sizes = tuple(dict.fromkeys(size for kernel in kernels for size in kernel.sizes))
    steps = tuple(Launch(kernel, tuple(param.name for param in kernel.params)) for kernel in kernels)
    return Schedule("test", buffers, steps, sizes, checks=(CheckSite("IndexError", "check"),) * 10)


class Native:
    """A compiled schedule that is called with addresses."""

    def __init__(self, schedule: Schedule, target: Target | None = None) -> None:
        self.schedule = schedule
        self.image = loader.Image(build_image(schedule, target or Target.host()))
        loader.process_runtime.attach(self.image)
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(self.image.export("entry"))
        self.arena_bytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.image.export("arena_bytes"))

    def __call__(self, pointers: list[int], sizes: Mapping[str, int]) -> None:
        """Run on memory at ``pointers``, in the order of the entry; NativeCheckError where a check fails."""
        values = [sizes[name] for name in self.schedule.sizes]
        dims = (ctypes.c_int64 * max(1, len(values)))(*values)
        arena = np.full(max(0, self.arena_bytes(dims)) + 64, 0xA5, np.uint8)  # nothing may rely on what lies there
        call = loader.Call(arena=-(-arena.ctypes.data // 64) * 64, arena_bytes=arena.size - 64)
        buffers = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        code = self.entry(ctypes.byref(loader.process_runtime.host), ctypes.byref(call), buffers, dims)
        block = call.blocks
        while block:
            header = loader.Block.from_address(block)
            block, base = header.next, header.base
            libc.free(base)
        if code == loader.CHECK_FAILED:
            raise NativeCheckError(call.error.check_id, call.error.index, call.error.bound)
        if code:
            raise JitgraphError(loader.CODE_NAMES[code])


def run_native(kernel: Kernel, buffers: Mapping[str, Array], sizes: Mapping[str, int], **options: Any) -> None:
    """As ``executor.execute_kernel``, natively: flat arrays, changed in place."""
    Native(schedule_of(kernel), **options)([buffers[param.name].ctypes.data for param in kernel.params], sizes)
