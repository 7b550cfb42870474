"""Transforms of functions with PyTorch's signatures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph import tree
from jitgraph.torch.adapters import of_users
from jitgraph.torch.tensors import adopted


def _transformed(transform: Callable[..., Any], func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """jitgraph's transform of a function of PyTorch's tensors."""
    inner = transform(of_users(func), *args, **kwargs)

    @functools.wraps(func, updated=())
    def call(*values: Any, **named: Any) -> Any:
        return adopted(inner(*values, **named))

    return call


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of a function of one number, or ``(gradient, aux)`` with ``has_aux``."""
    return _transformed(jg.grad, func, argnums, has_aux)  # type: ignore[no-any-return]


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives ``(gradient, value)``, or ``(gradient, (value, aux))`` with ``has_aux``."""
    both = _transformed(jg.value_and_grad, func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return call


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(results, pull)``, where ``pull(cotangents)`` gives a cotangent for each of ``primals``; then aux."""
    results, pull, *aux = jg.vjp(of_users(func), *primals, has_aux=has_aux)

    def pulled(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return adopted(pull(cotangents))

    return adopted((results, pulled, *aux))


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """``(results, derivatives)`` along the tangents, one for each of the tuple ``primals``; then aux."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected primals to be a tuple, not {type(primals).__name__}")
    return adopted(jg.jvp(of_users(func), primals, tangents, has_aux=has_aux))


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the derivatives of all results by an argument, in reverse mode; all rows at once."""
    return _transformed(jg.jacrev, func, argnums, has_aux)  # type: ignore[no-any-return]


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """As ``jacrev``, in forward mode."""
    return _transformed(jg.jacfwd, func, argnums, has_aux)  # type: ignore[no-any-return]


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives: the jacobian of the jacobian."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """``(results, push)``, where ``push(*tangents)`` gives the derivative along tangents of ``primals``."""
    results, push = jg.linearize(of_users(func), *primals)
    return adopted(results), lambda *tangents: adopted(push(*tangents))


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function of one sample as a function of many, along the axes ``in_dims`` of its arguments.

    ``in_dims`` is an int, or a tuple with an int, None or tree of them for each argument; ``chunk_size`` samples are
    computed at once. ``randomness``: "error", "same" or "different" random numbers for the samples.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    in_axes = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    batched = _transformed(
        jg.vmap,
        func,
        in_axes=in_axes,
        out_axes=out_dims,
        randomness=randomness,
    )
    return batched if chunk_size is None else _in_chunks(batched, in_axes, out_dims, chunk_size)


def _in_chunks(batched: Callable[..., Any], in_dims: Any, out_dims: Any, chunk_size: int) -> Callable[..., Any]:
    @functools.wraps(batched, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        axes = _axes_of((args, kwargs), (in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args), 0))
        leaves, structure = tree.flatten((args, kwargs))
        sizes = [leaf.shape[axis] for leaf, axis in zip(leaves, axes, strict=True) if axis is not None]
        if not sizes:
            raise ValueError("vmap: at least one argument has to be mapped over")
        chunks = []
        for start in range(0, sizes[0], chunk_size):
            part = [
                x if axis is None else x.narrow(axis, start, min(chunk_size, sizes[0] - start))
                for x, axis in zip(leaves, axes, strict=True)
            ]
            chunk_args, chunk_kwargs = structure.unflatten(part)
            chunks.append(tree.flatten(batched(*chunk_args, **chunk_kwargs)))
        results, shape = chunks[0]
        places = _axes_of(shape.unflatten(results), out_dims)
        joined = [
            column[0] if axis is None else jg.concat(column, axis=axis)
            for column, axis in zip(zip(*(leaves for leaves, _ in chunks), strict=True), places, strict=True)
        ]
        return adopted(shape.unflatten(joined))

    return call


def _axes_of(value: Any, axes: Any) -> list[int | None]:
    """The axis of each leaf of a tree, of a tree of axes in which an int or None stands for all below it."""
    leaves, _ = tree.flatten(value)
    if axes is None or isinstance(axes, int):
        return [axes if isinstance(leaf, jg.Tensor) else None for leaf in leaves]
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    of = axes if isinstance(axes, dict) else dict(enumerate(axes))
    return [axis for key, part in parts for axis in _axes_of(part, of[key])]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: writes in place are functional here, as are views."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are "
            "'mutations' and 'mutations_and_views'."
        )
    return func


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor itself: those in a transform wrap none."""
    return tensor
