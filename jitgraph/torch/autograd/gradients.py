"""``backward`` and ``grad`` with PyTorch's signatures, and gradients compared with differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgraph as jg
from jitgraph import autograd
from jitgraph.tensor.gradients import accumulated, notify
from jitgraph.torch.adapters import of_users, torch_function


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, jg.Tensor) else list(tensors)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of the sum of ``tensors``, weighted by ``grad_tensors``, into ``.grad`` of the leaves.

    ``inputs`` are the tensors whose ``.grad`` is written, all leaves by default. RuntimeError for tensors that depend
    on nothing with ``requires_grad``, and where a tensor of several elements has no gradient of its own.
    """
    roots = _listed(tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    weights = [None] * len(roots) if given is None else _listed(given)
    if len(weights) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(weights)} gradients")
    for number, root in enumerate(roots):
        if not root.requires_grad:
            raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        if weights[number] is None and root.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
    retains = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        _accumulate(roots, weights, _listed(inputs), retains, create_graph)
    elif len(roots) == 1:
        jg.Tensor.backward(roots[0], weights[0], retain_graph=retains, create_graph=create_graph)
    else:
        jg.Tensor.backward(_sum(roots, weights), None, retain_graph=retains, create_graph=create_graph)


def _sum(roots: Sequence[Any], weights: Sequence[Any]) -> Any:
    """One number with the gradient of all roots: a sweep walks once over what they share."""
    with jg.enable_grad():
        parts = [jg.sum(root if w is None else root * w) for root, w in zip(roots, weights, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
    return total


def _accumulate(roots: Any, weights: Any, inputs: Any, retains: bool, create_graph: bool) -> None:
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    found = autograd.grad(roots, inputs, weights, retain_graph=retains, create_graph=create_graph, allow_unused=True)
    for leaf, value in zip(inputs, found, strict=True):
        if value is not None:
            with jg.set_grad_enabled(create_graph):
                leaf.grad = value if leaf.grad is None else accumulated(leaf.grad, value)
                notify(leaf)


@torch_function
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of the sum of ``outputs``, weighted by ``grad_outputs``, by ``inputs``, as a tuple.

    ``only_inputs`` changes nothing, as in PyTorch. An input on which nothing depends is a RuntimeError, None under
    ``allow_unused``, zeros under ``materialize_grads``. With ``is_grads_batched`` the weights have one more axis in
    front, and so have the gradients.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    roots, leaves = _listed(outputs), _listed(inputs)
    weights: list[Any] = [None] * len(roots) if grad_outputs is None else _listed(grad_outputs)
    for number, (root, weight) in enumerate(zip(roots, weights, strict=False)):
        if not root.requires_grad:
            raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        if weight is None and root.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
    unused = bool(allow_unused) or materialize_grads
    if is_grads_batched:
        rows = [
            autograd.grad(roots, leaves, row, retain_graph=True, create_graph=create_graph, allow_unused=unused)
            for row in zip(*(jg.unstack(weight) for weight in weights), strict=True)
        ]
        found = tuple(None if column[0] is None else jg.stack(column) for column in zip(*rows, strict=True))
    else:
        found = autograd.grad(
            roots, leaves, weights, retain_graph=retain_graph, create_graph=create_graph, allow_unused=unused
        )
    if not materialize_grads:
        return found
    return tuple(jg.zeros_like(x) if value is None else value for value, x in zip(found, leaves, strict=True))


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether gradients of ``func(*inputs)`` equal central differences; RuntimeError, or False, where they do not.

    All elements are compared, in reverse mode, whatever ``fast_mode`` and the ``check_`` flags say.
    """
    return autograd.gradcheck(of_users(func), inputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """``gradcheck`` of the gradient of ``func``, by its inputs and by ``grad_outputs``."""
    return autograd.gradgradcheck(
        of_users(func), inputs, grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )
