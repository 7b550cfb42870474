"""The image of the dispatcher: one for every CPython from 3.11 to 3.13 and every traced function."""

from __future__ import annotations

from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.dispatch import calls
from jitgraph.codegen.llvm import machine
from jitgraph.ir.target import Target


def dispatcher_image() -> bytes:
    """The flat image; its entry gives the addresses of ``layout.EXPORTS`` by number."""
    return link([machine.assemble(calls.module().text(), Target.named("x86-64-v2"))], {"entry": "export"})
