"""Runs a case in jitgraph and in PyTorch: forward eager, forward traced, gradient, second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jitgraph as jg
from tests.coverage.case import Case

COLUMNS = ("eager", "traced", "gradient", "second order")
SKIPPED = "-"


def _flat(actual: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(actual, tuple | list):
        return [tensor for part in actual for tensor in _flat(part)]
    return [actual]


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    if hasattr(tensor, "resolve_conj"):  # PyTorch's
        return np.asarray(tensor.numpy(force=True))
    return np.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)


def _difference(actual: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> str | None:
    if len(actual) != len(wanted):
        return f"{len(actual)} results for {len(wanted)}"
    for ours, theirs in zip(map(_array, actual), map(_array, wanted), strict=True):
        if ours.shape != theirs.shape:
            return f"shape {ours.shape} for {theirs.shape}"
        if ours.dtype.kind != theirs.dtype.kind:
            return f"dtype {ours.dtype} for {theirs.dtype}"
        scale = float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))) if theirs.size else 0.0
        close = np.isclose(ours, theirs, rtol=tolerance, atol=tolerance * max(scale, 1e-6), equal_nan=True)
        if not close.all():
            location = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"{ours[location]!r} for {theirs[location]!r} at {location}"
    return None


def _weights(like: Any, number: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(number).normal(size=tuple(like.shape))


def _floats(results: Sequence[Any]) -> list[Any]:
    return [tensor for tensor in results if _array(tensor).dtype.kind == "f"]


def differences(case: Case, torch: Any) -> dict[str, str | None]:
    """For each column None where all is the same, the difference, or ``SKIPPED``."""
    positions = [i for i, operand in enumerate(case.operands) if operand.dtype == np.float64]
    theirs = [torch.tensor(operand, requires_grad=i in positions) for i, operand in enumerate(case.operands)]
    wanted = _flat(case.theirs(torch, *theirs))
    report: dict[str, str | None] = dict.fromkeys(COLUMNS, SKIPPED)
    operands = [jg.asarray(operand) for operand in case.operands]
    report["eager"] = _tried(lambda: _difference(_flat(case.ours(jg, *operands)), wanted, case.tolerance))
    if case.traced:
        traced = jg.trace(lambda *xs: tuple(_flat(case.ours(jg, *xs))))
        report["traced"] = _tried(lambda: _difference(list(traced(*operands)), wanted, case.tolerance))
    chosen = [i for i, tensor in enumerate(wanted) if tensor.requires_grad]
    if not (case.gradient and positions and chosen):
        return report
    weights = [_weights(wanted[i], i) for i in chosen]
    total = sum((wanted[i] * torch.tensor(w)).sum() for i, w in zip(chosen, weights, strict=True))
    inputs = [theirs[i] for i in positions]
    try:
        first = torch.autograd.grad(total, inputs, create_graph=case.second, allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        if "not implemented" in str(error):  # by PyTorch, so there is nothing to compare
            return report
        raise
    first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, inputs, strict=True)]

    def weighted(*xs: Any) -> Any:
        result = _flat(case.ours(jg, *xs))
        return sum((result[i] * w).sum() for i, w in zip(chosen, weights, strict=True))

    gradient = jg.grad(weighted, argnums=tuple(positions))
    loose = case.tolerance * 10
    report["gradient"] = _tried(lambda: _difference(list(gradient(*operands)), first, loose)) if case.gradient else None
    if report["gradient"] is None and case.traced:
        report["gradient"] = _tried(lambda: _difference(list(jg.trace(gradient)(*operands)), first, loose))
    if not case.second:
        return report
    directions = [_weights(x, 100 + i) for i, x in enumerate(inputs)]
    slope = sum((g * torch.tensor(v)).sum() for g, v in zip(first, directions, strict=True))
    if slope.requires_grad:
        second = torch.autograd.grad(slope, inputs, allow_unused=True)
        second = [torch.zeros_like(x) if g is None else g for g, x in zip(second, inputs, strict=True)]
    else:
        second = [torch.zeros_like(x) for x in inputs]

    def along(*xs: Any) -> Any:
        return sum((g * v).sum() for g, v in zip(gradient(*xs), directions, strict=True))

    curvature = jg.grad(along, argnums=tuple(positions))
    run = jg.trace(curvature) if case.traced else curvature
    report["second order"] = _tried(lambda: _difference(list(run(*operands)), second, loose * 10))
    return report


def _tried(run: Callable[[], str | None]) -> str | None:
    """The difference, or the error that stood in the way."""
    try:
        return run()
    except Exception as error:  # every failure of a case is a line of the table
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
