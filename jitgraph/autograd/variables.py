"""The arguments that are differentiated: fresh variables in their places, and gradients in their structure.

A module stands for its parameters: they have other values while the function runs, and its gradient is a dict by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from jitgraph import dtypes, ops, tree
from jitgraph.autograd.substitution import is_module, standing_for
from jitgraph.eager.handle import stopped
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, lifting, wrap

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
                fresh = [variable(wrap(stopped(p.value)) if p._requires_grad else p) for _, p in parameters]
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
    fresh = wrap(ops.reshape(value, shape=value.type.shape))
    return fresh if fresh.requires_grad else fresh.requires_grad_()
