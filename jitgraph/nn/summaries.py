"""A table of a module's parts: results' shapes and counts of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jitgraph.autograd import no_grad
from jitgraph.nn.module import Module
from jitgraph.tensor import Tensor

HEAD = ("module", "result", "parameters")


@dataclass(frozen=True)
class Row:
    """A module by its dotted name: its class, the shape of its last result, and the parameters of its own."""

    name: str
    kind: str
    result: str
    parameters: int


@dataclass(frozen=True)
class Summary:
    """What ``summary`` found; ``str`` gives the table. Shared parameters count once."""

    rows: tuple[Row, ...]
    parameters: int
    trainable: int
    parameter_bytes: int
    buffer_bytes: int

    def __str__(self) -> str:
        cells = [HEAD]
        for row in self.rows:
            depth = row.name.count(".") + 1 if row.name else 0
            label = f"{'  ' * depth}{row.name.rpartition('.')[2]} ({row.kind})" if row.name else row.kind
            cells.append((label, row.result, f"{row.parameters:,}" if row.parameters else "-"))
        wide = [max(len(line[column]) for line in cells) for column in range(3)]
        lines = [f"{a:<{wide[0]}}  {b:<{wide[1]}}  {c:>{wide[2]}}" for a, b, c in cells]
        fixed = self.parameters - self.trainable
        total = f"{self.parameters:,} parameters, {self.trainable:,} of them trainable, {fixed:,} not"
        sizes = f"{self.parameter_bytes:,} bytes of parameters, {self.buffer_bytes:,} of buffers"
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], "-" * len(lines[0]), total, sizes])

    __repr__ = __str__


def _shape(result: Any) -> str:
    if isinstance(result, Tensor):
        return str(list(result.shape))
    if isinstance(result, dict):
        return "{" + ", ".join(f"{name}: {_shape(part)}" for name, part in result.items()) + "}"
    if isinstance(result, tuple | list):
        return "(" + ", ".join(_shape(part) for part in result) + ")"
    return type(result).__name__


def summary(module: Module, *inputs: Any, **kwargs: Any) -> Summary:
    """The parts of a module with their parameters, and with ``inputs`` the shapes of their results.

    The module is called once, evaluating and without gradients, so that running statistics stay; the modes and hooks
    that it had are there again afterwards.
    """
    shapes: dict[int, str] = {}
    if inputs or kwargs:
        modes = [(part, part.training) for part in module.modules()]

        def seen(part: Module, _: Any, result: Any) -> None:
            shapes[id(part)] = _shape(result)

        handles = [part.register_forward_hook(seen) for part, _ in modes]
        try:
            module.eval()
            with no_grad():
                module(*inputs, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
            for part, mode in modes:
                part.training = mode
    counted: set[int] = set()
    rows = []
    for name, part in module.named_modules():
        own = [x for x in part.parameters(recurse=False) if id(x) not in counted]
        counted.update(id(x) for x in own)
        rows.append(Row(name, type(part).__name__, shapes.get(id(part), "-"), sum(int(x.size) for x in own)))
    learned = list(module.parameters())
    return Summary(
        tuple(rows),
        sum(int(x.size) for x in learned),
        sum(int(x.size) for x in learned if x.requires_grad),
        sum(int(x.nbytes) for x in learned),
        sum(int(x.nbytes) for x in module.buffers()),
    )
