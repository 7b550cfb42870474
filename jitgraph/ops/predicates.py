"""Composites that ask or decide: classes of floats, logic on any dtype, clamp."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import abs, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, eq, gt, lt, ne, select
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like
from jitgraph.ops.sampling import elementwise_samples

_QUESTION: Final[tuple[Trait, ...]] = ("nondifferentiable", "pointwise")


def _question(name: str, body: Callable[..., Any], *, onnx: str | None = None, doc: str) -> Op:
    samples = elementwise_samples(name, 1, rules.FLOATS)
    return composite(name, body, samples=samples, onnx=onnx, traits=_QUESTION, doc=doc)


isnan: Op = _question("isnan", lambda x: ne(x, x), onnx="IsNaN", doc="Whether a float is NaN.")
isinf: Op = _question(
    "isinf", lambda x: eq(abs(x), full_like(np.inf, x)), onnx="IsInf", doc="Whether a float is inf or -inf."
)
isfinite: Op = _question(
    "isfinite", lambda x: lt(abs(x), full_like(np.inf, x)), doc="Whether a float is neither NaN nor infinite."
)


def truth(x: Any) -> Any:
    """Whether each element is not zero (NaN is not), as bool."""
    return x if dtypes.is_bool(x.dtype) else cast(x, dtype=dtypes.bool_)


def _logical(name: str, combine: Op, arity: int, onnx: str) -> Op:
    return composite(
        name,
        lambda *operands: combine(*map(truth, operands)),
        samples=elementwise_samples(name, arity),
        onnx=onnx,
        traits=_QUESTION,
        doc="On the truth of elements: whether they are not zero.",
    )


logical_not: Op = _logical("logical_not", bitwise_not, 1, "Not")
logical_and: Op = _logical("logical_and", bitwise_and, 2, "And")
logical_or: Op = _logical("logical_or", bitwise_or, 2, "Or")
logical_xor: Op = _logical("logical_xor", bitwise_xor, 2, "Xor")


def _clamp(x: Any, *, low: float | int | None, high: float | int | None) -> Any:
    if any(bound is not None and bound != bound for bound in (low, high)):
        return full_like(math.nan, x)
    if low is not None:  # not by maximum, which would share the gradient at the bound
        bound = full_like(low, x)
        x = select(lt(x, bound), bound, x)
    if high is not None:
        bound = full_like(high, x)
        x = select(gt(x, bound), bound, x)
    return x


def _clamp_samples(dtype: DType) -> Sequence[Sample]:
    bounds: list[tuple[Any, Any]] = [(1, 3), (None, 2), (1, None)]
    return [
        Sample(sample.inputs, {"low": low, "high": high}, differentiable=sample.differentiable)
        for low, high in bounds
        for sample in elementwise_samples("clamp", 1, rules.NUMBERS, domain=(0.55, 3.45))(dtype)
    ]


clamp: Op = composite(
    "clamp",
    _clamp,
    samples=_clamp_samples,
    onnx="Clip",
    traits=["pointwise"],
    doc="x, but at least low and at most high where they are not None; NaN where x or a bound is.",
)
