"""Elementwise composites on floats: powers and the activations of neural networks; float32 inside for 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.dtypes import DType
from jitgraph.ir.op import Op, Sample, Trait
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import abs, add, bitwise_and, div, eq, gt, le, maximum, minimum, mul, neg, select, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.sampling import Domain, elementwise_samples
from jitgraph.ops.transcendental import exp, expm1, gaussian, log, log1p, ndtr

_SMOOTH: Domain = (-2.0, 2.0)


def _activation(
    name: str,
    body: Callable[..., Any],
    *,
    vjp: Callable[..., tuple[Any, ...]] | None = None,
    attrs: Sequence[dict[str, Any]] = ({},),
    accepts: frozenset[DType] = rules.FLOATS,
    domain: Domain = _SMOOTH,
    onnx: str | None = None,
    traits: tuple[Trait, ...] = (),
    doc: str,
) -> Op:
    def samples(dtype: DType) -> Sequence[Sample]:
        plain = elementwise_samples(name, 1, accepts, domain=domain)(dtype)
        return [Sample(sample.inputs, each, differentiable=sample.differentiable) for each in attrs for sample in plain]

    return composite(
        name, body, vjp=vjp, samples=samples, onnx=onnx, in_float32=True, traits=["pointwise", *traits], doc=doc
    )


def _one(x: Any) -> Any:
    return full_like(1, x)


def _scaled(x: Any, factor: float) -> Any:
    return mul(x, full_like(factor, x))


square: Op = _activation("square", lambda x: mul(x, x), accepts=rules.NUMBERS, traits=("autocast_wide",), doc="x * x.")
reciprocal: Op = _activation(
    "reciprocal",
    lambda x: div(_one(x), x),
    domain=(0.4, 3.0),
    onnx="Reciprocal",
    traits=("autocast_wide",),
    doc="1 / x.",
)
log2: Op = _activation(
    "log2",
    lambda x: _scaled(log(x), 1 / math.log(2)),
    domain=(0.3, 3.0),
    traits=("autocast_wide",),
    doc="log(x) / log(2).",
)
log10: Op = _activation(
    "log10",
    lambda x: _scaled(log(x), 1 / math.log(10)),
    domain=(0.3, 3.0),
    traits=("autocast_wide",),
    doc="log(x) / log(10).",
)
relu: Op = _activation(
    "relu",
    lambda x: maximum(x, zeros_like(x)),
    vjp=lambda ct, out, x: (select(le(out, zeros_like(out)), zeros_like(ct), ct),),
    accepts=rules.NUMBERS,
    onnx="Relu",
    traits=("kinked",),
    doc="max(x, 0); the gradient at 0 is 0.",
)
sigmoid: Op = _activation(
    "sigmoid",
    lambda x: div(_one(x), add(_one(x), exp(neg(x)))),  # where exp overflows the quotient is the right 0
    vjp=lambda ct, out, x: (mul(ct, mul(out, sub(_one(out), out))),),
    onnx="Sigmoid",
    doc="1 / (1 + exp(-x)).",
)
softplus: Op = _activation(
    "softplus",
    lambda x: add(maximum(x, zeros_like(x)), log1p(exp(neg(abs(x))))),
    vjp=lambda ct, out, x: (mul(ct, sigmoid(x)),),
    onnx="Softplus",
    traits=("autocast_wide",),
    doc="log(1 + exp(x)), without overflow.",
)
log_sigmoid: Op = _activation(
    "log_sigmoid",
    lambda x: neg(softplus(neg(x))),
    vjp=lambda ct, out, x: (mul(ct, sigmoid(neg(x))),),
    doc="log(sigmoid(x)), without overflow.",
)


def _gap(x: Any, y: Any) -> Any:
    """x - y, and 0 for two equal infinities."""
    infinite = bitwise_and(eq(x, y), eq(abs(x), full_like(math.inf, x)))
    return select(infinite, zeros_like(x), sub(x, y))


def _logaddexp_vjp(ct: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    gap = _gap(x, y)
    return mul(ct, sigmoid(gap)), mul(ct, sigmoid(neg(gap)))


logaddexp: Op = composite(
    "logaddexp",
    lambda x, y: add(maximum(x, y), log1p(exp(neg(abs(_gap(x, y)))))),
    vjp=_logaddexp_vjp,
    samples=elementwise_samples("logaddexp", 2, rules.FLOATS, domain=_SMOOTH),
    in_float32=True,
    traits=["pointwise"],
    doc="log(exp(x) + exp(y)), without overflow and to full precision where one of them is small.",
)
silu: Op = _activation("silu", lambda x: mul(x, sigmoid(x)), onnx="Swish", doc="x * sigmoid(x).")


def _gelu(x: Any, *, approximate: str) -> Any:
    if approximate != "tanh":
        return mul(x, ndtr(x))
    inner = add(x, _scaled(mul(x, mul(x, x)), 0.044715))
    return mul(x, sigmoid(_scaled(inner, 2 * math.sqrt(2 / math.pi))))  # that is (1 + tanh(inner / 2)) / 2


def _gelu_vjp(ct: Any, out: Any, x: Any, *, approximate: str) -> tuple[Any]:
    if approximate != "tanh":
        slope = _scaled(gaussian(x), 1 / math.sqrt(2 * math.pi))
        return (mul(ct, add(ndtr(x), mul(x, slope))),)
    factor = 2 * math.sqrt(2 / math.pi)
    square = mul(x, x)
    gate = sigmoid(_scaled(add(x, _scaled(mul(x, square), 0.044715)), factor))
    inner = add(full_like(factor, x), _scaled(square, 3 * 0.044715 * factor))
    rest = mul(gate, sub(_one(x), gate))
    bend = select(eq(rest, zeros_like(rest)), zeros_like(x), mul(mul(x, inner), rest))  # not 0 times infinity
    return (mul(ct, add(gate, bend)),)


gelu: Op = _activation(
    "gelu",
    _gelu,
    vjp=_gelu_vjp,
    attrs=({"approximate": "none"}, {"approximate": "tanh"}),
    onnx="Gelu",
    doc="x * Phi(x), Phi the normal distribution function; approximate='tanh' as in Hendrycks and Gimpel, "
    "'Gaussian error linear units', 2016.",
)
leaky_relu: Op = _activation(
    "leaky_relu",
    lambda x, *, negative_slope: select(gt(x, zeros_like(x)), x, _scaled(x, negative_slope)),
    attrs=({"negative_slope": 0.01},),
    onnx="LeakyRelu",
    traits=("kinked",),
    doc="x where it is positive, else negative_slope * x.",
)
elu: Op = _activation(
    "elu",
    lambda x, *, alpha: select(gt(x, zeros_like(x)), x, _scaled(expm1(minimum(x, zeros_like(x))), alpha)),
    vjp=lambda ct, out, x, *, alpha: (
        select(gt(x, zeros_like(x)), ct, mul(ct, add(out, full_like(alpha, out)))),  # alpha * exp(x) is out + alpha
    ),
    attrs=({"alpha": 1.0}, {"alpha": 0.5}),
    onnx="Elu",
    doc="x where it is positive, else alpha * (exp(x) - 1).",
)
