"""Which parameters of a kernel may be the same memory: a written one takes the place of one that is read.

That is so where every element of the read buffer is read, in the iteration that writes the element in its place, before
it is written, and by no other iteration. Several stores are the pieces of one (``lower/loop_transforms.py``).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, starmap
from math import gcd

from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    Contract,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    bodies_of,
    statements_of,
)
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.records import dataclass


@dataclass(frozen=True)
class _Axis:
    """The axis of a loop and the iterations that it makes of it."""

    name: str
    iterations: tuple[DimLike, DimLike, int | None]  # extent, begin and span


@dataclass(frozen=True)
class _AccessLocation:
    """Where an access stands: the loops around it, the path of statement numbers, and its index."""

    axes: tuple[_Axis, ...]
    path: tuple[int, ...]
    index: DimLike


@lru_cache(maxsize=256)
def aliasing_pairs(kernel: Kernel) -> frozenset[tuple[str, str]]:
    """The pairs (written param, read param) that may be one buffer."""
    loads: dict[str, list[_AccessLocation]] = {}
    stores: dict[str, list[_AccessLocation]] = {}
    _collect(kernel.body, (), (), loads, stores)
    in_operands = {
        s.buffer
        for statement in statements_of(kernel.body)
        for body in _read_often(statement)
        for s in statements_of(body)
        if isinstance(s, Load)
    }
    params = {param.name: param for param in kernel.params}
    pairs = set()
    for written, accesses in stores.items():
        if written not in params or params[written].access != "write":
            continue
        if not all(map(_writes_each_once, accesses)) or not all(starmap(_are_disjoint, combinations(accesses, 2))):
            continue
        for read, reads in loads.items():
            if read not in params or params[read].access != "read" or read in in_operands:
                continue
            same_width = params[read].dtype.itemsize == params[written].dtype.itemsize
            if (
                same_width
                and params[read].size == params[written].size
                and all(any(_comes_first(load, store) for store in accesses) for load in reads)
            ):
                pairs.add((written, read))
    return frozenset(pairs)


def _read_often(statement: Statement) -> tuple[Body, ...]:
    """The bodies of a contraction that run for an element which others may have replaced before."""
    match statement:
        case Contract():
            return statement.left.body, statement.right.body
        case Attend():
            return bodies_of(statement)
    return ()


def _collect(
    body: Body,
    axes: tuple[_Axis, ...],
    path: tuple[int, ...],
    loads: dict[str, list[_AccessLocation]],
    stores: dict[str, list[_AccessLocation]],
) -> None:
    for number, statement in enumerate(body):
        here = (*path, number)
        match statement:
            case Load():
                loads.setdefault(statement.buffer, []).append(_AccessLocation(axes, here, statement.index))
            case Store():
                stores.setdefault(statement.buffer, []).append(_AccessLocation(axes, here, statement.index))
            case Loop():
                axis = _Axis(statement.axis, (statement.extent, statement.begin, statement.span))
                _collect(statement.body, (*axes, axis), here, loads, stores)
                if statement.slots is not None:
                    axis = _Axis(statement.slots.axis, (statement.lanes, 0, None))
                    _collect(statement.slots.body, (*axes, axis), (*here, len(statement.body)), loads, stores)
            case Contract():
                sides = zip((statement.m, statement.n), statement.extents[:2], strict=True)
                inside = (*axes, *(_Axis(name, (extent, 0, None)) for name, extent in sides))
                _collect(statement.epilogue, inside, here, loads, stores)
            case Attend(m=m, extents=(extent, _)):
                inside = (*axes, _Axis(m, (extent, 0, None)))
                _collect(statement.row, inside, here, loads, stores)
                for one in statement.sums:
                    factor = statement.columns[one.factor]
                    column = _Axis(factor.axis, (factor.extent, 0, None))
                    _collect(one.epilogue, (*inside, column), here, loads, stores)


def _writes_each_once(store: _AccessLocation) -> bool:
    """Whether every iteration of every loop around the store has an element of its own."""
    names = dims.names(store.index)
    own = all(axis.name in names or axis.iterations == (1, 0, None) for axis in store.axes)
    return own and not any(name.startswith("_v") for name in names)


def _are_disjoint(one: _AccessLocation, other: _AccessLocation) -> bool:
    """Whether two stores write to different parts of rows, of which the loops around both name one: never the same."""
    around = {a.name for a, b in zip(one.axes, other.axes, strict=False) if a == b}
    part, other_part = (_part_of_row(access, around) for access in (one, other))
    if part is None or other_part is None:
        return False
    (steps, low, high), (other_steps, other_low, other_high) = part, other_part
    if steps != other_steps or not (high < other_low or other_high < low):
        return False
    width = max(high, other_high) - min(low, other_low) + 1
    return not steps or gcd(*steps.values()) >= width


def _part_of_row(access: _AccessLocation, around: set[str]) -> tuple[dict[str, int], int, int] | None:
    """An index as steps of the axes ``around``, and the least and greatest of the rest; None where that is unknown."""
    inside = {axis.name: axis.iterations for axis in access.axes if axis.name not in around}
    steps: dict[str, int] = {}
    low = high = 0
    for monomial, factor in dims.terms_of(access.index).items():
        match monomial:
            case ():
                low, high = low + factor, high + factor
            case (str(name),) if name in around:
                steps[name] = factor
            case (str(name),) if name in inside:
                extent, begin, span = inside[name]
                if not isinstance(extent, int) or begin != 0 or span is not None:
                    return None
                far = factor * (extent - 1)
                low, high = low + min(0, far), high + max(0, far)
            case _:
                return None
    return steps, low, high


def _comes_first(load: _AccessLocation, store: _AccessLocation) -> bool:
    """Whether the load reads exactly what the store replaces, before it does, in the same iteration."""
    common = 0
    while common < min(len(load.axes), len(store.axes)) and load.axes[common].name == store.axes[common].name:
        common += 1
    ours, theirs = load.axes[common:], store.axes[common:]
    if [axis.iterations for axis in ours] != [axis.iterations for axis in theirs]:
        return False
    renamed: dict[str, DimLike] = {a.name: Dim.name(b.name) for a, b in zip(ours, theirs, strict=True)}
    if dims.substitute(load.index, renamed) != store.index:
        return False
    return load.path < store.path
