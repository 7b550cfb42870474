"""How ops are written down: constructors for the families.

Conventions that code generation relies on:

* A ``scalar`` body speaks of values, not of storage: 16-bit float operands are widened to float32 before it, it runs
  with ``s.dtype`` float32, and its result is rounded once to the output's dtype. So an op rounds once however many
  scalar ops its body has. Only ops with the trait "storage" (cast, bitcast) get their operands as they are stored.
* A 16-bit float reduction or contraction accumulates in float32 and rounds at the end.
* Attributes reach ``infer``, ``evaluate``, ``vjp``, ``scalar``, ``index_map`` and ``decompose`` as keywords.
* What an op is to fusion, lowering, cost and differentiation is said by its columns and traits (``ir/op.py``). Nothing
  above this layer compares the names of ops, so an op that another's lowering serves is written in one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import DType
from jitgraph.ir.op import Op, Reduction, Trait
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops.creation import zeros_like
from jitgraph.ops.numeric import Array, joined, rounded, silent, widen
from jitgraph.ops.rules import require_axes, require_tensor, require_tensors, same_shape, without_axes
from jitgraph.ops.sampling import Domain, elementwise_samples, reduce_samples

_NO_GRADIENT: Final[tuple[Trait, ...]] = ("nondifferentiable",)


def elementwise(
    name: str,
    evaluate: Callable[..., Any],
    *,
    scalar: Callable[..., Any],
    accepts: frozenset[DType],
    arity: int = 1,
    result: DType | None = None,
    vjp: Callable[..., tuple[Any, ...]] | None = None,
    traits: Iterable[Trait] = (),
    onnx: str | None = None,
    domain: Domain = (-2.0, 2.0),
    doc: str = "",
) -> Op:
    """An op on ``arity`` operands of one shape and one dtype among ``accepts``, element by element.

    The output has the operands' dtype, or ``result``. ``evaluate`` runs without warnings; ``domain`` is where the op is
    smooth, for samples that are differentiated. Without ``vjp`` it is nondifferentiable.
    """

    def infer(*types: Type) -> TensorType:
        require_tensors(name, types, accepts, arity)
        first: Any = types[0]
        return TensorType(result or first.dtype, same_shape(name, types))  # type: ignore[arg-type]

    return Op(
        name=name,
        kind="elementwise",
        infer=infer,
        evaluate=rounded(evaluate) if result is None else silent(evaluate),
        ufunc=evaluate if isinstance(evaluate, np.ufunc) else None,
        vjp=vjp,
        scalar=scalar,
        traits=frozenset((*traits, *(() if vjp else _NO_GRADIENT))),
        onnx=onnx,
        samples=elementwise_samples(name, arity, accepts, domain=domain),
        doc=doc,
    )


def flat(ct: Any, out: Any, *operands: Any) -> tuple[Any, ...]:
    """The gradient rule of steps: zeros, as in PyTorch, so that what leads to one counts as differentiable."""
    return (zeros_like(ct),) * len(operands)


def reduce_over(
    name: str,
    evaluate: Callable[[Array, tuple[int, ...]], Array],
    reduction: Reduction,
    *,
    accepts: frozenset[DType],
    vjp: Callable[..., tuple[Any, ...]],
    traits: Iterable[Trait] = (),
    onnx: str,
    doc: str,
) -> Op:
    """A reduction over ``axes``, which are dropped, of operands with a dtype among ``accepts``.

    ``evaluate(x, axes)`` gets 16-bit floats widened and at least one axis; what it gives is rounded to x's dtype.
    """

    def infer(x: Type, *, axes: tuple[int, ...]) -> TensorType:
        require_tensors(name, (x,), accepts, 1)
        type = require_tensor(name, x)
        return TensorType(type.dtype, without_axes(type.shape, require_axes(name, axes, type.ndim)))

    def run(x: Array, *, axes: tuple[int, ...]) -> Array:
        if not axes:
            return x
        with np.errstate(all="ignore"):
            if x.dtype.kind == "c":
                return joined(run(x.real, axes=axes), run(x.imag, axes=axes))
            return np.asarray(evaluate(widen(x), axes)).astype(x.dtype, copy=False)

    return Op(
        name=name,
        kind="reduce",
        infer=infer,
        evaluate=run,
        vjp=vjp,
        reduction=reduction,
        traits=frozenset(traits),
        onnx=onnx,
        samples=reduce_samples(name, accepts),
        doc=doc,
    )
