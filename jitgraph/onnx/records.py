"""ONNX models as plain records: what the reader makes of protocol buffers, and what is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class ValueType(NamedTuple):
    """What a model says of an input or output: a tensor, a sequence or an optional (``kind``).

    ``dtype`` is None where it is not said, and so is ``shape``; of a shape a size is a number, a name, or None.
    """

    kind: str
    dtype: Any = None
    shape: tuple[int | str | None, ...] | None = None


@dataclass(frozen=True)
class NodeRecord:
    """``outputs = op(*inputs, **attributes)``; an empty name is an operand or a result that is left out.

    Attributes are numbers, texts, arrays, ``ModelGraph``, lists of these, and ``Reference`` in the body of a function.
    ``overload`` tells functions of one name from each other.
    """

    domain: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    name: str = ""
    overload: str = ""
    proto: Any = field(default=None, compare=False, repr=False)
    """The node as it was read, where it has graphs as attributes."""

    def __str__(self) -> str:
        operator = f"{self.domain}::{self.op}" if self.domain else self.op
        return f"node {self.name!r} ({operator})" if self.name else f"the node {operator} of {', '.join(self.outputs)}"


class Reference(NamedTuple):
    """An attribute in the body of a function that is the caller's of this name."""

    name: str


@dataclass(frozen=True)
class ModelGraph:
    """Nodes in the order in which they run. ``initializers`` are arrays by name."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeRecord, ...]
    initializers: Mapping[str, Array] = field(default_factory=dict)
    types: Mapping[str, ValueType] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionRecord:
    """A function of the model's own: a graph, its attributes with their defaults (``...`` where there is none), and the
    versions of the operator sets that it is written for."""

    graph: ModelGraph
    attributes: Mapping[str, Any]
    opsets: Mapping[str, int]


@dataclass(frozen=True)
class ModelRecord:
    """A model: its graph, functions by domain, name and overload, and versions of operator sets by domain."""

    graph: ModelGraph
    functions: Mapping[tuple[str, str, str], FunctionRecord]
    opsets: Mapping[str, int]
    metadata: Mapping[str, str] = field(default_factory=dict)
