"""Whole derivatives inside of a trace: the function is recorded once, and its derivative along all directions at once.

The directions are the samples of ``vmap``, among which the function itself does not differ: it is computed once, and
the graph does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitgraph.autograd.transforms import jvp, vjp
from jitgraph.autograd.variables import DifferentiableCall
from jitgraph.ir import context
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Value
from jitgraph.ir.types import TensorType
from jitgraph.passes.vmap import applied
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.creation import eye
from jitgraph.tensor.functions.manipulation import moveaxis, split
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.transforms.recording import Closed, own_value
from jitgraph.transforms.vmap import vmap

Rows: TypeAlias = list[list[Tensor]]
"""For each output a derivative with respect to each variable, of the shape of the output and then the variable."""


class Recorded:
    """A call recorded as a region, to be applied to its variables; ``types`` are those of its outputs.

    ``call`` gives the outputs, and what else there is to keep.
    """

    def __init__(self, name: str, chosen: DifferentiableCall, call: Callable[[], tuple[list[Tensor], Any]]) -> None:
        self._trace = context.current().trace
        self.variables = chosen.variables
        self._numbers = {("handle", id(v)): number for number, v in enumerate(chosen.variables)}
        self._closed = Closed(name, self._trace, [], [])
        self.types: list[TensorType] = []

        def noted() -> tuple[list[Tensor], Any]:
            outputs, rest = call()
            self.types = [y.value.type for y in outputs]
            return outputs, rest

        self._closed.record(noted)

    @property
    def is_batchable(self) -> bool:
        """Whether the function is computed once for all directions: not where a ``while`` loop keeps a stack."""
        loops = (structure_of(node) for node in self._closed.graph.walk())
        return not any(isinstance(loop, CarriedLoop) and loop.condition is not None for loop in loops)

    def replay(self) -> tuple[list[Tensor], Any]:
        """The outputs and the rest, computed where this stands."""
        outputs, others = self._apply(*self.variables)
        return outputs, self._written(others)

    def jacobian(self) -> tuple[Rows, Any]:
        """By reverse mode, along each element of the outputs; and the rest."""

        def body(*cotangents: Tensor) -> Any:
            _, pull, others = vjp(self._apply, *self.variables, has_aux=True)
            return pull(list(cotangents)), others

        (gradients, others), sizes = self._along(body, self.types)
        columns = [
            [reshape(part, (*y.shape, *v.shape)) for part, y in zip(_parts(ct, sizes, 0), self.types, strict=True)]
            for ct, v in zip(gradients, self.variables, strict=True)
        ]
        return [[column[k] for column in columns] for k in range(len(self.types))], self._written(others)

    def jacfwd(self) -> tuple[Rows, Any]:
        """By forward mode, along each element of the variables; and the rest."""

        def body(*tangents: Tensor) -> Any:
            _, moved, others = jvp(self._apply, tuple(self.variables), tangents, has_aux=True)
            return moved, others

        types: list[Any] = [v.value.type for v in self.variables]
        (tangents, others), sizes = self._along(body, types)
        return [
            [
                reshape(moveaxis(part, 0, -1), (*y.shape, *v.shape))
                for part, v in zip(_parts(dy, sizes, 0), self.variables, strict=True)
            ]
            for dy, y in zip(tangents, self.types, strict=True)
        ], self._written(others)

    def _apply(self, *variables: Tensor) -> tuple[list[Tensor], Any]:
        """The outputs, and the rest with the values of handles that the function rebinds."""
        closed = self._closed
        operands = []
        for key, outer in zip(closed.keys, closed.outer, strict=True):
            number = self._numbers.get(key)
            operands.append(own_value(wrap(outer) if number is None else variables[number]))
        env: dict[Value, Any] = dict(zip(closed.graph.inputs, operands, strict=True))
        for node in closed.graph.nodes:
            env.update(zip(node.outputs, applied(node, [env[value] for value in node.inputs]), strict=True))
        values = [env[value] for value in closed.graph.outputs]
        count = len(closed.kept)
        outputs, rest = closed.rebuilt(values[:count])
        return outputs, (rest, [wrap(value) for value in values[count:]])

    def _along(self, body: Callable[..., Any], types: Sequence[TensorType]) -> tuple[Any, list[Any]]:
        """``body`` along each element of tensors of these types, in front of its first result; and their sizes."""
        sizes = [type.size for type in types]
        count: Any = sum(sizes)
        directions = []
        for number, type in enumerate(types):
            rows = _parts(eye(count, dtype=type.dtype), sizes, 1)[number]
            directions.append(reshape(rows, (count, *type.shape)))
        return vmap(body, out_axes=(0, None))(*directions), sizes

    def _written(self, others: tuple[Any, Sequence[Tensor]]) -> Any:
        """Rebind the handles that the function rebinds; gives the rest."""
        rest, values = others
        for handle, value in zip(self._closed.written, values, strict=True):
            self._trace.write(handle, own_value(value))
        return rest


def _parts(x: Tensor, sizes: Sequence[Any], axis: int) -> Sequence[Tensor]:
    """Neighbouring parts of these sizes, which may have names."""
    return [x] if len(sizes) == 1 else split(x, sizes, axis)
