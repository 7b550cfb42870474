"""Gradient rules of the user's: custom_vjp and custom_jvp as in JAX, Function as in PyTorch; one node in a trace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Final, NoReturn

import numpy as np

from jitgraph import dtypes, ops, tree
from jitgraph.autograd import no_grad
from jitgraph.autograd.transforms import vjp
from jitgraph.eager import streams
from jitgraph.eager.replay import GradientRecord, detached, requires_gradient, taped
from jitgraph.eager.tape import Record
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType, Type, is_inexact_tensor
from jitgraph.ops.effects import zeros
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor, lifting, wrap, wrap_as
from jitgraph.transforms.recording import Closed, own_value
from jitgraph.tree import TreeDef

# ----------------------------------------------------------------------
# Calls with a gradient rule of the user's: eager on the tape, in a trace as one ``custom_gradient`` node.

_DEEPEST: Final = 2
"""How often a rule that calls its own function is recorded in itself: derivatives up to the third order follow it."""

_WITHIN: Final[ContextVar[tuple[int, ...]]] = ContextVar("jitgraph_rules", default=())


@dataclass(frozen=True, slots=True)
class GradientRule:
    """A function and its gradient.

    ``forward(*args)`` gives the result and a tree of residuals; ``backward(residuals, cotangents)``, whose cotangents
    are a tree like the result (None for what is no float), a cotangent or None for each leaf of the arguments that is a
    tensor or array, in order. ``primal`` gives the result alone. ``owner`` is what the rule belongs to.
    """

    owner: object
    name: str
    primal: Callable[..., Any]
    forward: Callable[..., tuple[Any, Any]]
    backward: Callable[[Any, Any], Sequence[Any]]


def apply(rule: GradientRule, args: tuple[Any, ...]) -> Any:
    """The result of ``rule`` for these arguments, trees of tensors and of anything else."""
    leaves, structure = tree.flatten(args)
    positions = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
    if context.current().trace is not None:
        if _WITHIN.get().count(id(rule.owner)) >= _DEEPEST:
            return rule.primal(*args)
        return _traced(rule, leaves, structure, positions)
    values = [lifting.value_of(leaves[i]) for i in positions]
    if not requires_gradient(values):
        return rule.primal(*args)
    return _eager(rule, leaves, structure, positions, values)


def is_tensor(leaf: object) -> bool:
    """Whether a leaf of the arguments can have a gradient: numbers of Python have none."""
    return isinstance(leaf, Tensor | np.ndarray | np.generic)


def _filled(leaves: Sequence[Any], positions: Sequence[int], values: Sequence[Any]) -> list[Any]:
    filled = list(leaves)
    for i, value in zip(positions, values, strict=True):
        filled[i] = value
    return filled


def _fitted(name: str, cotangents: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """What ``backward`` gave as values of the operands' types, None for what is none; ShapeError where it is not."""
    if len(cotangents) != len(types):
        raise JitgraphError(f"{name}: backward gives {len(cotangents)} cotangents for {len(types)} tensors")
    fitted: list[Any] = []
    for number, (ct, type) in enumerate(zip(cotangents, types, strict=True)):
        assert isinstance(type, TensorType)
        if not dtypes.is_inexact(type.dtype):
            fitted.append(None)
            continue
        if ct is None:
            fitted.append(zeros(type))
            continue
        value = lifting.value_of(ct, type.dtype)
        if tuple(value.type.shape) != tuple(type.shape):
            raise ShapeError(
                f"{name}: backward gives a cotangent of shape {tuple(value.type.shape)} for tensor {number} of shape "
                f"{tuple(type.shape)}",
                hint="one of the tensor's own shape, or None",
            )
        fitted.append(lifting.cast(value, type.dtype))
    return fitted


# --- eager ----------------------------------------------------------------------------------------------------------


def _eager(rule: GradientRule, leaves: list[Any], structure: TreeDef, positions: list[int], values: list[Any]) -> Any:
    states = streams.snapshot()

    def forward(inputs: Sequence[Any]) -> tuple[Any, Any]:
        handles = [wrap_as(value, leaves[i]) for i, value in zip(positions, inputs, strict=True)]
        return rule.forward(*structure.unflatten(_filled(leaves, positions, handles)))

    with no_grad():
        out, residuals = forward([value.recorded(None) for value in values])
    out_leaves, shape = tree.flatten(out)
    out_positions = [i for i, leaf in enumerate(out_leaves) if is_tensor(leaf)]
    outputs = tuple(lifting.value_of(out_leaves[i]).recorded(None) for i in out_positions)

    def again(inputs: Sequence[Any]) -> Any:
        with streams.at(states):
            return forward(inputs)[1]

    def back(saved: Any, cotangents: Sequence[Any]) -> Sequence[Any]:
        out_cts: list[Any] = [None] * len(out_leaves)
        for i, ct, output in zip(out_positions, cotangents, outputs, strict=True):
            if dtypes.is_inexact(output.dtype):
                out_cts[i] = wrap_as(zeros(output.type) if ct is None else ct, out_leaves[i])
        return _fitted(rule.name, rule.backward(saved, shape.unflatten(out_cts)), [value.type for value in values])

    record = _RuleRecord(rule.name, tuple(values), outputs, residuals, again, back)
    results = [wrap_as(value, out_leaves[i]) for i, value in zip(out_positions, taped(record, outputs), strict=True)]
    return shape.unflatten(_filled(out_leaves, out_positions, results))


class _RuleRecord(Record):
    """A call whose backward is the user's function."""

    def __init__(
        self,
        name: str,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        residuals: Any,
        again: Callable[[Sequence[Any]], Any],
        back: Callable[[Any, Sequence[Any]], Sequence[Any]],
    ) -> None:
        super().__init__(inputs, outputs)
        self.name = name
        self._residuals = residuals
        self._again = again
        self._back = back

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        if not context.current().grad_enabled:
            return self._back(self._residuals, cotangents)
        if context.current().trace is not None:
            with context.outside():
                residuals = self._again(inputs)
            return self._back(residuals, cotangents)
        with no_grad():
            gradients = self._back(self._residuals, [detached(ct) for ct in cotangents])
        floats = [i for i, value in enumerate(gradients) if value is not None]
        seeds = [i for i, ct in enumerate(cotangents) if ct is not None]

        def replay(variables: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
            """The forward once more, with residuals that can be differentiated, for a gradient of a gradient."""
            again, cts = list(inputs), [None] * len(cotangents)
            for into, positions, values in ((again, floats, variables), (cts, seeds, weights)):
                for i, value in zip(positions, values, strict=True):
                    into[i] = value
            recomputed = self._back(self._again(again), cts)
            return [recomputed[i] for i in floats]

        outputs = [detached(gradients[i]) for i in floats]
        record = GradientRecord([inputs[i] for i in floats], [cotangents[i] for i in seeds], outputs, replay)
        results: list[Any] = [None] * len(inputs)
        for number, (i, value) in enumerate(zip(floats, outputs, strict=True)):
            results[i] = value.part_of(record, number)
        return results

    def release(self) -> None:
        super().release()
        self._residuals = None


# --- in a trace -------------------------------------------------------------------------------------------------------


def _traced(rule: GradientRule, leaves: list[Any], structure: TreeDef, positions: list[int]) -> Any:
    token = _WITHIN.set((*_WITHIN.get(), id(rule.owner)))
    try:
        return _recorded(rule, leaves, structure, positions)
    finally:
        _WITHIN.reset(token)


def _recorded(rule: GradientRule, leaves: list[Any], structure: TreeDef, positions: list[int]) -> Any:
    trace = context.current().trace
    values = [own_value(leaves[i]) for i in positions]
    types = [value.type for value in values]
    closed = Closed(rule.name, trace, types, [False] * len(types))
    out: list[Any] = []
    saved: list[Any] = []
    shapes: list[TreeDef] = []

    def forward() -> list[Any]:
        call_args = structure.unflatten(_filled(leaves, positions, closed.parameters([leaves[i] for i in positions])))
        result, residuals = rule.forward(*call_args)
        for into, subtree in ((out, result), (saved, residuals)):
            parts, shape = tree.flatten(subtree)
            into.extend(parts)
            shapes.append(shape)
        return [leaf for leaf in (*out, *saved) if is_tensor(leaf)]

    closed.record(forward)
    out_positions = [i for i, leaf in enumerate(out) if is_tensor(leaf)]
    saved_positions = [i for i, leaf in enumerate(saved) if is_tensor(leaf)]
    graph = closed.graph
    first, last = len(out_positions), len(graph.outputs) - len(closed.written)
    shown = (*graph.outputs[:first], *graph.outputs[last:])
    graph = Graph(graph.inputs, graph.nodes, (*shown, *graph.outputs[first:last]), (), graph.name)
    residual_types = [value.type for value in graph.outputs[len(shown) :]]
    seeds = [i for i, value in enumerate(shown) if is_inexact_tensor(value.type)]

    back_types = [*residual_types, *(shown[i].type for i in seeds)]
    back = Closed(f"{rule.name}_backward", trace, back_types, [False] * len(back_types))
    examples = [saved[i] for i in saved_positions]
    examples += [out[out_positions[i]] if i < len(out_positions) else None for i in seeds]
    parameters = back.parameters(examples)

    def backward() -> list[Any]:
        cotangents: list[Any] = [None] * len(out)
        for position, handle in zip(seeds, parameters[len(saved_positions) :], strict=True):
            if position < len(out_positions):
                cotangents[out_positions[position]] = handle
        residuals = shapes[1].unflatten(_filled(saved, saved_positions, parameters[: len(saved_positions)]))
        fitted = _fitted(rule.name, rule.backward(residuals, shapes[0].unflatten(cotangents)), types)
        return [wrap(value) for value in fitted if value is not None]

    back.record(backward)
    if back.written:
        raise JitgraphError(
            f"{rule.name}: backward writes into a tensor from outside, prints or draws random numbers\n"
            "  hint: in a trace it computes cotangents alone"
        )
    operands = [*values, *closed.outer, *back.outer]
    region = _with_zeros(back, [*closed.outer, *back.outer], trace)
    attrs = {"num_outputs": len(shown), "num_captured": len(back.outer)}
    forward_region = _with_inputs(graph, [value.type for value in back.outer])
    outputs = context.emitter().emit(ops.custom_gradient, operands, attrs, (forward_region, region))
    for handle, value in zip(closed.written, outputs[len(out_positions) :], strict=False):
        trace.write(handle, value)
    results = [wrap_as(value, out[i]) for i, value in zip(out_positions, outputs, strict=False)]
    return shapes[0].unflatten(_filled(out, out_positions, results))


def _with_inputs(graph: Graph, types: Sequence[Type]) -> Graph:
    """The graph with more inputs, which it does not use."""
    builder = GraphBuilder()
    return Graph((*graph.inputs, *(builder.input(type) for type in types)), graph.nodes, graph.outputs, (), graph.name)


def _with_zeros(back: Closed, captured: Sequence[Any], trace: Any) -> Graph:
    """The rule with zeros as the cotangents of what the functions close over."""
    builder = GraphBuilder()
    builder.constraints = trace.constraints
    inputs = [builder.input(value.type, value.hint) for value in back.graph.inputs]
    outputs = list(builder.inline(back.graph, inputs))
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs += [zeros(value.type) for value in captured if is_inexact_tensor(value.type)]
    return Graph(tuple(builder.inputs), tuple(builder.nodes), tuple(outputs), (), back.graph.name)


# ----------------------------------------------------------------------
# custom_vjp and custom_jvp: functions with gradient rules of the user's, in JAX's terms.


class _WithRule:
    """A function whose derivative a rule gives; ``nondiff_argnums`` number arguments without one, of any kind."""

    _rule: GradientRule | None = None

    def __init__(self, function: Callable[..., Any] | None = None, nondiff_argnums: int | Sequence[int] = ()) -> None:
        numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self._fixed = numbers
        self._function = function
        if function is not None:
            functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = type(self).__name__
        if self._function is None:  # @jg.custom_vjp(nondiff_argnums=...)
            if len(args) != 1 or kwargs or not callable(args[0]):
                raise JitgraphError(f"{kind}(nondiff_argnums=...) decorates a function")
            return type(self)(args[0], self._fixed)
        name = getattr(self._function, "__name__", kind)
        bound = self._bound(args, kwargs)
        if any(not 0 <= number < len(bound) for number in self._fixed):
            raise JitgraphError(f"{name}: nondiff_argnums {self._fixed} are not numbers of its {len(bound)} arguments")
        return apply(self._made(name, bound), tuple(x for i, x in enumerate(bound) if i not in self._fixed))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included, as rules get them."""
        assert self._function is not None
        try:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
        except ValueError:
            return args
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise JitgraphError(f"{self._function.__name__}: keyword-only arguments ({names}) do not reach its rule")
        return bound.args

    def _whole(self, bound: Sequence[Any], varied: Sequence[Any]) -> list[Any]:
        """The arguments of a call with others in place of those that are differentiated."""
        rest = iter(varied)
        return [x if i in self._fixed else next(rest) for i, x in enumerate(bound)]

    def _made(self, name: str, bound: tuple[Any, ...]) -> GradientRule:
        raise NotImplementedError


class custom_vjp(_WithRule):  # noqa: N801 - a decorator
    """A function with a reverse-mode rule: ``@jg.custom_vjp`` and then ``f.defvjp(forward, backward)``.

    ``forward`` takes what f takes and gives ``(result, residuals)``, ``backward(residuals, cotangent)`` a tuple with a
    cotangent (or None, for zeros) for each argument, of the argument's structure, shapes and dtypes. Arguments that
    ``nondiff_argnums`` numbers may be anything and come to ``backward`` first. In a trace ``forward`` is what is
    recorded, with the rule beside it; outside of traces it runs again where a gradient is differentiated in turn.
    Tensors that the functions close over get no gradient.
    JitgraphError where no rule was defined or a cotangent is missing, ShapeError for one of another shape.
    """

    _forward: Callable[..., Any] | None = None
    _backward: Callable[..., Any] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Say how the function is differentiated."""
        self._forward, self._backward = forward, backward

    def _made(self, name: str, bound: tuple[Any, ...]) -> GradientRule:
        forward, backward, function = self._forward, self._backward, self._function
        if forward is None or backward is None or function is None:
            raise JitgraphError(f"{name} has no gradient rule yet\n  hint: {name}.defvjp(forward, backward)")
        fixed = [bound[i] for i in self._fixed]
        varied = [x for i, x in enumerate(bound) if i not in self._fixed]

        def run(*args: Any) -> tuple[Any, Any]:
            pair = forward(*self._whole(bound, args))
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise JitgraphError(f"{name}: forward gives (result, residuals), not {type(pair).__name__}")
            return pair

        def back(residuals: Any, cotangents: Any) -> list[Any]:
            return _leaves(name, backward(*fixed, residuals, cotangents), varied)

        return GradientRule(self, name, lambda *args: function(*self._whole(bound, args)), run, back)


def _leaves(name: str, cotangents: Any, args: Sequence[Any]) -> list[Any]:
    """The cotangents of the tensors among the leaves of the arguments, of a tuple with an entry for each argument."""
    if not isinstance(cotangents, tuple | list) or len(cotangents) != len(args):
        what = f"{len(cotangents)}" if isinstance(cotangents, tuple | list) else f"a {type(cotangents).__name__}"
        raise JitgraphError(
            f"{name}: backward gives {what} for {len(args)} arguments\n"
            "  hint: a tuple with a cotangent, or None, for each"
        )
    flat_cts: list[Any] = []
    for arg, entry in zip(args, cotangents, strict=True):
        leaves, structure = tree.flatten(arg)
        tensors = [i for i, leaf in enumerate(leaves) if is_tensor(leaf)]
        if entry is None:
            flat_cts += [None] * len(tensors)
            continue
        cts = _aligned(structure, entry)
        if cts is None:
            raise JitgraphError(
                f"{name}: backward gives a cotangent with the structure {tree.flatten(entry)[1]} for an argument "
                f"with {structure}"
            )
        flat_cts += [cts[i] for i in tensors]
    return flat_cts


def _aligned(structure: tree.TreeDef, entry: Any) -> list[Any] | None:
    """The leaves of a cotangent in the places of the argument's, where None may stand for a whole part."""
    if structure.kind is None:
        return [entry]
    if entry is None:
        return [None] * structure.leaves
    container = tree.container_of(entry)
    if container is None:
        return None
    parts = container.take_apart(entry)
    if parts.steps != structure.steps:
        return None
    leaves: list[Any] = []
    for child, inner in zip(structure.children, parts.children, strict=True):
        below = _aligned(child, inner)
        if below is None:
            return None
        leaves += below
    return leaves


class custom_jvp(_WithRule):  # noqa: N801 - a decorator
    """A function with a forward-mode rule: ``@jg.custom_jvp`` and then ``@f.defjvp``.

    The rule is ``rule(primals, tangents)``, both tuples of the differentiated arguments (those that ``nondiff_argnums``
    numbers come before), and gives ``(result, tangent of the result)``, the latter linear in the tangents. Gradients
    are the transpose of that linear function. JitgraphError where no rule was defined.
    """

    _jvp: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Say how the function is differentiated; returns the rule, so that it decorates one."""
        self._jvp = rule
        return rule

    def _made(self, name: str, bound: tuple[Any, ...]) -> GradientRule:
        rule, function = self._jvp, self._function
        if rule is None or function is None:
            raise JitgraphError(f"{name} has no derivative rule yet\n  hint: @{name}.defjvp")
        fixed = [bound[i] for i in self._fixed]

        def primal(*args: Any) -> Any:
            return function(*self._whole(bound, args))

        def run(*args: Any) -> tuple[Any, Any]:
            return primal(*args), args

        def back(args: Any, cotangents: Any) -> list[Any]:
            leaves, structure = tree.flatten(args)
            floats = [i for i, leaf in enumerate(leaves) if is_tensor(leaf) and dtypes.is_inexact(leaf.dtype)]
            still = [_zeros(leaf) if is_tensor(leaf) else 0.0 for leaf in leaves]

            def tangent(*moving: Any) -> list[Any]:
                tangents = list(still)
                for i, leaf in zip(floats, moving, strict=True):
                    tangents[i] = leaf
                pair = rule(*fixed, args, structure.unflatten(tangents))
                if not (isinstance(pair, tuple) and len(pair) == 2):
                    raise JitgraphError(f"{name}: the rule gives (result, tangent), not {type(pair).__name__}")
                return [leaf for leaf, ct in zip(*_together(name, pair[1], cotangents), strict=True) if ct is not None]

            _, pull = vjp(tangent, *(still[i] for i in floats))
            pulled = dict(zip(floats, pull([ct for ct in tree.flatten(cotangents)[0] if ct is not None]), strict=True))
            return [pulled.get(i) for i, leaf in enumerate(leaves) if is_tensor(leaf)]

        return GradientRule(self, name, primal, run, back)


def _together(name: str, tangents: Any, cotangents: Any) -> tuple[list[Any], list[Any]]:
    """The leaves of a result's tangent beside those of its cotangent, in which None stands for what is no float."""
    structure = tree.flatten(tangents)[1]
    aligned = _aligned(structure, cotangents)
    if aligned is None:
        raise JitgraphError(f"{name}: the tangent has the structure {structure}, not that of the result")
    return tree.flatten(tangents)[0], aligned


def _zeros(leaf: Any) -> Any:
    value = lifting.value_of(leaf)
    return wrap_as(ops.zeros_like(value), leaf)


# ----------------------------------------------------------------------
# Function: an op of the user's as a class with ``forward`` and ``backward``, in PyTorch's terms.


class FunctionContext:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attributes."""

    def __init__(self, needs_input_grad: Sequence[bool] = ()) -> None:
        self._saved: tuple[Any, ...] = ()
        self._fixed: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(needs_input_grad)

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors that ``backward`` needs, as ``saved_tensors``."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given."""
        return self._saved

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that no gradient flows to these results."""
        self._fixed = tensors

    def mark_dirty(self, *tensors: Tensor) -> NoReturn:
        """Not taken: values are immutable, so that no argument changes in place."""
        raise JitgraphError("ctx.mark_dirty: a forward changes no argument\n  hint: return the new tensor")

    def set_materialize_grads(self, value: bool) -> None:
        """Taken with True alone, which is how it is: a cotangent that does not come is a tensor of zeros."""
        if not value:
            raise JitgraphError("ctx.set_materialize_grads(False) is not taken: missing cotangents are zeros")


class Function:
    """An op with its own gradient: static methods ``forward(ctx, *args)`` and ``backward(ctx, *cotangents)``.

    Or ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. ``F.apply(*args)`` calls it. ``backward`` gets a
    cotangent for each result and gives one for each argument: of its shape, or None. In a trace both are recorded, as
    one op that saves to a file and can be batched; outside they are plain Python. JitgraphError for a number of
    cotangents that is not that of the arguments, ShapeError for one of another shape.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None = None
    context_class: ClassVar[type[FunctionContext]] = FunctionContext

    def __init__(self) -> None:
        raise JitgraphError(f"{type(self).__name__}() is not called\n  hint: {type(self).__name__}.apply(...)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result of ``forward``; gradients go by ``backward``."""
        for method in ("forward", "backward"):
            if not hasattr(cls, method):
                raise JitgraphError(f"{cls.__name__} defines no {method}()\n  hint: a static method")
        needs = tuple(isinstance(x, Tensor) and bool(x.requires_grad) for x in args)

        def forward(*inputs: Any) -> tuple[Any, Any]:
            ctx = cls.context_class(needs)
            if cls.setup_context is None:
                out = cls.forward(ctx, *inputs)
            else:
                out = cls.forward(*inputs)
                cls.setup_context(ctx, inputs, out)
            fixed = [any(x is leaf for x in ctx._fixed) for leaf in _results(out)]
            return out, (vars(ctx), fixed)

        def backward(residuals: Any, cotangents: Any) -> list[Any]:
            state, fixed = residuals
            ctx = cls.context_class()
            vars(ctx).update(state)
            cts = [None if flag else ct for flag, ct in zip(fixed, _results(cotangents), strict=True)]
            grads = cls.backward(ctx, *cts)
            grads = tuple(grads) if isinstance(grads, tuple | list) else (grads,)
            if len(grads) != len(args):
                raise JitgraphError(
                    f"{cls.__name__}: backward gives {len(grads)} cotangents for {len(args)} arguments\n"
                    "  hint: a cotangent, or None, for each argument of forward"
                )
            return [ct for arg, entry in zip(args, grads, strict=True) for ct in _of_argument(cls, arg, entry)]

        return apply(GradientRule(cls, cls.__name__, lambda *given: forward(*given)[0], forward, backward), args)


def _results(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, tuple | list) else (out,)


def _of_argument(cls: type, arg: Any, entry: Any) -> list[Any]:
    """The cotangents of the tensors in an argument; only one that is a tensor itself has one."""
    if is_tensor(arg):
        return [entry]
    if entry is not None:
        raise JitgraphError(f"{cls.__name__}: backward gives a cotangent for an argument that is no tensor")
    return [None for leaf in tree.flatten(arg)[0] if is_tensor(leaf)]


def passing(on_gradients: Callable[[tuple[Any, ...]], tuple[Any, ...]], *xs: Tensor) -> tuple[Tensor, ...]:
    """The same tensors, whose gradients pass a function; what that gives takes their place."""

    class Passing(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(x.detach() for x in inputs)

        @staticmethod
        def backward(ctx: Any, *cts: Tensor) -> tuple[Any, ...]:
            return on_gradients(cts)

    outputs: tuple[Tensor, ...] = Passing.apply(*xs)
    return outputs
