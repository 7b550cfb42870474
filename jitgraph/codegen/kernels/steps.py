"""The steps of a schedule in one row, those inside of branches and loops included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitgraph.codegen.kernels.kernel import Attend, Contract, Kernel, Load, Loop, Store
from jitgraph.codegen.kernels.schedule import Branch, Exchange, Launch, Schedule, Step, While
from jitgraph.codegen.kernels.traversal import dims_of, statements_of
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside of others too; branches and loops themselves come before what is in them."""
    for step in steps:
        yield step
        if isinstance(step, Branch | While):
            yield from all_steps(inner_steps(step))


def inner_steps(step: Branch | While) -> tuple[Step, ...]:
    """The steps that stand in a branch or loop."""
    return (*step.then, *step.otherwise) if isinstance(step, Branch) else (*step.condition, *step.body)


def copied(step: Step) -> tuple[str, str] | None:
    """Source and target of a launch that copies all of one buffer to another and does nothing else."""
    if isinstance(step, Launch) and len(step.buffers) == 2 and _is_copy(step.kernel):
        return step.buffers[0], step.buffers[1]
    return None


def _is_copy(kernel: Kernel) -> bool:
    first, second = kernel.params
    inner = [statement for statement in statements_of(kernel.body) if not isinstance(statement, Loop)]
    if (first.access, second.access) != ("read", "write") or len(inner) != 2 or first.size != second.size:
        return False
    load, store = inner
    return (
        isinstance(load, Load)
        and isinstance(store, Store)
        and (load.buffer, store.buffer) == (first.name, second.name)
        and (load.index, load.mask, store.mask) == (store.index, None, None)
        and store.value == load.var
    )


def exchanged_together(steps: Sequence[Step]) -> list[frozenset[str]]:
    """The sets of buffers that exchange their memory with one another, directly or by way of others."""
    together: list[frozenset[str]] = []
    for step in all_steps(steps):
        if isinstance(step, Exchange):
            joined = frozenset(step.buffers).union(*(one for one in together if not one.isdisjoint(step.buffers)))
            together = [*(one for one in together if one.isdisjoint(joined)), joined]
    return together


def extents_of(schedule: Schedule) -> list[DimLike]:
    """The extents of arrays and loops that follow from the sizes alone, each once."""
    extents: dict[DimLike, None] = {}
    for buffer in schedule.buffers:
        extents.update(dict.fromkeys(buffer.type.shape))
    kernels = {id(step.kernel): step.kernel for step in all_steps(schedule.steps) if isinstance(step, Launch)}
    for kernel in kernels.values():
        for statement in statements_of(kernel.body):
            if isinstance(statement, Loop | Contract | Attend):
                extents.update(dict.fromkeys(dims_of(statement)))
    for step in all_steps(schedule.steps):
        if isinstance(step, While) and step.count is not None:
            extents[step.count] = None
    sizes = set(schedule.sizes)
    return [dim for dim in extents if not isinstance(dim, int) and dims.names(dim) <= sizes]
