"""The interpreter: runs any graph by what a subclass makes of its ops, for sizes that are known.

Over NumPy's evaluations it is slow and simple, and the reference for all else; over calls of ops it runs a graph again
under the emitter in force.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jitgraph.dtypes import SHORT_NAMES
from jitgraph.errors import ArgumentError, DTypeError, GraphError
from jitgraph.ir import dims
from jitgraph.ir.attributes import substitute_attrs
from jitgraph.ir.builder import deaths_of, decomposition, run_graph
from jitgraph.ir.constraints import Constraints, bind_sizes
from jitgraph.ir.control import Machine, execute
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    values = [_argument(i, array, type) for i, (array, type) in enumerate(zip(arrays, types, strict=True))]
    shapes = [array.shape if isinstance(array, np.ndarray) else None for array in values]
    sizes = bind_sizes(types, shapes, graph.constraints)
    with np.errstate(all="ignore"):
        return tuple(_OfArrays(sizes).run(graph, values))


def _argument(position: int, array: Any, type: Type) -> Held:
    if not isinstance(type, TensorType):
        return array
    converted = np.asarray(array)
    if converted.dtype != type.dtype:
        raise DTypeError(f"argument {position} has dtype {converted.dtype}; expected {type}")
    return converted


class Interpreter(Machine):
    """Runs graphs, control flow included, over ``apply``; ``sizes`` are the values of the named sizes.

    A subclass says what it holds for a value: what ``apply`` makes of a node that is no control flow, and what loops
    and branches ask of values.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._attrs: dict[Node, dict[str, Any]] = {}  # with concrete sizes; loops run often
        # By id, as graphs hash by their text; each graph is kept, so that no other one gets its id.
        self._deaths: dict[int, tuple[Graph, list[list[Value]]]] = {}

    def run(self, graph: Graph, arguments: Sequence[Held]) -> list[Held]:
        """What the graph gives for these arguments."""
        cached = self._deaths.get(id(graph))
        if cached is None:
            cached = self._deaths[id(graph)] = graph, deaths_of(graph)
        return run_graph(graph, arguments, self._outputs, cached[1])

    def _outputs(self, node: Node, inputs: list[Held]) -> Sequence[Held]:
        attrs = self._attrs.get(node)
        if attrs is None:
            attrs = self._attrs[node] = substitute_attrs(node.attrs, self.sizes)
        try:
            if node.op.control is None:
                return self.apply(node, inputs, attrs)
            types = [value.type for value in node.outputs]
            return execute(node.op.control(*node.regions, **attrs), self, inputs, types)
        except Exception as error:
            if node.location is not None and not hasattr(error, "__notes__"):
                error.add_note(f"in {node.op.name} at {node.location}")
            raise

    @abstractmethod
    def apply(self, node: Node, inputs: list[Held], attrs: Mapping[str, Any]) -> Sequence[Held]:
        """The outputs of a node that is no control flow, its attributes without named sizes."""

    def shape(self, type: TensorType) -> tuple[int, ...]:
        """The shape of a value of this type."""
        return tuple(dims.evaluate(dim, self.sizes) for dim in type.shape)


class _OfArrays(Interpreter):
    """Over the NumPy evaluations of ops; what they give is held against what the ops' rules say."""

    def apply(self, node: Node, inputs: list[Held], attrs: Mapping[str, Any]) -> Sequence[Held]:
        if node.op.evaluate is not None:
            result = node.op.evaluate(*inputs, **attrs)
            outputs = result if isinstance(result, tuple) else (result,)
        elif node.regions and len(node.regions[0].inputs) == len(inputs):  # a composite
            outputs = tuple(self.run(node.regions[0], inputs))
        elif node.op.decompose is not None:  # one that a target takes whole
            types = tuple(TensorType(x.dtype, x.shape) for x in map(np.asarray, inputs))
            outputs = tuple(self.run(decomposition(node.op, types, attrs, Constraints()), inputs))
        else:
            raise GraphError(f"{node.op.name} cannot be evaluated", location=node.location, hint="run the passes first")
        if len(outputs) != len(node.outputs):
            raise GraphError(f"{node.op.name} evaluated to {len(outputs)} outputs; expected {len(node.outputs)}")
        return [self._checked(output, value.type, node) for value, output in zip(node.outputs, outputs, strict=True)]

    def is_true(self, value: Held) -> bool:
        return bool(value)

    def slice(self, x: Held, i: int) -> Held:
        return np.asarray(x)[i]

    def rows(self, type: Type, length: int) -> NDArray[Any]:
        assert isinstance(type, TensorType)
        return np.empty(self.shape(type), type.dtype)

    def stacked(self, rows: NDArray[Any], type: Type) -> NDArray[Any]:
        return rows

    def _checked(self, output: Held, type: Type, node: Node) -> Held:
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
