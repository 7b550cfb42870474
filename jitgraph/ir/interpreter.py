"""The interpreter: runs any graph by the NumPy evaluations of its ops. Slow and simple, the reference for all else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jitgraph.dtypes import SHORT_NAMES
from jitgraph.errors import ArgumentError, DTypeError, GraphError
from jitgraph.ir import dims
from jitgraph.ir.attributes import substitute_attrs
from jitgraph.ir.control import execute
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.sizes import bind_sizes
from jitgraph.ir.types import TensorType, Type

Held: TypeAlias = Any  # an array; for tokens and stacks what their ops' evaluations make of them


def interpret(graph: Graph, arrays: Sequence[Any]) -> tuple[NDArray[Any], ...]:
    """The outputs of ``graph`` for these arguments: arrays of the inputs' dtypes and shapes.

    Named sizes are bound from the shapes, and the graph's constraints are checked. ArgumentError for a wrong number of
    arguments, DTypeError and ShapeError for arguments that do not fit; a failing ``check`` raises the error it names.
    Outputs may share memory with the arguments.
    """
    if len(arrays) != len(graph.inputs):
        raise ArgumentError(f"{len(arrays)} arguments for {len(graph.inputs)} inputs of the graph {graph.name}")
    types = [value.type for value in graph.inputs]
    held = [_argument(i, array, type) for i, (array, type) in enumerate(zip(arrays, types, strict=True))]
    shapes = [array.shape if isinstance(array, np.ndarray) else None for array in held]
    sizes = bind_sizes(types, shapes, graph.constraints)
    with np.errstate(all="ignore"):
        return tuple(_Interpreter(sizes).run(graph, held))


def _argument(position: int, array: Any, type: Type) -> Held:
    if not isinstance(type, TensorType):
        return array
    found = np.asarray(array)
    if found.dtype != type.dtype:
        raise DTypeError(f"argument {position} has dtype {found.dtype}; expected {type}")
    return found


class _Interpreter:
    """One run: the sizes, and for each region which values die at which node (found once, loops run often)."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.attrs: dict[Node, dict[str, Any]] = {}  # with concrete sizes
        self.deaths: dict[int, list[list[Value]]] = {}  # by id: graphs hash by their text

    def run(self, graph: Graph, arguments: Sequence[Held]) -> list[Held]:
        held: dict[Value, Held] = dict(zip(graph.inputs, arguments, strict=True))
        deaths = self.deaths.get(id(graph))
        if deaths is None:
            deaths = self.deaths[id(graph)] = _deaths(graph)
        for node, dead in zip(graph.nodes, deaths, strict=True):
            try:
                outputs = self.apply(node, [held[value] for value in node.inputs])
            except Exception as error:
                if node.location is not None and not hasattr(error, "__notes__"):
                    error.add_note(f"in {node.op.name} at {node.location}")
                raise
            if len(outputs) != len(node.outputs):
                raise GraphError(f"{node.op.name} evaluated to {len(outputs)} outputs; expected {len(node.outputs)}")
            for value, output in zip(node.outputs, outputs, strict=True):
                held[value] = self.checked(output, value.type, node)
            for value in dead:
                del held[value]
        return [held[value] for value in graph.outputs]

    def apply(self, node: Node, inputs: list[Held]) -> Sequence[Held]:
        if node not in self.attrs:
            self.attrs[node] = substitute_attrs(node.attrs, self.sizes)
        attrs: dict[str, Any] = self.attrs[node]
        if node.op.control is not None:
            types = [value.type for value in node.outputs]
            return execute(node.op.control(*node.regions, **attrs), self, inputs, types)
        if node.op.evaluate is not None:
            result = node.op.evaluate(*inputs, **attrs)
            return result if isinstance(result, tuple) else (result,)
        if len(node.regions) == 1 and len(node.regions[0].inputs) == len(inputs):  # a composite
            return self.run(node.regions[0], inputs)
        raise GraphError(f"{node.op.name} cannot be evaluated", location=node.location, hint="run the passes first")

    def is_true(self, value: Held) -> bool:
        return bool(value)

    def slice(self, x: Held, i: int) -> Held:
        return np.asarray(x)[i]

    def rows(self, type: Type, length: int) -> NDArray[Any]:
        assert isinstance(type, TensorType)
        return np.empty(self.shape(type), type.dtype)

    def stacked(self, rows: NDArray[Any], type: Type) -> NDArray[Any]:
        return rows

    def shape(self, type: TensorType) -> tuple[int, ...]:
        return tuple(dims.evaluate(dim, self.sizes) for dim in type.shape)

    def checked(self, output: Held, type: Type, node: Node) -> Held:
        """``output`` as an array, after making sure that the op gave what its rule promised."""
        if not isinstance(type, TensorType):
            return output
        array = np.asarray(output)
        if array.dtype != type.dtype or array.shape != self.shape(type):
            raise GraphError(
                f"{node.op.name} evaluated to {SHORT_NAMES.get(array.dtype, array.dtype)}{list(array.shape)}; "
                f"its rule says {type}",
                location=node.location,
            )
        return array


def _deaths(graph: Graph) -> list[list[Value]]:
    """For each node, the values that nothing after it reads."""
    kept = set(graph.outputs)
    dead: list[list[Value]] = []
    for node in reversed(graph.nodes):
        last = [value for value in dict.fromkeys((*node.inputs, *node.outputs)) if value not in kept]
        kept.update(last)
        dead.append(last)
    return dead[::-1]
