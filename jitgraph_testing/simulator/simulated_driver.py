"""SimulatedDriver: the simulator in place of this machine's driver, for programs that are to be tested without a GPU.

``JITGRAPH_CUDA=simulated`` puts it there. It runs the LLVM IR that PTX was made of, thread by thread: right, and slow.
"""

from __future__ import annotations

from typing import Any

from jitgraph.errors import CudaError
from jitgraph.runtime.cuda.cublas import CublasLibrary
from jitgraph.runtime.cuda.driver import Driver
from jitgraph_testing.simulator.cublas import FakeCublas
from jitgraph_testing.simulator.driver import FakeDriver
from jitgraph_testing.simulator.interrupts import INTERRUPTS


class SimulatedDriver(Driver):
    """The driver of simulated devices, to which the LLVM IR of every piece of PTX is registered."""

    def __init__(self, fake: FakeDriver | None = None) -> None:
        self.fake = fake or FakeDriver(2)
        self.fake_cublas: FakeCublas | None = None
        super().__init__(self.fake.addresses, "the simulator")

    def call(self, symbol: str, *arguments: Any, action: str) -> None:
        """As any driver's; KeyboardInterrupt where there was Ctrl-C while the simulator worked."""
        super().call(symbol, *arguments, action=action)
        if INTERRUPTS.taken():
            raise KeyboardInterrupt

    def error(self, code: int, action: str) -> CudaError:
        """As any driver's; KeyboardInterrupt where there was Ctrl-C while the simulator worked."""
        if INTERRUPTS.taken():
            raise KeyboardInterrupt
        return super().error(code, action)

    def cublas(self) -> CublasLibrary | None:
        """The simulator's own, where one was put there: the library of a wheel finds no device."""
        return None if self.fake_cublas is None else self.fake_cublas.library

    def describe(self, ptx: bytes, llvm_ir: str) -> None:
        """Let the simulator run the IR where the PTX is launched."""
        if llvm_ir:
            self.fake.register(ptx, llvm_ir)
