"""Golden files: the text of a graph or kernel in, the text of what becomes of it out.

A file of ``tests/golden`` holds cases between lines of ``===``. A case: a line ``# RUN: cse,dce`` (steps of
``golden_steps.py``, before them options such as ``fastmath`` or ``wrt=0,2``; without a RUN line that of the case before
holds), a graph, a line ``---``, what the last step must give, which ``pytest --bless`` writes where it is missing. A
case that must be refused has a comment ``# error: words`` on the guilty line, whose words the message must hold. A line
``# run: f([1, 2], 3) == [4, 5]`` runs both graphs on arguments of the inputs' dtypes. Files ``*.kernel`` hold kernels,
for the steps of ``golden_kernels.py``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.parser import parse
from jitgraph.ir.printer import print_graph

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Case:
    """One case: where it stands, what to run, the text of the graph and of the one expected (None: an error)."""

    file: Path
    line: int
    command: str
    text: str
    expected: str | None

    @property
    def name(self) -> str:
        match = re.search(r"(?:graph|kernel) @(\w+)", self.text)
        return match[1] if match else f"line{self.line}"

    @property
    def steps(self) -> list[str]:
        words = self.command.split()
        return words[-1].split(",") if words else []

    @property
    def options(self) -> dict[str, str]:
        """The words before the steps, ``key=value`` or ``key``."""
        return {key: value for key, _, value in (word.partition("=") for word in self.command.split()[:-1])}

    def graph(self, text: str | None = None) -> Graph:
        # blank lines before the text keep the numbers of its lines in the file
        return parse("\n" * (self.line - 1) + (self.text if text is None else text), file=str(self.file))

    @property
    def kernel(self) -> str:
        """The text of a kernel, which knows no comments."""
        return re.sub(r"[ \t]*#.*", "", self.text)

    def errors(self) -> list[tuple[int, str]]:
        lines = enumerate(self.text.split("\n"), self.line)
        return [(number, match[1].strip()) for number, line in lines if (match := re.search(r"# error: (.*)", line))]

    def runs(self) -> list[tuple[list[Any], list[Any]]]:
        outputs = []
        for call in re.findall(r"# run: (.*)", self.text):
            arguments, results = re.fullmatch(r"\w+\((.*)\) == (.*)", call).groups()  # type: ignore[union-attr]
            values = {"nan": float("nan"), "inf": float("inf"), "true": True, "false": False}
            outputs.append(tuple(list(eval(f"({text},)", values)) for text in (arguments, results)))
        return outputs  # type: ignore[return-value]

    def require(self, text: str) -> None:
        """AssertionError, with a diff and the way out, where ``text`` is not what the file expects."""
        assert self.expected is not None
        wanted, actual = self.expected.strip("\n").split("\n"), text.strip("\n").split("\n")
        location = f"{self.file.name}:{self.line} @{self.name}"
        diff = "\n".join(difflib.unified_diff(wanted, actual, f"expected by {location}", "found", lineterm="", n=2))
        hint = "hint: if the new text is right, `python -m pytest tests/test_golden.py --bless` writes it to the file"
        assert wanted == actual, f"{location} gives another text under {self.command!r}\n{diff}\n{hint}"


Options = Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """What a step gives: graphs or lines, and the check that they mean what the graph before them means."""

    graphs: tuple[Graph, ...]
    check: Callable[[], None]
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        blocks = ["\n".join(self.lines)] if self.lines else []
        return "\n\n".join([*blocks, *(print_graph(graph, locations=False) for graph in self.graphs)])


def numbers_in(options: Options, key: str) -> list[int] | None:
    """The numbers of an option such as ``wrt=0,2``."""
    return [int(word) for word in options[key].split(",")] if key in options else None


def cases(pattern: str = "*") -> list[Case]:
    """Every case in the golden files whose names match."""
    return [case for file in sorted(FOLDER.glob(pattern)) for case in read(file)]


def read(file: Path) -> list[Case]:
    """The cases of a golden file."""
    outputs = []
    command, line = "", 1
    for block in re.split(r"^===\n", file.read_text(), flags=re.MULTILINE):
        if match := re.search(r"^# RUN: (.*)$", block, flags=re.MULTILINE):
            command = match[1].strip()
        text, *expected = re.split(r"\n---[ \t]*(?:\n|\Z)", block, maxsplit=1)
        case = Case(file, line, command, text, None)
        outputs.append(case if case.errors() else replace(case, expected=expected[0] if expected else ""))
        line += block.count("\n") + 1
    return outputs


def write(file: Path, blocks: list[str]) -> None:
    """Rewrite a golden file with these cases."""
    file.write_text("===\n".join(block.strip("\n") + "\n" for block in blocks))


def arrays(graph: Graph, arguments: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Arguments of a ``run`` line as arrays of the inputs' dtypes."""
    return [np.array(value, input.dtype) for value, input in zip(arguments, graph.inputs, strict=True)]


def check_run(graph: Graph, arguments: list[Any], results: list[Any]) -> None:
    """Run a graph and compare every output."""
    for actual, wanted, value in zip(interpret(graph, arrays(graph, arguments)), results, graph.outputs, strict=True):
        np.testing.assert_array_equal(actual, np.array(wanted, value.dtype), strict=False)
