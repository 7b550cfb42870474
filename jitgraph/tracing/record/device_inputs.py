"""Where the inputs of a recorded call lie, and whether one device can compute on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.eager.device_value import DeviceValue
from jitgraph.errors import DeviceError
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType
from jitgraph.runtime.buffer import CPU
from jitgraph.tracing.plan import Handle, Input

GENERATOR: Final = TensorType(dtypes.uint64, (2,))
"""The state of a generator of random numbers, which stays on the CPU whichever device draws from it."""


def device_of(value: Any) -> str:
    """Where a value from outside of the trace lies."""
    return value.device if isinstance(value, DeviceValue) else CPU


def require_one_device(device: str, graph: Graph, inputs: Sequence[Input], handles: Sequence[Handle]) -> None:
    """DeviceError, which names both, where a graph that runs on the GPU ``device`` reads a tensor that lies elsewhere.

    Numbers (0-d tensors and arrays) and the state of generators may lie on the CPU.
    """
    if device == CPU:
        return
    there = next((handle for handle in handles if handle.device == device), None)
    first = f"{there.text} ({there.type}) on {device}" if there is not None else f"what is made on {device}"
    for plan_input, value in zip(inputs, graph.inputs, strict=True):
        handle = handles[plan_input.at] if plan_input.kind == "handle" else None
        actual = CPU if handle is None else handle.device
        is_number = isinstance(value.type, TensorType) and not value.type.shape
        is_state = handle is not None and value.type == GENERATOR
        if actual == device or (actual == CPU and (is_number or is_state)):
            continue
        text = handle.text if handle is not None else value.hint or "an array"
        fix = (
            f'x.to("{device}") brings x' if handle is not None else f'jg.asarray(x, device="{device}") brings an array'
        )
        raise DeviceError(
            f"{graph.name} of tensors on different devices: {first} and {text} ({value.type}) on {actual}",
            hint=f"{fix} to the other",
        )
