"""Stacks of a schedule: one name for a stack from its making to its last use, whichever branch is taken.

A graph makes stacks anywhere and gives them on as values; a schedule has each of them under one name in all its steps.
So what two branches made, each for itself, becomes one stack, and a loop goes on with the stacks that it began with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jitgraph.codegen.kernels.schedule import Branch, Pop, Push, Step, While
from jitgraph.codegen.lower.storage import Storage
from jitgraph.errors import UnsupportedOp
from jitgraph.location import Location

Held = Storage | str  # where a value is: a storage, or the name of a stack (empty for a token)


def diverging_stacks(then: Sequence[Held], otherwise: Sequence[Held]) -> dict[str, str]:
    """The stacks that the second branch ends with where the first ends with another, each with that of the first."""
    pairs = zip(then, otherwise, strict=True)
    return {b: a for a, b in pairs if isinstance(a, str) and isinstance(b, str) and a != b}


def require_created_inside(names: Mapping[str, str], operands: Sequence[Held], location: Location | None) -> None:
    """UnsupportedOp where a stack to be renamed, or its new name, is one that both branches are given."""
    if any(name in operands for pair in names.items() for name in pair):
        raise UnsupportedOp(
            "one branch goes on with a stack that it is given, the other with another one",
            location=location,
            hint="make the stack before the branch, or in both of them",
        )


def require_same(before: Sequence[Held], after: Sequence[Held]) -> None:
    """UnsupportedOp where a turn of a loop gives on another stack than it is given."""
    if any(isinstance(a, str) and a != b for a, b in zip(before, after, strict=True)):
        raise UnsupportedOp(
            "a loop goes on with another stack than the one that it is given",
            hint="make the stack before the loop, and push on it",
        )


def with_stacks(steps: Sequence[Step], names: Mapping[str, str]) -> tuple[Step, ...]:
    """The steps with other names for some stacks."""
    return tuple(_with_stack(step, names) for step in steps)


def _with_stack(step: Step, names: Mapping[str, str]) -> Step:
    match step:
        case Push(stack, _) | Pop(stack, _):
            return replace(step, stack=names.get(stack, stack))
        case Branch(_, then, otherwise):
            return replace(step, then=with_stacks(then, names), otherwise=with_stacks(otherwise, names))
        case While(condition, _, body):
            return replace(step, condition=with_stacks(condition, names), body=with_stacks(body, names))
    return step
