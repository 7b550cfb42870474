"""Gradients compared with central differences, with PyTorch's names and parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.autograd import grad, no_grad
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.functions.complex_numbers import view_as_complex, view_as_real
from jitgraph.tensor.functions.creation import asarray


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether gradients of ``func(*inputs)`` equal differences over ``2 * eps``, within atol + rtol * abs of these.

    For every input that requires a gradient and every result of floats or complex numbers, whose parts count by
    themselves. JitgraphError that says which element differs, or False without ``raise_exception``; DTypeError for
    inputs of less than float64, whose differences say nothing.
    """
    operands = _inputs(inputs)
    positions = [i for i, x in enumerate(operands) if isinstance(x, Tensor) and x.requires_grad]
    if not positions:
        raise JitgraphError("gradcheck of inputs without requires_grad\n  hint: x.requires_grad_()")
    for i in positions:
        if operands[i].dtype not in (dtypes.float64, dtypes.complex128):
            raise DTypeError(f"gradcheck: input {i} is {operands[i].value.type}", hint="x.astype(jg.float64)")
    parts = [_real(operands[i].detach()).numpy() for i in positions]
    numbers = dict(zip(positions, range(len(positions)), strict=True))

    def run(arrays: Sequence[Any]) -> list[Tensor]:
        args = [_whole(arrays[numbers[i]], x) if i in numbers else x for i, x in enumerate(operands)]
        output = func(*args)
        results = list(output) if isinstance(output, tuple | list) else [output]
        return [_real(y) for y in results if dtypes.is_inexact(y.dtype)]

    variables = [asarray(part, requires_grad=True) for part in parts]
    for number, result in enumerate(run(variables)):
        analytical = _rows(result, variables)
        for k, position in enumerate(positions):
            numerical = _columns(run, parts, k, number, eps)
            wrong = ~np.isclose(analytical[k], numerical, rtol, atol, equal_nan=True)
            if not wrong.any():
                continue
            if not raise_exception:
                return False
            row, column = (int(axis[0]) for axis in np.nonzero(wrong))
            raise JitgraphError(
                f"gradcheck: element {row} of result {number} by element {column} of input {position} is "
                f"{analytical[k][row, column]:.9g} by the gradient, {numerical[row, column]:.9g} by differences"
            )
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """``gradcheck`` of the gradient of ``func``, by its inputs and by ``grad_outputs``, random numbers unless given."""
    operands = _inputs(inputs)
    positions = [i for i, x in enumerate(operands) if isinstance(x, Tensor) and x.requires_grad]
    with no_grad():
        output = func(*operands)
    results = list(output) if isinstance(output, tuple | list) else [output]
    chosen = [i for i, y in enumerate(results) if dtypes.is_inexact(y.dtype)]
    rng = np.random.default_rng(0)
    if grad_outputs is None:
        weights = [_random(rng, results[i]) for i in chosen]
    else:
        weights = [y.detach().requires_grad_() for y in _inputs(grad_outputs)]

    def gradients(*args: Any) -> Any:
        xs, cotangents = args[: len(operands)], args[len(operands) :]
        ys = func(*xs)
        outputs = list(ys) if isinstance(ys, tuple | list) else [ys]
        pairs = [(outputs[i], w) for i, w in zip(chosen, cotangents, strict=True) if outputs[i].requires_grad]
        variables = [xs[i] for i in positions]
        grads = grad([y for y, _ in pairs], variables, [w for _, w in pairs], create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(gradients, (*operands, *weights), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def _inputs(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, tuple | list) else [inputs]


def _random(rng: np.random.Generator, like: Tensor) -> Tensor:
    numbers = rng.normal(size=tuple(like.shape))
    values = numbers + 1j * rng.normal(size=numbers.shape) if dtypes.is_complex(like.dtype) else numbers
    return asarray(values, dtype=like.dtype, requires_grad=True)


def _real(x: Tensor) -> Tensor:
    return view_as_real(x) if dtypes.is_complex(x.dtype) else x


def _whole(x: Any, like: Tensor) -> Any:
    return view_as_complex(x) if dtypes.is_complex(like.dtype) else wrap(x.value)


def _rows(result: Tensor, variables: list[Tensor]) -> list[np.ndarray[Any, Any]]:
    """The Jacobian of a result by each variable, a row for each element of the result, by gradients."""
    size = int(result.size)
    jacobians = [np.zeros((size, int(x.size))) for x in variables]
    if not result.requires_grad:
        return jacobians
    flat = result.reshape(-1)
    for row in range(size):
        gradients = grad(flat[row], variables, retain_graph=True, allow_unused=True)
        for table, gradient in zip(jacobians, gradients, strict=True):
            if gradient is not None:
                table[row] = gradient.numpy().reshape(-1)
    return jacobians


def _columns(
    run: Callable[[Sequence[Any]], list[Tensor]], parts: list[Any], k: int, number: int, eps: float
) -> np.ndarray[Any, Any]:
    """The Jacobian of a result by variable ``k``, a column for each of its elements, by central differences."""
    columns = []
    for j in range(parts[k].size):
        ends = []
        for step in (eps, -eps):
            moved = parts[k].copy()
            moved.reshape(-1)[j] += step
            arrays = [asarray(moved if i == k else part, requires_grad=True) for i, part in enumerate(parts)]
            ends.append(run(arrays)[number].detach().numpy().reshape(-1))
        columns.append((ends[0] - ends[1]) / (2 * eps))
    size = int(run([asarray(part, requires_grad=True) for part in parts])[number].size)
    return np.stack(columns, 1) if columns else np.zeros((size, 0))
