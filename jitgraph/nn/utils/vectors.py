"""All parameters as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable

from jitgraph.autograd import no_grad
from jitgraph.errors import ShapeError
from jitgraph.tensor import Tensor, lifting
from jitgraph.tensor.functions.manipulation import concat
from jitgraph.tensor.functions.shapes import reshape


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters in one vector."""
    return concat([reshape(p, (-1,)) for p in parameters], axis=0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set parameters from a vector, in the order of ``parameters_to_vector``; ShapeError for another size."""
    members = list(parameters)
    total = sum(math.prod(p.shape) for p in members)
    if tuple(vec.shape) != (total,):
        raise ShapeError(f"vector_to_parameters: {vec.value.type} for {total} elements of parameters")
    start = 0
    with no_grad():
        for p in members:
            size = math.prod(p.shape)
            p._rebind(lifting.cast(reshape(vec[start : start + size], p.shape).value, p.dtype))
            start += size
