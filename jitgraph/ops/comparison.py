"""Comparisons, which give bool, and select."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import DType, bool_
from jitgraph.errors import DTypeError
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ir.scalar import Comparison
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import zeros_like
from jitgraph.ops.define import elementwise
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import elementwise_samples, generator, values


def _compare(name: Comparison, evaluate: Callable[..., Any], onnx: str | None, traits: Sequence[Trait] = ()) -> Op:
    return elementwise(
        name,
        evaluate,
        arity=2,
        accepts=rules.ALL,
        result=bool_,
        scalar=lambda s, x, y: s.cmp(name, x, y),
        traits=traits,
        onnx=onnx,
        doc="Elementwise comparison; with NaN ne is true and the others are false.",
    )


eq: Op = _compare("eq", np.equal, "Equal", ["commutative"])
ne: Op = _compare("ne", np.not_equal, None, ["commutative"])
lt: Op = _compare("lt", np.less, "Less")
le: Op = _compare("le", np.less_equal, "LessOrEqual")
gt: Op = _compare("gt", np.greater, "Greater")
ge: Op = _compare("ge", np.greater_equal, "GreaterOrEqual")


SWAPPED: Final[Mapping[Op, Op]] = {eq: eq, ne: ne, lt: gt, le: ge, gt: lt, ge: le}
"""The comparison that says of two operands what another says of them in the other order."""


def _select_type(condition: Type, x: Type, y: Type) -> TensorType:
    rules.require_tensors("select", (x, y), rules.EVERY, 2)
    types = [rules.require_tensor("select", type) for type in (condition, x, y)]
    if types[0].dtype != bool_:
        raise DTypeError(f"select takes a bool condition, not {condition}")
    return TensorType(types[1].dtype, rules.same_shape("select", types))


def _select_samples(dtype: DType) -> Sequence[Sample]:
    rng = generator("select", dtype)
    return [
        Sample((values(rng, bool_, s.inputs[0].shape), *s.inputs), differentiable=s.differentiable)
        for s in elementwise_samples("select", 2)(dtype)
    ]


def _select(condition: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(condition, x, y), x.dtype)


select: Op = Op(
    name="select",
    kind="elementwise",
    infer=_select_type,
    evaluate=_select,
    vjp=lambda ct, out, c, x, y: (None, select(c, ct, zeros_like(ct)), select(c, zeros_like(ct), ct)),
    scalar=lambda s, c, x, y: s.select(c, x, y),
    traits=frozenset({"no_arithmetic", "planewise", "chooses"}),
    onnx="Where",
    samples=_select_samples,
    doc="x where the condition is true, else y.",
)
