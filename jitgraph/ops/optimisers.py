"""Steps of optimisers as ops: a dozen operations on each parameter, which run as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.dtypes import float32, float64
from jitgraph.ir.op import Op, Sample
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, div, mul, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like
from jitgraph.ops.movement import broadcast
from jitgraph.ops.sampling import samples_for
from jitgraph.ops.transcendental import pow, sqrt


def _adam_step(
    x: Any, grad: Any, first: Any, second: Any, count: Any, lr: Any, beta1: Any, beta2: Any, eps: Any
) -> tuple[Any, ...]:
    def each(number: Any) -> Any:
        scalar = number if number.dtype == x.dtype else cast(number, dtype=x.dtype)
        return broadcast(scalar, shape=x.shape, axes=()) if x.shape else scalar

    def rest(number: Any) -> Any:
        return sub(full_like(1.0, number), number)

    count = add(count, full_like(1.0, count))
    first = add(mul(first, each(beta1)), mul(each(rest(beta1)), grad))
    second = add(mul(second, each(beta2)), mul(each(rest(beta2)), mul(grad, grad)))
    steps = count if count.dtype == float64 else cast(count, dtype=float64)  # 1 - beta ** count cancels in float32
    bias1, bias2 = rest(pow(beta1, steps)), rest(pow(beta2, steps))
    spread = add(div(sqrt(second), each(sqrt(bias2))), each(eps))
    return sub(x, mul(each(div(lr, bias1)), div(first, spread))), first, second, count


def _settings() -> tuple[Any, ...]:
    return tuple(np.array(number, np.float64) for number in (1e-3, 0.9, 0.999, 1e-8))


adam_step: Op = composite(
    "adam_step",
    _adam_step,
    samples=samples_for(
        "adam_step",
        rules.FLOATS,
        lambda array: [
            Sample(
                (
                    *(array(*shape) for _ in range(3)),
                    array(*shape, domain=(0.1, 2.0)),
                    np.array(steps, float64 if array().dtype == float64 else float32),
                    *_settings(),
                )
            )
            for shape, steps in [((2, 3), 0), ((), 4), ((0, 2), 0), ((37,), 100)]
        ],
    ),
    traits=["nondifferentiable"],
    doc="(x, first, second, count) after one step of Adam (Kingma and Ba 2015) by the gradient: bias-corrected moments "
    "of x's dtype, the 0-d count of steps, and float64 numbers lr, beta1, beta2 and eps.",
)
