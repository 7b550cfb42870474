"""The kernels of a compiled call as HTML, folded by the modules and the user's lines that they come from."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from jitgraph.ir import dims
from jitgraph.ir.graph_html import closed, fold, module_at, source_line
from jitgraph.tracing.lowered import sizes_of
from jitgraph.tracing.memory_html import bytes_text

if TYPE_CHECKING:
    from jitgraph.tracing.plan import CallPlan

_Steps: TypeAlias = "list[tuple[int, Any]]"


def kernels_html(steps: _Steps, schedule: Any, plan: CallPlan) -> Iterator[str]:
    """A fold for each run of launches from one module, and for each run from one line."""
    yield from _in_modules(steps, 0, _Names(schedule, plan))


class _Names:
    """What the buffers of a schedule are."""

    def __init__(self, schedule: Any, plan: CallPlan) -> None:
        self._buffers = {buffer.name: buffer for buffer in schedule.buffers}
        self._inputs = [value.hint or "" for value in plan.graph.inputs]
        self._states = {v.number: plan.handles[handle].text for handle, v in plan.rebound if v.kind == "output"}
        self._sizes = sizes_of(plan)

    def bytes(self, name: str) -> int:
        return dims.evaluate(self._buffers[name].bytes, self._sizes)

    def role(self, name: str) -> str:
        """Its part in the call: an input with its name, a result with its place or the state that it becomes."""
        buffer = self._buffers[name]
        if buffer.role == "input":
            return f"input {self._inputs[buffer.position]}".rstrip()
        if buffer.role == "output":
            state = self._states.get(buffer.position)
            return f"result {buffer.position}" if state is None else f"new {state}"
        return str(buffer.role)

    def type(self, name: str) -> str:
        return str(self._buffers[name].type)


def _in_modules(steps: _Steps, depth: int, names: _Names) -> Iterator[str]:
    """Launches, inside of ``depth`` modules."""
    for name, group in groupby(steps, lambda step: module_at(step[1].location, depth)):
        members = list(group)
        if name is None:
            yield from _in_lines(members, names)
        else:
            inside = "\n".join(_in_modules(members, depth + 1, names))
            yield fold(f"<b>{escape(name)}</b>", len(members), "kernel", f"<div class='inside'>{inside}</div>")


def _in_lines(steps: _Steps, names: _Names) -> Iterator[str]:
    for location, group in groupby(steps, lambda step: step[1].location):
        members = list(group)
        inside = "\n".join(_kernel(number, launch, names) for number, launch in members)
        yield fold(source_line(location), len(members), "kernel", f"<div class='inside'>{inside}</div>")


def _kernel(number: int, launch: Any, names: _Names) -> str:
    from jitgraph.codegen.kernels.kernel_text import print_kernel

    used = list(dict.fromkeys(launch.buffers))
    others = [line for line in launch.lines if line != launch.location]
    fused = f"<p>with ops from</p>{''.join(f'<p>{source_line(line)}</p>' for line in others)}" if others else ""
    inside = f"{fused}{_buffers(launch, names)}<pre>{escape(print_kernel(launch.kernel))}</pre>"
    return closed(f"{number}: {escape(launch.kernel.name)}", bytes_text(sum(map(names.bytes, used))), inside)


def _buffers(launch: Any, names: _Names) -> str:
    rows = "".join(
        f"<tr>{_cell(param.name)}{_cell(param.access)}{_cell(buffer)}{_cell(names.role(buffer))}{_cell(names.type(buffer))}"
        f"<td class='number'>{bytes_text(names.bytes(buffer))}</td></tr>"
        for param, buffer in zip(launch.kernel.params, launch.buffers, strict=True)
    )
    heads = ("parameter", "access", "buffer", "what it is", "type", "size")
    return f"<div class='wide'><table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{rows}</table></div>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"
