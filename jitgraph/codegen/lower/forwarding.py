"""Copy elision: a kernel whose result is only copied writes it to the destination of the copy.

So the next value of a loop's carry is computed in the carry's own memory where the kernel can work in place and nothing
after it reads the old value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.kernel import Kernel, Load, Loop, Store
from jitgraph.codegen.kernels.schedule import Branch, HostStep, Launch, Pop, PrintStep, Push, Schedule, Step, While
from jitgraph.codegen.kernels.traversal import statements_of


def forward_copies(schedule: Schedule) -> Schedule:
    """The schedule without the copies of temporaries that their writers can do without."""
    temporary = {buffer.name for buffer in schedule.buffers if buffer.role == "temporary"}
    uses = Counter(_mentioned(schedule.steps))
    steps = _forwarded(schedule.steps, temporary, uses)
    used = set(_mentioned(steps))
    kept = tuple(buffer for buffer in schedule.buffers if buffer.role != "temporary" or buffer.name in used)
    return replace(schedule, steps=steps, buffers=kept)


def _forwarded(steps: Sequence[Step], temporary: set[str], uses: Counter[str]) -> tuple[Step, ...]:
    result: list[Step] = []
    for step in steps:
        match step:
            case Branch(predicate, then, otherwise):
                step = Branch(predicate, _forwarded(then, temporary, uses), _forwarded(otherwise, temporary, uses))
            case While(condition, _, body):
                asking = _forwarded(condition, temporary, uses)
                step = replace(step, condition=asking, body=_forwarded(body, temporary, uses))
            case Launch(kernel, (source, target)) if source in temporary and uses[source] == 2 and _is_copy(kernel):
                if _redirect(result, source, target):
                    uses[source] -= 2
                    continue
        result.append(step)
    return tuple(result)


def _redirect(steps: list[Step], source: str, target: str) -> bool:
    """Let the launch among ``steps`` that writes ``source`` write ``target`` instead; False where that is not safe."""
    for number in reversed(range(len(steps))):
        step = steps[number]
        mentioned = set(_mentioned((step,)))
        if source not in mentioned:
            if target in mentioned:
                return False  # it reads the old value, or writes another
            continue
        if not isinstance(step, Launch):
            return False
        written = step.kernel.params[step.buffers.index(source)]
        if written.access != "write":
            return False
        kernel = step.kernel
        if target in mentioned:
            if step.buffers.count(target) != 1:
                return False
            pair = written.name, kernel.params[step.buffers.index(target)].name
            if pair not in aliasing_pairs(kernel):
                return False
            kernel = replace(kernel, aliases=(*kernel.aliases, pair))
        buffers = tuple(target if buffer == source else buffer for buffer in step.buffers)
        steps[number] = replace(step, kernel=kernel, buffers=buffers)
        return True
    return False


def _is_copy(kernel: Kernel) -> bool:
    """Whether the kernel copies all of its first param to its second, and does nothing else."""
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


def _mentioned(steps: Iterable[Step]) -> Iterator[str]:
    """The buffers that steps use, once for each use."""
    for step in steps:
        match step:
            case Launch(_, buffers) | PrintStep(_, buffers):
                yield from buffers
            case HostStep():
                yield from step.buffers
            case Branch(predicate, then, otherwise):
                yield predicate
                yield from _mentioned((*then, *otherwise))
            case While(condition, predicate, body):
                yield predicate
                yield from _mentioned((*condition, *body))
            case Push(_, buffer) | Pop(_, buffer):
                yield buffer
