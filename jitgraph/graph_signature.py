"""The contract of a graph with its caller: the signature of its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from jitgraph.errors import CompileError
from jitgraph.ir import dims
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader

if TYPE_CHECKING:
    from jitgraph.codegen.kernels.schedule import Schedule

Donation: TypeAlias = "int | tuple[int, int]"
"""An input whose memory an output may take over, or a pair (output, input)."""


def signature_of(graph: Graph, schedule: Schedule | None) -> loader.Signature:
    """What the entry of a graph takes and gives; with a schedule its checks, sizes and donations too."""
    names: dict[str, int] = {}
    inputs = tuple(_spec(value, f"x{i}", names) for i, value in enumerate(graph.inputs))
    outputs = tuple(_spec(value, f"out{i}", {}) for i, value in enumerate(graph.outputs))
    if schedule is None:
        sizes = sorted({name for value in graph.inputs for extent in value.shape for name in dims.names(extent)})
        return loader.Signature(
            inputs, outputs, dims=tuple(sizes), constraints=tuple(map(str, graph.constraints)), name=graph.name
        )
    positions = {buffer.name: buffer.position for buffer in schedule.buffers}
    donations = schedule.plan.donations if schedule.plan else {}
    return loader.Signature(
        inputs,
        outputs,
        aliases=tuple((positions[output], positions[donor]) for output, donor in donations.items()),
        dims=schedule.sizes,
        constraints=tuple(map(str, schedule.constraints)),
        checks=tuple(
            loader.Check(site.message, site.kind, str(site.location) if site.location else "")
            for site in schedule.checks
        ),
        prints=schedule.prints,
        name=graph.name,
    )


def _spec(value: Value, fallback: str, names: dict[str, int]) -> loader.ValueSpec:
    if not isinstance(value.type, TensorType):
        raise CompileError(f"a {value.type} is no input or output of compiled code")
    name = value.hint or fallback
    names[name] = names.get(name, 0) + 1
    if names[name] > 1:
        name = f"{name}_{names[name] - 1}"
    shape = tuple(extent if isinstance(extent, int) else str(extent) for extent in value.shape)
    return loader.ValueSpec(name, value.dtype.name, shape)
