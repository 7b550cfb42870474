"""The bilinear form."""

from __future__ import annotations

from jitgraph.errors import ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.arguments import fits, floats, same_shape
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor.einsum import einsum
from jitgraph.tensor.lifting import TensorLike


def bilinear(input1: TensorLike, input2: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """input1 @ weight[k] @ input2 + bias[k] for each output k: x1[..., I], x2[..., J], weight[O, I, J] to [..., O].

    ShapeError where sizes do not fit; the leading axes of both inputs are the same.
    """
    operands = floats(input1, input2, weight, bias, optional=1)
    x1, x2, w = (wrap(x) for x in operands[:3])
    b = None if operands[3] is None else wrap(operands[3])
    s1, s2, sw = (x.value.type.shape for x in (x1, x2, w))
    if len(sw) != 3 or not s1 or not s2 or not same_shape((*s1, s2[-1]), (*s2[:-1], *sw[1:])):
        raise ShapeError(
            f"bilinear takes x1[..., I], x2[..., J] and weight[O, I, J], "
            f"not {x1.value.type}, {x2.value.type} and {w.value.type}"
        )
    if b is not None and (not fits(b, sw[:1])):
        raise ShapeError(f"bilinear takes bias[{sw[0]}], not {b.value.type}")
    with context.using(autocast=None):  # it is none of the products of PyTorch's lists
        product: Tensor = einsum("...i,oij,...j->...o", x1, w, x2)
    return product if b is None else product + b
