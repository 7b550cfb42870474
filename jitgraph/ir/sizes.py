"""Binding named sizes: from the shapes of the arguments to a value for every name, with every assumption checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitgraph.errors import ShapeError
from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.types import TensorType, Type


def bind_sizes(
    types: Sequence[Type], shapes: Sequence[Sequence[int] | None], constraints: Iterable[SizeConstraint] = ()
) -> dict[str, int]:
    """The value of every name in ``types`` for arguments of these shapes (None for tokens and stacks).

    A name is read off where it stands alone or in ``factor*name + constant``. ShapeError where a shape does not fit its
    type, a name cannot be found from the shapes, or a constraint does not hold.
    """
    equations: list[tuple[int, DimLike, int]] = []
    for position, (type, shape) in enumerate(zip(types, shapes, strict=True)):
        if not isinstance(type, TensorType):
            continue
        assert shape is not None
        if len(shape) != type.ndim:
            raise ShapeError(f"argument {position} has shape {tuple(shape)}; expected {type}")
        equations.extend((position, dim, extent) for dim, extent in zip(type.shape, shape, strict=True))
    sizes: dict[str, int] = {}
    pending = equations
    while pending:
        rest = []
        for position, dim, extent in pending:
            left = dims.substitute(dim, sizes)
            if isinstance(left, int):
                if left != extent:
                    known = "" if isinstance(dim, int) else f" (from {_bindings(dim, sizes)})"
                    raise ShapeError(f"argument {position} has size {extent} where {dim} is expected{known}")
            elif (solved := _solve(left, extent)) is not None:
                name, value = solved
                if value < 0:
                    raise ShapeError(f"argument {position} has size {extent}; {dim} cannot be that with {name} >= 0")
                sizes[name] = value
            else:
                rest.append((position, dim, extent))
        if len(rest) == len(pending):
            position, dim, extent = rest[0]
            raise ShapeError(f"argument {position}: no value for the names in {dim} makes it {extent}")
        pending = rest
    for constraint in constraints:
        if not constraint.holds(sizes):
            known = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise ShapeError(f"the sizes {known} break {constraint}, which the graph assumes")
    return sizes


def _solve(dim: Dim, extent: int) -> tuple[str, int] | None:
    """The name and value for which ``factor*name + constant`` is ``extent``; None where ``dim`` is not so simple."""
    names = dims.names(dim)
    if len(names) != 1:
        return None
    (name,) = names
    factor = dim.terms.get((name,), 0)
    rest = dim - factor * Dim.name(name)
    if not isinstance(rest, int) or factor == 0 or (extent - rest) % factor:
        return None
    return name, (extent - rest) // factor


def _bindings(dim: DimLike, sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {sizes[name]}" for name in sorted(dims.names(dim)) if name in sizes)
