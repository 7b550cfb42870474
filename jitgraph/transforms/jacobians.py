"""Whole derivatives: jacobian (jacrev), jacfwd and hessian, of trees, and linearize."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jitgraph import dtypes, ops, tree
from jitgraph.autograd import enable_grad
from jitgraph.autograd.transforms import (
    Argnames,
    Argnums,
    DifferentiableCall,
    Linearised,
    Variables,
    checked_numbers,
    every,
    grad,
    jvp,
    outputs_of,
    pullback,
    vjp,
    with_aux,
    without_own,
    zeros_beside,
)
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ir import context, dims
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Value
from jitgraph.ir.types import TensorType
from jitgraph.passes.vmap import applied
from jitgraph.tensor import Tensor, lifting, wrap, wrap_as
from jitgraph.tensor.functions.creation import eye
from jitgraph.tensor.functions.manipulation import moveaxis, split, stack
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.transforms.recording import Closed, own_value
from jitgraph.transforms.vmap import vmap


def jacobian(
    function: Callable[..., Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None
) -> Callable[..., Any]:
    """A function that returns d result / d argument, of shape ``result.shape + argument.shape``, by reverse mode.

    For a tree of results it is such a tree of what ``grad`` would give: the first argument's derivatives, or those of
    the arguments that ``argnums`` and ``argnames`` choose, in their structures. With ``has_aux`` the function returns
    ``(result, aux)`` and this one ``(jacobian, aux)``. In a trace all rows are computed at once, and what the function
    keeps for its gradient is there for each of them. JitgraphError for a result that is no tensor, DTypeError for an
    argument or result that is no float.
    """
    return _derivatives("jacobian", _Call.jacobian, _by_rows, function, argnums, has_aux, argnames)


jacrev = jacobian
"""As ``jacobian``."""


def jacfwd(
    function: Callable[..., Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None
) -> Callable[..., Any]:
    """As ``jacobian``, column by column, by forward mode: for functions with more results than arguments."""
    return _derivatives("jacfwd", _Call.jacfwd, _by_columns, function, argnums, has_aux, argnames)


def _derivatives(
    name: str,
    at_once: Callable[[_Call], tuple[Rows, Any]],
    one_by_one: Callable[[DifferentiableCall, bool], tuple[Rows, tree.TreeDef, Any]],
    function: Callable[..., Any],
    argnums: Argnums,
    has_aux: bool,
    argnames: Argnames,
) -> Callable[..., Any]:
    """A function that returns whole derivatives: all directions at once in a trace, where they can be."""
    checked_numbers(argnums)

    @functools.wraps(function, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            chosen: DifferentiableCall = Variables(function, args, kwargs, argnums, argnames)
            recorded = None if context.current().trace is None else _Call(chosen, has_aux, name)
            if recorded is not None and recorded.is_batchable:
                rows, aux = at_once(recorded)
                shape = recorded.shape
            else:
                rows, shape, aux = one_by_one(recorded or chosen, has_aux)
            rows = [[wrap_as(d.value, v) for d, v in zip(row, chosen.variables, strict=True)] for row in rows]
        derivatives = shape.unflatten([chosen.packed(row) for row in rows])
        return (derivatives, aux) if has_aux else derivatives

    return differentiated


# --- inside of a trace ---------------------------------------------------------------------------------------------
# The function is recorded once, and its derivative along all directions at once: the directions are the samples of
# ``vmap``, among which the function itself does not differ, so the graph does not grow with their number.

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


class _Call(Recorded):
    """A call inside of a trace, recorded as a region, in the place of its ``Variables``; ``shape`` is the result's."""

    shape: tree.TreeDef

    def __init__(self, chosen: DifferentiableCall, has_aux: bool, what: str) -> None:
        self.packed = chosen.packed
        self._has_aux = has_aux

        def call() -> tuple[list[Tensor], Any]:
            result, aux = with_aux(chosen.call(), has_aux)
            outputs, self.shape = outputs_of(result, what)
            _require_floats(outputs)
            return outputs, aux

        super().__init__(what, chosen, call)

    def call(self) -> Any:
        """The result of the function, computed from the region."""
        outputs, aux = self.replay()
        result = self.shape.unflatten(outputs)
        return (result, aux) if self._has_aux else result


def _require_floats(outputs: Sequence[Tensor]) -> None:
    for y in outputs:
        if not dtypes.is_float(y.dtype):
            raise DTypeError(
                f"only floats have derivatives, not a result of {y.dtype.name}", hint="y.astype(jg.float32)"
            )


def _by_rows(chosen: DifferentiableCall, has_aux: bool) -> tuple[Rows, tree.TreeDef, Any]:
    """The derivatives of one element of the outputs after the other; the structure of the result, and aux."""
    result, aux = with_aux(chosen.call(), has_aux)
    outputs, shape = outputs_of(result, "jacobian")
    _require_floats(outputs)
    return [_rows(output, chosen.variables) for output in outputs], shape, without_own(aux, chosen.variables)


def _rows(output: Tensor, variables: list[Tensor]) -> list[Tensor]:
    """The derivatives of every element of ``output`` with respect to each variable."""
    shape = tuple(output.value.type.shape)
    flat = wrap(ops.reshape(output.value, shape=(output.value.type.size,)))
    count = int(flat.shape[0])
    rows = [pullback([flat[i]], [None], variables) for i in range(count)]
    return [_stacked([row[i] for row in rows], 0, shape, output, v) for i, v in enumerate(variables)]


def _by_columns(chosen: DifferentiableCall, has_aux: bool) -> tuple[Rows, tree.TreeDef, Any]:
    """As ``_by_rows``, along one element of the variables after the other."""
    linear = Linearised("jacfwd", chosen, has_aux)
    _require_floats(linear.outputs)
    columns = []
    for number, v in enumerate(chosen.variables):
        count = int(dims.product(v.value.type.shape))
        pushed = [linear.push_flat(_direction(chosen.variables, number, i)) for i in range(count)]
        columns.append([[leaves[k] for leaves in pushed] for k in range(len(linear.outputs))])
    rows = []
    for k, y in enumerate(linear.outputs):
        shape = tuple(y.shape)
        rows.append([_stacked(columns[n][k], len(shape), shape, y, v) for n, v in enumerate(chosen.variables)])
    return rows, linear.shape, linear.aux()


def _direction(variables: Sequence[Tensor], number: int, index: int) -> list[Tensor]:
    """Zeros, but for one in one element of one variable."""
    tangents = []
    for n, v in enumerate(variables):
        array = np.zeros(tuple(int(extent) for extent in v.shape), v.dtype)
        if n == number:
            array.reshape(-1)[index] = 1
        tangents.append(wrap_as(placement.brought(lifting.value_of(array), v.value), v))
    return tangents


def _stacked(parts: Sequence[Tensor], axis: int, shape: tuple[Any, ...], output: Tensor, v: Tensor) -> Tensor:
    """The derivatives of an output of this shape with respect to ``v``, of which these parts lie along ``axis``."""
    target = (*shape, *v.shape)
    if not parts:
        return zeros_beside(output, target)
    return reshape(stack(list(parts), axis=axis), target)


def hessian(
    function: Callable[..., Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None
) -> Callable[..., Any]:
    """A function that returns the second derivatives of a scalar function: the jacobian of its gradient.

    Of shape ``argument.shape + argument.shape`` for one tensor; for a tree a tree of trees. Errors as of ``grad`` and
    ``jacobian``.
    """
    first = grad(function, argnums, has_aux, argnames=argnames)
    return jacobian(first, argnums, has_aux, argnames=argnames)


def linearize(function: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """``(result, push)``, where ``push(*tangents)`` gives the derivative of the result along tangents of ``primals``.

    The function runs once, however many tangents are pushed. Tangents have the structures and shapes of ``primals``,
    else JitgraphError or ShapeError.
    """
    with enable_grad():
        linear = Linearised("linearize", every(function, primals))

    def push(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise JitgraphError(f"linearize: {len(tangents)} tangents for {len(primals)} arguments")
        with enable_grad():
            return linear.push(tangents)

    return linear.result(), push
