"""Another backend, all of it in this file: its schedules are the processor's, and the slow executor runs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jitgraph.codegen.backend import Code, Stage
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.kernels.schedule_executor import execute_schedule
from jitgraph.codegen.lower.select import select
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable


@dataclass(frozen=True, kw_only=True)
class Kernels(Code):
    """Code that is a schedule, to be executed as it stands."""

    schedule: Schedule


class Executed(Executable):
    """A schedule that the executor runs, call by call."""

    def __init__(self, schedule: Schedule, signature: loader.Signature) -> None:
        self.schedule, self.signature, self.image = schedule, signature, b""

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        return execute_schedule(self.schedule, buffers)


class SlowBackend:
    """Kernels in the executor."""

    name = "slow"

    def schedule(self, graph: Graph, target: Target) -> Schedule:
        return select(graph, target, fastmath=target.fastmath)

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> Code:
        with stage("nothing"):
            return Kernels(b"", schedule=schedule)

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        assert isinstance(code, Kernels)
        return Executed(code.schedule, signature)
