"""Graphs of attention with its gradients, what they should give in float64, and runs of them in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph import ops
from jitgraph.codegen.kernels.kernel import Attend, statements_of
from jitgraph.codegen.kernels.schedule import Launch, Schedule
from jitgraph.dtypes import DType
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from tests.codegen.cuda.launched import SM_90, code_of, run, schedule_of

Array = NDArray[Any]
FREE = SM_90.in_any_order()


@dataclass(frozen=True)
class Problem:
    """Operands of attention: q, k, v, then a mask and the key of dropout where there are any."""

    operands: tuple[Array, ...]
    scale: float
    causal: bool = False
    dropout: float = 0.0

    @property
    def attrs(self) -> dict[str, Any]:
        return {"scale": self.scale, "causal": self.causal, "dropout": self.dropout}


def problem(
    dtype: DType | type,
    lengths: tuple[int, int],
    features: tuple[int, int] = (16, 16),
    batch: tuple[int, ...] = (),
    *,
    large: float = 1.0,
    **more: Any,
) -> Problem:
    """Random operands; ``large`` is how much larger q is."""
    rng = np.random.default_rng(lengths[0] + 100 * lengths[1])
    (rows, keys), (shared, own) = lengths, features
    q = large * rng.standard_normal((*batch, rows, shared))
    k, v = rng.standard_normal((*batch, keys, shared)), rng.standard_normal((*batch, keys, own))
    return Problem(tuple(x.astype(dtype) for x in (q, k, v)), shared**-0.5, **more)


def graph_of(argument: Problem, names: Sequence[tuple[str | int, ...]] | None = None) -> Graph:
    """The result, the logarithms of totals, and the gradients of all operands that have one, for a cotangent.

    ``names`` are shapes of the operands with names of sizes in them.
    """
    builder = GraphBuilder()
    with context.using(emitter=builder, constraints=builder.constraints):
        shapes: Sequence[Any] = names or [x.shape for x in argument.operands]
        inputs = [
            builder.input(TensorType(x.dtype, tuple(Dim.name(n) if isinstance(n, str) else n for n in shape)))
            for x, shape in zip(argument.operands, shapes, strict=True)
        ]
        outputs = ops.attention(*inputs, **argument.attrs)
        ct = builder.input(outputs[0].type)
        assert ops.attention.vjp is not None
        result = ops.attention.vjp((ct, None), outputs, *inputs, **argument.attrs)
        return builder.graph([*outputs, *(x for x in result if x is not None)], "attention")


def cotangent(argument: Problem) -> Array:
    q, _, v = argument.operands[:3]
    rng = np.random.default_rng(7)
    return rng.standard_normal((*q.shape[:-1], v.shape[-1])).astype(q.dtype)


def is_whole(schedule: Schedule) -> bool:
    """Whether a kernel of a schedule has the scores in no memory."""
    kernels = [step.kernel for step in schedule.steps if isinstance(step, Launch)]
    return any(isinstance(s, Attend) for kernel in kernels for s in statements_of(kernel.body))


def simulated(argument: Problem, seed: int | None = None, *, races: bool = False) -> list[Array]:
    """What the kernels give that hold no scores."""
    schedule = schedule_of(graph_of(argument), FREE)
    assert is_whole(schedule)
    return run(schedule, code_of(schedule, FREE), [*argument.operands, cotangent(argument)], seed, races=races)


def ptx_of(argument: Problem, target: Target) -> str:
    return code_of(schedule_of(graph_of(argument), target), target).texts["ptx"]


def in_float64(argument: Problem) -> list[Array]:
    """Result, logarithms of totals, and gradients of q, k and v, by their formulas; rows that see nothing are 0."""
    q, k, v = (x.astype(np.float64) for x in argument.operands[:3])
    scores = q @ np.swapaxes(k, -1, -2) * argument.scale
    hidden = np.zeros(scores.shape, bool)
    for mask in argument.operands[3:4]:
        if mask.dtype == bool:
            hidden |= ~mask
        else:
            scores = scores + mask.astype(np.float64)
    if argument.causal:
        hidden |= np.arange(scores.shape[-1]) > np.arange(scores.shape[-2])[:, None]
    scores = np.where(hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(top == -np.inf, 0.0, top))
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0.0, 1.0, total)
    with np.errstate(divide="ignore"):
        spread = np.where(total == 0.0, np.inf, top + np.log(total))[..., 0]
    ct = cotangent(argument).astype(np.float64)
    of_weights = ct @ np.swapaxes(v, -1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True)) * argument.scale
    turned = np.swapaxes(of_scores, -1, -2)
    return [weights @ v, spread, of_scores @ k, turned @ q, np.swapaxes(weights, -1, -2) @ ct]
