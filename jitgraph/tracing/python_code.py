"""PythonCode: the text of generated functions, and the objects that they use by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class PythonCode:
    """Text of functions, and the objects that they use by name."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.functions: list[str] = []
        self.names = dict(names)
        self._constants: dict[int, str] = {}
        self._variables = 0

    def constant(self, value: Any) -> str:
        """The name of an object."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"k{len(self._constants)}"
            self.names[name] = value
        return name

    def variable(self) -> str:
        """The name of a new variable."""
        self._variables += 1
        return f"x{self._variables}"

    def define(self, head: str, lines: Sequence[str], indent: int = 1) -> None:
        """Add a function with these lines."""
        self.functions.append(f"def {head}:\n" + "".join(f"{'    ' * indent}{line}\n" for line in lines))

    def compiled(self) -> dict[str, Any]:
        """The functions by name, among the objects that they use."""
        exec(compile("".join(self.functions), "<jitgraph call>", "exec"), self.names)
        return self.names
