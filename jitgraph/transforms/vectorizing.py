"""Functions of rows and of numbers, called along axes and over whole tensors by ``vmap``; NumPy's names."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.manipulation import broadcast_to, moveaxis
from jitgraph.tensor.functions.method import array_function, axis_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.transforms.vmap import vmap


@array_function
def apply_along_axis(function: Callable[..., Any], axis: int, x: TensorLike, *args: Any, **kwargs: Any) -> Any:
    """``function(row, *args, **kwargs)`` of every vector of x along ``axis``, whose results take its place.

    All at once, by ``vmap``; gradients flow. Results may be numbers, which leave the axis out, or tensors of any rank.
    """
    tensor = wrap(lifting.value_of(x))
    if not tensor.ndim:
        raise ShapeError("apply_along_axis of a number, which has no axis", hint="x.reshape(1)")
    number = axis_of(axis, tensor.ndim, "apply_along_axis")
    of_rows: Callable[..., Any] = lambda row: function(row, *args, **kwargs)
    for _ in range(tensor.ndim - 1):
        of_rows = vmap(of_rows)
    mapped = of_rows(moveaxis(tensor, number, -1))
    result = wrap(lifting.value_of(mapped)) if not isinstance(mapped, Tensor) else mapped
    lead, rank = tensor.ndim - 1, result.ndim
    order = [*range(number), *range(lead, rank), *range(number, lead)]
    return result if order == list(range(rank)) else result.permute_dims(tuple(order))


_NAME: Final = r"\s*\w+\s*"
_AXES: Final = rf"\(\s*(?:{_NAME}(?:,{_NAME})*)?\s*\)"
_SIGNATURE: Final = rf"\s*{_AXES}(?:\s*,\s*{_AXES})*\s*->\s*{_AXES}(?:\s*,\s*{_AXES})*\s*"


def _ranks(signature: str) -> tuple[list[list[str]], int]:
    """The names of the axes of each argument, and the number of results."""
    if not re.fullmatch(_SIGNATURE, signature):
        raise JitgraphError(f'vectorize: signature={signature!r} is not of the form "(n),(n,m)->(m)"')
    before, after = signature.split("->")
    arguments = [re.findall(r"\w+", axes) for axes in re.findall(r"\(([^)]*)\)", before)]
    return arguments, len(re.findall(r"\(", after))


@array_function
def vectorize(
    function: Callable[..., Any], *, signature: str | None = None, excluded: Iterable[int | str] = ()
) -> Callable[..., Any]:
    """``function`` of numbers as a function of tensors, which broadcast: called once, for all elements, by ``vmap``.

    ``signature``, as "(n),(n)->()", says which arguments are vectors or matrices: axes before those broadcast.
    ``excluded`` arguments, by position or name, are passed on as they are, and keyword arguments are broadcast too.
    It differs from NumPy in that the function is recorded: Python steers by no element.
    """
    arguments = None if signature is None else _ranks(signature)[0]
    left_out = frozenset(excluded)

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        keys: list[Any] = [
            *(i for i in range(len(args)) if i not in left_out),
            *(name for name in kwargs if name not in left_out),
        ]
        if arguments is not None and len(keys) != len(arguments):
            raise JitgraphError(f"vectorize: {len(keys)} arguments for the signature {signature!r}")
        tensors = [wrap(lifting.value_of(args[i] if isinstance(i, int) else kwargs[i])) for i in keys]
        cores = [0] * len(tensors) if arguments is None else [len(names) for names in arguments]
        outer = []
        for tensor, core in zip(tensors, cores, strict=True):
            if tensor.ndim < core:
                raise ShapeError(f"vectorize: {tensor.value.type} for {core} axes of the signature {signature!r}")
            outer.append(tensor.value.type.shape[: tensor.ndim - core])
        batch_shape = lifting.broadcast_shapes(*outer)
        spread = [
            broadcast_to(tensor, (*batch_shape, *tensor.value.type.shape[tensor.ndim - core :]))
            for tensor, core in zip(tensors, cores, strict=True)
        ]

        def of_one(*elements: Tensor) -> Any:
            by_key = dict(zip(keys, elements, strict=True))
            return function(
                *(by_key.get(i, arg) for i, arg in enumerate(args)), **{k: by_key.get(k, v) for k, v in kwargs.items()}
            )

        batched: Callable[..., Any] = of_one
        for _ in batch_shape:
            batched = vmap(batched)
        return batched(*spread)

    return call
