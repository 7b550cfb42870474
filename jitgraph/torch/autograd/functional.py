"""``torch.autograd.functional``: derivatives of functions at given inputs, over jitgraph's transforms.

``create_graph`` says whether results can be differentiated in turn; ``strict`` and ``vectorize`` are taken and not
used, as what does not depend on an input has a derivative of zeros, and all rows are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgraph as jg
from jitgraph import tree
from jitgraph.torch.adapters import of_users, torch_function


def _as_tuple(inputs: Any, name: str) -> tuple[Any, ...]:
    tensors = (inputs,) if isinstance(inputs, jg.Tensor) else tuple(inputs)
    for number, x in enumerate(tensors):
        if not isinstance(x, jg.Tensor):
            raise TypeError(
                f"{name}: the inputs given to the function must be tensors, but input {number} is {type(x)}"
            )
    return tensors


def _like(results: Any, inputs: Any) -> Any:
    """One result for a tensor, a tuple for a tuple of them."""
    return results[0] if isinstance(inputs, jg.Tensor) else tuple(results)


def _released(result: Any, create_graph: bool) -> Any:
    if create_graph:
        return result
    leaves, structure = tree.flatten(result)
    return structure.unflatten([leaf.detach() for leaf in leaves])


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        value = of_users(func)(*args)
        if not isinstance(value, jg.Tensor):
            raise RuntimeError(f"The output of the user-provided function given to {name} must be a Tensor")
        if value.numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        return jg.reshape(value, ())

    return call


@torch_function
def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of each result by each input, of shape ``result.shape + input.shape``: tuples for tuples."""
    tensors = _as_tuple(inputs, "jacobian")
    transform = jg.jacfwd if strategy == "forward-mode" else jg.jacrev
    found = transform(of_users(func), argnums=tuple(range(len(tensors))))(*tensors)
    if isinstance(inputs, jg.Tensor):  # of each result the derivative by the one argument
        found = tuple(row[0] for row in found) if isinstance(found[0], tuple) else found[0]
    return _released(found, create_graph)


@torch_function
def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function of one number, by each pair of inputs: a tuple of tuples for a tuple."""
    tensors = _as_tuple(inputs, "hessian")
    numbers = tuple(range(len(tensors)))
    outer = jg.jacfwd if outer_jacobian_strategy == "forward-mode" else jg.jacrev
    found = outer(jg.grad(_scalar(func, "hessian"), argnums=numbers), argnums=numbers)(*tensors)
    return _released(found[0][0] if isinstance(inputs, jg.Tensor) else found, create_graph)


@torch_function
def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(results, v @ jacobian)``; v is 1 for a function of one number."""
    tensors = _as_tuple(inputs, "vjp")
    results, pull = jg.vjp(of_users(func), *tensors)
    if v is None:
        if not isinstance(results, jg.Tensor) or jg.Tensor.size.fget(results) != 1:  # type: ignore[attr-defined]
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
        v = jg.ones_like(results)
    _require_shapes("v", v, results)
    return _released((results, _like(pull(v), inputs)), create_graph)  # type: ignore[no-any-return]


@torch_function
def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(results, jacobian @ v)``; v is 1 for an input of one element."""
    tensors = _as_tuple(inputs, "jvp")
    along = _tangents(v, tensors, inputs)
    return _released(jg.jvp(of_users(func), tensors, along), create_graph)  # type: ignore[no-any-return]


@torch_function
def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(result, v @ hessian)`` of a function of one number."""
    return _hessian_product("vhp", func, inputs, v, create_graph)


@torch_function
def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(result, hessian @ v)`` of a function of one number; that is ``vhp``, as the matrix is symmetric."""
    return _hessian_product("hvp", func, inputs, v, create_graph)


def _hessian_product(name: str, func: Any, inputs: Any, v: Any, create_graph: bool) -> tuple[Any, Any]:
    tensors = _as_tuple(inputs, name)
    along = _tangents(v, tensors, inputs)
    with_value = jg.value_and_grad(_scalar(func, name), argnums=tuple(range(len(tensors))))
    gradients, pushed = jg.jvp(with_value, tensors, along)
    return _released((gradients[0], _like(pushed[1], inputs)), create_graph)  # type: ignore[no-any-return]


def _tangents(v: Any, tensors: tuple[Any, ...], inputs: Any) -> tuple[Any, ...]:
    if v is None:
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
                "single element."
            )
        return tuple(map(jg.ones_like, tensors))
    _require_shapes("v", v, inputs)
    return _as_tuple(v, "v")


def _require_shapes(name: str, v: Any, like: Any) -> None:
    first, second = _as_tuple(v, name), _as_tuple(like, name)
    if len(first) != len(second):
        raise RuntimeError(f"{name} is a tuple of invalid length: should be {len(second)} but got {len(first)}.")
    for number, (x, y) in enumerate(zip(first, second, strict=True)):
        if tuple(x.shape) != tuple(y.shape):
            raise RuntimeError(
                f"Entry {number} in {name} has invalid size: should be {tuple(y.shape)} but got {tuple(x.shape)}."
            )
