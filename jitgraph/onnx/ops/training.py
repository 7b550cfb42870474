"""Updates of optimisers, of the domain for training."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import UnsupportedOp
from jitgraph.onnx.registry import TRAINING, define
from jitgraph.tensor import functions as fn


def _grouped(operands: Any, kinds: int) -> list[tuple[Any, ...]]:
    """Operands of several tensors, each kind for all of them, as those of each tensor."""
    if len(operands) % kinds:
        raise UnsupportedOp(f"{len(operands)} operands for {kinds} of each tensor")
    count = len(operands) // kinds
    return [tuple(operands[i + k * count] for k in range(kinds)) for i in range(count)]


def _joined(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(value for column in zip(*results, strict=True) for value in column)


@define("Adagrad", domain=TRAINING)
def adagrad(
    rate: Any,
    step: Any,
    *operands: Any,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:
    own = rate / (1 + fn.astype(step, rate.dtype) * decay_factor)
    results = []
    for x, gradient, squares in _grouped(operands, 3):
        g = norm_coefficient * x + gradient
        total = squares + g * g
        results.append((x - own * g / (fn.sqrt(total) + epsilon), total))
    return _joined(results)


@define("Adam", domain=TRAINING)
def adam(
    rate: Any,
    step: Any,
    *operands: Any,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    t = fn.astype(step, rate.dtype)
    corrected = rate * fn.sqrt(1 - fn.pow(beta, t)) / (1 - fn.pow(alpha, t))
    own = fn.where(step > 0, corrected, rate)
    results = []
    for x, gradient, first, second in _grouped(operands, 4):
        g = norm_coefficient * x + gradient
        mean = alpha * first + (1 - alpha) * g
        square = beta * second + (1 - beta) * (g * g)
        fresh = x - own * mean / (fn.sqrt(square) + epsilon)
        results.append(((1 - norm_coefficient_post) * fresh, mean, square))
    return _joined(results)


@define("Momentum", domain=TRAINING)
def momentum(
    rate: Any, step: Any, *operands: Any, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    factor = fn.where(step > 0, fn.asarray(beta, dtype=rate.dtype), fn.asarray(1.0, dtype=rate.dtype))
    results = []
    for x, gradient, velocity in _grouped(operands, 3):
        g = norm_coefficient * x + gradient
        own = alpha * velocity + factor * g
        results.append((x - rate * (own if mode == "standard" else g + alpha * own), own))
    return _joined(results)
