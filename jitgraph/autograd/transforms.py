"""Derivatives of functions: grad, value_and_grad, vjp, jvp, jacobian, hessian; eager and inside a trace, nested too.

Each argument that is differentiated becomes a fresh handle, so the same tensor given twice is two variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import dtypes, ops, tree
from jitgraph.autograd import enable_grad
from jitgraph.autograd import grad as tensor_grad
from jitgraph.eager.tape import LeafRecord, Record
from jitgraph.eager.value import EagerValue
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.functions.shapes import reshape

Argnums = int | tuple[int, ...]


def _variables(args: tuple[Any, ...], argnums: Argnums) -> tuple[list[Any], list[Tensor], list[Any]]:
    """The arguments with fresh variables in place of the differentiated leaves, the variables, and their structures."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    fresh, variables, structures = list(args), [], []
    for number in numbers:
        if not isinstance(number, int):
            what = f"argnums is an int or a tuple of ints, not {argnums!r}"
            raise JitgraphError(f"{what}\n  hint: the place of an argument, such as argnums=0")
        if not -len(args) <= number < len(args):
            raise JitgraphError(f"argnums names argument {number} of {len(args)}")
        leaves, structure = tree.flatten(args[number])
        made = [_variable(leaf) for leaf in leaves]
        variables += made
        structures.append(structure)
        fresh[number] = structure.unflatten(made)
    return fresh, variables, structures


def _variable(leaf: Any) -> Tensor:
    if hasattr(type(leaf), "named_parameters"):
        raise DTypeError(
            f"a gradient with respect to a module, a {type(leaf).__name__}, is planned for a later version",
            hint="loss.backward() and parameter.grad, or a dict of tensors in place of the module",
        )
    value = lifting.value_of(leaf)
    if not dtypes.is_inexact(value.type.dtype):
        raise DTypeError(f"only floats have gradients, not {value.type.dtype.name}", hint="x.astype(jg.float32)")
    fresh = wrap(ops.reshape(value, shape=value.type.shape))
    return fresh if fresh.requires_grad else fresh.requires_grad_()


def _own(gradient: Tensor | None, variable: Tensor, variables: list[Tensor]) -> Tensor:
    """The gradient, zeros where there is none; detached unless it depends on something besides ``variables``."""
    if gradient is None:
        shape = variable.value.type.shape
        return wrap(lifting.constant(0.0, variable.dtype, shape))
    value = gradient.value
    if isinstance(value, EagerValue) and value.record is not None:
        own = {v.value.record for v in variables}
        if not _reaches_leaf(value.record, own):
            return wrap(EagerValue(value.array))
    return gradient


def _reaches_leaf(start: Record, own: set[Any]) -> bool:
    """Whether the tape below ``start`` holds a leaf that is none of ``own``."""
    seen, pending = {start}, [start]
    while pending:
        record = pending.pop()
        if record in own:
            below = record.inputs or ()  # an identity over an outer variable
        elif isinstance(record, LeafRecord):
            return True
        else:
            below = record.inputs or ()
        for value in below:
            following = getattr(value, "record", None)
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
    return False


def value_and_grad(function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns ``(value, gradients)``; the value is a scalar, or ``(scalar, aux)`` with ``has_aux``.

    Gradients have the structure of the argument; an int ``argnums`` gives one, a tuple a tuple.
    """

    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with enable_grad():
            fresh, variables, structures = _variables(args, argnums)
            result = function(*fresh, **kwargs)
            if has_aux and not (isinstance(result, tuple) and len(result) == 2):
                raise JitgraphError("has_aux=True needs a function that returns (value, aux)")
            value, aux = result if has_aux else (result, None)
            if not isinstance(value, Tensor) or value.ndim != 0:
                shown = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ShapeError(f"grad needs a function whose result is a scalar tensor, not {shown}", hint=".sum()")
            gradients = _pullback([value], [None], variables)
        packed = _pack(gradients, structures, argnums)
        value = _own(value, value, variables)
        aux = tree.map_leaves(lambda leaf: _own(leaf, leaf, variables) if isinstance(leaf, Tensor) else leaf, aux)
        return ((value, aux) if has_aux else value), packed

    return differentiated


def _pullback(outputs: list[Tensor], cotangents: list[Any], variables: list[Tensor]) -> list[Tensor]:
    live = [(y, ct) for y, ct in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not live:
        return [_own(None, v, variables) for v in variables]
    found = tensor_grad([y for y, _ in live], variables, [ct for _, ct in live], create_graph=True, allow_unused=True)
    return [_own(g, v, variables) for g, v in zip(found, variables, strict=True)]


def _pack(gradients: list[Tensor], structures: list[Any], argnums: Argnums) -> Any:
    rest = iter(gradients)
    packed = [structure.unflatten([next(rest) for _ in range(structure.leaves)]) for structure in structures]
    return tuple(packed) if isinstance(argnums, tuple) else packed[0]


def grad(function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar function, or ``(gradient, aux)`` with ``has_aux``.

    ``argnums`` numbers arguments, each a tensor or a tree of them; gradients have their shapes and dtypes. ShapeError
    where the function gives no scalar, DTypeError for an argument that is no float.
    """
    if not callable(function):
        what = f"jg.grad takes a function, not a {type(function).__name__}"
        raise JitgraphError(f"{what}\n  hint: jg.grad(f)(x), or loss.backward() and x.grad for tensors")
    both = value_and_grad(function, argnums, has_aux)

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def _outputs(result: Any, name: str) -> tuple[list[Tensor], tree.TreeDef]:
    """The tensors of a result, and its structure; JitgraphError for a leaf that is none."""
    outputs, shape = tree.flatten(result)
    for y in outputs:
        if not isinstance(y, Tensor):
            what = f"{name} needs a function whose results are tensors, not {type(y).__name__}"
            raise JitgraphError(f"{what}\n  hint: jg.asarray(result), or return the rest by other ways")
    return outputs, shape


def vjp(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """``(result, pull)``, where ``pull(cotangents)`` gives a cotangent for each argument, as a tuple.

    Cotangents have the structure, shapes and dtypes of the result, else JitgraphError or ShapeError; JitgraphError for
    a result that is no tensor, DTypeError for an argument that is no float.
    """
    numbers = tuple(range(len(args)))
    with enable_grad():
        fresh, variables, structures = _variables(args, numbers)
        result = function(*fresh)
    outputs, shape = _outputs(result, "vjp")

    def pull(cotangents: Any) -> tuple[Any, ...]:
        given, structure = tree.flatten(cotangents)
        if structure != shape:
            raise JitgraphError(f"the cotangents have structure {structure}, the result {shape}")
        with enable_grad():
            gradients = _pullback(outputs, [_tensor(ct) for ct in given], variables)
        packed: tuple[Any, ...] = _pack(gradients, structures, numbers)
        return packed

    return shape.unflatten([_own(y, y, variables) for y in outputs]), pull


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else wrap(lifting.value_of(x))


def jvp(function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """``(y, dy)``: the result and its derivative along ``tangents``; one tensor each, or tuples for several arguments.

    Computed as the vjp of the vjp, which is linear in its cotangent.
    """
    several = isinstance(primals, tuple | list)
    xs, vs = (tuple(primals), tuple(tangents)) if several else ((primals,), (tangents,))
    with enable_grad():
        fresh, variables, _ = _variables(xs, tuple(range(len(xs))))
        result = function(*fresh)
        outputs, shape = _outputs(result, "jvp")
        dummies = [_variable(wrap(lifting.constant(0.0, y.dtype, y.value.type.shape))) for y in outputs]
        live = [(y, u) for y, u in zip(outputs, dummies, strict=True) if y.requires_grad]
        directions = [_tensor(leaf) for v in vs for leaf in tree.flatten(v)[0]]
        if len(directions) != len(variables):
            raise JitgraphError(f"jvp: {len(variables)} tensors but {len(directions)} tangents")
        for x, v in zip(variables, directions, strict=True):
            if tuple(x.shape) != tuple(v.shape):
                raise ShapeError(f"jvp: a tangent of shape {tuple(v.shape)} for a tensor of shape {tuple(x.shape)}")
        pulled: list[Tensor | None] = [None] * len(variables)
        if live:
            pulled = list(
                tensor_grad([y for y, _ in live], variables, [u for _, u in live], create_graph=True, allow_unused=True)
            )
        pairs = [(g, v) for g, v in zip(pulled, directions, strict=True) if g is not None and g.requires_grad]
        found: list[Tensor | None] = [None] * len(dummies)
        if pairs:
            found = list(
                tensor_grad([g for g, _ in pairs], dummies, [v for _, v in pairs], create_graph=True, allow_unused=True)
            )
    moved = [_own(g, u, [*variables, *dummies]) for g, u in zip(found, dummies, strict=True)]
    return shape.unflatten([_own(y, y, variables) for y in outputs]), shape.unflatten(moved)


def jacobian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """A function that returns d result / d argument, of shape ``result.shape + argument.shape``, row by row.

    JitgraphError unless the argument and the result are one tensor each.
    """

    def differentiated(*args: Any) -> Tensor:
        with enable_grad():
            fresh, variables, _ = _variables(args, argnums)
            result = function(*fresh)
            if not isinstance(result, Tensor) or len(variables) != 1:
                raise JitgraphError("jacobian needs one tensor as argument and one as result")
            rows = [_pullback([entry], [None], variables)[0] for entry in _entries(result)]
        shape = (*result.shape, *variables[0].shape)
        if not rows:
            return wrap(lifting.constant(0.0, result.dtype, shape))
        return reshape(stack(rows), shape)

    return differentiated


def _entries(result: Tensor) -> list[Tensor]:
    flat = wrap(ops.reshape(result.value, shape=(result.value.type.size,)))
    return [flat[i] for i in range(int(flat.shape[0]))]


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Tensor]:
    """A function that returns the second derivatives of a scalar function: the jacobian of its gradient.

    Of shape ``argument.shape + argument.shape``; errors as of ``grad`` and ``jacobian``.
    """
    return jacobian(grad(function, argnums), argnums)
