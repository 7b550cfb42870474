"""One call of a plan whose graph runs on a GPU: what goes there, and what comes back to the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.eager import placement
from jitgraph.eager.value import EagerValue
from jitgraph.runtime.buffer import CPU
from jitgraph.tracing.backend import Runnable
from jitgraph.tracing.plan import CallPlan


class DeviceInvocation:
    """Calls ``program`` on operands that fit it, without waiting for the results.

    Numbers and small state of the CPU (``record/placing.py``) are copied to the device, and state that came from the
    CPU goes back there, which does wait.
    """

    def __init__(self, program: Runnable, plan: CallPlan) -> None:
        self._program = program
        self._device = plan.device
        self._to_host = sorted({
            value.number
            for handle, value in plan.rebound
            if value.kind == "output" and plan.handles[handle].device == CPU
            and plan.handles[handle].type == plan.graph.outputs[value.number].type
        })  # fmt: skip

    def __call__(self, handles: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The values of the outputs."""
        outputs = self._program.run(
            [placement.copied(x, self._device) if isinstance(x, EagerValue) else x for x in operands]
        )
        for number in self._to_host:
            outputs[number] = placement.copied(outputs[number], CPU)
        return outputs
