"""The steps of a schedule in one row, those inside of branches and loops included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitgraph.codegen.kernels.schedule import Branch, Step, While


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside of others too; branches and loops themselves come before what is in them."""
    for step in steps:
        yield step
        if isinstance(step, Branch | While):
            yield from all_steps(inner_steps(step))


def inner_steps(step: Branch | While) -> tuple[Step, ...]:
    """The steps that stand in a branch or loop."""
    return (*step.then, *step.otherwise) if isinstance(step, Branch) else (*step.condition, *step.body)
