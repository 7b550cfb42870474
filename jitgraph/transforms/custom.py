"""custom_vjp and custom_jvp: functions with gradient rules of the user's, in JAX's terms."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jitgraph import dtypes, ops, tree
from jitgraph.autograd.transforms import vjp
from jitgraph.errors import JitgraphError
from jitgraph.tensor import lifting, wrap
from jitgraph.transforms.rules import GradientRule, apply, is_tensor


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
    return wrap(ops.zeros_like(value))
