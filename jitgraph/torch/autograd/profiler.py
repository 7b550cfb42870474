"""``torch.autograd.profiler``: blocks that name what they contain; ``jitgraph.profiler`` measures."""

from __future__ import annotations

from jitgraph.torch.autograd.modes import Mode


class record_function(Mode):  # noqa: N801 - PyTorch's name
    """A block or decorator with a name. Profiles tell works apart by the lines of the program, which need none."""

    def __init__(self, name: str, args: str | None = None) -> None:
        super().__init__()
        self.name, self.args = name, args

    def clone(self) -> Mode:
        """Another such block."""
        return record_function(self.name, self.args)
