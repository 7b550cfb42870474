"""Constant folding: what does not depend on the inputs is evaluated once, here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph.dtypes import is_float
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.control import Conditional, structure_of
from jitgraph.ir.dims import Dim
from jitgraph.ir.fault import working_on
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.ir.types import Constant
from jitgraph.ops.creation import constant, full
from jitgraph.passes.rewriter import Rewriter, has_effect, is_tensor, rewrite_regions, uniform_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_BYTES: Final = 64 << 10  # of each operand and result of a folded node: code must not grow by tables


def fold(graph: Graph, target: Target, constraints: Constraints | None = None) -> Graph:
    """Evaluate nodes whose operands are constants, and take the known branch of a cond.

    Values of one element repeated become ``full``; elementwise ops on such are folded for any size, named ones too.
    What the host evaluates (``Op.lowering``) is left to the run. Nothing larger than 64 KB is made, and an op that
    would raise is left to raise at its time.
    """
    rewriter = Rewriter(graph, constraints)
    known: dict[Value, Node] = {}
    for node in graph.nodes:
        regions = rewrite_regions(node, lambda region: fold(region, target, rewriter.constraints))
        copied = rewriter.copy(node, regions)
        start = len(rewriter.builder.nodes)
        with working_on(node.op.name, node.location):
            results = _folded(rewriter, copied, known)
        if results is not None:
            del rewriter.builder.nodes[start - 1]
            for old, new in zip(copied.outputs, results, strict=True):
                rewriter.replace(old, new)
        for new_node in rewriter.builder.nodes[start - 1 :]:
            if _is_given(new_node):
                known[new_node.output] = new_node
    return rewriter.finish()


def _folded(rewriter: Rewriter, node: Node, known: dict[Value, Node]) -> tuple[Value, ...] | None:
    """The values that ``node`` gives without being run; None where that is not known."""
    structure = structure_of(node)
    if isinstance(structure, Conditional):
        predicate = uniform_value(known.get(node.inputs[0]))
        chosen = structure.then if predicate else structure.otherwise
        return None if predicate is None else rewriter.inline(chosen, node.inputs[1:])
    if has_effect(node) or node.op.evaluate is None or node.op.lowering == "host" or node.regions:
        return None
    if _is_given(node) and node.op is not constant:  # it is as short as can be
        return None
    if not all(map(is_tensor, (*node.inputs, *node.outputs))) or not all(value in known for value in node.inputs):
        return None
    producers = [known[value] for value in node.inputs]
    results = _scalar_result(node, producers) if node.op.kind == "elementwise" else None
    if results is not None and all(map(_is_uniform, results)):  # a NaN with bits of its own is no number of ``full``
        shapes = [value.shape for value in node.outputs]
    else:
        if not _is_small(node) or any(map(_names_sizes, (node, *producers))):
            return None
        try:
            results = _evaluate(node, [_array(producer) for producer in producers])
        except IndexError:  # for the run to raise, if it ever gets there
            return None
        shapes = [array.shape for array in results]
        if node.op is constant and not _is_uniform(results[0]):
            return None
    with rewriter.emitting(node):
        return tuple(_emit(array, shape) for array, shape in zip(results, shapes, strict=True))


def _is_given(node: Node) -> bool:
    """Whether the attributes alone say what the node gives."""
    return node.op.kind == "creation" and not node.inputs


def _scalar_result(node: Node, producers: list[Node]) -> list[NDArray[Any]] | None:
    """The one element of an elementwise op's result, where every operand repeats one element."""
    scalars = []
    for producer in producers:
        value = uniform_value(producer)
        if value is None:
            return None
        scalars.append(full.evaluate(shape=(), value=value, dtype=producer.output.dtype))  # type: ignore[misc]
    return _evaluate(node, scalars) if scalars else None


def _is_small(node: Node) -> bool:
    for value in (*node.inputs, *node.outputs):
        size, itemsize = value.tensor.size, value.dtype.itemsize
        if isinstance(size, Dim) or size * itemsize > MAX_BYTES:
            return False
        if math.prod(extent for extent in value.shape if isinstance(extent, int) and extent) * itemsize >= 1 << 63:
            return False  # without elements, and yet more than NumPy can say
    return True


def _names_sizes(node: Node) -> bool:
    from jitgraph.ir.attributes import names_in_attr  # here: many graphs have nothing to fold

    return any(names_in_attr(attr) for attr in node.attrs.values())


def _array(producer: Node) -> NDArray[Any]:
    return _evaluate(producer, [])[0]


def _evaluate(node: Node, arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """What the node gives, with the bits of its run."""
    assert node.op.evaluate is not None
    with np.errstate(all="ignore"):
        if "approximated" in node.op.traits:  # NumPy's math functions have other bits
            from jitgraph.ops.scalar_numpy import NumpyScalars  # here: few graphs have such constants

            assert node.op.scalar is not None
            value: Any = node.op.scalar(NumpyScalars(arrays[0].dtype), *arrays, **node.attrs)
            return [np.asarray(value, node.output.dtype)]
        result = node.op.evaluate(*arrays, **node.attrs)
    return [np.asarray(array) for array in (result if isinstance(result, tuple) else (result,))]


def _is_uniform(array: NDArray[Any]) -> bool:
    """Whether all elements have the bits of the first, and a Python number can say which."""
    if array.size == 0:
        return False
    bits = array.reshape(-1).view(np.dtype(f"u{array.dtype.itemsize}"))
    if (bits != bits[0]).any():
        return False
    with np.errstate(invalid="ignore"):  # a signalling NaN
        if not np.isnan(array.reshape(-1)[0]):
            return True
    usual = np.array([math.nan], array.dtype).view(bits.dtype)[0]
    return bool(bits[0] == usual)


def _emit(array: NDArray[Any], shape: tuple[Any, ...]) -> Value:
    array = np.ascontiguousarray(array).reshape(array.shape)
    if _is_uniform(array):
        first = array.reshape(-1)[0]
        number = float(first) if is_float(array.dtype) else first.item()
        result: Value = full(shape=shape, value=number, dtype=array.dtype)
    else:
        result = constant(value=Constant(array))
    return result
