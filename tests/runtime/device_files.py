"""Simulated GPUs for the standalone loaders: a library in the place of ``libcuda.so.1`` whose launches are simulated.

The library goes by another name, so that nothing else in the process takes it for a driver of this machine.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import jitgraph as jg
from jitgraph import compiler
from jitgraph.codegen.cuda.backend import BACKEND
from jitgraph.ir.target import Target
from jitgraph.runtime.loader.artifact import Artifact
from jitgraph.simulator.calls.devices import ATTRIBUTES
from jitgraph.simulator.driver import FakeDriver
from tests.runtime.cuda import stub_library

NAME = "libjgstub.so"
LEFT_BEHIND = ("live_bytes", "pinned", "retained", "handles")


class Stub:
    """The library, with a driver behind it that tests replace."""

    def __init__(self, folder: Path) -> None:
        self.path = stub_library.build(folder, (), NAME)
        self._library: ctypes.CDLL | None = None

    def serve(self, fake: FakeDriver) -> None:
        """Let the library's functions be those of this driver."""
        self._library = stub_library.loaded(self.path, fake.addresses)


def driver_for(*paths: Path, devices: int = 2) -> FakeDriver:
    """A simulated driver that knows what the PTX in these files was made of, which is what is made of their graphs."""
    fake = FakeDriver(devices)
    for path in paths:
        artifact = Artifact(path)
        for code in artifact.device_codes("forward", artifact.weights()):
            made: Any = compiler.compile(jg.load(path).graph, Target.named(code.generation), backend=BACKEND)
            ptx = bytes(artifact.read(code.ptx))
            assert made.parts.ptx == ptx
            fake.register(ptx, made.llvm_ir)
    return fake


def set_capability(monkeypatch: Any, major: int, minor: int) -> None:
    """Let simulated devices be of another generation."""
    monkeypatch.setitem(ATTRIBUTES, 75, major)
    monkeypatch.setitem(ATTRIBUTES, 76, minor)
