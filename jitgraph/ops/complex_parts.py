"""Complex numbers from their parts, and back: all that graphs do with a complex number, but move it.

A complex number has two parts of one float dtype; arrays have them side by side, as NumPy's have. An op with the trait
"planewise", and every movement op, does to both parts what it does to a real number. All other arithmetic is composites
over parts (``complex_functions.py``, ``complex_functions.py``), and before code is made a pass puts two real values in
the place of each complex one (``passes/decompose_complex.py``): no kernel knows complex numbers.

Gradients have PyTorch's convention. That of a real loss L by z = x + i y is dL/dx + i dL/dy, the conjugate Wirtinger
derivative times 2, so that z - rate * gradient goes down; it is the gradient by both parts, and rules are written so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import full
from jitgraph.ops.numeric import Array, joined
from jitgraph.ops.sampling import Samples, elementwise_samples

_OF_PARTS = frozenset({dtypes.float32, dtypes.float64})


def _complex_type(real: Type, imag: Type) -> TensorType:
    rules.require_tensors("complex", (real, imag), _OF_PARTS, 2)
    tensors = [rules.require_tensor("complex", type) for type in (real, imag)]
    return TensorType(dtypes.complex_of(tensors[0].dtype), rules.same_shape("complex", tensors))


def _part_type(name: str) -> Any:
    def infer(z: Type) -> TensorType:
        type = rules.require_tensor(name, z)
        rules.require_dtype(name, type, rules.COMPLEX)
        return TensorType(dtypes.part_of(type.dtype), type.shape)

    return infer


_pairs = elementwise_samples("complex", 2, _OF_PARTS)


def of_complex(name: str, arity: int, accepts: frozenset[DType] = _OF_PARTS) -> Samples:
    """Samples of an elementwise op on complex numbers, whose parts are those of real samples in turn."""
    parts = elementwise_samples(name, 2 * arity, accepts)

    def samples(dtype: DType) -> Sequence[Sample]:
        cases = parts(dtype)
        cases = cases if arity == 1 else cases[1:]
        return [
            Sample(
                tuple(joined(*map(np.asarray, sample.inputs[2 * i : 2 * i + 2])) for i in range(arity)),
                differentiable=False,
            )
            for sample in cases[:3]
        ]

    return samples


complex_: Op = Op(
    name="complex",
    kind="other",
    batch="alike",
    infer=_complex_type,
    evaluate=lambda real, imag: joined(real, imag),
    vjp=lambda ct, out, x, y: (real(ct), imag(ct)),
    parts=lambda real, imag: (real, imag),
    samples=lambda dtype: [replace(sample, differentiable=False) for sample in _pairs(dtype)],
    doc="The complex number with these real and imaginary parts.",
)


def _part(x: Array) -> Array:
    return np.array(x, order="C")  # of its own, without the gaps between the parts


real: Op = Op(
    name="real",
    kind="other",
    batch="alike",
    infer=_part_type("real"),
    evaluate=lambda z: _part(z.real),
    vjp=lambda ct, out, z: (complex_(ct, zeros_of(ct)),),
    parts=lambda z: z[0],
    samples=of_complex("real", 1),
    doc="The real part.",
)
imag: Op = Op(
    name="imag",
    kind="other",
    batch="alike",
    infer=_part_type("imag"),
    evaluate=lambda z: _part(z.imag),
    vjp=lambda ct, out, z: (complex_(zeros_of(ct), ct),),
    parts=lambda z: z[1],
    samples=of_complex("imag", 1),
    doc="The imaginary part.",
)


def _pairs_type(z: Type) -> TensorType:
    type = rules.require_tensor("as_pairs", z)
    rules.require_dtype("as_pairs", type, rules.COMPLEX)
    return TensorType(dtypes.part_of(type.dtype), (*type.shape, 2))


def _of_pairs_type(x: Type) -> TensorType:
    type = rules.require_tensor("of_pairs", x)
    rules.require_dtype("of_pairs", type, _OF_PARTS)
    if not type.shape or type.shape[-1] != 2:
        raise ShapeError(f"of_pairs takes a last axis of 2 elements, not {type}")
    return TensorType(dtypes.complex_of(type.dtype), type.shape[:-1])


def _pair_samples(dtype: DType) -> Sequence[Sample]:
    cases = _pairs(dtype)[1:3]
    stacked = [np.stack([np.asarray(x) for x in sample.inputs], axis=-1) for sample in cases]
    return [Sample((x,)) for x in stacked]


as_pairs: Op = Op(
    name="as_pairs",
    kind="other",
    batch="leading",
    infer=_pairs_type,
    evaluate=lambda z: np.stack([z.real, z.imag], axis=-1),
    vjp=lambda ct, out, z: (of_pairs(ct),),
    samples=lambda dtype: [
        Sample((joined(x[..., 0], x[..., 1]),)) for sample in _pair_samples(dtype) for x in sample.inputs
    ],
    doc="Complex numbers as their parts along a new last axis, where memory has them.",
)
of_pairs: Op = Op(
    name="of_pairs",
    kind="other",
    batch="leading",
    infer=_of_pairs_type,
    evaluate=lambda x: joined(x[..., 0], x[..., 1]),
    vjp=lambda ct, out, x: (as_pairs(ct),),
    samples=_pair_samples,
    doc="The complex numbers whose parts stand along the last axis.",
)


def zeros_of(x: Any) -> Any:
    """Zeros like the float x."""
    return full(shape=x.shape, value=0.0, dtype=x.dtype)


def parts(z: Any) -> tuple[Any, Any]:
    """The real and the imaginary part."""
    return real(z), imag(z)
