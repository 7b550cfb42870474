"""The image of the dispatcher: one for every CPython from 3.11 to 3.13 and every traced function."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.cpu.objects import ObjectStore
from jitgraph.codegen.dispatch import calls
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.ir.target import Target

TARGET: Final = Target.named("x86-64-v2")
"""It uses nothing that only some processors have."""


def unit() -> Unit:
    """What LLVM makes the dispatcher of."""
    return Unit(calls.module().text(), hot=True)


def dispatcher_image() -> bytes:
    """The flat image; its entry gives the addresses of ``dispatch_records.EXPORTS`` by number."""
    store = ObjectStore()
    code = store.object(unit(), TARGET, "dispatcher")
    store.store()
    return link([code], {"entry": "export"})
