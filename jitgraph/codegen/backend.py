"""The seam to a target: what a backend does for the one pipeline, and what it gives.

Passes, fusion, the lowering of single ops, verifiers, the memory plan, signatures and caches are shared. A backend
chooses the loop nests of its schedules, writes code for them, and puts code to work in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Protocol

from jitgraph.codegen.kernels.host_calls import HostCalls
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable

Stage = Callable[[str], AbstractContextManager[None]]
"""``with stage("llvm"):`` times a part of a backend's work, and names it in what is reported of a fault there."""


@dataclass(frozen=True)
class Code:
    """What a backend makes of a schedule, without a device: a host image with the one ABI, and its texts by language.

    ``calls`` are those of Python that the image asks for. ``texts`` are what ``low.compile()`` shows, such as "llvm";
    a backend may keep more in a subclass.
    """

    image: bytes
    texts: Mapping[str, str] = field(default_factory=dict)
    calls: HostCalls | None = None

    @property
    def bytes(self) -> int:
        """About the memory that it takes."""
        return len(self.image) + sum(map(len, self.texts.values()))


class Backend(Protocol):
    """Code for one kind of target. Its methods keep no state between calls, so that threads may share it."""

    name: str
    alignment: int
    """Of temporaries in the arena, in bytes."""
    reads_again: bool
    """Whether code of a kernel may read what stands outside of its loops more than once."""

    def schedule(self, graph: Graph, target: Target, given_away: Collection[int] = ()) -> Schedule:
        """The schedule of a fused graph without gradients: kernels and steps, no code. UnsupportedOp where an op has
        no lowering. ``given_away`` are inputs that the call may be allowed to overwrite."""
        ...

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> Code:
        """Code for a planned schedule; it follows from the arguments alone. CompileError where it cannot be had."""
        ...

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        """The code, ready to run in this process."""
        ...
