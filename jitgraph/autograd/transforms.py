"""Derivatives of functions: grad, value_and_grad, vjp and jvp; eager and inside a trace, nested too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from jitgraph import dtypes, ops, tree
from jitgraph.autograd import enable_grad
from jitgraph.autograd import grad as tensor_grad
from jitgraph.autograd.functional_call import is_module, standing_for
from jitgraph.eager import placement, tape
from jitgraph.eager.handle import COMPUTED, stopped
from jitgraph.eager.tape import LeafRecord, Record
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, lifting, tensor_of, wrap_as
from jitgraph.tensor.gradients import cotangent

# ----------------------------------------------------------------------
# The arguments that are differentiated: fresh variables in their places, and gradients in their structure.
#
# A module stands for its parameters: they have other values while the function runs, and its gradient is a dict by
# name.

Argnums: TypeAlias = int | tuple[int, ...] | None
Argnames: TypeAlias = str | tuple[str, ...] | None
Place: TypeAlias = int | str


class DifferentiableCall(Protocol):
    """A call whose result depends on variables, each of which is a tensor that requires a gradient."""

    variables: list[Tensor]

    def call(self) -> Any:
        """The function's result on the variables."""
        ...

    def packed(self, gradients: Sequence[Any]) -> Any:
        """Gradients, one for each variable, as the arguments are chosen and built."""
        ...


class _Leaf(NamedTuple):
    """A leaf of a differentiated argument: one variable, or, of a module, one for each name."""

    names: tuple[str, ...] | None
    variables: int


class Variables:
    """What ``argnums`` and ``argnames`` choose of a call: ``call`` runs the function on ``variables``.

    JitgraphError where they name no argument, DTypeError for a tensor that is no float.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        argnums: Argnums,
        argnames: Argnames,
    ) -> None:
        self._function = function
        self._args = list(args)
        self._kwargs = dict(kwargs)
        self.argnums = 0 if argnums is None and argnames is None else argnums
        self.argnames = argnames
        self.variables: list[Tensor] = []
        self._of_modules: list[tuple[Tensor, Tensor]] = []
        self._chosen: set[int] = set()
        self._parts: dict[Place, tuple[tree.TreeDef, list[_Leaf]]] = {}
        for number in checked_numbers(self.argnums):
            self._choose_number(number)
        for name in _several(argnames):
            self._choose_name(name)

    def _choose_number(self, number: Any) -> None:
        if not -len(self._args) <= number < len(self._args):
            raise JitgraphError(f"argnums names argument {number} of {len(self._args)}")
        self._choose_key(number, number % len(self._args))

    def _choose_name(self, name: Any) -> None:
        if not isinstance(name, str):
            raise JitgraphError(f"argnames is a str or a tuple of strs, not {self.argnames!r}")
        if name in self._kwargs:
            self._kwargs[name] = self._varied(name, self._kwargs[name])
            return
        position = _positions(self._function).get(name)
        if position is None or position >= len(self._args):
            raise JitgraphError(f"argnames names {name!r}, which is no argument of the call")
        self._choose_key(name, position)

    def _choose_key(self, key: Place, position: int) -> None:
        if position in self._chosen:
            raise JitgraphError(f"argument {position} is named twice")
        self._chosen.add(position)
        self._args[position] = self._varied(key, self._args[position])

    def _varied(self, key: Place, arg: Any) -> Any:
        if key in self._parts:
            raise JitgraphError(f"argument {key!r} is named twice")
        leaves, structure = tree.flatten(arg)
        new_leaves, parts = [], []
        for leaf in leaves:
            if is_module(leaf):
                parameters = [(name, p) for name, p in leaf.named_parameters() if p.requires_grad]
                fresh = [variable(wrap_as(stopped(p.value), p) if p._requires_grad else p) for _, p in parameters]
                self._of_modules += [(p, own) for (_, p), own in zip(parameters, fresh, strict=True)]
                parts.append(_Leaf(tuple(name for name, _ in parameters), len(parameters)))
                self.variables += fresh
                new_leaves.append(leaf)
            else:
                parts.append(_Leaf(None, 1))
                new_leaves.append(variable(leaf))
                self.variables.append(new_leaves[-1])
        self._parts[key] = (structure, parts)
        return structure.unflatten(new_leaves)

    def call(self) -> Any:
        """The function's result on the variables."""
        handles = [handle for handle, _ in self._of_modules]
        with standing_for(handles, [own.value for _, own in self._of_modules]):
            return self._function(*self._args, **self._kwargs)

    def packed(self, gradients: Sequence[Any]) -> Any:
        """Gradients, one for each variable, as the arguments are chosen and built."""
        rest = iter(gradients)
        arguments: dict[Place, Any] = {}
        for key, (structure, parts) in self._parts.items():
            leaves = []
            for part in parts:
                own = [next(rest) for _ in range(part.variables)]
                leaves.append(own[0] if part.names is None else dict(zip(part.names, own, strict=True)))
            arguments[key] = structure.unflatten(leaves)
        by_number = _packed(self.argnums, arguments, tuple)
        by_name = _packed(self.argnames, arguments, None)
        if self.argnums is None:
            return by_name
        return by_number if self.argnames is None else (by_number, by_name)


def _packed(chosen: Any, arguments: Mapping[Place, Any], kind: Any) -> Any:
    if chosen is None:
        return None
    if not isinstance(chosen, tuple):
        return arguments[chosen]
    return tuple(arguments[key] for key in chosen) if kind is tuple else {key: arguments[key] for key in chosen}


def checked_numbers(argnums: Any) -> tuple[int, ...]:
    """The numbers of arguments; JitgraphError for anything else, such as an argument itself."""
    for number in _several(argnums):
        if not isinstance(number, int):
            what = f"argnums is an int or a tuple of ints, not {argnums!r}"
            hint = "the place of an argument, such as argnums=0; the arguments go to what is returned: jg.grad(f)(x)"
            raise JitgraphError(f"{what}\n  hint: {hint}")
    return _several(argnums)


def _several(chosen: Any) -> tuple[Any, ...]:
    return chosen if isinstance(chosen, tuple) else () if chosen is None else (chosen,)


def _positions(function: Callable[..., Any]) -> dict[str, int]:
    """The numbers of the parameters that can be given by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {parameter.name: i for i, parameter in enumerate(parameters) if parameter.kind in positional}


def variable(leaf: Any) -> Tensor:
    """A fresh variable with the value of a tensor, array or number; DTypeError for what is no float."""
    value = lifting.value_of(leaf)
    if not dtypes.is_inexact(value.type.dtype):
        raise DTypeError(f"only floats have gradients, not {value.type.dtype.name}", hint="x.astype(jg.float32)")
    fresh: Tensor = wrap_as(ops.reshape(value, shape=value.type.shape), leaf)
    return fresh if fresh.requires_grad else fresh.requires_grad_()


# ----------------------------------------------------------------------
# Derivatives of functions: grad, value_and_grad, vjp and jvp; eager and inside a trace, nested too.
#
# Each argument that is differentiated becomes a fresh handle, so the same tensor given twice is two variables.


def own_part(gradient: Tensor | None, variable: Tensor, variables: list[Tensor]) -> Tensor:
    """The gradient, zeros where there is none; detached unless it depends on a leaf besides ``variables``."""
    if gradient is None:
        return zeros_beside(variable, variable.value.type.shape)
    value = gradient.value
    if isinstance(value, COMPUTED) and value.record is not None:
        own = {v.value.record for v in variables}
        if not _reaches_leaf(value.record, own):
            return wrap_as(value.recorded(None), gradient)  # type: ignore[no-any-return]
    elif gradient._requires_grad and any(gradient is v for v in variables):
        # the variable of a traced transform itself: its mark is the transform's, not the result's
        return wrap_as(value, gradient)  # type: ignore[no-any-return]
    return gradient


def zeros_beside(tensor: Tensor, shape: Sequence[DimLike]) -> Tensor:
    """Zeros of the dtype of a tensor, where it lies."""
    with placement.beside(tensor.value):
        dtype = tensor._static.type.dtype
        zeros = lifting.constant(0.0 if dtypes.is_inexact(dtype) else 0, dtype, shape)
        return wrap_as(zeros, tensor)  # type: ignore[no-any-return]


def _reaches_leaf(start: Record, own: set[Any]) -> bool:
    """Whether the tape below ``start`` holds a leaf that is none of ``own``.

    A leaf whose handle has gone counts for none: it was a variable of a transform that has returned.
    """
    seen, pending = {start}, [start]
    while pending:
        record = pending.pop()
        if record in own:
            below = record.inputs or ()  # an identity over an outer variable
        elif isinstance(record, LeafRecord) and record.handle() is not None:
            return True
        else:
            below = record.inputs or ()
        for value in below:
            following = getattr(value, "record", None)
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
    return False


def value_and_grad(
    function: Callable[..., Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None
) -> Callable[..., Any]:
    """A function that returns ``(value, gradients)``; the value is a scalar, or ``(scalar, aux)`` with ``has_aux``.

    ``argnums`` numbers the arguments that are differentiated (the first by default), ``argnames`` names them. Each is a
    tensor, a tree of them, or a module, whose gradient is a dict by the names of its parameters; gradients have the
    structure of the argument. An int or a str gives one, a tuple of ints a tuple, a tuple of names a dict, and both a
    pair. ShapeError where the function gives no scalar, DTypeError for an argument that is no float.
    """
    checked_numbers(argnums)

    @functools.wraps(function, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with enable_grad():
            chosen = Variables(function, args, kwargs, argnums, argnames)
            value, aux = with_aux(chosen.call(), has_aux)
            if not isinstance(value, Tensor) or value.ndim != 0:
                shown = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ShapeError(f"grad needs a function whose result is a scalar tensor, not {shown}", hint=".sum()")
            gradients = pullback([value], [None], chosen.variables)
        value = own_part(value, value, chosen.variables)
        aux = without_own(aux, chosen.variables)
        return ((value, aux) if has_aux else value), chosen.packed(gradients)

    return differentiated


def with_aux(result: Any, has_aux: bool) -> tuple[Any, Any]:
    """What a function gives that is differentiated, and what it gives beside it; JitgraphError for no such pair."""
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise JitgraphError("has_aux=True needs a function that returns (value, aux)")
    return result if has_aux else (result, None)


def without_own(aux: Any, variables: list[Tensor]) -> Any:
    """A tree whose tensors no longer depend on ``variables``."""
    return tree.map_leaves(lambda leaf: own_part(leaf, leaf, variables) if isinstance(leaf, Tensor) else leaf, aux)


class CallSite:
    """Where a function was called whose derivative is asked for later: outside of traces, or in which trace or region.

    A loop, a branch, ``jg.vmap`` and ``jg.checkpoint`` record their bodies on their own, so gradients computed in a
    body cannot pass through what was recorded outside of it: there it is computed once more.
    """

    def __init__(self, name: str, result_name: str) -> None:
        self._trace = context.current().trace
        self._name, self._made = name, result_name
        self.variables: list[Tensor] = []  # which no gradient depends on once it leaves a trace

    def gradients(
        self,
        outputs: Sequence[Tensor],
        cotangents: Sequence[Any],
        variables: Sequence[Tensor],
        retain_graph: bool | None = None,
    ) -> list[Tensor | None]:
        """Gradients that can be differentiated again where this is called, None where none flows.

        JitgraphError where that is a traced function, or a body of one, in which the function was not called.
        """
        trace = context.current().trace
        if trace is not self._trace:
            if self._trace is None and trace.takes_tape:
                trace.outermost.variables += self.variables
                return _swept(trace, outputs, cotangents, variables)
            if self._trace is None or trace is None or all(outer is not self._trace for outer in trace.outwards()):
                what = f"jg.{self._name} was called outside of the traced function or body that uses its {self._made}"
                raise JitgraphError(f"{what}\n  hint: call jg.{self._name} inside, where its {self._made} is used")
            recomputed = trace.gradients.recomputed([self._trace.read(tensor) for tensor in (*outputs, *variables)])
            outputs, variables = [
                [wrap_as(value, example) for value, example in zip(part, examples, strict=True)]
                for part, examples in (
                    (recomputed[: len(outputs)], outputs),
                    (recomputed[len(outputs) :], variables),
                )
            ]
        return list(
            tensor_grad(outputs, variables, cotangents, create_graph=True, retain_graph=retain_graph, allow_unused=True)
        )


def _swept(
    trace: Any, outputs: Sequence[Tensor], cotangents: Sequence[Any], variables: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradients of what stands on the tape, for cotangents of a trace that goes on to it, op by op."""
    weights = [trace.own(cotangent(y, weight)) for y, weight in zip(outputs, cotangents, strict=True)]
    ends, targets = [y._value for y in outputs], [x._value for x in variables]
    gradients = tape.gradients(ends, weights, targets, create_graph=True)
    return [None if value is None else wrap_as(value, x) for value, x in zip(gradients, variables, strict=True)]


def pullback(
    outputs: list[Tensor], cotangents: list[Any], variables: list[Tensor], site: CallSite | None = None
) -> list[Tensor]:
    """The gradients of the variables, zeros where none flows; ``site`` is where outputs were computed, if not here."""
    live = [(y, ct) for y, ct in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not live:
        return [own_part(None, v, variables) for v in variables]
    site = site or CallSite("vjp", "pullback")
    gradients = site.gradients([y for y, _ in live], [ct for _, ct in live], variables)
    return [own_part(g, v, variables) for g, v in zip(gradients, variables, strict=True)]


def grad(
    function: Callable[..., Any], argnums: Argnums = None, has_aux: bool = False, *, argnames: Argnames = None
) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar function, or ``(gradient, aux)`` with ``has_aux``.

    ``argnums`` numbers arguments (the first by default) and ``argnames`` names them, each a tensor, a tree of them or a
    module; gradients have their structures, shapes and dtypes, as ``value_and_grad`` says. ShapeError where the
    function gives no scalar, DTypeError for an argument that is no float.
    """
    if not callable(function):
        what = f"jg.grad takes a function, not a {type(function).__name__}"
        raise JitgraphError(f"{what}\n  hint: jg.grad(f)(x), or loss.backward() and x.grad for tensors")
    both = value_and_grad(function, argnums, has_aux, argnames=argnames)

    @functools.wraps(function, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def outputs_of(result: Any, name: str) -> tuple[list[Tensor], tree.TreeDef]:
    """The tensors of a result, and its structure; JitgraphError for a leaf that is none."""
    outputs, shape = tree.flatten(result)
    for y in outputs:
        if not isinstance(y, Tensor):
            what = f"{name} needs a function whose results are tensors, not {type(y).__name__}"
            raise JitgraphError(f"{what}\n  hint: jg.asarray(result), or return the rest by other ways")
    return outputs, shape


def every(function: Callable[..., Any], args: tuple[Any, ...]) -> Variables:
    """A call of which all arguments are differentiated."""
    return Variables(function, args, {}, tuple(range(len(args))), None)


def vjp(function: Callable[..., Any], *args: Any, has_aux: bool = False) -> Any:
    """``(result, pull)``, where ``pull(cotangents)`` gives a cotangent for each argument, as a tuple.

    Arguments are tensors, trees of them, or modules, as in ``grad``. Cotangents have the structure, shapes and dtypes
    of the result, else JitgraphError or ShapeError; JitgraphError for a result that is no tensor, DTypeError for an
    argument that is no float. With ``has_aux`` the function returns ``(result, aux)``, and ``aux`` comes third.
    ``jg.vmap(pull)`` pulls many cotangents back at once; in a body of a trace that called jg.vjp, what the function
    computed is computed there again where the gradient needs it.
    """
    site = CallSite("vjp", "pullback")
    with enable_grad():
        chosen = every(function, args)
        result, aux = with_aux(chosen.call(), has_aux)
    variables = site.variables = chosen.variables
    outputs, shape = outputs_of(result, "vjp")

    def pull(cotangents: Any) -> tuple[Any, ...]:
        leaves, structure = tree.flatten(cotangents)
        if structure != shape:
            raise JitgraphError(f"the cotangents have structure {structure}, the result {shape}")
        with enable_grad():
            gradients = pullback(outputs, [tensor_of(ct) for ct in leaves], variables, site)
        packed: tuple[Any, ...] = chosen.packed(gradients)
        return packed

    primals_out = shape.unflatten([own_part(y, y, variables) for y in outputs])
    return (primals_out, pull, without_own(aux, variables)) if has_aux else (primals_out, pull)


def jvp(function: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """``(y, dy)``: the result and its derivative along ``tangents``; one tensor each, or tuples for several arguments.

    Computed as the vjp of the vjp, which is linear in its cotangent. Of a module, tangents are a dict by name; a result
    of integers or bools does not vary: zeros of its dtype. With ``has_aux`` the function returns ``(y, aux)``, and
    ``aux`` comes third.
    """
    several = isinstance(primals, tuple | list)
    xs, vs = (tuple(primals), tuple(tangents)) if several else ((primals,), (tangents,))
    with enable_grad():
        linear = Linearised("jvp", every(function, xs), has_aux)
        moved = linear.push(vs)
    return (linear.result(), moved, linear.aux()) if has_aux else (linear.result(), moved)


class Linearised:
    """A function at a point, with its derivative as a linear function of tangents; ``name`` is what errors name."""

    def __init__(self, name: str, chosen: DifferentiableCall, has_aux: bool = False) -> None:
        self._name, self._variables = name, chosen.variables
        self._place = CallSite(name, "push")
        variables = chosen.variables
        result, self._aux = with_aux(chosen.call(), has_aux)
        self.outputs, self.shape = outputs_of(result, name)
        zeros = [zeros_beside(y, y.value.type.shape) for y in self.outputs]
        self._dummies = [variable(zero) if dtypes.is_inexact(zero.dtype) else zero for zero in zeros]
        self._place.variables = [*variables, *self._dummies]
        live = [(y, u) for y, u in zip(self.outputs, self._dummies, strict=True) if y.requires_grad]
        self._pulled: list[Tensor | None] = [None] * len(variables)
        if live:
            self._pulled = list(
                tensor_grad([y for y, _ in live], variables, [u for _, u in live], create_graph=True, allow_unused=True)
            )

    def result(self) -> Any:
        """The function's result."""
        return self.shape.unflatten([own_part(y, y, self._variables) for y in self.outputs])

    def aux(self) -> Any:
        """What the function returned beside it."""
        return without_own(self._aux, self._variables)

    def push(self, tangents: tuple[Any, ...]) -> Any:
        """The derivative along tangents, one for each argument; ShapeError for one of another shape."""
        return self.shape.unflatten(self.push_flat([tensor_of(leaf) for v in tangents for leaf in tree.flatten(v)[0]]))

    def push_flat(self, directions: list[Tensor]) -> list[Tensor]:
        """As ``push``, from a tangent of each variable to one of each output."""
        if len(directions) != len(self._variables):
            raise JitgraphError(f"{self._name}: {len(self._variables)} tensors but {len(directions)} tangents")
        for x, v in zip(self._variables, directions, strict=True):
            if tuple(x.shape) != tuple(v.shape):
                raise ShapeError(
                    f"{self._name}: a tangent of shape {tuple(v.shape)} for a tensor of shape {tuple(x.shape)}"
                )
        pairs = [(g, v) for g, v in zip(self._pulled, directions, strict=True) if g is not None and g.requires_grad]
        dummies = [u for u in self._dummies if u.requires_grad]  # results that are no floats do not vary
        tangents: list[Tensor | None] = [None] * len(dummies)
        if pairs:
            tangents = self._place.gradients([g for g, _ in pairs], [v for _, v in pairs], dummies, retain_graph=True)
        own, moved = [*self._variables, *dummies], iter(tangents)
        return [own_part(next(moved) if u.requires_grad else None, u, own) for u in self._dummies]
