"""A program of ATen's operators, whichever way it came: values by name, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Ref(NamedTuple):
    """An argument that is the value of this name."""

    name: str


class Region(NamedTuple):
    """An argument that is a graph, as control flow takes it."""

    graph: Graph


class FreeSize(NamedTuple):
    """A size that varies: its expression in the symbols of the program, such as ``s0`` or ``2*s0``."""

    text: str


class Meta(NamedTuple):
    """What is known of a tensor before the program runs; a size is a number or a ``FreeSize``."""

    dtype: Any
    shape: tuple[int | FreeSize, ...]
    contiguous: bool = True


@dataclass(frozen=True)
class ProgramNode:
    """``outputs = target(*args, **kwargs)``.

    ``target`` is PyTorch's name, such as "aten::add.Tensor", "operator.mul" or "higher_order.cond". Arguments hold
    numbers, texts, dtypes, ``Ref``, ``Region``, and lists of these. ``outputs`` is the name of the result, or a tuple
    of names for its parts, None for a part that nothing reads.
    """

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: str | tuple[str | None, ...]
    location: str = ""
    """The line of the model that this came from, as ``file:line``; empty where it is not known."""


@dataclass(frozen=True)
class Graph:
    """Nodes from inputs to outputs. ``written`` are the inputs whose tensors the graph sets to the values of these
    names."""

    inputs: tuple[str, ...]
    nodes: tuple[ProgramNode, ...]
    outputs: tuple[Any, ...]
    metas: Mapping[str, Meta] = field(default_factory=dict)
    written: tuple[str, ...] = ()


class Input(NamedTuple):
    """An input of the program's graph.

    ``kind``: "user", "parameter", "buffer" (``persistent`` or not), "constant" (a tensor), or "fixed", an argument that
    was no tensor when the program was made. ``target`` is the name in the state dict, ``value`` what is fixed.
    """

    kind: str
    name: str
    target: str = ""
    persistent: bool = True
    value: Any = None


class Output(NamedTuple):
    """An output of the program's graph: "user", or "write" with the name of the input that it is the new value of."""

    kind: str
    target: str = ""


class Spec(NamedTuple):
    """A nest of containers: "leaf", "tuple", "list", "dict" (``context`` has the keys), "namedtuple" (its name
    and fields)."""

    kind: str
    context: Any = None
    children: tuple[Spec, ...] = ()

    @property
    def leaf_count(self) -> int:
        """The number of leaves."""
        return 1 if self.kind == "leaf" else sum(child.leaf_count for child in self.children)


LEAF = Spec("leaf")


@dataclass(frozen=True)
class Program:
    """An exported program without its tensors."""

    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    arguments: Spec
    """The positional arguments, a tuple, and those by name, a dict, together in a tuple."""
    results: Spec
    names: tuple[str, ...]
    """The parameters' names of ``forward``, as many as there are arguments."""
    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """The least and the greatest value of each symbol."""
